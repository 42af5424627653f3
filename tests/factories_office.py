"""what stands in a file -> the file: Word, PowerPoint, Excel, PDF, EPUB and letters, as their programs write them."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from kumihimo.core.records import Document
from kumihimo.readers import READERS
from kumihimo.readers.documents import read_documents

Fill = Callable[[Any], object]
Parts = Mapping[str, str | bytes]

XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml"
SPACES = {
    "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
    "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
    "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
    "v": "urn:schemas-microsoft-com:vml",
}
NAMES = " ".join(f'xmlns:{short}="{long}"' for short, long in SPACES.items())


def one(folder: Path, name: str, data: bytes) -> Document:
    """The one document of a file of that name."""
    (document,) = every(folder, name, data)
    return document


def every(folder: Path, name: str, data: bytes) -> list[Document]:
    path = folder / name
    path.write_bytes(data)
    return read_documents(path, name, READERS)


def zipped(parts: Parts, method: int = ZIP_DEFLATED) -> bytes:
    held = io.BytesIO()
    with ZipFile(held, "w", method) as archive:
        for name, part in parts.items():
            archive.writestr(name, part, ZIP_STORED if name == "mimetype" else method)
    return held.getvalue()


def unzipped(data: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def changed(data: bytes, parts: Parts) -> bytes:
    """The same package with other parts."""
    return zipped({**unzipped(data), **parts})


def docx(body: str, **parts: str) -> bytes:
    """A Word file: what stands in its body, and in the roots of `styles`, `numbering`, `footnotes`, `endnotes`."""
    types = "".join(f'<Override PartName="/word/{n}.xml" ContentType="{WORD}.{n}+xml"/>' for n in parts)
    types += f'<Override PartName="/word/document.xml" ContentType="{WORD}.document.main+xml"/>'
    types += '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    relations = [f'<Relationship Id="r{n}" Type="{RELATIONS}/{n}" Target="{n}.xml"/>' for n in parts]
    main = f'<Relationship Id="r1" Type="{RELATIONS}/officeDocument" Target="word/document.xml"/>'
    return zipped(
        {
            "[Content_Types].xml": f'{XML}<Types xmlns="{PACKAGE}/content-types">{types}</Types>',
            "_rels/.rels": _relations(main),
            "word/_rels/document.xml.rels": _relations("".join(relations)),
            "word/document.xml": f"{XML}<w:document {NAMES}><w:body>{body}</w:body></w:document>",
            **{f"word/{n}.xml": f"{XML}<w:{n} {NAMES}>{inner}</w:{n}>" for n, inner in parts.items()},
        }
    )


def _relations(inner: str) -> str:
    return f'{XML}<Relationships xmlns="{PACKAGE}/relationships">{inner}</Relationships>'


def p(text: str, about: str = "") -> str:
    """A paragraph of Word; about: what stands in its properties."""
    return f'<w:p><w:pPr>{about}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def word(fill: Fill) -> bytes:
    """A Word file of the usual template."""
    from docx import Document as Made

    return _saved(Made(), fill)


def pptx(fill: Fill) -> bytes:
    from pptx import Presentation

    return _saved(Presentation(), fill)


def xlsx(fill: Fill) -> bytes:
    from openpyxl import Workbook

    book = Workbook()
    book.remove(book.active)
    return _saved(book, fill)


def _saved(made: Any, fill: Fill) -> bytes:
    fill(made)
    held = io.BytesIO()
    made.save(held)
    return held.getvalue()


def sheet(book: Any, title: str, *rows: tuple[object, ...]) -> Any:
    """A sheet with these rows; an empty one is an empty row."""
    made = book.create_sheet(title)
    for number, row in enumerate(rows, 1):
        for place, value in enumerate(row, 1):
            if value is not None:
                made.cell(number, place, value)
    return made


def pdf(*pages: Fill, title: str = "", encrypt: object = None) -> bytes:
    """A PDF: what is drawn on each of its pages."""
    from reportlab.pdfgen.canvas import Canvas

    held = io.BytesIO()
    canvas = Canvas(held, invariant=1, encrypt=encrypt)
    for page in pages:
        page(canvas)
        canvas.showPage()
    canvas.setTitle(title)
    canvas.save()
    return held.getvalue()


def lines(*texts: str, x: float = 72, y: float = 720, pitch: float = 14, size: float = 12) -> Fill:
    """Lines one below the other; an empty one is a gap."""

    def draw(canvas: Any) -> None:
        canvas.setFont("Helvetica", size)
        for number, text in enumerate(texts):
            canvas.drawString(x, y - pitch * number, text)

    return draw


def justified(text: str, width: int = 60) -> list[str]:
    """The text wrapped as a page wraps it."""
    import textwrap

    return textwrap.wrap(text, width)


def epub(chapters: Parts, about: str = "<dc:title>The Tides</dc:title>", spine: str = "", home: str = "OEBPS") -> bytes:
    """A book: its chapters by path, in reading order; about: what its metadata hold."""
    kinds = {".xhtml": "application/xhtml+xml", ".svg": "image/svg+xml"}
    items = "".join(
        f'<item id="c{i}" href="{path}" media-type="{kinds[Path(path).suffix]}"/>' for i, path in enumerate(chapters)
    )
    spine = spine or "".join(f'<itemref idref="c{i}"/>' for i in range(len(chapters)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata>{about}</metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        f'<rootfile full-path="{home}/book.opf"/></rootfiles></container>'
    )
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            f"{home}/book.opf": package,
            **{f"{home}/{path}": part for path, part in chapters.items()},
        }
    )


def chapter(body: str, title: str = "") -> str:
    head = f"<head><title>{title}</title></head>" if title else "<head/>"
    return f'{XML}<html xmlns="http://www.w3.org/1999/xhtml">{head}<body>{body}</body></html>'


def letter(text: str = "The ferry leaves at nine.", subject: str = "Ferry", **attached: bytes) -> bytes:
    """A letter; attached: files by name, its last `_` standing for the dot: `boats_csv`."""
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "Ayu <ayu@example.org>", "Ren <ren@example.org>", subject
    made["Date"] = "Fri, 01 May 2026 09:30:00 +0900"
    made.set_content(text)
    for name, data in attached.items():
        file = ".".join(name.rsplit("_", 1))
        made.add_attachment(data, "application", "octet-stream", filename=file)
    return made.as_bytes()


def base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
