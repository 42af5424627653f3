"""questions with gold x systems -> Score: how much of what was meant is found, how early, and how much is read for it.

What a method finds is followed to the chunks it was made of. A report stands for many of them, so that a ranking of
places alone favours what is made of much: there are measures cut at so many tokens, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from time import perf_counter

from kumihimo.app.snapshot import RECORD_TYPES, Snapshot
from kumihimo.core.context import Evidence
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Passage, Reference
from kumihimo.core.task import Progress
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.gold import DocumentSpan, GoldPassage, IndexLayout, parse_span_name
from kumihimo.evaluate.measures import Ranking, measures_at, recall
from kumihimo.evaluate.records import EvalQuestion, Score
from kumihimo.evaluate.run_systems import count_workers
from kumihimo.evaluate.systems import System
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_concurrent

KS = (5, 10, 20)
TOKEN_BUDGETS = (2000, 4000)  # tokens within which gold is looked for
MAX_CHUNKS = 1000  # chunks of a ranking at most, as TREC has it
BASELINES = ("bm25", "naive")  # without which a figure says little
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What one system found for one question.

    places: the chunks that its evidence was made of, each once, in the order of the evidence. tokens: of the evidence
    as it is told. failed: why there is none.
    """

    system: str
    question: str
    places: tuple[DocumentSpan, ...] = ()
    sizes: tuple[int, ...] = ()  # tokens of each place
    tokens: int = 0
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ChunkTracer:
    """Evidence -> the chunks, or passages of them, that it was made of; of one row once only."""

    snapshot: Snapshot
    layout: IndexLayout
    chunk_ids: dict[Reference, list[str]] = field(default_factory=dict)
    passages: dict[str, tuple[DocumentSpan, int]] = field(default_factory=dict)

    def __call__(self, items: Iterable[Evidence]) -> dict[DocumentSpan, int]:
        """Where they stand, with the tokens of each place."""
        found: dict[DocumentSpan, int] = {}
        for item in items:
            for id in self._chunk_ids(item):
                place, size = self._span_and_size(id)
                found.setdefault(place, size)
            if len(found) >= MAX_CHUNKS:
                break
        return dict(islice(found.items(), MAX_CHUNKS))

    def _chunk_ids(self, item: Evidence) -> list[str]:
        if item.table not in RECORD_TYPES or item.duplicates:  # made up for this question: its id says nothing
            return list(self._trace_chunks(item))
        if item.reference not in self.chunk_ids:
            self.chunk_ids[item.reference] = list(islice(self._trace_chunks(item), MAX_CHUNKS))
        return self.chunk_ids[item.reference]

    def _trace_chunks(self, item: Evidence) -> Iterator[str]:
        if item.table == "chunks" and not item.duplicates:
            yield item.record.id
            return
        for table, id in self.snapshot.sources(item):
            if table == ROOT:
                yield from self.layout.chunk_ids.get(id, ())
            else:
                yield id

    def _span_and_size(self, id: str) -> tuple[DocumentSpan, int]:
        if id in self.layout.chunks:
            return self.layout.chunks[id], self.layout.tokens[id]
        if id not in self.passages:
            record: Passage = self.snapshot.table("passages")[id]
            place = DocumentSpan(id.partition(".")[0], record.start, record.end)
            self.passages[id] = place, len(self.snapshot.tokenizer(record.text))
        return self.passages[id]


def retrieve_all(
    snapshot: Snapshot,
    system: System,
    questions: Sequence[EvalQuestion],
    follow: ChunkTracer,
    budget: Budget,
    *,
    clock: Clock = perf_counter,
    progress: Progress | None = None,
) -> list[RetrievalResult]:
    """What the system finds for each question, in their order; a question that failed has a row that says why."""

    def one(question: EvalQuestion) -> RetrievalResult:
        asked = replace(snapshot, budget=budget, lazy_rows={})
        began = clock()
        try:
            context = asked.retrieve(question.text, system.method, **system.settings)
        except ItemFailed as failure:
            return RetrievalResult(system.name, question.id, failed=str(failure) or type(failure).__name__)
        seconds = clock() - began
        places = follow(context)
        tokens = sum(item.tokens(snapshot.tokenizer) for item in context)
        return RetrievalResult(system.name, question.id, tuple(places), tuple(places.values()), tokens, seconds)

    rows: list[RetrievalResult] = []
    for row in map_concurrent(one, questions, count_workers(snapshot)):
        rows.append(row)
        if progress:
            progress(system.name, len(rows), len(questions))
    return rows


# -- what was found -> measures of it


def name_places(
    places: Iterable[DocumentSpan], passages: Sequence[GoldPassage], layout: IndexLayout
) -> Iterator[list[str]]:
    """What each place is called: after what is wanted of it, or else after itself.

    Where whole documents are wanted, after the document that it stands in.
    """
    whole = all(one.is_document for one in passages)
    by_document: dict[str, list[GoldPassage]] = {}
    for one in passages:
        for place in one.places:
            by_document.setdefault(place.document, []).append(one)
    for place in places:
        near = by_document.get(place.document, ())
        names = [one.name for one in near if any(place.overlaps(other) for other in one.places)]
        yield list(dict.fromkeys(names)) or [layout.uris[place.document] if whole else layout.span_name(place)]


def unique_names(names: Iterable[Sequence[str]]) -> list[str]:
    """Each name where it comes first."""
    return list(dict.fromkeys(name for some in names for name in some))


def score_result(
    row: RetrievalResult,
    passages: Sequence[GoldPassage],
    layout: IndexLayout,
    ks: Sequence[int],
    token_budgets: Sequence[int] = TOKEN_BUDGETS,
) -> Iterator[Score]:
    """All measures of what one system found for one question; of what failed none, and why."""
    names = list(name_places(row.places, passages, layout))
    gold = [one.name for one in passages]
    if row.failed:
        yield from (Score(name, row.system, row.question, None, row.failed) for name in score_names(ks, token_budgets))
        return
    yield from score_ranking(row.system, row.question, unique_names(names), gold, ks)
    for tokens in token_budgets:
        value = recall(names_within_tokens(names, row.sizes, tokens), gold, MAX_CHUNKS)
        yield Score(_recall_name(tokens), row.system, row.question, value)
    yield Score("tokens", row.system, row.question, row.tokens)
    yield Score("chunks", row.system, row.question, len(row.places))


def score_ranking(
    system: str, question: str, order: Ranking, gold: Sequence[str], ks: Sequence[int]
) -> Iterator[Score]:
    """The measures of one ranking. The detail of MRR: the place of each piece of gold."""
    at = {name: place for place, name in enumerate(order, 1)}
    for name, measure in measures_at(ks).items():
        detail = {"places": {one: at.get(one) for one in gold}} if name == "MRR" else {}
        yield Score(name, system, question, measure(order, gold), detail=detail)


def names_within_tokens(names: Iterable[Sequence[str]], sizes: Iterable[int], tokens: int) -> list[str]:
    """What stands within the first so many tokens, if one reads place after place, each whole.

    >>> within([["a"], ["b"], ["c"]], [600, 900, 600], 2000)
    ['a', 'b']
    """
    kept: list[Sequence[str]] = []
    for some, size in zip(names, sizes, strict=True):
        tokens -= size
        if tokens < 0:
            break
        kept.append(some)
    return unique_names(kept)


def score_names(ks: Sequence[int], token_budgets: Sequence[int] = TOKEN_BUDGETS) -> list[str]:
    """The names of all scores of one question."""
    return [*measures_at(ks), *map(_recall_name, token_budgets), "tokens", "chunks"]


def _recall_name(tokens: int) -> str:
    return f"recall@{tokens}tokens"


# -- questions -> systems


@dataclass(frozen=True, slots=True)
class MeasureMean:
    """Of one measure over questions: with where it lies, 95 of 100 times (drawn by clusters of questions)."""

    value: float
    low: float
    high: float
    n: int


def average_measures(rows: Iterable[Score], questions: Iterable[EvalQuestion]) -> dict[str, dict[str, MeasureMean]]:
    """By system and measure, over the questions of which there is a value."""
    from kumihimo.evaluate.statistics import bootstrap_interval

    cluster: Mapping[str, str] = {question.id: question.cluster for question in questions}
    held: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for row in rows:
        values = held.setdefault(row.system, {}).setdefault(row.name, [])
        if row.value is not None:
            values.append((row.value, cluster.get(row.question, row.question)))
    return {
        system: {
            name: MeasureMean(
                fmean(value for value, _ in values),
                *bootstrap_interval([value for value, _ in values], [of for _, of in values]),
                len(values),
            )
            for name, values in by.items()
            if values
        }
        for system, by in held.items()
    }


# -- runs that were made elsewhere


def score_run(
    system: str, rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> Iterator[Score]:
    """The measures of a run against qrels; a question that it has no ranking for counts 0, as nothing was found."""
    for question, names in gold.items():
        if names:
            yield from score_ranking(system, question, rankings.get(question, ()), names, ks)


def translate_rankings(
    rankings: Mapping[str, Sequence[str]], passages: Mapping[str, Sequence[GoldPassage]], layout: IndexLayout
) -> tuple[dict[str, list[str]], int]:
    """The rankings in the names of what is wanted; and how many names the index does not know, which stay as they are.

    A name may be whatever gold may be: a document, a chunk, `uri[start,end)`.
    """
    found: dict[str, list[str]] = {}
    unknown = 0
    for question, wanted in passages.items():
        same = {one.name for one in wanted}
        said: list[list[str]] = []
        for name in rankings.get(question, ()):
            place = None if name in same else parse_span_name(layout, name)
            unknown += place is None and name not in same
            said.append([name] if place is None else next(name_places([place], wanted, layout)))
        found[question] = unique_names(said)
    return found, unknown
