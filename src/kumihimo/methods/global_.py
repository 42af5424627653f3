"""question -> points from the community reports of one level: for corpus-level questions."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Community, Report
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.communities import communities_at_level
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.extracts import extract_report_points
from kumihimo.methods.shared.map_step import (
    FORM_TOKENS,
    REDUCE_PROMPT,
    extract_points,
    map_cost,
    shuffle_ids,
    source_text,
)
from kumihimo.search.protocols import KeywordSearch, VectorSearch

RATING_PROMPT = Path(__file__).with_name("global_rating.md")


@dataclass(frozen=True, slots=True)
class Rated:
    """Usefulness of a report, 0 to 5."""

    rating: int


def global_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return a call for each batch of reports, and for each rating."""
    if not settings["dynamic"]:
        return map_cost(*sizes.level(settings["level"]), settings["window"], sizes)
    reports, tokens = sizes.rows("reports"), sizes.tokens("reports")
    batches = map_cost(reports, tokens, settings["window"], sizes)
    ratings = sizes.prompt_tokens(RATING_PROMPT) + FORM_TOKENS
    most = reports * ratings + tokens + batches.prompt_tokens[1]
    return QueryCost((min(sizes.level(0)[0], reports), reports + batches.calls[1]), (0, most))


@declare(best_for="the whole corpus: main themes, recurring points", answer_prompt=REDUCE_PROMPT, calls=global_cost)
def global_(
    question: str,
    communities: Table[Community],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM | None,
    rerank: Reranker,
    *,
    level: int = 1,
    dynamic: bool = False,
    depth: int = 2,
    window: int = 8000,
    seed: int = 0,
    reranker: RerankerName = "none",
) -> Context:
    """Extract points from all reports of a level (GraphRAG, arXiv:2404.16130, section 3.1.6).

    The most helpful points come first. level: 0 has the largest communities; leaf communities repeat on deeper levels.
    dynamic: rate reports from level 0 down to level `depth`, and read only useful ones; `level` is then ignored.
    Without a model: sentences of the reports, from as many communities as possible.
    But: a batch gives several points with sources; in the paper it gives one answer.
    """
    if level < 0:
        raise SettingsError(f"global.level is {level}: it has to be 0 or more; level 0 has the largest communities")
    if llm is None:
        level_reports = reports.get_many(_level_ids(communities, level)).values()
        points = extract_report_points(question, level_reports, reports, keyword_search, vector_search, tokenizer)
    else:
        if dynamic:
            ids = select_communities(question, communities, reports, llm, depth)
        else:
            ids = _level_ids(communities, level)
        rows = (Evidence("reports", report, 0.0) for report in reports.get_many(shuffle_ids(ids, seed)).values())
        points = extract_points(question, rows, llm, tokenizer, window=window)
    return rerank(question, points, reranker).fit(window, tokenizer)


def _level_ids(communities: Table[Community], level: int) -> list[str]:
    """Return the communities of a level: they cover every entity."""
    listed = (community for depth in range(level + 1) for community in communities.where(level=depth))
    return [community.id for community in communities_at_level(listed, level)]


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
        report_text = source_text(Evidence("reports", report, 0.0))
        return report.id, llm(render_prompt(RATING_PROMPT, report=report_text, question=question), schema=Rated).rating

    loaded_reports = reports.get_many(community.id for community in communities).values()
    return dict(map_concurrent(rating, loaded_reports, llm.workers))
