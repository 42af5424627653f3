"""rows with vectors -> a search index in a store: what building and searching need of it.

A stored number is a component of a vector of length 1, times 32,767: the error of a cosine is about 1e-5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kumihimo.core.table import Table
from kumihimo.llm.protocols import Vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

StoredVectors: TypeAlias = "NDArray[np.int16]"  # a row for each text
Matrices = Mapping[str, StoredVectors]  # table -> the vectors of one snapshot
VECTOR_INDEX = "vectors_"  # before the name of a table: of the index table and of its `meta` row
VECTOR_SCALE = 32_767
NUMBER_BYTES = 2
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
    def finish(self) -> None: ...  # make the vectors last
    def erase(self) -> None: ...  # what removed rows left
    def find_damage(self, ids: set[str]) -> str: ...  # ids: of the rows with a vector; empty: no damage


class VectorReader(Protocol):
    """The vectors of one snapshot."""

    def nearest(self, table: Table[Any], questions: Vectors, k: int) -> Iterator[tuple[Sequence[str], StoredVectors]]:
        """Yield visible rows for each question, the best `k` among them."""

    def select(self, table: Table[Any], ids: Collection[str]) -> tuple[Sequence[str], StoredVectors]:
        """Return the visible rows among these, and their vectors."""


def encode_vectors(vectors: Vectors) -> StoredVectors:
    """Return the numbers to store for vectors of length 1."""
    import numpy as np

    return np.clip(np.rint(vectors * VECTOR_SCALE), -VECTOR_SCALE, VECTOR_SCALE).astype("<i2")
