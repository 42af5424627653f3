"""a file -> its documents, read by the reader for its suffix, within limits."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import cast

from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SourceError, describe_fault, describe_unknown
from kumihimo.core.records import NOT_READ, Document
from kumihimo.core.wiring import FileType, Reader
from kumihimo.readers import PICTURES, packed
from kumihimo.readers.fields import complete_fields
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.page import Page, add_unread, format_utc
from kumihimo.readers.text import describe_guess
from kumihimo.text.sentences import shorten_title

MAX_TITLE_CHARS = 200  # a title goes with every chunk, so a long one would cost tokens a thousand times
INHERITED = ("from", "date")  # what an attachment has from its letter, unless it says so itself
TEXT_TYPES = ("text/", "message/", "application/x-subrip", "application/xhtml", "application/xml")
MAX_ATTACHMENT_DEPTH = 5  # letters inside letters
_UNSUPPORTED = ": unsupported file type"
MAX_DOCUMENT_CHARS = 2_000_000  # a longer text becomes several documents: one makes at most 99,999 chunks


def has_reader(path: Path | PurePosixPath, readers: Mapping[str, FileType]) -> bool:
    """Return whether a reader exists for the suffix of `path`."""
    return path.suffix.lower() in readers


def no_reader_error(path: Path | PurePosixPath, name: str, readers: Mapping[str, FileType]) -> SourceError:
    """Return the error for a file of an unsupported type."""
    if path.suffix.lower() in PICTURES:  # without the extra `ocr`
        return SourceError(f"{name}: to read the text of pictures, run `pip install 'kumihimo[ocr]'`")
    return SourceError(f"{name}: {describe_unknown('reader for', path.suffix or path.name, filter(None, readers))}")


def read_documents(
    path: Path, uri: str, readers: Mapping[str, FileType], limits: ReadingLimits | None = None
) -> list[Document]:
    """Read all documents of one file in this process.

    Raise SourceError with the reason if the file cannot be read; then nothing is returned.
    """
    limits = limits or ReadingLimits()
    try:
        return list(iterate_documents(path, uri, readers, limits))
    except MemoryError as error:
        raise limits.error(uri, "memory") from error


def iterate_documents(
    path: Path, uri: str, readers: Mapping[str, FileType], limits: ReadingLimits
) -> Iterator[Document]:
    """Yield all documents of one file, except empty ones.

    A long text becomes several documents, except in an import. Raise SourceError with the reason if the file cannot be
    read, LimitExceeded if it is over a limit; then the documents before it do not count.
    """
    if not has_reader(path, readers):
        raise no_reader_error(path, uri, readers)
    data, modified = load_file(path, uri, limits)
    characters = 0
    documents = _build_documents(_Origin(uri, modified), data, path.suffix, readers)
    for number, document in enumerate(documents, 1):
        characters += len(document.text) + len(document.uri) + len(document.file) + len(document.imported)
        characters += _metadata_size(document)
        if characters > limits.text * 1_000_000:
            raise limits.error(uri, "text")
        if number > limits.rows:
            raise limits.error(uri, "rows")
        yield from [document] if document.imported else _cut_document(document)


def _metadata_size(document: Document) -> int:
    """Return the characters of the metadata.

    Raise SourceError if JSON cannot hold it.
    """
    try:
        return len(json.dumps(document.metadata, ensure_ascii=False, sort_keys=True))
    except (TypeError, ValueError, RecursionError) as error:
        raise unreadable_error(document.uri, f"its metadata is not JSON: {error}") from error


def _cut_document(document: Document) -> Iterator[Document]:
    """Yield the document, or its parts if it is long.

    A part ends between paragraphs, lines or words, if there are any. The first part keeps the uri.
    """
    start, number = 0, 1
    while len(document.text) - start > MAX_DOCUMENT_CHARS:
        end = _cut_position(document.text, start, start + MAX_DOCUMENT_CHARS)
        yield _document_part(document, start, end, number)
        start, number = end, number + 1
    yield _document_part(document, start, len(document.text), number) if start else document


def _cut_position(text: str, start: int, limit: int) -> int:
    """Return a good position to cut a text, at most `limit`."""
    for gap in ("\n\n", "\n", "。", " "):
        position = text.rfind(gap, start + MAX_DOCUMENT_CHARS // 2, limit)
        if position > 0:
            return position + len(gap)
    return limit


def _document_part(document: Document, start: int, end: int, number: int) -> Document:
    earlier = [label for offset, label in document.places if offset <= start][-1:]
    places = [(offset - start, label) for offset, label in document.places if start < offset < end]
    suffix = "" if number == 1 else f"{'/' if '#' in document.uri else '#'}part-{number}"
    return replace(
        document,
        id=hash_parts(document.uri + suffix),
        uri=document.uri + suffix,
        places=((0, earlier[0]), *places) if earlier else tuple(places),
        body=min(max(document.body - start, 0), end - start),
        text=document.text[start:end],
    )


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


def _build_documents(origin: _Origin, data: bytes, suffix: str, readers: Mapping[str, FileType]) -> Iterator[Document]:
    """Yield the documents of a file, and of its attachments."""
    file_type = readers.get(suffix.lower() or packed.find_suffix(data, str(origin))) or readers[""]
    is_text = file_type.is_simple or file_type.media_type.startswith(TEXT_TYPES)
    notes = describe_guess(data) if is_text else []
    for page in _read_pages(file_type.read, data, str(origin)):
        attached, unread_parts = list[Document](), list(notes)
        letter = {key: value for key, value in page.metadata.items() if key in INHERITED}
        sent = {"date": page.metadata["date"], "date_source": "letter"} if "date" in letter else {}
        for name, content in page.attached:
            inner_origin = replace(origin, inner_path=(*origin.inner_path, name.replace("#", "%23")))
            try:
                if len(inner_origin.inner_path) > MAX_ATTACHMENT_DEPTH:
                    depth = MAX_ATTACHMENT_DEPTH
                    raise SourceError(f"{inner_origin}: more than {depth} levels deep; save it as a file of its own")
                if not has_reader(PurePosixPath(name), readers):
                    raise SourceError(f"{inner_origin}{_UNSUPPORTED}")
                for document in _build_documents(inner_origin, content, PurePosixPath(name).suffix, readers):
                    fields = document.fields if "date" in document.fields else {**document.fields, **sent}
                    attached.append(replace(document, metadata={**letter, **document.metadata}, fields=fields))
            except SourceError as error:  # the letter itself stays readable
                unread_parts.append(str(error))
        if page.text.strip():
            own = cast(list[str], page.metadata.get(NOT_READ, []))
            metadata = add_unread(page.metadata, [*own, *unread_parts] if unread_parts else [])
            yield _to_document(replace(page, metadata=metadata), origin, file_type.media_type)
            notes = []
        yield from attached


def _read_pages(reader: Reader, data: bytes, name: str) -> Iterator[Page]:
    """Run the reader; turn any failure into a SourceError."""
    try:
        yield from reader(data, name)
    except (SourceError, MemoryError, KeyboardInterrupt, GeneratorExit):
        raise
    except ModuleNotFoundError as error:
        raise SourceError(f"{name}: reading it needs {error.name}: `pip install 'kumihimo[docs]'`") from error
    except ImportError as error:  # it is there, and broken
        remedy = "`pip install --force-reinstall 'kumihimo[docs]'`"
        raise SourceError(f"{name}: the library for it cannot be loaded ({error}): {remedy}") from error
    except BaseException as error:  # parsers may raise anything for a broken file; of Rust, also this
        raise unreadable_error(name, describe_fault(error)) from error


def unreadable_error(name: str, reason: str) -> SourceError:
    """Return the error for a file that its reader could not read."""
    return SourceError(f"{name}: cannot be read ({reason[:200]}); save it again, or in another format")


def load_file(path: Path, uri: str, limits: ReadingLimits) -> tuple[bytes, str]:
    """Return the content of a file, and its time.

    It is opened once, without waiting: another program may put a pipe in its place.
    """
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            status = os.fstat(file.fileno())
            if status.st_size > limits.size << 20:
                raise limits.error(uri, "size")
            is_file, data = S_ISREG(status.st_mode), file.read(status.st_size)
    except IsADirectoryError:
        is_file = False
    except OSError as error:
        raise SourceError(f"{uri}: {error.strerror}; check that it exists and that you may read it") from error
    if not is_file:
        raise SourceError(f"{uri}: not an ordinary file; name the files to read")
    try:
        return data, format_utc(datetime.fromtimestamp(int(status.st_mtime), UTC))
    except (ValueError, OverflowError, OSError):  # a year after 9999
        return data, ""


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def describe_unread(document: Document) -> str:
    """Describe the unread parts of a document; empty if there are none."""
    return "; ".join(list_unread(document.metadata.get(NOT_READ, [])))


def list_unread(reasons: object, hidden: tuple[str, ...] = ()) -> list[str]:
    """Return why parts of a document were not read.

    Several attachments of one unsupported type are one line. hidden: beginnings of the reasons to leave out.
    """
    shown = [each for each in map(str, reasons if isinstance(reasons, list) else ()) if not each.startswith(hidden)]
    suffixes = [PurePosixPath(each.removesuffix(_UNSUPPORTED)).suffix for each in shown if each.endswith(_UNSUPPORTED)]
    many = {
        f"{suffix}{_UNSUPPORTED}": f"{n} × {suffix}{_UNSUPPORTED}" for suffix, n in Counter(suffixes).items() if n > 1
    }
    return list(dict.fromkeys(next((many[end] for end in many if each.endswith(end)), each) for each in shown))


def _to_document(page: Page, origin: _Origin, media_type: str) -> Document:
    inner = "/".join(filter(None, [*origin.inner_path, page.fragment]))
    document_uri = f"{origin.uri}#{inner}" if inner else origin.uri
    title = shorten_title(page.title, MAX_TITLE_CHARS)
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
        imported=page.imported,
        text=page.text,
        fields=complete_fields(page, "/".join([origin.uri, *origin.inner_path]), media_type),
    )
