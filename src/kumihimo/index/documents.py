"""sources -> documents: which files are new, changed or gone since the last build."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from unicodedata import normalize

from kumihimo.core.errors import SourceError, unknown
from kumihimo.core.flow import differ
from kumihimo.core.records import Document, digest
from kumihimo.core.table import Row, codec
from kumihimo.core.wiring import ROOT
from kumihimo.ports.ledger import SqlLedger
from kumihimo.ports.readers import READERS, read, supported, walk
from kumihimo.ports.store import Db


@dataclass(frozen=True, slots=True)
class Source:
    """A folder or file that the index holds, under the name that begins its documents' uris."""

    name: str
    path: Path
    excluded: tuple[str, ...] = ()  # uris that were taken out of it

    def holds(self, uri: str) -> bool:
        return _within(uri, self.name)

    def without(self, uri: str) -> bool:
        """Whether this document, or the folder or file it stands in, was taken out."""
        return any(_within(uri, gone) for gone in self.excluded)

    def files(self) -> dict[str, Path]:
        """Its files by uri, in sorted order. Raises SourceError where it is not there."""
        if not self.path.exists():
            raise SourceError(f"{self.path} is not there: put it back, or `kumi remove {self.name}` takes it out")
        if self.path.is_file():
            return {self.name: self.path}
        found = {f"{self.name}/{relative}": path for path, relative in walk(self.path)}
        return {uri: path for uri, path in found.items() if not self.without(uri)}


def readable(path: Path) -> None:
    """Raises SourceError where a path that is named cannot be a source: it is not there, or of no kind we read."""
    if not path.exists():
        raise SourceError(f"{path} is not there: check the path")
    if path.is_file() and not supported(path):
        raise SourceError(f"{path}: {unknown('reader for', path.suffix or path.name, READERS)}")


def place(known: dict[str, Source], path: Path) -> str:
    """The name of the source that holds this path, which is made a source of its own where none does.

    What had been taken out of the source there comes back.
    """
    for source in known.values():
        if path == source.path or source.path in path.parents:
            uri = "/".join([source.name, *path.relative_to(source.path).parts])
            kept = tuple(gone for gone in source.excluded if not _within(gone, uri) and not _within(uri, gone))
            known[source.name] = replace(source, excluded=kept)
            return source.name
    base = normalize("NFC", path.name) or "root"
    name = next(n for i in count(1) if (n := base if i == 1 else f"{base}-{i}") not in known)
    known[name] = Source(name, path)
    return name


def take_out(db: Db, known: dict[str, Source], target: str) -> set[str]:
    """Take a source, or a part of one, out of `known`; gives the names of the sources to look at again.

    target: a source's name or path, a document's uri, or a path within a source. Raises SourceError.
    """
    path = Path(target).resolve()
    for source in known.values():
        if target == source.name or path == source.path:
            del known[source.name]
            return set()
    inside = ["/".join([s.name, *path.relative_to(s.path).parts]) for s in known.values() if s.path in path.parents]
    uris = [uri for (uri,) in db.all("SELECT uri FROM documents ORDER BY uri")] if db.has(ROOT) else []
    for uri in [target.rstrip("/"), *inside]:
        if any(_within(other, uri) for other in uris):
            source = next(s for s in known.values() if s.holds(uri))
            known[source.name] = replace(source, excluded=(*source.excluded, uri))
            return {source.name}
    raise SourceError(f"the index holds {unknown('source or document', target, [*known, *uris[:1000]])[:500]}")


@dataclass(slots=True)
class Refreshed:
    """What a look at the sources found: files read, the same as before, gone, of no kind we read, unreadable."""

    read: int = 0
    same: int = 0
    gone: int = 0
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # uri -> why


def refresh(
    ledger: SqlLedger,
    sources: Iterable[Source],
    names: Collection[str],
    *,
    code: str,
    check: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Refreshed:
    """Bring `documents` up to date with those of the sources that are in `names`, and without those no longer listed.

    A file of the same size and time, read by the same code, is not read again unless `check`. One that cannot be
    read keeps what it held before, and is listed until it can be.
    """
    ledger.shape(ROOT, codec(Document), "", anew=False)
    ledger.watch(ROOT, "id", codec(Document).looks)
    look = _Look(ledger, code, check, ledger.failed(ROOT))
    known = list(sources)
    for source in known:
        if source.name in names:
            look.at(source, progress)
    for uri, (name, _) in look.held.items():
        if name not in {source.name for source in known}:
            look.put(uri, [])
    listed = [uri for uri in look.failing if not any(s.holds(uri) for s in known if s.name not in names)]
    ledger.fail(ROOT, ((uri, look.found.failed.get(uri)) for uri in {**dict.fromkeys(listed), **look.found.failed}))
    ledger.settle(ROOT)
    return look.found


class _Look:
    """One look at the sources."""

    def __init__(self, ledger: SqlLedger, code: str, check: bool, failing: dict[str, str]) -> None:
        self.ledger, self.code, self.check, self.failing = ledger, code, check, failing
        self.found = Refreshed()
        self.held: dict[str, tuple[str, str]] = {
            uri: (source, stamp) for uri, source, stamp in ledger.db.all("SELECT * FROM files ORDER BY uri")
        }

    def at(self, source: Source, progress: Callable[[str, int, int], None] | None) -> None:
        try:
            files = source.files()
        except SourceError as error:
            self.found.failed[source.name] = str(error)
            return
        for done, (uri, path) in enumerate(files.items(), 1):
            if supported(path):
                self._file(source, uri, path)
            else:
                self.found.skipped.append(uri)
            if progress:
                progress(ROOT, done, len(files))
        for uri, (name, _) in self.held.items():
            if name == source.name and uri not in files:
                self.found.gone += 1
                self.put(uri, [])

    def _file(self, source: Source, uri: str, path: Path) -> None:
        try:
            stamp = self._stamp(source, uri, path)
            if stamp == self.held.get(uri, ("", ""))[1] and uri not in self.failing and not self.check:
                self.found.same += 1
                return
            documents = [d for d in read(path, uri) if not source.without(d.uri)]
        except SourceError as error:
            self.found.failed[uri] = str(error)
        except OSError as error:
            self.found.failed[uri] = f"{path}: {error.strerror or error}"
        else:
            self.found.read += 1
            self.put(uri, documents)
            self.ledger.db.run("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", uri, source.name, stamp)

    def _stamp(self, source: Source, uri: str, path: Path) -> str:
        """Changes when the file may read otherwise than before."""
        stat = path.stat()
        rows = [gone for gone in source.excluded if gone.startswith(f"{uri}#")]
        return digest(self.code, str(stat.st_size), str(stat.st_mtime_ns), *rows)

    def put(self, uri: str, documents: list[Document]) -> None:
        """Make these the documents of one file; with none, forget the file."""
        held = self.ledger.rows(ROOT).where(("file",), (uri,)) if uri in self.held else []
        encode = codec(Document).encode
        old: list[Row] = []
        new: list[Row] = []
        differ({row[0]: row for row in held}, [_storable(encode(d.id, d)) for d in documents], old, new)
        self.ledger.change(ROOT, old, new)
        if not documents:
            self.ledger.db.run("DELETE FROM files WHERE uri = ?", uri)


def _within(uri: str, name: str) -> bool:
    return uri == name or uri.startswith((f"{name}/", f"{name}#"))


def _storable(row: Row) -> Row:
    """The row with half of a surrogate pair, which no file can hold, replaced by U+FFFD."""
    return tuple(_whole(value) if isinstance(value, str) else value for value in row)


def _whole(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
