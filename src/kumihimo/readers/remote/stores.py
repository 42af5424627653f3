"""an address that fsspec knows, such as s3://bucket/folder -> its files, in a mirror."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from kumihimo.connections import open_remote_store, store_error
from kumihimo.core import task, wiring
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import SourceError
from kumihimo.readers.documents import has_reader
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.remote.mirror import FETCHING, Mirror, MirroredFile
from kumihimo.readers.remote.origins import Origin, mirror_name

_VERSION_KEYS = (
    ("ETag", "etag", "content_md5", "md5", "md5Hash", "checksum", "sha", "version_id", "generation"),
    ("mtime", "LastModified", "last_modified", "updated", "modified", "timeModified", "created"),
)
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreFetch:
    """The refresh of one address of a store.

    is_excluded: path in the mirror -> whether a person has removed it. is_required: fail if nothing is there.
    """

    mirror: Mirror
    origin: Origin
    readers: Mapping[str, wiring.FileType]
    limits: ReadingLimits
    is_excluded: Callable[[str], bool]
    is_required: bool = False
    progress: task.Progress | None = None
    cancel: CancelToken | None = None

    def run(self) -> None:
        """Fetch changed files, and remove the others that are gone.

        A file that cannot be fetched keeps its copy and is listed. Raise SourceError if nothing is there.
        """
        store, entries = self._list()
        top = mirror_name(_address(self.origin, self._path(store)))
        self.mirror.skipped = [name for name in self.mirror.skipped if not f"{name}/".startswith(f"{top}/")]
        listed: set[str] = set()
        for number, (path, info) in enumerate(sorted(entries.items()), 1):
            asked = _address(self.origin, path)
            if not has_reader(PurePosixPath(path), self.readers):
                self.mirror.skipped.append(mirror_name(asked))
                continue
            listed.add(asked)
            self._fetch(store, path, asked, info)
            if self.progress:
                self.progress(task.ProgressEvent(FETCHING, number, len(entries)))
        for name, file in self.mirror.of_origin(self.origin.url).items():
            if file.asked not in listed:
                self.mirror.remove(name)

    def _path(self, store: Any) -> str:
        path: str = store._strip_protocol(self.origin.url)
        return path

    def _list(self) -> tuple[Any, dict[str, Mapping[str, Any]]]:
        """Return the store, and its files by path with their facts."""
        store = open_remote_store(self.origin.url)
        path = self._path(store)
        try:
            entries: dict[str, Mapping[str, Any]] = store.find(path, detail=True)
        except Exception as error:
            raise store_error(self.origin.url, error) from error
        inner = {key: key.removeprefix(path).split("/") for key, info in entries.items() if info.get("type") == "file"}
        visible = {key: entries[key] for key, parts in inner.items() if not any(p.startswith(".") for p in parts)}
        if not visible:
            remedy = "check the address" if self.is_required else f"put it back, or `kumi remove {self.origin.name}`"
            raise SourceError(f"{self.origin.url}: no file is there: {remedy}")
        return store, visible

    def _fetch(self, store: Any, path: str, asked: str, info: Mapping[str, Any]) -> None:
        """Fetch a file unless it is as before."""
        name, version = self.mirror.name_of(asked), _version(info)
        if self.is_excluded(name or mirror_name(asked)):
            return
        known = self.mirror.files.get(name)
        if known and version and dict(known.version) == version and (self.mirror.folder / name).is_file():
            return
        if self.cancel:
            self.cancel.check()
        try:
            data = self._download(store, path, asked)
            file = MirroredFile(asked, asked, self.origin.url, version)
            self.mirror.store(file, data, [PurePosixPath(path).suffix.lower()], _modified(info))
        except SourceError as error:
            self.mirror.failed[name or mirror_name(asked)] = str(error)

    def _download(self, store: Any, path: str, asked: str) -> bytes:
        """Read a file within the limit of its size."""
        data = bytearray()
        try:
            with store.open(path, "rb") as file:
                while piece := file.read(_PIECE):
                    data += piece
                    if len(data) > self.limits.size << 20:
                        raise self.limits.error(asked, "size")
        except SourceError:
            raise
        except Exception as error:
            raise store_error(asked, error) from error
        return bytes(data)


def _address(origin: Origin, path: str) -> str:
    quoted = path.lstrip("/").replace("%", "%25").replace("?", "%3F").replace("#", "%23")
    return f"{origin.protocol}://{quoted}"


def _version(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the signs of a change; empty if the store tells none."""
    found = {key: str(info[key]) for keys in _VERSION_KEYS for key in keys if info.get(key) is not None}
    return {**found, "size": str(info.get("size", ""))} if found else {}


def _modified(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file in seconds."""
    for value in (info.get(key) for key in _VERSION_KEYS[1]):
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None
