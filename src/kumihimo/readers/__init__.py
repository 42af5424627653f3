"""a file -> the documents in it: a driver for each kind of file, chosen by its suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SourceError, describe_unknown
from kumihimo.core.records import NOT_READ, Document
from kumihimo.readers.docx import read_docx
from kumihimo.readers.epub import read_epub
from kumihimo.readers.folder import walk
from kumihimo.readers.html import read_html
from kumihimo.readers.json_ import read_json_pages, read_jsonl_pages
from kumihimo.readers.mail import read_mail
from kumihimo.readers.page import Page, format_utc
from kumihimo.readers.pdf import read_pdf
from kumihimo.readers.pptx import read_pptx
from kumihimo.readers.sheets import read_workbook
from kumihimo.readers.tables import read_delimited
from kumihimo.readers.text import read_markdown, read_plain_text

__all__ = ["READERS", "Page", "Reader", "describe_unread", "has_reader", "read_documents", "walk"]

Reader = Callable[[bytes, str], Iterator[Page]]  # (what the file holds, what to call it in an error)

OFFICE = "application/vnd.openxmlformats-officedocument"
READERS: dict[str, tuple[str, Reader]] = {
    ".txt": ("text/plain", read_plain_text),
    ".text": ("text/plain", read_plain_text),
    ".log": ("text/plain", read_plain_text),
    ".rst": ("text/x-rst", read_plain_text),
    ".org": ("text/x-org", read_plain_text),
    ".tex": ("text/x-tex", read_plain_text),
    ".md": ("text/markdown", read_markdown),
    ".markdown": ("text/markdown", read_markdown),
    ".html": ("text/html", read_html),
    ".htm": ("text/html", read_html),
    ".xhtml": ("application/xhtml+xml", read_html),
    ".pdf": ("application/pdf", read_pdf),
    ".docx": (f"{OFFICE}.wordprocessingml.document", read_docx),
    ".pptx": (f"{OFFICE}.presentationml.presentation", read_pptx),
    ".xlsx": (f"{OFFICE}.spreadsheetml.sheet", read_workbook),
    ".xlsm": ("application/vnd.ms-excel.sheet.macroEnabled.12", read_workbook),
    ".xls": ("application/vnd.ms-excel", read_workbook),
    ".epub": ("application/epub+zip", read_epub),
    ".eml": ("message/rfc822", read_mail),
    ".csv": ("text/csv", read_delimited),
    ".tsv": ("text/tab-separated-values", read_delimited),
    ".json": ("application/json", read_json_pages),
    ".jsonl": ("application/jsonl", read_jsonl_pages),
    ".ndjson": ("application/jsonl", read_jsonl_pages),
}

MAX_TITLE_CHARS = (
    200  # characters: a title goes with every chunk, so one of a million would be paid for a thousand times
)
MAX_FILE_BYTES = 1 << 29  # bytes of a file: it is held in memory while it is read
MAX_ATTACHMENT_DEPTH = 5  # letters in letters that are opened


def has_reader(path: Path | PurePosixPath) -> bool:
    """Whether there is a reader for it."""
    return path.suffix.lower() in READERS


def read_documents(path: Path, uri: str) -> list[Document]:
    """The documents of one file, all or none: a `SourceError` says what is wrong with it. Empty ones are left out."""
    if not has_reader(path):
        raise SourceError(f"{uri}: {describe_unknown('reader for', path.suffix or path.name, READERS)}")
    data, modified = _load_file(path, uri)
    return list(_build_documents(_Origin(uri, modified), data, path.suffix))


@dataclass(frozen=True, slots=True)
class _Origin:
    """A file, or what is attached within it: at holds the names that lead there."""

    uri: str
    modified: str
    inner_path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.uri}#{'/'.join(self.inner_path)}" if self.inner_path else self.uri


def _build_documents(held: _Origin, data: bytes, suffix: str) -> Iterator[Document]:
    media_type, reader = READERS[suffix.lower()]
    for page in _read_pages(reader, data, str(held)):
        attached, closed = list[Document](), list[str]()
        for name, content in page.attached:
            inner = replace(held, inner_path=(*held.inner_path, name.replace("#", "%23")))
            if not has_reader(PurePosixPath(name)) or len(inner.inner_path) > MAX_ATTACHMENT_DEPTH:
                closed.append(f"{inner}: of a kind that is not read")
            else:
                try:
                    attached += list(_build_documents(inner, content, PurePosixPath(name).suffix))
                except SourceError as error:  # the letter itself can be read
                    closed.append(str(error))
        metadata = {**page.metadata, NOT_READ: closed} if closed else page.metadata
        if page.text.strip():
            yield _to_document(replace(page, metadata=metadata), held, media_type)
        yield from attached


def _read_pages(reader: Reader, data: bytes, name: str) -> list[Page]:
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


def _load_file(path: Path, uri: str) -> tuple[bytes, str]:
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise SourceError(f"{uri}: this is no ordinary file; name the files to read")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SourceError(f"{uri}: larger than {MAX_FILE_BYTES >> 20} MB; cut it into several files")
        return path.read_bytes(), format_utc(datetime.fromtimestamp(int(path.stat().st_mtime), UTC))
    except OSError as error:
        raise SourceError(f"{uri}: {error.strerror}; check that it is there and that you may read it") from error


def describe_unread(document: Document) -> str:
    """What of it could not be read; empty: nothing."""
    said = document.metadata.get(NOT_READ, [])
    return "; ".join(map(str, said)) if isinstance(said, list) else ""


def _to_document(page: Page, held: _Origin, media_type: str) -> Document:
    within = "/".join(filter(None, [*held.inner_path, page.fragment]))
    own = f"{held.uri}#{within}" if within else held.uri
    title = " ".join(page.title.split())[:MAX_TITLE_CHARS]
    return Document(
        id=hash_parts(own),
        uri=own,
        file=held.uri,
        title=title or PurePosixPath(held.inner_path[-1] if held.inner_path else held.uri).stem,
        media_type=media_type,
        metadata=page.metadata,
        modified=page.modified if page.fragment else held.modified,
        places=page.places,
        body=page.body,
        text=page.text,
    )
