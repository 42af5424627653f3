"""sources -> documents: find files that are new, changed or removed since the last build."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Self
from unicodedata import normalize

from kumihimo.core.catalogue import FileType
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.engine import diff_rows
from kumihimo.core.errors import LimitExceeded, SourceError, describe_unknown
from kumihimo.core.records import Document
from kumihimo.core.table import Row, codec
from kumihimo.core.task import Executor, Progress, ProgressEvent, PureWork, inline
from kumihimo.core.wiring import ROOT
from kumihimo.readers.documents import ReadingLimits, describe_unread, has_reader, no_reader_error
from kumihimo.readers.file_reader import FileReader, Outcome, ReadingJob, ReadingSpec
from kumihimo.readers.folder import walk
from kumihimo.readers.remote.mirror import Mirror, find_mirrored_uri
from kumihimo.storage import IndexTransaction
from kumihimo.storage.ledger import SqlLedger

IMPORTS_FOLDER = "imports"  # in the index folder: a folder for each import


@dataclass(frozen=True, slots=True)
class IndexedSource:
    """A folder or file in the index.

    name: the start of its uris. rules: excluded uris; with a leading !, uris restored later.
    """

    name: str
    path: Path
    rules: tuple[str, ...] = ()

    def contains_uri(self, uri: str) -> bool:
        """Return whether this source contains the uri."""
        return _is_within(uri, self.name)

    def excludes_uri(self, uri: str) -> bool:
        """Return whether a rule excludes this document, its file or its folder.

        The last matching rule decides.
        """
        last_rule = [rule for rule in self.rules if _is_within(uri, rule.removeprefix("!"))][-1:]
        return bool(last_rule) and not last_rule[0].startswith("!")

    def exclude_uri(self, uri: str) -> Self:
        """Return this source with the uri excluded."""
        return replace(self, rules=(*self._other_rules(uri), uri))

    def restore_uri(self, uri: str) -> Self:
        """Return this source with the uri included again."""
        rules = self._other_rules(uri)
        without_rules = replace(self, rules=rules)
        return replace(self, rules=(*rules, f"!{uri}")) if without_rules.excludes_uri(uri) else without_rules

    def _other_rules(self, uri: str) -> tuple[str, ...]:
        """Return the rules for other uris."""
        return tuple(rule for rule in self.rules if not _is_within(rule.removeprefix("!"), uri))

    def uri(self, path: Path) -> str:
        """Return the uri of a path within this source.

        The uri is composed (NFC) and percent-encodes % and #, as a URL does.
        """
        return "/".join([self.name, *map(_encode_uri_part, path.relative_to(self.path).parts)])

    def files(self) -> dict[str, Path]:
        """Return the files of this source by uri, sorted.

        Raise SourceError if the source does not exist or cannot be read.
        """
        try:
            if not self.path.exists():
                raise SourceError(f"{self.path} does not exist: put it back, or `kumi remove {self.name}` removes it")
            if self.path.is_file():
                return {self.name: self.path}
        except OSError as error:
            raise SourceError(f"{self.path}: {error.strerror}; allow reading it") from error
        paths = {"/".join([self.name, *map(_encode_uri_part, name.split("/"))]): path for path, name in walk(self.path)}
        return {uri: path for uri, path in paths.items() if not self.excludes_uri(uri)}


def resolve_source_path(path: str | Path, readers: Mapping[str, FileType]) -> Path:
    """Return the absolute path with links resolved.

    Raise SourceError if it cannot be a source.
    """
    if not str(path):
        raise SourceError("the path is empty: name a file or folder")
    try:
        exists = Path(path).exists()
    except OSError as error:
        raise SourceError(f"{str(path)[:200]}: {error.strerror}: check the path") from error
    if not exists:
        raise SourceError(f"{path} does not exist: check the path")
    if Path(path).is_file() and not has_reader(Path(path), readers):
        raise no_reader_error(Path(path), str(path), readers)
    return Path(path).resolve()


def add_source_paths(sources: dict[str, IndexedSource], paths: Iterable[Path], index: Path | None = None) -> set[str]:
    """Return the names of the sources of these paths, adding missing sources.

    Restore a path that was excluded from its source. If a new folder contains existing sources, merge them into it.
    index: the index folder; a source in it is no part of a folder around it.
    """
    names_by_path = {source.path: source.name for source in sources.values()}
    names: set[str] = set()
    for path in paths:
        folders = [path, *path.parents]
        if index is not None and index in path.parents:
            folders = [folder for folder in folders if index in folder.parents]
        name = next((names_by_path[folder] for folder in folders if folder in names_by_path), None)
        if name is None:
            name = _create_source(sources, path, index)
            if path.is_dir():  # it may have replaced other sources
                names_by_path = {source.path: source.name for source in sources.values()}
            names_by_path[path] = name
        else:
            sources[name] = sources[name].restore_uri(sources[name].uri(path))
        names.add(name)
    return names & sources.keys()


def _create_source(sources: dict[str, IndexedSource], path: Path, index: Path | None) -> str:
    """Add a source for this path and return its name."""
    nested = [source for source in sources.values() if path in source.path.parents] if path.is_dir() else []
    nested = [source for source in nested if index is None or index not in source.path.parents]
    for source in nested:  # they become parts of the new source
        del sources[source.name]
    base = _encode_uri_part(path.name) or "root"
    name = next(name for n in count(1) if (name := base if n == 1 else f"{base}-{n}") not in sources)
    added = IndexedSource(name, path)
    rules = [rule.replace(old.name, added.uri(old.path), 1) for old in nested for rule in old.rules]
    sources[name] = replace(added, rules=tuple(rules))
    return name


def load_sources(db: IndexTransaction, base: Path) -> dict[str, IndexedSource]:
    """Return the sources of an index; stored paths are relative to `base`."""
    stored = db.meta("sources", {})
    return {name: IndexedSource(name, base / path, tuple(rules)) for name, (path, rules) in stored.items()}


def save_sources(db: IndexTransaction, sources: Mapping[str, IndexedSource], base: Path) -> None:
    """Store the sources, with paths relative to `base` where possible."""

    def stored_path(path: Path) -> str:
        return path.relative_to(base).as_posix() if path.is_relative_to(base) else str(path)

    db.set_meta("sources", {s.name: [stored_path(s.path), list(s.rules)] for s in sources.values()})


def remove_source(
    db: IndexTransaction, sources: dict[str, IndexedSource], target: str, index: Path | None = None
) -> set[str]:
    """Remove a source, or exclude a part of one, from `sources`.

    Return the names of the sources to scan again. index: the index folder, whose imports have no parts: their rows rest
    on several documents. Raise SourceError if nothing matches `target`: a source's name or path, a document's uri, or a
    path within a source.
    """
    if not target:
        raise SourceError("nothing to remove: name a source or a document")
    try:
        path = Path(target).resolve()
    except (OSError, RuntimeError):  # too long, or a link loop: not the path of a source
        path = Path("/")
    matches = {source.name: source.path for source in sources.values() if target == source.name or path == source.path}
    if len(matches) > 1:
        paths = ", ".join(map(str, matches.values()))
        raise SourceError(f"{target!r} matches several sources: name one by its full path, {paths}")
    if matches:
        del sources[next(iter(matches))]
        return set()
    target = find_mirrored_uri({source.name: source.path for source in sources.values()}, target)
    nested_uris = [source.uri(path) for source in sources.values() if source.path in path.parents]
    uris = db.column(ROOT, "uri") if db.has(ROOT) else []
    uris += [item for step, item, _ in db.failures() if step == ROOT]
    target = target.rstrip("/")
    for uri in [target, _encode_uri_part(target), *nested_uris]:
        source = next((candidate for candidate in sources.values() if candidate.contains_uri(uri)), None)
        if source and index and source.path.parent == index / IMPORTS_FOLDER:
            raise SourceError(
                f"{uri} is a part of the import {source.name}: remove it in the system that it comes from, and import "
                f"again; or `kumi remove {source.name}` removes the whole import"
            )
        if source and (source.excludes_uri(uri) or any(_is_within(document_uri, uri) for document_uri in uris)):
            sources[source.name] = source.exclude_uri(uri)
            return {source.name}
    candidates = [*sources, *uris[:20]]
    raise SourceError(
        f"the index holds {describe_unknown('source or document', target[:200], candidates)}; see `kumi status`"
    )


@dataclass(slots=True)
class RefreshResult:
    """Counts and names of files: read, unchanged, removed, skipped, partial, empty, failed.

    new, changed: of those read, the files without an earlier document, and those with other documents than before.
    skipped: uris without a reader. partial: documents with parts that no reader could read. empty: uris without text.
    """

    read: int = 0
    unchanged: int = 0
    new: int = 0
    changed: int = 0
    removed: int = 0
    skipped: list[str] = field(default_factory=list)
    partial: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # uri -> reason


def refresh_documents(
    ledger: SqlLedger,
    sources: Iterable[IndexedSource],
    names: Collection[str],
    *,
    readers: Mapping[str, FileType],
    code: Callable[[str], str],
    limits: ReadingLimits,
    reread: bool = False,
    progress: Progress | None = None,
    executor: Executor = inline,
) -> RefreshResult:
    """Update `documents` from the sources in `names`; drop documents of removed sources.

    code: a hash of the reading code of a suffix. Skip a file whose size, time and code are the same, unless `reread`.
    An unreadable file keeps its earlier documents, and its error stays listed until a read succeeds. A file over a
    limit is read again only when it or the limits change.
    """
    by_name = {source.name: source for source in sources}
    if ledger.ensure_table(ROOT, codec(Document)):  # the columns have changed: read every file again
        for source in by_name.values():
            source.files()  # a missing source stops the build here, before anything is deleted
        ledger.forget_files()
        names = by_name
    scan = _SourceScan(ledger, FileReader(readers, limits), code, reread, executor, ledger.failures(ROOT))
    scanned = [by_name[name] for name in sorted(by_name.keys() & set(names))]
    for source in scanned:
        scan.remove_excluded(source)
    with closing(scan.reader):
        for source in scanned:
            scan.scan_source(source, progress)
    for name in sorted(scan.stamps.keys() - by_name.keys()):
        for uri in scan.stamps[name]:
            scan.remove(uri)
    others = [source for source in by_name.values() if source not in scanned]
    retried = [uri for uri in scan.failed_before if not any(source.contains_uri(uri) for source in others)]
    failed = {**dict.fromkeys(retried), **scan.result.failed}
    ledger.record_failures(ROOT, failed.items())
    ledger.settle(ROOT)
    return scan.result


@dataclass(slots=True)
class _SourceScan:
    """A scan. stamps: source -> file uri -> stamp. urls: uri of a fetched file -> address."""

    ledger: SqlLedger
    reader: FileReader
    code: Callable[[str], str]
    reread: bool
    executor: Executor
    failed_before: dict[str, str]
    result: RefreshResult = field(default_factory=RefreshResult)
    stamps: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    urls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for uri, source, stamp in self.ledger.files():
            self.stamps[source][uri] = stamp

    def scan_source(self, source: IndexedSource, progress: Progress | None) -> None:
        """Read the new and changed files of a source."""
        try:
            files = source.files()
        except SourceError as error:
            self.result.failed[source.name] = str(error)
            return
        mirror = Mirror.load(source.path)
        self.urls = {f"{source.name}/{name}": file.url for name, file in mirror.files.items()}
        work = PureWork(self.reader.try_read, ReadingSpec(self.reader.limits))
        for job, outcome in self.executor(work, self._jobs(source, files, progress)):
            if outcome is None:  # the other machine does not have this file
                outcome = self.reader.try_read(job)[1]
            self._store_outcome(source, job, outcome)
        self.result.failed |= {f"{source.name}/{name}".rstrip("/"): error for name, error in mirror.failed.items()}
        self.result.skipped += [f"{source.name}/{name}" for name in mirror.skipped]
        unreadable_folders = [uri for uri, path in files.items() if path.is_dir()]
        for uri in self.stamps[source.name]:
            if uri not in files and not any(_is_within(uri, folder) for folder in unreadable_folders):
                self.remove(uri)

    def _jobs(
        self, source: IndexedSource, files: Mapping[str, Path], progress: Progress | None
    ) -> Iterator[ReadingJob]:
        """Yield the files to read; count the others."""
        for position, (uri, path) in enumerate(files.items(), 1):
            if path.is_dir():
                self.result.failed[uri] = f"{path} cannot be read: allow it, or list it in .kumiignore"
            elif not has_reader(path, self.reader.readers):
                self.result.skipped.append(uri)
            elif job := self._changed_file(source, uri, path):
                yield job
            if progress:
                progress(ProgressEvent(ROOT, position, len(files)))

    def remove(self, uri: str) -> None:
        """Remove a file's documents and count it as removed."""
        self.result.removed += 1
        self.store(uri, [])

    def remove_excluded(self, source: IndexedSource) -> None:
        """Remove excluded documents now, whether or not the source is readable."""
        for rule in source.rules:
            rows = [(row, codec(Document).decode(row)) for row in self.ledger.documents_at(rule, hash_parts(rule))]
            excluded = [(row, document) for row, document in rows if source.excludes_uri(document.uri)]
            self.ledger.change(ROOT, [row for row, _ in excluded], [])
            for _, document in excluded:  # so that the file is read again when it is restored
                self.ledger.reset_file(document.file)

    def _changed_file(self, source: IndexedSource, uri: str, path: Path) -> ReadingJob | None:
        """Return the job for a file that has changed; count another one."""
        try:
            stamp = self._stamp(source, uri, path)
        except OSError as error:
            self.result.failed[uri] = f"{path}: {error.strerror or error}"
            return None
        previous = self.stamps[source.name].get(uri)
        if previous == self._limit_stamp(stamp) and uri in self.failed_before and not self.reread:
            self.result.failed[uri] = self.failed_before[uri]
            return None
        if previous == stamp and uri not in self.failed_before and not self.reread:
            self.result.unchanged += 1
            return None
        return ReadingJob(path, uri, stamp)

    def _store_outcome(self, source: IndexedSource, job: ReadingJob, outcome: Outcome) -> None:
        """Store the documents of a file, or its error."""
        if isinstance(outcome, SourceError):
            self.result.failed[job.uri] = str(outcome)
            if isinstance(outcome, LimitExceeded):
                self.ledger.record_file(job.uri, source.name, self._limit_stamp(job.stamp))
            return
        self._store_read(source, job.uri, outcome or [])
        self.ledger.record_file(job.uri, source.name, job.stamp)

    def _limit_stamp(self, stamp: str) -> str:
        """Return the stamp of a file over a limit."""
        return hash_parts(stamp, repr(self.reader.limits))

    def _store_read(self, source: IndexedSource, uri: str, documents: list[Document]) -> None:
        """Store the documents of a file and count it."""
        self.result.read += 1
        self.result.empty += [] if documents else [uri]
        if url := self.urls.get(uri):
            documents = [replace(each, metadata={**each.metadata, "url": url}) for each in documents]
        included = [document for document in documents if not source.excludes_uri(document.uri)]
        self.result.partial += [f"{d.uri}: {note}" for d in included if (note := describe_unread(d))]
        had_documents, differs = self.store(uri, included, new=uri not in self.stamps[source.name])
        self.result.new += bool(included) and not had_documents
        self.result.changed += bool(documents) and had_documents and differs

    def _stamp(self, source: IndexedSource, uri: str, path: Path) -> str:
        """Return a digest that changes when the file may read differently."""
        stat = path.stat()
        rules = [rule for rule in source.rules if rule.removeprefix("!").startswith(f"{uri}#")]
        rules += [self.urls[uri]] if uri in self.urls else []
        return hash_parts(self.code(path.suffix.lower()), str(stat.st_size), str(stat.st_mtime_ns), *rules)

    def store(self, uri: str, documents: list[Document], *, new: bool = False) -> tuple[bool, bool]:
        """Replace the documents of one file; without documents, forget the file.

        Return whether it had documents, and whether anything changed.
        """
        old_rows = {row[0]: row for row in ([] if new else self.ledger.rows(ROOT).where(("file",), (uri,)))}
        had_documents = bool(old_rows)
        new_rows = [_storable_row(codec(Document).encode(document.id, document)) for document in documents]
        removed, added = list[Row](), list[Row]()
        diff_rows(old_rows, new_rows, removed, added)
        self.ledger.change(ROOT, removed, added)
        if not documents:
            self.ledger.forget_file(uri)
        return had_documents, bool(removed or added)


def _encode_uri_part(name: str) -> str:
    """Return the name as a part of a uri.

    It is composed (NFC), and # is encoded, so that the # before a row's id is the only one.
    """
    text = os.fsencode(name).decode("utf-8", "replace")
    return normalize("NFC", text).replace("%", "%25").replace("#", "%23")


def _is_within(uri: str, name: str) -> bool:
    """Return whether the uri is `name` or lies inside it."""
    if "#" in name:  # a row; its id may contain any character
        return uri == name
    return uri == name or uri.startswith((f"{name}/", f"{name}#"))


def _storable_row(row: Row) -> Row:
    """Return the row with text that SQLite can store."""
    return tuple(replace_surrogates(value) if isinstance(value, str) else value for value in row)
