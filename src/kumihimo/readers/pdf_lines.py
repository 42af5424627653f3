"""a page of a PDF -> its lines in reading order, each with its position."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from kumihimo.readers.glyphs import Glyph, attach_readings, build_line, order_columns, split_columns, split_rows
from kumihimo.readers.paragraphs import TextLine, is_cjk_letter, merge_cells

if TYPE_CHECKING:
    from pypdfium2 import PdfPage


def read_page_lines(page: PdfPage) -> Iterator[TextLine]:
    """Yield a page's lines in the direction of most letters.

    On a vertical page, horizontal lines come first.
    """
    boxes = _read_boxes(page)
    direction = _writing_direction([box for box in boxes if not box[1] and box[0].strip()])
    if direction is not _down:
        yield from _build_lines(boxes, direction, split_rows, cells=direction is _rightward)
        return
    horizontal, vertical = _split_directions(boxes)
    yield from _build_lines(horizontal, _rightward, split_rows, cells=True)
    yield from order_columns(list(_build_lines(vertical, _down, split_columns, cells=False)))


def _build_lines(
    boxes: Sequence[Box],
    direction: Callable[[Box], GlyphPlace],
    split: Callable[[Sequence[Glyph]], Iterator[list[Glyph]]],
    *,
    cells: bool,
) -> Iterator[TextLine]:
    glyphs = [Glyph(box[0], *direction(box), box[1]) for box in boxes]
    built = [build_line(line_glyphs, cells=cells) for line_glyphs in attach_readings(split(glyphs))]
    return merge_cells([line for line in built if line.text]) if cells else iter(built)


def _split_directions(boxes: Sequence[Box]) -> tuple[list[Box], list[Box]]:
    """Separate long horizontal runs from vertical text.

    The runs are headers and page numbers. Short runs count as vertical, because two figures may stand side by side.
    """
    horizontal: list[Box] = []
    vertical: list[Box] = []
    run: list[Box] = []
    for box in [*boxes, END_BOX]:
        if run and not _is_right_of(run[-1], box):
            if len(run) > MAX_ABREAST:
                horizontal += [*run, END_BOX]
            else:
                vertical += run
            run = []
        run.append(box)
    return horizontal, vertical


def _is_right_of(box: Box, following: Box) -> bool:
    """Return whether the next box stands to the right, at equal height."""
    height = max(box[5] - box[4], following[5] - following[4], 1.0)
    return (
        following[0] != "\n"
        and following[2] > box[2]
        and abs((box[4] + box[5]) - (following[4] + following[5])) < height / 2
    )


def lacks_embedded_fonts(page: PdfPage) -> bool:
    """Return whether the page uses fonts that the file does not embed.

    PDFium skips the letters that no installed font can draw.
    """
    import pypdfium2.raw as pdfium

    name = ctypes.create_string_buffer(64)
    for text in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT]):
        font = pdfium.FPDFTextObj_GetFont(text.raw)
        if not pdfium.FPDFFont_GetIsEmbedded(font):
            pdfium.FPDFFont_GetBaseFontName(font, name, len(name))
            if not name.value.startswith(STANDARD_FONTS):
                return True
    return False


Box = tuple[str, bool, float, float, float, float]  # letter, generated, x0, x1, y0, y1
GlyphPlace = tuple[float, float, float, float]  # begin, end, line position and size of a glyph
STANDARD_FONTS = (b"Helvetica", b"Times", b"Courier", b"Arial", b"Symbol", b"ZapfDingbats")  # PDFium includes these
GENERATED_CHARS = " \r\n"  # PDFium inserts only these; asking it about every letter would double the time
MAX_ABREAST = 3  # letters
END_BOX: Box = ("\n", True, 0.0, 0.0, 0.0, 0.0)


def _read_boxes(page: PdfPage) -> list[Box]:
    """Return the box of each letter, on the page turned upright."""
    import pypdfium2.raw as pdfium

    text, area, rotate = page.get_textpage(), pdfium.FS_RECTF(), ROTATIONS[page.get_rotation()]
    handle, area_pointer = text.raw, ctypes.byref(area)
    boxes: list[Box] = []
    for i in range(text.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(handle, i, area_pointer)
        letter = chr(pdfium.FPDFText_GetUnicode(handle, i))
        if "\udc00" <= letter <= "\udfff" and boxes:  # PDFium returns letters such as 𠮷 as two surrogates
            character = (boxes[-1][0] + letter).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            boxes[-1] = (character, *boxes[-1][1:])
            continue
        generated = letter in GENERATED_CHARS and pdfium.FPDFText_IsGenerated(handle, i) == 1
        boxes.append((letter, generated, *rotate(area.left, area.right, area.bottom, area.top)))
    return boxes


ROTATIONS: dict[int, Callable[[float, float, float, float], tuple[float, float, float, float]]] = {
    0: lambda x0, x1, y0, y1: (x0, x1, y0, y1),
    90: lambda x0, x1, y0, y1: (y0, y1, -x1, -x0),
    180: lambda x0, x1, y0, y1: (-x1, -x0, -y1, -y0),
    270: lambda x0, x1, y0, y1: (-y1, -y0, x0, x1),
}


def _writing_direction(boxes: Sequence[Box]) -> Callable[[Box], GlyphPlace]:
    """Return the direction of most letters."""
    down = sum(is_cjk_letter(a[0]) and abs((a[2] + a[3]) - (b[2] + b[3])) < (a[5] - b[5]) for a, b in pairwise(boxes))
    leftward = sum(bidirectional(box[0]) in ("R", "AL") for box in boxes)
    if down > len(boxes) / 2:
        return _down
    return _leftward if leftward > len(boxes) / 2 else _rightward


def _rightward(box: Box) -> GlyphPlace:
    _, _, x0, x1, y0, y1 = box
    return x0, x1, (y0 + y1) / 2, y1 - y0


def _leftward(box: Box) -> GlyphPlace:
    _, _, x0, x1, y0, y1 = box
    return -x1, -x0, (y0 + y1) / 2, y1 - y0


def _down(box: Box) -> GlyphPlace:
    """Place a letter of vertical writing.

    Lines go down, and each line follows to the left of the one before.
    """
    _, _, x0, x1, y0, y1 = box
    return -y1, -y0, (x0 + x1) / 2, x1 - x0
