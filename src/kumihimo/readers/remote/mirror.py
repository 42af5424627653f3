"""fetched files -> a folder with a list of where each comes from, and back."""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import count
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Any, Self

from kumihimo.core.errors import SourceError
from kumihimo.readers.remote.origins import is_file_name, mirror_name

MIRRORS_FOLDER = "mirror"  # in the index folder: a folder for each host or bucket
FETCHING = "fetching"  # the step in the events of progress
STATE_FILE = ".mirror.json"  # hidden, so that it is no document


@dataclass(frozen=True, slots=True)
class MirroredFile:
    """A file of a mirror.

    url: where it comes from, after redirects. asked: the address that was asked. version: what its server says of this
    version: etag, last-modified, or size. origin: the address that a person named.
    """

    url: str
    asked: str
    origin: str
    version: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _State:
    """The list of a mirror, as it is stored. Somebody else may have written it."""

    origins: dict[str, int]
    files: dict[str, MirroredFile]
    failed: dict[str, str]
    skipped: list[str]


@cache
def _state_adapter() -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(_State)


@dataclass(slots=True)
class Mirror:
    """A folder of fetched files.

    origins: address -> maximum of its pages, 0 for this page alone. files: path below the folder -> its file. failed:
    path, or "" for the whole -> why it could not be fetched the last time. skipped: paths without a reader.
    """

    folder: Path
    origins: dict[str, int] = field(default_factory=dict)
    files: dict[str, MirroredFile] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict, init=False, repr=False)  # by the address that was asked
    _used: set[str] = field(default_factory=set, init=False, repr=False)  # without case, which some systems ignore

    def __post_init__(self) -> None:
        self._names = {file.asked: name for name, file in self.files.items()}
        self._used = {name.casefold() for name in self.files}

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Return the mirror in a folder; empty for all other folders.

        Raise SourceError for a link to another folder.
        """
        mirror = cls(folder)
        if folder.parent.name != MIRRORS_FOLDER:
            return mirror
        if folder.resolve() != folder.parent.parent.resolve() / MIRRORS_FOLDER / folder.name:
            raise _link_error(folder)
        with suppress(OSError, ValueError):  # without its list every file is fetched again
            state = _state_adapter().validate_json((folder / STATE_FILE).read_bytes())
            if all(map(is_file_name, state.files)):
                mirror = cls(folder, state.origins, state.files, state.failed, state.skipped)
        return mirror

    def save(self) -> None:
        """Write the list of files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = _State(self.origins, dict(sorted(self.files.items())), self.failed, sorted(self.skipped))
        replace_file(self.folder / STATE_FILE, json.dumps(asdict(state), ensure_ascii=False, indent=1).encode("utf-8"))

    def name_of(self, asked: str) -> str:
        """Return the path of the file of an address; empty without one."""
        return self._names.get(asked, "")

    def of_origin(self, origin: str) -> dict[str, MirroredFile]:
        """Return the files of an origin."""
        return {name: file for name, file in self.files.items() if file.origin == origin}

    def store(self, file: MirroredFile, data: bytes, suffixes: Collection[str], modified: float | None = None) -> str:
        """Write a file if its content differs; return its path.

        suffixes: one of which its name ends with. modified: its time in seconds. Raise SourceError.
        """
        old = self.name_of(file.asked)
        name = old if PurePosixPath(old).suffix.lower() in suffixes else self._free_name(file.asked, suffixes)
        if old and name != old:
            self.remove(old)
        path = self._path(name)
        try:
            if not path.is_file() or path.read_bytes() != data:
                _replace(path, data, modified)
        except OSError as error:
            raise SourceError(
                f"{file.asked}: {path} cannot be written ({error.strerror}): remove what is in its way"
            ) from error
        self.files[name] = file
        self._names[file.asked] = name
        self._used.add(name.casefold())
        self.failed.pop(name, None)
        return name

    def remove(self, name: str) -> None:
        """Delete a file, which its server no longer has."""
        if file := self.files.pop(name, None):
            self._names.pop(file.asked, None)
            self._used.discard(name.casefold())
            with suppress(OSError):
                self._path(name).unlink()
        self.failed.pop(name, None)

    def delete_unlisted(self) -> None:
        """Delete the remains of a fetch that was killed."""
        for path in [*self.folder.rglob("*")] if self.folder.is_dir() else ():
            name = path.relative_to(self.folder).as_posix()
            if name != STATE_FILE and name not in self.files and not path.is_dir():
                path.unlink()

    def _path(self, name: str) -> Path:
        """Return the path of a file.

        Raise SourceError if a link leads elsewhere.
        """
        path = self.folder / name
        if path.parent.resolve() != self.folder.resolve() / PurePosixPath(name).parent:
            raise _link_error(path.parent)
        return path

    def _free_name(self, asked: str, suffixes: Collection[str]) -> str:
        wanted = mirror_name(asked, suffixes)
        names = (wanted if n == 1 else _numbered(wanted, n) for n in count(1))
        return next(name for name in names if name.casefold() not in self._used)


def _numbered(name: str, number: int) -> str:
    path = PurePosixPath(name)
    return path.with_name(f"{path.stem}~{number}{path.suffix}").as_posix()


def _replace(path: Path, data: bytes, modified: float | None) -> None:
    """Write a file with its time, but never with the earlier one."""
    previous = path.stat() if path.is_file() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, data)
    if modified is not None and (previous is None or (previous.st_mtime, previous.st_size) != (modified, len(data))):
        with suppress(OSError, OverflowError):
            os.utime(path, (modified, modified))


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all."""
    temporary = path.with_name(".next")
    temporary.unlink(missing_ok=True)  # it may be a link
    temporary.write_bytes(data)
    temporary.replace(path)


@contextmanager
def changed_files(files: Mapping[Path, bytes | None]) -> Iterator[None]:
    """Write or delete files; put them back if the block fails.

    files: None deletes one. A file that another writer has changed meanwhile stays as it is.
    """
    earlier: dict[Path, tuple[bytes, int] | None] = {}  # the contents and their times
    try:
        for path, data in files.items():
            old = path.read_bytes() if path.is_file() else None
            if old != data:
                earlier[path] = None if old is None else (old, path.stat().st_mtime_ns)
                _put_file(path, data)
        yield
    except BaseException:
        for path, before in reversed(earlier.items()):  # of names that differ in case only, the new one goes first
            if (path.read_bytes() if path.is_file() else None) == files[path]:
                _put_file(path, before[0] if before else None)
                if before:
                    os.utime(path, ns=(before[1], before[1]))  # the date of a document may be that of its file
        raise


def _put_file(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        replace_file(path, data)


def find_mirrored_uri(sources: Mapping[str, Path], target: str) -> str:
    """Return the uri of a fetched page, or any other target.

    sources: name -> path. Raise SourceError for a part of a fetched file, whose text would stay in the mirror.
    """
    for source, path in sources.items():
        for name, file in Mirror.load(path).files.items():
            if target in (file.url, file.asked):
                return f"{source}/{name}"
            if target.startswith(f"{source}/{name}#"):
                raise SourceError(f"{target} is a part of a fetched file: remove the whole file, {source}/{name}")
    return target


def remove_unused_mirrors(index: Path, sources: Collection[Path]) -> None:
    """Delete the mirrors that are no sources any more.

    Raise SourceError for a link to another folder.
    """
    folder = index.resolve() / MIRRORS_FOLDER
    for child in folder.iterdir() if folder.is_dir() else ():
        if child not in sources:
            if child.resolve() != child:
                raise _link_error(child)
            rmtree(child)


def _link_error(path: Path) -> SourceError:
    return SourceError(f"{path} is a link, or in one, and nothing is fetched there: remove the link")


def remove_mirrored(folder: Path, names: Iterable[str]) -> None:
    """Delete files of a mirror, until they are fetched again."""
    mirror = Mirror.load(folder)
    for name in names:
        mirror.origins.pop(mirror.files[name].asked, None)
        mirror.remove(name)
    mirror.save()
