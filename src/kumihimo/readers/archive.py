"""a zip file -> its parts, after checks against damage and zip bombs."""

from __future__ import annotations

import io
from zipfile import BadZipFile, ZipFile, ZipInfo

from kumihimo.core.errors import SourceError

OLE_MAGIC = b"\xd0\xcf\x11\xe0"  # start of Office 97 files and of password-protected ones
MAX_TOTAL_BYTES = 1 << 29  # all parts unpacked: 512 MB
MAX_TEXT_BYTES = 200 << 20  # the parsed tree of a text takes ten times as much memory
MAX_RATIO = 100  # unpacked to packed size: about 20 for text, 1,000 and more for a zip bomb
RATIO_EXEMPT_BYTES = 4 << 20  # smaller parts may have any ratio
TEXT_SUFFIXES = (".xml", ".rels", ".html", ".xhtml", ".htm", ".opf", ".ncx")


def open_archive(data: bytes, name: str) -> ZipFile:
    """Open a zip file after checking it.

    Raise SourceError if it is not a zip file, is damaged, or is a zip bomb.
    """
    if data.startswith(OLE_MAGIC):
        raise SourceError(
            f"{name}: locked with a password, or in an old format; save it in the new one without a password"
        )
    try:
        archive = ZipFile(io.BytesIO(data))
    except (BadZipFile, ValueError, OSError, NotImplementedError) as error:
        raise SourceError(f"{name}: damaged, or not what its name says ({error}); save it again") from error
    parts = archive.infolist()
    text = sum(part.file_size for part in parts if part.filename.lower().endswith(TEXT_SUFFIXES))
    if text > MAX_TEXT_BYTES:
        raise SourceError(
            f"{name}: more than {MAX_TEXT_BYTES >> 20} MB of text; cut it into several, or save a table as CSV"
        )
    if sum(part.file_size for part in parts) > MAX_TOTAL_BYTES or any(map(_is_too_dense, parts)):
        raise SourceError(f"{name}: unpacks to far more than its size, like a zip bomb; it is not read")
    if damaged_part := archive.testzip():  # the next reader would trust a false size
        raise SourceError(f"{name}: its part {damaged_part} is damaged; save it again")
    return archive


def _is_too_dense(part: ZipInfo) -> bool:
    return part.file_size > RATIO_EXEMPT_BYTES and part.file_size > MAX_RATIO * max(part.compress_size, 1)


def read_part(archive: ZipFile, path: str, name: str) -> bytes:
    """Read one part in full.

    Raise SourceError if it is missing or damaged.
    """
    try:
        return archive.read(path)
    except (KeyError, BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise SourceError(f"{name}: its part {path} cannot be read ({error}); save it again") from error
