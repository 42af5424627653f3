"""Word (.docx) -> one page of text, with the headings, lists and rows of Markdown."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kumihimo.readers.archive import opened
from kumihimo.readers.layout import DEEPEST, Step, Visit, Writer, layout, nothing, paragraph
from kumihimo.readers.numbering import BULLET, Level, Numbering
from kumihimo.readers.ooxml import DROPPED, TEXTS, VISITS, W, about
from kumihimo.readers.page import Page, refuse_empty

if TYPE_CHECKING:
    from docx.document import Document

Node = Any  # an element of lxml, which tells no types
HEADINGS = {"title": 1, **{f"heading {level}": level for level in range(1, 10)}}


def docx(data: bytes, name: str) -> Iterator[Page]:
    """The text as it would be if all changes were accepted; its properties as metadata.

    Comments, headers, footers and pictures are left out; notes stand at the end.
    """
    from docx import Document

    with opened(data, name) as archive:
        title, metadata = about(archive, name)
    document = Document(io.BytesIO(data))
    word = Word(_styles(document), Numbering(_lists(document)))
    written = layout(document.element.body, word.look)
    text = "\n\n".join(filter(None, [written.text, *_notes(document, word)]))
    refuse_empty(text, name)
    yield Page(title=title or written.title, text=text, metadata=metadata, places=written.places)


@dataclass(frozen=True, slots=True)
class Style:
    """What a paragraph style decides: level of a heading, list and depth."""

    heading: int = 0
    list_id: str = ""
    depth: int = 0


@dataclass(slots=True)
class Word:
    """How each element of a document is visited."""

    styles: dict[str, Style]
    numbering: Numbering
    notes: list[tuple[str, str]] = field(default_factory=list)  # kind and id, in the order they are referred to

    def look(self, node: Node) -> str | Visit[Node]:
        if node.tag in TEXTS:
            return node.text or ""
        if node.tag in DROPPED or not isinstance(node.tag, str):
            return ""
        if node.tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
            self.notes.append((node.tag.removeprefix(W).removesuffix("Reference"), node.get(f"{W}id")))
            return f"[^{len(self.notes)}]"
        enter, leave = self._paragraph(node) if node.tag == f"{W}p" else VISITS.get(node.tag, (nothing, nothing))
        return enter, leave, node

    def _paragraph(self, node: Node) -> tuple[Step, Step]:
        own = node.find(f"{W}pPr")
        style = self.styles.get(_value(own, "pStyle"), self.styles.get("", Style()))
        list_id = _value(own, "numPr", "numId") or style.list_id
        depth = int(_value(own, "numPr", "ilvl") or style.depth)
        level = int(_value(own, "outlineLvl") or 9) + 1
        heading = level if level < 10 else style.heading
        mark = self.numbering.mark(list_id, depth) if list_id.strip("0") and not _deleted(node) else ""
        if heading:
            number = "" if mark in ("", BULLET) else f"{mark} "
            return partial(Writer.heading, mark="#" * min(heading, 6) + f" {number}"), Writer.end_heading
        if mark:
            return partial(Writer.item_of, mark="  " * min(depth, DEEPEST) + f"{mark} "), Writer.end_item
        return paragraph, paragraph


def _deleted(paragraph: Node) -> bool:
    """Whether a tracked change has taken it out, so that it does not count."""
    ended = paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None
    return ended and all(_within(text, f"{W}del") for text in paragraph.iter(f"{W}t"))


def _within(node: Node, tag: str) -> bool:
    return next(node.iterancestors(tag), None) is not None


def _value(node: Node, *path: str) -> str:
    """The `w:val` of the element at that path below the node; empty where it is not there."""
    for name in path:
        node = None if node is None else node.find(f"{W}{name}")
    return "" if node is None else node.get(f"{W}val") or ""


def _styles(document: Document) -> dict[str, Style]:
    """The paragraph styles by id, each with what it inherits; under "" the default one."""
    elements = {style.get(f"{W}styleId"): style for style in document.styles.element.findall(f"{W}style")}

    def inherited(id: str, look: Callable[[Node], str]) -> str:
        seen: set[str] = set()
        while id in elements and id not in seen:
            seen.add(id)
            if found := look(elements[id]):
                return found
            id = _value(elements[id], "basedOn")
        return ""

    def style(id: str) -> Style:
        level = inherited(id, lambda e: _value(e, "pPr", "outlineLvl"))
        named = inherited(id, lambda e: str(HEADINGS.get(_value(e, "name").lower(), "")))
        heading = int(named or (int(level) + 1 if level else 0))
        list_id = inherited(id, lambda e: _value(e, "pPr", "numPr", "numId"))
        depth = int(inherited(id, lambda e: _value(e, "pPr", "numPr", "ilvl")) or 0)
        return Style(heading if heading < 10 else 0, list_id, depth)

    default = next((id for id, e in elements.items() if e.get(f"{W}default") == "1" and _paragraphs(e)), "")
    return {id: style(id) for id in elements} | {"": style(default)}


def _paragraphs(style: Node) -> bool:
    return bool(style.get(f"{W}type") == "paragraph")


def _lists(document: Document) -> dict[str, tuple[str, dict[int, Level]]]:
    from docx.opc.constants import RELATIONSHIP_TYPE as RT

    try:
        root: Node = getattr(document.part.part_related_by(RT.NUMBERING), "element")  # noqa: B009 (told to no type)
    except (KeyError, AttributeError):  # it numbers nothing
        return {}
    kinds = {kind.get(f"{W}abstractNumId"): _levels(kind) for kind in root.findall(f"{W}abstractNum")}
    found: dict[str, tuple[str, dict[int, Level]]] = {}
    for each in root.findall(f"{W}num"):
        kind, id = _value(each, "abstractNumId"), each.get(f"{W}numId")
        levels = kinds.get(kind, {})
        own = _overridden(each, levels)
        found[id] = (id if own else f"kind {kind}", levels | own)  # one that begins anew counts by itself
    return found


def _levels(kind: Node) -> dict[int, Level]:
    return {int(level.get(f"{W}ilvl")): _level(level) for level in kind.findall(f"{W}lvl")}


def _level(level: Node) -> Level:
    start = _value(level, "start")
    return Level(_value(level, "numFmt") or "decimal", _value(level, "lvlText"), int(start) if start else 1)


def _overridden(each: Node, levels: dict[int, Level]) -> dict[int, Level]:
    found: dict[int, Level] = {}
    for change in each.findall(f"{W}lvlOverride"):
        depth, start = int(change.get(f"{W}ilvl")), _value(change, "startOverride")
        level = change.find(f"{W}lvl")
        old = _level(level) if level is not None else levels.get(depth, Level())
        found[depth] = Level(old.form, old.pattern, int(start) if start else old.start)
    return found


def _notes(document: Document, word: Word) -> Iterator[str]:
    """What the notes say that were referred to; notes in notes come last."""
    parts = {kind: _part(document, kind) for kind in dict.fromkeys(kind for kind, _ in word.notes)}
    for number, (kind, id) in enumerate(word.notes, 1):  # which grows meanwhile
        note = parts.get(kind, {}).get(id)
        if note is not None:
            yield f"[^{number}]: {layout(note, word.look).text}"


def _part(document: Document, kind: str) -> dict[str, Node]:
    from docx.opc.constants import RELATIONSHIP_TYPE as RT
    from docx.oxml.parser import parse_xml

    try:
        part = document.part.part_related_by(RT.FOOTNOTES if kind == "footnote" else RT.ENDNOTES)
    except KeyError:  # they are referred to, and not there
        return {}
    return {note.get(f"{W}id"): note for note in parse_xml(part.blob)}
