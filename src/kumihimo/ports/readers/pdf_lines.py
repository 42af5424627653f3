"""a page of a PDF -> its lines, in the order they are read, each with where it stands."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import bidirectional

from kumihimo.ports.readers.glyphs import Glyph, columns, in_order, line, rows, with_readings
from kumihimo.ports.readers.paragraphs import Line, wide

if TYPE_CHECKING:
    from pypdfium2 import PdfPage


def lines(page: PdfPage) -> Iterator[Line]:
    """Horizontal or vertical, whichever most of the letters go."""
    boxes = _boxes(page)
    way = _way([box for box in boxes if not box[1] and box[0].strip()])
    glyphs = [Glyph(box[0], *way(box), box[1]) for box in boxes]
    cut = columns if way is _down else rows
    made = [line(each, cells=way is _rightward) for each in with_readings(cut(glyphs))]
    yield from (each for each in (in_order(made) if way is _down else made) if each.text)


Box = tuple[str, bool, float, float, float, float]  # letter, made up, left, right, bottom, top
Place = tuple[float, float, float, float]  # begin, end, across, size of a glyph


def _boxes(page: PdfPage) -> list[Box]:
    import pypdfium2.raw as pdfium

    text = page.get_textpage()
    area = pdfium.FS_RECTF()
    found: list[Box] = []
    for i in range(text.count_chars()):
        pdfium.FPDFText_GetLooseCharBox(text, i, ctypes.byref(area))
        made_up = pdfium.FPDFText_IsGenerated(text, i) == 1
        letter = chr(pdfium.FPDFText_GetUnicode(text, i))
        found.append((letter, made_up, area.left, area.right, area.bottom, area.top))
    return found


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
