"""Questions with gold and systems -> Score: recall, rank quality and tokens read.

Evidence is traced to its source chunks. A report stands for many chunks, so a ranking by position alone favours
evidence made of much text. Therefore recall is also measured within token budgets.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from statistics import fmean
from time import perf_counter

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core import errors, records, task, wiring
from kumihimo.core.context import Evidence
from kumihimo.evaluate import gold as golds, run_systems, statistics, systems
from kumihimo.evaluate.rankings import measure_ranking
from kumihimo.evaluate.records import EvalQuestion, Score, SourceSpan
from kumihimo.llm.budget import Budget
from kumihimo.llm.concurrency import map_with_progress
from kumihimo.text.question import ParsedQuestion

TOKEN_BUDGETS = (2000, 4000)  # of recall within a number of tokens
MAX_CHUNKS = 1000  # of a ranking, as in TREC
BASELINES = ("bm25", "naive")  # a figure needs them for comparison


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """The evidence of one system for one question.

    places: the unique source chunks of the evidence, in its order. tokens: of the evidence as rendered for a prompt.
    failed: the reason for missing evidence.
    """

    system: str
    question: str
    places: tuple[SourceSpan, ...] = ()
    sizes: tuple[int, ...] = ()  # tokens of each place
    tokens: int = 0
    seconds: float = 0.0
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ChunkTracer:
    """A cached lookup: evidence -> its source chunks or passages."""

    snapshot: Snapshot
    layout: golds.IndexLayout
    chunk_ids: dict[records.Reference, list[str]] = field(default_factory=dict)
    passages: dict[str, tuple[SourceSpan, int]] = field(default_factory=dict)

    def __call__(self, items: Iterable[Evidence]) -> dict[SourceSpan, int]:
        """Return the source ranges with their tokens."""
        sizes: dict[SourceSpan, int] = {}
        for item in items:
            for id in self._chunk_ids(item):
                place, size = self._span_and_size(id)
                sizes.setdefault(place, size)
            if len(sizes) >= MAX_CHUNKS:
                break
        return dict(islice(sizes.items(), MAX_CHUNKS))

    def _chunk_ids(self, item: Evidence) -> list[str]:
        # an item that is built for this question has no unique id
        if item.table not in self.snapshot.record_types or item.duplicates:
            return list(self._trace_chunks(item))
        if item.reference not in self.chunk_ids:
            self.chunk_ids[item.reference] = list(islice(self._trace_chunks(item), MAX_CHUNKS))
        return self.chunk_ids[item.reference]

    def _trace_chunks(self, item: Evidence) -> Iterator[str]:
        if item.table == "chunks" and not item.duplicates:
            yield item.record.id
            return
        for table, id in self.snapshot.tracer.sources(item):
            yield from self.layout.chunk_ids.get(id, ()) if table == wiring.ROOT else (id,)

    def _span_and_size(self, id: str) -> tuple[SourceSpan, int]:
        if id in self.layout.chunks:
            return self.layout.chunks[id], self.layout.tokens[id]
        if id not in self.passages:
            record: records.Passage = self.snapshot.table("passages")[id]
            place = SourceSpan(self.layout.chunks[record.chunk].uri, record.start, record.end)
            self.passages[id] = place, len(self.snapshot.tokenizer(record.text))
        return self.passages[id]


def retrieve_all(
    snapshot: Snapshot,
    system: systems.System,
    questions: Sequence[EvalQuestion],
    tracer: ChunkTracer,
    budget: Budget,
    *,
    clock: Callable[[], float] = perf_counter,
    progress: task.Progress | None = None,
) -> list[RetrievalResult]:
    """Retrieve evidence for each question, in order.

    A failed question has a row with the reason.
    """

    def retrieve_one(question: EvalQuestion) -> RetrievalResult:
        if problem := ParsedQuestion(question.text).find_problem():
            return RetrievalResult(system.name, question.id, failed=problem)
        start = clock()
        try:
            context = replace(snapshot, budget=budget).retrieve(question.text, system.method, **system.settings)
        except errors.ItemFailed as failure:
            return RetrievalResult(system.name, question.id, failed=str(failure) or type(failure).__name__)
        seconds = clock() - start
        places = tracer(context)
        tokens = sum(item.tokens(snapshot.tokenizer) for item in context)
        return RetrievalResult(system.name, question.id, tuple(places), tuple(places.values()), tokens, seconds)

    return list(map_with_progress(retrieve_one, questions, run_systems.count_workers(snapshot), system.name, progress))


# -- results -> measures


def name_places(ranking: Iterable[SourceSpan | None], passages: golds.GoldPassages) -> Iterator[list[str]]:
    """Yield the names of each place, none for an unknown one.

    A place is named after the gold passages that are found with it, else after itself. If all gold passages are whole
    documents, the place's own name is its document, and further places of that document have no name.
    """
    as_documents = all(map(golds.is_whole, passages.values()))
    missing, read, uris = list(passages), list[SourceSpan](), set[str]()
    for place in ranking:
        if place is None or (as_documents and place.uri in uris):
            yield []
            continue
        read.append(place)
        uris.add(place.uri)
        touched = [name for name in missing if any(map(place.overlaps, passages[name]))]
        complete = [name for name in touched if golds.is_found(passages[name], read)]
        missing = [name for name in missing if name not in complete]
        yield complete or [place.uri if as_documents else golds.span_name(place)]


def unique_names(names: Iterable[Sequence[str]]) -> list[str]:
    """Return each name at its first position."""
    return list(dict.fromkeys(name for group in names for name in group))


def score_result(row: RetrievalResult, passages: golds.GoldPassages, ks: Sequence[int]) -> Iterator[Score]:
    """Yield all measures of one result.

    Hit, recall and all-gold are of the first k chunks or documents, also if one holds several gold passages. A failed
    result yields empty scores with the reason.
    """
    if row.failed:
        for score in score_result(replace(row, failed=""), passages, ks):
            yield replace(score, value=None, reason=row.failed, detail={})
        return
    names = unique_names(name_places(row.places, passages))
    shares = {k: golds.found_share(row.places, passages, k) for k in ks}
    values = {f"recall@{k}": share for k, share in shares.items()}
    values |= {f"hit@{k}": float(share > 0) for k, share in shares.items()}
    values |= {f"all-gold@{k}": float(share == 1) for k, share in shares.items()}
    for score in score_ranking(row.system, row.question, names, [*passages], ks):
        yield replace(score, value=values.get(score.name, score.value))
    for tokens in TOKEN_BUDGETS:
        value = golds.found_share(places_within_tokens(row.places, row.sizes, tokens), passages)
        yield Score(f"recall@{tokens}tokens", row.system, row.question, value)
    yield Score("tokens", row.system, row.question, row.tokens)
    yield Score("chunks", row.system, row.question, len(row.places))


def score_ranking(
    system: str, question: str, order: Sequence[str], gold: Sequence[str], ks: Sequence[int]
) -> Iterator[Score]:
    """Yield the measures of one ranking.

    The detail of MRR holds the rank of each piece of gold.
    """
    ranks = {name: place for place, name in enumerate(order, 1)}
    for name, value in measure_ranking(order, gold, ks).items():
        detail = {"places": {piece: ranks.get(piece) for piece in gold}} if name == "MRR" else {}
        yield Score(name, system, question, value, detail=detail)


def places_within_tokens(places: Iterable[SourceSpan], sizes: Iterable[int], tokens: int) -> list[SourceSpan]:
    """Return the places within the token budget, reading whole places in order.

    >>> places_within_tokens([SourceSpan("a", 0, 9), SourceSpan("b", 0, 9)], [600, 1900], 2000)
    [SourceSpan(uri='a', start=0, end=9, place='')]
    """
    return [place for place, end in zip(places, accumulate(sizes), strict=True) if end <= tokens]


# -- means of systems


@dataclass(frozen=True, slots=True)
class MeasureMean:
    """The mean of a measure over questions.

    low, high: its 95 % interval, by clusters of questions.
    """

    value: float
    low: float
    high: float
    n: int


def average_measures(rows: Iterable[Score], questions: Iterable[EvalQuestion]) -> dict[str, dict[str, MeasureMean]]:
    """Average each system's measures over questions with a value."""
    clusters = {question.id: question.cluster for question in questions}
    means: dict[str, dict[str, MeasureMean]] = {}
    groups: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        means.setdefault(row.system, {})
        if row.value is not None:
            groups[row.system, row.name][row.question] = row.value
    for (system, name), values in groups.items():
        interval = statistics.bootstrap_interval(
            [*values.values()], [clusters.get(question, question) for question in values]
        )
        means[system][name] = MeasureMean(fmean(values.values()), *interval, len(values))
    return means


# -- runs of other programs


def score_run(
    system: str, rankings: Mapping[str, Sequence[str]], gold: Mapping[str, Sequence[str]], ks: Sequence[int]
) -> Iterator[Score]:
    """Yield the measures of a run against qrels.

    A question without a ranking counts 0.
    """
    for question, names in gold.items():
        if names:
            yield from score_ranking(system, question, rankings.get(question, ()), names, ks)


def translate_rankings(
    rankings: Mapping[str, Sequence[str]], passages: Mapping[str, golds.GoldPassages], layout: golds.IndexLayout
) -> tuple[dict[str, list[str]], int]:
    """Translate rankings into gold names; also return the number of unknown names.

    Unknown names stay as they are. A name may be anything that gold may be: a document, a chunk, `uri[start,end)`.
    """
    by_question: dict[str, list[str]] = {}
    unknown_count = 0
    for question, gold in passages.items():
        gold_names = gold.keys()
        names = rankings.get(question, ())
        places = [None if name in gold_names else golds.parse_span_name(layout, name) for name in names]
        unknown = [place is None and name not in gold_names for name, place in zip(names, places, strict=True)]
        unknown_count += sum(unknown)
        groups = zip(names, places, name_places(places, gold), strict=True)
        by_question[question] = unique_names([name] if place is None else found for name, place, found in groups)
    return by_question, unknown_count
