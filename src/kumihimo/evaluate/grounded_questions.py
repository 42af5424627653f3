"""chunks, or pairs that speak of one thing -> questions with their answers and the words that these stand in."""

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
_MIN_TOKENS = 40  # tokens of a chunk that there is much to ask about
_COMMON_SHARE = 0.1  # share of the documents: what more of them name links nothing
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
    """A question that one passage answers, as a model writes it."""

    question: str
    answer: str
    quote: str


@dataclass(frozen=True, slots=True)
class Joined:
    """A question that takes two passages."""

    question: str
    answer: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class LinkedPair:
    """Two chunks of different documents that name the same entity."""

    entity: str
    first: Chunk
    second: Chunk


def generate_local_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: Progress | None = None
) -> GeneratedQuestions:
    """A question of each of so many chunks, of as many documents as there are, with the words that answer it as gold.

    The same chunks are chosen each time, by digest. What speaks of "the text", or quotes what does not stand there, is
    asked again; what fails is listed.
    """
    chunks = sample_chunks(snapshot, count)
    uris = _document_uris(snapshot)

    def one(chunk: Chunk) -> EvalQuestion | Missing:
        what = f"a question of {uris[chunk.document]}, characters {chunk.start:,}–{chunk.end:,}"

        def read(reply: Reply) -> EvalQuestion:
            said: Written = reply_form(Written).parse(reply)
            gold = (_locate_quote(uris, chunk, said.quote),)
            return _build_question(said.question, said.answer, gold, more={"quotes": [said.quote]})

        told = render_prompt(PROMPT, passage=chunk.index_text)
        return _try_question(what, lambda: llm(told, schema=Written, parse=read))

    short = [Missing("chunks to ask about", count, len(chunks), "the index holds no more")] * (len(chunks) < count)
    return _collect_questions(one, chunks, llm, "local", progress, short)


def generate_linked_questions(
    snapshot: Snapshot, llm: LLM, count: int, *, progress: Progress | None = None
) -> GeneratedQuestions:
    """Questions that take two chunks of different documents, which name the same entity; gold are the words of both.

    But for how the pairs are found, nothing of the graph is shown. Raises Unusable where the index has none.
    """
    pairs = pair_chunks(snapshot, count)
    uris = _document_uris(snapshot)

    def one(pair: LinkedPair) -> EvalQuestion | Missing:
        documents = [uris[chunk.document] for chunk in (pair.first, pair.second)]

        def read(reply: Reply) -> EvalQuestion:
            said: Joined = reply_form(Joined).parse(reply)
            gold = (_locate_quote(uris, pair.first, said.first), _locate_quote(uris, pair.second, said.second))
            more = {"entity": pair.entity, "quotes": [said.first, said.second]}
            return _build_question(said.question, said.answer, gold, more=more)

        told = render_prompt(
            LINKED_PROMPT, entity=pair.entity, first=pair.first.index_text, second=pair.second.index_text
        )
        what = f"a question of {documents[0]} and {documents[1]}, on {pair.entity}"
        return _try_question(what, lambda: llm(told, schema=Joined, parse=read))

    short = [Missing("pairs to ask about", count, len(pairs), "the index holds no more")] * (len(pairs) < count)
    return _collect_questions(one, pairs, llm, "linked", progress, short)


def _collect_questions(
    one: Callable[[A], EvalQuestion | Missing],
    jobs: Sequence[A],
    llm: LLM,
    what: str,
    progress: Progress | None,
    missing: list[Missing],
) -> GeneratedQuestions:
    found: dict[str, EvalQuestion] = {}
    for n, made in enumerate(map_concurrent(one, jobs, llm.workers), 1):
        if isinstance(made, Missing):
            missing = [*missing, made]
        elif question_text_key(made.text) in found:
            missing = [*missing, Missing(f"a question like “{made.text}”", 1, 0, "it was asked before")]
        else:
            found[question_text_key(made.text)] = made
        if progress:
            progress(what, n, len(jobs))
    return GeneratedQuestions(tuple(found.values()), tuple(missing))


def _try_question(what: str, ask: Callable[[], EvalQuestion]) -> EvalQuestion | Missing:
    try:
        return ask()
    except ItemFailed as failure:
        return Missing(what, 1, 0, str(failure), failed=True)


# -- what is asked about


def sample_chunks(snapshot: Snapshot, count: int) -> list[Chunk]:
    """Chunks of as many documents as there are, in an order that only the documents decide.

    Of each document one, then of each another; those of a few words come last. Raises SettingsError where none are.
    """
    rows = [(str(id), int(tokens)) for id, tokens in snapshot.table("chunks").columns("id", "tokens")]
    if not rows:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    turns: dict[tuple[str, bool], int] = defaultdict(int)
    ranked: list[tuple[bool, int, str, str]] = []
    for id, tokens in sorted(rows, key=lambda row: hash_parts("chunk", row[0])):
        document, short = id.partition(".")[0], tokens < _MIN_TOKENS
        ranked.append((short, turns[document, short], hash_parts("document", document), id))
        turns[document, short] += 1
    chosen = [id for *_, id in sorted(ranked)[:count]]
    return list(snapshot.table("chunks").get_many(chosen).values())


def pair_chunks(snapshot: Snapshot, count: int) -> list[LinkedPair]:
    """Pairs of chunks, a pair for each entity that two documents name, in an order that only the rows decide.

    What most documents name comes last. Raises Unusable where no mentions were built.
    """
    if not snapshot.db.has("mentions"):
        raise IndexUnavailable("questions that link documents need the graph: `kumi index --methods local` builds it")
    named: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    names: dict[str, str] = {}
    for id, entity, name in snapshot.table("mentions").columns("id", "entity", "name"):
        chunk = str(id).rpartition(".")[0]
        named[entity][chunk.partition(".")[0]].append(chunk)
        names.setdefault(entity, name)
    common = max(len(snapshot.table("documents")) * _COMMON_SHARE, 4)
    several = [entity for entity, places in named.items() if len(places) > 1]
    order = sorted(several, key=lambda entity: (len(named[entity]) > common, hash_parts("entity", entity)))
    return list(_iterate_pairs(snapshot, order, named, names, count))


def _iterate_pairs(
    snapshot: Snapshot,
    order: Sequence[str],
    named: Mapping[str, Mapping[str, Sequence[str]]],
    names: Mapping[str, str],
    count: int,
) -> Iterator[LinkedPair]:
    """No chunk twice, so that one long document does not stand in all of them."""
    used: set[str] = set()
    made = 0
    for entity in order:
        free = {document: [c for c in chunks if c not in used] for document, chunks in named[entity].items()}
        documents = sorted((d for d in free if free[d]), key=lambda d: hash_parts("linked", entity, d))[:2]
        if len(documents) < 2:
            continue
        if made == count:
            return
        ids = [min(free[d], key=lambda chunk: hash_parts("linked", chunk)) for d in documents]
        used.update(ids)
        first, second = snapshot.table("chunks").get_many(ids).values()
        made += 1
        yield LinkedPair(names[entity], first, second)


def _document_uris(snapshot: Snapshot) -> dict[str, str]:
    return {str(id): str(uri) for id, uri in snapshot.table("documents").columns("id", "uri")}


# -- what is made of a reply


def _build_question(text: str, answer: str, gold: tuple[Gold, ...], more: Mapping[str, object]) -> EvalQuestion:
    """Raises Malformed where it does not stand alone."""
    text, answer = strip_list_mark(text), " ".join(answer.split())
    if not question_text_key(text) or not question_text_key(answer):
        raise MalformedReply("Write a question and its answer.")
    if mentions_source_text(text):
        raise MalformedReply(
            "The question has to make sense alone: ask about the matter, not about a text or its author."
        )
    places = [f"{g.id} {g.start} {g.end}" for g in gold]
    linked = EvalQuestion(hash_parts(text, *places), text, "linked", "data", reference=answer, gold=gold, more=more)
    return linked if len(gold) > 1 else replace(linked, scope="local")


def mentions_source_text(question: str) -> bool:
    """Whether it is about what its writer was shown, which nobody sees who is asked.

    >>> [speaks_of_text(q) for q in ("What does the passage say of Oban?", "この文章で誰が来ましたか。")]
    [True, True]
    >>> speaks_of_text("Which passage leads to the harbour of Oban?")
    False
    """
    return bool(_TEXT_REFERENCE.search(question))


def _locate_quote(uris: Mapping[str, str], chunk: Chunk, quote: str) -> Gold:
    """Where the words stand, in characters of the document. Raises Malformed where they do not."""
    found = find_quote(quote, chunk.text)
    if found is None:
        raise MalformedReply(f"These words do not stand there: “{quote[:80]}”. Copy them letter by letter.")
    return Gold(uris[chunk.document], chunk.start + found[0], chunk.start + found[1])


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """Where the words stand in the text, whatever its spaces, dashes and quotation marks.

    >>> stands('“the  ferry’s late”', "Now the ferry's\\nlate.")
    (4, 20)
    >>> stands("組紐 は届く", "その組紐は\\n届く。"), stands("…", "x"), stands("not there", "here")
    ((2, 8), None, None)
    """
    for around in (_QUOTE_MARKS, _QUOTE_MARKS + ".…"):
        words = _TOKEN.findall(quote.strip(around))
        looked_for = r"\s*".join(_EQUIVALENT_MARKS.get(_plain_mark(word), re.escape(word)) for word in words)
        if any(map(str.isalnum, quote)) and (found := re.search(looked_for, text, re.I)):
            return found.span()
    return None


def _plain_mark(mark: str) -> str:
    return next((plain for plain, alike in _EQUIVALENT_MARKS.items() if re.fullmatch(alike, mark)), mark)
