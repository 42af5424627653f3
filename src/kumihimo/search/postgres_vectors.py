"""one table's vectors -> rows of PostgreSQL: searched exactly, or by an index of pgvector where there are many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kumihimo.core.table import Table
from kumihimo.llm.protocols import Vectors
from kumihimo.search.protocols import VECTOR_INDEX, StoredVectors, unit_vectors, visible_slots
from kumihimo.search.vector_files import MatrixReader
from kumihimo.storage.database import Database
from kumihimo.text import lazy_numpy as np

_MAX_DIMENSIONS = 4000  # of an index of pgvector; longer vectors are compared one by one
MIN_INDEXED = 50_000  # rows; fewer are compared one by one
_MAX_SEARCHED = 1000  # rows that pgvector's HNSW looks at for a question
_PAGE_ROWS = 5000


@dataclass(slots=True)
class PostgresVectors:
    """The `VectorStore` of one table in PostgreSQL.

    `vectors_X_near` has the same vectors in half precision, with an HNSW index, once there are many.
    """

    db: Database
    table: str
    free_slots: list[int] = field(default_factory=list)  # below `next_slot`
    next_slot: int = -1

    @property
    def name(self) -> str:
        return VECTOR_INDEX + self.table

    @property
    def near(self) -> str:
        return f"{self.name}_near"

    @property
    def location(self) -> str:
        return ""

    def is_complete(self) -> bool:
        return self.db.has(self.name)

    def create(self) -> None:
        integer, text, data = (self.db.types[kind] for kind in ("INTEGER", "TEXT", "BLOB"))
        columns = f"slot {integer} PRIMARY KEY, id {text} UNIQUE NOT NULL, vector {data} NOT NULL"
        self.db.create_table(self.name, columns)
        self.db.drop_table(self.near)
        self.free_slots, self.next_slot = [], 0
        self._set_state(rows=0, dimensions=0)

    def remove(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        slots = [
            slot
            for (slot,) in self.db.all_in(f"DELETE FROM {self.db.relation(self.name)} WHERE id", ids, "RETURNING slot")
        ]
        if self.db.has(self.near):
            self.db.run(f"DELETE FROM {self.db.relation(self.near)} WHERE slot = ANY(?)", slots)
        self.next_slot = -1  # look for free places again

    def append(self, ids: Sequence[str], vectors: StoredVectors) -> None:
        slots = [self._take_slot() for _ in ids]
        rows = [(slot, id, vector.tobytes()) for slot, id, vector in zip(slots, ids, vectors, strict=True)]
        self.db.insert(self.name, ("slot", "id", "vector"), rows)
        if self.db.has(self.near):
            self.db.insert(self.near, ("slot", "vector"), zip(slots, map(_as_text, unit_vectors(vectors)), strict=True))
        self._set_state(rows=self._state()["rows"] + len(ids), dimensions=vectors.shape[1])

    def _take_slot(self) -> int:
        """Return a free place; those of removed rows come first."""
        if self.next_slot < 0:
            relation = self.db.relation(self.name)
            count, self.next_slot = self.db.all(f"SELECT count(*), coalesce(max(slot) + 1, 0) FROM {relation}")[0]
            used = {slot for (slot,) in self.db.all(f"SELECT slot FROM {relation}")} if count < self.next_slot else {}
            self.free_slots = [slot for slot in range(self.next_slot) if slot not in used][::-1] if used else []
        if self.free_slots:
            return self.free_slots.pop()
        self.next_slot += 1
        return self.next_slot - 1

    def finish(self, *, erase: bool = False) -> None:  # noqa: ARG002 (a removed row has no vector)
        """Make the index of pgvector as soon as there are many rows."""
        dimensions = self._state()["dimensions"]
        if self.db.has(self.near) or self.db.rows(self.name).count() < MIN_INDEXED or dimensions > _MAX_DIMENSIONS:
            return
        self.db.run("CREATE EXTENSION IF NOT EXISTS vector")
        self.db.create_table(self.near, f"slot {self.db.types['INTEGER']} PRIMARY KEY, vector halfvec({dimensions})")
        for page in self._pages():
            self.db.insert(
                self.near, ("slot", "vector"), ((slot, _as_text(unit_vectors(_decode(data)))) for slot, data in page)
            )
        self.db.run("SET LOCAL maintenance_work_mem = '1GB'")
        self.db.run(f"CREATE INDEX ON {self.db.relation(self.near)} USING hnsw (vector halfvec_ip_ops)")

    def _pages(self) -> Iterator[list[Any]]:
        last = -1
        relation = self.db.relation(self.name)
        query = f"SELECT slot, vector FROM {relation} WHERE slot > ? ORDER BY slot LIMIT {_PAGE_ROWS}"
        while page := self.db.all(query, last):
            yield page
            last = page[-1][0]

    def find_damage(self, ids: set[str]) -> str:
        """Return what is wrong with the vectors; empty: nothing."""
        size = self._state()["dimensions"]
        relation = self.db.relation(self.name)
        if {id for (id,) in self.db.all(f"SELECT id FROM {relation}")} != ids:
            return f"its rows are not those of {self.table}"
        valid = all(len(data) == size and any(data) for page in self._pages() for _, data in page)
        return "" if valid else "it holds vectors of another length, or that are zero"

    def _state(self) -> dict[str, Any]:
        return dict(self.db.meta(self.name, {}))

    def _set_state(self, **values: int) -> None:
        self.db.set_meta(self.name, {**self._state(), **values})


@dataclass(frozen=True, slots=True)
class PostgresReader:
    """A `VectorReader` of PostgreSQL."""

    db: Database

    def nearest(self, table: Table[Any], questions: Vectors, k: int) -> Iterator[tuple[Sequence[str], StoredVectors]]:
        if not self.db.has(f"{VECTOR_INDEX}{table.name}_near"):
            yield from MatrixReader(self.db, LoadedMatrices(self.db)).nearest(table, questions, k)
            return
        for question in questions:
            yield self._search(table, question, 2 * k + 16)

    def _search(self, table: Table[Any], question: Vectors, count: int) -> tuple[Sequence[str], StoredVectors]:
        """Return the nearest visible rows.

        Rows that a view hides are no reason to miss others: then every visible row is compared.
        """
        name = VECTOR_INDEX + table.name
        slots = visible_slots(self.db, name, table.view)
        near = self.db.relation(f"{name}_near")
        values: list[object] = [_as_text(question)]
        if slots is None and count <= _MAX_SEARCHED:
            self.db.run(f"SET LOCAL hnsw.ef_search = {min(_MAX_SEARCHED, 4 * count)}")
            nearest = f"SELECT slot FROM {near} ORDER BY vector <#> ?::halfvec LIMIT {count}"
        else:
            condition = "WHERE slot = ANY(?)" if slots else ""
            values = [list(slots.visible), *values] if slots else values
            nearest = f"SELECT slot FROM {near} {condition} ORDER BY (vector <#> ?::halfvec) + 0 LIMIT {count}"
        query = f"SELECT id, vector FROM ({nearest}) AS nearest JOIN {self.db.relation(name)} USING (slot)"
        return self._stack(name, self.db.all(query, *values))

    def select(self, table: Table[Any], ids: Collection[str]) -> tuple[Sequence[str], StoredVectors]:
        name = VECTOR_INDEX + table.name
        rows = self.db.all_in(f"SELECT id, vector FROM {self.db.relation(name)} WHERE id", list(ids))
        return self._stack(name, [(id, data) for id, data in rows if table.view is None or table.view.is_whole(id)])

    def _stack(self, name: str, rows: Sequence[tuple[Any, ...]]) -> tuple[list[str], StoredVectors]:

        matrix = _decode(b"".join(data for _, data in rows))
        return [id for id, _ in rows], matrix.reshape(len(rows), self.db.meta(name)["dimensions"])


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Vectors in memory; weight: the number of rows."""

    matrix: StoredVectors
    weight: int


class LoadedMatrices(dict[str, StoredVectors]):
    """The vectors of a snapshot by table, read once for each build."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def __missing__(self, table: str) -> StoredVectors:
        name = VECTOR_INDEX + table
        return self.db.once_per_build(name, lambda: self._load(name)).matrix

    def _load(self, name: str) -> _Loaded:
        rows = self.db.all(f"SELECT slot, vector FROM {self.db.relation(name)}")
        size = 1 + max((slot for slot, _ in rows), default=-1)
        matrix = np.zeros((size, self.db.meta(name)["dimensions"]), dtype=np.int8)
        for slot, data in rows:
            matrix[slot] = _decode(data)
        return _Loaded(matrix, size)


def _decode(data: bytes) -> StoredVectors:
    return np.frombuffer(data, dtype=np.int8)


def _as_text(vector: np.ndarray[Any, Any]) -> str:
    """Return a vector of length 1 as pgvector reads it."""
    return "[" + ",".join(f"{number:.6g}" for number in vector.tolist()) + "]"
