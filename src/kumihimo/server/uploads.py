"""a form with files, or a path -> files in a folder, streamed under limits."""

import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any, BinaryIO
from unicodedata import normalize

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool

from kumihimo.app.browse.source_files import require_reader
from kumihimo.core.errors import LimitExceeded, SettingsError, SourceError
from kumihimo.core.wiring import FileType
from kumihimo.server.problems import Forbidden, NotStored
from kumihimo.text.file_names import is_reserved

_MAX_BYTES = 200  # file systems allow 255, and a temporary name is longer
# C0 and C1, what Windows does not allow, and marks of the writing direction, which hide an ending
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f<>:"|?*\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]')


MAX_FILES = 100
_MAX_FIELDS, _MAX_FIELD = 20, 10_000  # fields of a form beside the files, and bytes of one
_BLOCK = 4096  # bytes
INCOMING = ".incoming"  # begins the folder of an upload, beside the stored files; a build reads no hidden folder


@dataclass(slots=True)
class IncomingFile:
    """A file of a form, in a temporary place until it is stored."""

    name: str
    path: Path
    bytes: int = 0


@dataclass(slots=True)
class Form:
    """The files and the other fields of a form. refused: the reason for each file that is not taken."""

    files: list[IncomingFile] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    fields: dict[str, str] = field(default_factory=dict)

    def store(self, folder: Path) -> list[str]:
        """Move the files into a folder, where they replace others."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in self.files:
            file.path.replace(folder / file.name)
        return [file.name for file in self.files]


ReadJson = Callable[[bytes], Mapping[str, bytes]]


def _write_files(incoming: Path, files: Mapping[str, bytes]) -> Form:
    incoming.mkdir(parents=True)
    for name, data in files.items():
        (incoming / name).write_bytes(data)
    return Form([IncomingFile(name, incoming / name, len(data)) for name, data in files.items()])


@asynccontextmanager
async def receive_form(
    request: Request, folder: Path, readers: Mapping[str, FileType], read_json: ReadJson | None = None
) -> AsyncIterator[Form]:
    """Stream the files of a form to the disk, below a folder.

    What is not stored in the end is deleted. readers: by suffix. read_json: returns the files in a body of JSON, by
    name; without it, such a body is refused. Raises LimitExceeded, SourceError, SettingsError and NotStored.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    is_json = read_json is not None and kind == b"application/json"
    if not is_json and (kind != b"multipart/form-data" or b"boundary" not in options):
        raise SettingsError("files come as multipart/form-data: `curl -F file=@notes.md` sends them so")
    incoming = folder / f"{INCOMING}-{token_hex(8)}"
    reader = _FormReader(incoming, readers)
    try:
        if read_json and is_json:
            body = await request.body()
            yield await run_in_threadpool(lambda: _write_files(incoming, read_json(body)))
            return
        parser = reader.parser(options[b"boundary"])
        incoming.mkdir(parents=True)
        try:
            async for part in request.stream():
                await run_in_threadpool(parser.write, part)
        finally:
            reader.close()
        if not reader.is_complete:
            raise SettingsError("the form has broken off: send it again")
        if not (reader.form.files or reader.form.refused):
            raise SettingsError("the form has no file: `curl -F file=@notes.md` sends one")
        yield reader.form
    except FormParserError as error:
        raise SettingsError(f"the form cannot be read ({error}): send it as multipart/form-data") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise NotStored(f"the files cannot be stored ({reason}): tell the administrator of this server") from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)  # here, since a cancelled request awaits nothing any more


def require_space(uploads: Path, limit: int) -> None:
    """Raise NotStored if the uploads take more bytes than the limit.

    Files that are still arriving count too, and an empty one as a block of the disk.
    """
    taken = 0
    for folder, _, names in os.walk(uploads):
        for name in names:
            with suppress(FileNotFoundError):  # moved or deleted meanwhile
                taken += max(Path(folder, name).lstat().st_size, _BLOCK)
    if taken > limit:
        raise NotStored(
            f"all uploads together may take {limit / 10**9:,g} GB: delete some, or start `kumi serve` with a larger "
            "--upload-space"
        )


def remove_incoming(uploads: Path) -> None:
    """Remove the unfinished uploads of a server that was killed."""
    for folder in uploads.glob(f"**/{INCOMING}-*"):
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(slots=True)
class _FormReader:
    """The callbacks of the parser of a form."""

    folder: Path
    readers: Mapping[str, FileType]
    form: Form = field(default_factory=Form)
    is_complete: bool = False
    _parts: int = 0
    _headers: dict[bytes, bytes] = field(default_factory=dict)
    _header: tuple[bytes, bytes] = (b"", b"")
    _field: str = ""
    _value: bytes = b""
    _file: BinaryIO | None = None
    _is_file: bool = False  # also one that is not taken

    def parser(self, boundary: bytes) -> MultipartParser:
        """Return a parser that calls this reader."""
        callbacks: Any = {name: getattr(self, name) for name in dir(self) if name.startswith("on_")}
        return MultipartParser(boundary, callbacks)

    def close(self) -> None:
        """Close a file that has not ended."""
        if self._file:
            self._file.close()
            self._file = None

    def on_part_begin(self) -> None:
        """Begin a part, whatever it is. Raise LimitExceeded for one too many."""
        self._headers.clear()
        self._parts += 1
        if self._parts > MAX_FILES + 2 * _MAX_FIELDS:
            raise LimitExceeded(f"the form has more than {MAX_FILES} files: send them in several requests")

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0] + data[start:end], self._header[1])

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header = (self._header[0], self._header[1] + data[start:end])

    def on_header_end(self) -> None:
        name, value = self._header
        self._headers[name.lower()] = value
        self._header = (b"", b"")

    def on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b"").decode("latin-1"))
        self._field, self._value = options.get(b"name", b"").decode(errors="replace"), b""
        self._is_file = False
        if b"filename" not in options:
            if len(self.form.fields) >= _MAX_FIELDS:
                raise LimitExceeded(f"the form has more than {_MAX_FIELDS} fields: send the files alone")
            return
        if not options[b"filename"]:  # a browser sends this for a field without a chosen file
            return
        if len(self.form.files) + len(self.form.refused) >= MAX_FILES:
            raise LimitExceeded(f"the form has more than {MAX_FILES} files: send them in several requests")
        self._is_file = True
        try:
            name = safe_name(options[b"filename"].decode(errors="replace"), self.readers)
            if any(name == file.name for file in self.form.files):
                raise SourceError(f"two files are called {name}: rename one")
        except SourceError as error:  # the others are taken
            self.form.refused.append(str(error))
            return
        file = IncomingFile(name, self.folder / f"{len(self.form.files)}{Path(name).suffix}")
        self.form.files.append(file)
        self._file = file.path.open("xb")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._file:
            self.form.files[-1].bytes += self._file.write(data[start:end])
        elif not self._is_file:
            self._value += data[start:end]
            if len(self._value) > _MAX_FIELD:
                raise LimitExceeded(f"a field of the form has more than {_MAX_FIELD:,} bytes: send files as files")

    def on_part_end(self) -> None:
        if self._file:
            self.close()
        elif self._field and not self._is_file:
            self.form.fields[self._field] = self._value.decode(errors="replace")

    def on_end(self) -> None:
        self.is_complete = True


def safe_name(name: str, readers: Mapping[str, FileType]) -> str:
    r"""Return the name under which an uploaded file is stored.

    Folders are left out, whichever way they are written. readers: by suffix; that for none reads by the content. Raises
    SourceError.

    >>> readers = dict.fromkeys(("", ".txt"))
    >>> [safe_name(name, readers) for name in ("../../etc/x.txt", "C:\\notes\\nul.txt", "..a\0b?.txt", "名前")]
    ['x.txt', '_nul.txt', 'a_b_.txt', '名前']
    """
    last = re.split(r"[/\\]", name)[-1]
    cleaned = re.sub(r"^[\s.]+|[\s.]+$", "", _UNSAFE.sub("_", normalize("NFC", last)))
    path = PurePosixPath(cleaned)
    is_plain = bool(cleaned) and not last.startswith(".")  # else its suffix has to say what it is
    known = {suffix: reader for suffix, reader in readers.items() if suffix or is_plain}
    require_reader(path, cleaned[:100] or "a file without a name", known)
    stem = path.stem.encode()[: _MAX_BYTES - len(path.suffix.encode())].decode(errors="ignore").strip()
    return f"{'_' * is_reserved(cleaned)}{stem}{path.suffix}"


def allowed_path(path: str, roots: Iterable[Path]) -> Path:
    """Return a path inside a root, with its links resolved.

    A relative path is inside the first root. Whether a path outside exists is not told. Raises Forbidden and
    SourceError.
    """
    resolved_roots = [root.resolve() for root in roots]
    if not resolved_roots:
        raise Forbidden("this server adds no paths: upload the files, or start it with `kumi serve --root FOLDER`")
    try:
        resolved = (resolved_roots[0] / path).resolve()
        exists = resolved.exists()
    except (OSError, ValueError, RuntimeError):  # a zero byte, a name that is too long, links in a circle
        raise SourceError(f"{path[:100]!r} is no path: check it") from None
    if not any(resolved == root or root in resolved.parents for root in resolved_roots):
        raise Forbidden(f"{path[:100]!r} is outside the folders that this server may read: see `kumi serve --root`")
    if not exists:
        raise SourceError(f"{path[:100]} does not exist: check the path")
    return resolved
