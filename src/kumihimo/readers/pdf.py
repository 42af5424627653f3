"""PDF -> one page of text, with the places where its pages begin."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median
from threading import Lock
from typing import TYPE_CHECKING

from kumihimo.core.errors import SourceError
from kumihimo.core.records import NOT_READ
from kumihimo.readers.page import Page, first_heading, human_title
from kumihimo.readers.paragraphs import HEADING_SIZE, TextLine, join_paragraphs
from kumihimo.readers.pdf_lines import lacks_embedded_fonts, read_page_lines

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader
    from pypdfium2 import PdfPage

_PDFIUM_LOCK = Lock()  # PDFium knows no threads
MIN_LETTER_SHARE = 0.95  # of a page's letters
MIN_HEAD_PAGES = 3  # pages on which a line has to recur, at their top or bottom, to be a running head
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")
PAGE_NUMBER = re.compile(r"(?:p\.?|page|第|[-–—(\[| ])*\s*(\d{1,3})\s*(?:[-–—)\]| ]|頁|ページ|/ ?\d+|of \d+)*", re.I)
PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "date"}


def read_pdf(data: bytes, name: str) -> Iterator[Page]:
    """The text in reading order, vertical writing too: lines joined to paragraphs, running heads left out.

    Raises SourceError where it is locked, broken, or holds pictures only.
    """
    import pypdfium2

    try:
        with _PDFIUM_LOCK, pypdfium2.PdfDocument(data) as document:
            read = [_read_lines(page) for page in document]
            properties = document.get_metadata_dict(skip_empty=True)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise SourceError(f"{name}: locked with a password; save it without one") from error
        read, properties = [(_plain_lines(page), False) for page in _open_with_pypdf(data, name).pages], {}
    pages, borrowed = [page for page, _ in read], [number for number, (_, borrows) in enumerate(read) if borrows]
    yield _build_page(pages, properties, name, _fill_missing_letters(pages, borrowed, data, name) if borrowed else [])


def _read_lines(page: PdfPage) -> tuple[list[TextLine], bool]:
    """Its lines, and whether some letters may be missing; a page is parsed when it is opened, so it is once."""
    found = list(read_page_lines(page)), lacks_embedded_fonts(page)
    page.close()
    return found


def _fill_missing_letters(pages: list[list[TextLine]], borrowed: Sequence[int], data: bytes, name: str) -> list[str]:
    """Put the other library's text in place of pages of which PDFium has passed over letters; what still lacks some."""
    try:
        others = _open_with_pypdf(data, name).pages
        for number in borrowed:
            plain = _plain_lines(others[number])
            if _count_letters(pages[number]) < MIN_LETTER_SHARE * _count_letters(plain):
                pages[number] = plain
    except Exception as error:  # noqa: BLE001 (PDFium has read them, as far as it can: that is told)
        return [f"perhaps some letters of fonts that the file does not bring ({error})"]
    return []


def _build_page(pages: Sequence[Sequence[TextLine]], properties: dict[str, str], name: str, unread: list[str]) -> Page:
    written = join_paragraphs(drop_running_heads(pages))
    blank = [number for number, page in enumerate(pages, 1) if not page]
    if not written.text.strip():
        raise SourceError(
            f"{name}: no text on any of its pages ({len(pages):,}), so it is scanned; put text under it first, "
            f"as `ocrmypdf {name.rpartition('/')[2]} ...` does"
        )
    unread = [*unread, f"no text on p. {', '.join(map(str, blank))}"] if blank else unread
    about = _read_metadata(properties) | ({NOT_READ: unread} if unread else {})
    places = tuple((at, f"p. {number}") for number, at in enumerate(written.page_starts, 1))
    title = human_title(properties.get("Title", "")) or first_heading(written.text)
    return Page(title=title, text=written.text, metadata=about, places=places)


def _read_metadata(properties: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {
        ours: properties[theirs] for theirs, ours in PROPERTIES.items() if properties.get(theirs, "").strip()
    }
    if date := PDF_DATE.match(str(found.pop("date", ""))):
        found["date"] = "-".join(filter(None, date.groups()))
    return found


def drop_running_heads(pages: Sequence[Sequence[TextLine]]) -> list[list[TextLine]]:
    """The pages without page numbers, and without the lines at top and bottom that are the same on most of them.

    Such a line stays where it first stands, and a page of nothing else stays whole: nothing is lost.
    """
    sizes = [line.size for page in pages for line in page for _ in line.text]
    largest = HEADING_SIZE * median(sizes) if sizes else 0.0
    ends = [{_head_key(line, n, largest) for line in (*page[:2], *page[-2:])} - {None} for n, page in enumerate(pages)]
    least = max(MIN_HEAD_PAGES, len(pages) / 2)
    running = {key for key, times in Counter(key for keys in ends for key in keys).items() if times >= least}
    kept, seen = list[list[TextLine]](), set[_HeadKey | None]()
    for number, page in enumerate(pages):
        keys = [_head_key(line, number, largest) for line in page]
        ends_here = _running_edges([key in running for key in keys])
        gone = {place for place in ends_here if (key := keys[place]) and (key[1] is not None or key in seen)}
        whole = len(ends_here) == len(page)
        kept.append([line for place, line in enumerate(page) if whole or place not in gone])
        seen.update(keys[place] for place in ends_here)
    return kept


_HeadKey = tuple[str, int | None, int]  # words, by how much a page number is more than the page's place, height


def _head_key(line: TextLine, page: int, largest: float) -> _HeadKey | None:
    """By what a running head is known on another page: as it is, or as a number that goes up page by page."""
    if largest and line.size >= largest:  # the heading of a chapter
        return None
    height = round(line.line_position / 10)
    number = PAGE_NUMBER.fullmatch(line.text)
    return ("#", int(number[1]) - page, height) if number else (line.text, None, height)


def _running_edges(running: Sequence[bool]) -> set[int]:
    """Which of the first two and the last two lines: the second only where the first is one, too."""
    last = len(running) - 1
    places = ((0, 0), (1, 0), (last, last), (last - 1, last))
    return {place for place, outer in places if 0 <= place <= last and running[place] and running[outer]}


def _open_with_pypdf(data: bytes, name: str) -> PdfReader:
    """By the other library, which knows nothing of layout, but needs no fonts and opens what the first one does not."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it mends is nothing to tell whoever indexes a folder
    try:
        return PdfReader(io.BytesIO(data))
    except (PyPdfError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{name}: not a whole PDF ({error}); get it again, or print it to a new PDF") from error


def _plain_lines(page: PageObject) -> list[TextLine]:
    return [TextLine(text) for text in page.extract_text().splitlines() if text.strip()]


def _count_letters(page: Sequence[TextLine]) -> int:
    return sum(map(str.isalnum, "".join(line.text for line in page)))
