"""table -> vectors: exact search by meaning over a memory-mapped file.

The file only grows; a table in the index says which row of it belongs to which id, in the same
transaction as the rows. So a reader of an older build still finds the vectors it knows, and what a
killed build had appended is written over by the next one. When half of it is of no use it is copied.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexUnavailable, ItemFailed, RequestRefused
from kumihimo.core.table import Codec, Row, Table
from kumihimo.llm.cached_llm import dimension_mismatch
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import Embedder
from kumihimo.storage.sqlite.store import Db, SqlRows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_PENDING_ROUNDS = 4  # rounds of batches whose texts are held until they are embedded
_BLOCK_ROWS = (
    256  # rows multiplied at once: BLAS takes no threads for so few, which on a busy machine wait for each other
)
_SCORE_MARGIN = 1e-5  # more than rounding moves a cosine when rows are multiplied in another order


_EmbeddedBatch = tuple[list[str], "NDArray[np.float32] | None", str | None]  # texts, their vectors, or what went wrong


@dataclass(slots=True)
class VectorIndex:
    """The vectors of one table, kept while the table is built."""

    db: Db
    folder: Path
    table: str
    codec: Codec[Any]
    embedder: Embedder
    pending: dict[str, str] = field(default_factory=dict)
    failed_ids: set[str] = field(default_factory=set)  # rows that an earlier build could not embed
    kind: ClassVar[str] = "meaning"

    @property
    def name(self) -> str:
        """Of its table in the index, and of its line in `meta`."""
        return _index_name(self.table)

    def ensure(self, fingerprint: str) -> bool:
        """Make it where it is missing or was made by another model or other code; true if it has to be filled."""
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
        """Let go of the old rows' vectors and make the new ones'; a text that stayed keeps its vector."""
        was = {row[0]: said for row in old if (said := self.codec.decode(row).index_text)}
        now = {row[0]: said for row in new if (said := self.codec.decode(row).index_text)}
        gone = [id for id in was if now.get(id) != was[id]]
        self.db.many(f'DELETE FROM "{self.name}" WHERE id = ?', ((id,) for id in gone))
        self._record_failures((id, None) for id in gone)
        for id in gone:
            self.pending.pop(id, None)
            self.failed_ids.discard(id)
        self.pending |= {id: text for id, text in now.items() if was.get(id) != text}
        if len(self.pending) >= _MAX_PENDING_ROUNDS * self.embedder.batch * self.embedder.workers:
            self._embed_pending()

    def finish(self) -> None:
        """Embed what waits, and make sure that it is on disk before the build is."""
        rows = SqlRows(self.db, self.table)
        again = {id: row for id in sorted(self.failed_ids) if (row := rows.get(id))}
        self.pending |= {id: self.codec.decode(row).index_text for id, row in again.items()}
        self._embed_pending()
        state = self._state()
        live = self.db.all(f'SELECT count(*) FROM "{self.name}"')[0][0]
        if state["rows"] > 1000 and live < state["rows"] / 2:
            self._compact(state)
        if self._path().exists():
            with self._path().open("rb") as file:
                os.fsync(file.fileno())

    def _embed_pending(self) -> None:
        """All that waits, as many batches together as the model takes. What fails is listed, for the next build."""
        wanted: dict[str, list[str]] = {}  # text -> who waits for its vector
        for id, text in self.pending.items():
            wanted.setdefault(text, []).append(id)
        self.pending, texts = {}, list(wanted)
        batches = (texts[i : i + self.embedder.batch] for i in range(0, len(texts), self.embedder.batch))
        for parts in map_concurrent(self._embed_batch, batches, self.embedder.workers):
            for told, vectors, error in parts:
                ids = [id for text in told for id in wanted[text]]
                if vectors is not None:
                    self._append(ids, vectors.repeat([len(wanted[text]) for text in told], axis=0))
                self._record_failures((id, error) for id in ids)

    def _embed_batch(self, batch: list[str]) -> list[_EmbeddedBatch]:
        """The vectors of a batch, or why there are none; halved as long as its model refuses some of the texts."""
        try:
            return [(batch, self.embedder(batch), None)]
        except RequestRefused as error:
            half = len(batch) // 2
            return (
                [*self._embed_batch(batch[:half]), *self._embed_batch(batch[half:])]
                if half
                else [(batch, None, str(error))]
            )
        except ItemFailed as error:
            return [(batch, None, str(error))]

    def _record_failures(self, errors: Iterable[tuple[str, str | None]]) -> None:
        from kumihimo.storage.sqlite.ledger import write_failures

        write_failures(self.db, self.name, errors)

    def _append(self, ids: list[str], vectors: NDArray[np.float32]) -> None:
        state = self._state()
        _check_dimensions(state, vectors)
        self._path().parent.mkdir(exist_ok=True)
        with self._path().open("ab") as file:
            file.write(vectors.astype("<f4").tobytes())
        first = state["rows"]
        self.db.many(f'INSERT INTO "{self.name}" VALUES (?, ?)', enumerate(ids, first))
        state |= {"rows": first + len(ids), "dimensions": vectors.shape[1]}
        self.db.set_meta(self.name, state)

    def _compact(self, state: dict[str, Any]) -> None:
        """Write the living rows to a new file, in the order of their ids."""
        name = self.name
        pairs = self.db.all(f'SELECT slot, id FROM "{name}" ORDER BY id')
        matrix = _map_file(self._path(), state)
        self.db.run(f'DELETE FROM "{name}"')
        self._start_file(state)
        for i in range(0, len(pairs), 10_000):
            part = pairs[i : i + 10_000]
            self._append([id for _, id in part], matrix[[slot for slot, _ in part]])

    def _start_file(self, state: dict[str, Any]) -> None:
        """Under a number that no file of this index has had: a reader of an older build may still want that one."""
        number = self.db.meta("file", 0) + 1
        self.db.set_meta("file", number)
        self.db.set_meta(self.name, {**state, "file": number, "rows": 0, "dimensions": 0})
        self._path().unlink(missing_ok=True)  # a build that was killed had begun it

    def _check_file(self) -> bool:
        """Whether the file is as long as it has to be; what a killed build had appended is cut off."""
        state = self._state()
        length = int(state["rows"] * state["dimensions"] * 4)
        held = self._path().stat().st_size if self._path().exists() else 0
        if held > length:
            os.truncate(self._path(), length)
        return held >= length

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.db.meta(self.name, {})
        return state

    def _path(self) -> Path:
        return _vector_path(self.folder, self.table, self._state())


@dataclass(frozen=True, slots=True)
class SqliteVectorSearch:
    """`Near` over one snapshot: the exact nearest rows; equal scores in the order of ids."""

    db: Db
    embedder: Embedder
    matrices: Matrices
    last_query: dict[tuple[str, ...], NDArray[np.float32]] = field(
        default_factory=dict
    )  # of the texts searched with last

    def __call__(
        self, table: Table[Any], text: str | Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> Context:
        texts = [text] if isinstance(text, str) else text
        return self._search(table, texts, k, averaged=True, candidate_ids=candidate_ids)[0]

    def search_many(
        self, table: Table[Any], texts: Sequence[str], *, k: int, candidate_ids: Collection[str] | None = None
    ) -> list[Context]:
        return self._search(table, texts, k, candidate_ids=candidate_ids)

    def _search(
        self,
        table: Table[Any],
        texts: Sequence[str],
        k: int,
        averaged: bool = False,
        candidate_ids: Collection[str] | None = None,
    ) -> list[Context]:
        """What is nearest to each of the texts; or, as `one` question, to their mean."""
        state = self.db.meta(_index_name(table.name))
        if state is None:
            raise IndexUnavailable(f"{table.name} is not indexed by meaning: `kumi index --methods naive` does that")
        if not state["rows"] or not texts or k < 1:
            return [Context()] * (1 if averaged else len(texts))
        if state["embedder"] != self.embedder.fingerprint:
            raise IndexUnavailable(
                f"the {table.name} of this index were embedded by {state['embedder']}: set that as `model` under "
                f"[embedding] in kumi.toml, or `kumi index --yes` embeds them by {self.embedder.fingerprint}"
            )
        vectors = self._embed_query(state, texts)
        questions = _mean_vector(vectors) if averaged else vectors
        best = [
            sorted((-score, id) for score, id in found)[:k]
            for found in self._score_rows(table, questions, k, candidate_ids)
        ]
        rows = table.get_many(id for found in best for _, id in found)  # each row is read once, whoever is near it
        return [Context(tuple(Evidence(table.name, rows[id], -score) for score, id in found)) for found in best]

    def _embed_query(self, state: dict[str, Any], texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self.last_query.get(tuple(texts))
        if vectors is None:
            vectors = self.embedder(texts)
            self.last_query.clear()
            self.last_query[tuple(texts)] = vectors
        _check_dimensions(state, vectors)
        return vectors

    def _score_rows(
        self, table: Table[Any], questions: NDArray[np.float32], k: int, candidate_ids: Collection[str] | None
    ) -> Iterator[Iterable[tuple[float, str]]]:
        """For each question some rows, scored, the best `k` among them."""
        import numpy as np

        if candidate_ids is not None:
            yield from self._score_subset(table, questions, list(candidate_ids), k)
            return
        matrix = np.asarray(self.matrices[table.name])  # of a memmap each slice would be one, which takes longer
        scores = np.empty((len(matrix), len(questions)), dtype=np.float32)
        for i in range(0, len(matrix), _BLOCK_ROWS):
            np.matmul(matrix[i : i + _BLOCK_ROWS], questions.T, out=scores[i : i + _BLOCK_ROWS])
        for question, column in zip(questions, np.ascontiguousarray(scores.T), strict=True):
            yield self._rescore_nearest(table, question, column, k)

    def _rescore_nearest(
        self, table: Table[Any], question: NDArray[np.float32], scores: NDArray[np.float32], k: int
    ) -> Iterator[tuple[float, str]]:
        """At least the best k that pass, scored so that a row's place in the file makes no difference."""
        import numpy as np

        wanted = min(len(scores), 2 * k + 16)
        while True:
            least = np.partition(scores, -wanted)[-wanted] - _SCORE_MARGIN
            slots = np.flatnonzero(scores >= least)
            ids = self._visible_ids(table, slots.tolist())
            if len(ids) >= k or wanted == len(scores):
                break
            wanted = min(len(scores), wanted * 4)
        held = self.matrices[table.name][list(ids)].astype(np.float64)
        yield from zip((held * question).sum(axis=1).tolist(), ids.values(), strict=True)

    def _score_subset(
        self, table: Table[Any], questions: NDArray[np.float32], candidate_ids: list[str], k: int
    ) -> Iterator[Iterable[tuple[float, str]]]:
        """For each question the best k of these rows, and whichever score as much."""
        import numpy as np

        rows: list[Row] = []
        for i in range(0, len(candidate_ids), 1000):
            marks = ",".join("?" * len(candidate_ids[i : i + 1000]))
            said = f'SELECT slot, id FROM "{_index_name(table.name)}" WHERE id IN ({marks})'
            rows += [row for row in self.db.all(said, *candidate_ids[i : i + 1000]) if table.visible(row[1])]
        held = self.matrices[table.name][[slot for slot, _ in rows]].astype(np.float64)
        for question in questions:
            scores = (held * question).sum(axis=1)
            least = np.partition(scores, -k)[-k] if len(rows) > k else -np.inf
            yield [(float(scores[i]), rows[i][1]) for i in np.flatnonzero(scores >= least).tolist()]

    def _visible_ids(self, table: Table[Any], slots: list[int]) -> dict[int, str]:
        """Those of the rows that are in use, and pass."""
        found: dict[int, str] = {}
        for i in range(0, len(slots), 1000):
            marks = ",".join(map(str, slots[i : i + 1000]))
            rows = self.db.all(f'SELECT slot, id FROM "{_index_name(table.name)}" WHERE slot IN ({marks})')
            found |= {slot: id for slot, id in rows if table.visible(id)}
        return found


MappedFiles = dict[
    tuple[Path, int], "NDArray[np.float32]"
]  # files (path, inode) in memory, as far as they were asked for
Matrices = dict[str, "NDArray[np.float32]"]  # table -> the vectors of one snapshot


def load_matrices(db: Db, folder: Path, files: MappedFiles) -> Matrices:
    """The vectors that this snapshot reads. Raises FileNotFoundError where a newer build has removed a file."""
    found: Matrices = {}
    for name, text in db.all("SELECT name, value FROM meta WHERE name GLOB 'vectors_*'"):
        table, state = name.removeprefix("vectors_"), json.loads(text)
        if state["rows"]:
            path = _vector_path(folder, table, state)
            file = path, path.stat().st_ino
            held = files.get(file)
            if held is None or len(held) < state["rows"]:
                held = files[file] = _map_file(path, state)
            found[table] = held[: state["rows"]]
            for old in [other for other in list(files) if other != file and other[0].name.startswith(f"{table}-")]:
                files.pop(old, None)
    return found


def remove_unused_files(db: Db, folder: Path) -> None:
    """Remove the files that no table of the index names any more."""
    states = db.all("SELECT name, value FROM meta WHERE name GLOB 'vectors_*'")
    kept = {_vector_path(folder, name.removeprefix("vectors_"), db.meta(name)).name for name, _ in states}
    for path in (folder / "vectors").glob("*.f32"):
        if path.name not in kept:
            path.unlink(missing_ok=True)


def _mean_vector(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of all of them one, of length 1."""
    import numpy as np

    if len(vectors) == 1:
        return vectors
    mean = vectors.sum(axis=0, keepdims=True)
    return np.asarray(mean / (np.sqrt((mean * mean).sum()) or 1.0), dtype=np.float32)


def _check_dimensions(state: dict[str, Any], vectors: NDArray[np.float32]) -> None:
    """Raises ModelError where a model gives other vectors than it gave before under the same name."""
    if state["rows"] and vectors.shape[1] != state["dimensions"]:
        raise dimension_mismatch(state["embedder"], vectors.shape[1])


def _map_file(path: Path, state: dict[str, Any]) -> NDArray[np.float32]:
    import numpy as np

    if path.stat().st_size < state["rows"] * state["dimensions"] * 4:
        raise FileNotFoundError(path)
    return np.memmap(path, dtype="<f4", mode="r", shape=(state["rows"], state["dimensions"]))


def _vector_path(folder: Path, table: str, state: dict[str, Any]) -> Path:
    return folder / "vectors" / f"{table}-{state.get('file', 0)}.f32"


def _index_name(table: str) -> str:
    return f"vectors_{table}"
