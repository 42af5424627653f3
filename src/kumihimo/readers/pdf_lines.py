"""a page of a PDF -> its lines, in the order they are read, each with where it stands."""

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
    """Horizontal or vertical, whichever most of the letters go; what is level on a vertical page comes first."""
    boxes = _read_boxes(page)
    way = _writing_direction([box for box in boxes if not box[1] and box[0].strip()])
    if way is not _down:
        yield from _build_lines(boxes, way, split_rows, cells=way is _rightward)
        return
    level, upright = _split_directions(boxes)
    yield from _build_lines(level, _rightward, split_rows, cells=True)
    yield from order_columns(list(_build_lines(upright, _down, split_columns, cells=False)))


def _build_lines(
    boxes: Sequence[Box],
    way: Callable[[Box], GlyphPlace],
    cut: Callable[[Sequence[Glyph]], Iterator[list[Glyph]]],
    *,
    cells: bool,
) -> Iterator[TextLine]:
    glyphs = [Glyph(box[0], *way(box), box[1]) for box in boxes]
    made = [build_line(each, cells=cells) for each in attach_readings(cut(glyphs))]
    return merge_cells([each for each in made if each.text]) if cells else iter(made)


def _split_directions(boxes: Sequence[Box]) -> tuple[list[Box], list[Box]]:
    """What goes on to the right for long, headers and page numbers; and all else: two figures may stand abreast."""
    level: list[Box] = []
    upright: list[Box] = []
    run: list[Box] = []
    for box in [*boxes, END_BOX]:
        if run and not _is_right_of(run[-1], box):
            (level if len(run) > MAX_ABREAST else upright).extend([*run, END_BOX] if len(run) > MAX_ABREAST else run)
            run = []
        run.append(box)
    return level, upright


def _is_right_of(box: Box, after: Box) -> bool:
    """Whether it is to the right, and no lower or higher."""
    height = max(box[5] - box[4], after[5] - after[4], 1.0)
    return after[0] != "\n" and after[2] > box[2] and abs((box[4] + box[5]) - (after[4] + after[5])) < height / 2


def lacks_embedded_fonts(page: PdfPage) -> bool:
    """Whether it is written in fonts that it does not bring: PDFium passes over letters that no font here draws."""
    import pypdfium2.raw as pdfium

    name = ctypes.create_string_buffer(64)
    for text in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT]):
        font = pdfium.FPDFTextObj_GetFont(text.raw)
        if not pdfium.FPDFFont_GetIsEmbedded(font):
            pdfium.FPDFFont_GetBaseFontName(font, name, len(name))
            if not name.value.startswith(STANDARD_FONTS):
                return True
    return False


Box = tuple[str, bool, float, float, float, float]  # letter, made up, left, right, bottom, top
GlyphPlace = tuple[float, float, float, float]  # begin, end, across, size of a glyph
STANDARD_FONTS = (b"Helvetica", b"Times", b"Courier", b"Arial", b"Symbol", b"ZapfDingbats")  # PDFium brings these
GENERATED_CHARS = " \r\n"  # what PDFium puts in; to ask of each letter takes as long as the letter
MAX_ABREAST = 3  # letters
END_BOX: Box = ("\n", True, 0.0, 0.0, 0.0, 0.0)


def _read_boxes(page: PdfPage) -> list[Box]:
    """Where each letter stands on the page as it is turned to be read."""
    import pypdfium2.raw as pdfium

    text, area, turned = page.get_textpage(), pdfium.FS_RECTF(), ROTATIONS[page.get_rotation()]
    handle, here = text.raw, ctypes.byref(area)
    found: list[Box] = []
    for i in range(text.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(handle, i, here)
        letter = chr(pdfium.FPDFText_GetUnicode(handle, i))
        if "\udc00" <= letter <= "\udfff" and found:  # PDFium gives letters like 𠮷 in two halves
            whole = (found[-1][0] + letter).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            found[-1] = (whole, *found[-1][1:])
            continue
        made_up = letter in GENERATED_CHARS and pdfium.FPDFText_IsGenerated(handle, i) == 1
        found.append((letter, made_up, *turned(area.left, area.right, area.bottom, area.top)))
    return found


ROTATIONS: dict[int, Callable[[float, float, float, float], tuple[float, float, float, float]]] = {
    0: lambda left, right, bottom, top: (left, right, bottom, top),
    90: lambda left, right, bottom, top: (bottom, top, -right, -left),
    180: lambda left, right, bottom, top: (-right, -left, -top, -bottom),
    270: lambda left, right, bottom, top: (-top, -bottom, left, right),
}


def _writing_direction(boxes: Sequence[Box]) -> Callable[[Box], GlyphPlace]:
    """Which way most of the letters go."""
    down = sum(is_cjk_letter(a[0]) and abs((a[2] + a[3]) - (b[2] + b[3])) < (a[5] - b[5]) for a, b in pairwise(boxes))
    left = sum(bidirectional(box[0]) in ("R", "AL") for box in boxes)
    if down > len(boxes) / 2:
        return _down
    return _leftward if left > len(boxes) / 2 else _rightward


def _rightward(box: Box) -> GlyphPlace:
    _, _, left, right, bottom, top = box
    return left, right, (bottom + top) / 2, top - bottom


def _leftward(box: Box) -> GlyphPlace:
    _, _, left, right, bottom, top = box
    return -right, -left, (bottom + top) / 2, top - bottom


def _down(box: Box) -> GlyphPlace:
    """Lines go down, and one follows to the left of the other."""
    _, _, left, right, bottom, top = box
    return -top, -bottom, (left + right) / 2, right - left
