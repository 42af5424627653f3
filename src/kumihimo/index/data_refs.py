"""a text + what was numbered for it -> what its references mean, such as `[Data: Entities (5, 7)]`, however written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

ResolvedReferences = tuple[tuple[str, int, str], ...]  # (table, number in the text, id)
RowNumbers = Mapping[str, Sequence[int]]  # table -> numbers

TABLE_NAMES = {
    "entities": "Entities",
    "relations": "Relationships",
    "claims": "Claims",
    "reports": "Reports",
    "chunks": "Sources",
}
MORE_MARK = "+more"
_NumberSet = tuple[
    str, tuple[tuple[int, int], ...], bool
]  # table, or empty for an unknown name; ranges; are there more?

_TABLE_PREFIXES = (
    ("entit", "entities"),
    ("relation", "relations"),
    ("claim", "claims"),
    ("report", "reports"),
    ("source", "chunks"),
    ("chunk", "chunks"),
)
_OPEN, _CLOSE = r"\[［【(（", r"\]］】)）"
_REFERENCE_START = re.compile(rf"([ \t\u3000]{{0,4}})([{_OPEN}]\s{{0,4}})?(?<!\w)data\s{{0,4}}[:：]\s{{0,4}}", re.I)
_NAME = re.compile(r"([a-z][a-z_]{0,30}(?: [a-z_]{1,30})?)\s{0,4}[:：]?\s{0,4}([(（\[［]?)\s{0,4}", re.I)
_NUMBER = re.compile(r"(?:ids?\s)?#?(\d+)(?:\s{0,4}[-–—~〜]\s{0,4}(\d+))?|(\+\s{0,4}\w+|more\b|etc\.?|…|\.\.\.)", re.I)
_SEPARATOR = re.compile(r"\s{0,4}(?:[,、，;；]|\band\b|&|(?=\+))\s{0,4}(?:and\b)?\s{0,4}", re.I)
_SPACE = re.compile(r"\s{0,4}")
_REFERENCE_END = re.compile(rf"\s{{0,4}}[{_CLOSE}]")


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A text whose references all point somewhere. dropped: how many that did not were taken out."""

    text: str
    data: ResolvedReferences
    dropped: int


@dataclass(frozen=True, slots=True)
class _TextPart:
    """What stands before a reference, the space between, and what the reference names; the last part names nothing."""

    text: str
    space: str = ""
    sets: tuple[_NumberSet, ...] = ()


def resolve_references(text: str, row_ids: Mapping[str, Sequence[str]]) -> ResolvedText:
    """The text with its references written alike, those that point nowhere taken out, and what the others mean.

    known: table -> ids of what was numbered, the first being 1. No other word is altered.

    >>> found = resolve("He paid (data: entity 2、9; claim (1)). She left [Data: Claims (4)].", {"entities": "ab"})
    >>> found.text, found.data, found.dropped
    ('He paid [Data: Entities (2)]. She left.', (('entities', 2, 'b'),), 3)
    """
    said: list[str] = []
    data: set[tuple[str, int, str]] = set()
    dropped = 0
    for part in _split_parts(text):
        kept: dict[str, list[int]] = {}
        more: set[str] = set()
        for table, ranges, further in part.sets:
            ids = row_ids.get(table, ())
            numbers = [n for first, last in ranges for n in range(max(first, 1), min(last, len(ids)) + 1)]
            dropped += sum(not 1 <= end <= len(ids) for ends in ranges for end in dict.fromkeys(ends))
            if numbers:
                kept.setdefault(table, []).extend(numbers)
                more |= {table} if further else set()
            data |= {(table, n, ids[n - 1]) for n in numbers}
        written = format_reference(kept, more)
        said += [part.text, part.space if written else "", written]
    return ResolvedText("".join(said), tuple(sorted(data)), dropped)


def format_reference(numbers: RowNumbers, incomplete_tables: Iterable[str] = ()) -> str:
    """The reference to these numbers; empty where there are none. more: tables of which not all are named.

    >>> mark({"chunks": [3], "entities": [7, 5, 7]}, more=["entities"])
    '[Data: Entities (5, 7, +more); Sources (3)]'
    """
    further = set(incomplete_tables)
    sets: list[str] = []
    for table, name in TABLE_NAMES.items():
        if named := sorted(set(numbers.get(table, ()))):
            shown = [*map(str, named), *([MORE_MARK] if table in further else [])]
            sets.append(f"{name} ({', '.join(shown)})")
    return f"[Data: {'; '.join(sets)}]" if sets else ""


def strip_references(text: str) -> str:
    """The text without its references.

    >>> unmarked("He paid [Data: Entities (2)]. She left [Data: Claims (4, +more)].")
    'He paid. She left.'
    """
    return "".join(part.text for part in _split_parts(text))


def split_cited_statements(text: str) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """Of a text as `resolve` gives it, each stretch up to a reference, and what that names: table -> numbers.

    >>> list(statements("He paid. [Data: Sources (2, 3)] She left."))
    [('He paid.', {'chunks': [2, 3]}), ('She left.', {})]
    """
    for said, _, named in split_at_references(text):
        if said.strip():
            yield said.strip(), named


def split_at_references(text: str) -> Iterator[tuple[str, str, dict[str, list[int]]]]:
    """The same to the letter: each stretch as it stands, the space between it and the reference, what that names.

    >>> list(pieces("He paid [Data: Sources (2)]."))
    [('He paid', ' ', {'chunks': [2]}), ('.', '', {})]
    """
    for part in _split_parts(text):
        named: dict[str, list[int]] = {}
        for table, ranges, _ in part.sets:
            if table:
                named.setdefault(table, []).extend(n for first, last in ranges for n in dict.fromkeys((first, last)))
        yield part.text, part.space, named


def _split_parts(text: str) -> Iterator[_TextPart]:
    at = 0
    for begin in _REFERENCE_START.finditer(text):
        if begin.start() < at:
            continue
        named, end = _parse_sets(text, begin.end(), bare=not begin[2])
        if named:
            closed = _REFERENCE_END.match(text, end)
            yield _TextPart(text[at : begin.start()], begin[1], named)
            at = closed.end() if begin[2] and closed else end
    yield _TextPart(text[at:])


def _parse_sets(text: str, start: int, *, bare: bool) -> tuple[tuple[_NumberSet, ...], int]:
    """What is named from `at` on, and where that ends.

    bare: no bracket was opened. Then, and after a set that no comma ends, it may be prose: only a name we know with
    numbers in brackets counts.
    """
    named: list[_NumberSet] = []
    end = start
    while name := _NAME.match(text, start):
        table = next((table for begin, table in _TABLE_PREFIXES if name[1].casefold().startswith(begin)), "")
        ranges, more, after = _parse_ranges(text, name.end())
        sure = name[2] and table if bare else name[2] or table
        if not ranges or not sure:
            break
        closed = _REFERENCE_END.match(text, after) if name[2] else None
        end = closed.end() if closed else after
        named.append((table, ranges, more))
        between = _SEPARATOR.match(text, end) or _SPACE.match(text, end)
        bare = bare or not (between and between[0].strip())
        start = between.end() if between else end
    return tuple(named), end


def _parse_ranges(text: str, start: int) -> tuple[tuple[tuple[int, int], ...], bool, int]:
    """The numbers from `at` on, as ranges; whether there are more; where they end."""
    ranges: list[tuple[int, int]] = []
    more, end = False, start
    while number := _NUMBER.match(text, start):
        end = number.end()
        if number[1]:
            ends = sorted(_parse_number(digits) for digits in (number[1], number[2] or number[1]))
            ranges.append((ends[0], ends[1]))
        more = more or bool(number[3])
        between = _SEPARATOR.match(text, end)
        if not between:
            break
        start = between.end()
    return tuple(ranges), more, end


def _parse_number(digits: str) -> int:
    return int(digits[:9])  # no context holds as many, and Python reads only so long a number
