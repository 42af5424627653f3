"""PDF -> one page of text, with the places where its pages begin."""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kumihimo.core.errors import SourceError
from kumihimo.ports.readers.page import NOT_READ, Page
from kumihimo.ports.readers.paragraphs import Line, paragraphs
from kumihimo.ports.readers.pdf_lines import borrows_fonts, lines

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

WHOLE = 0.95  # of a page's letters
HEADS = 3  # pages on which a line has to recur, at their top or bottom, to be a running head
DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")
BY_MACHINE = re.compile(r"^untitled$|^Microsoft \w+ - |\.\w{2,5}$", re.I)
HEADING = re.compile("^## (.+)$", re.M)
PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "date"}


def pdf(data: bytes, name: str) -> Iterator[Page]:
    """The text in reading order, vertical writing too: lines joined to paragraphs, running heads left out.

    Raises SourceError where it is locked, broken, or holds pictures only.
    """
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise SourceError(f"{name}: locked with a password; save it without one") from error
        yield _page([_plain(page) for page in _other(data, name).pages], {}, name)
        return
    with document:
        pages = [list(lines(page)) for page in document]
        for number in [i for i, page in enumerate(document) if borrows_fonts(page)]:
            plain = _plain(_other(data, name).pages[number])
            if _letters(pages[number]) < WHOLE * _letters(plain):
                pages[number] = plain
        properties = document.get_metadata_dict(skip_empty=True)
    yield _page(without_heads(pages), properties, name)


def _page(pages: Sequence[Sequence[Line]], properties: dict[str, str], name: str) -> Page:
    written = paragraphs(pages)
    blank = [number for number, page in enumerate(pages, 1) if not page]
    if not written.text.strip():
        raise SourceError(
            f"{name}: {len(pages)} pages without any text, so it is scanned; put text under it first, "
            f"as `ocrmypdf {name.rpartition('/')[2]} ...` does"
        )
    said = f"no text on p. {', '.join(map(str, blank))}"
    about = _about(properties) | ({NOT_READ: [said]} if blank else {})
    places = tuple((at, f"p. {number}") for number, at in enumerate(written.begins, 1))
    return Page(title=_title(properties, written.text), text=written.text, metadata=about, places=places)


def _title(properties: dict[str, str], text: str) -> str:
    """What the properties say, if a person has written it; else the first heading."""
    said = properties.get("Title", "").strip()
    heading = HEADING.search(text)
    return said if said and not BY_MACHINE.search(said) else heading[1] if heading else ""


def _about(properties: dict[str, str]) -> dict[str, object]:
    found: dict[str, object] = {
        ours: properties[theirs] for theirs, ours in PROPERTIES.items() if properties.get(theirs, "").strip()
    }
    if date := DATE.match(str(found.pop("date", ""))):
        found["date"] = "-".join(filter(None, date.groups()))
    return found


def without_heads(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """The pages without the lines at their top and bottom that recur on most of them.

    One with the page's number goes everywhere; one that is the same each time stays where it first stands.
    """
    ends = [{key for line in _ends(page) for key in _keys(line, number)} for number, page in enumerate(pages)]
    least = max(HEADS, len(pages) / 2)
    running = {key for key, times in Counter(key for keys in ends for key in keys).items() if times >= least}
    kept, seen = list[list[Line]](), set[_Key]()
    for number, page in enumerate(pages):
        recurring = {id(line): running.intersection(_keys(line, number)) for line in _ends(page)}
        gone = {line for line, keys in recurring.items() if any(key[1] is not None or key in seen for key in keys)}
        seen.update(key for keys in recurring.values() for key in keys)
        kept.append([line for line in page if id(line) not in gone])
    return kept


_Key = tuple[str, int | None, int]  # words, by how much a number among them is more than the page's, height


def _ends(page: Sequence[Line]) -> list[Line]:
    return [*page[:2], *page[-2:]] if len(page) > 3 else list(page)


def _keys(line: Line, page: int) -> Iterator[_Key]:
    """By what a running head is known on another page: as it is, or with a number that goes up page by page."""
    height = round(line.across / 10)
    yield line.text, None, height
    numbers = list(re.finditer(r"\d+", line.text))
    for found in {numbers[0], numbers[-1]} if numbers else ():
        if len(found[0]) < 6:
            yield f"{line.text[: found.start()]}#{line.text[found.end() :]}", int(found[0]) - page, height


def _other(data: bytes, name: str) -> PdfReader:
    """By the other library, which knows nothing of layout, but needs no fonts and opens what the first one does not."""
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it mends is nothing to tell whoever indexes a folder
    try:
        return PdfReader(io.BytesIO(data))
    except (PyPdfError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{name}: not a whole PDF ({error}); get it again, or print it to a new PDF") from error


def _plain(page: PageObject) -> list[Line]:
    return [Line(text) for text in page.extract_text().splitlines() if text.strip()]


def _letters(page: Sequence[Line]) -> int:
    return sum(map(str.isalnum, "".join(line.text for line in page)))
