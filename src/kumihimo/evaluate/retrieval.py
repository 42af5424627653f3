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

from kumihimo.app.snapshot import KINDS, Reading
from kumihimo.core.context import Evidence
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Passage, Reference
from kumihimo.core.task import Progress
from kumihimo.core.wiring import ROOT
from kumihimo.evaluate.gold import Layout, Stretch, Wanted, stretch
from kumihimo.evaluate.measures import Ranking, catalogue, recall
from kumihimo.evaluate.records import Question, Score
from kumihimo.evaluate.run_systems import workers
from kumihimo.evaluate.systems import System
from kumihimo.llm.budget import Purse
from kumihimo.llm.concurrency import side_by_side

KS = (5, 10, 20)
READ = (2000, 4000)  # tokens within which gold is looked for
DEPTH = 1000  # chunks of a ranking at most, as TREC has it
BASELINES = ("bm25", "naive")  # without which a figure says little
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Found:
    """What one system found for one question.

    places: the chunks that its evidence was made of, each once, in the order of the evidence. tokens: of the evidence
    as it is told. failed: why there is none.
    """

    system: str
    question: str
    places: tuple[Stretch, ...] = ()
    sizes: tuple[int, ...] = ()  # tokens of each place
    tokens: int = 0
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True, slots=True)
class Follow:
    """Evidence -> the chunks, or passages of them, that it was made of; of one row once only."""

    reading: Reading
    there: Layout
    known: dict[Reference, list[str]] = field(default_factory=dict)
    passages: dict[str, tuple[Stretch, int]] = field(default_factory=dict)

    def __call__(self, items: Iterable[Evidence]) -> dict[Stretch, int]:
        """Where they stand, with the tokens of each place."""
        found: dict[Stretch, int] = {}
        for item in items:
            for id in self._ids(item):
                place, size = self._place(id)
                found.setdefault(place, size)
            if len(found) >= DEPTH:
                break
        return dict(islice(found.items(), DEPTH))

    def _ids(self, item: Evidence) -> list[str]:
        if item.table not in KINDS or item.also:  # made up for this question: its id says nothing
            return list(self._made_of(item))
        if item.reference not in self.known:
            self.known[item.reference] = list(islice(self._made_of(item), DEPTH))
        return self.known[item.reference]

    def _made_of(self, item: Evidence) -> Iterator[str]:
        if item.table == "chunks" and not item.also:
            yield item.record.id
            return
        for table, id in self.reading.sources(item):
            if table == ROOT:
                yield from self.there.held.get(id, ())
            else:
                yield id

    def _place(self, id: str) -> tuple[Stretch, int]:
        if id in self.there.chunks:
            return self.there.chunks[id], self.there.tokens[id]
        if id not in self.passages:
            record: Passage = self.reading.table("passages")[id]
            place = Stretch(id.partition(".")[0], record.start, record.end)
            self.passages[id] = place, len(self.reading.ruler(record.text))
        return self.passages[id]


def found(
    reading: Reading,
    system: System,
    questions: Sequence[Question],
    follow: Follow,
    purse: Purse,
    *,
    clock: Clock = perf_counter,
    progress: Progress | None = None,
) -> list[Found]:
    """What the system finds for each question, in their order; a question that failed has a row that says why."""

    def one(question: Question) -> Found:
        asked = replace(reading, purse=purse, held={})
        began = clock()
        try:
            context = asked.retrieve(question.text, system.method, **system.settings)
        except ItemFailed as failure:
            return Found(system.name, question.id, failed=str(failure) or type(failure).__name__)
        seconds = clock() - began
        places = follow(context)
        tokens = sum(item.tokens(reading.ruler) for item in context)
        return Found(system.name, question.id, tuple(places), tuple(places.values()), tokens, seconds)

    rows: list[Found] = []
    for row in side_by_side(one, questions, workers(reading)):
        rows.append(row)
        if progress:
            progress(system.name, len(rows), len(questions))
    return rows


# -- what was found -> measures of it


def named(places: Iterable[Stretch], meant: Sequence[Wanted], there: Layout) -> Iterator[list[str]]:
    """What each place is called: after what is wanted of it, or else after itself.

    Where whole documents are wanted, after the document that it stands in.
    """
    whole = all(one.whole for one in meant)
    by_document: dict[str, list[Wanted]] = {}
    for one in meant:
        for place in one.places:
            by_document.setdefault(place.document, []).append(one)
    for place in places:
        near = by_document.get(place.document, ())
        names = [one.name for one in near if any(place.touches(other) for other in one.places)]
        yield list(dict.fromkeys(names)) or [there.uris[place.document] if whole else there.name(place)]


def ranking(names: Iterable[Sequence[str]]) -> list[str]:
    """Each name where it comes first."""
    return list(dict.fromkeys(name for some in names for name in some))


def scores(
    row: Found, meant: Sequence[Wanted], there: Layout, ks: Sequence[int], read: Sequence[int] = READ
) -> Iterator[Score]:
    """All measures of what one system found for one question; of what failed none, and why."""
    names = list(named(row.places, meant, there))
    gold = [one.name for one in meant]
    if row.failed:
        yield from (Score(name, row.system, row.question, None, row.failed) for name in columns(ks, read))
        return
    yield from measured(row.system, row.question, ranking(names), gold, ks)
    for tokens in read:
        value = recall(within(names, row.sizes, tokens), gold, DEPTH)
        yield Score(_read(tokens), row.system, row.question, value)
    yield Score("tokens", row.system, row.question, row.tokens)
    yield Score("chunks", row.system, row.question, len(row.places))


def measured(system: str, question: str, order: Ranking, gold: Sequence[str], ks: Sequence[int]) -> Iterator[Score]:
    """The measures of one ranking. The detail of MRR: the place of each piece of gold."""
    at = {name: place for place, name in enumerate(order, 1)}
    for name, measure in catalogue(ks).items():
        detail = {"places": {one: at.get(one) for one in gold}} if name == "MRR" else {}
        yield Score(name, system, question, measure(order, gold), detail=detail)


def within(names: Iterable[Sequence[str]], sizes: Iterable[int], tokens: int) -> list[str]:
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
    return ranking(kept)


def columns(ks: Sequence[int], read: Sequence[int] = READ) -> list[str]:
    """The names of all scores of one question."""
    return [*catalogue(ks), *map(_read, read), "tokens", "chunks"]


def _read(tokens: int) -> str:
    return f"recall@{tokens}tokens"


# -- questions -> systems


@dataclass(frozen=True, slots=True)
class Mean:
    """Of one measure over questions: with where it lies, 95 of 100 times (drawn by clusters of questions)."""

    value: float
    low: float
    high: float
    n: int


def means(rows: Iterable[Score], questions: Iterable[Question]) -> dict[str, dict[str, Mean]]:
    """By system and measure, over the questions of which there is a value."""
    from kumihimo.evaluate.statistics import interval

    cluster: Mapping[str, str] = {question.id: question.cluster for question in questions}
    held: dict[str, dict[str, list[tuple[float, str]]]] = {}
    for row in rows:
        values = held.setdefault(row.system, {}).setdefault(row.name, [])
        if row.value is not None:
            values.append((row.value, cluster.get(row.question, row.question)))
    return {
        system: {
            name: Mean(
                fmean(value for value, _ in values),
                *interval([value for value, _ in values], [of for _, of in values]),
                len(values),
            )
            for name, values in by.items()
            if values
        }
        for system, by in held.items()
    }


# -- runs that were made elsewhere


def of_run(
    system: str, rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> Iterator[Score]:
    """The measures of a run against qrels; a question that it has no ranking for counts 0, as nothing was found."""
    for question, names in gold.items():
        if names:
            yield from measured(system, question, rankings.get(question, ()), names, ks)


def translated(
    rankings: Mapping[str, Sequence[str]], meant: Mapping[str, Sequence[Wanted]], there: Layout
) -> tuple[dict[str, list[str]], int]:
    """The rankings in the names of what is wanted; and how many names the index does not know, which stay as they are.

    A name may be whatever gold may be: a document, a chunk, `uri[start,end)`.
    """
    found: dict[str, list[str]] = {}
    unknown = 0
    for question, wanted in meant.items():
        same = {one.name for one in wanted}
        said: list[list[str]] = []
        for name in rankings.get(question, ()):
            place = None if name in same else stretch(there, name)
            unknown += place is None and name not in same
            said.append([name] if place is None else next(named([place], wanted, there)))
        found[question] = ranking(said)
    return found, unknown
