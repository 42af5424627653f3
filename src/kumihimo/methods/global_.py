"""question -> points from the community reports of one level: for corpus-level questions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from pathlib import Path
from typing import Annotated, Any

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Community, Report
from kumihimo.core.settings import Bounds, Seed, Window
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.communities import communities_at_level
from kumihimo.llm import concurrency, prompts
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared import map_step, spread, topic_extracts
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion

_FLOOR = 0.2  # of the best row's score: a row below is far from the question (measured)
_POOL = 1000  # rows of each search
_SAMPLE = 100  # passages that are read without a model
_MEANING = 0.5  # weight of vectors, relative to words
RATING_PROMPT = Path(__file__).with_name("global_rating.md")


@dataclass(frozen=True, slots=True)
class ReportRating:
    """Usefulness of a report, 0 to 5."""

    rating: int


def global_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return a call for each batch, and for each rating.

    At least one batch is near the question; at most all are.
    """
    if not settings["dynamic"]:
        reports, tokens = sizes.level(settings["level"])
        if settings["paper"]:
            return map_step.map_cost(reports, tokens, settings["window"], sizes)
        if not reports or sizes.tokens("chunks") <= tokens:
            reports, tokens = sizes.rows("chunks"), sizes.tokens("chunks")
        cost = map_step.map_cost(reports, tokens, settings["window"], sizes)
        least = min(1, cost.calls[0])
        return QueryCost(
            (least, cost.calls[1]), (least * sizes.prompt_tokens(map_step.MAP_PROMPT), cost.prompt_tokens[1])
        )
    reports, tokens = sizes.rows("reports"), sizes.tokens("reports")
    batches = map_step.map_cost(reports, tokens, settings["window"], sizes)
    ratings = sizes.prompt_tokens(RATING_PROMPT) + map_step.FORM_TOKENS
    most = reports * ratings + tokens + batches.prompt_tokens[1]
    return QueryCost((min(sizes.level(0)[0], reports), reports + batches.calls[1]), (0, most))


def deepest_read(settings: MethodSettings) -> int:
    """Return the deepest level whose reports are read."""
    return int(settings["depth"] if settings["dynamic"] else settings["level"])


@declare(
    best_for="the whole corpus: main themes, recurring points",
    answer_prompt=map_step.REDUCE_PROMPT,
    calls=global_cost,
    level=deepest_read,
)
def global_(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    communities: Table[Community],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM | None,
    rerank: Reranker,
    *,
    paper: bool = False,
    level: Annotated[int, Bounds(0, 100)] = 1,
    dynamic: bool = False,
    depth: Annotated[int, Bounds(0, 100)] = 2,
    window: Window = 8000,
    seed: Seed = 0,
    reranker: RerankerName = "none",
) -> Context:
    """Extract points from the reports of a level (GraphRAG, arXiv:2404.16130, section 3.1.6).

    The most helpful points come first. A corpus-level question reads all reports; any other those near it by words
    and vectors, at least one window. Chunks are read instead if they are shorter than the reports, or if there are
    no reports. paper: always read all reports. level: 0 has the largest communities; leaf communities repeat on
    deeper levels. dynamic: rate reports from level 0 down to level `depth`, and read only useful ones; `level` is
    then ignored.
    Without a model: sentences of many documents on the topic of the question, or for a question about the whole corpus
    a sample of passages; the answer then has the topics.
    But: a batch gives several points with sources; in the paper it gives one answer.
    """
    if llm is None:
        points = _read_documents(question, chunks, keyword_search, vector_search, tokenizer)
    else:
        table: Table[Chunk] | Table[Report] = reports
        if dynamic:
            ids = select_communities(question.text, communities, reports, llm, depth)
        elif paper:
            ids = _level_ids(communities, level)
        else:
            table, tokens = _shorter_table(chunks, reports, _level_ids(communities, level))
            ids = list(tokens)
            if question.topic != "":
                ids = _near_ids(question.text, table, tokens, keyword_search, vector_search, window)
        rows = (Evidence(table.name, row, 0.0) for row in table.get_many(map_step.shuffle_ids(ids, seed)).values())
        batches = map_step.batch_evidence(rows, window, tokenizer)
        points = map_step.extract_points(question.text, batches, llm, tokenizer)
    return rerank(question.text, points, reranker).fit(window, tokenizer)


def _read_documents(
    question: ParsedQuestion,
    chunks: Table[Chunk],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
) -> Context:
    """Return what documents say about the topic, or a sample of all."""
    if question.is_on_all:
        ids = spread.sample_rows((id for (id,) in chunks.columns("id")), _SAMPLE)
        return Context(tuple(Evidence(chunks.name, row, 1.0) for row in chunks.get_many(ids).values()))
    topic = question.forced_topic or question.text
    found = topic_extracts.extract_topic_sentences(
        topic, chunks, None, None, None, keyword_search, vector_search, tokenizer
    )
    return found or keyword_search(chunks, question.text, k=_SAMPLE)


def _level_ids(communities: Table[Community], level: int) -> list[str]:
    """Return the communities of a level: they cover every entity.

    Nothing is below a level without communities.
    """
    levels = takewhile(bool, (communities.where(level=depth) for depth in range(level + 1)))
    return [community.id for community in communities_at_level(chain.from_iterable(levels), level)]


def _shorter_table(
    chunks: Table[Chunk], reports: Table[Report], ids: Sequence[str]
) -> tuple[Table[Chunk] | Table[Report], dict[str, int]]:
    """Return the reports or the chunks, with tokens of each row.

    Chunks are taken if they are shorter, or if there are no reports. ids: of the reports.
    """
    all_reports = {str(id): int(tokens) for id, tokens in reports.columns("id", "tokens")}
    level_reports = {id: all_reports[id] for id in ids if id in all_reports}
    by_chunk = {str(id): int(tokens) for id, tokens in chunks.columns("id", "tokens")}
    if level_reports and sum(by_chunk.values()) > sum(level_reports.values()):
        return reports, level_reports
    return chunks, by_chunk


def _near_ids(
    question: str,
    table: Table[Any],
    tokens: Mapping[str, int],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    window: int,
) -> list[str]:
    """Return the rows near the question by words and vectors.

    The best fill a window, which costs one call in any case. tokens: of each row.
    """
    by_words = Context(tuple(item for item in keyword_search(table, question, k=_POOL) if item.record.id in tokens))
    by_vectors = vector_search(table, question, k=_POOL, candidate_ids=sorted(tokens))
    ranked = Context.fuse([by_words, by_vectors], weights=[1.0, _MEANING])
    best_score = max((item.score for item in ranked), default=0.0)
    near: list[str] = []
    used = 0
    for item in ranked:
        used += tokens[item.record.id]
        if used <= window or not near or item.score >= _FLOOR * best_score:
            near.append(item.record.id)
    return near or list(tokens)


def select_communities(
    question: str, communities: Table[Community], reports: Table[Report], llm: LLM, depth: int
) -> list[str]:
    """Return communities with useful reports, rated from level 0 down.

    Only useful communities are expanded, and a useful child replaces its parent. If level 0 has no useful report, the
    next level is rated. A community without a report is expanded.
    """
    selected: dict[str, None] = {}
    current = communities.where(level=0)
    for next_level in range(1, depth + 2):
        if not current:
            break
        ratings = _rate_reports(question, current, reports, llm)
        children: list[Community] = []
        for community in current:
            rating = ratings.get(community.id)
            if rating is None or rating >= 1:
                children += filter(None, map(communities.get, community.children))
            if rating:
                selected[community.id] = None
                selected.pop(community.parent, None)
        current = children if children or selected else communities.where(level=next_level)
    return list(selected)


def _rate_reports(question: str, communities: Iterable[Community], reports: Table[Report], llm: LLM) -> dict[str, int]:
    def rating(report: Report) -> tuple[str, int]:
        return report.id, llm(
            prompts.render_prompt(RATING_PROMPT, report=report.prompt_text, question=question), schema=ReportRating
        ).rating

    loaded_reports = reports.get_many(community.id for community in communities).values()
    return dict(concurrency.map_concurrent(rating, loaded_reports, llm.workers))
