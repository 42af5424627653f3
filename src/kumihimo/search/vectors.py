"""table -> vectors: exact search by meaning."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from kumihimo.core.context import Context, Evidence
from kumihimo.core.errors import IndexUnavailable, ItemFailed, RequestRefused, RequestTimedOut
from kumihimo.core.executors import BuildExecutor, SharedWork, WorkerContext, inline, run_jobs
from kumihimo.core.table import Codec, Row, Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import Embedder, Vectors, dimension_mismatch, embedder_mismatch
from kumihimo.search import partial_rows, protocols, vector_files
from kumihimo.search.postgres_vectors import LoadedMatrices, PostgresReader, PostgresVectors
from kumihimo.search.protocols import VECTOR_INDEX, Matrices, StoredVectors, encode_vectors, unit_vectors
from kumihimo.storage.database import Database, SqlRows
from kumihimo.storage.sqlite.connection import Db
from kumihimo.text import lazy_numpy as np

_MAX_PENDING_ROUNDS = 4  # rounds of batches in the queue before they are embedded

_EmbeddedBatch = tuple[list[str], "Vectors | None", str | None]  # texts, and their vectors or an error


@dataclass(slots=True)
class VectorIndex:
    """The vectors of one table, updated while the table is built."""

    db: Database
    folder: Path
    table: str
    codec: Codec[Any]
    embedder: Embedder
    executor: BuildExecutor = inline
    pending: dict[str, str] = field(default_factory=dict)
    failed_ids: set[str] = field(default_factory=set)  # rows that failed in an earlier build
    batch_size: int = 0  # texts of a request; smaller after a request that took too long
    vectors: protocols.VectorStore = field(init=False)
    kind: ClassVar[str] = "meaning"

    def __post_init__(self) -> None:
        self.batch_size = self.embedder.batch
        self.vectors = vector_store(self.db, self.folder, self.table)

    @property
    def name(self) -> str:
        """Return the name of the index table and of its `meta` row."""
        return VECTOR_INDEX + self.table

    def ensure(self, fingerprint: str) -> bool:
        """Create the index if missing or outdated; return whether to fill it.

        Outdated: made by another model or other code.
        """
        fingerprint = f"{fingerprint} {self.embedder.fingerprint}"
        if self._state().get("mark") == fingerprint and self.vectors.is_complete():
            self.failed_ids = {id for (id,) in self.db.all("SELECT maker FROM failed WHERE step = ?", self.name)}
            return False
        self.clear()
        self.db.set_meta(self.name, {**self._state(), "mark": fingerprint, "embedder": self.embedder.fingerprint})
        return True

    def clear(self) -> None:
        self.pending.clear()
        self.failed_ids.clear()
        self.db.run("DELETE FROM failed WHERE step = ?", self.name)
        self.vectors.create()

    def replace(self, old: list[Row], new: list[Row]) -> None:
        """Remove the old rows' vectors and queue the new texts.

        An unchanged text keeps its vector.
        """
        old_texts, new_texts = self.codec.index_texts(old), self.codec.index_texts(new)
        removed = [id for id in old_texts if new_texts.get(id) != old_texts[id]]
        self.vectors.remove(removed)
        self.db.record_failures(self.name, ((id, None) for id in removed))
        for id in removed:
            self.pending.pop(id, None)
            self.failed_ids.discard(id)
        self.pending |= {id: text for id, text in new_texts.items() if old_texts.get(id) != text}
        if len(self.pending) >= _MAX_PENDING_ROUNDS * self.embedder.batch * self.embedder.workers:
            self._embed_pending()

    def fill(self, pages: Iterator[list[Row]], _: BuildExecutor) -> Iterator[int]:
        """Queue all rows; yield how many after each page."""
        for page in pages:
            self.replace([], page)
            yield len(page)

    def finish(self) -> None:
        """Embed the queued texts, and make the vectors last."""
        rows = SqlRows(self.db, self.table)
        self.pending |= {row[0]: self.codec.decode(row).index_text for row in sorted(rows.get_many([*self.failed_ids]))}
        self._embed_pending()
        self.vectors.finish()

    def _embed_pending(self) -> None:
        """Embed all queued texts in concurrent batches.

        Failures are recorded, and the next build tries again.
        """
        ids_by_text: dict[str, list[str]] = {}
        for id, text in self.pending.items():
            ids_by_text.setdefault(text, []).append(id)
        self.pending, texts = {}, list(ids_by_text)
        for parts in self._embed_batches(self._batches(texts)):
            for batch, vectors, error in parts:
                ids = [id for text in batch for id in ids_by_text[text]]
                if vectors is not None:
                    state = self._state()
                    if state["rows"] and vectors.shape[1] != state["dimensions"]:
                        raise dimension_mismatch(state["embedder"], vectors.shape[1])
                    repeats = [len(ids_by_text[text]) for text in batch]
                    self.vectors.append(ids, encode_vectors(vectors).repeat(repeats, axis=0))
                self.db.record_failures(self.name, ((id, error) for id in ids))

    def _embed_batches(self, batches: Iterator[list[str]]) -> Iterator[list[_EmbeddedBatch]]:
        """Embed in other processes if the model is ours, else in threads."""
        if isinstance(self.embedder, LocalEmbedder):
            return run_jobs(self.executor, SharedWork(self._embed_batch, EmbeddingSpec()), batches)
        return map_concurrent(self._embed_batch, batches, self.embedder.workers)

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

    def _state(self) -> dict[str, Any]:
        return dict(self.db.meta(self.name, {}))


@dataclass(frozen=True, slots=True)
class EmbeddingSpec:
    """The built-in embedder in another process."""

    name: ClassVar[str] = "vectors"

    def open(self, _: WorkerContext) -> Callable[[list[str]], list[_EmbeddedBatch]]:
        embedder = LocalEmbedder()
        return lambda batch: [(batch, embedder(batch), None)]

    def describe(self, job: list[str]) -> str:
        return repr(job[0][:40])


@dataclass(frozen=True, slots=True)
class CosineSearch:
    """`VectorSearch` over one snapshot: nearest rows, ties by id.

    embedder_for: the embedder for questions to a table, from the table and the fingerprint of the model that embedded
    its rows.
    """

    db: Database
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

    def vectors(self, table: Table[Any], ids: Collection[str]) -> Mapping[str, StoredVectors]:
        state = self.db.meta(VECTOR_INDEX + table.name)
        if not state or not state["rows"] or not ids:
            return {}
        found, vectors = vector_reader(self.db, self.matrices).select(table, ids)
        return dict(zip(found, vectors, strict=True))

    def _search(
        self, table: Table[Any], texts: Sequence[str], k: int, candidate_ids: Collection[str] | None, *, averaged: bool
    ) -> list[Context]:
        """Return the nearest rows to each text.

        averaged: search once, with the mean of the texts.
        """

        state = self.db.meta(VECTOR_INDEX + table.name)
        if state is None:
            raise IndexUnavailable(f"{table.name} is not indexed by meaning: `kumi index --methods naive` does that")
        if not state["rows"] or not texts or k < 1:
            return [Context()] * (1 if averaged else len(texts))
        embedder = self.embedder_for(table.name, state["embedder"])
        if state["embedder"] != embedder.fingerprint:
            raise embedder_mismatch(table.name, state["embedder"], embedder.fingerprint)
        last_texts, vectors = self.last_query.get(embedder.fingerprint, ((), None))
        if vectors is None or last_texts != tuple(texts):
            vectors = embedder(texts)
            self.last_query[embedder.fingerprint] = tuple(texts), vectors
        if vectors.shape[1] != state["dimensions"]:
            raise dimension_mismatch(state["embedder"], vectors.shape[1])
        questions = _mean_vector(vectors) if averaged else vectors
        scored_rows = self._score_rows(table, questions, k, candidate_ids)
        found: Iterable[Iterable[tuple[float, str]]] = scored_rows
        if table.view:
            partial = partial_rows.score_by_meaning(table, table.view, state["embedder"], questions, k, candidate_ids)
            found = map(chain, scored_rows, partial)
        top_pairs = [sorted((-score, id) for score, id in hits)[:k] for hits in found]
        rows = table.get_many(id for hits in top_pairs for _, id in hits)
        return [Context(tuple(Evidence(table.name, rows[id], -score) for score, id in hits)) for hits in top_pairs]

    def _score_rows(
        self, table: Table[Any], questions: Vectors, k: int, candidate_ids: Collection[str] | None
    ) -> Iterator[Iterable[tuple[float, str]]]:
        """Yield rows with scores for each query, the best `k` among them.

        Scores have double precision, so that the place of a row in the store does not change them.
        """
        reader = vector_reader(self.db, self.matrices)
        if candidate_ids is None:
            for question, (ids, vectors) in zip(questions, reader.nearest(table, questions, k), strict=True):
                yield zip((unit_vectors(vectors) * question).sum(axis=1).tolist(), ids, strict=True)
            return
        ids, vectors = reader.select(table, candidate_ids)
        exact = unit_vectors(vectors)
        for question in questions:
            scores = (exact * question).sum(axis=1)
            threshold = np.partition(scores, -k)[-k] if len(ids) > k else -np.inf
            yield [(float(scores[i]), ids[i]) for i in np.flatnonzero(scores >= threshold).tolist()]


def _mean_vector(vectors: Vectors) -> Vectors:
    """Return the mean vector, scaled to length 1."""
    if len(vectors) == 1:
        return vectors
    mean = vectors.sum(axis=0, keepdims=True)
    return np.asarray(mean / (np.sqrt((mean * mean).sum()) or 1.0), dtype=np.float32)


# -- what the store of a connection has


def vector_store(db: Database, folder: Path, table: str) -> protocols.VectorStore:
    """Return the vectors of a table. folder: of the index."""
    return vector_files.FileVectors(db, folder, table) if isinstance(db, Db) else PostgresVectors(db, table)


def vector_reader(db: Database, matrices: Matrices) -> protocols.VectorReader:
    """Return the vectors of a snapshot, for searches."""
    return vector_files.MatrixReader(db, matrices) if isinstance(db, Db) else PostgresReader(db)


def load_matrices(db: Database, folder: Path, files: vector_files.MappedFiles) -> Matrices:
    """Return the vectors that a snapshot reads, by table.

    files: what is mapped already. Raises FileNotFoundError if a newer build removed a file.
    """
    return vector_files.map_snapshot(db, folder, files) if isinstance(db, Db) else LoadedMatrices(db)


def remove_unused_files(db: Database, folder: Path) -> list[Path]:
    """Remove vector files without a use; return what cannot be removed."""
    return vector_files.remove_unused_vector_files(db, folder) if isinstance(db, Db) else []
