"""a page of a PDF -> its lines, in the order they are read, each with where it stands."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import median
from typing import TYPE_CHECKING
from unicodedata import bidirectional, category, normalize

from kumihimo.ports.readers.paragraphs import Line, wide

if TYPE_CHECKING:
    from pypdfium2 import PdfPage

GAP = 1.7  # times the size of the letters: wider than any space between words, so it parts the cells of a row
HYPHEN = "\x02"  # what PDFium makes of a hyphen at the end of a line
BULLET = re.compile(r"^[^\w\s]? ?[\ufffd\x80-\x9f\ue000-\uf8ff]+(?=\s)")
MENDED = re.compile("[\ufb00-\ufb06\u2e80-\u2fdf]+")  # ligatures; radicals that some fonts give for the characters


@dataclass(frozen=True, slots=True)
class Glyph:
    """A letter; along: from where to where it stands in its line; across: the height of its line's middle."""

    letter: str
    begin: float
    end: float
    across: float
    size: float
    made_up: bool  # a space or line end that PDFium has put in


def lines(page: PdfPage) -> Iterator[Line]:
    """Horizontal or vertical, whichever most of the letters go."""
    boxes = _boxes(page)
    way = _way([box for box in boxes if not box[1] and box[0].strip()])
    glyphs = [Glyph(box[0], *way(box), box[1]) for box in boxes]
    cut = _columns if way is _down else _rows
    found = [_line(line, cells=way is not _leftward) for line in cut(glyphs)]
    yield from (line for line in (_in_order(found) if way is _down else found) if line.text)


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


def _rows(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Cut at the line ends, and after the hyphens, that PDFium has found."""
    row: list[Glyph] = []
    for glyph in glyphs:
        if glyph.letter not in "\r\n":
            row.append(glyph)
        if row and glyph.letter in ("\n", HYPHEN):
            yield row
            row = []
    if row:
        yield row


def _columns(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Cut where the next letter is not below the last."""
    column: list[Glyph] = []
    for glyph in glyphs:
        if glyph.made_up:
            continue
        if column and (glyph.begin < column[-1].begin or abs(glyph.across - column[-1].across) > glyph.size):
            yield column
            column = []
        column.append(glyph)
    if column:
        yield column


def _in_order(found: Sequence[Line]) -> list[Line]:
    """Columns from right to left, those of the upper tier first."""
    tiers: list[list[Line]] = []
    reach = 0.0
    for line in sorted(found, key=lambda line: line.begin):
        if not tiers or line.begin >= reach:
            tiers.append([])
            reach = line.end
        reach = max(reach, line.end)
        tiers[-1].append(line)
    return [line for tier in tiers for line in sorted(tier, key=lambda line: (-line.across, line.begin))]


def _line(glyphs: list[Glyph], *, cells: bool) -> Line:
    """Cells that are far apart are parted by ` | `; where both directions are mixed, that cannot be told."""
    real = [glyph for glyph in glyphs if not glyph.made_up and glyph.letter.strip()]
    if not real:
        return Line("")
    size = median(glyph.size for glyph in real)
    pieces: list[str] = []
    last = real[0]
    for glyph in glyphs:
        if not glyph.made_up and glyph.letter.strip():
            if cells and max(glyph.begin - last.end, last.begin - glyph.end) > GAP * size:
                pieces.append(" | ")
            last = glyph
        pieces.append(glyph.letter)
    text = _mended("".join(pieces))
    first = _first(glyphs[glyphs.index(real[0]) :])
    return Line(
        text=text,
        begin=min(glyph.begin for glyph in real),
        end=max(glyph.end for glyph in real),
        across=median(glyph.across for glyph in real),
        size=size,
        word=max(g.end for g in first) - min(g.begin for g in first),
        hyphen=glyphs[-1].letter == HYPHEN,
    )


def _first(glyphs: Sequence[Glyph]) -> list[Glyph]:
    """The first word; of a script without spaces, the first letter and the stop that may not begin a line."""
    found = list(takewhile(lambda glyph: glyph.letter.strip(), glyphs))
    return found[:2] if wide(found[0].letter) else found


def _mended(text: str) -> str:
    """Without what fonts and PDFium leave behind: private letters for bullets, ligatures, control characters."""
    text = MENDED.sub(lambda found: normalize("NFKC", found[0]), text)
    text = re.sub(r" *\| [ |]*", " | ", BULLET.sub("•", text))
    return "".join(c for c in text if c == "\t" or category(c) not in ("Cc", "Co", "Cn")).strip()
