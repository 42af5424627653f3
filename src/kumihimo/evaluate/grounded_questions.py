"""Chunks, or pairs that share an entity -> questions with answers and gold quotes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import IndexUnavailable, ItemFailed, MalformedReply, SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.task import Progress
from kumihimo.evaluate.question_generation import GeneratedQuestions, Missing, question_text_key, strip_list_mark
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM
from kumihimo.llm.structured import Reply, reply_form

A = TypeVar("A")

PROMPT = Path(__file__).with_suffix(".md")
LINKED_PROMPT = PROMPT.with_name("grounded_questions_linked.md")
_MIN_TOKENS = 40  # shorter chunks come last
_COMMON_SHARE = 0.1  # of the documents: an entity in more of them comes last
_TOKEN = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|\S")
_QUOTE_MARKS = " \t\n\"'“”‘’„«»「」"
_EQUIVALENT_MARKS = {"'": "['‘’`]", '"': '["“”„«»]', "-": "[-‐‑–—]"}
_TEXT_REFERENCE = re.compile(
    r"\b(?:(?:the|this|these|both|two|that|given|provided|above|first|second)\s+)+"
    r"(?:text|passage|document|excerpt|chunk|paragraph|snippet|author)s?\b"
    r"|\baccording to the (?:text|article|context)\b"
    r"|(?:この|その|上記の|以下の|両方の|二つの)(?:文章|文書|テキスト|資料|記事|本文|一節|段落)|本文|筆者|著者は"
    r"|(?:这|這|该|該|上述|两)(?:段|篇|个|個)?(?:文章|文本|文件|段落|文字)|文中",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Written:
    """A question about one passage, as the model writes it."""

    question: str
    answer: str
    quote: str


@dataclass(frozen=True, slots=True)
class Joined:
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


def generate_local_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: Progress | None = None
) -> GeneratedQuestions:
    """Generate questions about single chunks, with quotes as gold.

    The `count` chunks come from as many documents as possible and are the same each time, chosen by digest. The model
    is asked again if a question mentions "the text" or if a quote is not in the chunk. Failures are listed.
    """
    chunks = sample_chunks(snapshot, count)
    uris = _document_uris(snapshot)

    def generate(chunk: Chunk) -> EvalQuestion | Missing:
        label = f"a question of {uris[chunk.document]}, characters {chunk.start:,}–{chunk.end:,}"

        def parse(reply: Reply) -> EvalQuestion:
            draft: Written = reply_form(Written).parse(reply)
            quotes_gold = (_locate_quote(uris, chunk, draft.quote),)
            return _build_question(draft.question, draft.answer, quotes_gold, more={"quotes": [draft.quote]})

        messages = render_prompt(PROMPT, passage=chunk.index_text)
        return _try_question(label, lambda: llm(messages, schema=Written, parse=parse))

    missing = [Missing("chunks to ask about", count, len(chunks), "the index holds no more")] * (len(chunks) < count)
    return _collect_questions(generate, chunks, llm, "local", progress, missing)


def generate_linked_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: Progress | None = None
) -> GeneratedQuestions:
    """Generate questions that need two chunks with a common entity.

    The chunks belong to different documents. The quotes of both chunks are the gold. The graph only selects the pairs;
    the model sees nothing else of it. Raises IndexUnavailable if the index has no mentions.
    """
    pairs = pair_chunks(snapshot, count)
    uris = _document_uris(snapshot)

    def generate(pair: LinkedPair) -> EvalQuestion | Missing:
        documents = [uris[chunk.document] for chunk in (pair.first, pair.second)]

        def parse(reply: Reply) -> EvalQuestion:
            draft: Joined = reply_form(Joined).parse(reply)
            gold = (_locate_quote(uris, pair.first, draft.first), _locate_quote(uris, pair.second, draft.second))
            more = {"entity": pair.entity, "quotes": [draft.first, draft.second]}
            return _build_question(draft.question, draft.answer, gold, more=more)

        messages = render_prompt(
            LINKED_PROMPT, entity=pair.entity, first=pair.first.index_text, second=pair.second.index_text
        )
        label = f"a question of {documents[0]} and {documents[1]}, on {pair.entity}"
        return _try_question(label, lambda: llm(messages, schema=Joined, parse=parse))

    missing = [Missing("pairs to ask about", count, len(pairs), "the index holds no more")] * (len(pairs) < count)
    return _collect_questions(generate, pairs, llm, "linked", progress, missing)


def _collect_questions(
    generate: Callable[[A], EvalQuestion | Missing],
    jobs: Sequence[A],
    llm: LLM,
    label: str,
    progress: Progress | None,
    missing: list[Missing],
) -> GeneratedQuestions:
    by_key: dict[str, EvalQuestion] = {}
    for n, outcome in enumerate(map_concurrent(generate, jobs, llm.workers), 1):
        if isinstance(outcome, Missing):
            missing = [*missing, outcome]
        elif question_text_key(outcome.text) in by_key:
            missing = [*missing, Missing(f"a question like “{outcome.text}”", 1, 0, "it was asked before")]
        else:
            by_key[question_text_key(outcome.text)] = outcome
        if progress:
            progress(label, n, len(jobs))
    return GeneratedQuestions(tuple(by_key.values()), tuple(missing))


def _try_question(label: str, generate: Callable[[], EvalQuestion]) -> EvalQuestion | Missing:
    try:
        return generate()
    except ItemFailed as failure:
        return Missing(label, 1, 0, str(failure), failed=True)


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
    return list(_iterate_pairs(snapshot, order, chunks_by_entity, names, count))


def _iterate_pairs(
    snapshot: Snapshot,
    order: Sequence[str],
    chunks_by_entity: Mapping[str, Mapping[str, Sequence[str]]],
    names: Mapping[str, str],
    count: int,
) -> Iterator[LinkedPair]:
    """Yield pairs with each chunk in at most one pair.

    Thus a long document does not dominate.
    """
    used: set[str] = set()
    count_so_far = 0
    for entity in order:
        unused = {
            document: [c for c in chunks if c not in used] for document, chunks in chunks_by_entity[entity].items()
        }
        documents = sorted((d for d in unused if unused[d]), key=lambda d: hash_parts("linked", entity, d))[:2]
        if len(documents) < 2:
            continue
        if count_so_far == count:
            return
        ids = [min(unused[d], key=lambda chunk: hash_parts("linked", chunk)) for d in documents]
        used.update(ids)
        first, second = snapshot.table("chunks").get_many(ids).values()
        count_so_far += 1
        yield LinkedPair(names[entity], first, second)


def _document_uris(snapshot: Snapshot) -> dict[str, str]:
    return {str(id): str(uri) for id, uri in snapshot.table("documents").columns("id", "uri")}


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
    places = [f"{g.id} {g.start} {g.end}" for g in gold]
    question = EvalQuestion(hash_parts(text, *places), text, "linked", "data", reference=answer, gold=gold, more=more)
    return question if len(gold) > 1 else replace(question, scope="local")


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
    span = find_quote(quote, chunk.text)
    if span is None:
        raise MalformedReply(f"These words do not stand there: “{quote[:80]}”. Copy them letter by letter.")
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
