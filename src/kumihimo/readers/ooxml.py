"""Office Open XML -> the writing steps of elements, and the properties: shared by Word and PowerPoint."""

from __future__ import annotations

from functools import partial
from xml.etree import ElementTree
from zipfile import ZipFile

from kumihimo.core.errors import SourceError
from kumihimo.readers.archive import read_part
from kumihimo.readers.layout import Writer, WriterStep, break_line, break_paragraph, stay_inline
from kumihimo.readers.page import Row, human_title

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

TEXT_TAGS = {f"{W}t", f"{A}t", f"{M}t"}
# Deleted and moved text, field codes, and duplicates for older programs.
DROPPED_TAGS = {f"{W}{name}" for name in ("del", "moveFrom", "instrText", "delText", "pPr", "rPr", "sectPr", "tblPr")}
DROPPED_TAGS |= {f"{MC}Fallback", f"{A}pPr", f"{A}rPr"}

StepPair = tuple[WriterStep, WriterStep]


ELEMENT_STEPS: dict[str, StepPair] = {
    **dict.fromkeys((f"{W}tbl", f"{A}tbl"), (break_paragraph, break_paragraph)),
    **dict.fromkeys((f"{W}tr", f"{A}tr"), (Writer.row, Writer.end_row)),
    **dict.fromkeys((f"{W}tc", f"{A}tc"), (Writer.cell, break_line)),
    **dict.fromkeys((f"{W}br", f"{W}cr", f"{A}br"), (Writer.line_break, stay_inline)),
    f"{W}txbxContent": (break_line, break_line),
    **dict.fromkeys((f"{W}tab", f"{W}ptab"), (partial(Writer.write, text="\t"), stay_inline)),
    f"{W}noBreakHyphen": (partial(Writer.write, text="-"), stay_inline),
    f"{W}ruby": (Writer.ruby, Writer.end_ruby),
    f"{W}rt": (Writer.rt, Writer.end_rt),
}

CORE_PART = "docProps/core.xml"
PROPERTIES = {
    "creator": "author", "subject": "subject", "keywords": "keywords", "category": "category",
    "language": "language", "description": "description", "created": "date",
}  # fmt: skip


def read_core_properties(archive: ZipFile, name: str) -> tuple[str, Row]:
    """Return the title and the metadata from an Office file's properties."""
    if CORE_PART not in archive.namelist():
        return "", {}
    try:
        root = ElementTree.fromstring(read_part(archive, CORE_PART, name))
    except ElementTree.ParseError as error:
        raise SourceError(f"{name}: its part {CORE_PART} is broken ({error}); save it again") from error
    properties = {element.tag.rpartition("}")[2]: (element.text or "").strip() for element in root}
    metadata: dict[str, object] = {key: properties[term] for term, key in PROPERTIES.items() if properties.get(term)}
    if date := properties.get("created", "")[:10]:
        metadata["date"] = date
    return human_title(properties.get("title", "")), metadata
