"""question vectors + a matrix of stored vectors -> the nearest rows, exactly."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kumihimo.core.table import Table
from kumihimo.llm.protocols import Vectors
from kumihimo.search.protocols import SCORE_MARGIN, VECTOR_INDEX, Matrices, StoredVectors, visible_slots
from kumihimo.storage.database import Database

BLOCK_ROWS = 256  # so few rows that BLAS uses one thread: on a busy machine threads wait for each other


def _find_lengths(matrix: StoredVectors) -> Vectors:
    """Return the lengths of vectors, in a column; 1 for none."""
    import numpy as np

    blocks = (matrix[i : i + BLOCK_ROWS].astype(np.float32) for i in range(0, len(matrix), BLOCK_ROWS))
    lengths = np.sqrt(np.concatenate([np.einsum("ij,ij->i", block, block) for block in blocks]))[:, None]
    return np.where(lengths, lengths, np.float32(1))


@dataclass(frozen=True, slots=True)
class MatrixReader:
    """A `VectorReader` that compares a question with every row.

    matrices: the vectors of the snapshot, by slot.
    """

    db: Database
    matrices: Matrices

    def nearest(self, table: Table[Any], questions: Vectors, k: int) -> Iterator[tuple[Sequence[str], StoredVectors]]:
        import numpy as np

        matrix = np.asarray(self.matrices[table.name])  # slices of a memmap are slower
        scores = np.empty((len(matrix), len(questions)), dtype=np.float32)
        for i in range(0, len(matrix), BLOCK_ROWS):
            np.matmul(matrix[i : i + BLOCK_ROWS].astype(np.float32), questions.T, out=scores[i : i + BLOCK_ROWS])
        name = VECTOR_INDEX + table.name
        scores /= self.db.once_per_build(("lengths", name), lambda: _find_lengths(matrix))
        for column in np.ascontiguousarray(scores.T):
            slots = self._nearest_slots(table, column, k)
            yield list(slots.values()), matrix[list(slots)]

    def _nearest_slots(self, table: Table[Any], scores: Vectors, k: int) -> dict[int, str]:
        """Return ids by slot: at least the best `k` visible rows."""
        import numpy as np

        name, ids = VECTOR_INDEX + table.name, dict[int, str]()
        slots = visible_slots(self.db, name, table.view)
        places = slots.array if slots else np.arange(len(scores))
        scores = scores[places] if slots else scores
        count = min(len(scores), 2 * k + 16)
        query = f"SELECT slot, id FROM {self.db.relation(name)} WHERE slot"
        while count:
            threshold = np.partition(scores, -count)[-count] - SCORE_MARGIN
            ids = dict(self.db.all_in(query, places[scores >= threshold].tolist()))
            if len(ids) >= k or count == len(scores):
                break
            count = min(len(scores), count * 4)
        return ids

    def select(self, table: Table[Any], ids: Collection[str]) -> tuple[Sequence[str], StoredVectors]:
        query = f"SELECT slot, id FROM {self.db.relation(VECTOR_INDEX + table.name)} WHERE id"
        rows = [
            (slot, id) for slot, id in self.db.all_in(query, list(ids)) if table.view is None or table.view.is_whole(id)
        ]
        return [id for _, id in rows], self.matrices[table.name][[slot for slot, _ in rows]]
