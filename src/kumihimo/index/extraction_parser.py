"""a model's reply -> the records in it: entities, relations, claims; the lines that were meant for one and are none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

_KIND = r"(?:entit(?:y|ies)|relation(?:ship)?s?|claims?)"
_OPEN, _CLOSE = "([{（【", ")]}）】"
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "`": "`", "「": "」"}
_RECORD_ENDS = (*_CLOSE, *_QUOTES.values(), *"0123456789")  # how a record ends, if its bracket is not closed
_QUOTE_MARKS = r"[\"'“”‘’`*]*"
_RECORD_BREAK = re.compile(  # two records of one line: `##` at either end of one, brackets that meet
    rf"##(?=\s*(?:$|[{re.escape(_OPEN)}]?{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*<))|(?<=[)）])\s*(?=[(（]{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*<)",
    re.I,
)
_END_TAG = re.compile(r"<\|\s*(?:complete|end)\s*\|>", re.I)
_END_WORD = re.compile(r"(?:^[\W_]*|(?<=[.)。」\d])\s*)END[\s.*`]*$")  # of a line; a description may end in such a word
_DELIMITER = re.compile(  # `<|>`, as it was asked for; or half of it, beside a quote or before the last number
    r"\s*(?:<\s*\|+\s*#?\s*\|*\s*>|＜\s*｜\s*＞|(?<=[\"”])\s*(?:\|>|<\|)|(?:\|>|<\|)(?=\s*[\"“]|\s*[\d.]+\s*[)\]]?\s*$))\s*"
)
_RECORD_START = re.compile(  # bullets and numbers, bracket, quote, kind
    rf"[\s>*•+#`\-]*+(?:\d+[.)][\s*`]*+)?(?P<open>[{re.escape(_OPEN)}]?)\s*+(?P<mark>{_QUOTE_MARKS}+)(?P<kind>{_KIND}){_QUOTE_MARKS}:?"
    r"\s*(?=<|＜|\|)",
    re.I,
)
_RECORD_LIKE = re.compile(
    rf"<\s*\||\|\s*>|＜｜＞|^\W*{_KIND}\W*[|,]\s*\S|^\s*[(（]{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*,", re.I
)
_NUMBER = re.compile(r"[^\w.\-]*(?:strength\W*)?(-?\d+(?:\.\d+)?)(?:\s*/\s*10)?[^\w]*", re.I)
_LIST = re.compile(r"\s*[,;、，；]\s*")
_EMPTY_WORDS = frozenset(["none", "null", "n/a", "-", "なし"])
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)?")
CLAIM_STATUSES = ("TRUE", "FALSE", "SUSPECTED")


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedRelation:
    """Two entities, and how they are related. strength: from 1 to 10; None: no number was given."""

    source: str
    target: str
    text: str
    keywords: tuple[str, ...]
    strength: float | None


@dataclass(frozen=True, slots=True)
class ExtractedClaim:
    """What is claimed of an entity. object: empty where there is none; start, end: ISO 8601, or empty."""

    subject: str
    object: str
    type: str
    status: str
    start: str
    end: str
    text: str
    quote: str


ExtractedRecord = ExtractedEntity | ExtractedRelation | ExtractedClaim


@dataclass(frozen=True, slots=True)
class ParsedExtraction:
    """What a reply holds, in its order. broken: lines meant for a record; ended: whether the mark of the end came."""

    records: tuple[ExtractedRecord, ...] = ()
    broken_lines: tuple[str, ...] = ()
    has_end_mark: bool = False


def parse_extraction(text: str) -> ParsedExtraction:
    r"""The records of a reply, each read by itself: one that is broken costs no other. Never raises.

    Read are lines as they were asked for, and what models make of them: bullets, fences, `##`, brackets around a
    record, quotes around its fields, a delimiter too many or half of one, no mark of the end.

    >>> extracted("Here they are:\n1. (\"entity\"<|>\"Oban\"<|>\"place\"<|>\"A port (in Scotland)\")##\nEND").records
    (Named(name='Oban', type='place', text='A port (in Scotland)'),)
    >>> extracted("relation<|>Ines Roy<|>Oban<|>She lives there.<|>home, work<|>7").records[0].keywords
    ('home', 'work')
    >>> extracted("entity<|>Oban")
    Extracted(records=(), broken=('entity<|>Oban',), ended=False)
    """
    records: list[ExtractedRecord] = []
    broken: list[str] = []
    lines = list(_split_lines(text))
    ended = any("END" in line and _END_WORD.search(line) for line in lines)
    for line in _join_continuations(_END_WORD.sub("", line) if "END" in line else line for line in lines):
        found = _parse_record(line)
        if found:
            records.append(found)
        elif _RECORD_LIKE.search(line):
            broken.append(line)
    return ParsedExtraction(tuple(records), tuple(broken), ended)


def drop_last_line(text: str) -> str:
    """Of a reply that broke off: what stands before its last line, which may be half of one.

    >>> whole_lines("entity<|>Oban<|>place<|>A port.\\nentity<|>Ines R")
    'entity<|>Oban<|>place<|>A port.'
    """
    last = max(text.rfind("\n"), text.rfind(")##") + 1)
    return text[: max(last, 0)].rstrip()


def _split_lines(text: str) -> Iterator[str]:
    for line in _END_TAG.sub("\nEND\n", text).replace("\r", "\n").split("\n"):
        for piece in _RECORD_BREAK.split(line) if "##" in line or line.count("(") > 1 else [line]:
            if piece and not piece.isspace():
                yield " ".join(piece.split())


def _join_continuations(lines: Iterable[str]) -> list[str]:
    """The lines, those that go on with a record put behind it: it is not whole yet, or its bracket is open."""
    made: list[str] = []
    for line in lines:
        goes_on = bool(made) and not _RECORD_START.match(line) and _is_unfinished(made[-1], line)
        if goes_on:
            made[-1] += " " + line
        elif line:
            made.append(line)
    return made


def _is_unfinished(record: str, line: str) -> bool:
    begin = _RECORD_START.match(record)
    if not begin or line.startswith(tuple(_OPEN)):
        return False
    if _DELIMITER.search(line):
        return len(_DELIMITER.findall(record)) < _FIELD_COUNTS[begin["kind"][0].lower()]
    return bool(begin["open"]) and not record.rstrip("#,; ").endswith(_RECORD_ENDS)


def _parse_record(line: str) -> ExtractedRecord | None:
    begin = _RECORD_START.match(line)
    if not begin:
        return None
    rest = line[begin.end() :].strip().rstrip("`").removesuffix("**").removesuffix("##").rstrip(" ,;")
    if begin["open"]:
        rest = _strip_bracket(rest, begin["open"])
    quoted = bool(begin["mark"].strip("*`"))
    fields = [_strip_quotes(field, quoted) for field in _split_fields(rest, _FIELD_COUNTS[begin["kind"][0].lower()])]
    while fields and not fields[0]:  # before the first delimiter; and one too many
        fields.pop(0)
    return _RECORD_PARSERS[begin["kind"][0].lower()](fields)


def _split_fields(rest: str, max_fields: int) -> list[str]:
    """The fields, by the delimiter as it was asked for, unless that gives too few."""
    plain = rest.split("<|>")
    return plain if len(plain) == max_fields + 1 else _DELIMITER.split(rest)


def _strip_bracket(rest: str, bracket: str) -> str:
    """Without the one bracket that closes the record; a bracket that belongs to its text stays."""
    shut = _CLOSE[_OPEN.index(bracket)]
    closes = rest.endswith(shut) and rest.count(shut) > rest.count(bracket)
    return rest[:-1] if closes else rest


def _strip_quotes(field: str, quoted: bool) -> str:
    """The field without its own quotes: those around it, unless it goes on inside with others.

    >>> [_bare(field, False) for field in ('"Oban"', '"Weird Al" Yankovic', '"A" and "B"', "42")]
    ['Oban', '"Weird Al" Yankovic', '"A" and "B"', '42']
    >>> [_bare(field, True) for field in ('"The song "Oban""', '"Oban', 'Oban"', '""')]
    ['The song "Oban"', 'Oban', 'Oban', '']
    """
    plain = field.strip()
    first, last = plain[:1], plain[-1:]
    if len(plain) > 1 and _QUOTES.get(first) == last and (quoted or not set(plain[1:-1]) & {first, last}):
        return plain[1:-1].strip() if first in '"“' or not quoted else plain
    if quoted and (plain.count('"') % 2 or plain.count("“") != plain.count("”")):
        return plain.removeprefix('"').removeprefix("“") if first in '"“' else plain.removesuffix('"').removesuffix("”")
    return plain


def _limit_fields(fields: list[str], max_fields: int) -> list[str]:
    """No more than so many: first those at the end that are empty go, then any that are."""
    while len(fields) > max_fields and not fields[-1]:
        fields = fields[:-1]
    return fields if len(fields) <= max_fields else [field for field in fields if field]


def _parse_entity(fields: list[str]) -> ExtractedEntity | None:
    fields = _limit_fields(fields, 3)
    if len(fields) < 3 or not _is_name(fields[0]):
        return None
    return ExtractedEntity(fields[0], fields[1], " ".join(fields[2:]))


def _parse_relation(fields: list[str]) -> ExtractedRelation | None:
    fields = _limit_fields(fields, 5)
    if len(fields) < 3 or not (_is_name(fields[0]) and _is_name(fields[1])):
        return None
    source, target, *more = fields
    strength = None
    if len(more) > 2 or (len(more) == 2 and _NUMBER.fullmatch(more[-1])):
        strength = _parse_strength(more.pop())
    keywords = _parse_keywords(more.pop()) if len(more) > 1 else ()
    return ExtractedRelation(source, target, " ".join(more), keywords, strength)


def _parse_claim(fields: list[str]) -> ExtractedClaim | None:
    fields = _limit_fields(fields, 8)
    if len(fields) < 7 or not _is_name(fields[0]):
        return None
    subject, other, kind, status, start, end, text, *quotes = fields
    known = re.sub(r"\W", "", status).upper()
    return ExtractedClaim(
        subject,
        other if _has_value(other) else "",
        kind,
        known if known in CLAIM_STATUSES else "SUSPECTED",  # what is not said to be so, nor to be false
        valid_iso_date(start),
        valid_iso_date(end),
        text,
        " ".join(quote for quote in quotes if _has_value(quote)),
    )


_RECORD_PARSERS = {"e": _parse_entity, "r": _parse_relation, "c": _parse_claim}
_FIELD_COUNTS = {"e": 3, "r": 5, "c": 8}


def _is_name(field: str) -> bool:
    return bool(field) and field not in ("NONE", "N/A")


def _has_value(field: str) -> bool:
    return bool(field) and field.casefold() not in _EMPTY_WORDS


def _parse_strength(field: str) -> float | None:
    """
    >>> [_strength(field) for field in ("7", "6.5)", "9/10", "0", "40", "high", "")]
    [7.0, 6.5, 9.0, 1.0, 10.0, None, None]
    """
    number = _NUMBER.fullmatch(field)
    return min(max(float(number[1]), 1.0), 10.0) if number else None


def _parse_keywords(field: str) -> tuple[str, ...]:
    plain = field[1:-1] if field[:1] == "[" and field[-1:] == "]" else field
    words: Sequence[str] = [_strip_quotes(word, True) for word in _LIST.split(plain)]
    return tuple(dict.fromkeys(word for word in words if _has_value(word)))


def valid_iso_date(field: str) -> str:
    """The field, if it is a year, month, day or time of ISO 8601; else nothing.

    >>> [date(field) for field in ("2024", "2024-02", "2024-02-29T09:30:00Z", "2023-02-29", "May 2024", "NONE")]
    ['2024', '2024-02', '2024-02-29T09:30:00Z', '', '', '']
    """
    if not field.isascii() or not _DATE.fullmatch(field):
        return ""
    try:
        datetime.fromisoformat({4: f"{field}-01-01", 7: f"{field}-01"}.get(len(field), field))
    except ValueError:
        return ""
    return field
