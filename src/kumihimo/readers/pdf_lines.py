"""a page of a PDF -> its lines, in the order they are read, each with where it stands."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from kumihimo.readers.glyphs import Glyph, columns, in_order, line, rows, with_readings
from kumihimo.readers.paragraphs import Line, side_by_side, wide

if TYPE_CHECKING:
    from pypdfium2 import PdfPage


def lines(page: PdfPage) -> Iterator[Line]:
    """Horizontal or vertical, whichever most of the letters go; what is level on a vertical page comes first."""
    boxes = _boxes(page)
    way = _way([box for box in boxes if not box[1] and box[0].strip()])
    if way is not _down:
        yield from _made(boxes, way, rows, cells=way is _rightward)
        return
    level, upright = _parted(boxes)
    yield from _made(level, _rightward, rows, cells=True)
    yield from in_order(list(_made(upright, _down, columns, cells=False)))


def _made(
    boxes: Sequence[Box],
    way: Callable[[Box], Place],
    cut: Callable[[Sequence[Glyph]], Iterator[list[Glyph]]],
    *,
    cells: bool,
) -> Iterator[Line]:
    glyphs = [Glyph(box[0], *way(box), box[1]) for box in boxes]
    made = [line(each, cells=cells) for each in with_readings(cut(glyphs))]
    return side_by_side([each for each in made if each.text]) if cells else iter(made)


def _parted(boxes: Sequence[Box]) -> tuple[list[Box], list[Box]]:
    """What goes on to the right for long, headers and page numbers; and all else: two figures may stand abreast."""
    level: list[Box] = []
    upright: list[Box] = []
    run: list[Box] = []
    for box in [*boxes, END]:
        if run and not _beside(run[-1], box):
            (level if len(run) > ABREAST else upright).extend([*run, END] if len(run) > ABREAST else run)
            run = []
        run.append(box)
    return level, upright


def _beside(box: Box, after: Box) -> bool:
    """Whether it is to the right, and no lower or higher."""
    height = max(box[5] - box[4], after[5] - after[4], 1.0)
    return after[0] != "\n" and after[2] > box[2] and abs((box[4] + box[5]) - (after[4] + after[5])) < height / 2


def borrows_fonts(page: PdfPage) -> bool:
    """Whether it is written in fonts that it does not bring: PDFium passes over letters that no font here draws."""
    import pypdfium2.raw as pdfium

    name = ctypes.create_string_buffer(64)
    for text in page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_TEXT]):
        font = pdfium.FPDFTextObj_GetFont(text.raw)
        if not pdfium.FPDFFont_GetIsEmbedded(font):
            pdfium.FPDFFont_GetBaseFontName(font, name, len(name))
            if not name.value.startswith(STANDARD):
                return True
    return False


Box = tuple[str, bool, float, float, float, float]  # letter, made up, left, right, bottom, top
Place = tuple[float, float, float, float]  # begin, end, across, size of a glyph
STANDARD = (b"Helvetica", b"Times", b"Courier", b"Arial", b"Symbol", b"ZapfDingbats")  # PDFium brings these
MADE_UP = " \r\n"  # what PDFium puts in; to ask of each letter takes as long as the letter
ABREAST = 3  # letters
END: Box = ("\n", True, 0.0, 0.0, 0.0, 0.0)


def _boxes(page: PdfPage) -> list[Box]:
    """Where each letter stands on the page as it is turned to be read."""
    import pypdfium2.raw as pdfium

    text, area, turned = page.get_textpage(), pdfium.FS_RECTF(), TURNED[page.get_rotation()]
    handle, here = text.raw, ctypes.byref(area)
    found: list[Box] = []
    for i in range(text.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(handle, i, here)
        letter = chr(pdfium.FPDFText_GetUnicode(handle, i))
        if "\udc00" <= letter <= "\udfff" and found:  # PDFium gives letters like 𠮷 in two halves
            whole = (found[-1][0] + letter).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            found[-1] = (whole, *found[-1][1:])
            continue
        made_up = letter in MADE_UP and pdfium.FPDFText_IsGenerated(handle, i) == 1
        found.append((letter, made_up, *turned(area.left, area.right, area.bottom, area.top)))
    return found


TURNED: dict[int, Callable[[float, float, float, float], tuple[float, float, float, float]]] = {
    0: lambda left, right, bottom, top: (left, right, bottom, top),
    90: lambda left, right, bottom, top: (bottom, top, -right, -left),
    180: lambda left, right, bottom, top: (-right, -left, -top, -bottom),
    270: lambda left, right, bottom, top: (-top, -bottom, left, right),
}


def _way(boxes: Sequence[Box]) -> Callable[[Box], Place]:
    """Which way most of the letters go."""
    down = sum(wide(a[0]) and abs((a[2] + a[3]) - (b[2] + b[3])) < (a[5] - b[5]) for a, b in pairwise(boxes))
    left = sum(bidirectional(box[0]) in ("R", "AL") for box in boxes)
    if down > len(boxes) / 2:
        return _down
    return _leftward if left > len(boxes) / 2 else _rightward


def _rightward(box: Box) -> Place:
    _, _, left, right, bottom, top = box
    return left, right, (bottom + top) / 2, top - bottom


def _leftward(box: Box) -> Place:
    _, _, left, right, bottom, top = box
    return -right, -left, (bottom + top) / 2, top - bottom


def _down(box: Box) -> Place:
    """Lines go down, and one follows to the left of the other."""
    _, _, left, right, bottom, top = box
    return -top, -bottom, (left + right) / 2, right - left
