"""letters and where each stands on a page -> lines: horizontal or vertical, readings behind their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from statistics import median
from typing import NamedTuple
from unicodedata import category, normalize

from kumihimo.readers.paragraphs import TextLine, is_cjk_letter

CELL_GAP = 1.7  # times the size of the letters: wider than any space between words, so it parts the cells of a row
READING_SIZE = 0.62  # times the usual size: kana that are smaller are the reading of what they stand beside
COLUMN_TOLERANCE = 0.7  # times the size, from the middle of a column
READING_DISTANCE = 1.3  # times the size, from the middle of the line
TIER_GAP = 3  # times the size
KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc]+")
HYPHEN = "\x02"  # what PDFium makes of a hyphen at the end of a line
BULLET_GLYPH = re.compile(r"^[^\w\s]? ?[\ufffd\x80-\x9f\ue000-\uf8ff]+(?=\s)")
COMPATIBILITY_CHARS = re.compile(
    "[\ufb00-\ufb06\u2e80-\u2fdf]+"
)  # ligatures; radicals that some fonts give for the characters


class Glyph(NamedTuple):  # of which a page has thousands
    """A letter; along: from where to where it stands in its line; across: the height of its line's middle."""

    letter: str
    begin: float
    end: float
    line_position: float
    size: float
    generated: bool  # a space or line end that PDFium has put in


def split_rows(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
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


def split_columns(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """The columns by where their letters stand: PDFium does not know in which order they are read.

    What stands no further aside than a comma does belongs to a column; readings stand further.
    """
    real = [glyph for glyph in glyphs if not glyph.generated and glyph.letter.strip()]
    usual = _median_size(real)
    columns: list[list[Glyph]] = []
    middles: list[float] = []
    for glyph in sorted(
        real, key=lambda glyph: (glyph.size < READING_SIZE * usual, not glyph.letter.isalnum(), -glyph.line_position)
    ):
        near = min(range(len(middles)), key=lambda i: abs(middles[i] - glyph.line_position), default=-1)
        if near < 0 or abs(middles[near] - glyph.line_position) > COLUMN_TOLERANCE * usual:
            middles.append(glyph.line_position)
            columns.append([])
            near = -1
        columns[near].append(glyph)
    for column in columns:
        yield from _split_tiers(
            sorted(column, key=lambda glyph: (round(4 * glyph.begin / usual), glyph.line_position)), usual
        )


def _split_tiers(column: Sequence[Glyph], usual: float) -> Iterator[list[Glyph]]:
    """A column cut where it is empty for long: a page may have two tiers of columns, one below the other."""
    begin = 0
    for i, (above, below) in enumerate(pairwise(column), 1):
        if below.begin - above.end > TIER_GAP * usual:
            yield list(column[begin:i])
            begin = i
    yield list(column[begin:])


def attach_readings(found: Iterable[list[Glyph]]) -> list[list[Glyph]]:
    """The lines, each small one of kana put behind what it is the reading of: `東京（とうきょう）`."""
    every = list(found)
    gone: set[int] = set()
    for line in every:
        if _is_kana(line):
            reading = [glyph for glyph in line if not glyph.generated]
            hosts = [
                other
                for other in every
                if other is not line and id(other) not in gone and _is_reading_of(reading, other)
            ]
            if hosts:
                _insert_reading(
                    reading, min(hosts, key=lambda host: abs(_line_position(host) - reading[0].line_position))
                )
                gone.add(id(line))
    return [line for line in every if id(line) not in gone]


def _insert_reading(reading: Sequence[Glyph], host: list[Glyph]) -> None:
    usual = _median_size(host)
    for run in _split_words(reading):
        over = [i for i, glyph in enumerate(host) if glyph.begin + glyph.end < 2 * run[-1].end]
        said = "".join(glyph.letter for glyph in run)
        made = Glyph(f"（{said}）", run[-1].end, run[-1].end, _line_position(host), usual, True)
        host.insert(over[-1] + 1 if over else 0, made)


def _line_position(line: Sequence[Glyph]) -> float:
    return median(glyph.line_position for glyph in line if not glyph.generated)


def _is_kana(line: Sequence[Glyph]) -> bool:
    letters = [glyph.letter for glyph in line if not glyph.generated and glyph.letter.strip()]
    return bool(letters) and all(map(KANA.fullmatch, letters))


def _is_reading_of(reading: Sequence[Glyph], line: Sequence[Glyph]) -> bool:
    real = [glyph for glyph in line if not glyph.generated]
    if not real:
        return False
    aside = reading[0].line_position - _line_position(real)
    within = real[0].begin - reading[0].size < reading[0].begin and reading[-1].end < real[-1].end + reading[0].size
    usual = _median_size(real)
    return (
        within and 0 < aside < READING_DISTANCE * usual and max(glyph.size for glyph in reading) < READING_SIZE * usual
    )


def _split_words(reading: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Those of single words."""
    begin = 0
    for i, (a, b) in enumerate(pairwise(reading), 1):
        if b.begin - a.end > a.size:
            yield list(reading[begin:i])
            begin = i
    yield list(reading[begin:])


def _median_size(glyphs: Sequence[Glyph]) -> float:
    return median([glyph.size for glyph in glyphs if glyph.letter.isalnum()] or [1.0]) or 1.0


def order_columns(found: Sequence[TextLine]) -> list[TextLine]:
    """Columns from right to left, those of the upper tier first."""
    tiers: list[list[TextLine]] = []
    reach = 0.0
    for line in sorted(found, key=lambda line: line.begin):
        if not tiers or line.begin >= reach:
            tiers.append([])
            reach = line.end
        reach = max(reach, line.end)
        tiers[-1].append(line)
    return [line for tier in tiers for line in sorted(tier, key=lambda line: (-line.line_position, line.begin))]


def build_line(glyphs: list[Glyph], *, cells: bool) -> TextLine:
    """Cells that are far apart are parted by ` | `; where both directions are mixed, that cannot be told."""
    real = [glyph for glyph in glyphs if not glyph.generated and glyph.letter.strip()]
    if not real:
        return TextLine("")
    size = _median_size(real)
    pieces: list[str] = []
    last = real[0]
    for glyph in glyphs:
        if not glyph.generated and glyph.letter.strip():
            if cells and max(glyph.begin - last.end, last.begin - glyph.end) > CELL_GAP * size:
                pieces.append(" | ")
            last = glyph
        pieces.append(glyph.letter)
    text = _clean_text("".join(pieces))
    first = _first_word(glyphs[glyphs.index(real[0]) :])
    return TextLine(
        text=text,
        begin=min(glyph.begin for glyph in real),
        end=max(glyph.end for glyph in real),
        line_position=median(glyph.line_position for glyph in real),
        size=size,
        first_word_width=max(g.end for g in first) - min(g.begin for g in first),
        hyphenated=glyphs[-1].letter == HYPHEN,
    )


def _first_word(glyphs: Sequence[Glyph]) -> list[Glyph]:
    """The first word; of a script without spaces, the first letter and the stop that may not begin a line."""
    found = list(takewhile(lambda glyph: glyph.letter.strip(), glyphs))
    return found[:2] if is_cjk_letter(found[0].letter) else found


def _clean_text(text: str) -> str:
    """Without what fonts and PDFium leave behind: private letters for bullets, ligatures, control characters."""
    text = COMPATIBILITY_CHARS.sub(lambda found: normalize("NFKC", found[0]), text)
    text = re.sub(r" *\| [ |]*", " | ", BULLET_GLYPH.sub("•", text))
    kept = (c if category(c) != "Co" else "\ufffd" for c in text if c == "\t" or category(c) not in ("Cc", "Cn"))
    return "".join(kept).strip()
