"""question -> points read out of the reports of one level: what is asked of the corpus as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Community, Report
from kumihimo.core.table import Table
from kumihimo.index.community_levels import at_level
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.methods.shared.map_step import read, shuffled, told
from kumihimo.search.protocols import Match, Near

RATING = Path(__file__).with_name("global_rating.md")


@dataclass(frozen=True, slots=True)
class Rated:
    """How much a report helps, 0 to 5."""

    rating: int


def global_(
    question: str,
    communities: Table[Community],
    reports: Table[Report],
    match: Match,
    near: Near,
    ruler: Ruler,
    ask: Ask | None,
    rank: Rank,
    *,
    level: int = 1,
    dynamic: bool = False,
    depth: int = 2,
    window: int = 8000,
    seed: int = 0,
    rerank: Rerank = "none",
) -> Context:
    """Points from all reports of a level, those that help most first (GraphRAG, arXiv:2404.16130, section 3.1.6).

    level: 0 has the largest communities; where one has no parts on a level, it stands there itself. dynamic: rate
    reports from the largest down to level `depth`, and read only those that help; `level` then counts for nothing.
    Without a model: sentences of the reports, as many communities as possible.
    But: a batch gives several points, each with its sources, where the paper has one answer a batch.
    """
    if level < 0:
        raise SettingsError(f"global.level is {level}; level 0 has the largest communities")
    if ask is None:
        from kumihimo.methods.shared.report_extracts import leading  # here: a model does without

        found = leading(question, _of(_level(communities, level), reports), reports, match, near, ruler)
    else:
        chosen = relevant(question, communities, reports, ask, depth) if dynamic else _level(communities, level)
        rows = (Evidence("reports", report, 0.0) for report in _of(shuffled(chosen, seed), reports, ask.workers))
        found = read(question, rows, ask, ruler, window=window)
    return rank(question, found, rerank).fit(window, ruler)


def _level(communities: Table[Community], level: int) -> list[str]:
    """The ids of the communities that make up a level: every entity is in one of them."""
    upto = (community for each in range(level + 1) for community in communities.where(level=each))
    return [community.id for community in at_level(upto, level)]


def _of(ids: Iterable[str], reports: Table[Report], workers: int = 1) -> Iterator[Report]:
    """Their reports, as far as there are any; side by side, for they may be written only now."""
    return filter(None, side_by_side(reports.get, ids, workers))


def relevant(question: str, communities: Table[Community], reports: Table[Report], ask: Ask, depth: int) -> list[str]:
    """The ids of communities whose reports help: rated from level 0 on, descending only where one does.

    A community gives way to its parts as soon as one of them helps. Where nothing on the first level does, the next
    one is looked at. One that has no report is passed over, not its parts.
    """
    kept: dict[str, None] = {}
    level, rated = 0, communities.where(level=0)
    while rated and level <= depth:
        ratings = _ratings(question, rated, reports, ask)
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


def _ratings(question: str, rated: Iterable[Community], reports: Table[Report], ask: Ask) -> Mapping[str, int]:
    def rating(report: Report) -> tuple[str, int]:
        said = told(Evidence("reports", report, 0.0))
        return report.id, ask(prompt(RATING, report=said, question=question), into=Rated).rating

    return dict(side_by_side(rating, _of((c.id for c in rated), reports, ask.workers), ask.workers))
