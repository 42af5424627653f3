"""addresses and the files fetched from them -> a folder with a list of where each comes from, and back."""

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path, PurePosixPath
from shutil import rmtree
from typing import Self
from unicodedata import normalize
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from kumihimo.core.errors import SourceError
from kumihimo.core.redaction import redact
from kumihimo.text.file_names import is_reserved

_ADDRESS = re.compile(r"(?i)[a-z][a-z0-9+.:-]+://")
_WEB = {"http": 80, "https": 443}
_UNSAFE = re.compile(r"[^\w. =,+@()~-]")
_MAX_NAME_CHARS = 100  # file systems allow 255 bytes


@dataclass(frozen=True, slots=True)
class Origin:
    """An address that a person has named.

    protocol: http, https, or one of fsspec. host: or bucket. name: of the folder in the mirrors, and so of the source.
    """

    url: str
    protocol: str
    host: str
    name: str

    @property
    def is_web(self) -> bool:
        """Return whether it is a web page."""
        return self.protocol in _WEB


def is_address(text: object) -> bool:
    """Return whether a text is an address and no path.

    >>> [is_address(text) for text in ("https://example.org/a", "s3://bucket/a", "notes/a.md", "C:\\\\notes", "file:///a")]
    [True, True, False, False, True]
    """
    return isinstance(text, str) and bool(_ADDRESS.match(text))


def local_path(address: str) -> str:
    """Return the path of a file:// address, or any other text.

    >>> local_path("file:///notes/a%20b.md"), local_path("notes")
    ('/notes/a b.md', 'notes')
    """
    if not address.lower().startswith("file://"):
        return address
    from urllib.request import url2pathname  # it loads much, and few commands need it

    parts = urlsplit(address)
    if parts.hostname not in (None, "localhost"):
        raise SourceError(f"{address[:200]} is on another machine: name its folder as a path")
    return url2pathname(parts.path)


def parse_origin(address: str) -> Origin:
    """Return the origin of an address. Raise SourceError.

    >>> parse_origin("HTTP://Example.org:80/a/../b#c")
    Origin(url='http://example.org/b', protocol='http', host='example.org', name='example.org')
    >>> parse_origin("s3://papers/2024/").name
    's3-papers'
    """
    try:
        parts = urlsplit(address)
        host, port, password = parts.hostname or "", parts.port, parts.password
    except ValueError:
        host, port, password = "", None, None
    protocol = address.partition(":")[0].lower()
    if protocol != "memory" and (not host or "::" in address.partition("//")[0]):
        raise SourceError(f"{redact(address)[:200]!r} is no address: write it like https://example.org/page.html")
    if password is not None and protocol != "github":  # it would be stored in the index
        raise SourceError(
            f"{redact(address)[:200]}: an address with a password is not stored: give the key to the driver in its "
            "environment or its own settings"
        )
    if protocol in _WEB:
        name = host if port in (None, _WEB[protocol]) else f"{host}-{port}"
        return Origin(normalize_url(address), protocol, host, safe_name(name))
    bucket = address.partition("://")[2].partition("/")[0]
    return Origin(address.rstrip("/"), protocol, bucket, safe_name(f"{protocol}-{bucket.rpartition('@')[2]}"))


def normalize_url(url: str) -> str:
    """Return a web address in one form, without its fragment.

    Raise ValueError if it is none.

    >>> normalize_url("HTTPS://Example.org:443?a=1"), normalize_url("http://h:8000/a/./b/../c")
    ('https://example.org/?a=1', 'http://h:8000/a/c')
    """
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    if parts.port not in (None, _WEB.get(scheme)):
        host = f"{host}:{parts.port}"
    path = urlsplit(urljoin("http://host/", parts.path.lstrip("/"))).path  # without . and ..
    return urlunsplit((scheme, host, path, parts.query, ""))


def file_name(url: str, suffixes: Collection[str] = ()) -> str:
    """Return the path of a file of this address in its mirror.

    suffixes: one of which the name gets, if it has none of them.

    >>> file_name("https://example.org/"), file_name("https://example.org/a b/c?id=3", [".html", ".htm"])
    ('index', 'a b/c_id=3.html')
    >>> file_name("https://example.org/../.git/x.htm", [".html", ".htm"])
    '_/_.git/x.htm'
    """
    path, _, query = url.partition("://")[2].partition("?")
    *folders, last = path.split("/")[1:] or [""]
    last = unquote(last) or "index"
    if query:
        last += f"_{unquote(query)}"
    if suffixes and Path(last).suffix.lower() not in suffixes:
        last += next(iter(suffixes))
    return "/".join(map(safe_name, [*(unquote(folder) for folder in folders if folder), last]))


def safe_name(name: str) -> str:
    """Return a name that every file system takes and no reader skips.

    >>> [safe_name(name) for name in ("..", ".env", "a/b:c?.md", "nul.txt")]
    ['_', '_.env', 'a_b_c_.md', '_nul.txt']
    """
    cleaned = _UNSAFE.sub("_", normalize("NFC", name))
    cleaned = cleaned.rstrip(" .") or "_"
    if cleaned.startswith((".", " ")) or is_reserved(cleaned):
        cleaned = f"_{cleaned}"
    if len(cleaned) <= _MAX_NAME_CHARS and len(cleaned.encode()) <= 2 * _MAX_NAME_CHARS:
        return cleaned
    suffix = Path(cleaned).suffix[:20]
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=6).hexdigest()
    return f"{cleaned[: _MAX_NAME_CHARS // 2]}-{digest}{suffix}"


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
        """Return the mirror in a folder; empty for all other folders."""
        mirror = cls(folder)
        if folder.parent.name != MIRRORS_FOLDER:
            return mirror
        with suppress(OSError, ValueError, TypeError, KeyError):  # without its list every file is fetched again
            state = json.loads((folder / STATE_FILE).read_text("utf-8"))
            files = {name: MirroredFile(**file) for name, file in state["files"].items()}
            mirror = cls(folder, state["origins"], files, state["failed"], state["skipped"])
        return mirror

    def save(self) -> None:
        """Write the list of files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "origins": self.origins,
            "files": {name: asdict(file) for name, file in sorted(self.files.items())},
            "failed": self.failed,
            "skipped": sorted(self.skipped),
        }
        _write(self.folder / STATE_FILE, json.dumps(state, ensure_ascii=False, indent=1).encode("utf-8"))

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
        path = self.folder / name
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
        self.failed.pop(name, None)
        with suppress(OSError):
            (self.folder / name).unlink()

    def delete_unlisted(self) -> None:
        """Delete the remains of a fetch that was killed."""
        for path in [*self.folder.rglob("*")] if self.folder.is_dir() else ():
            name = path.relative_to(self.folder).as_posix()
            if name != STATE_FILE and name not in self.files and not path.is_dir():
                path.unlink()

    def _free_name(self, asked: str, suffixes: Collection[str]) -> str:
        wanted = file_name(asked, suffixes)
        names = (wanted if n == 1 else _numbered(wanted, n) for n in count(1))
        return next(name for name in names if name.casefold() not in self._used)


def _numbered(name: str, number: int) -> str:
    path = PurePosixPath(name)
    return path.with_name(f"{path.stem}~{number}{path.suffix}").as_posix()


def _replace(path: Path, data: bytes, modified: float | None) -> None:
    """Write a file with its time, but never with the earlier one."""
    previous = path.stat() if path.is_file() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, data)
    if modified is not None and (previous is None or (previous.st_mtime, previous.st_size) != (modified, len(data))):
        with suppress(OSError, OverflowError):
            os.utime(path, (modified, modified))


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(".next")
    temporary.write_bytes(data)
    temporary.replace(path)


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
    """Delete the mirrors that are no sources any more."""
    folder = index.resolve() / MIRRORS_FOLDER
    for child in folder.iterdir() if folder.is_dir() else ():
        if child not in sources:
            rmtree(child)


def remove_mirrored(folder: Path, names: Iterable[str]) -> None:
    """Delete files of a mirror, until they are fetched again."""
    mirror = Mirror.load(folder)
    for name in names:
        mirror.origins.pop(mirror.files[name].asked, None)
        mirror.remove(name)
    mirror.save()


def mirrors_in(paths: Mapping[str, Path]) -> Iterator[tuple[str, Mirror]]:
    """Yield the name and mirror of each source that has one."""
    for name, path in paths.items():
        if (mirror := Mirror.load(path)).origins:
            yield name, mirror
