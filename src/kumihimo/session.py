"""a folder -> Kumihimo: index, remove, ask, retrieve, trace, status. Every interface uses only this."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from unicodedata import unidata_version

from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import SourceError, Unusable
from kumihimo.core.flow import Progress, build, watch
from kumihimo.core.records import Reference, Span, digest
from kumihimo.core.settings import Setting, Values, resolve
from kumihimo.core.table import codec
from kumihimo.index import STEPS
from kumihimo.methods import METHODS
from kumihimo.ports import config
from kumihimo.ports.ledger import SqlLedger
from kumihimo.ports.local import LocalEmbedder, LocalRuler
from kumihimo.ports.memo import Memo
from kumihimo.ports.store import Db, SqlRows, Store
from kumihimo.reading import KINDS, Reading, method
from kumihimo.views.upkeep import View, kept
from kumihimo.views.vectors import Mapped, VectorIndex, matrices, sweep
from kumihimo.views.words import WordIndex

if TYPE_CHECKING:
    from kumihimo.index.documents import Source

SETTINGS: Mapping[str, Mapping[str, Setting]] = {n: s.settings for n, s in {**STEPS, **METHODS}.items()}
SUMMARIES = {n: s.summary for n, s in {**STEPS, **METHODS}.items()}


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. Files: read, unchanged, gone, of no kind we read. failed: (step, item, why).

    before, rows: how many rows each table had and has; written: how many were put into it, new or changed.
    """

    read: int
    same: int
    gone: int
    skipped: tuple[str, ...]
    before: Mapping[str, int]
    rows: Mapping[str, int]
    written: Mapping[str, int]
    failed: tuple[tuple[str, str, str], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Status:
    """What the index holds."""

    folder: str
    sources: Mapping[str, str]  # name -> path
    removed: tuple[str, ...]  # uris taken out of a source
    rows: Mapping[str, int]
    methods: tuple[str, ...]
    models: Mapping[str, str]
    settings: Mapping[str, object]  # of the steps, as the tables were built with; those that are not the default
    failed: tuple[tuple[str, str, str], ...]
    bytes: int
    memo: Mapping[str, int] = field(default_factory=dict)


class Kumihimo:
    """One index.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     note = Path(folder, "note.txt")
    ...     _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...     with Kumihimo.open(Path(folder, ".kumi")) as kumi:
    ...         built = kumi.index(note)
    ...         print(kumi.ask("When does the ferry leave?").text)
    “The ferry leaves at nine.” [1]
    """

    def __init__(self, folder: str | Path, *settings: Values) -> None:
        self.folder = Path(folder)
        self.settings = resolve(SETTINGS, *settings)
        self.store = Store(self.folder)
        self.embedder, self.ruler = LocalEmbedder(), LocalRuler()
        self._files: Mapped = {}

    @classmethod
    def open(cls, folder: str | Path = ".kumi", *, settings: Values | None = None) -> Kumihimo:
        """The index in that folder, made when first indexed into. Settings: kumi.toml beside it, environment, these."""
        beside = Path(folder).resolve().parent / "kumi.toml"
        environment = config.from_environment(SETTINGS, os.environ)
        return cls(folder, config.from_file(beside), environment, settings or {})

    def __enter__(self) -> Kumihimo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()
        if "remembered" in self.__dict__:
            self.remembered.close()

    # -- building

    def index(
        self,
        *paths: str | Path,
        methods: Sequence[str] = (),
        wait: bool = False,
        check: bool = False,
        progress: Progress | None = None,
    ) -> Built:
        """Add or refresh these files and folders; with none, refresh all that the index remembers.

        methods: those to build for, remembered (first: all that cost nothing). wait: for another build to end, else
        Busy is raised. check: read files again even where size and time are the same.
        """
        from kumihimo.index.documents import named, place

        for name in methods:
            method(name)
        places = [named(path) for path in paths]
        if not paths and not self.store.path.exists():
            raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
        with self.store.building(wait=wait) as db:
            known = self._sources(db)
            names = place(known, places) or set(known)
            if not known:
                raise SourceError("nothing to index yet: say which folder, `kumi index PATH`")
            wanted = list(methods) or db.meta("methods") or list(METHODS)
            return self._build(db, known, names, wanted, check=check, progress=progress)

    def remove(
        self, target: str | Path, *, forget: bool = False, wait: bool = False, progress: Progress | None = None
    ) -> Built:
        """Take out a source (by name or path), or documents (by uri or path), until they are indexed by name again.

        forget: also erase from the memo what only they needed.
        """
        from kumihimo.index.documents import take_out

        with self.store.reading():
            pass  # where there is no index, nothing is made
        with self.store.building(wait=wait) as db:
            known = self._sources(db)
            names = take_out(db, known, str(target))
            built = self._build(db, known, names, db.meta("methods", []), progress=progress)
        if forget:
            self.prune(wait=wait)
        return built

    def _build(
        self,
        db: Db,
        known: dict[str, Source],
        names: set[str],
        wanted: Sequence[str],
        *,
        check: bool = False,
        progress: Progress | None = None,
        code: str = "",
        mark: str = "",
    ) -> Built:
        from kumihimo.index.documents import refresh

        began = perf_counter()
        code = code or code_digest("core", "ports", "views", "index")
        before = _counts(db)
        sweep(db, self.folder)
        ledger = SqlLedger(db)
        watch(STEPS, ledger)
        with kept(ledger, self._views(db, wanted), mark or code_digest("core", "views"), progress):
            found = refresh(ledger, known.values(), names, code=code, check=check, progress=progress)
            build(STEPS, ledger, settings=self.settings, ports={"ruler": self.ruler}, code=code, progress=progress)
        db.set_meta("methods", list(wanted))
        db.set_meta("models", {"embedder": self.embedder.mark, "tokenizer": self.ruler.mark})
        db.set_meta("sources", {s.name: [self._kept(s.path), list(s.rules)] for s in known.values()})
        db.set_meta("settings", {name: self.settings[name] for name in STEPS})
        seconds = perf_counter() - began
        files = (found.read, found.same, found.gone, tuple(found.skipped))
        return Built(*files, before, _counts(db), ledger.written, _failed(db), seconds)

    def _views(self, db: Db, wanted: Sequence[str]) -> list[View]:
        """What the wanted methods search."""
        asked = [METHODS[name] for name in wanted]
        words = dict.fromkeys(table for s in asked if "match" in s.ports for table in s.tables)
        vectors = dict.fromkeys(table for s in asked if "near" in s.ports for table in s.tables)
        return [
            *(WordIndex(db, table, codec(KINDS[table])) for table in words),
            *(VectorIndex(db, self.folder, table, codec(KINDS[table]), self.embedder) for table in vectors),
        ]

    def _sources(self, db: Db) -> dict[str, Source]:
        from kumihimo.index.documents import Source

        base = self.folder.resolve().parent
        held = db.meta("sources", {})
        return {name: Source(name, base / path, tuple(rules)) for name, (path, rules) in held.items()}

    def _kept(self, path: Path) -> str:
        """The path as it is remembered: relative where it lies beside the index, so that both can be moved."""
        with suppress(ValueError):
            return path.relative_to(self.folder.resolve().parent).as_posix()
        return str(path)

    # -- reading

    @contextmanager
    def reading(self) -> Iterator[Reading]:
        """One read transaction: all that is asked within sees the same finished build."""
        for _ in range(5):
            with self.store.reading() as db:
                try:
                    vectors = matrices(db, self.folder, self._files)
                except FileNotFoundError:  # a build has just replaced them: begin again, and see what it made
                    continue
                yield Reading(db, self.settings, self.embedder, self.ruler, vectors)
                return
        raise Unusable(f"the vectors of {self.folder} are missing: `kumi index` makes them again")

    def retrieve(self, question: str, method: str = "", **settings: object) -> Context:
        """What the method finds, best first; settings are the method's own, such as k=5."""
        with self.reading() as reading:
            return reading.retrieve(question, method, **settings)

    def ask(self, question: str, method: str = "", **settings: object) -> Answer:
        """The answer, and where each part of it stands."""
        with self.reading() as reading:
            return reading.ask(question, method, **settings)

    def trace(self, reference: str | Reference) -> list[Span]:
        """Where a row stands in the documents: by id, or by (table, id)."""
        with self.reading() as reading:
            found = reading.find(reference).reference if isinstance(reference, str) else reference
            return list(reading.trace(found))

    def status(self) -> Status:
        """What the index holds, what failed, how large it is."""
        with self.store.reading() as db:
            known = self._sources(db)
            size = sum(_size(path) for path in self.folder.rglob("*"))
            return Status(
                folder=str(self.folder),
                sources={source.name: str(source.path) for source in known.values()},
                removed=tuple(rule for source in known.values() for rule in source.rules if not rule.startswith("!")),
                rows=_counts(db),
                methods=tuple(db.meta("methods", [])),
                models=db.meta("models", {}),
                settings=_changed(db.meta("settings", {})),
                failed=_failed(db),
                bytes=size,
                memo=self.memo(),
            )

    # -- the memo

    @cached_property
    def remembered(self) -> Memo:
        """What models have said to this index, beside it."""
        return Memo(self.folder / "memo.db")

    def memo(self) -> dict[str, int]:
        """How many replies are remembered, their bytes, and how often they could answer."""
        if not (self.folder / "memo.db").exists():
            return {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}
        replies, size = self.remembered.size()
        return {"replies": replies, "bytes": size, **self.remembered.totals()}

    def prune(self, *, wait: bool = False) -> int:
        """Erase the replies that building this index anew would not use; gives how many.

        It is built anew to find out, and what that made is thrown away.
        """
        if not (self.folder / "memo.db").exists():
            return 0
        used = self.remembered.used = set()
        with suppress(_Undone), self.store.building(wait=wait) as db:
            self._build(db, self._sources(db), set(), db.meta("methods", []), code="prune", mark="prune")
            raise _Undone
        self.remembered.used = None
        return self.remembered.prune(used)


class _Undone(Exception):
    """Leaves a build without keeping it."""


_DECIDE = ("charset-normalizer", "numpy", "nupunkt", "selectolax", "tokenizers", "wordllama")  # what is in a table, too


@cache
def code_digest(*rooms: str) -> str:
    """The digest of the code and prompts in these rooms, and of the libraries that decide what they make."""
    from importlib.metadata import version

    house = Path(__file__).parent
    files = sorted(path for room in rooms for end in ("py", "md") for path in (house / room).rglob(f"*.{end}"))
    libraries = [f"{name} {version(name)}" for name in _DECIDE] + [unidata_version]
    return digest(*libraries, *(part for path in files for part in (path.name, path.read_text(encoding="utf-8"))))


def _changed(settings: Values) -> dict[str, object]:
    named = {(scope, name): value for scope in settings for name, value in settings[scope].items()}
    return {f"{s}.{n}": v for (s, n), v in named.items() if n in SETTINGS[s] and SETTINGS[s][n].default != v}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:  # a build has just removed it
        return 0


def _counts(db: Db) -> dict[str, int]:
    return {table: SqlRows(db, table).count() for table in KINDS if db.has(table)}


def _failed(db: Db) -> tuple[tuple[str, str, str], ...]:
    return tuple(db.all("SELECT step, maker, error FROM failed ORDER BY step, maker"))
