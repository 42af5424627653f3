"""studies -> each question with answers, sources and verdicts, as JSON in a page: as much as there is room for.

A question's JSON stands in an element of its own, so that a browser reads only that of the question which is opened.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.evaluate.points import Pair, points, with_mirrored
from kumihimo.evaluate.records import Answered, Question, Source, Verdict
from kumihimo.evaluate.report.summary_data import Gathered
from kumihimo.page import cut, embedded

ROOM = {"answers": 7_000_000, "quotes": 3_000_000, "reasons": 12_500_000}  # bytes, of all studies together
_LONGEST_QUOTE = 500
_CITED = 20  # of one answer
_PLACES = 3  # of one citation


@dataclass(frozen=True, slots=True)
class Shares:
    """How long each may be. replicates: of which the reasons are told, of each study the same."""

    answer: int
    quote: int
    reason: int
    replicates: frozenset[int]
    told: tuple[str, ...]  # what was cut, in words


def shares(studies: Sequence[Gathered], room: Mapping[str, int] = ROOM) -> Shares:
    """What there is room for: each answer its share; the reasons of as many replicates as fit, the first ones first."""
    answers = [len(row.text.encode()) for row in _rows(studies)]
    answer = _share(answers, room["answers"])
    quotes = [len(_quoted(cited).encode()) for row in _rows(studies) for cited in row.citations[:_CITED]]
    quote = min(_LONGEST_QUOTE, _share(quotes, room["quotes"]))
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
    reason = _share([size for replicate in kept for size in sizes[replicate]], room["reasons"])
    told = list(_told(answers, answer, "answers", "answers/*.jsonl"))
    gone = sum(len(sizes[replicate]) for replicate in sizes if replicate not in kept)
    if gone:
        told.append(
            f"The reasons of {gone:,} verdicts are left out, those of replicates above {max(kept)}: "
            "they are in verdicts.jsonl."
        )
    told += _told([size for replicate in kept for size in sizes[replicate]], reason, "reasons", "verdicts.jsonl")
    return Shares(answer, quote, reason, frozenset(kept), tuple(told))


def _rows(studies: Sequence[Gathered]) -> Iterator[Answered]:
    for held in studies:
        for by_question in held.answers.values():
            yield from by_question.values()


def _share(sizes: Sequence[int], room: int) -> int:
    """The longest that each may be for all to fit."""
    left = room
    for done, size in enumerate(sorted(sizes)):
        if size * (len(sizes) - done) > left:
            return max(60, left // (len(sizes) - done))
        left -= size
    return 1_000_000_000


def _told(sizes: Sequence[int], longest: int, what: str, file: str) -> Iterator[str]:
    longer = sum(size > longest for size in sizes)
    if longer:
        yield f"{longer:,} of {len(sizes):,} {what} are cut to {longest:,} bytes: whole, they are in {file}."


def _quoted(cited: Source) -> str:
    return " ".join(cited.text.split())[:_LONGEST_QUOTE]


def beginning(text: str, longest: int) -> str:
    """As many bytes of it, its lines as they are.

    >>> beginning("組紐です", 6), beginning("braid", 6)
    ('組紐 …', 'braid')
    """
    raw = text.encode()
    return text if len(raw) <= longest else raw[:longest].decode("utf-8", "ignore") + " …"


# -- what the page's script reads


def index(studies: Sequence[Gathered], told: Shares) -> str:
    """Names, and of each question what a list shows: id, text, the mean points of each system."""
    return embedded(
        {
            "studies": [
                {
                    "name": held.name,
                    "systems": list(held.systems),
                    "questions": [[q.id, cut(q.text, 300), _points(held, q.id)] for q in held.questions],
                }
                for held in studies
            ],
            "cut": list(told.told),
        }
    )


def _points(held: Gathered, question: str) -> list[float | None]:
    """By the criterion that decides, against all others."""
    found: dict[str, list[float]] = defaultdict(list)
    for (a, b), values in (held.deciding.points if held.deciding else {}).items():
        if a != b and question in values:
            found[a].append(values[question])
            found[b].append(100 - values[question])
    return [round(sum(found[s]) / len(found[s]), 1) if found[s] else None for s in held.systems]


def elements(studies: Sequence[Gathered], told: Shares) -> Iterator[str]:
    """An element for each question."""
    for at, held in enumerate(studies):
        found = [*with_mirrored(points(held.verdicts)).items(), *points(held.verdicts, same=True).items()]
        verdicts: dict[str, list[Verdict]] = defaultdict(list)
        for verdict in held.verdicts:
            verdicts[verdict.question].append(verdict)
        for n, question in enumerate(held.questions):
            means = {pair: values[question.id] for pair, values in found if question.id in values}
            said = embedded(_question(held, question, verdicts[question.id], means, told))
            yield f'<script type="application/json" id="q{at}-{n}">{said}</script>\n'


def _question(
    held: Gathered, q: Question, verdicts: Sequence[Verdict], means: Mapping[Pair, float], told: Shares
) -> dict[str, Any]:
    answers = [
        [held.systems.index(s), *_answer(rows[q.id], told), _numbers(held, s, q.id)]
        for s, rows in held.answers.items()
        if q.id in rows
    ]
    names = _Names()
    rows = [_verdict(held, v, told, names) for v in verdicts]
    return {
        "id": q.id,
        "text": q.text,
        "of": [q.scope, q.persona, q.task],
        "reference": q.reference,
        "assertions": list(q.assertions),
        "answers": answers,
        "names": names.listed,
        "verdicts": rows,
        "points": {_of(held, names, pair): round(value, 1) for pair, value in means.items()},
    }


def _of(held: Gathered, names: _Names, pair: Pair) -> str:
    """As the page's script asks for it."""
    of = (names.at(pair.protocol), names.at(pair.criterion), held.systems.index(pair.a), held.systems.index(pair.b))
    return " ".join(map(str, of))


class _Names:
    """Words that many rows say, each told once."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._at: Counter[str] = Counter()

    def at(self, name: str) -> int:
        if name not in self._at:
            self._at[name] = len(self.listed)
            self.listed.append(name)
        return self._at[name]


def _answer(row: Answered, told: Shares) -> list[Any]:
    cited = [
        [
            c.n,
            beginning(_quoted(c), told.quote),
            [[at.uri, at.place or f"{at.start}–{at.end}"] for at in c.places[:_PLACES]],
        ]
        for c in row.citations[:_CITED]
    ]
    usage = [row.usage.calls, row.usage.tokens, round(row.usage.cost, 6), row.seconds]
    return [beginning(row.text, told.answer), row.failed, cited, usage, len(row.contexts)]


def _numbers(held: Gathered, system: str, question: str) -> list[list[Any]]:
    return [
        [measure.name, round(measure.values[system][question], 4)]
        for measure in held.measures
        if question in measure.values.get(system, {})
    ]


def _verdict(held: Gathered, v: Verdict, told: Shares, names: _Names) -> list[Any]:
    """protocol, criterion, a, b, which was first, replicate, who won, second judge or not, reason, why it is not ok."""
    reason = beginning(v.reason, told.reason) if v.replicate in told.replicates else None
    return [
        names.at(v.protocol),
        names.at(v.criterion),
        held.systems.index(v.a),
        held.systems.index(v.b),
        v.first,
        v.replicate,
        v.winner or v.status,
        int(v.role == "second_judge"),
        reason,
        beginning(v.why, told.reason),
    ]


def said(document: object) -> str:
    """JSON as a person reads it."""
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True)
