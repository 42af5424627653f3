"""a text with numbered references -> resolved references: `[Data: Entities (5, 7)]` in any spelling."""

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
# (table, empty for an unknown name; ranges of numbers; whether more rows are meant)
_NumberSet = tuple[str, tuple[tuple[int, int], ...], bool]

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
    """A text with resolved references. dropped: the number of invalid numbers removed."""

    text: str
    data: ResolvedReferences
    dropped: int


@dataclass(frozen=True, slots=True)
class _TextPart:
    """A text before a reference, the space between, and the reference.

    The last part has no reference.
    """

    text: str
    space: str = ""
    sets: tuple[_NumberSet, ...] = ()


def resolve_references(text: str, row_ids: Mapping[str, Sequence[str]]) -> ResolvedText:
    """Normalise and resolve the references of a text; remove invalid ones.

    row_ids: table -> ids of the numbered rows, from 1. No other word changes.

    >>> resolved = resolve_references(
    ...     "He paid (data: entity 2、9; claim (1)). She left [Data: Claims (4)].", {"entities": "ab"}
    ... )
    >>> resolved.text, resolved.data, resolved.dropped
    ('He paid [Data: Entities (2)]. She left.', (('entities', 2, 'b'),), 3)
    """
    pieces: list[str] = []
    data: set[tuple[str, int, str]] = set()
    dropped = 0
    for part in _split_parts(text):
        valid_numbers: dict[str, list[int]] = {}
        incomplete: set[str] = set()
        for table, ranges, has_more in part.sets:
            ids = row_ids.get(table, ())
            numbers = [n for first, last in ranges for n in range(max(first, 1), min(last, len(ids)) + 1)]
            dropped += sum(not 1 <= end <= len(ids) for ends in ranges for end in dict.fromkeys(ends))
            if numbers:
                valid_numbers.setdefault(table, []).extend(numbers)
                incomplete |= {table} if has_more else set()
            data |= {(table, n, ids[n - 1]) for n in numbers}
        reference = format_reference(valid_numbers, incomplete)
        pieces += [part.text, part.space if reference else "", reference]
    return ResolvedText("".join(pieces), tuple(sorted(data)), dropped)


def format_reference(numbers: RowNumbers, incomplete_tables: Iterable[str] = ()) -> str:
    """Format the reference to these numbers; empty without numbers.

    incomplete_tables: tables with more rows than the numbers given.

    >>> format_reference({"chunks": [3], "entities": [7, 5, 7]}, ["entities"])
    '[Data: Entities (5, 7, +more); Sources (3)]'
    """
    incomplete = set(incomplete_tables)
    sets: list[str] = []
    for table, name in TABLE_NAMES.items():
        if table_numbers := sorted(set(numbers.get(table, ()))):
            items = [*map(str, table_numbers), *([MORE_MARK] if table in incomplete else [])]
            sets.append(f"{name} ({', '.join(items)})")
    return f"[Data: {'; '.join(sets)}]" if sets else ""


def strip_references(text: str) -> str:
    """Return the text without its references.

    >>> strip_references("He paid [Data: Entities (2)]. She left [Data: Claims (4, +more)].")
    'He paid. She left.'
    """
    return "".join(part.text for part in _split_parts(text))


def split_cited_statements(text: str) -> Iterator[tuple[str, dict[str, list[int]]]]:
    """Yield each text before a reference, with its table -> numbers.

    text: as `resolve_references` returns it.

    >>> list(split_cited_statements("He paid. [Data: Sources (2, 3)] She left."))
    [('He paid.', {'chunks': [2, 3]}), ('She left.', {})]
    """
    for statement, _, numbers in split_at_references(text):
        if statement.strip():
            yield statement.strip(), numbers


def split_at_references(text: str) -> Iterator[tuple[str, str, dict[str, list[int]]]]:
    """Yield unchanged text, the space after it, and its table -> numbers.

    >>> list(split_at_references("He paid [Data: Sources (2)]."))
    [('He paid', ' ', {'chunks': [2]}), ('.', '', {})]
    """
    for part in _split_parts(text):
        numbers: dict[str, list[int]] = {}
        for table, ranges, _ in part.sets:
            if table:
                numbers.setdefault(table, []).extend(n for first, last in ranges for n in dict.fromkeys((first, last)))
        yield part.text, part.space, numbers


def _split_parts(text: str) -> Iterator[_TextPart]:
    """Yield the parts of a text, each up to a reference."""
    position = 0
    for match in _REFERENCE_START.finditer(text):
        if match.start() < position:
            continue
        sets, end = _parse_sets(text, match.end(), bare=not match[2])
        if sets:
            bracket = _REFERENCE_END.match(text, end)
            yield _TextPart(text[position : match.start()], match[1], sets)
            position = bracket.end() if match[2] and bracket else end
    yield _TextPart(text[position:])


def _parse_sets(text: str, start: int, *, bare: bool) -> tuple[tuple[_NumberSet, ...], int]:
    """Parse the tables and numbers at `start`; return them and their end.

    bare: no bracket is open. Then, and after a set without a comma, the text may be prose, so only a known name with
    numbers in brackets counts.
    """
    sets: list[_NumberSet] = []
    end = start
    while name := _NAME.match(text, start):
        table = next((table for prefix, table in _TABLE_PREFIXES if name[1].casefold().startswith(prefix)), "")
        ranges, more, numbers_end = _parse_ranges(text, name.end())
        is_certain = name[2] and table if bare else name[2] or table
        if not ranges or not is_certain:
            break
        bracket = _REFERENCE_END.match(text, numbers_end) if name[2] else None
        end = bracket.end() if bracket else numbers_end
        sets.append((table, ranges, more))
        separator = _SEPARATOR.match(text, end) or _SPACE.match(text, end)
        bare = bare or not (separator and separator[0].strip())
        start = separator.end() if separator else end
    return tuple(sets), end


def _parse_ranges(text: str, start: int) -> tuple[tuple[tuple[int, int], ...], bool, int]:
    """Parse ranges of numbers; return them, whether more follow, and their end."""
    ranges: list[tuple[int, int]] = []
    more, end = False, start
    while number := _NUMBER.match(text, start):
        end = number.end()
        if number[1]:
            # no context has more rows, and int() limits the number of digits
            first, last = sorted(int(digits[:9]) for digits in (number[1], number[2] or number[1]))
            ranges.append((first, last))
        more = more or bool(number[3])
        separator = _SEPARATOR.match(text, end)
        if not separator:
            break
        start = separator.end()
    return tuple(ranges), more, end
