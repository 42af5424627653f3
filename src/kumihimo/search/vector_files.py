"""one table's vectors -> a file of 8-bit numbers beside index.db, mapped into memory.

The file only grows; a table in the index maps its rows to ids, in the same transaction as the data. So a reader of an
older build still finds its vectors, and the next build overwrites what a killed one appended. When half of the file is
unused, it is copied.
"""

import os
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from errno import ENOENT
from pathlib import Path
from typing import Any

from kumihimo.core.table import Table
from kumihimo.llm.protocols import Vectors
from kumihimo.search.protocols import SCORE_MARGIN, VECTOR_INDEX, Matrices, StoredVectors, visible_slots
from kumihimo.storage.database import Database
from kumihimo.text import lazy_numpy as np

_MIN_COPIED = 1000  # rows of a file that is copied when half of it is unused
MappedFiles = dict[tuple[Path, int], StoredVectors]  # (path, inode) -> the mapped file


@dataclass(frozen=True, slots=True)
class FileVectors:
    """The `VectorStore` of one table in an index folder."""

    db: Database
    folder: Path
    table: str

    @property
    def name(self) -> str:
        return VECTOR_INDEX + self.table

    @property
    def path(self) -> Path:
        return vector_path(self.folder, self.table, self._state())

    @property
    def location(self) -> str:
        return str(self.path)

    def is_complete(self) -> bool:
        """Return whether the file is complete; truncate surplus bytes.

        A killed build may have appended them.
        """
        state = self._state()
        expected = int(state["rows"] * state["dimensions"])
        actual = self.path.stat().st_size if self.path.exists() else 0
        if actual > expected:
            try:
                os.truncate(self.path, expected)
            except OSError:  # Windows, while a reader maps the file
                self._compact(state)
        return actual >= expected

    def create(self) -> None:
        self.db.create_table(self.name, "slot INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL")
        self._start_file(self._state())

    def remove(self, ids: Sequence[str]) -> None:
        self.db.many(f'DELETE FROM "{self.name}" WHERE id = ?', ((id,) for id in ids))

    def append(self, ids: Sequence[str], vectors: StoredVectors) -> None:
        state = self._state()
        self.path.parent.mkdir(exist_ok=True)
        data, first = vectors.tobytes(), state["rows"]
        with self.path.open("ab") as file:
            file.write(data)
        self.db.insert(self.name, ("slot", "id"), enumerate(ids, first))
        checksum = zlib.crc32(data, state["checksum"])
        state |= {"rows": first + len(ids), "dimensions": vectors.shape[1], "checksum": checksum}
        self.db.set_meta(self.name, state)

    def finish(self, *, erase: bool = False) -> None:
        """Sync the file.

        The used vectors are copied to a new one if half of them are unused; to erase, if any is.
        """
        state = self._state()
        most = state["rows"] if erase else state["rows"] / 2 if state["rows"] > _MIN_COPIED else 0
        if self.db.rows(self.name).count() < most:
            self._compact(state)
        if self.path.exists():
            with self.path.open("rb") as file:
                os.fsync(file.fileno())

    def find_damage(self, ids: set[str]) -> str:
        """Return what is wrong with the vectors; empty: nothing."""
        state = self._state()
        slots: dict[str, int] = dict(self.db.all(f'SELECT id, slot FROM "{self.name}"'))
        if slots.keys() != ids or max(slots.values(), default=-1) >= state["rows"]:
            return f"its rows are not those of {self.table}"
        if not state["rows"]:
            return ""
        try:
            matrix = map_vectors(self.path, state)
        except FileNotFoundError:
            return "it is missing or too short"
        checksum, valid = 0, True
        for i in range(0, len(matrix), BLOCK_ROWS):
            block = np.asarray(matrix[i : i + BLOCK_ROWS])
            checksum = zlib.crc32(block.tobytes(), checksum)
            valid = valid and bool(block.any(axis=1).all())
        if checksum != state.get("checksum"):
            return "its checksum is wrong"
        return "" if valid else "it holds vectors that are zero"

    def _compact(self, state: dict[str, Any]) -> None:
        """Write the used vectors to a new file, in id order."""
        pairs = self.db.all(f'SELECT slot, id FROM "{self.name}" ORDER BY id')
        matrix = map_vectors(self.path, state)
        self.db.run(f'DELETE FROM "{self.name}"')
        self._start_file(state)
        for i in range(0, len(pairs), 10_000):
            page = pairs[i : i + 10_000]
            self.append([id for _, id in page], matrix[[slot for slot, _ in page]])

    def _start_file(self, state: dict[str, Any]) -> None:
        """Start a file with a number that this index never used.

        A reader of an older build may still need the old file.
        """
        number = self.db.meta("file", 0) + 1
        self.db.set_meta("file", number)
        self.db.set_meta(self.name, {**state, "file": number, "rows": 0, "dimensions": 0, "checksum": 0})
        self.path.unlink(missing_ok=True)  # left by a killed build

    def _state(self) -> dict[str, Any]:
        return dict(self.db.meta(self.name, {}))


def map_snapshot(db: Database, folder: Path, files: MappedFiles) -> dict[str, StoredVectors]:
    """Return the vectors that a snapshot reads, by table.

    files: what is mapped already. Raises FileNotFoundError if a newer build removed a file.
    """
    by_table: dict[str, StoredVectors] = {}
    for name in db.meta_names(VECTOR_INDEX):
        table, state = name.removeprefix(VECTOR_INDEX), db.meta(name)
        if state["rows"]:
            path = vector_path(folder, table, state)
            file = path, path.stat().st_ino
            mapped = files.get(file)
            if mapped is None or len(mapped) < state["rows"]:
                mapped = files[file] = map_vectors(path, state)
            by_table[table] = mapped[: state["rows"]]
            for outdated in [key for key in list(files) if key != file and key[0].name.startswith(f"{table}-")]:
                files.pop(outdated, None)
    return by_table


def remove_unused_vector_files(db: Database, folder: Path) -> list[Path]:
    """Remove vector files that the index does not use.

    Return those that cannot be removed: on Windows, files that a reader of an older build maps. The next build tries
    again.
    """
    left: list[Path] = []
    names = db.meta_names(VECTOR_INDEX)
    used = {vector_path(folder, name.removeprefix(VECTOR_INDEX), db.meta(name)).name for name in names}
    for path in (folder / "vectors").glob("*.i8"):
        if path.name not in used:
            try:
                path.unlink(missing_ok=True)
            except OSError:
                left.append(path)
    return left


def map_vectors(path: Path, state: dict[str, Any]) -> StoredVectors:
    """Map the vectors of a file into memory.

    Raises FileNotFoundError if it is missing or too short.
    """
    if path.stat().st_size < state["rows"] * state["dimensions"]:
        raise FileNotFoundError(ENOENT, "too short", str(path))
    return np.memmap(path, dtype=np.int8, mode="r", shape=(state["rows"], state["dimensions"]))


def vector_path(folder: Path, table: str, state: dict[str, Any]) -> Path:
    """Return the path of the vectors of a table.

    state: its `meta` row.
    """
    return folder / "vectors" / f"{table}-{state.get('file', 0)}.i8"


BLOCK_ROWS = 256  # so few rows that BLAS uses one thread: on a busy machine threads wait for each other


def _find_lengths(matrix: StoredVectors) -> Vectors:
    """Return the lengths of vectors, in a column; 1 for none."""
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
