"""question on many documents -> points from passages that cover them, in at most four calls."""

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from statistics import quantiles

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Report
from kumihimo.core.settings import Tokens, Window
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared import map_step, spread
from kumihimo.methods.shared.ranking import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import subject_terms

_CALLS = 4
_POOL = 300  # passages of each search
_SAMPLE = 2000  # passages for a question about the whole corpus
_FLOOR = 0.4  # of the way from the last quarter of a search to its best: a passage below is far from the question
_FIRST, _NEAR = 0.25, 0.3  # shares of the tokens for the first hits of the whole question, and for hits above any floor
_REPORT_FLOOR = 0.2  # of the best score
_CLUSTERS, _PERIODS = 16, 8
_NAME_WEIGHT = 0.5  # of the name of a document, for its first passage
_PER_DOCUMENT, _WANTED = 4, 40  # most passages of a document, or more, if so many are not there otherwise
_OUTSIDE = 0.3  # what a date outside the period of the question leaves of a score
_AGAIN = {
    "document": 0.5,
    "cluster": 0.7,
    "period": 0.8,
    "aspect": 0.9,
}  # what a passage leaves of the value of the next of its group
_LAST = 0.01  # the score of the last of a pool, relative to the best
_SHORT_TOKENS = 60  # a passage of this length counts half
_REPORT_SHARE = 0.4  # of the tokens, at most
_MIN_POINT = 20  # the score of mere background
_SAME_SHARE = 0.7  # of the words of two points, from which they say the same
_CALL_TOKENS = 5000  # from which another call is worth its prompt


def wide_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return at most four calls, whatever the size of the index."""
    rows = sizes.rows("chunks") + sizes.rows("reports")
    tokens = min(sizes.tokens("chunks") + sizes.tokens("reports") + rows * map_step.SOURCE_TOKENS, settings["reads"])
    most = min(_CALLS, rows)
    return QueryCost((0, most), (0, most * (sizes.prompt_tokens(map_step.MAP_PROMPT) + map_step.FORM_TOKENS) + tokens))


@declare(
    best_for="many documents together: an overview, main points, changes over time, a comparison",
    answer_prompt=map_step.REDUCE_PROMPT,
    calls=wide_cost,
)
def wide(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    descriptions: Table[Description] | None,
    reports: Table[Report] | None,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM,
    rerank: Reranker,
    *,
    reads: Tokens = 20000,
    window: Window = 4000,
    reranker: RerankerName = "none",
) -> Context:
    """Extract points from passages that cover documents, dates and clusters.

    Our own method. The passages near the question and near each aspect that it lists, or for a question about the whole
    corpus a sample of all, are taken by score, and a passage counts less the more of its document, of its time, of its
    aspect and of its cluster of vectors are taken. Reports that a model wrote are read as well. reads: tokens of all
    that is read, in at most four calls. window: tokens of the points.
    """
    read = _written_reports(question, reports, keyword_search, vector_search).fit(int(reads * _REPORT_SHARE), tokenizer)
    reads -= sum(item.tokens(tokenizer) + map_step.SOURCE_TOKENS for item in read)
    found, aspects = _find_passages(question, chunks, descriptions, keyword_search, vector_search, tokenizer, reads)
    ids = [item.record.id for item in found]
    vectors = vector_search.vectors(chunks, ids)
    clusters = spread.cluster_vectors(vectors, _CLUSTERS)
    if question.is_on_all:  # what is typical of its cluster tells more than the words of the question
        found = [replace(item, score=item.score * (1 + clusters.get(item.record.id, (0, 0.0))[1])) for item in found]
    dates = map_step.document_dates(descriptions, found)
    inside = {id: date for id, date in dates.items() if _is_inside(date, question)}
    found = [item if _document(item) in inside else replace(item, score=item.score * _OUTSIDE) for item in found]
    groups = _group_passages(ids, {id: cluster for id, (cluster, _) in clusters.items()}, aspects, inside)
    picked = spread.spread_rows(found, groups, vectors, reads, tokenizer)
    rows = [*read, *sorted(picked, key=lambda item: (dates[_document(item)], item.record.id))]
    calls = min(_CALLS, 1 + sum(item.tokens(tokenizer) for item in rows) // _CALL_TOKENS)
    batches = spread.split_evenly(rows, calls, tokenizer)
    points = map_step.extract_points(question.text, batches, llm, tokenizer, dates=dates)
    points = rerank(question.text, Context(tuple(_merge_points(points, tokenizer))), reranker).fit(window, tokenizer)
    if question.asks_change:
        points = Context(tuple(sorted(points, key=lambda item: _first_date(item, dates))))
    covered = len({_document(item) for item in picked})
    return replace(points, query_type=f"broad question: {len(picked):,} passages of {covered:,} documents were read")


def _find_passages(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    descriptions: Table[Description] | None,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    reads: int,
) -> tuple[list[Evidence], Mapping[str, int]]:
    """Return the passages near the topic, and the aspect of each.

    Each aspect that the question lists is searched for, too. Passages far from all are left out, unless all fit into
    the budget or are among the first. For a question about the whole corpus a sample comes with them. Short passages
    count less.
    """
    queries = [question.wide_topic or question.text, *question.aspects, question.text]
    *near, text = [
        Context.fuse((keyword_search(chunks, query, k=_POOL), hits), (1, _contrast(hits)))
        for query, hits in zip(queries, vector_search.search_many(chunks, queries, k=_POOL), strict=True)
    ]
    near[0] = Context.fuse((near[0], text), (1, 0.5))
    has_room = sum(item.tokens(tokenizer) for item in Context.fuse(near)) <= reads
    scores: dict[str, float] = {}
    aspects: dict[str, int] = {}
    for aspect, (query, ranking) in enumerate(zip(queries, near, strict=False)):
        named = _find_named(query, descriptions, keyword_search)
        sure = len(ranking) if has_room else len(ranking.fit(int(_NEAR * reads / len(near)), tokenizer))
        for id, score in chain(_scores_above_floor(ranking, sure), named):
            if score > scores.get(id, 0.0):
                scores[id], aspects[id] = score, aspect
    for item in text.evidence[: len(text.fit(int(_FIRST * reads), tokenizer))]:
        scores[item.record.id] = max(1.0, scores.get(item.record.id, 0.0))
        aspects.setdefault(item.record.id, 0)
    ids = list(scores) if has_room else _limit_documents(scores)
    if question.is_on_all:
        ids += spread.sample_rows((id for (id,) in chunks.columns("id")), _SAMPLE)
        scores = {id: 1 + scores.get(id, 0.0) for id in ids}
    rows = chunks.get_many(ids)
    shares = {id: row.tokens / (row.tokens + _SHORT_TOKENS) for id, row in rows.items()}
    return [Evidence(chunks.name, row, scores[id] * shares[id]) for id, row in rows.items()], aspects


def _limit_documents(scores: Mapping[str, float]) -> list[str]:
    """Return the ids of the best passages of each document."""
    by_document: dict[str, list[str]] = {}
    for id in sorted(scores, key=lambda id: (-scores[id], id)):
        by_document.setdefault(id.partition(".")[0], []).append(id)
    most = max(_PER_DOCUMENT, _WANTED // max(len(by_document), 1))
    return [id for ids in by_document.values() for id in ids[:most]]


def _find_named(
    query: str, descriptions: Table[Description] | None, keyword_search: KeywordSearch
) -> Iterator[tuple[str, float]]:
    """Yield the first passages of documents by their names and folders.

    A word in the names of most documents tells none from others.
    """
    if descriptions is None or not (hits := keyword_search(descriptions, query, k=_POOL).evidence):
        return
    best = hits[0].score
    floor = (best + (hits[-1].score if len(hits) > len(descriptions) / 4 else 0.0)) / 2
    yield from ((f"{item.record.id}.00000", _NAME_WEIGHT * item.score / best) for item in hits if item.score > floor)


def _contrast(hits: Context) -> float:
    """Return how clearly a search tells its hits apart, up to 1."""
    scores = [item.score for item in hits]
    return min(1.0, 2 * (max(scores) - min(scores)) / (max(scores) or 1.0)) if scores else 0.0


def _scores_above_floor(ranking: Context, sure: int) -> Iterator[tuple[str, float]]:
    """Yield the ids near the query, with scores up to 1.

    The last quarter of a pool is far from the query. sure: the number of first hits that are near in any case.
    """
    scores = [item.score for item in ranking]
    best, far = max(scores, default=0.0), min(scores, default=0.0) if len(scores) < 4 else quantiles(scores)[0]
    floor = far + _FLOOR * (best - far)
    near = (item for rank, item in enumerate(ranking) if item.score >= floor or rank < sure)
    yield from ((item.record.id, _LAST + item.score / (best or 1.0)) for item in near)


def _is_inside(date: str, question: ParsedQuestion) -> bool:
    """Return whether a date may be in the period of the question."""
    first, last = question.period
    return not date or (date[: len(first)] >= first and date[: len(last)] <= last)


def _document(item: Evidence) -> str:
    return item.record.id.partition(".")[0]


def _written_reports(
    question: ParsedQuestion, reports: Table[Report] | None, keyword_search: KeywordSearch, vector_search: VectorSearch
) -> Context:
    """Return the reports of a model, the best for the question first.

    For a question about the whole corpus these are the reports of the largest communities.
    """
    if reports is None:
        return Context()
    sizes = {id: (elements, id) for id, elements in reports.columns("id", "elements")}
    if not sizes:
        return Context()
    if question.is_on_all:
        largest = sorted(sizes, key=lambda id: sizes[id], reverse=True)[:_POOL]
        return Context(tuple(Evidence(reports.name, row, 1.0) for row in reports.get_many(largest).values()))
    [near] = hybrid_search([question.text], reports, keyword_search, vector_search, pool=_POOL, meaning=1.0)
    best = max((item.score for item in near), default=0.0)
    return Context(tuple(item for item in near if item.record.id in sizes and item.score >= _REPORT_FLOOR * best))


def _merge_points(points: Context, tokenizer: Tokenizer) -> Iterator[Evidence]:
    """Yield the points above the floor; points alike become one."""
    groups: list[tuple[frozenset[str], list[str], list[Evidence]]] = []
    for item in points:
        words, numbers = frozenset(subject_terms(item.text)), re.findall(r"\d+", item.text)
        alike = (group for earlier, figures, group in groups
                 if figures == numbers and len(words & earlier) >= _SAME_SHARE * len(words | earlier))  # fmt: skip
        if group := next(alike, None):
            group.append(item)
        elif item.score >= min(_MIN_POINT, points.evidence[0].score):
            groups.append((words, numbers, [item]))
    for *_, (first, *others) in groups:
        sources = dict.fromkeys(source for item in (first, *others) for source in item.record.parents())
        yield replace(first, record=map_step.make_point(first.text, tuple(sources), tokenizer)) if others else first


def _first_date(point: Evidence, dates: Mapping[str, str]) -> str:
    """Return the first date of a point; without one, the last."""
    found = [dates.get(id.partition(".")[0], "") for _, id in point.record.parents()]
    return min(filter(None, found), default="9")


def _group_passages(
    ids: Iterable[str], clusters: Mapping[str, int], aspects: Mapping[str, int], dates: Mapping[str, str]
) -> dict[str, dict[Hashable, float]]:
    """Return the document, cluster, period and aspect of each passage."""
    periods = spread.equal_parts(dates, _PERIODS)
    groups: dict[str, dict[Hashable, float]] = {}
    for id in ids:
        document = id.partition(".")[0]
        values: Sequence[tuple[str, Hashable]] = (
            ("document", document),
            ("cluster", clusters.get(id)),
            ("period", periods.get(document)),
            ("aspect", aspects.get(id)),
        )
        groups[id] = {(kind, value): _AGAIN[kind] for kind, value in values if value is not None}
    return groups
