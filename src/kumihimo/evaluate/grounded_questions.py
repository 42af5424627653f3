"""An index -> a description of its documents, and questions with answers and gold quotes from its chunks."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core import table, task
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk, Report
from kumihimo.evaluate.judging.verdicts import truncate_tokens
from kumihimo.evaluate.question_generation import GeneratedQuestions, Missing, question_text_key, strip_list_mark
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.llm import concurrency, prompts
from kumihimo.llm.protocols import LLM, Messages, Reply

DESCRIPTION_PROMPT = Path(__file__).with_name("corpus_description.md")
DescriptionSource = Literal["documents", "reports", "summaries"]
SAMPLE_TOKENS = 8000
_PIECE_TOKENS = 250
_REQUIRED_METHODS = {"reports": "global", "summaries": "meta"}  # the method whose index has them


def draft_description(pieces: Sequence[str], llm: LLM) -> str:
    """Describe the documents from these pieces by one LLM call.

    A person should review the draft. Raises ItemFailed if the reply is unusable.
    """
    return llm(prompts.render_prompt(DESCRIPTION_PROMPT, pieces=prompts.number_sources(sorted(pieces)))).strip()


def sample_pieces(snapshot: Snapshot, source: DescriptionSource = "documents", size: int = SAMPLE_TOKENS) -> list[str]:
    """Sample pieces of the index, up to `size` tokens in all.

    documents: pieces of their text at even distances, so that a document of twice the length gives twice as many.
    reports, summaries: the generated texts of the index; such a description favours the methods that use them. Raises
    SettingsError if the index holds no text.
    """
    if source == "documents":
        texts, room = _sample_chunks(snapshot.table("chunks"), size), _PIECE_TOKENS
    else:
        texts = _generated_texts(snapshot, source)
        room = max(size // max(len(texts), 1), _PIECE_TOKENS)  # an equal share of the tokens
        texts = [text for text in texts[: max(size // room, 1)] if text.strip()]
    if not texts:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    return [truncate_tokens(text, snapshot.tokenizer, room) for text in texts]


def _sample_chunks(chunks: table.Table[Chunk], size: int) -> list[str]:
    lengths = {str(id): int(tokens) for id, tokens in chunks.columns("id", "tokens") if tokens}
    ids = pick_evenly_by_length(list(lengths), list(lengths.values()), max(size // _PIECE_TOKENS, 1))
    return [f"{chunk.title}\n{chunk.text}".strip() for chunk in (chunks[id] for id in ids)]


def pick_evenly_by_length(items: Sequence[str], lengths: Sequence[int], count: int) -> list[str]:
    """Pick items at even distances over their total length.

    >>> pick_evenly_by_length(["long", "short", "shorter"], [80, 30, 10], 2)  # at 30 and 90 of 120
    ['long', 'short']
    >>> pick_evenly_by_length(["long", "short", "shorter"], [80, 30, 10], 9)
    ['long', 'short', 'shorter']
    """
    if count >= len(items):
        return list(items)
    ends = np.cumsum(lengths)
    places = np.searchsorted(ends, (np.arange(count) + 0.5) * ends[-1] / count, side="right")
    return [items[i] for i in dict.fromkeys(places.tolist())]


def _generated_texts(snapshot: Snapshot, source: DescriptionSource) -> list[str]:
    """Return the reports or summaries of the index.

    Raises SettingsError if they were not built.
    """
    if not snapshot.db.has(source):
        raise SettingsError(
            f"the index has no {source}: `kumi index --methods {_REQUIRED_METHODS[source]}` makes them, "
            "--from documents does without"
        )
    rows: Iterable[Any] = snapshot.table(source)
    if source == "summaries":
        return [row.index_text for row in rows]
    reports: list[Report] = list(rows)
    top = min((report.level for report in reports), default=0)
    return [f"{r.title}\n{r.summary}" for r in sorted(reports, key=lambda r: (-r.rating, r.id)) if r.level == top]


# -- questions

LOCAL_PROMPT = Path(__file__).with_name("grounded_questions.md")
LINKED_PROMPT = Path(__file__).with_name("grounded_questions_linked.md")
_MIN_TOKENS = 40  # shorter chunks come last
_COMMON_SHARE = 0.1  # of the documents: an entity in more of them comes last
_TOKEN = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|\S")
_QUOTE_MARKS = " \t\n\"'“”‘’„«»「」"
_EQUIVALENT_MARKS = {"'": "['‘’`]", '"': '["“”„«»]', "-": "[-‐‑–—]"}
_TEXT_REFERENCE = re.compile(
    r"\b(?:(?:the|this|these|both|two|that|given|provided|above|first|second)\s+){1,4}"
    r"(?:text|passage|document|excerpt|chunk|paragraph|snippet|author)s?\b"
    r"|\baccording to the (?:text|article|context)\b"
    r"|(?:この|その|上記の|以下の|両方の|二つの)(?:文章|文書|テキスト|資料|記事|本文|一節|段落)|本文|筆者|著者は"
    r"|(?:这|這|该|該|上述|两)(?:段|篇|个|個)?(?:文章|文本|文件|段落|文字)|文中",
    re.I,
)


@dataclass(frozen=True, slots=True)
class PassageQuestion:
    """A question about one passage, as the model writes it."""

    question: str
    answer: str
    quote: str


@dataclass(frozen=True, slots=True)
class LinkedQuestion:
    """A question about two passages, as the model writes it."""

    question: str
    answer: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class LinkedPair:
    """A pair of chunks of different documents with a common entity."""

    entity: str
    first: Chunk
    second: Chunk


@dataclass(frozen=True, slots=True)
class _QuestionJob:
    """A request for one question.

    quote_fields: the fields of the reply with a quote of each chunk. more: of the question.
    """

    label: str
    messages: Messages
    form: Any  # PassageQuestion or LinkedQuestion
    quote_fields: Sequence[str]
    chunks: Sequence[Chunk]
    more: Mapping[str, object] = field(default_factory=dict)


def generate_local_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: task.Progress | None = None
) -> GeneratedQuestions:
    """Generate questions about single chunks, with quotes as gold.

    The `count` chunks come from as many documents as possible and are the same each time, chosen by digest. The model
    is asked again if a question mentions "the text" or if a quote is not in the chunk. Failures are listed.
    """
    uris = {str(id): str(uri) for id, uri in snapshot.table("documents").columns("id", "uri")}
    jobs: list[_QuestionJob] = []
    for chunk in sample_chunks(snapshot, count):
        label = f"a question of {uris[chunk.document]}, characters {chunk.start:,}–{chunk.end:,}"
        messages = prompts.render_prompt(LOCAL_PROMPT, passage=chunk.index_text)
        jobs.append(_QuestionJob(label, messages, PassageQuestion, ["quote"], [chunk]))
    return _generate_questions(uris, jobs, llm, count, "local", "chunks", progress)


def generate_linked_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: task.Progress | None = None
) -> GeneratedQuestions:
    """Generate questions that need two chunks with a common entity.

    The chunks belong to different documents. The quotes of both chunks are the gold. The graph only selects the pairs;
    the model sees nothing else of it. Raises IndexUnavailable if the index has no mentions.
    """
    uris = {str(id): str(uri) for id, uri in snapshot.table("documents").columns("id", "uri")}
    jobs: list[_QuestionJob] = []
    for pair in pair_chunks(snapshot, count):
        label = f"a question of {uris[pair.first.document]} and {uris[pair.second.document]}, on {pair.entity}"
        passages = {"first": pair.first.index_text, "second": pair.second.index_text}
        messages = prompts.render_prompt(LINKED_PROMPT, entity=pair.entity, **passages)
        chunks, more = [pair.first, pair.second], {"entity": pair.entity}
        jobs.append(_QuestionJob(label, messages, LinkedQuestion, ["first", "second"], chunks, more))
    return _generate_questions(uris, jobs, llm, count, "linked", "pairs", progress)


def _generate_questions(
    uris: Mapping[str, str],
    jobs: Sequence[_QuestionJob],
    llm: LLM,
    count: int,
    label: str,
    noun: str,
    progress: task.Progress | None,
) -> GeneratedQuestions:
    def generate(job: _QuestionJob) -> EvalQuestion | Missing:
        def parse(reply: Reply) -> EvalQuestion:
            draft = prompts.reply_form(job.form).parse(reply)
            quotes = [getattr(draft, name) for name in job.quote_fields]
            gold = tuple(_locate_quote(uris, chunk, quote) for chunk, quote in zip(job.chunks, quotes, strict=True))
            return _build_question(draft.question, draft.answer, gold, more={**job.more, "quotes": quotes})

        try:
            return cast(EvalQuestion, llm(job.messages, schema=job.form, parse=parse))
        except ItemFailed as failure:
            return Missing(job.label, 1, 0, str(failure), failed=True)

    missing = [Missing(f"{noun} to ask about", count, len(jobs), "the index holds no more")] * (len(jobs) < count)
    by_key: dict[str, EvalQuestion] = {}
    for outcome in concurrency.map_with_progress(generate, jobs, llm.workers, label, progress):
        if isinstance(outcome, Missing):
            missing.append(outcome)
        elif question_text_key(outcome.text) in by_key:
            missing.append(Missing(f"a question like “{outcome.text}”", 1, 0, "it was asked before"))
        else:
            by_key[question_text_key(outcome.text)] = outcome
    return GeneratedQuestions(tuple(by_key.values()), tuple(missing))


# -- selection


def sample_chunks(snapshot: Snapshot, count: int) -> list[Chunk]:
    """Pick chunks from as many documents as possible in a fixed order.

    One chunk of each document comes first, then a second of each; very short chunks come last. Raises SettingsError if
    the index has no chunks.
    """
    rows = [(str(id), int(tokens)) for id, tokens in snapshot.table("chunks").columns("id", "tokens")]
    if not rows:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    picked_by_document: dict[tuple[str, bool], int] = defaultdict(int)
    ranked: list[tuple[bool, int, str, str]] = []
    for id, tokens in sorted(rows, key=lambda row: hash_parts("chunk", row[0])):
        document, short = id.partition(".")[0], tokens < _MIN_TOKENS
        ranked.append((short, picked_by_document[document, short], hash_parts("document", document), id))
        picked_by_document[document, short] += 1
    ids = [id for *_, id in sorted(ranked)[:count]]
    return list(snapshot.table("chunks").get_many(ids).values())


def pair_chunks(snapshot: Snapshot, count: int) -> list[LinkedPair]:
    """Return one pair of chunks for each shared entity.

    The order is fixed. Entities in very many documents come last. Raises IndexUnavailable if the index has no
    mentions.
    """
    if not snapshot.db.has("mentions"):
        raise IndexUnavailable("questions that link documents need the graph: `kumi index --methods local` builds it")
    chunks_by_entity: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    names: dict[str, str] = {}
    for id, entity, name in snapshot.table("mentions").columns("id", "entity", "name"):
        chunk = str(id).rpartition(".")[0]
        chunks_by_entity[entity][chunk.partition(".")[0]].append(chunk)
        names.setdefault(entity, name)
    limit = max(len(snapshot.table("documents")) * _COMMON_SHARE, 4)
    shared = [entity for entity, places in chunks_by_entity.items() if len(places) > 1]
    order = sorted(shared, key=lambda entity: (len(chunks_by_entity[entity]) > limit, hash_parts("entity", entity)))
    used: set[str] = set()  # each chunk occurs once, so that a long document does not dominate
    pairs: list[LinkedPair] = []
    for entity in order:
        if len(pairs) == count:
            break
        unused = {d: [c for c in ids if c not in used] for d, ids in chunks_by_entity[entity].items()}
        documents = sorted((d for d in unused if unused[d]), key=lambda d: hash_parts("linked", entity, d))[:2]
        if len(documents) == 2:
            ids = [min(unused[document], key=lambda chunk: hash_parts("linked", chunk)) for document in documents]
            used.update(ids)
            pairs.append(LinkedPair(names[entity], *snapshot.table("chunks").get_many(ids).values()))
    return pairs


# -- replies


def _build_question(text: str, answer: str, gold: tuple[Gold, ...], more: Mapping[str, object]) -> EvalQuestion:
    """Build the question.

    Raises MalformedReply if it does not make sense alone.
    """
    text, answer = strip_list_mark(text), " ".join(answer.split())
    if not question_text_key(text) or not question_text_key(answer):
        raise MalformedReply("Write a question and its answer.")
    if mentions_source_text(text):
        raise MalformedReply(
            "The question has to make sense alone: ask about the matter, not about a text or its author."
        )
    id = hash_parts(text, *(f"{g.id} {g.start} {g.end}" for g in gold))
    scope: Any = "linked" if len(gold) > 1 else "local"
    return EvalQuestion(id, text, scope, "data", reference=answer, gold=gold, more=more)


def mentions_source_text(question: str) -> bool:
    """Return whether a question mentions the passage that its writer saw.

    >>> [mentions_source_text(q) for q in ("What does the passage say of Oban?", "この文章で誰が来ましたか。")]
    [True, True]
    >>> mentions_source_text("Which passage leads to the harbour of Oban?")
    False
    """
    return bool(_TEXT_REFERENCE.search(question))


def _locate_quote(uris: Mapping[str, str], chunk: Chunk, quote: str) -> Gold:
    """Return the range of a quote in its document.

    Raises MalformedReply if the chunk does not contain it.
    """
    if (span := find_quote(quote, chunk.text)) is None:
        raise MalformedReply("The words of a quote do not stand in the passage. Copy them letter by letter.")
    return Gold(uris[chunk.document], chunk.start + span[0], chunk.start + span[1])


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    r"""Return the range of a quote in a text.

    Spaces, dashes and quotation marks may differ.

    >>> find_quote('“the  ferry’s late”', "Now the ferry's\nlate.")
    (4, 20)
    >>> find_quote("組紐 は届く", "その組紐は\n届く。"), find_quote("…", "x"), find_quote("not there", "here")
    ((2, 8), None, None)
    """
    for marks in (_QUOTE_MARKS, _QUOTE_MARKS + ".…"):
        words = _TOKEN.findall(quote.strip(marks))
        pattern = r"\s*".join(_EQUIVALENT_MARKS.get(_plain_mark(word), re.escape(word)) for word in words)
        if any(map(str.isalnum, quote)) and (match := re.search(pattern, text, re.I)):
            return match.span()
    return None


def _plain_mark(mark: str) -> str:
    return next((plain for plain, variants in _EQUIVALENT_MARKS.items() if re.fullmatch(variants, mark)), mark)
