"""studies -> each question with answers, sources and verdicts as JSON, within size limits.

Each question has its own JSON element, so a browser parses only the question you open.
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

BYTE_LIMITS = {"answers": 7_000_000, "quotes": 3_000_000, "reasons": 12_500_000}  # for all studies together
_LONGEST_QUOTE = 500
_MAX_CITATIONS = 20  # per answer
_MAX_PLACES = 3  # per citation


@dataclass(frozen=True, slots=True)
class DetailLimits:
    """The maximum bytes of each text, and the replicates with reasons, for all studies."""

    answer: int
    quote: int
    reason: int
    replicates: frozenset[int]
    cut_notes: tuple[str, ...]  # what was cut


def compute_detail_limits(studies: Sequence[StudyResults], room: Mapping[str, int] = BYTE_LIMITS) -> DetailLimits:
    """Compute text limits that keep the page within these sizes.

    Reasons are kept for as many replicates as fit, starting with the first.
    """
    answer_sizes = [len(row.text.encode()) for row in _answer_records(studies)]
    answer = _fair_limit(answer_sizes, room["answers"])
    quote_sizes = [
        len(_quote_text(citation).encode())
        for row in _answer_records(studies)
        for citation in row.citations[:_MAX_CITATIONS]
    ]
    quote = min(_LONGEST_QUOTE, _fair_limit(quote_sizes, room["quotes"]))
    sizes: dict[int, list[int]] = defaultdict(list)
    for study in studies:
        for verdict in study.verdicts:
            sizes[verdict.replicate].append(len(verdict.reason.encode()) + len(verdict.why.encode()))
    kept_replicates: list[int] = []
    remaining = room["reasons"]
    for replicate in sorted(sizes):
        total = sum(sizes[replicate])
        if kept_replicates and total > remaining:
            break
        kept_replicates.append(replicate)
        remaining -= total
    reason = _fair_limit([size for replicate in kept_replicates for size in sizes[replicate]], room["reasons"])
    notes = list(_describe_cuts(answer_sizes, answer, "answers", "answers/*.jsonl"))
    omitted = sum(len(sizes[replicate]) for replicate in sizes if replicate not in kept_replicates)
    if omitted:
        notes.append(
            f"The reasons of {omitted:,} verdicts are left out (replicates above {max(kept_replicates)}): "
            "see verdicts.jsonl."
        )
    notes += _describe_cuts(
        [size for replicate in kept_replicates for size in sizes[replicate]], reason, "reasons", "verdicts.jsonl"
    )
    return DetailLimits(answer, quote, reason, frozenset(kept_replicates), tuple(notes))


def _answer_records(studies: Sequence[StudyResults]) -> Iterator[SystemAnswer]:
    """Yield all answers of the studies."""
    for study in studies:
        for by_question in study.answers.values():
            yield from by_question.values()


def _fair_limit(sizes: Sequence[int], room: int) -> int:
    """Return the maximum length that makes all texts fit."""
    remaining = room
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) > remaining:
            return max(60, remaining // (len(sizes) - done))
        remaining -= size
    return 1_000_000_000


def _describe_cuts(sizes: Sequence[int], longest: int, noun: str, file: str) -> Iterator[str]:
    """Yield a note if some texts exceed the limit."""
    longer = sum(size > longest for size in sizes)
    if longer:
        yield f"{longer:,} of {len(sizes):,} {noun} are cut to {longest:,} bytes: see {file} for the full text."


def _quote_text(citation: AnswerSource) -> str:
    """Return a quotation on one line, at most 500 characters."""
    return " ".join(citation.text.split())[:_LONGEST_QUOTE]


def truncate_bytes(text: str, longest: int) -> str:
    """Return the first bytes of a text; line breaks stay.

    >>> truncate_bytes("組紐です", 6), truncate_bytes("braid", 6)
    ('組紐 …', 'braid')
    """
    raw = text.encode()
    return text if len(raw) <= longest else raw[:longest].decode("utf-8", "ignore") + " …"


# -- data for the page's script


def build_question_index(studies: Sequence[StudyResults], limits: DetailLimits) -> str:
    """Return the JSON of names and questions for the list.

    Each question has its id, text and the mean points of each system.
    """
    return json_for_html(
        {
            "studies": [
                {
                    "name": study.name,
                    "systems": list(study.systems),
                    "questions": [
                        [question.id, shorten(question.text, 300), _mean_points(study, question.id)]
                        for question in study.questions
                    ],
                }
                for study in studies
            ],
            "cut": list(limits.cut_notes),
        }
    )


def _mean_points(study: StudyResults, question: str) -> list[float | None]:
    """Return each system's mean points by the deciding criterion."""
    points: dict[str, list[float]] = defaultdict(list)
    for (a, b), values in (study.deciding_criterion.points if study.deciding_criterion else {}).items():
        if a != b and question in values:
            points[a].append(values[question])
            points[b].append(100 - values[question])
    return [round(sum(points[system]) / len(points[system]), 1) if points[system] else None for system in study.systems]


def render_question_elements(studies: Sequence[StudyResults], limits: DetailLimits) -> Iterator[str]:
    """Yield a JSON element for each question."""
    for position, study in enumerate(studies):
        pairs = [
            *with_swapped_pairs(points_by_pair(study.verdicts)).items(),
            *points_by_pair(study.verdicts, self_pairs=True).items(),
        ]
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in study.verdicts:
            verdicts[verdict.question].append(verdict)
        for n, question in enumerate(study.questions):
            means = {pair: values[question.id] for pair, values in pairs if question.id in values}
            data = json_for_html(_question_data(study, question, verdicts[question.id], means, limits))
            yield f'<script type="application/json" id="q{position}-{n}">{data}</script>\n'


def _question_data(
    study: StudyResults,
    question: EvalQuestion,
    verdicts: Sequence[Verdict],
    means: Mapping[CriterionPair, float],
    limits: DetailLimits,
) -> dict[str, Any]:
    """Return the data of one question."""
    answers = [
        [
            study.systems.index(system),
            *_answer_row(rows[question.id], limits),
            _measure_values(study, system, question.id),
        ]
        for system, rows in study.answers.items()
        if question.id in rows
    ]
    names = _NameTable()
    rows = [_verdict_row(study, verdict, limits, names) for verdict in verdicts]
    return {
        "id": question.id,
        "text": question.text,
        "of": [question.scope, question.persona, question.task],
        "reference": question.reference,
        "assertions": list(question.assertions),
        "answers": answers,
        "names": names.names,
        "verdicts": rows,
        "points": {_points_key(study, names, pair): round(value, 1) for pair, value in means.items()},
    }


def _points_key(study: StudyResults, names: _NameTable, pair: CriterionPair) -> str:
    """Return the key under which the page's script finds points."""
    indices = (
        names.position(pair.protocol),
        names.position(pair.criterion),
        study.systems.index(pair.a),
        study.systems.index(pair.b),
    )
    return " ".join(map(str, indices))


class _NameTable:
    """A list of repeated words, each stored once."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._positions: Counter[str] = Counter()

    def position(self, name: str) -> int:
        """Return the index of a name, and add it if new."""
        if name not in self._positions:
            self._positions[name] = len(self.names)
            self.names.append(name)
        return self._positions[name]


def _answer_row(row: SystemAnswer, limits: DetailLimits) -> list[Any]:
    """Return an answer with its citations and usage."""
    citations = [
        [
            citation.n,
            truncate_bytes(_quote_text(citation), limits.quote),
            [[place.uri, place.place or f"{place.start}–{place.end}"] for place in citation.places[:_MAX_PLACES]],
        ]
        for citation in row.citations[:_MAX_CITATIONS]
    ]
    usage = [row.usage.calls, row.usage.tokens, round(row.usage.cost, 6), row.seconds]
    return [truncate_bytes(row.text, limits.answer), row.failed, citations, usage, len(row.contexts)]


def _measure_values(study: StudyResults, system: str, question: str) -> list[list[Any]]:
    """Return the measured values of one answer."""
    return [
        [measure.name, round(measure.values[system][question], 4)]
        for measure in study.measures
        if question in measure.values.get(system, {})
    ]


def _verdict_row(study: StudyResults, verdict: Verdict, limits: DetailLimits, names: _NameTable) -> list[Any]:
    """Return a verdict as a list.

    The order: protocol, criterion, a, b, first shown, replicate, winner or status, is second judge, reason, error.
    """
    reason = truncate_bytes(verdict.reason, limits.reason) if verdict.replicate in limits.replicates else None
    return [
        names.position(verdict.protocol),
        names.position(verdict.criterion),
        study.systems.index(verdict.a),
        study.systems.index(verdict.b),
        verdict.first,
        verdict.replicate,
        verdict.winner or verdict.status,
        int(verdict.role == "second_judge"),
        reason,
        truncate_bytes(verdict.why, limits.reason),
    ]


def format_json(document: object) -> str:
    """Return indented JSON."""
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
