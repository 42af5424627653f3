"""lines as they stand on pages -> a text in paragraphs, rows and headings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from statistics import median

from kumihimo.text.sentences import ITEM

NEAR = 15  # lines before and after that tell how wide a column is
HEADING = 1.18  # times the usual size
LONGEST = 120  # characters of a heading
LEADING = 1.35  # times as far apart as the lines of a paragraph are
SOLID = 1.2  # times the size: how far apart lines are at least, so those of a large heading, too
ALIKE = 0.15  # of the larger: letters that differ by less are of one size
LEVEL = 0.3  # times the size
INDENT = 0.8  # times the size
APART = "\n\n"
STOPS = "。．.!?！？:：;；"
AROUND = f"{STOPS},()[]“”‘’\"'"  # a word
HYPHENS = "-\u00ad\u2010\u2011"


@dataclass(frozen=True, slots=True)
class Line:
    """begin, end: from where to where, along the line; across: its height on the page; size: of its letters.

    word: how long its first word is. hyphen: whether it ends with one that parts a word. All are 0 where a page
    tells only its text.
    """

    text: str
    begin: float = 0.0
    end: float = 0.0
    across: float = 0.0
    size: float = 0.0
    word: float = 0.0
    hyphen: bool = False

    @property
    def row(self) -> bool:
        return " | " in self.text


@dataclass(slots=True)
class Written:
    """A text, and where each page of it begins."""

    text: str = ""
    begins: list[int] = field(default_factory=list)


def side_by_side(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines, those that are level and follow one another as cells of a row."""
    held: Line | None = None
    for line in lines:
        if held and abs(held.across - line.across) < LEVEL * held.size and line.begin > held.end:
            held = replace(held, text=f"{held.text} | {line.text}", end=line.end, hyphen=line.hyphen)
        else:
            if held:
                yield held
            held = line
    if held:
        yield held


def wide(letter: str) -> bool:
    """Whether it is of a script that writes no spaces.

    >>> wide("紐"), wide("。"), wide("a"), wide("")
    (True, True, False, False)
    """
    return "\u2e80" <= letter <= "\ud7af" or "\uf900" <= letter <= "\ufaff" or "\uff00" <= letter <= "\uffef"


def paragraphs(pages: Sequence[Sequence[Line]]) -> Written:
    """All pages as one text; a sentence that goes over the end of a page stays whole."""
    every = list(chain.from_iterable(pages))
    usual = median([line.size for line in every for _ in line.text]) if every else 0.0
    known = {word.strip(AROUND) for line in every for word in line.text.split()}
    parts: list[str] = []
    written, length, edge = Written(), 0, 0.0
    above: Line | None = None
    for page in pages:
        pitch, edges = _pitch(page), _edges(page)
        for number, below in enumerate(page):
            between = _between(above, below, pitch, edge, usual, known) if above else ""
            mark = "## " if _heading(below, usual) and (not above or between == APART) else ""
            parts += [between, mark, below.text]
            length += len(between)
            if not number:
                written.begins.append(length)
            length += len(mark) + len(below.text)
            above, edge = below, edges[number]
        if not page:
            written.begins.append(length)
    written.text = "".join(parts)
    return written


def _between(above: Line, below: Line, pitch: float, edge: float, usual: float, known: set[str]) -> str:
    """What parts two lines that are read one after the other: nothing or a space within a paragraph."""
    if above.hyphen:
        whole = f"{above.text.split()[-1]}-{below.text.split()[0]}".strip(AROUND)
        return "-" if whole in known or not below.text[0].islower() else ""
    if not above.size or (above.row and below.row) or (ITEM.match(below.text) and not _apart(above, below, pitch)):
        return "\n"
    if above.row or below.row or _heading(above, usual) != _heading(below, usual) or _apart(above, below, pitch):
        return APART
    if _broken(above, below, edge):
        return APART
    joined = wide(above.text[-1]) and wide(below.text[0])
    return "" if joined or above.text[-1] in HYPHENS else " "


def _apart(above: Line, below: Line, pitch: float) -> bool:
    """Whether there is more room between them than between lines of a paragraph, or another size of letters."""
    drop, larger = above.across - below.across, max(above.size, below.size)
    return drop > LEADING * max(pitch, SOLID * above.size) or abs(above.size - below.size) > ALIKE * larger


def _broken(above: Line, below: Line, edge: float) -> bool:
    """Whether a line ended on purpose: the next begins further in, or its first word would still have had room."""
    size = above.size
    down = above.across > below.across  # else it goes on in another column, or on another page
    if down and below.begin - above.begin > INDENT * size and not ITEM.match(above.text):
        return True
    room = edge - above.end - size
    return below.word < room or (not down and above.text[-1] in STOPS)


def _heading(line: Line, usual: float) -> bool:
    large = usual > 0 and line.size >= HEADING * usual
    return large and len(line.text) <= LONGEST and line.text[-1] not in "。." and not line.row


def _pitch(page: Sequence[Line]) -> float:
    """How far apart the lines of a paragraph are."""
    drops = [a.across - b.across for a, b in pairwise(page)]
    return median([drop for a, drop in zip(page, drops, strict=False) if 0 < drop < 3 * a.size] or [0.0])


def _edges(page: Sequence[Line]) -> list[float]:
    """Where the column of each line ends: as far as two of the lines around it reach, for one may stick out."""
    edges: list[float] = []
    for i, line in enumerate(page):
        around = [other for other in page[max(0, i - NEAR) : i + NEAR] if not other.row]
        ends = sorted(other.end for other in around if other.begin < line.end and line.begin < other.end)
        edges.append(ends[-2] if len(ends) > 1 else line.end)
    return edges
