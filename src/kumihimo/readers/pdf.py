"""PDF -> one page of text, with the places where its pages begin."""

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, takewhile
from threading import Lock
from typing import Any, NamedTuple
from unicodedata import bidirectional

from kumihimo.core.errors import SourceError
from kumihimo.core.records import NOT_READ
from kumihimo.readers import glyphs, has_ocr, ocr, paragraphs, table_lines, titles
from kumihimo.readers.glyphs import TextLine, is_cjk_letter, merge_cells
from kumihimo.readers.page import Page, second_place
from kumihimo.readers.pdf_checks import Fault, find_fault, read_fields

FAULTS = {
    "picture": "a picture, of which only a stamp or a page number is read",
    "wrong letters": "its letters are not read, because the file does not say which letters they are",
    "doubtful letters": "its letters make no words, because the file does not say which letters they are",
    "damage": "it is damaged",
}
_PDFIUM_LOCK = Lock()  # PDFium is not thread-safe
MIN_HEAD_PAGES = 3  # a running head recurs at the top or bottom of at least so many pages
POINTS_PER_INCH = 72
MAX_ABREAST = 3  # letters
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")
PAGE_NUMBER = re.compile(
    r"(?:page|p\.?|第|[-–—(\[| ])*+\s*+(\d{1,3})\s*+(?:[-–—)\]| ]|頁|ページ|/ ?\d+|of \d+)*+", re.I
)
EDGE_NUMBER = re.compile(r"^(?:(\d{1,4})|[ivxl]+) \| | \| (?:(\d{1,4})(?: ?/ ?\d+)?|[ivxl]+)$")  # beside a head
PROPERTIES = {"Author": "author", "Subject": "subject", "Keywords": "keywords", "CreationDate": "date"}
GENERATED_CHARS = " \r\n"  # PDFium inserts only these; asking it about every letter would double the time


def read_pdf(data: bytes, name: str) -> Iterator[Page]:
    """Read a PDF in reading order, vertical writing too.

    Lines are joined to paragraphs, and running heads are left out.
    Pages that are pictures are read by OCR if it is installed.
    Raise SourceError if it is locked, broken, or holds only pictures.
    """
    import pypdfium2

    pages, pictures, faults = list[list[TextLine]](), set[int](), dict[int, Fault]()
    try:
        with _PDFIUM_LOCK, pypdfium2.PdfDocument(data[max(data.find(b"%PDF-"), 0) :]) as document:
            if has_form := document.get_formtype() != pypdfium2.raw.FORMTYPE_NONE:
                document.init_forms()
            for number in range(len(document)):
                lines, fault, is_picture = _read_page(document, number, has_form=has_form)
                pages.append(lines)
                if is_picture:
                    pictures.add(number)
                elif fault:
                    faults[number] = fault
            if [*faults.values()] == ["damage"] * len(pages):
                raise pypdfium2.PdfiumError("no page can be read")
            properties = {key: text.replace("\0", "") for key, text in document.get_metadata_dict().items()}
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise SourceError(f"{name}: locked with a password; save it without one") from error
        remedy = "download it again, or print it to a new PDF"
        raise SourceError(f"{name}: not a complete PDF ({error}); {remedy}") from error
    size = (
        paragraphs.usual_size([page for number, page in enumerate(pages) if number not in pictures]) or ocr.LETTER_SIZE
    )
    pages = [ocr.fit_size(page, size) if number in pictures else page for number, page in enumerate(pages)]
    unread_pages = [f"p. {number + 1}: {FAULTS[fault]}{_ocr_remedy(fault)}" for number, fault in faults.items()]
    yield _build_page(pages, properties, name, unread_pages, {number + 1 for number in faults})


def _read_page(document: Any, number: int, *, has_form: bool) -> tuple[list[TextLine], Fault, bool]:
    """Return the lines of a page and its fault.

    The last value tells whether OCR read the lines.
    """
    import pypdfium2

    try:
        page = document[number]
    except pypdfium2.PdfiumError:
        return [], "damage", False
    boxes = read_boxes(page)
    fault = find_fault(page, [box.letter for box in boxes])
    lines = [] if fault == "wrong letters" else arrange_boxes(boxes)
    seen = _recognize_page(page) if fault or not lines else []
    fields = list(read_fields(document, page, seen or lines)) if has_form else []
    page.close()
    return [*(seen or lines), *fields], fault, bool(seen)


def _ocr_remedy(fault: Fault) -> str:
    return "" if fault == "damage" or has_ocr() else "; to read it by OCR, run `pip install 'kumihimo[ocr]'`"


def _recognize_page(page: Any) -> list[TextLine]:
    """Return the lines of a scanned page; none without OCR."""
    if not has_ocr() or next(iter(page.get_objects(max_depth=1)), None) is None:
        return []
    width, height = (max(side, 1.0) for side in page.get_size())
    scale = min(ocr.DPI / POINTS_PER_INCH, ocr.MAX_SIDE / max(width, height))
    return ocr.read_picture_lines(page.render(scale=scale).to_pil())


def _build_page(
    pages: Sequence[Sequence[TextLine]],
    properties: dict[str, str],
    name: str,
    unread: list[str],
    named: Collection[int] = (),
) -> Page:
    """Build the page. named: the numbers of pages in `unread`."""
    result = paragraphs.join_paragraphs(drop_running_heads(pages))
    if not result.text.strip():
        if has_ocr():
            raise SourceError(f"{name}: no text on any of its pages ({len(pages):,}), and OCR finds none; scan it anew")
        raise SourceError(
            f"{name}: no text on any of its pages ({len(pages):,}), so it is scanned; to read it by OCR, "
            f"run `pip install 'kumihimo[ocr]'`"
        )
    if blank := [str(number) for number, page in enumerate(pages, 1) if not page and number not in named]:
        remedy = "" if has_ocr() else "; if they are scanned, run `pip install 'kumihimo[ocr]'`"
        unread = [*unread, f"no text on p. {', '.join(blank)}{remedy}"]
    values = {key: properties.get(term, "") for term, key in PROPERTIES.items()}
    metadata: dict[str, object] = {key: value for key, value in values.items() if value.strip()}
    if date := PDF_DATE.match(str(metadata.pop("date", ""))):
        metadata["date"] = "-".join(filter(None, date.groups()))
    if unread:
        metadata[NOT_READ] = unread
    places = tuple((offset, f"p. {number}") for number, offset in enumerate(result.page_starts, 1))
    title = titles.human_title(properties.get("Title", ""))
    title = title or titles.first_page_title(result.text, second_place(places), partial(_heading_size, pages))
    return Page(title=title, text=result.text, metadata=metadata, places=places)


def _heading_size(pages: Sequence[Sequence[TextLine]], heading: str) -> float:
    """Return the size of a heading, which may have several lines."""
    return next((line.size for page in pages for line in page if heading.startswith(line.text)), 0.0)


def drop_running_heads(pages: Sequence[Sequence[TextLine]]) -> list[list[TextLine]]:
    """Remove page numbers, and running heads shared by most pages.

    A running head stays where it first stands, and a page of nothing else stays whole: no text is lost.
    """
    largest = paragraphs.HEADING_SIZE * paragraphs.usual_size(pages)
    keys_by_page = [[_head_keys(line, number, largest) for line in page] for number, page in enumerate(pages)]
    counts = Counter(key for keys in keys_by_page for key in {*chain(*keys[:2], *keys[-2:])})
    running = {key for key, count in counts.items() if count >= max(MIN_HEAD_PAGES, len(pages) / 2)}
    running |= {(text, None, height) for text, _, height in running}  # on a page without a number, or with `xi`
    result, emitted = list[list[TextLine]](), {""}
    for page, keys in zip(pages, keys_by_page, strict=True):
        is_head, indices = [not running.isdisjoint(each) for each in keys], range(len(keys))
        ends = (indices[:2], indices[::-1][:2])  # the inner line counts only if the outer one does
        texts = {index: _head_text(page[index].text) for end in ends for index in takewhile(is_head.__getitem__, end)}
        only_heads = len(texts) == len(page)
        result.append([line for index, line in enumerate(page) if only_heads or texts.get(index) not in emitted])
        emitted.update(texts.values())
    return result


_HeadKey = tuple[str, int | None, int]  # text, page number minus page index, height


def _head_keys(line: TextLine, page: int, largest: float) -> list[_HeadKey]:
    """Return the keys of a running head across pages.

    A key is its text, or a number that grows page by page.
    """
    if largest and line.size >= largest:  # a chapter heading
        return []
    height, text = round(line.line_position / 10), _head_text(line.text)
    number = PAGE_NUMBER.fullmatch(line.text) or EDGE_NUMBER.search(line.text)
    digits = next(filter(None, number.groups()), "") if number else ""
    offset = int(digits) - page if digits else None
    return [(text, offset, height), ("#", offset, height)][: 1 + bool(digits)]


def _head_text(text: str) -> str:
    """Return a running head without its page number.

    >>> [_head_text(text) for text in ("88 | Tides", "Tides | 7 / 244", "Tides | xi", "- 3 -", "Tides 3")]
    ['Tides', 'Tides', 'Tides', '', 'Tides 3']
    """
    return "" if PAGE_NUMBER.fullmatch(text) else EDGE_NUMBER.sub("", text)


class CharBox(NamedTuple):
    """A letter and its extent on the page, turned upright."""

    letter: str
    generated: bool  # a space or line end inserted by PDFium
    x0: float
    x1: float
    y0: float
    y1: float


END_BOX = CharBox("\n", True, 0.0, 0.0, 0.0, 0.0)
Direction = Callable[[CharBox], tuple[float, float, float, float]]  # the begin, end, line position and size of a glyph


def arrange_boxes(boxes: Sequence[CharBox]) -> list[TextLine]:
    """Return a page's lines in the direction of most letters.

    On a vertical page, horizontal lines come first.
    """
    direction = writing_direction([box for box in boxes if not box.generated and box.letter.strip()])
    if direction is not downward:
        return _build_lines(boxes, direction)
    horizontal, vertical = list[CharBox](), list[CharBox]()
    for run in glyphs.split_between(boxes, lambda box, following: not _is_right_of(box, following)):
        if len(run) > MAX_ABREAST:  # a header or page number; two figures may stand side by side in vertical text
            horizontal += [*run, END_BOX]
        else:
            vertical += run
    return [*_build_lines(horizontal, rightward), *glyphs.order_columns(_build_lines(vertical, downward))]


def _build_lines(boxes: Sequence[CharBox], direction: Direction) -> list[TextLine]:
    placed = [glyphs.Glyph(box.letter, *direction(box), box.generated) for box in boxes]
    groups = glyphs.split_columns(placed) if direction is downward else glyphs.split_rows(placed)
    whole = glyphs.attach_readings(groups)
    if direction is rightward:
        return table_lines.join_rows(merge_cells(whole))
    return [line for group in whole if (line := glyphs.build_line(group, cells=False)).text]


def _is_right_of(box: CharBox, following: CharBox) -> bool:
    """Return whether the next box stands to the right, at equal height."""
    height = max(box.y1 - box.y0, following.y1 - following.y0, 1.0)
    is_level = abs((box.y0 + box.y1) - (following.y0 + following.y1)) < height / 2
    return following.letter != "\n" and following.x0 > box.x0 and is_level


def read_boxes(page: Any) -> list[CharBox]:
    """Return the box of each letter, on the page turned upright."""
    import pypdfium2.raw as pdfium

    text, area, quarter_turns = page.get_textpage(), pdfium.FS_RECTF(), page.get_rotation() // 90
    handle, area_pointer = text.raw, ctypes.byref(area)
    boxes: list[CharBox] = []
    for i in range(text.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(handle, i, area_pointer)
        letter = chr(pdfium.FPDFText_GetUnicode(handle, i))
        if "\udc00" <= letter <= "\udfff" and boxes:  # PDFium returns letters such as 𠮷 as two surrogates
            pair = (boxes[-1].letter + letter).encode("utf-16", "surrogatepass")
            boxes[-1] = boxes[-1]._replace(letter=pair.decode("utf-16", "replace"))
            continue
        generated = letter in GENERATED_CHARS and pdfium.FPDFText_IsGenerated(handle, i) == 1
        x0, x1, y0, y1 = area.left, area.right, area.bottom, area.top
        for _ in range(quarter_turns):
            x0, x1, y0, y1 = y0, y1, -x1, -x0
        boxes.append(CharBox(letter, generated, x0, x1, y0, y1))
    return boxes


def writing_direction(boxes: Sequence[CharBox]) -> Direction:
    """Return the direction of most letters."""
    pairs = ((a, b) for a, b in pairwise(boxes) if is_cjk_letter(a.letter))
    if sum(abs((a.x0 + a.x1) - (b.x0 + b.x1)) < (a.y1 - b.y1) for a, b in pairs) > len(boxes) / 2:
        return downward
    return leftward if sum(bidirectional(box.letter) in ("R", "AL") for box in boxes) > len(boxes) / 2 else rightward


def rightward(box: CharBox) -> tuple[float, float, float, float]:
    return box.x0, box.x1, (box.y0 + box.y1) / 2, box.y1 - box.y0


def leftward(box: CharBox) -> tuple[float, float, float, float]:
    return -box.x1, -box.x0, (box.y0 + box.y1) / 2, box.y1 - box.y0


def downward(box: CharBox) -> tuple[float, float, float, float]:
    """Place a letter of vertical writing.

    Lines go down, and each line follows to the left of the one before.
    """
    return -box.y1, -box.y0, (box.x0 + box.x1) / 2, box.x1 - box.x0
