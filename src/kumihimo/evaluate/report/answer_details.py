"""studies -> each question with answers, sources and verdicts, as JSON in a page: as much as there is room for.

A question's JSON stands in an element of its own, so that a browser reads only that of the question which is opened.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer, Verdict
from kumihimo.evaluate.report.summary_data import StudyResults
from kumihimo.page import json_for_html, shorten

BYTE_LIMITS = {"answers": 7_000_000, "quotes": 3_000_000, "reasons": 12_500_000}  # bytes, of all studies together
_LONGEST_QUOTE = 500
_MAX_CITATIONS = 20  # of one answer
_MAX_PLACES = 3  # of one citation


@dataclass(frozen=True, slots=True)
class DetailLimits:
    """How long each may be. replicates: of which the reasons are told, of each study the same."""

    answer: int
    quote: int
    reason: int
    replicates: frozenset[int]
    cut_notes: tuple[str, ...]  # what was cut, in words


def compute_detail_limits(studies: Sequence[StudyResults], room: Mapping[str, int] = BYTE_LIMITS) -> DetailLimits:
    """What there is room for: each answer its share; the reasons of as many replicates as fit, the first ones first."""
    answers = [len(row.text.encode()) for row in _answer_records(studies)]
    answer = _fair_limit(answers, room["answers"])
    quotes = [
        len(_quote_text(cited).encode()) for row in _answer_records(studies) for cited in row.citations[:_MAX_CITATIONS]
    ]
    quote = min(_LONGEST_QUOTE, _fair_limit(quotes, room["quotes"]))
    sizes: dict[int, list[int]] = defaultdict(list)
    for held in studies:
        for v in held.verdicts:
            sizes[v.replicate].append(len(v.reason.encode()) + len(v.why.encode()))
    kept: list[int] = []
    left = room["reasons"]
    for replicate in sorted(sizes):
        total = sum(sizes[replicate])
        if kept and total > left:
            break
        kept.append(replicate)
        left -= total
    reason = _fair_limit([size for replicate in kept for size in sizes[replicate]], room["reasons"])
    told = list(_describe_cuts(answers, answer, "answers", "answers/*.jsonl"))
    gone = sum(len(sizes[replicate]) for replicate in sizes if replicate not in kept)
    if gone:
        told.append(
            f"The reasons of {gone:,} verdicts are left out, those of replicates above {max(kept)}: "
            "they are in verdicts.jsonl."
        )
    told += _describe_cuts(
        [size for replicate in kept for size in sizes[replicate]], reason, "reasons", "verdicts.jsonl"
    )
    return DetailLimits(answer, quote, reason, frozenset(kept), tuple(told))


def _answer_records(studies: Sequence[StudyResults]) -> Iterator[SystemAnswer]:
    for held in studies:
        for by_question in held.answers.values():
            yield from by_question.values()


def _fair_limit(sizes: Sequence[int], room: int) -> int:
    """The longest that each may be for all to fit."""
    left = room
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) > left:
            return max(60, left // (len(sizes) - done))
        left -= size
    return 1_000_000_000


def _describe_cuts(sizes: Sequence[int], longest: int, what: str, file: str) -> Iterator[str]:
    longer = sum(size > longest for size in sizes)
    if longer:
        yield f"{longer:,} of {len(sizes):,} {what} are cut to {longest:,} bytes: whole, they are in {file}."


def _quote_text(cited: AnswerSource) -> str:
    return " ".join(cited.text.split())[:_LONGEST_QUOTE]


def truncate_bytes(text: str, longest: int) -> str:
    """As many bytes of it, its lines as they are.

    >>> beginning("組紐です", 6), beginning("braid", 6)
    ('組紐 …', 'braid')
    """
    raw = text.encode()
    return text if len(raw) <= longest else raw[:longest].decode("utf-8", "ignore") + " …"


# -- what the page's script reads


def build_question_index(studies: Sequence[StudyResults], told: DetailLimits) -> str:
    """Names, and of each question what a list shows: id, text, the mean points of each system."""
    return json_for_html(
        {
            "studies": [
                {
                    "name": held.name,
                    "systems": list(held.systems),
                    "questions": [[q.id, shorten(q.text, 300), _mean_points(held, q.id)] for q in held.questions],
                }
                for held in studies
            ],
            "cut": list(told.cut_notes),
        }
    )


def _mean_points(held: StudyResults, question: str) -> list[float | None]:
    """By the criterion that decides, against all others."""
    found: dict[str, list[float]] = defaultdict(list)
    for (a, b), values in (held.deciding_criterion.points if held.deciding_criterion else {}).items():
        if a != b and question in values:
            found[a].append(values[question])
            found[b].append(100 - values[question])
    return [round(sum(found[s]) / len(found[s]), 1) if found[s] else None for s in held.systems]


def render_question_elements(studies: Sequence[StudyResults], told: DetailLimits) -> Iterator[str]:
    """An element for each question."""
    for at, held in enumerate(studies):
        found = [
            *with_swapped_pairs(points_by_pair(held.verdicts)).items(),
            *points_by_pair(held.verdicts, self_pairs=True).items(),
        ]
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in held.verdicts:
            verdicts[verdict.question].append(verdict)
        for n, question in enumerate(held.questions):
            means = {pair: values[question.id] for pair, values in found if question.id in values}
            said = json_for_html(_question_data(held, question, verdicts[question.id], means, told))
            yield f'<script type="application/json" id="q{at}-{n}">{said}</script>\n'


def _question_data(
    held: StudyResults,
    q: EvalQuestion,
    verdicts: Sequence[Verdict],
    means: Mapping[CriterionPair, float],
    told: DetailLimits,
) -> dict[str, Any]:
    answers = [
        [held.systems.index(s), *_answer_row(rows[q.id], told), _measure_values(held, s, q.id)]
        for s, rows in held.answers.items()
        if q.id in rows
    ]
    names = _NameTable()
    rows = [_verdict_row(held, v, told, names) for v in verdicts]
    return {
        "id": q.id,
        "text": q.text,
        "of": [q.scope, q.persona, q.task],
        "reference": q.reference,
        "assertions": list(q.assertions),
        "answers": answers,
        "names": names.names,
        "verdicts": rows,
        "points": {_points_key(held, names, pair): round(value, 1) for pair, value in means.items()},
    }


def _points_key(held: StudyResults, names: _NameTable, pair: CriterionPair) -> str:
    """As the page's script asks for it."""
    of = (
        names.position(pair.protocol),
        names.position(pair.criterion),
        held.systems.index(pair.a),
        held.systems.index(pair.b),
    )
    return " ".join(map(str, of))


class _NameTable:
    """Words that many rows say, each told once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._positions: Counter[str] = Counter()

    def position(self, name: str) -> int:
        if name not in self._positions:
            self._positions[name] = len(self.names)
            self.names.append(name)
        return self._positions[name]


def _answer_row(row: SystemAnswer, told: DetailLimits) -> list[Any]:
    cited = [
        [
            c.n,
            truncate_bytes(_quote_text(c), told.quote),
            [[at.uri, at.place or f"{at.start}–{at.end}"] for at in c.places[:_MAX_PLACES]],
        ]
        for c in row.citations[:_MAX_CITATIONS]
    ]
    usage = [row.usage.calls, row.usage.tokens, round(row.usage.cost, 6), row.seconds]
    return [truncate_bytes(row.text, told.answer), row.failed, cited, usage, len(row.contexts)]


def _measure_values(held: StudyResults, system: str, question: str) -> list[list[Any]]:
    return [
        [measure.name, round(measure.values[system][question], 4)]
        for measure in held.measures
        if question in measure.values.get(system, {})
    ]


def _verdict_row(held: StudyResults, v: Verdict, told: DetailLimits, names: _NameTable) -> list[Any]:
    """protocol, criterion, a, b, which was first, replicate, who won, second judge or not, reason, why it is not ok."""
    reason = truncate_bytes(v.reason, told.reason) if v.replicate in told.replicates else None
    return [
        names.position(v.protocol),
        names.position(v.criterion),
        held.systems.index(v.a),
        held.systems.index(v.b),
        v.first,
        v.replicate,
        v.winner or v.status,
        int(v.role == "second_judge"),
        reason,
        truncate_bytes(v.why, told.reason),
    ]


def format_json(document: object) -> str:
    """JSON as a person reads it."""
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
