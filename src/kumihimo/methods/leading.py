"""question + reports -> points, without a model: their sentences, from as many communities as possible."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kumihimo.core.context import Context, Ruler
from kumihimo.core.records import Point, Reference, Report
from kumihimo.core.table import Table
from kumihimo.methods.points import DATA, best, point
from kumihimo.ports.models import Match, Near
from kumihimo.views.words import subjects

_POOL = 50  # reports that are searched out
_CLEAR = 0.5  # share of what is asked about that a report has to speak of to be sought; below, the whole is meant
_SIZE = 0.3  # what the rating of a report counts beside its being sought


def leading(
    question: str, chosen: Iterable[Report], reports: Table[Report], match: Match, near: Near, ruler: Ruler, window: int
) -> Context:
    """Sentences of the chosen reports: the best of each, then the second of each, until the window is full.

    Those of the reports that the question seeks; of the largest, where it seeks none clearly: it asks of the whole.
    The first of a report scores between .5 and 1, the second between .25 and .5, and so on.
    """
    all_of = {report.id: report for report in chosen}
    sought = _sought(question, all_of, reports, match, near)
    most = max((report.elements for report in all_of.values()), default=0) or 1
    ranks = sought or {id: (report.elements / most + report.rating / 10) / 2 for id, report in all_of.items()}
    found: dict[str, tuple[float, Point]] = {}  # by text: chunks overlap, and so may reports
    for id, rank in sorted(ranks.items(), key=lambda item: (-item[1], item[0])):
        for turn, (text, sources, verbatim) in enumerate(_said(question, all_of[id], by_words=bool(sought))):
            score = 2.0**-turn * (0.5 + 0.5 * rank)
            if text not in found or found[text][0] < score:
                found[text] = score, point(text, sources, ruler, verbatim=verbatim)
    return best(found.values(), window, ruler)


def _sought(
    question: str, chosen: dict[str, Report], reports: Table[Report], match: Match, near: Near
) -> dict[str, float]:
    """How well the reports fit that the question seeks, from 0 to 1; none, where none speaks of what is asked."""
    asked = set(subjects(question))
    by_words = Context(tuple(item for item in match(reports, question, k=_POOL) if item.record.id in chosen))
    shares = {item.record.id: len(asked & set(subjects(item.text))) / len(asked) for item in by_words if asked}
    most = max(shares.values(), default=0.0)
    if most < _CLEAR:
        return {}
    fused = Context.fuse([by_words, near(reports, question, k=_POOL, among=sorted(chosen))], weights=[1.0, 0.5])
    sure = {item.record.id: item.score for item in fused if shares.get(item.record.id, 0.0) >= most / 2}
    total = 1.5 + _SIZE
    return {id: (score + _SIZE * chosen[id].rating / 10) / total for id, score in sure.items()}


def _said(question: str, report: Report, *, by_words: bool) -> list[tuple[str, tuple[Reference, ...], bool]]:
    """What a report says, what each rests on, and whether it stands so in a document; most to the point first."""
    said = list(_sentences(report)) if report.extractive else []
    if not said:
        return [(report.summary, (("reports", report.id),), False)] if report.summary.strip() else []
    asked = set(subjects(question)) if by_words else set()
    return sorted(said, key=lambda each: -len(asked & set(subjects(each[0]))))


def _sentences(report: Report) -> Iterator[tuple[str, tuple[Reference, ...], bool]]:
    """The sentences of an extractive report, each with its chunks."""
    ids = {number: id for table, number, id in report.data if table == "chunks"}
    for _, text in report.findings:
        marks = re.findall(r"\d+", " ".join(DATA.findall(text)))
        chunks = dict.fromkeys(ids[int(number)] for number in marks if int(number) in ids)
        sources = tuple(("chunks", id) for id in chunks)
        yield DATA.sub("", text).strip(), sources or (("reports", report.id),), bool(sources)
