"""studies -> each question with answers, sources and verdicts as JSON, within size limits.

Each question has its own JSON element, so a browser parses only the question you open.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from kumihimo.evaluate import comparison, records
from kumihimo.evaluate.points import CriterionPair, points_by_pair, with_swapped_pairs
from kumihimo.evaluate.report.summary_data import StudyResults
from kumihimo.page import shorten

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
    answers = [row for study in studies for by_question in study.answers.values() for row in by_question.values()]
    answer_sizes = [len(row.text.encode()) for row in answers]
    answer = _fair_limit(answer_sizes, room["answers"])
    quotes = (_quote_text(citation) for row in answers for citation in row.citations[:_MAX_CITATIONS])
    quote = min(_LONGEST_QUOTE, _fair_limit([len(text.encode()) for text in quotes], room["quotes"]))
    sizes: dict[int, list[int]] = defaultdict(list)  # by replicate
    for study in studies:
        for verdict in study.verdicts:
            sizes[verdict.replicate].append(len(verdict.reason.encode()) + len(verdict.why.encode()))
    order = sorted(sizes)
    totals = list(accumulate(sum(sizes[replicate]) for replicate in order))
    kept_count = max(sum(total <= room["reasons"] for total in totals), 1)
    reason_sizes = [size for replicate in order[:kept_count] for size in sizes[replicate]]
    reason = _fair_limit(reason_sizes, room["reasons"])
    notes = list(_describe_cuts(answer_sizes, answer, "answers", "answers/*.jsonl"))
    if omitted := sum(len(sizes[replicate]) for replicate in order[kept_count:]):
        notes.append(
            f"The reasons of {omitted:,} verdicts are left out (replicates above {order[kept_count - 1]}): "
            "see verdicts.jsonl."
        )
    notes += _describe_cuts(reason_sizes, reason, "reasons", "verdicts.jsonl")
    return DetailLimits(answer, quote, reason, frozenset(order[:kept_count]), tuple(notes))


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
    if longer := sum(size > longest for size in sizes):
        yield f"{longer:,} of {len(sizes):,} {noun} are cut to {longest:,} bytes: see {file} for the full text."


def _quote_text(citation: records.AnswerSource) -> str:
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


def build_question_index(studies: Sequence[StudyResults], limits: DetailLimits) -> dict[str, Any]:
    """Return the names and questions for the list.

    Each question has its id, text and the mean points of each system.
    """
    rows = [
        {
            "name": study.name,
            "systems": list(study.systems),
            "questions": [[q.id, shorten(q.text, 300), _mean_points(study, q.id)] for q in study.questions],
        }
        for study in studies
    ]
    return {"studies": rows, "cut": list(limits.cut_notes)}


def _mean_points(study: StudyResults, question: str) -> list[float | None]:
    """Return each system's mean points by the deciding criterion."""
    points = study.deciding_criterion.points if study.deciding_criterion else {}
    own = {sides: {question: values[question]} for sides, values in points.items() if question in values}
    means = comparison.mean_points(own)
    return [round(means[system], 1) if system in means else None for system in study.systems]


def question_details(studies: Sequence[StudyResults], limits: DetailLimits) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the id of each question on the page, and its data."""
    for position, study in enumerate(studies):
        points = points_by_pair(study.verdicts)
        pairs = with_swapped_pairs(points) | points_by_pair(study.verdicts, self_pairs=True)
        verdicts: dict[str, list[records.Verdict]] = defaultdict(list)
        for verdict in study.verdicts:
            verdicts[verdict.question].append(verdict)
        for n, question in enumerate(study.questions):
            means = {pair: values[question.id] for pair, values in pairs.items() if question.id in values}
            yield f"q{position}-{n}", _question_data(study, question, verdicts[question.id], means, limits)


def _question_data(
    study: StudyResults,
    question: records.EvalQuestion,
    verdicts: Sequence[records.Verdict],
    means: Mapping[CriterionPair, float],
    limits: DetailLimits,
) -> dict[str, Any]:
    """Return the data of one question.

    names: the protocols and criteria, each once; other rows refer to them by their position.
    """
    names: dict[str, int] = {}

    def key(row: CriterionPair | records.Verdict) -> list[int]:
        """Return the positions of protocol, criterion and both systems."""
        name_positions = [names.setdefault(name, len(names)) for name in (row.protocol, row.criterion)]
        return [*name_positions, study.systems.index(row.a), study.systems.index(row.b)]

    verdict_rows = [key(verdict) + _verdict_row(verdict, limits) for verdict in verdicts]
    points = {" ".join(map(str, key(pair))): round(value, 1) for pair, value in means.items()}
    return {
        "id": question.id,
        "text": question.text,
        "of": [question.scope, question.persona, question.task],
        "reference": question.reference,
        "assertions": list(question.assertions),
        "answers": [
            [n, *_answer_row(study.answers[system][question.id], limits), _measure_values(study, system, question.id)]
            for n, system in enumerate(study.systems)
            if question.id in study.answers.get(system, {})
        ],
        "names": list(names),
        "verdicts": verdict_rows,
        "points": points,
    }


def _answer_row(row: records.SystemAnswer, limits: DetailLimits) -> list[Any]:
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


def _verdict_row(verdict: records.Verdict, limits: DetailLimits) -> list[Any]:
    """Return a verdict as a row of the page."""
    reason = truncate_bytes(verdict.reason, limits.reason) if verdict.replicate in limits.replicates else None
    result = [verdict.winner or verdict.status, int(verdict.role == "second_judge")]
    return [verdict.first, verdict.replicate, *result, reason, truncate_bytes(verdict.why, limits.reason)]
