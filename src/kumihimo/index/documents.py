"""sources -> documents: find files that are new, changed or removed since the last build."""

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from stat import S_ISDIR

from kumihimo.core import engine, task, wiring
from kumihimo.core.digests import hash_parts, replace_surrogates
from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.core.executors import BuildExecutor, SharedWork, inline, run_jobs
from kumihimo.core.records import Document
from kumihimo.core.table import Row, codec
from kumihimo.index.sources import IndexedSource, is_within
from kumihimo.readers.documents import describe_unread, has_reader
from kumihimo.readers.file_reader import FileReader, Outcome, ReadingJob, ReadingSpec
from kumihimo.readers.limits import ReadingLimits
from kumihimo.readers.remote.mirror import Mirror
from kumihimo.storage.ledger import SqlLedger


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
    readers: Mapping[str, wiring.FileType],
    require_trust: Callable[[Iterable[Path]], None],
    code: Callable[[str], str],
    limits: ReadingLimits,
    reread: bool = False,
    progress: task.Progress | None = None,
    executor: BuildExecutor = inline,
) -> RefreshResult:
    """Update `documents` from the sources in `names`; drop documents of removed sources.

    require_trust: raises an error for paths that may not be read. code: a hash of the reading code of a suffix. Skip a
    file whose size, time and code are the same, unless `reread`. An unreadable file keeps its earlier documents, and
    its error stays listed until a read succeeds. A file over a limit is read again only when it or the limits change.
    """
    by_name = {source.name: source for source in sources}
    if ledger.ensure_table(wiring.ROOT, codec(Document)):  # the columns have changed: read every file again
        for source in by_name.values():
            source.files()  # a missing source stops the build here, before anything is deleted
        ledger.forget_files()
        names = by_name
    scan = _SourceScan(ledger, FileReader(readers, limits), cache(code), reread, executor, ledger.failures(wiring.ROOT))
    scanned = [by_name[name] for name in sorted(by_name.keys() & set(names))]
    require_trust(source.path for source in scanned)
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
    ledger.record_failures(wiring.ROOT, failed.items())
    ledger.settle(wiring.ROOT)
    return scan.result


@dataclass(slots=True)
class _SourceScan:
    """A scan. stamps: source -> file uri -> stamp. urls: uri of a fetched file -> address."""

    ledger: SqlLedger
    reader: FileReader
    code: Callable[[str], str]
    reread: bool
    executor: BuildExecutor
    failed_before: dict[str, str]
    result: RefreshResult = field(default_factory=RefreshResult)
    stamps: defaultdict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    urls: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for uri, source, stamp in self.ledger.files():
            self.stamps[source][uri] = stamp

    def scan_source(self, source: IndexedSource, progress: task.Progress | None) -> None:
        """Read the new and changed files of a source."""
        try:
            files = source.files()
        except SourceError as error:
            self.result.failed[source.name] = str(error)
            return
        mirror = Mirror.load(source.path)
        self.urls = {f"{source.name}/{name}": file.url for name, file in mirror.files.items()}
        unreadable_folders = list[str]()
        work = SharedWork(self.reader.try_read, ReadingSpec(self.reader.limits))
        for job, outcome in run_jobs(self.executor, work, self._jobs(source, files, unreadable_folders, progress)):
            if outcome is None:  # the other machine does not have this file
                outcome = self.reader.try_read(job)[1]
            self._store_outcome(source, job, outcome)
        self.result.failed |= {f"{source.name}/{name}".rstrip("/"): error for name, error in mirror.failed.items()}
        self.result.skipped += [f"{source.name}/{name}" for name in mirror.skipped]
        for uri in self.stamps[source.name]:
            if uri not in files and not any(is_within(uri, folder) for folder in unreadable_folders):
                self.remove(uri)

    def _jobs(
        self,
        source: IndexedSource,
        files: Mapping[str, Path],
        unreadable_folders: list[str],
        progress: task.Progress | None,
    ) -> Iterator[ReadingJob]:
        """Yield the files to read; count the others, and list folders."""
        for position, (uri, path) in enumerate(files.items(), 1):
            status = _read_status(path)
            if isinstance(status, os.stat_result) and S_ISDIR(status.st_mode):
                self.result.failed[uri] = f"{path} cannot be read: allow it, or list it in .kumiignore"
                unreadable_folders.append(uri)
            elif not has_reader(path, self.reader.readers):
                self.result.skipped.append(uri)
            elif isinstance(status, OSError):
                self.result.failed[uri] = f"{path}: {status.strerror or status}"
            elif job := self._changed_file(source, uri, path, status):
                yield job
            if progress:
                progress(task.ProgressEvent(wiring.ROOT, position, len(files)))

    def remove(self, uri: str) -> None:
        """Remove a file's documents and count it as removed."""
        self.result.removed += 1
        self.store(uri, [])

    def remove_excluded(self, source: IndexedSource) -> None:
        """Remove excluded documents now, whether or not the source is readable."""
        for rule in source.rules:
            rows = [(row, codec(Document).decode(row)) for row in self.ledger.documents_at(rule, hash_parts(rule))]
            excluded = [(row, document) for row, document in rows if source.excludes_uri(document.uri)]
            self.ledger.change(wiring.ROOT, [row for row, _ in excluded], [])
            for _, document in excluded:  # so that the file is read again when it is restored
                self.ledger.reset_file(document.file)

    def _changed_file(self, source: IndexedSource, uri: str, path: Path, status: os.stat_result) -> ReadingJob | None:
        """Return the job for a file that has changed; count another one."""
        stamp, previous = self._stamp(source, uri, path, status), self.stamps[source.name].get(uri)
        if uri in self.failed_before and not self.reread and previous == self._limit_stamp(stamp):
            self.result.failed[uri] = self.failed_before[uri]
            return None
        if previous == stamp and uri not in self.failed_before and not self.reread:
            self.result.unchanged += 1
            return None
        return ReadingJob(path, uri, stamp, status.st_size)

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

    def _stamp(self, source: IndexedSource, uri: str, path: Path, stat: os.stat_result) -> str:
        """Return a digest that changes when the file may read differently."""
        rules = [rule for rule in source.rules if rule.removeprefix("!").startswith(f"{uri}#")]
        rules += [self.urls[uri]] if uri in self.urls else []
        return hash_parts(self.code(path.suffix.lower()), str(stat.st_size), str(stat.st_mtime_ns), *rules)

    def store(self, uri: str, documents: list[Document], *, new: bool = False) -> tuple[bool, bool]:
        """Replace the documents of one file; without documents, forget the file.

        Return whether it had documents, and whether anything changed.
        """
        old_rows = {row[0]: row for row in ([] if new else self.ledger.rows(wiring.ROOT).where(("file",), (uri,)))}
        had_documents = bool(old_rows)
        new_rows = [_storable_row(codec(Document).encode(document.id, document)) for document in documents]
        removed, added = list[Row](), list[Row]()
        engine.diff_rows(old_rows, new_rows, removed, added)
        self.ledger.change(wiring.ROOT, removed, added)
        if not documents:
            self.ledger.forget_file(uri)
        return had_documents, bool(removed or added)


def _read_status(path: Path) -> os.stat_result | OSError:
    try:
        return path.stat()
    except OSError as error:
        return error


def _storable_row(row: Row) -> Row:
    """Return the row with text that SQLite can store."""
    return tuple(replace_surrogates(value) if isinstance(value, str) else value for value in row)
