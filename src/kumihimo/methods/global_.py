"""question -> points from the community reports of one level: for corpus-level questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Community, Report
from kumihimo.core.table import Table
from kumihimo.index.community_levels import communities_at_level
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.map_step import extract_points, shuffle_ids, source_text
from kumihimo.search.protocols import KeywordSearch, VectorSearch

RATING_PROMPT = Path(__file__).with_name("global_rating.md")


@dataclass(frozen=True, slots=True)
class Rated:
    """Usefulness of a report, 0 to 5."""

    rating: int


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
        from kumihimo.methods.shared.report_extracts import extract_report_points  # here: unused with a model

        points = extract_report_points(
            question,
            _load_reports(_level_ids(communities, level), reports),
            reports,
            keyword_search,
            vector_search,
            tokenizer,
        )
    else:
        community_ids = (
            select_communities(question, communities, reports, llm, depth)
            if dynamic
            else _level_ids(communities, level)
        )
        rows = (
            Evidence("reports", report, 0.0)
            for report in _load_reports(shuffle_ids(community_ids, seed), reports, llm.workers)
        )
        points = extract_points(question, rows, llm, tokenizer, window=window)
    return rerank(question, points, reranker).fit(window, tokenizer)


def _level_ids(communities: Table[Community], level: int) -> list[str]:
    """Return the communities of a level: they cover every entity."""
    listed = (community for depth in range(level + 1) for community in communities.where(level=depth))
    return [community.id for community in communities_at_level(listed, level)]


def _load_reports(ids: Iterable[str], reports: Table[Report], workers: int = 1) -> Iterator[Report]:
    """Yield the reports of the communities, loaded concurrently.

    A missing report may be written now, which takes an LLM call.
    """
    return filter(None, map_concurrent(reports.get, ids, workers))


def select_communities(
    question: str, communities: Table[Community], reports: Table[Report], llm: LLM, depth: int
) -> list[str]:
    """Return communities with useful reports, rated from level 0 down.

    Only useful communities are expanded, and a useful child replaces its parent. If level 0 has no useful report, the
    next level is rated. A community without a report is expanded.
    """
    selected: dict[str, None] = {}
    level, current = 0, communities.where(level=0)
    while current and level <= depth:
        ratings = _rate_reports(question, current, reports, llm)
        children: list[Community] = []
        for community in current:
            rating = ratings.get(community.id)
            if rating is None or rating >= 1:
                children += filter(None, map(communities.get, community.children))
            if rating:
                selected[community.id] = None
                selected.pop(community.parent, None)
        level += 1
        current = children if children or selected else communities.where(level=level)
    return list(selected)


def _rate_reports(
    question: str, communities: Iterable[Community], reports: Table[Report], llm: LLM
) -> Mapping[str, int]:
    def rating(report: Report) -> tuple[str, int]:
        report_text = source_text(Evidence("reports", report, 0.0))
        return report.id, llm(render_prompt(RATING_PROMPT, report=report_text, question=question), schema=Rated).rating

    return dict(
        map_concurrent(
            rating, _load_reports((community.id for community in communities), reports, llm.workers), llm.workers
        )
    )
