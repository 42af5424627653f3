"""table -> vectors: exact search by meaning over a memory-mapped file.

The file only grows; a table in the index maps its rows to ids, in the same transaction as the data. So a reader of an
older build still finds its vectors, and the next build overwrites what a killed one appended. When half of the file is
unused, it is copied.
"""

import json
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexUnavailable, ItemFailed, RequestRefused, RequestTimedOut
from kumihimo.core.table import Codec, Row, Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import Embedder, Vectors, dimension_mismatch
from kumihimo.search.partial_rows import score_by_meaning
from kumihimo.search.vector_files import (
    BLOCK_ROWS,
    NUMBER_BYTES,
    VECTOR_SCALE,
    StoredVectors,
    encode_vectors,
    map_vectors,
    vector_index_name,
    vector_path,
)
from kumihimo.search.visible_slots import visible_slots
from kumihimo.storage.sqlite.store import Db, SqlRows

_MAX_PENDING_ROUNDS = 4  # rounds of batches in the queue before they are embedded
_SCORE_MARGIN = 1e-5  # above the rounding error of a cosine

MappedFiles = dict[tuple[Path, int], StoredVectors]  # (path, inode) -> the mapped file
Matrices = dict[str, StoredVectors]  # table -> the vectors of one snapshot
_EmbeddedBatch = tuple[list[str], "Vectors | None", str | None]  # texts, and their vectors or an error


@dataclass(slots=True)
class VectorIndex:
    """The vectors of one table, updated while the table is built."""

    db: Db
    folder: Path
    table: str
    codec: Codec[Any]
    embedder: Embedder
    pending: dict[str, str] = field(default_factory=dict)
    failed_ids: set[str] = field(default_factory=set)  # rows that failed in an earlier build
    batch_size: int = 0  # texts of a request; smaller after a request that took too long
    kind: ClassVar[str] = "meaning"

    def __post_init__(self) -> None:
        self.batch_size = self.embedder.batch

    @property
    def name(self) -> str:
        """Return the name of the index table and of its `meta` row."""
        return vector_index_name(self.table)

    def ensure(self, fingerprint: str) -> bool:
        """Create the index if missing or outdated; return whether to fill it.

        Outdated: made by another model or other code.
        """
        fingerprint = f"{fingerprint} {self.embedder.fingerprint}"
        if self._state().get("mark") == fingerprint and self._check_file():
            self.failed_ids = {id for (id,) in self.db.all("SELECT maker FROM failed WHERE step = ?", self.name)}
            return False
        self.clear()
        self.db.set_meta(self.name, {**self._state(), "mark": fingerprint, "embedder": self.embedder.fingerprint})
        return True

    def clear(self) -> None:
        name = self.name
        self.pending.clear()
        self.failed_ids.clear()
        self.db.run("DELETE FROM failed WHERE step = ?", name)
        self.db.run(f'DROP TABLE IF EXISTS "{name}"')
        self.db.run(f'CREATE TABLE "{name}" (slot INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL)')
        self._start_file(self._state())

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """Remove the old rows' vectors and queue the new texts.

        An unchanged text keeps its vector.
        """
        old_texts = {row[0]: indexed for row in old if (indexed := self.codec.decode(row).index_text)}
        new_texts = {row[0]: indexed for row in new if (indexed := self.codec.decode(row).index_text)}
        removed = [id for id in old_texts if new_texts.get(id) != old_texts[id]]
        self.db.many(f'DELETE FROM "{self.name}" WHERE id = ?', ((id,) for id in removed))
        self.db.record_failures(self.name, ((id, None) for id in removed))
        for id in removed:
            self.pending.pop(id, None)
            self.failed_ids.discard(id)
        self.pending |= {id: text for id, text in new_texts.items() if old_texts.get(id) != text}
        if len(self.pending) >= _MAX_PENDING_ROUNDS * self.embedder.batch * self.embedder.workers:
            self._embed_pending()

    def finish(self) -> None:
        """Embed the queued texts and flush the file to disk."""
        rows = SqlRows(self.db, self.table)
        retried = {id: row for id in sorted(self.failed_ids) if (row := rows.get(id))}
        self.pending |= {id: self.codec.decode(row).index_text for id, row in retried.items()}
        self._embed_pending()
        state = self._state()
        if state["rows"] > 1000 and self._live_rows() < state["rows"] / 2:
            self._compact(state)
        self._sync()

    def erase(self) -> None:
        """Copy the used vectors to a new file without the others."""
        state = self._state()
        if self._live_rows() < state["rows"]:
            self._compact(state)
            self._sync()

    def _live_rows(self) -> int:
        return int(self.db.all(f'SELECT count(*) FROM "{self.name}"')[0][0])

    def _sync(self) -> None:
        if self._path().exists():
            with self._path().open("rb") as file:
                os.fsync(file.fileno())

    def _embed_pending(self) -> None:
        """Embed all queued texts in concurrent batches.

        Failures are recorded, and the next build tries again.
        """
        ids_by_text: dict[str, list[str]] = {}
        for id, text in self.pending.items():
            ids_by_text.setdefault(text, []).append(id)
        self.pending, texts = {}, list(ids_by_text)
        for parts in map_concurrent(self._embed_batch, self._batches(texts), self.embedder.workers):
            for batch, vectors, error in parts:
                ids = [id for text in batch for id in ids_by_text[text]]
                if vectors is not None:
                    _check_dimensions(self._state(), vectors)
                    self._append(
                        ids, encode_vectors(vectors).repeat([len(ids_by_text[text]) for text in batch], axis=0)
                    )
                self.db.record_failures(self.name, ((id, error) for id in ids))

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        start = 0
        while batch := texts[start : start + self.batch_size]:
            yield batch
            start += len(batch)

    def _embed_batch(self, batch: list[str]) -> list[_EmbeddedBatch]:
        """Return the vectors of a batch, or the error.

        If the model refuses the batch, each half is tried alone. If it takes too long, the first half is, then the
        second if that was quick enough.
        """
        try:
            return [(batch, self.embedder(batch), None)]
        except RequestRefused as error:
            if half := len(batch) // 2:
                return [*self._embed_batch(batch[:half]), *self._embed_batch(batch[half:])]
            return [(batch, None, str(error))]
        except RequestTimedOut as error:
            if not (half := len(batch) // 2):
                return [(batch, None, str(error))]
            self.batch_size = min(self.batch_size, half)
            parts = self._embed_batch(batch[:half])
            if any(vectors is not None for _, vectors, _ in parts):
                return [*parts, *self._embed_batch(batch[half:])]
            return [*parts, (batch[half:], None, str(error))]
        except ItemFailed as error:
            return [(batch, None, str(error))]

    def _append(self, ids: list[str], vectors: StoredVectors) -> None:
        state = self._state()
        self._path().parent.mkdir(exist_ok=True)
        data, first = vectors.tobytes(), state["rows"]
        with self._path().open("ab") as file:
            file.write(data)
        self.db.many(f'INSERT INTO "{self.name}" VALUES (?, ?)', enumerate(ids, first))
        checksum = zlib.crc32(data, state["checksum"])
        state |= {"rows": first + len(ids), "dimensions": vectors.shape[1], "checksum": checksum}
        self.db.set_meta(self.name, state)

    def _compact(self, state: dict[str, Any]) -> None:
        """Write the used vectors to a new file, in id order."""
        name = self.name
        pairs = self.db.all(f'SELECT slot, id FROM "{name}" ORDER BY id')
        matrix = map_vectors(self._path(), state)
        self.db.run(f'DELETE FROM "{name}"')
        self._start_file(state)
        for i in range(0, len(pairs), 10_000):
            page = pairs[i : i + 10_000]
            self._append([id for _, id in page], matrix[[slot for slot, _ in page]])

    def _start_file(self, state: dict[str, Any]) -> None:
        """Start a file with a number that this index never used.

        A reader of an older build may still need the old file.
        """
        number = self.db.meta("file", 0) + 1
        self.db.set_meta("file", number)
        self.db.set_meta(self.name, {**state, "file": number, "rows": 0, "dimensions": 0, "checksum": 0})
        self._path().unlink(missing_ok=True)  # left by a killed build

    def _check_file(self) -> bool:
        """Return whether the file is complete; truncate surplus bytes.

        A killed build may have appended them.
        """
        state = self._state()
        expected = int(state["rows"] * state["dimensions"] * NUMBER_BYTES)
        actual = self._path().stat().st_size if self._path().exists() else 0
        if actual > expected:
            try:
                os.truncate(self._path(), expected)
            except OSError:  # Windows, while a reader maps the file
                self._compact(state)
        return actual >= expected

    def _state(self) -> dict[str, Any]:
        return dict(self.db.meta(self.name, {}))

    def _path(self) -> Path:
        return vector_path(self.folder, self.table, self._state())


@dataclass(frozen=True, slots=True)
class SqliteVectorSearch:
    """`VectorSearch` over one snapshot: exact nearest rows, ties by id.

    embedder_for: the embedder for questions to a table, from the table and the fingerprint of the model that embedded
    its rows.
    """

    db: Db
    embedder_for: Callable[[str, str], Embedder]
    matrices: Matrices
    last_query: dict[str, tuple[tuple[str, ...], Vectors]] = field(default_factory=dict)  # by fingerprint

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context:
        texts = [text] if isinstance(text, str) else text
        return self._search(table, texts, k, candidate_ids, averaged=True)[0]

    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]:
        return self._search(table, texts, k, candidate_ids, averaged=False)

    def _search(
        self, table: Table[Any], texts: Sequence[str], k: int, candidate_ids: Collection[str] | None, *, averaged: bool
    ) -> list[Context]:
        """Return the nearest rows to each text.

        averaged: search once, with the mean of the texts.
        """
        import numpy as np

        state = self.db.meta(vector_index_name(table.name))
        if state is None:
            raise IndexUnavailable(f"{table.name} is not indexed by meaning: `kumi index --methods naive` does that")
        if not state["rows"] or not texts or k < 1:
            return [Context()] * (1 if averaged else len(texts))
        embedder = self.embedder_for(table.name, state["embedder"])
        if state["embedder"] != embedder.fingerprint:
            raise IndexUnavailable(
                f"the {table.name} of this index were embedded by {state['embedder']}: set that as `model` under "
                f"[embedding] in kumi.toml, or `kumi index --yes` embeds them by {embedder.fingerprint}"
            )
        vectors = self._embed_query(embedder, texts)
        _check_dimensions(state, vectors)
        questions = np.divide(_mean_vector(vectors) if averaged else vectors, VECTOR_SCALE, dtype=np.float32)
        scored_rows = self._score_rows(table, questions, k, candidate_ids)
        partial = score_by_meaning(table, state["embedder"], questions, k, candidate_ids)
        found = map(chain, scored_rows, partial)
        top_pairs = [sorted((-score, id) for score, id in hits)[:k] for hits in found]
        rows = table.get_many(id for hits in top_pairs for _, id in hits)
        return [Context(tuple(Evidence(table.name, rows[id], -score) for score, id in hits)) for hits in top_pairs]

    def _embed_query(self, embedder: Embedder, texts: Sequence[str]) -> Vectors:
        last_texts, vectors = self.last_query.get(embedder.fingerprint, ((), None))
        if vectors is None or last_texts != tuple(texts):
            vectors = embedder(texts)
            self.last_query[embedder.fingerprint] = tuple(texts), vectors
        return vectors

    def _score_rows(
        self, table: Table[Any], questions: Vectors, k: int, candidate_ids: Collection[str] | None
    ) -> Iterator[Iterable[tuple[float, str]]]:
        """Yield candidate rows with scores for each query.

        They include the best `k`.
        """
        import numpy as np

        if candidate_ids is not None:
            yield from self._score_subset(table, questions, list(candidate_ids), k)
            return
        matrix = np.asarray(self.matrices[table.name])  # slices of a memmap are slower
        scores = np.empty((len(matrix), len(questions)), dtype=np.float32)
        for i in range(0, len(matrix), BLOCK_ROWS):
            np.matmul(matrix[i : i + BLOCK_ROWS].astype(np.float32), questions.T, out=scores[i : i + BLOCK_ROWS])
        for question, column in zip(questions, np.ascontiguousarray(scores.T), strict=True):
            yield self._rescore_nearest(table, question, column, k)

    def _rescore_nearest(
        self, table: Table[Any], question: Vectors, scores: Vectors, k: int
    ) -> Iterator[tuple[float, str]]:
        """Yield at least the best `k` whole rows, in double precision.

        So the position of a row in the file does not change its score.
        """
        import numpy as np

        name, ids = vector_index_name(table.name), dict[int, str]()
        slots = visible_slots(self.db, name, table)
        places = np.array(slots.visible, dtype=np.int64) if slots else np.arange(len(scores))
        scores = scores[places] if slots else scores
        count = min(len(scores), 2 * k + 16)
        query = f'SELECT slot, id FROM "{name}" WHERE slot IN (?)'
        while count:
            threshold = np.partition(scores, -count)[-count] - _SCORE_MARGIN
            ids = dict(self.db.all_in(query, places[scores >= threshold].tolist()))
            if len(ids) >= k or count == len(scores):
                break
            count = min(len(scores), count * 4)
        exact = self.matrices[table.name][list(ids)].astype(np.float64)
        yield from zip((exact * question).sum(axis=1).tolist(), ids.values(), strict=True)

    def _score_subset(
        self, table: Table[Any], questions: Vectors, candidate_ids: list[str], k: int
    ) -> Iterator[Iterable[tuple[float, str]]]:
        """Yield the best `k` of these rows for each query, ties included."""
        import numpy as np

        query = f'SELECT slot, id FROM "{vector_index_name(table.name)}" WHERE id IN (?)'
        rows = [
            row for row in self.db.all_in(query, candidate_ids) if table.view is None or table.view.is_whole(row[1])
        ]
        exact = self.matrices[table.name][[slot for slot, _ in rows]].astype(np.float64)
        for question in questions:
            scores = (exact * question).sum(axis=1)
            threshold = np.partition(scores, -k)[-k] if len(rows) > k else -np.inf
            yield [(float(scores[i]), rows[i][1]) for i in np.flatnonzero(scores >= threshold).tolist()]


def load_matrices(db: Db, folder: Path, files: MappedFiles) -> Matrices:
    """Return the vectors that this snapshot reads, by table.

    Raises FileNotFoundError if a newer build removed a file.
    """
    by_table: Matrices = {}
    for name, text in db.all("SELECT name, value FROM meta WHERE name GLOB 'vectors_*'"):
        table, state = name.removeprefix("vectors_"), json.loads(text)
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


def _mean_vector(vectors: Vectors) -> Vectors:
    """Return the mean vector, scaled to length 1."""
    import numpy as np

    if len(vectors) == 1:
        return vectors
    mean = vectors.sum(axis=0, keepdims=True)
    return np.asarray(mean / (np.sqrt((mean * mean).sum()) or 1.0), dtype=np.float32)


def _check_dimensions(state: dict[str, Any], vectors: Vectors) -> None:
    """Raise ModelError if the model's vector length has changed."""
    if state["rows"] and vectors.shape[1] != state["dimensions"]:
        raise dimension_mismatch(state["embedder"], vectors.shape[1])
