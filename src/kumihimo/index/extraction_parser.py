"""a model's reply -> its extraction records: entities, relations, claims; and the lines that do not parse."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

_KIND = r"(?:entit(?:y|ies)|relation(?:ship)?s?|claims?)"
_OPEN, _CLOSE = "([{（【", ")]}）】"
_QUOTES = {'"': '"', "“": "”", "‘": "’", "'": "'", "`": "`", "「": "」"}
_RECORD_ENDS = (
    *_CLOSE,
    *_QUOTES.values(),
    *"0123456789",
)  # last characters of a complete record without its closing bracket
_QUOTE_MARKS = r"[\"'“”‘’`*]*"
_RECORD_BREAK = re.compile(  # between two records on one line: `##`, or a closing and an opening bracket
    rf"##(?=\s*(?:$|[{re.escape(_OPEN)}]?{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*<))"
    rf"|(?<=[)）])\s*(?=[(（]{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*<)",
    re.I,
)
_END_TAG = re.compile(r"<\|\s*(?:complete|end)\s*\|>", re.I)
_END_WORD = re.compile(
    r"(?:^[\W_]*|(?<=[.)。」\d])\s*)END[\s.*`]*$"
)  # at the end of a line; a description may end in a similar word
_DELIMITER = re.compile(  # `<|>` as requested, or half of it next to a quote or before the last number
    r"(?:(?<!\s)\s+)?(?:<\s*+\|++\s*+#?\s*+\|*+\s*>|＜\s*｜\s*＞|(?<=[\"”])\s*(?:\|>|<\|)|(?:\|>|<\|)(?=\s*[\"“]|\s*[\d.]+\s*[)\]]?\s*$))\s*"
)
_RECORD_START = re.compile(  # bullet or number, bracket, quote, kind
    rf"[\s>*•+#`\-]*+(?:\d+[.)][\s*`]*+)?(?P<open>[{re.escape(_OPEN)}]?)"
    rf"\s*+(?P<mark>{_QUOTE_MARKS}+)(?P<kind>{_KIND}){_QUOTE_MARKS}:?"
    r"\s*(?=<|＜|\|)",
    re.I,
)
_RECORD_LIKE = re.compile(
    rf"<\s*\||\|\s*>|＜｜＞|^\W*{_KIND}\W*[|,]\s*\S|^\s*[(（]{_QUOTE_MARKS}{_KIND}{_QUOTE_MARKS}\s*,", re.I
)
_NUMBER = re.compile(r"[^\w.\-]*(?:strength\W*)?(-?\d+(?:\.\d+)?)(?:\s*/\s*10)?[^\w]*", re.I)
_LIST = re.compile("[,;、，；]")
_EMPTY_WORDS = frozenset(["none", "null", "n/a", "-", "なし"])
_DATE = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?)?")
CLAIM_STATUSES = ("TRUE", "FALSE", "SUSPECTED")


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity as the model extracted it."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True)
class ExtractedRelation:
    """A relation as the model extracted it.

    strength: 1 to 10; None: the reply gave no number.
    """

    source: str
    target: str
    text: str
    keywords: tuple[str, ...]
    strength: float | None


@dataclass(frozen=True, slots=True)
class ExtractedClaim:
    """A claim as the model extracted it.

    object: empty if none. start, end: ISO 8601, or empty.
    """

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
    """Records of a reply, in its order.

    broken_lines: lines that look like a record but do not parse. has_end_mark: whether the reply contains END.
    """

    records: tuple[ExtractedRecord, ...] = ()
    broken_lines: tuple[str, ...] = ()
    has_end_mark: bool = False


def parse_extraction(text: str) -> ParsedExtraction:
    r"""Parse each record of a reply separately; never raise.

    One broken record does not affect the others. The parser accepts the requested format and common deviations:
    bullets, fences, `##`, brackets around a record, quotes around its fields, an extra or half delimiter, a missing
    END.

    >>> reply = "Here they are:\n1. (\"entity\"<|>\"Oban\"<|>\"place\"<|>\"A port (in Scotland)\")##\nEND"
    >>> parse_extraction(reply).records
    (ExtractedEntity(name='Oban', type='place', text='A port (in Scotland)'),)
    >>> parse_extraction("relation<|>Ines Roy<|>Oban<|>She lives there.<|>home, work<|>7").records[0].keywords
    ('home', 'work')
    >>> parse_extraction("entity<|>Oban")
    ParsedExtraction(records=(), broken_lines=('entity<|>Oban',), has_end_mark=False)
    """
    records: list[ExtractedRecord] = []
    broken_lines: list[str] = []
    lines = list(_split_lines(text))
    has_end_mark = any("END" in line and _END_WORD.search(line) for line in lines)
    for line in _join_continuations(_END_WORD.sub("", line) if "END" in line else line for line in lines):
        record = _parse_record(line)
        if record:
            records.append(record)
        elif _RECORD_LIKE.search(line):
            broken_lines.append(line)
    return ParsedExtraction(tuple(records), tuple(broken_lines), has_end_mark)


def drop_last_line(text: str) -> str:
    r"""Return a truncated reply without its last line, which may be incomplete.

    >>> drop_last_line("entity<|>Oban<|>place<|>A port.\nentity<|>Ines R")
    'entity<|>Oban<|>place<|>A port.'
    """
    last = max(text.rfind("\n"), text.rfind(")##") + 1)
    return text[: max(last, 0)].rstrip()


def _split_lines(text: str) -> Iterator[str]:
    """Yield the lines of a reply, one record each."""
    for line in _END_TAG.sub("\nEND\n", text).replace("\r", "\n").split("\n"):
        for piece in _RECORD_BREAK.split(line) if "##" in line or line.count("(") > 1 else [line]:
            if piece and not piece.isspace():
                yield " ".join(piece.split())


def _join_continuations(lines: Iterable[str]) -> list[str]:
    """Join continuation lines to the record before them.

    A record continues if it lacks fields, or if its bracket is open.
    """
    joined: list[str] = []
    for line in lines:
        if joined and not _RECORD_START.match(line) and _is_unfinished(joined[-1], line):
            joined[-1] += " " + line
        elif line:
            joined.append(line)
    return joined


def _is_unfinished(record: str, line: str) -> bool:
    """Return whether this line continues the record."""
    start = _RECORD_START.match(record)
    if not start or line.startswith(tuple(_OPEN)):
        return False
    if _DELIMITER.search(line):
        return len(_DELIMITER.findall(record)) < _KINDS[start["kind"][0].lower()][0]
    return bool(start["open"]) and not record.rstrip("#,; ").endswith(_RECORD_ENDS)


def _parse_record(line: str) -> ExtractedRecord | None:
    """Parse one line as a record; return None if it is none."""
    start = _RECORD_START.match(line)
    if not start:
        return None
    rest = line[start.end() :].strip().rstrip("`").removesuffix("**").removesuffix("##").rstrip(" ,;")
    if bracket := start["open"]:
        closing = _CLOSE[_OPEN.index(bracket)]
        if rest.endswith(closing) and rest.count(closing) > rest.count(bracket):  # else it belongs to the text
            rest = rest[:-1]
    quoted = bool(start["mark"].strip("*`"))
    count, parse = _KINDS[start["kind"][0].lower()]
    pieces = rest.split("<|>")  # the requested delimiter, unless it gives too few fields
    pieces = pieces if len(pieces) == count + 1 else _DELIMITER.split(rest)
    fields = [_strip_quotes(piece, quoted) for piece in pieces]
    while fields and not fields[0]:  # an empty field before the first delimiter
        fields.pop(0)
    return parse(_limit_fields(fields, count))


def _strip_quotes(field: str, quoted: bool) -> str:
    """Return the field without the quotes around it.

    Quotes stay if the field contains more of them inside.

    >>> [_strip_quotes(field, False) for field in ('"Oban"', '"Weird Al" Yankovic', '"A" and "B"', "42")]
    ['Oban', '"Weird Al" Yankovic', '"A" and "B"', '42']
    >>> [_strip_quotes(field, True) for field in ('"The song "Oban""', '"Oban', 'Oban"', '""')]
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
    """Drop empty fields beyond the maximum: trailing ones first, then any."""
    while len(fields) > max_fields and not fields[-1]:
        fields = fields[:-1]
    return fields if len(fields) <= max_fields else [field for field in fields if field]


def _parse_entity(fields: list[str]) -> ExtractedEntity | None:
    """Return the entity of these fields; None if they are incomplete."""
    if len(fields) < 3 or not _is_name(fields[0]):
        return None
    return ExtractedEntity(fields[0], fields[1], " ".join(fields[2:]))


def _parse_relation(fields: list[str]) -> ExtractedRelation | None:
    """Return the relation of these fields; None if they are incomplete."""
    if len(fields) < 3 or not (_is_name(fields[0]) and _is_name(fields[1])):
        return None
    source, target, *rest = fields
    strength = None
    if len(rest) > 2 or (len(rest) == 2 and _NUMBER.fullmatch(rest[-1])):
        strength = _parse_strength(rest.pop())
    keywords = _parse_keywords(rest.pop()) if len(rest) > 1 else ()
    return ExtractedRelation(source, target, " ".join(rest), keywords, strength)


def _parse_claim(fields: list[str]) -> ExtractedClaim | None:
    """Return the claim of these fields; None if they are incomplete."""
    if len(fields) < 7 or not _is_name(fields[0]):
        return None
    subject, object_name, claim_type, status, start, end, text, *quotes = fields
    normalised_status = re.sub(r"\W", "", status).upper()
    status = normalised_status if normalised_status in CLAIM_STATUSES else "SUSPECTED"
    object_name = object_name if _has_value(object_name) else ""
    start, end, quote = valid_iso_date(start), valid_iso_date(end), " ".join(filter(_has_value, quotes))
    return ExtractedClaim(subject, object_name, claim_type, status, start, end, text, quote)


_RecordParser = Callable[[list[str]], ExtractedRecord | None]
# first letter of a kind -> its number of fields, its parser
_KINDS: dict[str, tuple[int, _RecordParser]] = {
    "e": (3, _parse_entity),
    "r": (5, _parse_relation),
    "c": (8, _parse_claim),
}


def _is_name(field: str) -> bool:
    """Return whether the field is a name."""
    return bool(field) and field not in ("NONE", "N/A")


def _has_value(field: str) -> bool:
    """Return whether the field has content."""
    return bool(field) and field.casefold() not in _EMPTY_WORDS


def _parse_strength(field: str) -> float | None:
    """Return a strength from 1 to 10; None without a number.

    >>> [_parse_strength(field) for field in ("7", "6.5)", "9/10", "0", "40", "high", "")]
    [7.0, 6.5, 9.0, 1.0, 10.0, None, None]
    """
    match = _NUMBER.fullmatch(field)
    return min(max(float(match[1]), 1.0), 10.0) if match else None


def _parse_keywords(field: str) -> tuple[str, ...]:
    """Return the keywords of a field, each once."""
    listing = field[1:-1] if field[:1] == "[" and field[-1:] == "]" else field
    words: Sequence[str] = [_strip_quotes(word, True) for word in _LIST.split(listing)]
    return tuple(dict.fromkeys(word for word in words if _has_value(word)))


def valid_iso_date(field: str) -> str:
    """Return an ISO 8601 date or time; empty for other fields.

    It may be a year, a month, a day or a time.

    >>> fields = ("2024", "2024-02", "2024-02-29T09:30:00Z", "2023-02-29", "May 2024", "NONE")
    >>> [valid_iso_date(field) for field in fields]
    ['2024', '2024-02', '2024-02-29T09:30:00Z', '', '', '']
    """
    if not field.isascii() or not _DATE.fullmatch(field):
        return ""
    try:
        datetime.fromisoformat({4: f"{field}-01-01", 7: f"{field}-01"}.get(len(field), field))
    except ValueError:
        return ""
    return field
