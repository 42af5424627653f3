"""one connection to an index -> rows, facts and savepoints, in the SQL that all stores share.

A table is named by `Database.relation`, for a store may keep several states of it.
"""

import json
import re
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any, ClassVar, TypeVar

from kumihimo.core.cancel import CancelToken, check_cancelled, locked
from kumihimo.core.errors import IndexUnavailable, NewerFormat
from kumihimo.core.redaction import redact
from kumihimo.core.table import MADE_FROM, Codec, Row
from kumihimo.storage.session import Connection, Session

T = TypeVar("T")
_MAX_VALUES = 64
_MAX_WEIGHT = 500_000  # rows that all values hold together: about 400 MB


@dataclass(slots=True)
class _Entry:
    """A value, and the lock of the thread that computes it."""

    lock: RLock = field(default_factory=RLock)
    value: Any = None
    is_computed: bool = False


@dataclass(slots=True)
class BuildMemory:
    """The values of the last two builds; those used last are kept.

    A value with many rows has an attribute `weight`, their number.
    """

    versions: tuple[Hashable, ...] = ()
    entries: OrderedDict[tuple[Hashable, Hashable], _Entry] = field(default_factory=OrderedDict)
    lock: Lock = field(default_factory=Lock)

    def get(self, version: Hashable, key: Hashable, compute: Callable[[], T], check: Callable[[], None]) -> T:
        """Return a value of a build, which one thread computes.

        check: raises if a thread that waits for the value is to stop.
        """
        entry = self._find(version, key)
        if not entry.is_computed:
            with locked(entry.lock, check):
                if not entry.is_computed:  # by another thread meanwhile
                    entry.value = compute()
                    entry.is_computed = True
        value: T = entry.value
        return value

    def _find(self, version: Hashable, key: Hashable) -> _Entry:
        with self.lock:
            if version not in self.versions:
                self.versions = (*self.versions[-1:], version)
                for old in [name for name in self.entries if name[0] not in self.versions]:
                    del self.entries[old]
            entry = self.entries.setdefault((version, key), _Entry())
            self.entries.move_to_end((version, key))
            weight = sum(getattr(other.value, "weight", 0) for other in self.entries.values())
            while len(self.entries) > 1 and (len(self.entries) > _MAX_VALUES or weight > _MAX_WEIGHT):
                _, oldest = self.entries.popitem(last=False)
                weight -= getattr(oldest.value, "weight", 0)
            return entry


PAGE_ROWS = 1000  # rows of one query


def check_format(version: int, newest: int, location: str, *, rebuild: bool = False) -> None:
    """Raise IndexUnavailable for an index of another version.

    rebuild: an older one is built again.
    """
    if version > newest:
        raise NewerFormat(
            f"the index in {location} has format {version}, this version reads up to {newest}: "
            f"upgrade with `pip install -U kumihimo`, or name a new index with `--index`"
        )
    if version < newest and not rebuild:
        raise IndexUnavailable(
            f"the index in {location} was built by an older version: run `kumi index --rebuild`; "
            "cached replies of models are kept"
        )


@dataclass(slots=True)
class Database(ABC):
    """A connection for all threads.

    A lock covers each statement and the reading of its rows.
    """

    types: ClassVar[Mapping[str, str]]  # kind of a column -> its type in SQL
    like: ClassVar[str]  # the operator of patterns in any case of ASCII letters

    connection: Connection
    lock: RLock = field(default_factory=RLock, kw_only=True)
    memory: BuildMemory = field(default_factory=BuildMemory, kw_only=True)  # of all connections of a store
    session: Session | None = field(default=None, kw_only=True)  # the transaction that is under way
    relations: dict[str, str] | None = field(default=None, kw_only=True)  # table -> its name in SQL, once looked up
    build: Hashable = field(default=None, kw_only=True)  # that the transaction reads, once looked up

    # -- statements: those of the connection, with errors that name a remedy

    def all(self, sql: str, *values: object) -> list[Row]:
        return self._guard(lambda: self.connection.all(sql, *values))

    def all_in(self, sql: str, values: Sequence[object], rest: str = "") -> list[Row]:
        return self._guard(lambda: self.connection.all_in(sql, values, rest)) if values else []

    def run(self, sql: str, *values: object) -> None:
        self._guard(lambda: self.connection.run(sql, *values))

    def many(self, sql: str, rows: Iterable[Sequence[object]]) -> None:
        self._guard(lambda: self.connection.many(sql, rows))

    def _guard(self, statement: Callable[[], T]) -> T:
        try:
            if self.session:
                return self.session.run(statement)
            with self.lock:
                return statement()
        except self.connection.error as error:
            raise self.explain(error) from error

    @abstractmethod
    def explain(self, error: Exception) -> Exception:
        """Return our error for one of the connection, with the remedy."""

    def close(self) -> None:
        """Close the connection once no statement is running."""
        with self.lock:
            if self.session:
                self.session.stop()
            self.connection.close()

    @abstractmethod
    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Insert many rows into a table."""

    def one(self, sql: str, *values: object) -> Row | None:
        return next(iter(self.all(sql, *values)), None)

    def paged(self, sql: str, *values: object, limit: int = 0) -> Iterator[list[Row]]:
        """Yield the rows page by page.

        The query ends with a condition `key > ?`, where `key` is its first column.
        """
        last_key = ""
        while page := self.all(f"{sql} ORDER BY 1 LIMIT {limit or PAGE_ROWS}", *values, last_key):
            last_key = page[-1][0]
            yield page

    # -- tables

    @abstractmethod
    def relation(self, table: str) -> str:
        """Return the name of a table in SQL."""

    @abstractmethod
    def has(self, table: str) -> bool: ...
    @abstractmethod
    def create_table(self, table: str, columns: str, *, by_key: bool = False) -> None:
        """Create an empty table in place of an earlier one.

        columns: in SQL. by_key: whether rows are stored in the order of their key, if the store can do that.
        """

    @abstractmethod
    def drop_table(self, table: str) -> None: ...
    @abstractmethod
    def create_rows(self, table: str, codec: Codec[Any]) -> None:
        """Create the table of the rows of a class."""

    @abstractmethod
    def rows_shape(self, table: str, codec: Codec[Any]) -> str:
        """Return what `create_rows` depends on, as text."""

    def has_columns_of(self, table: str, codec: Codec[Any]) -> bool:
        """Return whether a stored table has the columns of this version."""
        stored = self.one("SELECT shape FROM steps WHERE step = ?", table)
        return stored is None or str(stored[0]).startswith(self.rows_shape(table, codec))

    @abstractmethod
    def write_rows(self, table: str, codec: Codec[Any], old: list[Row], new: list[Row]) -> None:
        """Delete the old rows of a table, and insert the new ones."""

    @abstractmethod
    def index_rows(self, table: str, codec: Codec[Any]) -> None:
        """Create the indexes of a table that it lacks."""

    @abstractmethod
    def grouped(
        self, table: str, column: str, test: str, values: Sequence[str], limit: int | None = None
    ) -> list[tuple[str, Any]]:
        """Return each value with a column of its rows, sorted by id.

        test: in SQL, of a row and `v.value`. limit: the most rows for each value, the first ones.
        """

    @abstractmethod
    def glob(self, value: str, pattern: str) -> tuple[str, str]:
        """Return the test of a GLOB pattern, and its parameter."""

    def contains(self, value: str, text: str) -> tuple[str, str]:
        """Return the test of a part in any case, and its parameter.

        `!` stands before the signs of a pattern.
        """
        pattern = re.sub("[!%_]", r"!\g<0>", text)
        return f"{value} {self.like} ? ESCAPE '!'", f"%{pattern}%"

    def rows(self, table: str) -> "SqlRows":
        return SqlRows(self, table)

    def values(self, table: str, id: str, *columns: str) -> Sequence[Any]:
        names = ", ".join(f'"{column}"' for column in columns)
        return self.one(f"SELECT {names} FROM {self.relation(table)} WHERE id = ?", id) or (None,) * len(columns)

    def values_in(self, table: str, ids: Sequence[str], *columns: str) -> list[Row]:
        names = ", ".join(f'"{column}"' for column in columns)
        return self.all_in(f"SELECT {names} FROM {self.relation(table)} WHERE id", ids)

    # -- damage

    def find_damage(self) -> list[str]:
        """Return what is wrong with the files; a server checks its own."""
        return []

    # -- the transaction

    def begin(self, cancel: CancelToken | None = None, *, only_reads: bool = False) -> None:
        """Open the transaction of a question or a build.

        cancel: can stop it.
        """
        self.relations = self.build = None
        session = Session(self.connection, self.lock, only_reads, cancel)
        self._guard(session.begin)
        self.session = session

    def commit(self) -> None:
        """Commit the transaction, which no token stops any more."""
        session, self.session = self.session, None
        if session:
            self._guard(session.end)

    def released(self) -> AbstractContextManager[None]:
        """Hold no transaction inside the context, during an LLM call.

        The next statement opens it again, and raises IndexChanged if another build has ended meanwhile.
        """
        return self.session.released() if self.session else nullcontext()

    def locked(self) -> AbstractContextManager[object]:
        """Keep other threads from this connection."""
        return self.session.locked() if self.session else self.lock

    @contextmanager
    def rolled_back(self) -> Iterator[None]:
        """Undo every change made inside the context."""
        self.run("SAVEPOINT undone")
        try:
            yield
        finally:
            self.run("ROLLBACK TO undone")
            self.run("RELEASE undone")
            self.relations = None

    def check_cancelled(self) -> None:
        """Raise Cancelled if the command of this connection is to stop."""
        check_cancelled(self.session.cancel if self.session else None)

    def once_per_build(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return a computed value, the same until the index changes.

        For transactions that only read. All connections share it, so it must not hold this one.
        """
        if self.build is None:
            self.build = self._guard(self.connection.build_id)
        return self.memory.get(self.build, key, compute, self.check_cancelled)

    # -- facts about the index

    def meta(self, name: str, default: Any = None) -> Any:
        """Return a fact about the index, such as its sources or models."""
        row = self.one("SELECT value FROM meta WHERE name = ?", name)
        return default if row is None else json.loads(row[0])

    def set_meta(self, name: str, value: object) -> None:
        update = "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        self.run(f"INSERT INTO meta VALUES (?, ?) {update}", name, json.dumps(value, sort_keys=True))

    def forget_meta(self, name: str) -> None:
        self.run("DELETE FROM meta WHERE name = ?", name)

    def meta_names(self, *beginnings: str) -> list[str]:
        """Return the names of facts that begin so, sorted."""
        names = self.all("SELECT name FROM meta ORDER BY name")
        return [name for (name,) in names if name.startswith(beginnings)]

    def fingerprints(self) -> dict[str, str]:
        return dict(self.all("SELECT step, fingerprint FROM steps WHERE fingerprint IS NOT NULL"))

    def failures(self) -> tuple[tuple[str, str, str], ...]:
        rows = self.all("SELECT step, maker, error FROM failed ORDER BY step, maker")
        return tuple((step, item, error) for step, item, error in rows)

    def documents_with(self, key: str) -> list[tuple[str, Any]]:
        """Return (uri, value) of each document with this metadata key."""
        test, value = self.contains("metadata", json.dumps(key, ensure_ascii=False))
        rows = self.all(f"SELECT uri, metadata FROM {self.relation('documents')} WHERE {test} ORDER BY uri", value)
        documents = ((uri, json.loads(metadata)) for uri, metadata in rows)
        return [(uri, metadata[key]) for uri, metadata in documents if key in metadata]

    def record_failures(self, step: str, errors: Iterable[tuple[str, str | None]]) -> None:
        """Store the failed makers and their errors; None removes a maker."""
        entries = [(maker, error and redact(error)) for maker, error in errors]
        self.many("DELETE FROM failed WHERE step = ? AND maker = ?", ((step, maker) for maker, _ in entries))
        self.many("INSERT INTO failed VALUES (?, ?, ?)", ((step, maker, error) for maker, error in entries if error))


@dataclass(frozen=True, slots=True)
class SqlRows:
    """The raw rows of one table over one connection."""

    db: Database
    table: str

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        return self.db.all_in(f"SELECT * FROM {self.db.relation(self.table)} WHERE id", ids)

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        return self._select("*", columns, values)

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        return [id for (id,) in self._select("id", columns, values)]

    def _select(self, names: str, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        if columns == (MADE_FROM,):
            condition, values = "id > ? AND id < ?", (f"{values[0]}.", f"{values[0]}/")  # / follows . in ASCII
        else:
            tests = zip(columns, values, strict=True)
            condition = " AND ".join(f'"{column}" {"IS NULL" if value is None else "= ?"}' for column, value in tests)
        present = (value for value in values if value is not None)
        return self.db.all(
            f"SELECT {names} FROM {self.db.relation(self.table)} WHERE {condition} ORDER BY id", *present
        )

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        if column == MADE_FROM:
            return [(value, id) for value in sorted(values) for id in self.ids((column,), (value,))[:limit]]
        if limit is not None:
            return self.db.grouped(self.table, "id", f'"{column}" = v.value', values, limit)
        query = f'SELECT "{column}", id FROM {self.db.relation(self.table)} WHERE "{column}"'
        return self.db.all_in(query, values, f'ORDER BY "{column}", id')

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        children: dict[str, list[Any]] = {parent: [] for parent in parents}
        test = "id > v.value || '.' AND id < v.value || '/'"  # / follows . in ASCII
        for parent, child in self.db.grouped(self.table, column, test, parents):
            children[parent].append(child)
        return children

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        names = "*" if not columns else ", ".join(f'"{c}"' for c in ("id", *columns))
        for page in self.db.paged(f"SELECT {names} FROM {self.db.relation(self.table)} WHERE id > ?"):
            yield [row[1:] for row in page] if columns else page

    def count(self) -> int:
        return int(self.db.all(f"SELECT count(*) FROM {self.db.relation(self.table)}")[0][0])
