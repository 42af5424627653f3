"""Word (.docx) -> one page of text, with the headings, lists and rows of Markdown."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kumihimo.readers.archive import open_archive
from kumihimo.readers.layout import (
    MAX_LIST_INDENT,
    Visit,
    Writer,
    WriterStep,
    break_paragraph,
    layout_tree,
    stay_inline,
)
from kumihimo.readers.numbering import BULLET, ListLevel, Numbering
from kumihimo.readers.ooxml import DROPPED_TAGS, ELEMENT_STEPS, TEXT_TAGS, W, read_core_properties
from kumihimo.readers.page import Page, refuse_empty

if TYPE_CHECKING:
    from docx.document import Document

Node = Any  # an element of lxml, which tells no types
HEADINGS = {"title": 1, **{f"heading {level}": level for level in range(1, 10)}}


def read_docx(data: bytes, name: str) -> Iterator[Page]:
    """The text as it would be if all changes were accepted; its properties as metadata.

    Comments, headers, footers and pictures are left out; notes stand at the end.
    """
    from docx import Document

    with open_archive(data, name) as archive:
        title, metadata = read_core_properties(archive, name)
    document = Document(io.BytesIO(data))
    word = DocxVisitor(_read_styles(document), Numbering(_read_lists(document)))
    written = layout_tree(document.element.body, word.visit)
    text = "\n\n".join(filter(None, [written.text, *_render_notes(document, word)]))
    refuse_empty(text, name)
    yield Page(title=title or written.title, text=text, metadata=metadata, places=written.places)


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """What a paragraph style decides: level of a heading, list and depth."""

    heading: int = 0
    list_id: str = ""
    depth: int = 0


@dataclass(slots=True)
class DocxVisitor:
    """How each element of a document is visited."""

    styles: dict[str, ParagraphStyle]
    numbering: Numbering
    notes: list[tuple[str, str]] = field(default_factory=list)  # kind and id, in the order they are referred to

    def visit(self, node: Node) -> str | Visit[Node]:
        if node.tag in TEXT_TAGS:
            return node.text or ""
        if node.tag in DROPPED_TAGS or not isinstance(node.tag, str):
            return ""
        if node.tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
            self.notes.append((node.tag.removeprefix(W).removesuffix("Reference"), node.get(f"{W}id")))
            return f"[^{len(self.notes)}]"
        enter, leave = (
            self._paragraph_steps(node)
            if node.tag == f"{W}p"
            else ELEMENT_STEPS.get(node.tag, (stay_inline, stay_inline))
        )
        return enter, leave, node

    def _paragraph_steps(self, node: Node) -> tuple[WriterStep, WriterStep]:
        own = node.find(f"{W}pPr")
        style = self.styles.get(_val_at(own, "pStyle"), self.styles.get("", ParagraphStyle()))
        list_id = _val_at(own, "numPr", "numId") or style.list_id
        depth = int(_val_at(own, "numPr", "ilvl") or style.depth)
        level = int(_val_at(own, "outlineLvl") or 9) + 1
        heading = level if level < 10 else style.heading
        mark = self.numbering.next_label(list_id, depth) if list_id.strip("0") and not _is_deleted(node) else ""
        if heading:
            number = "" if mark in ("", BULLET) else f"{mark} "
            return partial(Writer.heading, mark="#" * min(heading, 6) + f" {number}"), Writer.end_heading
        if mark:
            return partial(Writer.marked_item, mark="  " * min(depth, MAX_LIST_INDENT) + f"{mark} "), Writer.end_item
        return break_paragraph, break_paragraph


def _is_deleted(paragraph: Node) -> bool:
    """Whether a tracked change has taken it out, so that it does not count."""
    ended = paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None
    return ended and all(_is_inside(text, f"{W}del") for text in paragraph.iter(f"{W}t"))


def _is_inside(node: Node, tag: str) -> bool:
    return next(node.iterancestors(tag), None) is not None


def _val_at(node: Node, *path: str) -> str:
    """The `w:val` of the element at that path below the node; empty where it is not there."""
    for name in path:
        node = None if node is None else node.find(f"{W}{name}")
    return "" if node is None else node.get(f"{W}val") or ""


def _read_styles(document: Document) -> dict[str, ParagraphStyle]:
    """The paragraph styles by id, each with what it inherits; under "" the default one."""
    elements = {style.get(f"{W}styleId"): style for style in document.styles.element.findall(f"{W}style")}

    def inherited(id: str, look: Callable[[Node], str]) -> str:
        seen: set[str] = set()
        while id in elements and id not in seen:
            seen.add(id)
            if found := look(elements[id]):
                return found
            id = _val_at(elements[id], "basedOn")
        return ""

    def style(id: str) -> ParagraphStyle:
        level = inherited(id, lambda e: _val_at(e, "pPr", "outlineLvl"))
        named = inherited(id, lambda e: str(HEADINGS.get(_val_at(e, "name").lower(), "")))
        heading = int(named or (int(level) + 1 if level else 0))
        list_id = inherited(id, lambda e: _val_at(e, "pPr", "numPr", "numId"))
        depth = int(inherited(id, lambda e: _val_at(e, "pPr", "numPr", "ilvl")) or 0)
        return ParagraphStyle(heading if heading < 10 else 0, list_id, depth)

    default = next((id for id, e in elements.items() if e.get(f"{W}default") == "1" and _is_paragraph_style(e)), "")
    return {id: style(id) for id in elements} | {"": style(default)}


def _is_paragraph_style(style: Node) -> bool:
    return bool(style.get(f"{W}type") == "paragraph")


def _read_lists(document: Document) -> dict[str, tuple[str, dict[int, ListLevel]]]:
    from docx.opc.constants import RELATIONSHIP_TYPE as RT

    try:
        root: Node = getattr(document.part.part_related_by(RT.NUMBERING), "element")  # noqa: B009 (told to no type)
    except (KeyError, AttributeError):  # it numbers nothing
        return {}
    kinds = {kind.get(f"{W}abstractNumId"): _read_levels(kind) for kind in root.findall(f"{W}abstractNum")}
    found: dict[str, tuple[str, dict[int, ListLevel]]] = {}
    for each in root.findall(f"{W}num"):
        kind, id = _val_at(each, "abstractNumId"), each.get(f"{W}numId")
        levels = kinds.get(kind, {})
        own = _level_overrides(each, levels)
        found[id] = (id if own else f"kind {kind}", levels | own)  # one that begins anew counts by itself
    return found


def _read_levels(kind: Node) -> dict[int, ListLevel]:
    return {int(level.get(f"{W}ilvl")): _read_level(level) for level in kind.findall(f"{W}lvl")}


def _read_level(level: Node) -> ListLevel:
    start = _val_at(level, "start")
    return ListLevel(_val_at(level, "numFmt") or "decimal", _val_at(level, "lvlText"), int(start) if start else 1)


def _level_overrides(each: Node, levels: dict[int, ListLevel]) -> dict[int, ListLevel]:
    found: dict[int, ListLevel] = {}
    for change in each.findall(f"{W}lvlOverride"):
        depth, start = int(change.get(f"{W}ilvl")), _val_at(change, "startOverride")
        level = change.find(f"{W}lvl")
        old = _read_level(level) if level is not None else levels.get(depth, ListLevel())
        found[depth] = ListLevel(old.number_format, old.pattern, int(start) if start else old.start)
    return found


def _render_notes(document: Document, word: DocxVisitor) -> Iterator[str]:
    """What the notes say that were referred to; notes in notes come last."""
    parts = {kind: _read_notes(document, kind) for kind in dict.fromkeys(kind for kind, _ in word.notes)}
    for number, (kind, id) in enumerate(word.notes, 1):  # which grows meanwhile
        note = parts.get(kind, {}).get(id)
        if note is not None:
            yield f"[^{number}]: {layout_tree(note, word.visit).text}"


def _read_notes(document: Document, kind: str) -> dict[str, Node]:
    from docx.opc.constants import RELATIONSHIP_TYPE as RT
    from docx.oxml.parser import parse_xml

    try:
        part = document.part.part_related_by(RT.FOOTNOTES if kind == "footnote" else RT.ENDNOTES)
    except KeyError:  # they are referred to, and not there
        return {}
    return {note.get(f"{W}id"): note for note in parse_xml(part.blob)}
