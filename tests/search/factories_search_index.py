"""texts -> a search index of one table, built from differences as a real build does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kumihimo.core.context import Context
from kumihimo.core.engine import diff_rows
from kumihimo.core.records import Record
from kumihimo.core.table import Row, Table, codec
from kumihimo.search.fulltext import Bm25Search, KeywordIndex
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.search.vector_files import MappedFiles
from kumihimo.search.vectors import CosineSearch, VectorIndex, load_matrices, remove_unused_files
from kumihimo.storage.database import Database, SqlRows
from kumihimo.storage.ledger import SqlLedger
from kumihimo.testing.fake_models import FakeEmbedder
from tests.factories_tables import hide_rows
from tests.stores import open_store

WORDS = "sea sky sun fog dew ice rain wind port ferry boat oat seed cord silk loom".split()  # noqa: SIM905
Vectors = NDArray[np.float32]
Search = Callable[[str, int], list[tuple[str, float]]]  # query, k -> ids and scores


@dataclass(frozen=True, slots=True)
class Note(Record):
    """A text with a page count that is not indexed."""

    FORWARD_INDEX: ClassVar[bool] = True

    pages: int = 0


@dataclass
class Notes:
    """An index folder with a table of notes, given as id -> text."""

    folder: Path
    view: Callable[[Database], Any]
    search: Callable[[Database], KeywordSearch | VectorSearch]
    was_empty: list[bool] = field(default_factory=list)  # whether each build had to fill the index

    def __post_init__(self) -> None:
        self.store = open_store(self.folder)

    @contextmanager
    def open_build(self, texts: Mapping[str, str], *, fingerprint: str = "1", pages: int = 0) -> Iterator[None]:
        """Replace the notes in a build that ends with the context."""
        with self.store.write_transaction() as db:
            ledger, view = SqlLedger(db), self.view(db)
            ledger.ensure_table("notes", codec(Note), "documents", "id")
            empty = view.ensure(fingerprint)
            if not empty:
                ledger.views["notes"].append(view)
            rows = [codec(Note).encode(id, Note(text=text, pages=pages)) for id, text in texts.items()]
            old: list[Row] = []
            new: list[Row] = []
            diff_rows({row[0]: row for page in ledger.rows("notes").pages() for row in page}, rows, old, new)
            ledger.change("notes", old, new)
            for page in ledger.rows("notes").pages() if empty else ():
                view.replace([], page)
            view.finish()
            self.was_empty.append(empty)
            yield

    def build(self, texts: Mapping[str, str], *, fingerprint: str = "1", pages: int = 0) -> None:
        with self.open_build(texts, fingerprint=fingerprint, pages=pages):
            pass

    @contextmanager
    def open_search(self, passes: Callable[[str], bool] | None = None) -> Iterator[Search]:
        """Yield a search over one snapshot."""
        with self.store.read_transaction() as db:
            stored = Table("notes", codec(Note), SqlRows(db, "notes"))
            search, table = self.search(db), hide_rows(stored, passes) if passes else stored

            def search_ids(question: str, k: int) -> list[tuple[str, float]]:
                context: Context = search(table, question, k=k)
                assert all(item.table == "notes" and item.record == table[item.record.id] for item in context)
                return [(item.record.id, item.score) for item in context]

            yield search_ids

    def search_notes(self, question: str, k: int = 10) -> list[tuple[str, float]]:
        with self.open_search() as search:
            return search(question, k)

    def ids(self, question: str, k: int = 10) -> list[str]:
        return [id for id, _ in self.search_notes(question, k)]

    def filtered(self, question: str, k: int, visible: set[str]) -> tuple[list[tuple[str, float]], int]:
        """Return the hits among these ids, and the number of filter calls."""
        checked: list[str] = []
        with self.open_search(lambda id: bool(checked.append(id)) or id in visible) as search:  # type: ignore[func-returns-value]
            hits = search(question, k)
        return hits, len(checked)


class Embed:
    """A fake embedder that records its texts."""

    batch, workers = 256, 1

    def __init__(self, make: Callable[[Sequence[str]], Vectors] | None = None, fingerprint: str = "made up") -> None:
        self.make = make or FakeEmbedder()
        self.fingerprint = fingerprint
        self.texts: list[str] = []

    def __call__(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        return self.make(texts)


def keyword_notes(folder: Path, texts: Mapping[str, str] | None = None) -> Notes:
    """Return notes with a full-text index."""
    index = Notes(folder, lambda db: KeywordIndex(db, "notes", codec(Note)), Bm25Search)
    if texts is not None:
        index.build(texts)
    return index


def vector_notes(folder: Path, texts: Mapping[str, str] | None = None, embed: Embed | None = None) -> Notes:
    """Return notes with a vector index."""
    embedder = embed or Embed()
    files: MappedFiles = {}

    def view(db: Database) -> VectorIndex:
        remove_unused_files(db, folder)  # builds do this first
        return VectorIndex(db, folder, "notes", codec(Note), embedder)

    def search(db: Database) -> CosineSearch:
        return CosineSearch(db, lambda *_: embedder, load_matrices(db, folder, files))

    index = Notes(folder, view, search)
    if texts is not None:
        index.build(texts)
    return index


def mixed_texts(n: int, seed: int = 0) -> dict[str, str]:
    """Return texts of one to six words, the same each time."""
    random = Random(seed)
    return {f"n{i:05d}": " ".join(random.choices(WORDS, k=random.randint(1, 6))) for i in range(n)}
