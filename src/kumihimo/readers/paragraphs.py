"""letters and their positions -> lines, horizontal or vertical; lines on pages -> a text in paragraphs."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median
from typing import NamedTuple, TypeVar
from unicodedata import category, normalize

from kumihimo.text.sentences import LIST_ITEM

NEIGHBOUR_LINES = 15  # lines before and after that show the width of a column
HEADING_SIZE = 1.18  # times the usual size
MAX_HEADING_CHARS = 120
MAX_LEADING = 1.35  # times the line distance in a paragraph
MIN_LEADING = 1.2  # times the letter size; large headings need this minimum
SIZE_TOLERANCE = 0.15  # of the larger size: a smaller difference does not count
LEVEL_TOLERANCE = 0.3  # times the letter size
MIN_INDENT = 0.8  # times the letter size
PARAGRAPH_BREAK = "\n\n"
STOP_CHARS = "。．.!?！？:：;；"
WORD_EDGE_CHARS = f"{STOP_CHARS},()[]“”‘’\"'"  # around a word
HYPHEN_CHARS = "-\u00ad\u2010\u2011"


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line and its position on the page.

    begin, end: its extent along the line. line_position: its height on the page. size: of its letters.
    first_word_width: of its first word. hyphenated: whether it ends with a hyphen that splits a word. All are 0 if only
    the text of the page is known.
    """

    text: str
    begin: float = 0.0
    end: float = 0.0
    line_position: float = 0.0
    size: float = 0.0
    first_word_width: float = 0.0
    hyphenated: bool = False

    @property
    def is_row(self) -> bool:
        return " | " in self.text


class ParagraphText(NamedTuple):
    """A text, and the offset of each of its pages."""

    text: str
    page_starts: list[int]


def merge_cells(lines: Iterable[TextLine]) -> list[TextLine]:
    """Join neighbouring lines of the same height as cells of a row."""
    rows: list[TextLine] = []
    for line in lines:
        row = rows[-1] if rows else TextLine("")
        if abs(row.line_position - line.line_position) < LEVEL_TOLERANCE * row.size and line.begin > row.end:
            rows[-1] = replace(row, text=f"{row.text} | {line.text}", end=line.end, hyphenated=line.hyphenated)
        else:
            rows.append(line)
    return rows


def is_cjk_letter(letter: str) -> bool:
    """Return whether a letter's script is written without spaces.

    >>> is_cjk_letter("紐"), is_cjk_letter("。"), is_cjk_letter("a"), is_cjk_letter("")
    (True, True, False, False)
    """
    return "\u2e80" <= letter <= "\ud7af" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def usual_size(pages: Iterable[Sequence[TextLine]]) -> float:
    """Return the size of most letters."""
    sizes = [line.size for page in pages for line in page for _ in line.text]
    return median(sizes) if sizes else 0.0


def join_paragraphs(pages: Sequence[Sequence[TextLine]]) -> ParagraphText:
    """Join the lines of all pages to one text.

    A sentence that crosses the end of a page stays whole.
    """
    median_size = usual_size(pages)
    words = {word.strip(WORD_EDGE_CHARS) for page in pages for line in page for word in line.text.split()}
    parts, page_starts, length, edge = list[str](), list[int](), 0, 0.0
    previous: TextLine | None = None
    for page in pages:
        pitch, edges = _line_pitch(page), _column_edges(page)
        for number, current in enumerate(page):
            separator = _separator(previous, current, pitch, edge, median_size, words) if previous else ""
            mark = "## " if _is_heading(current, median_size) and (not previous or separator == PARAGRAPH_BREAK) else ""
            if not number:
                page_starts.append(length + len(separator))
            parts += [separator, mark, current.text]
            length += len(separator) + len(mark) + len(current.text)
            previous, edge = current, edges[number]
        if not page:
            page_starts.append(length)
    return ParagraphText("".join(parts), page_starts)


def _separator(
    previous: TextLine, current: TextLine, pitch: float, edge: float, median_size: float, words: set[str]
) -> str:
    """Return the separator between two consecutive lines.

    Within a paragraph it is empty or a space.
    """
    if previous.hyphenated:
        hyphenated_word = f"{previous.text.split()[-1]}-{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "-" if hyphenated_word in words or not current.text[0].islower() else ""
    is_apart = _is_apart(previous, current, pitch)
    if not previous.size or (previous.is_row and current.is_row) or (LIST_ITEM.match(current.text) and not is_apart):
        return "\n"
    at_heading = _is_heading(previous, median_size) != _is_heading(current, median_size)
    if previous.is_row or current.is_row or at_heading or is_apart or _ended_early(previous, current, edge):
        return PARAGRAPH_BREAK
    edges = previous.text[-1], current.text[0]
    if all("\uac00" <= letter <= "\ud7a3" for letter in edges):  # Korean: a line may end within a word
        joined_word = f"{previous.text.split()[-1]}{current.text.split()[0]}".strip(WORD_EDGE_CHARS)
        return "" if joined_word in words else " "
    return "" if all(map(is_cjk_letter, edges)) or edges[0] in HYPHEN_CHARS else " "


def _is_apart(previous: TextLine, current: TextLine, pitch: float) -> bool:
    """Return whether a gap or letter size separates two lines.

    The gap must be larger than between the lines of a paragraph.
    """
    drop, larger = previous.line_position - current.line_position, max(previous.size, current.size)
    differs_in_size = abs(previous.size - current.size) > SIZE_TOLERANCE * larger
    return differs_in_size or drop > MAX_LEADING * max(pitch, MIN_LEADING * previous.size)


def _ended_early(previous: TextLine, current: TextLine, edge: float) -> bool:
    """Return whether a line ended early, closing its paragraph.

    Then the next line is indented, or its first word would have fitted.
    """
    size = previous.size
    # Otherwise the text continues in another column, or on another page.
    same_column = previous.line_position > current.line_position
    if same_column and current.begin - previous.begin > MIN_INDENT * size and not LIST_ITEM.match(previous.text):
        return True
    room = edge - previous.end - size
    return current.first_word_width < room or (not same_column and previous.text[-1] in STOP_CHARS)


def _is_heading(line: TextLine, median_size: float) -> bool:
    large = median_size > 0 and line.size >= HEADING_SIZE * median_size
    return large and len(line.text) <= MAX_HEADING_CHARS and line.text[-1] not in "。." and not line.is_row


def _line_pitch(page: Sequence[TextLine]) -> float:
    """Return the usual distance between the lines of a paragraph."""
    drops = [a.line_position - b.line_position for a, b in pairwise(page)]
    return median([drop for a, drop in zip(page, drops, strict=False) if 0 < drop < 3 * a.size] or [0.0])


def _column_edges(page: Sequence[TextLine]) -> list[float]:
    """Return where the column of each line ends.

    It is as far as two of the neighbouring lines reach, because one line may stick out.
    """
    edges: list[float] = []
    for i, line in enumerate(page):
        nearby = [other for other in page[max(0, i - NEIGHBOUR_LINES) : i + NEIGHBOUR_LINES] if not other.is_row]
        ends = sorted(other.end for other in nearby if other.begin < line.end and line.begin < other.end)
        edges.append(ends[-2] if len(ends) > 1 else line.end)
    return edges


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


def build_line(glyphs: list[Glyph], *, cells: bool) -> TextLine:
    """Build a line; separate distant cells by ` | `.

    cells: False for text of mixed direction, where gaps cannot be detected, and for vertical text.
    """
    visible = [glyph for glyph in glyphs if glyph.visible]
    if not visible:
        return TextLine("")
    size = _median_size(visible)
    pieces: list[str] = []
    last = visible[0]
    for glyph in glyphs:
        if glyph.visible:
            if cells and max(glyph.begin - last.end, last.begin - glyph.end) > CELL_GAP * size:
                pieces.append(" | ")
            last = glyph
        pieces.append(glyph.letter)
    first_word = _first_word(glyphs[glyphs.index(visible[0]) :])
    return TextLine(
        text=_clean_text("".join(pieces)),
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
