"""table + text -> Context: protocols of the searches of methods, and of the stores behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

from kumihimo.core.context import Context
from kumihimo.core.table import Table, View
from kumihimo.llm.protocols import Vectors
from kumihimo.storage.database import Database
from kumihimo.text import lazy_numpy as np


@dataclass(frozen=True, slots=True)
class RowTokens:
    """The tokens of a row in the forward index.

    words: the hashes of its index tokens, in order. subwords: the distinct subwords of the built-in tokenizer, sorted.
    """

    words: np.NDArray[np.uint32]
    subwords: np.NDArray[np.uint16]


class KeywordSearch(Protocol):
    """Keyword search in a table: the best `k` rows, best first.

    text: or its index tokens without stopwords. tokens: the tokens of these rows, by id, if the table has a forward
    index; a row without text is left out.
    """

    def __call__(self, table: Table[Any], text: str | Sequence[str], *, k: int) -> Context: ...
    def tokens(self, table: Table[Any], ids: Sequence[str]) -> Mapping[str, RowTokens]: ...


class VectorSearch(Protocol):
    """Vector search in a table: the `k` rows with the highest cosine.

    The nearest come first. Several texts are searched by the mean of their vectors.
    candidate_ids: search only these rows; for a small number of rows.
    search_many: one search for each text; many texts cost little more than one.
    vectors: the stored vectors of these rows, by id; a row without one is left out.
    """

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context: ...
    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]: ...
    def vectors(self, table: Table[Any], ids: Collection[str]) -> Mapping[str, Any]: ...  # arrays of numpy


StoredVectors: TypeAlias = "np.NDArray[np.int8]"  # a row for each text: the direction of its vector, of any length
Matrices = Mapping[str, StoredVectors]  # table -> the vectors of one snapshot
VECTOR_INDEX = "vectors_"  # before the name of a table: of the index table and of its `meta` row
SCORE_MARGIN = 1e-5  # above the rounding error of a cosine


class VectorStore(Protocol):
    """The vectors of one table.

    A table with the columns slot and id names the row of each vector. The `meta` row of the index has the number of its
    `rows`, 0 while it has none, and of their `dimensions`.
    """

    @property
    def location(self) -> str: ...  # of their file; empty: they are beside the rows
    def is_complete(self) -> bool: ...  # so that rows can be added
    def create(self) -> None: ...  # empty, in place of an earlier one
    def remove(self, ids: Sequence[str]) -> None: ...
    def append(self, ids: Sequence[str], vectors: StoredVectors) -> None: ...
    def finish(self, *, erase: bool = False) -> None: ...  # make the vectors last; erase what removed rows left
    def find_damage(self, ids: set[str]) -> str: ...  # ids: of the rows with a vector; empty: no damage


class VectorReader(Protocol):
    """The vectors of one snapshot."""

    def nearest(self, table: Table[Any], questions: Vectors, k: int) -> Iterator[tuple[Sequence[str], StoredVectors]]:
        """Yield visible rows for each question, the best `k` among them."""

    def select(self, table: Table[Any], ids: Collection[str]) -> tuple[Sequence[str], StoredVectors]:
        """Return the visible rows among these, and their vectors."""


def encode_vectors(vectors: Vectors) -> StoredVectors:
    """Return the numbers to store; the largest of each vector is 127."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    return np.rint(vectors * (127 / np.where(largest, largest, 1))).astype(np.int8)


def unit_vectors(stored: StoredVectors) -> np.NDArray[np.float64]:
    """Return stored vectors with length 1, in double precision."""
    vectors = stored.astype(np.float64)
    lengths = np.sqrt((vectors * vectors).sum(axis=-1, keepdims=True))
    return np.asarray(vectors / np.where(lengths, lengths, 1))


K1, B = 1.2, 0.75  # of BM25
MIN_IDF = 1e-6  # of words that most rows have


class WordRow(NamedTuple):
    """A row of a full-text index.

    tokens: in their order. words, subwords: its entry in the forward index, or None.
    """

    id: str
    tokens: list[str]
    words: bytes | None
    subwords: bytes | None


@dataclass(frozen=True)
class Slots:
    """The places in a search index whose rows a view shows as they are stored."""

    visible: tuple[int, ...]

    @cached_property
    def array(self) -> np.NDArray[np.int64]:
        """Return the visible places as numbers of numpy, sorted."""
        return np.array(self.visible, dtype=np.int64)


def visible_slots(db: Database, slot_table: str, view: View | None) -> Slots | None:
    """Return the visible places of an index, found once; None: all.

    slot_table: has the columns slot and id.
    """

    def find() -> Slots:
        rows = db.all(f"SELECT slot, id FROM {db.relation(slot_table)} ORDER BY slot")
        return Slots(tuple(slot for slot, id in rows if view and view.is_whole(id)))

    return view.once(slot_table, find) if view else None
