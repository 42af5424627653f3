"""a file -> its documents, read by the reader for its suffix."""

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

Reader = Callable[[bytes, str], Iterator[Page]]  # (content of the file, its name in errors)

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

MAX_TITLE_CHARS = 200  # a title goes with every chunk, so a long one would cost tokens a thousand times
MAX_FILE_BYTES = 1 << 29  # a file is in memory while it is read
MAX_ATTACHMENT_DEPTH = 5  # letters inside letters


def has_reader(path: Path | PurePosixPath) -> bool:
    """Return whether a reader exists for the suffix of `path`."""
    return path.suffix.lower() in READERS


def read_documents(path: Path, uri: str) -> list[Document]:
    """Read all documents of one file; leave out empty ones.

    Raise SourceError with the reason if the file cannot be read; then nothing is returned.
    """
    if not has_reader(path):
        raise SourceError(f"{uri}: {describe_unknown('reader for', path.suffix or path.name, READERS)}")
    data, modified = _load_file(path, uri)
    return list(_build_documents(_Origin(uri, modified), data, path.suffix))


@dataclass(frozen=True, slots=True)
class _Origin:
    """The source of a document: a file, or an attachment inside one.

    inner_path: the names that lead to the attachment.
    """

    uri: str
    modified: str
    inner_path: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.uri}#{'/'.join(self.inner_path)}" if self.inner_path else self.uri


def _build_documents(origin: _Origin, data: bytes, suffix: str) -> Iterator[Document]:
    """Yield the documents of a file, and of its attachments."""
    media_type, reader = READERS[suffix.lower()]
    for page in _read_pages(reader, data, str(origin)):
        attached, unread_parts = list[Document](), list[str]()
        for name, content in page.attached:
            inner_origin = replace(origin, inner_path=(*origin.inner_path, name.replace("#", "%23")))
            if not has_reader(PurePosixPath(name)) or len(inner_origin.inner_path) > MAX_ATTACHMENT_DEPTH:
                unread_parts.append(f"{inner_origin}: unsupported file type")
            else:
                try:
                    attached += list(_build_documents(inner_origin, content, PurePosixPath(name).suffix))
                except SourceError as error:  # the letter itself stays readable
                    unread_parts.append(str(error))
        metadata = {**page.metadata, NOT_READ: unread_parts} if unread_parts else page.metadata
        if page.text.strip():
            yield _to_document(replace(page, metadata=metadata), origin, media_type)
        yield from attached


def _read_pages(reader: Reader, data: bytes, name: str) -> list[Page]:
    """Run the reader; turn any failure into a SourceError."""
    try:
        return list(reader(data, name))
    except SourceError:
        raise
    except ModuleNotFoundError as error:
        raise SourceError(f"{name}: reading it needs {error.name}: `pip install 'kumihimo[docs]'`") from error
    except Exception as error:  # third-party parsers may raise anything for a broken file
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise SourceError(f"{name}: cannot be read ({reason[:200]}); save it again, or in another format") from error


def _load_file(path: Path, uri: str) -> tuple[bytes, str]:
    try:
        if path.exists() and not path.is_file():  # reading a pipe would never end
            raise SourceError(f"{uri}: not an ordinary file; name the files to read")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise SourceError(f"{uri}: larger than {MAX_FILE_BYTES >> 20} MB; cut it into several files")
        return path.read_bytes(), format_utc(datetime.fromtimestamp(int(path.stat().st_mtime), UTC))
    except OSError as error:
        raise SourceError(f"{uri}: {error.strerror}; check that it exists and that you may read it") from error


def describe_unread(document: Document) -> str:
    """Describe the unread parts of a document; empty if there are none."""
    reasons = document.metadata.get(NOT_READ, [])
    return "; ".join(map(str, reasons)) if isinstance(reasons, list) else ""


def _to_document(page: Page, origin: _Origin, media_type: str) -> Document:
    inner = "/".join(filter(None, [*origin.inner_path, page.fragment]))
    document_uri = f"{origin.uri}#{inner}" if inner else origin.uri
    title = " ".join(page.title.split())[:MAX_TITLE_CHARS]
    return Document(
        id=hash_parts(document_uri),
        uri=document_uri,
        file=origin.uri,
        title=title or PurePosixPath(origin.inner_path[-1] if origin.inner_path else origin.uri).stem,
        media_type=media_type,
        metadata=page.metadata,
        modified=page.modified if page.fragment else origin.modified,
        places=page.places,
        body=page.body,
        text=page.text,
    )
