"""a zip file -> its parts, after checks against damage and zip bombs; the properties and elements of Office files."""

import io
import re
from typing import Any
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile, ZipInfo

from kumihimo.core.errors import SourceError
from kumihimo.readers.page import LINE, PARAGRAPH, Row, Writer, WriterStep
from kumihimo.readers.titles import human_title

OLE_MAGIC = b"\xd0\xcf\x11\xe0"  # start of Office 97 files and of password-protected ones
MAX_TOTAL_BYTES = 1 << 29  # all parts unpacked: 512 MB
MAX_TEXT_BYTES = 200 << 20  # the parsed tree of a text takes ten times as much memory
MAX_RATIO = 100  # unpacked to packed size: about 20 for text, 1,000 and more for a zip bomb
RATIO_EXEMPT_BYTES = 4 << 20  # smaller parts may have any ratio
TEXT_SUFFIXES = (".xml", ".rels", ".html", ".xhtml", ".htm", ".opf", ".ncx")

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"

TEXT_TAGS = {f"{W}t", f"{A}t", f"{M}t"}
CHARACTERS = {f"{W}tab": "\t", f"{W}ptab": "\t", f"{W}noBreakHyphen": "-"}
# Deleted and moved text, field codes, and duplicates for older programs.
DROPPED_TAGS = {f"{W}{name}" for name in ("del", "moveFrom", "instrText", "delText", "pPr", "rPr", "sectPr", "tblPr")}
DROPPED_TAGS |= {f"{MC}Fallback", f"{A}pPr", f"{A}rPr"}

ELEMENT_STEPS: dict[str, WriterStep] = {
    **dict.fromkeys((f"{W}tbl", f"{A}tbl"), PARAGRAPH),
    **dict.fromkeys((f"{W}tr", f"{A}tr"), Writer.row),
    **dict.fromkeys((f"{W}tc", f"{A}tc"), Writer.cell),
    **dict.fromkeys((f"{W}br", f"{W}cr", f"{A}br"), Writer.line_break),
    f"{W}txbxContent": LINE,
    f"{W}ruby": Writer.ruby,
    f"{W}rt": Writer.rt,
}

CORE_PART = "docProps/core.xml"
ROOT_RELATIONS = "_rels/.rels"
STRICT_NAME = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")
TRANSITIONAL_NAME = rb"http://schemas.openxmlformats.org/\1/2006/\2"
MAX_REASON_CHARS = 200
PROPERTIES = {
    "creator": "author",
    "subject": "subject",
    "keywords": "keywords",
    "category": "category",
    "language": "language",
    "description": "description",
    "created": "date",
}


def open_archive(data: bytes, name: str) -> ZipFile:
    """Open a zip file after checking it.

    Raise SourceError if it is not a zip file, is damaged, or is a zip bomb.
    """
    if data.startswith(OLE_MAGIC):
        raise locked_error(name)
    try:
        archive = ZipFile(io.BytesIO(data))
    except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise SourceError(f"{name}: damaged, or not what its name says ({error}); save it again") from error
    parts = archive.infolist()
    text = sum(part.file_size for part in parts if part.filename.lower().endswith(TEXT_SUFFIXES))
    if text > MAX_TEXT_BYTES:
        remedy = "cut it into several, or save a table as CSV"
        raise SourceError(f"{name}: more than {MAX_TEXT_BYTES >> 20} MB of text; {remedy}")
    large = (part for part in parts if part.file_size > RATIO_EXEMPT_BYTES)
    is_bomb = any(part.file_size > MAX_RATIO * max(part.compress_size, 1) for part in large)
    if sum(part.file_size for part in parts) > MAX_TOTAL_BYTES or is_bomb:
        raise SourceError(f"{name}: unpacks to far more than its size, like a zip bomb; it is not read")
    if damaged_part := archive.testzip():  # the next reader would trust a false size
        raise SourceError(f"{name}: its part {damaged_part} is damaged; save it again")
    return archive


def locked_error(name: str) -> SourceError:
    """Return the error for a file that only a password opens."""
    remedy = "save it in the new one without a password"
    return SourceError(f"{name}: locked with a password, or in an old format; {remedy}")


def read_part(archive: ZipFile, path: str | ZipInfo, name: str) -> bytes:
    """Read one part in full.

    path: its name, or its entry where several parts may have one name. Raise SourceError if it is missing or damaged.
    """
    try:
        return archive.read(path)
    except (KeyError, BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        shown = path.filename if isinstance(path, ZipInfo) else path
        raise SourceError(f"{name}: its part {shown} cannot be read ({error}); save it again") from error


def read_xml(archive: ZipFile, path: str, name: str, remedy: str = "save it again") -> ElementTree.Element:
    """Parse one part. Raise SourceError if it is missing or broken."""
    try:
        return ElementTree.fromstring(read_part(archive, path, name))
    except ElementTree.ParseError as error:
        raise SourceError(f"{name}: its part {path} is broken ({error}); {remedy}") from error


def to_transitional(archive: ZipFile, data: bytes) -> bytes:
    """Rewrite a "Strict Open XML" file with the usual names of elements.

    Return any other file as it is.
    """
    if ROOT_RELATIONS not in archive.namelist() or not STRICT_NAME.search(archive.read(ROOT_RELATIONS)):
        return data
    rewritten = io.BytesIO()
    with ZipFile(rewritten, "w") as target:
        for path in dict.fromkeys(archive.namelist()):
            part = archive.read(path)
            is_xml = path.lower().endswith((".xml", ".rels"))
            target.writestr(path, STRICT_NAME.sub(TRANSITIONAL_NAME, part) if is_xml else part)
    return rewritten.getvalue()


def describe_entities(root: Any) -> list[str]:
    """Return what to report if a part, parsed by lxml, uses entities."""
    if root.getroottree().docinfo.internalDTD is None:
        return []
    names = sorted({node.text for node in root.iter() if getattr(node.tag, "__name__", "") == "Entity"})
    return [f"the texts behind {', '.join(names)[:MAX_REASON_CHARS]}, which no office program writes"] if names else []


def read_core_properties(archive: ZipFile, name: str) -> tuple[str, Row]:
    """Return the title and the metadata from an Office file's properties."""
    if CORE_PART not in archive.namelist():
        return "", {}
    root = read_xml(archive, CORE_PART, name)
    properties = {element.tag.rpartition("}")[2]: (element.text or "").strip() for element in root}
    metadata = {key: properties[term] for term, key in PROPERTIES.items() if properties.get(term)}
    if "date" in metadata:
        metadata["date"] = metadata["date"][:10]
    return human_title(properties.get("title", "")), metadata


def visit_element(node: Any) -> str | WriterStep | None:
    """Return an Office element's text, or the step around its children."""
    if node.tag in TEXT_TAGS:  # an entity inside is a child
        return (node.text or "") + "".join(child.tail or "" for child in node)
    if node.tag in DROPPED_TAGS or not isinstance(node.tag, str):
        return ""
    return CHARACTERS.get(node.tag) or ELEMENT_STEPS.get(node.tag)
