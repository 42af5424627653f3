"""OpenDocument: texts (.odt), slides (.odp) and sheets (.ods) -> a page of text, with the places of its parts."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import cast
from xml.etree import ElementTree
from zipfile import ZipFile

from kumihimo.core.errors import SourceError
from kumihimo.readers import page as layout, titles, workbooks
from kumihimo.readers.archive import locked_error, open_archive, read_part, read_xml
from kumihimo.readers.workbooks import Formatter, Place, Shown

URN = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
OFFICE, TEXT, TABLE, DRAW = (URN % name for name in ("office", "text", "table", "drawing"))
META, PRESENTATION = URN % "meta", URN % "presentation"
DC = "{http://purl.org/dc/elements/1.1/}"
DROPPED = {f"{OFFICE}annotation", f"{TEXT}tracked-changes", f"{TEXT}note-citation", f"{TEXT}sequence-decls"}
DROPPED |= {f"{TEXT}table-of-content", f"{DRAW}enhanced-geometry", f"{OFFICE}event-listeners", f"{OFFICE}forms"}
STEPS: dict[str, layout.WriterStep] = {
    f"{TEXT}p": layout.PARAGRAPH,
    f"{TEXT}list": layout.LIST,
    f"{TEXT}list-item": layout.Writer.bullet_item,
    f"{TEXT}list-header": layout.LINE,
    f"{TEXT}line-break": layout.Writer.line_break,
    f"{TEXT}ruby": layout.Writer.ruby,
    f"{TEXT}ruby-text": layout.Writer.rt,
    f"{TABLE}table": layout.Writer.table,
    f"{TABLE}table-row": layout.Writer.row,
    f"{DRAW}text-box": layout.LINE,
    f"{PRESENTATION}notes": layout.PARAGRAPH,
}
PROPERTIES = {
    f"{META}initial-creator": "author",
    f"{DC}creator": "author",
    f"{DC}subject": "subject",
    f"{DC}description": "description",
    f"{DC}language": "language",
    f"{META}creation-date": "date",
}
SPANNED = (f"{TABLE}number-rows-spanned", f"{TABLE}number-columns-spanned")
REPEATED = (f"{TABLE}number-columns-repeated", f"{TABLE}number-rows-repeated")
Node = ElementTree.Element | str


def read_odt(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read a text: headings, lists, tables, notes."""
    archive = _open(data, name)
    page = layout.layout_tree(cast(Node, _body(archive, name)), _visit)
    title, metadata = _read_meta(archive, name)
    title = title or page.title
    yield layout.finish_page(layout.Page(title=title, text=page.text, metadata=metadata, places=page.places), name)


def read_odp(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read each slide with its notes."""
    archive = _open(data, name)
    slides = [layout.layout_tree(cast(Node, slide), _visit).text for slide in _body(archive, name).iter(f"{DRAW}page")]
    yield layout.finish_slides(slides, name, *_read_meta(archive, name))


def read_ods(data: bytes, name: str) -> Iterator[layout.Page]:
    """Read each sheet as those of other workbooks."""
    archive = _open(data, name)
    body = _body(archive, name)
    _check_cells(body, name)
    title, metadata = _read_meta(archive, name)
    for page in workbooks.read_workbook(data, name, _shown_texts(body)):
        yield replace(page, title=title, metadata={**page.metadata, **metadata})


def _open(data: bytes, name: str) -> ZipFile:
    """Return the archive. Raise SourceError if it is locked."""
    archive = open_archive(data, name)
    manifest = "META-INF/manifest.xml"
    if manifest in archive.namelist() and b"encryption-data" in read_part(archive, manifest, name):
        raise locked_error(name)
    return archive


def _body(archive: ZipFile, name: str) -> ElementTree.Element:
    body = read_xml(archive, "content.xml", name).find(f"{OFFICE}body")
    return ElementTree.Element("empty") if body is None else body


def _read_meta(archive: ZipFile, name: str) -> tuple[str, layout.Row]:
    """Return title and metadata."""
    if "meta.xml" not in archive.namelist():
        return "", {}
    title, metadata, keywords = "", dict[str, str](), list[str]()
    for node in read_xml(archive, "meta.xml", name).iter():
        text = (node.text or "").strip()
        if node.tag == f"{DC}title":
            title = titles.human_title(text)
        elif node.tag == f"{META}keyword" and text:
            keywords.append(text)
        elif (key := PROPERTIES.get(node.tag)) and text:
            metadata.setdefault(key, text[:10] if key == "date" else text)
    return title, {**metadata, **({"keywords": ", ".join(keywords)} if keywords else {})}


def _visit(node: Node) -> str | layout.Visit[Node]:
    if isinstance(node, str):
        return node
    if node.tag in DROPPED:
        return ""
    if node.tag in (f"{TEXT}s", f"{TEXT}tab"):
        return " " if node.tag == f"{TEXT}s" else "\t"
    if node.tag == f"{TEXT}h":
        level = node.get(f"{TEXT}outline-level", "1")
        mark = "#" * min(max(int(level) if level.isdecimal() else 1, 1), 6) + " "
        return partial(layout.Writer.heading, mark=mark), layout.mixed_content(node)
    if node.tag == f"{DRAW}frame" and node.get(f"{PRESENTATION}class") == "title":
        return partial(layout.Writer.heading, mark="## "), layout.mixed_content(node)
    if node.tag == f"{TABLE}table-cell":
        return layout.cell_step(*map(node.get, SPANNED)), layout.mixed_content(node)
    if node.tag == f"{TEXT}note":
        return " (" + "".join(" ".join(p.itertext()) for p in node.iter(f"{TEXT}p")).strip() + ")"
    return STEPS.get(node.tag), layout.mixed_content(node)


def _shown_texts(body: ElementTree.Element) -> Shown:
    """Return the texts of percentages and amounts of money."""
    shown = dict[str, dict[Place, Formatter]]()
    for sheet in body.iter(f"{TABLE}table"):
        cells, row = shown.setdefault(sheet.get(f"{TABLE}name", ""), {}), 0
        for line in sheet.iter(f"{TABLE}table-row"):
            column, rows = 0, _repeats(line, REPEATED[1])
            for cell in line:
                columns = _repeats(cell, REPEATED[0])
                if len(cell) and cell.get(f"{OFFICE}value-type") in ("percentage", "currency"):
                    text = " ".join("".join(p.itertext()) for p in cell.iterfind(f"{TEXT}p"))
                    places = product(range(row, row + rows), range(column, column + columns))
                    cells |= dict.fromkeys(places, partial(_give_text, text))
                column += columns
            row += rows
    return shown


def _give_text(text: str, _: float) -> str:
    return text


def _check_cells(body: ElementTree.Element, name: str) -> None:
    """Raise SourceError if sheets unpack to too many cells."""
    cells = 0
    for row in body.iter(f"{TABLE}table-row"):
        columns = sum(_repeats(cell, REPEATED[0]) for cell in row if len(cell))  # empty ones at the end repeat far
        cells += columns * _repeats(row, REPEATED[1])
    if cells > workbooks.MAX_CELLS:
        raise SourceError(f"{name}: unpacks to far more than its size, like a zip bomb; it is not read")


def _repeats(node: ElementTree.Element, attribute: str) -> int:
    count = node.get(attribute, "1")
    return int(count) if count.isdecimal() and len(count) < 10 else 1
