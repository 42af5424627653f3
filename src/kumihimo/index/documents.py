"""sources -> documents: which files are new, changed or gone since the last build."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from unicodedata import normalize

from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.engine import diff_rows
from kumihimo.core.errors import SourceError, describe_unknown
from kumihimo.core.records import Document
from kumihimo.core.table import Row, codec
from kumihimo.core.wiring import ROOT
from kumihimo.readers import READERS, describe_unread, has_reader, read_documents, walk
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Db


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A folder or file that the index holds, under the name that begins its documents' uris."""

    name: str
    path: Path
    rules: tuple[str, ...] = ()  # uris that were taken out of it; with a ! before them, that came back

    def contains_uri(self, uri: str) -> bool:
        return _is_within(uri, self.name)

    def excludes_uri(self, uri: str) -> bool:
        """Whether this document, or the folder or file it stands in, was taken out and has not come back since."""
        last = [rule for rule in self.rules if _is_within(uri, rule.removeprefix("!"))][-1:]
        return bool(last) and not last[0].startswith("!")

    def exclude_uri(self, uri: str) -> IndexedSource:
        return replace(self, rules=(*self._other_rules(uri), uri))

    def restore_uri(self, uri: str) -> IndexedSource:
        others = self._other_rules(uri)
        still = replace(self, rules=others)
        return replace(self, rules=(*others, f"!{uri}")) if still.excludes_uri(uri) else still

    def _other_rules(self, uri: str) -> tuple[str, ...]:
        return tuple(rule for rule in self.rules if not _is_within(rule.removeprefix("!"), uri))

    def uri(self, path: Path) -> str:
        """What a path within it is called in the index: composed (NFC), with % and # written as in a URL."""
        return "/".join([self.name, *map(_encode_uri_part, path.relative_to(self.path).parts)])

    def files(self) -> dict[str, Path]:
        """Its files by uri, in sorted order. Raises SourceError where it is not there."""
        try:
            if not self.path.exists():
                raise SourceError(f"{self.path} is not there: put it back, or `kumi remove {self.name}` takes it out")
            if self.path.is_file():
                return {self.name: self.path}
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror}; let it be read") from error
        found = {"/".join([self.name, *map(_encode_uri_part, name.split("/"))]): path for path, name in walk(self.path)}
        return {uri: path for uri, path in found.items() if not self.excludes_uri(uri)}


def resolve_source_path(path: str | Path) -> Path:
    """The path, whole, with links followed. Raises SourceError where it cannot be a source."""
    if not str(path):
        raise SourceError("an empty path was given: say which file or folder")
    try:
        there = Path(path).exists()
    except OSError as error:
        raise SourceError(f"{str(path)[:200]}: {error.strerror}: check the path") from error
    if not there:
        raise SourceError(f"{path} is not there: check the path")
    if Path(path).is_file() and not has_reader(Path(path)):
        raise SourceError(f"{path}: {describe_unknown('reader for', Path(path).suffix or Path(path).name, READERS)}")
    return Path(path).resolve()


def add_source_paths(sources: dict[str, IndexedSource], paths: Iterable[Path]) -> set[str]:
    """The names of the sources that hold these paths; a path that none holds is made a source of its own.

    What had been taken out of a source there comes back. Sources that lie within a path become parts of it.
    """
    holds = {source.path: source.name for source in sources.values()}
    names: set[str] = set()
    for path in paths:
        held = next((holds[at] for at in (path, *path.parents) if at in holds), None)
        if held is None:
            held = _create_source(sources, path)
            holds = (
                {source.path: source.name for source in sources.values()} if path.is_dir() else {**holds, path: held}
            )
        else:
            sources[held] = sources[held].restore_uri(sources[held].uri(path))
        names.add(held)
    return names & sources.keys()


def _create_source(sources: dict[str, IndexedSource], path: Path) -> str:
    inner = [source for source in sources.values() if path in source.path.parents] if path.is_dir() else []
    for source in inner:  # from now on they are parts of this one
        del sources[source.name]
    base = _encode_uri_part(path.name) or "root"
    name = next(n for i in count(1) if (n := base if i == 1 else f"{base}-{i}") not in sources)
    whole = IndexedSource(name, path)
    rules = [rule.replace(s.name, whole.uri(s.path), 1) for s in inner for rule in s.rules]
    sources[name] = replace(whole, rules=tuple(rules))
    return name


def remove_source(db: Db, sources: dict[str, IndexedSource], target: str) -> set[str]:
    """Take a source, or a part of one, out of `known`; gives the names of the sources to look at again.

    target: a source's name or path, a document's uri, or a path within a source. Raises SourceError.
    """
    if not target:
        raise SourceError("nothing is named to be removed: say which source or document")
    try:
        path = Path(target).resolve()
    except (OSError, RuntimeError):  # too long, or a link to itself: then it is no path of ours
        path = Path("/")
    meant = [source for source in sources.values() if target == source.name or path == source.path]
    if len(meant) > 1:
        paths = ", ".join(str(source.path) for source in meant)
        raise SourceError(f"{target!r} may be one of several sources: say which by its whole path, {paths}")
    for source in meant:
        del sources[source.name]
        return set()
    inside = [source.uri(path) for source in sources.values() if source.path in path.parents]
    uris = [uri for (uri,) in db.all("SELECT uri FROM documents ORDER BY uri")] if db.has(ROOT) else []
    target = target.rstrip("/")
    for uri in [target, _encode_uri_part(target), *inside]:
        if any(_is_within(other, uri) for other in uris):
            source = next(s for s in sources.values() if s.contains_uri(uri))
            sources[source.name] = source.exclude_uri(uri)
            return {source.name}
    known_names = [*sources, *uris[:20]]
    raise SourceError(
        f"the index holds {describe_unknown('source or document', target[:200], known_names)}; see `kumi status`"
    )


@dataclass(slots=True)
class RefreshResult:
    """What a look at the sources found: files read, the same as before, gone, of no kind we read, unreadable.

    partly: of what was read, which document holds more than could be.
    """

    read: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # uri -> why


def refresh_documents(
    ledger: SqlLedger,
    sources: Iterable[IndexedSource],
    names: Collection[str],
    *,
    fingerprint: str,
    reread: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> RefreshResult:
    """Bring `documents` up to date with those of the sources that are in `names`, and without those no longer listed.

    A file of the same size and time, read by the same code, is not read again unless `check`. One that cannot be
    read keeps what it held before, and is listed until it can be.
    """
    known = {source.name: source for source in sources}
    if ledger.ensure_table(ROOT, codec(Document)):  # another version keeps other columns: all has to be read again
        for source in known.values():
            source.files()  # one that is away now ends the build here, and loses nothing
        ledger.db.run("DELETE FROM files")
        names = known
    look = _SourceScan(ledger, fingerprint, reread, ledger.failures(ROOT))
    for name in sorted(known.keys() & set(names)):
        look.remove_excluded(known[name])
    for name in sorted(known.keys() & set(names)):
        look.scan(known[name], progress)
    for name in sorted(look.stamps.keys() - known.keys()):
        for uri in look.stamps[name]:
            look.remove(uri)
    others = [known[name] for name in known.keys() - set(names)]
    listed = [uri for uri in look.failed_before if not any(source.contains_uri(uri) for source in others)]
    ledger.record_failures(
        ROOT, ((uri, look.result.failed.get(uri)) for uri in {**dict.fromkeys(listed), **look.result.failed})
    )
    ledger.settle(ROOT)
    return look.result


class _SourceScan:
    """One look at the sources."""

    def __init__(self, ledger: SqlLedger, fingerprint: str, reread: bool, failed_before: dict[str, str]) -> None:
        self.ledger, self.fingerprint, self.reread, self.failed_before = ledger, fingerprint, reread, failed_before
        self.result = RefreshResult()
        self.stamps: defaultdict[str, dict[str, str]] = defaultdict(dict)  # source -> uri of a file -> its stamp
        for uri, source, stamp in ledger.db.all("SELECT * FROM files ORDER BY uri"):
            self.stamps[source][uri] = stamp

    def scan(self, source: IndexedSource, progress: Callable[[str, int, int], None] | None) -> None:
        try:
            files = source.files()
        except SourceError as error:
            self.result.failed[source.name] = str(error)
            return
        for done, (uri, path) in enumerate(files.items(), 1):
            if path.is_dir():
                self.result.failed[uri] = f"{path} cannot be read: let it be, or list it in .kumiignore"
            elif has_reader(path):
                self._read_file(source, uri, path)
            else:
                self.result.skipped.append(uri)
            if progress:
                progress(ROOT, done, len(files))
        closed = [uri for uri, path in files.items() if path.is_dir()]
        for uri in self.stamps[source.name]:
            if uri not in files and not any(_is_within(uri, folder) for folder in closed):
                self.remove(uri)

    def remove(self, uri: str) -> None:
        self.result.removed += 1
        self.store(uri, [])

    def remove_excluded(self, source: IndexedSource) -> None:
        """Take out at once what was taken out of the source, whether or not it can be read now."""
        inside = "file = ?1 OR id = ?2 OR (file > ?1 || '/' AND file < ?1 || '0')"
        for rule in source.rules:
            rows = self.ledger.db.all(f"SELECT * FROM documents WHERE {inside} ORDER BY id", rule, hash_parts(rule))
            out = [row for row in rows if source.excludes_uri(codec(Document).decode(row).uri)]
            self.ledger.change(ROOT, out, [])
            for row in out:  # so that its file is read again when it comes back
                file = codec(Document).decode(row).file
                self.ledger.db.run("UPDATE files SET stamp = '' WHERE uri = ?", file)

    def _read_file(self, source: IndexedSource, uri: str, path: Path) -> None:
        try:
            stamp = self._stamp(source, uri, path)
            if stamp == self.stamps[source.name].get(uri) and uri not in self.failed_before and not self.reread:
                self.result.unchanged += 1
                return
            documents = [d for d in read_documents(path, uri) if not source.excludes_uri(d.uri)]
        except SourceError as error:
            self.result.failed[uri] = str(error)
        except OSError as error:
            self.result.failed[uri] = f"{path}: {error.strerror or error}"
        else:
            self.result.read += 1
            self.result.partial += [f"{d.uri}: {said}" for d in documents if (said := describe_unread(d))]
            self.store(uri, documents, new=uri not in self.stamps[source.name])
            self.ledger.db.run("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", uri, source.name, stamp)

    def _stamp(self, source: IndexedSource, uri: str, path: Path) -> str:
        """Changes when the file may read otherwise than before."""
        stat = path.stat()
        rows = [rule for rule in source.rules if rule.removeprefix("!").startswith(f"{uri}#")]
        return hash_parts(self.fingerprint, str(stat.st_size), str(stat.st_mtime_ns), *rows)

    def store(self, uri: str, documents: list[Document], *, new: bool = False) -> None:
        """Make these the documents of one file; with none, forget the file."""
        held = self.ledger.rows(ROOT).where(("file",), (uri,)) if not new else []
        encode = codec(Document).encode
        gone: list[Row] = []
        come: list[Row] = []
        diff_rows({row[0]: row for row in held}, [_storable_row(encode(d.id, d)) for d in documents], gone, come)
        self.ledger.change(ROOT, gone, come)
        if not documents:
            self.ledger.db.run("DELETE FROM files WHERE uri = ?", uri)


def _encode_uri_part(name: str) -> str:
    """The name as it stands in a uri: composed, and so that the # before a row's name is the only one."""
    text = os.fsencode(name).decode("utf-8", "replace")
    return normalize("NFC", text).replace("%", "%25").replace("#", "%23")


def _is_within(uri: str, name: str) -> bool:
    """Whether it is that document, or stands in that file or folder."""
    if "#" in name:  # a row, whose own id may hold anything
        return uri == name
    return uri == name or uri.startswith((f"{name}/", f"{name}#"))


def _storable_row(row: Row) -> Row:
    return tuple(replace_surrogates(value) if isinstance(value, str) else value for value in row)
