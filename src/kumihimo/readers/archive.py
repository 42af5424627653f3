"""a zip file -> its parts, unless they would unfold to more than a document ever is."""

from __future__ import annotations

import io
from zipfile import BadZipFile, ZipFile, ZipInfo

from kumihimo.core.errors import SourceError

OLE_MAGIC = b"\xd0\xcf\x11\xe0"  # how files of Office 97 begin, and what it locks
MAX_TOTAL_BYTES = 1 << 29  # bytes of all parts, unfolded: 512 MB
MAX_TEXT_BYTES = 200 << 20  # bytes of all text among them: a tree of it takes ten times as much
MAX_RATIO = 100  # times as large unfolded as folded: text gets to about 20, a bomb begins at 1,000
RATIO_EXEMPT_BYTES = 4 << 20  # bytes below which a part may be as dense as it likes
TEXT_SUFFIXES = (".xml", ".rels", ".html", ".xhtml", ".htm", ".opf", ".ncx")


def open_archive(data: bytes, name: str) -> ZipFile:
    """The archive. Raises SourceError where it is none, is damaged, or is a bomb."""
    if data.startswith(OLE_MAGIC):
        raise SourceError(f"{name}: locked with a password, or of the old format; save it in the new one, without it")
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
        raise SourceError(f"{name}: unfolds to far more than it holds, as no honest document does; it is left alone")
    if broken := archive.testzip():  # a size that is not true would be believed by what reads it next
        raise SourceError(f"{name}: its part {broken} is damaged; save it again")
    return archive


def _is_too_dense(part: ZipInfo) -> bool:
    return part.file_size > RATIO_EXEMPT_BYTES and part.file_size > MAX_RATIO * max(part.compress_size, 1)


def read_part(archive: ZipFile, path: str, name: str) -> bytes:
    """One part, whole. Raises SourceError where it is missing or damaged."""
    try:
        return archive.read(path)
    except (KeyError, BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as error:
        raise SourceError(f"{name}: its part {path} cannot be read ({error}); save it again") from error
