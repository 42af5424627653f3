"""a .zip file -> a page that lists its files, with the files; a file without a suffix -> the reader for its content."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from zipfile import ZipFile, ZipInfo

from kumihimo.core.errors import SourceError
from kumihimo.core.wiring import Reader
from kumihimo.readers import (
    doc,
    docx,
    html,
    mail,
    opendocument,
    outlook,
    pdf,
    ppt,
    pptx,
    rtf,
    subtitles,
    tables,
    text,
    workbooks,
    xml,
)
from kumihimo.readers.archive import OLE_MAGIC, open_archive, read_part
from kumihimo.readers.page import Page, unique_file_name

UTF8_NAME = 0x800  # a flag of a part
NOT_LISTED = re.compile(r"(?:^|/)(?:\.|__MACOSX/)")
HEAD_BYTES = 4096
# What a file begins with, after spaces.
BEGINNINGS: tuple[tuple[bytes, Reader], ...] = (
    (rb"%PDF-", pdf.read_pdf),
    (rb"\{\\rtf", rtf.read_rtf),
    (rb"WEBVTT", subtitles.read_subtitles),
    (rb"(?i)<!doctype html|<html", html.read_html),
    (rb"<\?xml", xml.read_xml_page),
    (rb"From [^\n]+\n(?:[\w-]+:|>From )", mail.read_mailbox),
    (rb"(?:From|Received|Return-Path|Delivered-To|Message-ID|Date): [^\n]+\n[\w-]+:", mail.read_mail),
)
PARTS: tuple[tuple[str, Reader], ...] = (
    ("word/document.xml", docx.read_docx),
    ("ppt/presentation.xml", pptx.read_pptx),
    ("xl/workbook.xml", workbooks.read_workbook),
    ("META-INF/container.xml", html.read_epub),
)


OLE_PARTS: tuple[tuple[str, Reader], ...] = (
    ("Workbook", workbooks.read_workbook),
    ("WordDocument", doc.read_doc),
    ("PowerPoint Document", ppt.read_ppt),
    ("__properties_version1.0", outlook.read_msg),
)
OPEN_KINDS: dict[bytes, Reader] = {
    b"text": opendocument.read_odt,
    b"presentation": opendocument.read_odp,
    b"spreadsheet": opendocument.read_ods,
}


def read_zip(data: bytes, name: str) -> Iterator[Page]:
    """Read the files of an archive.

    Each has its own reader. The page itself is the list of their names. Hidden files are left out.
    """
    if not data:
        return
    archive, used = open_archive(data, name), dict[str, int]()
    parts = [(_part_name(part), part) for part in archive.infolist() if not part.is_dir()]
    shown = [(unique_file_name(path, used), part) for path, part in parts if not NOT_LISTED.search(path)]
    attached = tuple((path, read_part(archive, part, name)) for path, part in shown)
    yield Page(title=PurePosixPath(name).name, text="\n".join(path for path, _ in attached), attached=attached)


def _part_name(part: ZipInfo) -> str:
    """Return the name of a part.

    Old programs write it in the encoding of their system.
    """
    if part.flag_bits & UTF8_NAME or part.filename.isascii():
        return part.filename
    try:
        return text.decode(part.filename.encode("cp437"))
    except (UnicodeEncodeError, SourceError):
        return part.filename


def read_by_content(data: bytes, name: str) -> Iterator[Page]:
    """Read a file whose name does not say its type.

    A file that is neither text nor of a known type has no page.
    """
    if reader := _find_reader(data, name):
        yield from reader(data, name)
        return
    try:
        page = Page(title=PurePosixPath(name).name, text=text.decode(data, name))
    except SourceError:
        return
    yield page


def _find_reader(data: bytes, name: str) -> Reader | None:
    if data.startswith(b"PK\x03\x04"):
        return _find_packed_reader(open_archive(data, name))
    if data.startswith(OLE_MAGIC):
        return next((reader for part, reader in OLE_PARTS if part.encode("utf-16-le") in data), None)
    head = data[:HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").replace(b"\r\n", b"\n")
    found = next((reader for beginning, reader in BEGINNINGS if re.match(beginning, head)), None)
    return tables.read_json_pages if not found and _is_json(head, data) else found


def _find_packed_reader(archive: ZipFile) -> Reader:
    names = {*archive.namelist()}
    if "mimetype" in names:
        kind = archive.read("mimetype").strip().rpartition(b".")[2]
        if reader := OPEN_KINDS.get(kind):
            return reader
    return next((reader for part, reader in PARTS if part in names), read_zip)


def _is_json(head: bytes, data: bytes) -> bool:
    return head[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]") and b'"' in head
