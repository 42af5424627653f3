"""Office Open XML -> the steps that write it down, and its properties: what Word and PowerPoint files share."""

from __future__ import annotations

from typing import Any

from kumihimo.ports.readers.layout import Step, Writer, line, nothing, paragraph
from kumihimo.ports.readers.page import Row, meant

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

TEXTS = {f"{W}t", f"{A}t", f"{M}t"}
# What was taken out or moved away, codes of fields, and what is there twice for older programs.
DROPPED = {f"{W}{name}" for name in ("del", "moveFrom", "instrText", "delText", "pPr", "rPr", "sectPr", "tblPr")}
DROPPED |= {f"{MC}Fallback", f"{A}pPr", f"{A}rPr"}

Steps = tuple[Step, Step]


def _tab(writer: Writer) -> None:
    writer.line.append("\t")


def _hyphen(writer: Writer) -> None:
    writer.line.append("-")


VISITS: dict[str, Steps] = {
    **dict.fromkeys((f"{W}tbl", f"{A}tbl"), (paragraph, paragraph)),
    **dict.fromkeys((f"{W}tr", f"{A}tr"), (Writer.row, Writer.end_row)),
    **dict.fromkeys((f"{W}tc", f"{A}tc"), (Writer.cell, line)),
    **dict.fromkeys((f"{W}br", f"{W}cr", f"{A}br"), (Writer.br, nothing)),
    f"{W}txbxContent": (line, line),
    **dict.fromkeys((f"{W}tab", f"{W}ptab"), (_tab, nothing)),
    f"{W}noBreakHyphen": (_hyphen, nothing),
    f"{W}ruby": (Writer.ruby, Writer.end_ruby),
    f"{W}rt": (Writer.rt, Writer.end_rt),
}

CORE = "docProps/core.xml"  # without it the libraries tell properties of their own
PROPERTIES = ("author", "subject", "keywords", "category", "language")


def about(properties: Any) -> tuple[str, Row]:
    """The title, and the metadata, of what python-docx and python-pptx call core properties."""
    told = ((name, (getattr(properties, name) or "").strip()) for name in PROPERTIES)
    found: dict[str, object] = {name: said for name, said in told if said}
    if comments := (properties.comments or "").strip():
        found["description"] = comments
    if properties.created:
        found["date"] = properties.created.date().isoformat()
    return meant(properties.title or ""), found
