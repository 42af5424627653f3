"""a .zip file -> a page that lists its files, with the files; the content of any file -> its suffix."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import PurePosixPath
from zipfile import ZipFile, ZipInfo

from kumihimo.core.errors import SourceError
from kumihimo.readers import text
from kumihimo.readers.archive import OLE_MAGIC, open_archive, read_part
from kumihimo.readers.page import Page, unique_file_name

UTF8_NAME = 0x800  # a flag of a part
NOT_LISTED = re.compile(r"(?:^|/)(?:\.|__MACOSX/)")
HEAD_BYTES = 4096
# The suffixes of files by what they begin with, after spaces, and by their parts.
BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (rb"%PDF-", ".pdf"),
    (rb"\{\\rtf", ".rtf"),
    (rb"WEBVTT", ".vtt"),
    (rb"(?i)<!doctype html|<html", ".html"),
    (rb"<\?xml", ".xml"),
    (rb"From [^\n]+\n(?:[\w-]+:|>From )", ".mbox"),
    (rb"(?:From|Received|Return-Path|Delivered-To|Message-ID|Date): [^\n]+\n[\w-]+:", ".eml"),
)
PARTS = {"word/document.xml": ".docx", "ppt/presentation.xml": ".pptx", "xl/workbook.xml": ".xlsx"}
PARTS |= {"META-INF/container.xml": ".epub"}
OLE_PARTS = {"Workbook": ".xls", "WordDocument": ".doc", "PowerPoint Document": ".ppt"}
OLE_PARTS |= {"__properties_version1.0": ".msg"}
OPEN_KINDS = {b"text": ".odt", b"presentation": ".odp", b"spreadsheet": ".ods"}


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


def read_unnamed(data: bytes, name: str) -> Iterator[Page]:
    """Read a text whose name does not say its type.

    Any other file has no page.
    """
    with suppress(SourceError):
        yield Page(title=PurePosixPath(name).name, text=text.decode(data, name))


def find_suffix(data: bytes, name: str) -> str:
    """Return the suffix of files of such a content, or empty.

    Raise SourceError for a damaged archive.
    """
    if data.startswith(b"PK\x03\x04"):
        return _packed_suffix(open_archive(data, name), name)
    if data.startswith(OLE_MAGIC):
        return next((suffix for part, suffix in OLE_PARTS.items() if part.encode("utf-16-le") in data), "")
    head = data[:HEAD_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").replace(b"\r\n", b"\n")
    found = next((suffix for beginning, suffix in BEGINNINGS if re.match(beginning, head)), "")
    return ".json" if not found and _is_json(head, data) else found


def _packed_suffix(archive: ZipFile, name: str) -> str:
    names = {*archive.namelist()}
    kind = read_part(archive, "mimetype", name).strip().rpartition(b".")[2] if "mimetype" in names else b""
    return OPEN_KINDS.get(kind) or next((suffix for part, suffix in PARTS.items() if part in names), ".zip")


def _is_json(head: bytes, data: bytes) -> bool:
    return head[:1] in (b"{", b"[") and data.rstrip()[-1:] in (b"}", b"]") and b'"' in head
