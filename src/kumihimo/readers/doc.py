"""an old Word file (.doc, Word 97 to 2003) -> one page of text, with the headings, lists and rows of Markdown."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.readers import page as layout
from kumihimo.readers.ole import open_ole, read_summary
from kumihimo.readers.tables import MAX_GROWTH

FIRST_VERSION = 0x00C1  # of Word 97; the letters of older files are not certain
STEPS: dict[str, layout.WriterStep] = {
    **dict.fromkeys(("paragraph", "footnote", "endnote", "text_box"), layout.PARAGRAPH),
    "line_break": layout.Writer.line_break,
    "list": layout.LIST,
    "table": layout.Writer.table,
}
Node = dict[str, Any]


def read_doc(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read the headings, texts, lists, tables and notes.

    Tracked changes count as accepted. Raise SourceError if it is older, locked or damaged.
    """
    from office_oxide import Document, OfficeOxideError

    file = open_ole(data, name)
    if int.from_bytes(file.read_stream("WordDocument")[2:4], "little") < FIRST_VERSION:
        raise SourceError(f"{name}: not a Word file of 1997 to 2003; save it as .docx")
    try:
        sections = Document.from_bytes(data, "doc").to_ir()["sections"]
    except OfficeOxideError as error:
        if "password" in str(error):
            raise SourceError(f"{name}: locked with a password; save it without one") from error
        raise SourceError(f"{name}: damaged, so its text is not found; save it again as .docx") from error
    found = layout.layout_tree({"elements": sections}, _visit)
    if len(found.text) > MAX_GROWTH * len(data):
        raise SourceError(f"{name}: unpacks to far more than its size, like a zip bomb; it is not read")
    layout.refuse_empty(found.text, name)
    title, metadata = read_summary(file)
    yield layout.Page(title=title or found.title, text=found.text, metadata=metadata, places=found.places)


def _visit(node: Node) -> str | layout.Visit[Node]:
    """Return a text, or the step around the parts of an element."""
    kind = node.get("type")
    if kind == "text":
        return str(node["text"]).replace("\0", "")
    children = [child for part in ("elements", "content", "rows", "cells", "items") for child in node.get(part, ())]
    if nested := node.get("nested"):
        children.append({"type": "list", **nested})
    if kind == "list":
        children = [{"type": "item", **child} for child in children]
    if kind == "item":
        return layout.Writer.bullet_item, children
    if kind == "heading":
        return partial(layout.Writer.heading, mark="#" * min(max(node["level"], 1), 6) + " "), children
    if "row_span" in node:
        return layout.cell_step(str(node["row_span"]), str(node["col_span"])), children
    return layout.Writer.row if "cells" in node else STEPS.get(kind or ""), children
