"""letters and their positions -> lines, horizontal or vertical, with the cells of table rows."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

LEVEL_TOLERANCE = 0.3  # times the letter size
NARROW_CELL_GAP = 0.6  # times the letter size: it separates cells below a gap between cells
SPACED_GAP = 1.5  # times the narrowest gap between the letters of a spaced word
SPACED_LETTERS = re.compile(r"[^\W\d_](?: +[^\W\d_]){2,}")
SPACED_CELL = re.compile(r"(?:^|(?<=\| ))[\u3041-\u9fff](?:[ \u3000]+[\u3041-\u9fff])+(?=$| \|)")
MAX_ROW_DROP = 3.0  # times the letter size
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

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line and its position on the page.

    begin, end: its extent along the line. line_position: its height on the page. size: of its letters.
    first_word_width: of its first word. hyphenated: whether it ends with a hyphen that splits a word. cells: begin and
    end of each. All are 0 or empty if only the text of the page is known.
    """

    text: str
    begin: float = 0.0
    end: float = 0.0
    line_position: float = 0.0
    size: float = 0.0
    first_word_width: float = 0.0
    hyphenated: bool = False
    cells: tuple[tuple[float, float], ...] = ()

    @property
    def is_row(self) -> bool:
        return " | " in self.text


def is_cjk_letter(letter: str) -> bool:
    """Return whether a letter's script is written without spaces.

    >>> is_cjk_letter("紐"), is_cjk_letter("。"), is_cjk_letter("a"), is_cjk_letter("")
    (True, True, False, False)
    """
    return "\u2e80" <= letter <= "\ud7af" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


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

    @property
    def visible(self) -> bool:
        return not self.generated and bool(self.letter.strip())


def split_between(items: Iterable[T], are_apart: Callable[[T, T], bool]) -> Iterator[list[T]]:
    """Split a sequence between neighbours that are apart."""
    group: list[T] = []
    for item in items:
        if group and are_apart(group[-1], item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def split_rows(glyphs: Iterable[Glyph]) -> Iterator[list[Glyph]]:
    """Split at line ends, and after the hyphens that PDFium found."""
    for row in split_between(glyphs, lambda glyph, _: glyph.letter in ("\n", HYPHEN)):
        if text := [glyph for glyph in row if glyph.letter not in "\r\n"]:
            yield text


def split_columns(glyphs: Sequence[Glyph]) -> Iterator[list[Glyph]]:
    """Group the letters of vertical text into columns by position.

    PDFium does not know the reading order of columns. A letter no further from a column's middle than a comma
    belongs to that column; readings stand further away.
    """
    visible = [glyph for glyph in glyphs if glyph.visible]
    median_size = _median_size(visible)
    columns: list[list[Glyph]] = []
    middles: list[float] = []

    def order(glyph: Glyph) -> tuple[bool, bool, float]:
        return glyph.size < READING_SIZE * median_size, not glyph.letter.isalnum(), -glyph.line_position

    for glyph in sorted(visible, key=order):
        nearest = min(range(len(middles)), key=lambda i: abs(middles[i] - glyph.line_position), default=-1)
        if nearest < 0 or abs(middles[nearest] - glyph.line_position) > COLUMN_TOLERANCE * median_size:
            middles.append(glyph.line_position)
            columns.append([])
            nearest = -1
        columns[nearest].append(glyph)
    for column in columns:  # a page may have two tiers of columns, one below the other
        column.sort(key=lambda glyph: (round(4 * glyph.begin / median_size), glyph.line_position))
        yield from split_between(column, lambda above, below: below.begin - above.end > TIER_GAP * median_size)


def attach_readings(lines: Iterable[list[Glyph]]) -> list[list[Glyph]]:
    """Insert each kana reading after its word: `東京（とうきょう）`.

    A reading is a small line of kana beside another line.
    """
    all_lines = list(lines)
    removed: set[int] = set()
    for line in all_lines:
        if KANA.fullmatch("".join(glyph.letter for glyph in line if glyph.visible)):
            reading = [glyph for glyph in line if not glyph.generated]
            others = [other for other in all_lines if other is not line and id(other) not in removed]
            if hosts := [other for other in others if _is_reading_of(reading, other)]:
                position = reading[0].line_position
                _insert_reading(reading, min(hosts, key=lambda host: abs(_line_position(host) - position)))
                removed.add(id(line))
    return [line for line in all_lines if id(line) not in removed]


def _insert_reading(reading: Sequence[Glyph], host: list[Glyph]) -> None:
    median_size = _median_size(host)
    for run in split_between(reading, lambda a, b: b.begin - a.end > a.size):  # the reading of each word
        passed = [i for i, glyph in enumerate(host) if glyph.begin + glyph.end < 2 * run[-1].end]
        text, end = "".join(glyph.letter for glyph in run), run[-1].end
        host.insert(
            max(passed, default=-1) + 1, Glyph(f"（{text}）", end, end, _line_position(host), median_size, True)
        )


def _line_position(line: Sequence[Glyph]) -> float:
    return median(glyph.line_position for glyph in line if not glyph.generated)


def _is_reading_of(reading: Sequence[Glyph], line: Sequence[Glyph]) -> bool:
    visible = [glyph for glyph in line if not glyph.generated]
    if not visible:
        return False
    size, median_size = reading[0].size, _median_size(visible)
    overlaps = visible[0].begin - size < reading[0].begin and reading[-1].end < visible[-1].end + size
    is_near = 0 < reading[0].line_position - _line_position(visible) < READING_DISTANCE * median_size
    return overlaps and is_near and max(glyph.size for glyph in reading) < READING_SIZE * median_size


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


def build_line(glyphs: list[Glyph], *, cells: bool, above: TextLine | None = None) -> TextLine:
    """Build a line; separate distant cells by ` | `.

    cells: False for text of mixed direction, where gaps cannot be detected, and for vertical text. above: a row may
    have narrower gaps below those of the row above it.
    """
    visible = [glyph for glyph in glyphs if glyph.visible]
    if not visible:
        return TextLine("")
    size = _median_size(visible)
    gaps_above = [(left[1], right[0]) for left, right in pairwise(above.cells)] if above else []
    pieces, starts = list[str](), [0]
    last, count = visible[0], 0
    for glyph in glyphs:
        if glyph.visible:
            gap = max(glyph.begin - last.end, last.begin - glyph.end)
            if (
                cells
                and gap > NARROW_CELL_GAP * size
                and (gap > CELL_GAP * size or (pieces[-1] != "\u3000" and _lies_below(last, glyph, gaps_above)))
            ):
                pieces.append(" | ")
                starts.append(count)
            last = glyph
            count += 1
        pieces.append(glyph.letter)
    first_word = _first_word(glyphs[glyphs.index(visible[0]) :])
    spans = [visible[start:end] for start, end in pairwise([*starts, len(visible)])]
    return TextLine(
        text=_join_spaced_letters(_clean_text("".join(pieces)), visible, size),
        begin=min(glyph.begin for glyph in visible),
        end=max(glyph.end for glyph in visible),
        line_position=median(glyph.line_position for glyph in visible),
        size=size,
        first_word_width=max(g.end for g in first_word) - min(g.begin for g in first_word),
        hyphenated=glyphs[-1].letter == HYPHEN,
        cells=tuple((span[0].begin, span[-1].end) for span in spans),
    )


def _lies_below(left: Glyph, right: Glyph, gaps_above: Sequence[tuple[float, float]]) -> bool:
    """Return whether a gap lies below a gap between cells."""
    least = NARROW_CELL_GAP * left.size
    return any(min(right.begin, end) - max(left.end, begin) > least for begin, end in gaps_above)


def _join_spaced_letters(text: str, visible: Sequence[Glyph], size: float) -> str:
    """Join the letters of spaced words such as `特 許`."""
    if SPACED_LETTERS.fullmatch(text) and all(glyph.letter.isupper() for glyph in visible):
        gaps = [right.begin - left.end for left, right in pairwise(visible)]
        widest = SPACED_GAP * min(gaps) + size / 10
        return "".join(" " * (gap > widest) + glyph.letter for gap, glyph in zip([0, *gaps], visible, strict=True))
    return SPACED_CELL.sub(lambda match: re.sub(r"\s", "", match[0]), text)


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
    text = re.sub(r"(?:(?<! ) +)?\| [ |]*", " | ", BULLET_GLYPH.sub("•", text))
    if text.replace("\u3000", " ").isprintable():  # no private-use or control characters
        return text.strip()
    chars = (c if category(c) != "Co" else "\ufffd" for c in text if c == "\t" or category(c) not in ("Cc", "Cn"))
    return "".join(chars).strip()


def merge_cells(groups: Iterable[list[Glyph]]) -> list[TextLine]:
    """Build lines; those of the same height are cells of a row."""
    rows: list[TextLine] = []
    for group in groups:
        height = _line_position(group) if any(not glyph.generated for glyph in group) else 0.0
        is_level = bool(rows) and abs(rows[-1].line_position - height) < LEVEL_TOLERANCE * rows[-1].size
        above = rows[-1 - is_level] if len(rows) > is_level else None
        is_near = above is not None and 0 < above.line_position - height < MAX_ROW_DROP * above.size
        line = build_line(group, cells=True, above=above if is_near else None)
        if not line.text:
            continue
        if is_level and line.begin > (row := rows[-1]).end:
            text, cells = f"{row.text} | {line.text}", row.cells + line.cells
            rows[-1] = replace(row, text=text, end=line.end, hyphenated=line.hyphenated, cells=cells)
        else:
            rows.append(line)
    return rows
