"""Word (.docx) -> one page of text, with the headings, lists and rows of Markdown."""

import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from kumihimo.readers import archive, page as layout
from kumihimo.readers.archive import W

Node = Any  # an element of lxml, which is not typed
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
HEADINGS = {"title": 1, **{f"heading {level}": level for level in range(1, 10)}}
NOTE_PARTS = {f"{W}footnoteReference": "footnotes", f"{W}endnoteReference": "endnotes"}

BULLET = "-"
MAX_LIST_DEPTH = 8  # Word has nine levels
MAX_LIST_NUMBER = 4000  # a larger one is written in digits: as a Roman number it would have no end
MAX_PATTERN_CHARS = 100
MAX_STYLE_DEPTH = 50
ROMAN = [(1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl")]
ROMAN += [(10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i")]
KANJI = "〇一二三四五六七八九"
IROHA = "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセス"
AIUEO = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
FULL_WIDTH_DIGITS = str.maketrans("0123456789", "０１２３４５６７８９")


def read_docx(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read a Word document as if all changes were accepted.

    The metadata is its properties. Comments, headers, footers and pictures are left out; notes stand at the end.
    """
    from docx import Document

    with archive.open_archive(data, name) as package:
        title, metadata = archive.read_core_properties(package, name)
        data = archive.to_transitional(package, data)
    document = Document(io.BytesIO(data))
    numbering = Numbering(_read_lists(_related_elements(document.part, "numbering")))
    visitor = DocxVisitor(_read_styles(document.styles.element), numbering)
    page_layout = layout.layout_tree(document.element.body, visitor.visit)
    unread = archive.describe_entities(document.element.body)
    text = "\n\n".join(filter(None, [page_layout.text, *_render_notes(document.part, visitor, unread)]))
    title, places = title or page_layout.title, page_layout.places
    yield layout.finish_page(layout.Page(title=title, text=text, metadata=metadata, places=places), name, unread)


class ParagraphStyle(NamedTuple):
    """The heading level, list and depth of a paragraph style."""

    heading: int = 0
    list_id: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ListLevel:
    """A level of a list.

    pattern: `%1.%2` stands for the numbers of the first and second level.
    """

    number_format: str = "decimal"
    pattern: str = ""
    start: int = 1


NumberedList = tuple[str, Mapping[int, ListLevel]]  # the counter, which lists may share, and the levels by depth


@dataclass(slots=True)
class Numbering:
    """Counters that work like Word's: a paragraph restarts deeper levels."""

    lists: Mapping[str, NumberedList]
    counts: dict[str, dict[int, int]] = field(default_factory=dict)

    def next_label(self, list_id: str, depth: int) -> str:
        """Return the label of the next paragraph, or an empty string.

        >>> legal = {0: ListLevel("japaneseCounting", "第%1条"), 1: ListLevel("lowerRoman", "%1-%2)")}
        >>> numbering = Numbering({"7": ("7", legal)})
        >>> [numbering.next_label("7", depth) for depth in (0, 1, 1, 0, 1)]
        ['第一条', '一-i)', '一-ii)', '第二条', '二-i)']
        """
        depth, (counter_id, levels) = min(depth, MAX_LIST_DEPTH), self.lists.get(list_id, ("", {}))
        level = levels.get(depth, ListLevel())
        if level.number_format == "bullet":
            return BULLET
        counts = {index: count for index, count in self.counts.get(counter_id, {}).items() if index <= depth}
        counts[depth] = counts.get(depth, level.start - 1) + 1
        self.counts[counter_id] = counts

        def number(match: re.Match[str]) -> str:
            index = int(match[1]) - 1
            referenced = levels.get(index, ListLevel())
            return format_list_number(counts.get(index, referenced.start), referenced.number_format)

        return "" if level.number_format == "none" else re.sub(r"%(\d)", number, level.pattern[:MAX_PATTERN_CHARS])


@dataclass(slots=True)
class DocxVisitor:
    """The visitor of a document's elements."""

    styles: Mapping[str, ParagraphStyle]
    numbering: Numbering
    notes: list[tuple[str, str]] = field(default_factory=list)  # part and id, in order of the first reference
    note_numbers: dict[tuple[str, str], int] = field(default_factory=dict)

    def visit(self, node: Node) -> str | layout.Visit[Node]:
        if node.tag in NOTE_PARTS:
            note = NOTE_PARTS[node.tag], node.get(f"{W}id")
            if note not in self.note_numbers:
                self.notes.append(note)
                self.note_numbers[note] = len(self.notes)
            return f"[^{self.note_numbers[note]}]"
        content = self._paragraph_step(node) if node.tag == f"{W}p" else archive.visit_element(node)
        return content if isinstance(content, str) else (content, node)

    def _paragraph_step(self, node: Node) -> layout.WriterStep:
        properties = node.find(f"{W}pPr")
        style = self.styles.get(_val_at(properties, "pStyle"), self.styles[""])
        list_id = _val_at(properties, "numPr", "numId") or style.list_id
        depth = int(_val_at(properties, "numPr", "ilvl") or style.depth)
        level = int(_val_at(properties, "outlineLvl") or 9) + 1
        heading = level if level < 10 else style.heading
        mark = self.numbering.next_label(list_id, depth) if list_id.strip("0") and not _is_deleted(node) else ""
        if heading:
            number = "" if mark in ("", BULLET) else f"{mark} "
            return partial(layout.Writer.heading, mark="#" * min(heading, 6) + f" {number}")
        if mark:
            return partial(layout.Writer.item, mark="  " * min(depth, layout.MAX_LIST_INDENT) + f"{mark} ")
        return layout.PARAGRAPH


def _is_deleted(paragraph: Node) -> bool:
    """Return whether a tracked change deletes the paragraph.

    A deleted paragraph is not numbered.
    """
    end_deleted = paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None
    return end_deleted and all(list(text.iterancestors(f"{W}del")) for text in paragraph.iter(f"{W}t"))


def _val_at(node: Node, *path: str) -> str:
    """Return the `w:val` at a path below the node, or empty."""
    element = None if node is None else node.find("/".join(f"{W}{name}" for name in path))
    return "" if element is None else element.get(f"{W}val") or ""


def _read_styles(root: Node) -> dict[str, ParagraphStyle]:
    """Return the paragraph styles by id, with inherited values.

    The key "" holds the default style.
    """
    elements = {style.get(f"{W}styleId"): style for style in root.findall(f"{W}style")}

    def style(id: str) -> ParagraphStyle:
        lineage: dict[str, Node] = {}
        while id in elements and id not in lineage and len(lineage) < MAX_STYLE_DEPTH:
            lineage[id] = elements[id]
            id = _val_at(elements[id], "basedOn")

        def inherited(*path: str) -> str:
            return next(filter(None, (_val_at(element, *path) for element in lineage.values())), "")

        level = inherited("pPr", "outlineLvl")
        name_levels = (HEADINGS.get(_val_at(element, "name").lower(), 0) for element in lineage.values())
        heading = next(filter(None, name_levels), 0) or (int(level) + 1 if level else 0)
        depth = int(inherited("pPr", "numPr", "ilvl") or 0)
        return ParagraphStyle(heading if heading < 10 else 0, inherited("pPr", "numPr", "numId"), depth)

    defaults = root.findall(f"{W}style[@{W}default='1'][@{W}type='paragraph']")
    return {id: style(id) for id in elements} | {"": style(defaults[0].get(f"{W}styleId") if defaults else "")}


def _read_lists(elements: list[Node]) -> dict[str, NumberedList]:
    """Return the lists by id."""
    kinds = {kind.get(f"{W}abstractNumId"): _read_levels(kind) for kind in elements if kind.tag == f"{W}abstractNum"}
    lists: dict[str, NumberedList] = {}
    for num in (element for element in elements if element.tag == f"{W}num"):
        kind, id = _val_at(num, "abstractNumId"), num.get(f"{W}numId")
        levels = kinds.get(kind, {})
        overrides = dict(_level_overrides(num, levels))
        lists[id] = (id if overrides else f"kind {kind}", levels | overrides)  # a restarted list counts by itself
    return lists


def _read_levels(parent: Node) -> dict[int, ListLevel]:
    levels: dict[int, ListLevel] = {}
    for level in parent.findall(f"{W}lvl"):
        number_format, start = _val_at(level, "numFmt") or "decimal", int(_val_at(level, "start") or 1)
        levels[int(level.get(f"{W}ilvl"))] = ListLevel(number_format, _val_at(level, "lvlText"), start)
    return levels


def _level_overrides(num: Node, levels: Mapping[int, ListLevel]) -> Iterator[tuple[int, ListLevel]]:
    for override in num.findall(f"{W}lvlOverride"):
        depth, start = int(override.get(f"{W}ilvl")), _val_at(override, "startOverride")
        level = {**levels, **_read_levels(override)}.get(depth, ListLevel())
        yield depth, replace(level, start=int(start)) if start else level


def _render_notes(part: Any, visitor: DocxVisitor, unread: list[str]) -> Iterator[str]:
    """Yield the referenced notes; add to `unread` a part that is broken.

    Notes inside notes come last.
    """
    notes: dict[str, dict[str, Node]] = {}
    for number, (kind, id) in enumerate(visitor.notes, 1):  # the list grows during the loop
        if kind not in notes:
            try:
                elements = _related_elements(part, kind)
            except SyntaxError as error:
                elements = []
                unread.append(f"its {kind} ({error})")
            notes[kind] = {note.get(f"{W}id"): note for note in elements}
        if id in notes[kind]:
            unread += archive.describe_entities(notes[kind][id])
            yield f"[^{number}]: {layout.layout_tree(notes[kind][id], visitor.visit).text}"


def _related_elements(part: Any, kind: str) -> list[Node]:
    """Return the elements of a related part; none if it is missing."""
    from docx.oxml.parser import parse_xml

    try:
        return list(parse_xml(part.part_related_by(f"{RELATIONS}/{kind}").blob))
    except KeyError:
        return []


def format_list_number(number: int, number_format: str) -> str:
    """Write a number in one of Word's formats.

    >>> forms = ("decimal", "upperRoman", "lowerLetter", "japaneseCounting", "aiueo", "new")
    >>> [format_list_number(14, form) for form in forms]
    ['14', 'XIV', 'n', '十四', 'セ', '14']
    """
    return NUMBER_FORMATS.get(number_format, str)(number) if 0 <= number <= MAX_LIST_NUMBER else str(number)


def _roman(number: int) -> str:
    text = ""
    for value, letters in ROMAN:
        text += letters * (number // value)
        number %= value
    return text


def _letter(number: int) -> str:
    """Return a number as letters; after z, Word doubles them: aa, bb."""
    return chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)


def _kanji(number: int) -> str:
    if not 0 < number < 100:
        return "".join(KANJI[int(digit)] for digit in str(number))
    tens, ones = divmod(number, 10)
    ten = "" if not tens else "十" if tens == 1 else f"{KANJI[tens]}十"
    return ten + (KANJI[ones] if ones else "")


NUMBER_FORMATS = {
    "lowerRoman": _roman,
    "upperRoman": lambda n: _roman(n).upper(),
    "lowerLetter": _letter,
    "upperLetter": lambda n: _letter(n).upper(),
    "decimalZero": lambda n: f"{n:02d}",
    "decimalFullWidth": lambda n: str(n).translate(FULL_WIDTH_DIGITS),
    "decimalEnclosedCircle": lambda n: chr(0x2460 + n - 1) if 0 < n <= 20 else str(n),
    **dict.fromkeys(("aiueo", "aiueoFullWidth"), lambda n: AIUEO[(n - 1) % len(AIUEO)]),
    **dict.fromkeys(("iroha", "irohaFullWidth"), lambda n: IROHA[(n - 1) % len(IROHA)]),
    **dict.fromkeys(("japaneseCounting", "japaneseDigitalTenThousand", "chineseCounting", "ideographDigital"), _kanji),
}
