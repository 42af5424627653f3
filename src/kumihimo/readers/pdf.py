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

_PDFIUM_LOCK = Lock()  # PDFium is not thread-safe
MIN_LETTER_SHARE = 0.95  # of the letters that pypdf finds
MIN_HEAD_PAGES = 3  # a running head recurs at the top or bottom of at least so many pages
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")
PAGE_NUMBER = re.compile(r"(?:p\.?|page|第|[-–—(\[| ])*\s*(\d{1,3})\s*(?:[-–—)\]| ]|頁|ページ|/ ?\d+|of \d+)*", re.I)
PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "date"}


def read_pdf(data: bytes, name: str) -> Iterator[Page]:
    """Read a PDF in reading order, vertical writing too.

    Lines are joined to paragraphs, and running heads are left out.
    Raise SourceError if it is locked, broken, or holds only pictures.
    """
    import pypdfium2

    try:
        with _PDFIUM_LOCK, pypdfium2.PdfDocument(data) as document:
            results = [_read_lines(page) for page in document]
            properties = document.get_metadata_dict(skip_empty=True)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise SourceError(f"{name}: locked with a password; save it without one") from error
        results, properties = [(_plain_lines(page), False) for page in _open_with_pypdf(data, name).pages], {}
    pages = [page for page, _ in results]
    incomplete = [number for number, (_, lacks_fonts) in enumerate(results) if lacks_fonts]
    unread = _fill_missing_letters(pages, incomplete, data, name) if incomplete else []
    yield _build_page(pages, properties, name, unread)


def _read_lines(page: PdfPage) -> tuple[list[TextLine], bool]:
    """Return a page's lines, and whether letters may be missing.

    Opening a page parses it, so this opens it once for both.
    """
    result = list(read_page_lines(page)), lacks_embedded_fonts(page)
    page.close()
    return result


def _fill_missing_letters(pages: list[list[TextLine]], incomplete: Sequence[int], data: bytes, name: str) -> list[str]:
    """Replace the text of pages where PDFium skipped letters.

    The new text is pypdf's. Return what may still be missing.
    """
    try:
        pypdf_pages = _open_with_pypdf(data, name).pages
        for number in incomplete:
            plain = _plain_lines(pypdf_pages[number])
            if _count_letters(pages[number]) < MIN_LETTER_SHARE * _count_letters(plain):
                pages[number] = plain
    except Exception as error:  # noqa: BLE001 (PDFium's text stays, with a warning)
        return [f"perhaps some letters of fonts that the file does not embed ({error})"]
    return []


def _build_page(pages: Sequence[Sequence[TextLine]], properties: dict[str, str], name: str, unread: list[str]) -> Page:
    paragraph_text = join_paragraphs(drop_running_heads(pages))
    blank = [number for number, page in enumerate(pages, 1) if not page]
    if not paragraph_text.text.strip():
        raise SourceError(
            f"{name}: no text on any of its pages ({len(pages):,}), so it is scanned; add a text layer first, "
            f"as `ocrmypdf {name.rpartition('/')[2]} ...` does"
        )
    unread = [*unread, f"no text on p. {', '.join(map(str, blank))}"] if blank else unread
    metadata = _read_metadata(properties) | ({NOT_READ: unread} if unread else {})
    places = tuple((offset, f"p. {number}") for number, offset in enumerate(paragraph_text.page_starts, 1))
    title = human_title(properties.get("Title", "")) or first_heading(paragraph_text.text)
    return Page(title=title, text=paragraph_text.text, metadata=metadata, places=places)


def _read_metadata(properties: dict[str, str]) -> dict[str, object]:
    metadata: dict[str, object] = {
        key: properties[name] for name, key in PROPERTIES.items() if properties.get(name, "").strip()
    }
    if date := PDF_DATE.match(str(metadata.pop("date", ""))):
        metadata["date"] = "-".join(filter(None, date.groups()))
    return metadata


def drop_running_heads(pages: Sequence[Sequence[TextLine]]) -> list[list[TextLine]]:
    """Remove page numbers, and running heads shared by most pages.

    A running head stays where it first stands, and a page of nothing else stays whole: no text is lost.
    """
    sizes = [line.size for page in pages for line in page for _ in line.text]
    largest = HEADING_SIZE * median(sizes) if sizes else 0.0
    ends = [{_head_key(line, n, largest) for line in (*page[:2], *page[-2:])} - {None} for n, page in enumerate(pages)]
    min_pages = max(MIN_HEAD_PAGES, len(pages) / 2)
    running = {key for key, count in Counter(key for keys in ends for key in keys).items() if count >= min_pages}
    result, emitted = list[list[TextLine]](), set[_HeadKey | None]()
    for number, page in enumerate(pages):
        keys = [_head_key(line, number, largest) for line in page]
        ends_here = _running_edges([key in running for key in keys])
        dropped = {index for index in ends_here if (key := keys[index]) and (key[1] is not None or key in emitted)}
        only_heads = len(ends_here) == len(page)
        result.append([line for index, line in enumerate(page) if only_heads or index not in dropped])
        emitted.update(keys[index] for index in ends_here)
    return result


_HeadKey = tuple[str, int | None, int]  # text, page number minus page index, height


def _head_key(line: TextLine, page: int, largest: float) -> _HeadKey | None:
    """Return the key of a running head across pages.

    The key is the line itself, or a number that grows page by page.
    """
    if largest and line.size >= largest:  # a chapter heading
        return None
    height = round(line.line_position / 10)
    number = PAGE_NUMBER.fullmatch(line.text)
    return ("#", int(number[1]) - page, height) if number else (line.text, None, height)


def _running_edges(running: Sequence[bool]) -> set[int]:
    """Return the indices of running heads among a page's outer lines.

    They are the first two and the last two lines. The inner one counts only if the outer one does.
    """
    last = len(running) - 1
    places = ((0, 0), (1, 0), (last, last), (last - 1, last))
    return {index for index, outer in places if 0 <= index <= last and running[index] and running[outer]}


def _open_with_pypdf(data: bytes, name: str) -> PdfReader:
    """Open the file with pypdf.

    It knows nothing of layout, but needs no fonts, and opens files that PDFium rejects.
    """
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its repairs do not concern the user
    try:
        return PdfReader(io.BytesIO(data))
    except (PyPdfError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"{name}: not a complete PDF ({error}); download it again, or print it to a new PDF"
        ) from error


def _plain_lines(page: PageObject) -> list[TextLine]:
    return [TextLine(text) for text in page.extract_text().splitlines() if text.strip()]


def _count_letters(page: Sequence[TextLine]) -> int:
    return sum(map(str.isalnum, "".join(line.text for line in page)))
