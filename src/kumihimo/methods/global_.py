"""question -> points read out of the reports of one level: what is asked of the corpus as a whole."""

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
    """How much a report helps, 0 to 5."""

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
    """Points from all reports of a level, those that help most first (GraphRAG, arXiv:2404.16130, section 3.1.6).

    level: 0 has the largest communities; where one has no parts on a level, it stands there itself. dynamic: rate
    reports from the largest down to level `depth`, and read only those that help; `level` then counts for nothing.
    Without a model: sentences of the reports, as many communities as possible.
    But: a batch gives several points, each with its sources, where the paper has one answer a batch.
    """
    if level < 0:
        raise SettingsError(f"global.level is {level}; level 0 has the largest communities")
    if llm is None:
        from kumihimo.methods.shared.report_extracts import extract_report_points  # here: a model does without

        found = extract_report_points(
            question,
            _load_reports(_level_ids(communities, level), reports),
            reports,
            keyword_search,
            vector_search,
            tokenizer,
        )
    else:
        chosen = (
            select_communities(question, communities, reports, llm, depth)
            if dynamic
            else _level_ids(communities, level)
        )
        rows = (
            Evidence("reports", report, 0.0)
            for report in _load_reports(shuffle_ids(chosen, seed), reports, llm.workers)
        )
        found = extract_points(question, rows, llm, tokenizer, window=window)
    return rerank(question, found, reranker).fit(window, tokenizer)


def _level_ids(communities: Table[Community], level: int) -> list[str]:
    """The ids of the communities that make up a level: every entity is in one of them."""
    upto = (community for each in range(level + 1) for community in communities.where(level=each))
    return [community.id for community in communities_at_level(upto, level)]


def _load_reports(ids: Iterable[str], reports: Table[Report], workers: int = 1) -> Iterator[Report]:
    """Their reports, as far as there are any; side by side, for they may be written only now."""
    return filter(None, map_concurrent(reports.get, ids, workers))


def select_communities(
    question: str, communities: Table[Community], reports: Table[Report], llm: LLM, depth: int
) -> list[str]:
    """The ids of communities whose reports help: rated from level 0 on, descending only where one does.

    A community gives way to its parts as soon as one of them helps. Where nothing on the first level does, the next
    one is looked at. One that has no report is passed over, not its parts.
    """
    kept: dict[str, None] = {}
    level, rated = 0, communities.where(level=0)
    while rated and level <= depth:
        ratings = _rate_reports(question, rated, reports, llm)
        below: list[Community] = []
        for community in rated:
            rating = ratings.get(community.id)
            if rating is None or rating >= 1:
                below += filter(None, map(communities.get, community.children))
            if rating:
                kept[community.id] = None
                kept.pop(community.parent, None)
        level += 1
        rated = below if below or kept else communities.where(level=level)
    return list(kept)


def _rate_reports(question: str, rated: Iterable[Community], reports: Table[Report], llm: LLM) -> Mapping[str, int]:
    def rating(report: Report) -> tuple[str, int]:
        said = source_text(Evidence("reports", report, 0.0))
        return report.id, llm(render_prompt(RATING_PROMPT, report=said, question=question), schema=Rated).rating

    return dict(map_concurrent(rating, _load_reports((c.id for c in rated), reports, llm.workers), llm.workers))
