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

Node = Any  # an element of lxml, which is not typed
HEADINGS = {"title": 1, **{f"heading {level}": level for level in range(1, 10)}}


def read_docx(data: bytes, name: str) -> Iterator[Page]:
    """Read a Word document as if all changes were accepted.

    The metadata is its properties. Comments, headers, footers and pictures are left out; notes stand at the end.
    """
    from docx import Document

    with open_archive(data, name) as archive:
        title, metadata = read_core_properties(archive, name)
    document = Document(io.BytesIO(data))
    visitor = DocxVisitor(_read_styles(document), Numbering(_read_lists(document)))
    page_layout = layout_tree(document.element.body, visitor.visit)
    text = "\n\n".join(filter(None, [page_layout.text, *_render_notes(document, visitor)]))
    refuse_empty(text, name)
    yield Page(title=title or page_layout.title, text=text, metadata=metadata, places=page_layout.places)


@dataclass(frozen=True, slots=True)
class ParagraphStyle:
    """The heading level, list and depth of a paragraph style."""

    heading: int = 0
    list_id: str = ""
    depth: int = 0


@dataclass(slots=True)
class DocxVisitor:
    """The visitor of a document's elements."""

    styles: dict[str, ParagraphStyle]
    numbering: Numbering
    notes: list[tuple[str, str]] = field(default_factory=list)  # kind and id, in order of reference

    def visit(self, node: Node) -> str | Visit[Node]:
        if node.tag in TEXT_TAGS:
            return node.text or ""
        if node.tag in DROPPED_TAGS or not isinstance(node.tag, str):
            return ""
        if node.tag in (f"{W}footnoteReference", f"{W}endnoteReference"):
            self.notes.append((node.tag.removeprefix(W).removesuffix("Reference"), node.get(f"{W}id")))
            return f"[^{len(self.notes)}]"
        enter, leave = ELEMENT_STEPS.get(node.tag, (stay_inline, stay_inline))
        if node.tag == f"{W}p":
            enter, leave = self._paragraph_steps(node)
        return enter, leave, node

    def _paragraph_steps(self, node: Node) -> tuple[WriterStep, WriterStep]:
        properties = node.find(f"{W}pPr")
        style = self.styles.get(_val_at(properties, "pStyle"), self.styles.get("", ParagraphStyle()))
        list_id = _val_at(properties, "numPr", "numId") or style.list_id
        depth = int(_val_at(properties, "numPr", "ilvl") or style.depth)
        level = int(_val_at(properties, "outlineLvl") or 9) + 1
        heading = level if level < 10 else style.heading
        mark = self.numbering.next_label(list_id, depth) if list_id.strip("0") and not _is_deleted(node) else ""
        if heading:
            number = "" if mark in ("", BULLET) else f"{mark} "
            return partial(Writer.heading, mark="#" * min(heading, 6) + f" {number}"), Writer.end_heading
        if mark:
            return partial(Writer.marked_item, mark="  " * min(depth, MAX_LIST_INDENT) + f"{mark} "), Writer.end_item
        return break_paragraph, break_paragraph


def _is_deleted(paragraph: Node) -> bool:
    """Return whether a tracked change deletes the paragraph.

    A deleted paragraph is not numbered.
    """
    end_deleted = paragraph.find(f"{W}pPr/{W}rPr/{W}del") is not None
    return end_deleted and all(_is_inside(text, f"{W}del") for text in paragraph.iter(f"{W}t"))


def _is_inside(node: Node, tag: str) -> bool:
    return next(node.iterancestors(tag), None) is not None


def _val_at(node: Node, *path: str) -> str:
    """Return the `w:val` at a path below the node, or empty."""
    for name in path:
        node = None if node is None else node.find(f"{W}{name}")
    return "" if node is None else node.get(f"{W}val") or ""


def _read_styles(document: Document) -> dict[str, ParagraphStyle]:
    """Return the paragraph styles by id, with inherited values.

    The key "" holds the default style.
    """
    elements = {style.get(f"{W}styleId"): style for style in document.styles.element.findall(f"{W}style")}

    def inherited(id: str, getter: Callable[[Node], str]) -> str:
        visited: set[str] = set()
        while id in elements and id not in visited:
            visited.add(id)
            if value := getter(elements[id]):
                return value
            id = _val_at(elements[id], "basedOn")
        return ""

    def style(id: str) -> ParagraphStyle:
        level = inherited(id, lambda e: _val_at(e, "pPr", "outlineLvl"))
        name_level = inherited(id, lambda e: str(HEADINGS.get(_val_at(e, "name").lower(), "")))
        heading = int(name_level or (int(level) + 1 if level else 0))
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
        root: Node = getattr(document.part.part_related_by(RT.NUMBERING), "element")  # noqa: B009 (the type stubs lack it)
    except (KeyError, AttributeError):  # the document has no numbering
        return {}
    kinds = {kind.get(f"{W}abstractNumId"): _read_levels(kind) for kind in root.findall(f"{W}abstractNum")}
    lists: dict[str, tuple[str, dict[int, ListLevel]]] = {}
    for num in root.findall(f"{W}num"):
        kind, id = _val_at(num, "abstractNumId"), num.get(f"{W}numId")
        levels = kinds.get(kind, {})
        overrides = _level_overrides(num, levels)
        lists[id] = (id if overrides else f"kind {kind}", levels | overrides)  # a restarted list counts by itself
    return lists


def _read_levels(kind: Node) -> dict[int, ListLevel]:
    return {int(level.get(f"{W}ilvl")): _read_level(level) for level in kind.findall(f"{W}lvl")}


def _read_level(level: Node) -> ListLevel:
    start = _val_at(level, "start")
    return ListLevel(_val_at(level, "numFmt") or "decimal", _val_at(level, "lvlText"), int(start) if start else 1)


def _level_overrides(num: Node, levels: dict[int, ListLevel]) -> dict[int, ListLevel]:
    overrides: dict[int, ListLevel] = {}
    for override in num.findall(f"{W}lvlOverride"):
        depth, start = int(override.get(f"{W}ilvl")), _val_at(override, "startOverride")
        level = override.find(f"{W}lvl")
        base = _read_level(level) if level is not None else levels.get(depth, ListLevel())
        overrides[depth] = ListLevel(base.number_format, base.pattern, int(start) if start else base.start)
    return overrides


def _render_notes(document: Document, visitor: DocxVisitor) -> Iterator[str]:
    """Yield the referenced notes.

    Notes inside notes come last.
    """
    parts = {kind: _read_notes(document, kind) for kind in dict.fromkeys(kind for kind, _ in visitor.notes)}
    for number, (kind, id) in enumerate(visitor.notes, 1):  # the list grows during the loop
        note = parts.get(kind, {}).get(id)
        if note is not None:
            yield f"[^{number}]: {layout_tree(note, visitor.visit).text}"


def _read_notes(document: Document, kind: str) -> dict[str, Node]:
    from docx.opc.constants import RELATIONSHIP_TYPE as RT
    from docx.oxml.parser import parse_xml

    try:
        part = document.part.part_related_by(RT.FOOTNOTES if kind == "footnote" else RT.ENDNOTES)
    except KeyError:  # referenced, but missing
        return {}
    return {note.get(f"{W}id"): note for note in parse_xml(part.blob)}
