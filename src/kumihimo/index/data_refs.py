"""a text with references such as `[Data: Entities (5, 7)]`, in any spelling -> the text without them."""

import re
from collections.abc import Iterator

from kumihimo.core.records import Reference, Report

_TABLE_NAME = re.compile("entit|relation|claim|report|source|chunk", re.I)
_OPEN, _CLOSE = r"\[［【(（", r"\]］】)）"
_REFERENCE_START = re.compile(rf"([ \t\u3000]{{0,4}})([{_OPEN}]\s{{0,4}})?(?<!\w)data\s{{0,4}}[:：]\s{{0,4}}", re.I)
_NAME = re.compile(r"([a-z][a-z_]{0,30}(?: [a-z_]{1,30})?)\s{0,4}[:：]?\s{0,4}([(（\[［]?)\s{0,4}", re.I)
_NUMBER = re.compile(r"(?:ids?\s)?#?\d+(?:\s{0,4}[-–—~〜]\s{0,4}\d+)?|\+\s{0,4}\w+|more\b|etc\.?|…|\.\.\.", re.I)
_SEPARATOR = re.compile(r"\s{0,4}(?:[,、，;；]|\band\b|&|(?=\+))\s{0,4}(?:and\b)?\s{0,4}", re.I)
_SPACE = re.compile(r"\s{0,4}")
_REFERENCE_END = re.compile(rf"\s{{0,4}}[{_CLOSE}]")
_STOPS = ".。!?！？"


def sources_of(report: Report, part: int) -> tuple[Reference, ...]:
    """Return the source rows of the summary (0) or a finding."""
    return report.sources[part] if part < len(report.sources) else ()


def strip_references(text: str) -> str:
    """Return the text without its references.

    A stop before and after a reference is one stop.

    >>> strip_references("He paid (data: entity 2、9; claim (1)). She left. [Data: Claims (4, +more)].")
    'He paid. She left.'
    """
    stripped = ""
    for part in _parts_between(text):
        doubled = part[:1] in _STOPS and stripped[-1:] == part[:1]
        stripped += part[1:] if doubled else part
    return stripped


def _parts_between(text: str) -> Iterator[str]:
    """Yield the parts of a text between its references."""
    position = 0
    for match in _REFERENCE_START.finditer(text):
        if match.start() < position:
            continue
        end = _find_end(text, match.end(), bare=not match[2])
        if end > match.end():
            yield text[position : match.start()]
            bracket = _REFERENCE_END.match(text, end)
            position = bracket.end() if match[2] and bracket else end
    yield text[position:]


def _find_end(text: str, start: int, *, bare: bool) -> int:
    """Return the end of the tables and numbers at `start`, or `start`.

    bare: no bracket is open. Then, and after a set without a comma, the text may be prose, so only a known name with
    numbers in brackets counts.
    """
    end = start
    while name := _NAME.match(text, start):
        is_table = _TABLE_NAME.match(name[1])
        numbers_end = _find_numbers_end(text, name.end())
        is_certain = name[2] and is_table if bare else name[2] or is_table
        if numbers_end == name.end() or not is_certain:
            break
        bracket = _REFERENCE_END.match(text, numbers_end) if name[2] else None
        end = bracket.end() if bracket else numbers_end
        separator = _SEPARATOR.match(text, end) or _SPACE.match(text, end)
        bare = bare or not (separator and separator[0].strip())
        start = separator.end() if separator else end
    return end


def _find_numbers_end(text: str, start: int) -> int:
    """Return the end of the numbers at `start`, or `start`."""
    end, has_digits = start, False
    position = start
    while number := _NUMBER.match(text, position):
        end, has_digits = number.end(), has_digits or any(letter.isdigit() for letter in number[0])
        separator = _SEPARATOR.match(text, end)
        if not separator:
            break
        position = separator.end()
    return end if has_digits else start
