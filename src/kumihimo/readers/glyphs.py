"""letters and their positions on a page -> lines, horizontal or vertical, readings after their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from statistics import median
from typing import NamedTuple
from unicodedata import category, normalize

from kumihimo.readers.paragraphs import TextLine, is_cjk_letter

CELL_GAP = 1.7  # times the letter size: wider than any word space, so it separates cells
READING_SIZE = 0.62  # times the usual size: smaller kana are readings
COLUMN_TOLERANCE = 0.7  # times the letter size, from the middle of a column
READING_DISTANCE = 1.3  # times the letter size, from the middle of the line
TIER_GAP = 3  # times the letter size
KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa\u30fc]+")
HYPHEN = "\x02"  # PDFium's code for a hyphen at the end of a line
BULLET_GLYPH = re.compile(r"^[^\w\s]? ?[\ufffd\x80-\x9f\ue000-\uf8ff]+(?=\s)")
# Ligatures, and radicals that some fonts use for ideographs.
COMPATIBILITY_CHARS = re.compile("[\ufb00-\ufb06\u2e80-\u2fdf]+")


class Glyph(NamedTuple):  # a tuple, because a page has thousands
    """A letter and its position.

    begin, end: its extent along the line. line_position: the y of the line's middle; in vertical text, the x.
    """

    letter: str
    begin: float
    end: float
    line_position: float
    size: float
    generated: bool  # a space or line end inserted by PDFium


def split_rows(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Split at line ends, and after the hyphens that PDFium found."""
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
    """Group the letters of vertical text into columns by position.

    PDFium does not know the reading order of columns. A letter no further from a column's middle than a comma
    belongs to that column; readings stand further away.
    """
    visible = [glyph for glyph in glyphs if not glyph.generated and glyph.letter.strip()]
    median_size = _median_size(visible)
    columns: list[list[Glyph]] = []
    middles: list[float] = []
    for glyph in sorted(
        visible,
        key=lambda glyph: (glyph.size < READING_SIZE * median_size, not glyph.letter.isalnum(), -glyph.line_position),
    ):
        nearest = min(range(len(middles)), key=lambda i: abs(middles[i] - glyph.line_position), default=-1)
        if nearest < 0 or abs(middles[nearest] - glyph.line_position) > COLUMN_TOLERANCE * median_size:
            middles.append(glyph.line_position)
            columns.append([])
            nearest = -1
        columns[nearest].append(glyph)
    for column in columns:
        yield from _split_tiers(
            sorted(column, key=lambda glyph: (round(4 * glyph.begin / median_size), glyph.line_position)), median_size
        )


def _split_tiers(column: Sequence[Glyph], median_size: float) -> Iterator[list[Glyph]]:
    """Split a column at its large gaps.

    A page may have two tiers of columns, one below the other.
    """
    begin = 0
    for i, (above, below) in enumerate(pairwise(column), 1):
        if below.begin - above.end > TIER_GAP * median_size:
            yield list(column[begin:i])
            begin = i
    yield list(column[begin:])


def attach_readings(lines: Iterable[list[Glyph]]) -> list[list[Glyph]]:
    """Insert each kana reading after its word: `東京（とうきょう）`.

    A reading is a small line of kana beside another line.
    """
    all_lines = list(lines)
    removed: set[int] = set()
    for line in all_lines:
        if _is_kana(line):
            reading = [glyph for glyph in line if not glyph.generated]
            hosts = [
                candidate
                for candidate in all_lines
                if candidate is not line and id(candidate) not in removed and _is_reading_of(reading, candidate)
            ]
            if hosts:
                position = reading[0].line_position
                _insert_reading(reading, min(hosts, key=lambda host: abs(_line_position(host) - position)))
                removed.add(id(line))
    return [line for line in all_lines if id(line) not in removed]


def _insert_reading(reading: Sequence[Glyph], host: list[Glyph]) -> None:
    median_size = _median_size(host)
    for run in _split_words(reading):
        passed = [i for i, glyph in enumerate(host) if glyph.begin + glyph.end < 2 * run[-1].end]
        letters = "".join(glyph.letter for glyph in run)
        insertion = Glyph(f"（{letters}）", run[-1].end, run[-1].end, _line_position(host), median_size, True)
        host.insert(passed[-1] + 1 if passed else 0, insertion)


def _line_position(line: Sequence[Glyph]) -> float:
    return median(glyph.line_position for glyph in line if not glyph.generated)


def _is_kana(line: Sequence[Glyph]) -> bool:
    letters = [glyph.letter for glyph in line if not glyph.generated and glyph.letter.strip()]
    return bool(letters) and all(map(KANA.fullmatch, letters))


def _is_reading_of(reading: Sequence[Glyph], line: Sequence[Glyph]) -> bool:
    visible = [glyph for glyph in line if not glyph.generated]
    if not visible:
        return False
    distance = reading[0].line_position - _line_position(visible)
    overlaps = (
        visible[0].begin - reading[0].size < reading[0].begin and reading[-1].end < visible[-1].end + reading[0].size
    )
    median_size = _median_size(visible)
    return (
        overlaps
        and 0 < distance < READING_DISTANCE * median_size
        and max(glyph.size for glyph in reading) < READING_SIZE * median_size
    )


def _split_words(reading: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Split a reading into the readings of single words."""
    begin = 0
    for i, (a, b) in enumerate(pairwise(reading), 1):
        if b.begin - a.end > a.size:
            yield list(reading[begin:i])
            begin = i
    yield list(reading[begin:])


def _median_size(glyphs: Sequence[Glyph]) -> float:
    return median([glyph.size for glyph in glyphs if glyph.letter.isalnum()] or [1.0]) or 1.0


def order_columns(columns: Sequence[TextLine]) -> list[TextLine]:
    """Sort columns from right to left, upper tier first."""
    tiers: list[list[TextLine]] = []
    tier_end = 0.0
    for line in sorted(columns, key=lambda line: line.begin):
        if not tiers or line.begin >= tier_end:
            tiers.append([])
            tier_end = line.end
        tier_end = max(tier_end, line.end)
        tiers[-1].append(line)
    return [line for tier in tiers for line in sorted(tier, key=lambda line: (-line.line_position, line.begin))]


def build_line(glyphs: list[Glyph], *, cells: bool) -> TextLine:
    """Build a line; separate distant cells by ` | `.

    cells: False for text of mixed direction, where gaps cannot be detected, and for vertical text.
    """
    visible = [glyph for glyph in glyphs if not glyph.generated and glyph.letter.strip()]
    if not visible:
        return TextLine("")
    size = _median_size(visible)
    pieces: list[str] = []
    last = visible[0]
    for glyph in glyphs:
        if not glyph.generated and glyph.letter.strip():
            if cells and max(glyph.begin - last.end, last.begin - glyph.end) > CELL_GAP * size:
                pieces.append(" | ")
            last = glyph
        pieces.append(glyph.letter)
    text = _clean_text("".join(pieces))
    first_word = _first_word(glyphs[glyphs.index(visible[0]) :])
    return TextLine(
        text=text,
        begin=min(glyph.begin for glyph in visible),
        end=max(glyph.end for glyph in visible),
        line_position=median(glyph.line_position for glyph in visible),
        size=size,
        first_word_width=max(g.end for g in first_word) - min(g.begin for g in first_word),
        hyphenated=glyphs[-1].letter == HYPHEN,
    )


def _first_word(glyphs: Sequence[Glyph]) -> list[Glyph]:
    """Return the letters of the first word.

    In a script without spaces, return the first letter, and the stop after it that may not begin a line.
    """
    word = list(takewhile(lambda glyph: glyph.letter.strip(), glyphs))
    return word[:2] if is_cjk_letter(word[0].letter) else word


def _clean_text(text: str) -> str:
    """Remove artefacts of fonts and PDFium.

    They are private-use bullets, ligatures and control characters.
    """
    text = COMPATIBILITY_CHARS.sub(lambda match: normalize("NFKC", match[0]), text)
    text = re.sub(r" *\| [ |]*", " | ", BULLET_GLYPH.sub("•", text))
    chars = (c if category(c) != "Co" else "\ufffd" for c in text if c == "\t" or category(c) not in ("Cc", "Cn"))
    return "".join(chars).strip()
