"""a file -> the documents in it: a driver for each kind of file, chosen by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from kumihimo.core.errors import SourceError, unknown
from kumihimo.core.records import Document, digest
from kumihimo.ports.readers.folder import walk
from kumihimo.ports.readers.html import html
from kumihimo.ports.readers.json_ import json, lines
from kumihimo.ports.readers.page import Page, iso
from kumihimo.ports.readers.tables import table
from kumihimo.ports.readers.text import markdown, plain

__all__ = ["READERS", "Page", "Reader", "read", "supported", "walk"]

Reader = Callable[[bytes, str], Iterator[Page]]  # (what the file holds, what to call it in an error)

READERS: dict[str, tuple[str, Reader]] = {
    ".txt": ("text/plain", plain),
    ".text": ("text/plain", plain),
    ".log": ("text/plain", plain),
    ".rst": ("text/x-rst", plain),
    ".org": ("text/x-org", plain),
    ".tex": ("text/x-tex", plain),
    ".md": ("text/markdown", markdown),
    ".markdown": ("text/markdown", markdown),
    ".html": ("text/html", html),
    ".htm": ("text/html", html),
    ".xhtml": ("application/xhtml+xml", html),
    ".csv": ("text/csv", table),
    ".tsv": ("text/tab-separated-values", table),
    ".json": ("application/json", json),
    ".jsonl": ("application/jsonl", lines),
    ".ndjson": ("application/jsonl", lines),
}

TITLE = 200  # characters: a title goes with every chunk, so one of a million would be paid for a thousand times


def supported(path: Path) -> bool:
    """Whether there is a reader for it."""
    return path.suffix.lower() in READERS


def read(path: Path, uri: str) -> list[Document]:
    """The documents of one file, all or none: a `SourceError` says what is wrong with it. Empty ones are left out."""
    if not supported(path):
        raise SourceError(f"{uri}: {unknown('reader for', path.suffix or path.name, READERS)}")
    media_type, reader = READERS[path.suffix.lower()]
    data, modified = _load(path, uri)
    return [_document(page, uri, media_type, modified) for page in reader(data, uri) if page.text.strip()]


def _load(path: Path, uri: str) -> tuple[bytes, str]:
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise SourceError(f"{uri}: this is no ordinary file; name the files to read")
        return path.read_bytes(), iso(datetime.fromtimestamp(int(path.stat().st_mtime), UTC))
    except OSError as error:
        raise SourceError(f"{uri}: {error.strerror}; check that it is there and that you may read it") from error


def _document(page: Page, uri: str, media_type: str, modified: str) -> Document:
    own = f"{uri}#{page.fragment}" if page.fragment else uri
    title = " ".join(page.title.split())[:TITLE]
    return Document(
        id=digest(own),
        uri=own,
        file=uri,
        title=title or PurePosixPath(uri).stem,
        media_type=media_type,
        metadata=page.metadata,
        modified=page.modified if page.fragment else modified,
        places=page.places,
        body=page.body,
        text=page.text,
    )
