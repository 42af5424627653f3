"""a document and the texts of its units -> one text, and where each unit is in it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kumihimo.importers.store import StoredDocument, StoredUnit
from kumihimo.readers.documents import MAX_DOCUMENT_CHARS

_HEADER = re.compile(r"(?:[^\n:]{1,80}: [^\n]*\n)+")  # lines that graphrag puts before each unit: `title: a.txt.`
_TITLE = re.compile(r"title: ([^\n]{1,80}?)\.?\n")
_MAX_TITLE_CHARS = 60
_MAX_HEADER_LINES = 20
_ANCHOR_CHARS = 20  # of the least that two units share


@dataclass(frozen=True, slots=True)
class LocatedDocument:
    """A text with the spans of its units. units: their ids, in the order of their spans."""

    document: StoredDocument
    text: str
    units: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


def locate_units(document: StoredDocument, units: Sequence[StoredUnit]) -> Iterator[LocatedDocument]:
    """Yield the text of a document with its units.

    A long text becomes several. The units stand in the text of the document, if the store holds it. Otherwise they are
    joined, and what two of them share stands once. Units without text are left out.
    """
    if not (texts := {unit.id: _plain(unit.text) for unit in units if unit.text.strip()}):
        return
    whole = _plain(document.text)
    spans = _find_units(whole, list(texts.values())) if whole.strip() else None
    if spans is None:
        whole, spans = _join_units(list(texts.values()))
    ids, first = list(texts), 0
    for n in range(1, len(ids) + 1):
        start = spans[first][0]
        if n == len(ids) or spans[n][1] - start > MAX_DOCUMENT_CHARS:
            end = max(end for _, end in spans[first:n])
            if first == 0 and n == len(ids):  # one part: what no unit covers belongs to it too
                start, end = 0, len(whole)
            shifted = tuple((begin - start, stop - start) for begin, stop in spans[first:n])
            yield LocatedDocument(document, whole[start:end], tuple(ids[first:n]), shifted)
            first = n


def _plain(text: str) -> str:
    """Return the text as an index holds it."""
    return text.replace("\r\n", "\n").replace("\ufeff", "").replace("\x00", "").encode("utf-8", "replace").decode()


def _find_units(whole: str, texts: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the spans of units in a text, or None."""
    spans: list[tuple[int, int]] = []
    for text in texts:
        after = spans[-1][0] + 1 if spans else 0
        found = ((whole.find(each, after), len(each)) for each in _without_headers(text))
        if (span := next(((start, start + size) for start, size in found if start >= 0), None)) is None:
            return None
        spans.append(span)
    return spans


def find_title(units: Sequence[StoredUnit]) -> str:
    r"""Return a title for a document without a name.

    It is that in the header of its units, or its first line.

    >>> find_title([StoredUnit("1", "d", "title: letter.txt.\nDear Ann,")])
    'letter.txt'
    >>> find_title([StoredUnit("1", "d", "# The tide station\n\nIt stands.")])
    'The tide station'
    """
    text = next((_plain(unit.text).strip() for unit in units if unit.text.strip()), "")
    titled = _TITLE.match(text)
    return titled[1] if titled else text.partition("\n")[0].strip("#*= ")[:_MAX_TITLE_CHARS]


def _without_headers(text: str) -> Iterator[str]:
    """Yield the text, without spaces, and without its first lines."""
    yield text
    yield text.strip()
    for _ in range(_MAX_HEADER_LINES):
        _, found, text = text.partition("\n")
        if not found or not text.strip():
            return
        yield text


def _join_units(texts: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    r"""Return the units as one text with their spans.

    >>> _join_units(["One two three four five six seven eight nine ten.", "five six seven eight nine ten. Eleven."])
    ('One two three four five six seven eight nine ten. Eleven.', [(0, 49), (19, 57)])
    >>> _join_units(["One.", "Two."])
    ('One.\n\nTwo.', [(0, 4), (6, 10)])
    """
    header = _HEADER.match(_common_start(texts)) if len(texts) > 1 else None
    parts, length, before, spans = list[str](), 0, "", list[tuple[int, int]]()
    for unit in texts:
        text = unit[header.end() :] if header and unit[header.end() :].strip() else unit
        shared = _shared_length(before, text)
        if parts and not shared:
            parts.append("\n\n")
            length += 2
        if shared < len(text):
            parts.append(text[shared:])
        spans.append((length - shared, length - shared + len(text)))
        length += len(text) - shared
        before = text
    return "".join(parts), spans


def _common_start(texts: Sequence[str]) -> str:
    """Return the beginning that all texts share."""
    first, last = min(texts), max(texts)
    length = next((i for i, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


def _shared_length(before: str, text: str) -> int:
    """Return how much of the end of one text begins the other."""
    anchor = text[:_ANCHOR_CHARS]
    if len(anchor) < _ANCHOR_CHARS:
        return 0
    start = before.find(anchor, max(0, len(before) - len(text)))
    while start >= 0:
        if text.startswith(before[start:]):
            return len(before) - start
        start = before.find(anchor, start + 1)
    return 0
