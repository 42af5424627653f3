"""a file -> the documents in it: a driver for each kind of file, chosen by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from kumihimo.core.digests import digest
from kumihimo.core.errors import SourceError, unknown
from kumihimo.core.records import NOT_READ, Document
from kumihimo.readers.docx import docx
from kumihimo.readers.epub import epub
from kumihimo.readers.folder import walk
from kumihimo.readers.html import html
from kumihimo.readers.json_ import json, lines
from kumihimo.readers.mail import mail
from kumihimo.readers.page import Page, iso
from kumihimo.readers.pdf import pdf
from kumihimo.readers.pptx import pptx
from kumihimo.readers.sheets import sheets
from kumihimo.readers.tables import table
from kumihimo.readers.text import markdown, plain

__all__ = ["READERS", "Page", "Reader", "read", "supported", "unread", "walk"]

Reader = Callable[[bytes, str], Iterator[Page]]  # (what the file holds, what to call it in an error)

OFFICE = "application/vnd.openxmlformats-officedocument"
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
    ".pdf": ("application/pdf", pdf),
    ".docx": (f"{OFFICE}.wordprocessingml.document", docx),
    ".pptx": (f"{OFFICE}.presentationml.presentation", pptx),
    ".xlsx": (f"{OFFICE}.spreadsheetml.sheet", sheets),
    ".xlsm": ("application/vnd.ms-excel.sheet.macroEnabled.12", sheets),
    ".xls": ("application/vnd.ms-excel", sheets),
    ".epub": ("application/epub+zip", epub),
    ".eml": ("message/rfc822", mail),
    ".csv": ("text/csv", table),
    ".tsv": ("text/tab-separated-values", table),
    ".json": ("application/json", json),
    ".jsonl": ("application/jsonl", lines),
    ".ndjson": ("application/jsonl", lines),
}

TITLE = 200  # characters: a title goes with every chunk, so one of a million would be paid for a thousand times
LARGEST = 1 << 29  # bytes of a file: it is held in memory while it is read
DEEPEST = 5  # letters in letters that are opened


def supported(path: Path | PurePosixPath) -> bool:
    """Whether there is a reader for it."""
    return path.suffix.lower() in READERS


def read(path: Path, uri: str) -> list[Document]:
    """The documents of one file, all or none: a `SourceError` says what is wrong with it. Empty ones are left out."""
    if not supported(path):
        raise SourceError(f"{uri}: {unknown('reader for', path.suffix or path.name, READERS)}")
    data, modified = _load(path, uri)
    return list(_documents(_Held(uri, modified), data, path.suffix))


@dataclass(frozen=True, slots=True)
class _Held:
    """A file, or what is attached within it: at holds the names that lead there."""

    uri: str
    modified: str
    at: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.uri}#{'/'.join(self.at)}" if self.at else self.uri


def _documents(held: _Held, data: bytes, suffix: str) -> Iterator[Document]:
    media_type, reader = READERS[suffix.lower()]
    for page in _pages(reader, data, str(held)):
        attached, closed = list[Document](), list[str]()
        for name, content in page.attached:
            inner = replace(held, at=(*held.at, name.replace("#", "%23")))
            if not supported(PurePosixPath(name)) or len(inner.at) > DEEPEST:
                closed.append(f"{inner}: of a kind that is not read")
            else:
                try:
                    attached += list(_documents(inner, content, PurePosixPath(name).suffix))
                except SourceError as error:  # the letter itself can be read
                    closed.append(str(error))
        metadata = {**page.metadata, NOT_READ: closed} if closed else page.metadata
        if page.text.strip():
            yield _document(replace(page, metadata=metadata), held, media_type)
        yield from attached


def _pages(reader: Reader, data: bytes, name: str) -> list[Page]:
    """What the reader gives, or a SourceError that says what was wrong."""
    try:
        return list(reader(data, name))
    except SourceError:
        raise
    except ModuleNotFoundError as error:
        raise SourceError(f"{name}: reading it needs {error.name}: `pip install 'kumihimo[docs]'`") from error
    except Exception as error:  # the outer door of every library that reads files: a broken file may raise anything
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise SourceError(f"{name}: cannot be read ({why[:200]}); save it again, or in another format") from error


def _load(path: Path, uri: str) -> tuple[bytes, str]:
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise SourceError(f"{uri}: this is no ordinary file; name the files to read")
        if path.stat().st_size > LARGEST:
            raise SourceError(f"{uri}: larger than {LARGEST >> 20} MB; cut it into several files")
        return path.read_bytes(), iso(datetime.fromtimestamp(int(path.stat().st_mtime), UTC))
    except OSError as error:
        raise SourceError(f"{uri}: {error.strerror}; check that it is there and that you may read it") from error


def unread(document: Document) -> str:
    """What of it could not be read; empty: nothing."""
    said = document.metadata.get(NOT_READ, [])
    return "; ".join(map(str, said)) if isinstance(said, list) else ""


def _document(page: Page, held: _Held, media_type: str) -> Document:
    within = "/".join(filter(None, [*held.at, page.fragment]))
    own = f"{held.uri}#{within}" if within else held.uri
    title = " ".join(page.title.split())[:TITLE]
    return Document(
        id=digest(own),
        uri=own,
        file=held.uri,
        title=title or PurePosixPath(held.at[-1] if held.at else held.uri).stem,
        media_type=media_type,
        metadata=page.metadata,
        modified=page.modified if page.fragment else held.modified,
        places=page.places,
        body=page.body,
        text=page.text,
    )
