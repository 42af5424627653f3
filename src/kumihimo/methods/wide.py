"""question on many documents -> points from passages that cover them, in at most four calls."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Community, Member, Mention, Report
from kumihimo.core.settings import Tokens, Window
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared import spread
from kumihimo.methods.shared.map_step import FORM_TOKENS, MAP_PROMPT, SOURCE_TOKENS, document_dates, extract_points
from kumihimo.methods.shared.ranking import hybrid_search
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion

SAMPLE_PROMPT = Path(__file__).with_name("wide_reduce.md")  # the answer prompt for points of a sample
_CALLS = 4
_POOL = 300  # passages of each search
_SAMPLE = 2000  # passages for a question about the whole corpus
_FLOOR = 0.2  # of the best score: a passage below is far from the question
_CLUSTERS, _PERIODS = 16, 8
_AGAIN = {"document": 0.5, "cluster": 0.7, "period": 0.8}  # what a passage leaves of the value of the next of its group
_LAST = 0.01  # the score of the last of a pool, relative to the best
_SHORT_TOKENS = 60  # a passage of this length counts half
_REPORT_SHARE = 0.4  # of the tokens, at most
_CALL_TOKENS = 5000  # from which another call is worth its prompt


def wide_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return at most four calls, whatever the size of the index."""
    rows = sizes.rows("chunks") + sizes.rows("reports")
    tokens = min(sizes.tokens("chunks") + sizes.tokens("reports") + rows * SOURCE_TOKENS, settings["reads"])
    most = min(_CALLS, rows)
    return QueryCost((0, most), (0, most * (sizes.prompt_tokens(MAP_PROMPT) + FORM_TOKENS) + tokens))


@declare(
    best_for="many documents together: an overview, main points, changes over time, a comparison",
    answer_prompt=SAMPLE_PROMPT,
    calls=wide_cost,
)
def wide(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    descriptions: Table[Description] | None,
    mentions: Table[Mention] | None,
    members: Table[Member] | None,
    communities: Table[Community] | None,
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

    Our own method. The passages near the question, or for a question about the whole corpus a sample of all, are taken
    by score, and a passage counts less the more of its document, of its time and of its cluster are taken: a community,
    where these are built, else a cluster of vectors. Reports that a model wrote are read as well. reads: tokens of all
    that is read, in at most four calls. window: tokens of the points.
    """
    read = _written_reports(question, reports, keyword_search, vector_search).fit(int(reads * _REPORT_SHARE), tokenizer)
    reads -= sum(item.tokens(tokenizer) + SOURCE_TOKENS for item in read)
    found = _find_passages(question, chunks, keyword_search, vector_search, tokenizer, reads)
    ids = [item.record.id for item in found]
    vectors = vector_search.vectors(chunks, ids)
    clusters = spread.cluster_vectors(vectors, _CLUSTERS)
    if question.is_on_all:  # what is typical of its cluster tells more than the words of the question
        found = [replace(item, score=item.score * (1 + clusters.get(item.record.id, (0, 0.0))[1])) for item in found]
    parts: Mapping[str, Hashable] = {id: cluster for id, (cluster, _) in clusters.items()}
    if mentions is not None and members is not None and communities:
        parts = spread.assign_communities(ids, mentions, members, communities)
    dates = document_dates(descriptions, found)
    groups = _group_passages(ids, parts, dates)
    picked = spread.spread_rows(found, groups, vectors, reads, tokenizer)
    rows = [*read, *sorted(picked, key=lambda item: (dates[item.record.id.partition(".")[0]], item.record.id))]
    calls = min(_CALLS, 1 + sum(item.tokens(tokenizer) for item in rows) // _CALL_TOKENS)
    batches = spread.split_evenly(rows, calls, tokenizer)
    points = extract_points(question.text, batches, llm, tokenizer, dates=dates)
    points = rerank(question.text, points, reranker).fit(window, tokenizer)
    covered = len({item.record.id.partition(".")[0] for item in picked})
    return replace(points, query_type=f"broad question: {len(picked):,} passages of {covered:,} documents were read")


def _find_passages(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    reads: int,
) -> list[Evidence]:
    """Return the passages near the topic of the question, with scores.

    Passages far from it are left out, unless all fit into the budget. For a question about the whole corpus a sample
    comes with them. Short passages count less.
    """
    queries = [question.wide_topic or question.text, question.text]
    near = Context.fuse(
        hybrid_search(queries, chunks, keyword_search, vector_search, pool=_POOL, meaning=1.0), (1, 0.5)
    )
    best = max((item.score for item in near), default=0.0) or 1.0
    floor = _FLOOR * best if sum(item.tokens(tokenizer) for item in near) > reads else 0.0
    scores = {item.record.id: _LAST + item.score / best for item in near if item.score >= floor}
    ids = list(scores)
    if question.is_on_all:
        ids += spread.sample_rows((id for (id,) in chunks.columns("id")), _SAMPLE)
        scores = {id: 1 + scores.get(id, 0.0) for id in ids}
    rows = chunks.get_many(ids)
    shares = {id: row.tokens / (row.tokens + _SHORT_TOKENS) for id, row in rows.items()}
    return [Evidence(chunks.name, row, scores[id] * shares[id]) for id, row in rows.items()]


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
    return Context(tuple(item for item in near if item.record.id in sizes and item.score >= _FLOOR * best))


def _group_passages(
    ids: Iterable[str], parts: Mapping[str, Hashable], dates: Mapping[str, str]
) -> dict[str, dict[Hashable, float]]:
    """Return the document, the cluster and the period of each passage."""
    periods = spread.equal_parts(dates, _PERIODS)
    groups: dict[str, dict[Hashable, float]] = {}
    for id in ids:
        document = id.partition(".")[0]
        values: Sequence[tuple[str, Hashable]] = (
            ("document", document),
            ("cluster", parts.get(id)),
            ("period", periods.get(document)),
        )
        groups[id] = {(kind, value): _AGAIN[kind] for kind, value in values if value is not None}
    return groups
