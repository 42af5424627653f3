"""an OLE file (.msg, .doc, .ppt) -> its streams by path, each of a limited size."""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kumihimo.core.errors import SourceError
from kumihimo.readers import archive, titles
from kumihimo.readers.page import Row
from kumihimo.readers.text import decode

CODE_PAGES = {65001: "utf-8", 20127: "ascii", 28591: "iso-8859-1", 50220: "iso2022_jp", 50221: "iso2022_jp"}
CODE_PAGES |= {51932: "euc_jp", 54936: "gb18030", 20866: "koi8-r", 10000: "mac_roman"}
PROPERTIES = {"author": "author", "subject": "subject", "keywords": "keywords"}


@dataclass(frozen=True)
class OleFile:
    """An open file. name: for errors. streams: the paths of all streams."""

    source: Any
    name: str
    streams: tuple[tuple[str, ...], ...]

    def read_stream(self, *path: str) -> bytes:
        """Return a stream, or nothing if there is none."""
        if path not in self.streams:
            return b""
        with self.source.openstream(list(path)) as stream:
            return bytes(stream.read())

    def children(self, *path: str) -> Iterator[tuple[str, ...]]:
        """Yield the storages directly in a storage, in their order."""
        length = len(path)
        yield from dict.fromkeys(
            stream[: length + 1] for stream in self.streams if len(stream) > length + 1 and stream[:length] == path
        )


def open_ole(data: bytes, name: str) -> OleFile:
    """Open the file.

    Raise SourceError if it is damaged, or of another type.
    """
    from olefile import OleFileIO
    from olefile.olefile import OleFileError

    if not data.startswith(archive.OLE_MAGIC):
        raise SourceError(f"{name}: damaged, or not what its name says (no OLE file); save it again")
    try:
        source = OleFileIO(io.BytesIO(data))
        streams = tuple(tuple(path) for path in source.listdir(streams=True, storages=False))
    except (OleFileError, OSError, ValueError, IndexError, RecursionError) as error:
        raise SourceError(f"{name}: damaged, or not what its name says ({error}); save it again") from error
    if ("EncryptedPackage",) in streams:
        raise SourceError(f"{name}: locked with a password; save it without one")
    return OleFile(source, name, streams)


def code_page_name(number: int) -> str:
    """Return the codec of a Windows code page, or empty."""
    return CODE_PAGES.get(number, f"cp{number}" if 0 < number < 2000 else "")


def read_summary(file: OleFile) -> tuple[str, Row]:
    """Return title and metadata from the file's properties."""
    try:
        summary = file.source.get_metadata()
    except (OSError, ValueError, IndexError, KeyError, TypeError, UnicodeError, OverflowError):
        return "", {}
    label = code_page_name((summary.codepage or 0) & 0xFFFF)
    metadata: dict[str, object] = {}
    for field, key in PROPERTIES.items():
        if value := _clean_property(getattr(summary, field), label):
            metadata[key] = value
    if summary.create_time and summary.create_time.year > 1601:  # its zero
        metadata["date"] = summary.create_time.date().isoformat()
    return titles.human_title(_clean_property(summary.title, label)), metadata


def _clean_property(value: object, label: str) -> str:
    if isinstance(value, bytes):
        value = decode(value.rstrip(b"\0"), declared=label) if value.strip(b"\0 ") else ""
    return " ".join(re.sub(r"[\0-\x1f]+", " ", value).split()) if isinstance(value, str) else ""
