"""an index in one place -> the same index in another: between folders and databases, in one transaction."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kumihimo.app.build.batch import check_no_batch
from kumihimo.app.opened.open_index import OpenIndex, open_index
from kumihimo.core.errors import IndexDamaged, IndexUnavailable
from kumihimo.core.records import Record
from kumihimo.core.table import Codec, Table, codec
from kumihimo.core.task import Progress, ProgressEvent, ignore_progress
from kumihimo.index.sources import IMPORTS_FOLDER, TEXTS_FOLDER, load_sources, save_sources
from kumihimo.readers.remote.mirror import MIRRORS_FOLDER
from kumihimo.search import fulltext
from kumihimo.search.vectors import load_matrices, vector_reader, vector_store
from kumihimo.storage.cache_database import CacheDatabase
from kumihimo.storage.database import Database
from kumihimo.storage.ledger import checksum_name, sum_rows
from kumihimo.storage.place import IndexPlace

_LEDGER_TABLES = {
    "failed": ("step", "maker", "error"),
    "looked": ("step", "maker", "at"),
    "files": ("uri", "source", "stamp"),
}
_CACHE_TABLES = {"replies": 2, "usage": 10, "counts": 2}  # columns
_OF_STORE = ("file", "format")  # facts that each store has of its own
_PAGE_ROWS = 1000


@dataclass(frozen=True, slots=True)
class CopiedIndex:
    """A finished copy: rows by table, search indexes and cached replies."""

    rows: Mapping[str, int]
    searched: tuple[str, ...]
    replies: int


def copy_index(
    source: str | Path | IndexPlace, target: str | Path | IndexPlace, *, progress: Progress | None = None
) -> CopiedIndex:
    """Copy an index with its cache to another place, and check it.

    The documents stay where they are; imports, mirrors and texts in the index folder are copied. Raises
    IndexUnavailable where the target has an index already, or the source is of another version.
    """
    old_place, new_place = IndexPlace.at(source), IndexPlace.at(target)
    with (
        closing(open_index(old_place)) as old,
        closing(new_place.open_store()) as store,
        old.store.read_transaction() as read,
    ):
        if store.exists():
            raise IndexUnavailable(f"there is an index in {new_place} already: name another folder or schema")
        check_no_batch(old)
        with store.write_transaction() as written:
            copy = _Copy(old, read, written, new_place, progress or ignore_progress)
            rows = copy.copy_tables()
            copy.copy_facts()
            searched = copy.copy_search_indexes()
            copy.check()
        _copy_folders(old_place.folder, new_place.folder)
        with closing(old_place.open_cache()) as cache, closing(new_place.open_cache()) as new_cache:
            replies = _copy_cache(cache, new_cache)
    return CopiedIndex(rows, tuple(searched), replies)


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy under way."""

    index: OpenIndex
    old: Database
    new: Database
    place: IndexPlace
    progress: Progress

    def copy_tables(self) -> dict[str, int]:
        """Copy the rows of all tables; return how many."""
        rows: dict[str, int] = {}
        for step, fingerprint, shape in self.old.all("SELECT step, fingerprint, shape FROM steps ORDER BY step"):
            table = self._codec(step)
            if not self.old.has_columns_of(step, table):
                raise IndexUnavailable(f"{step} was built by another version: run `kumi index`, then copy")
            self.new.create_rows(step, table)
            rows[step], total = 0, self.old.rows(step).count()
            for page in self.old.rows(step).pages():
                self.new.write_rows(step, table, [], page)
                rows[step] += len(page)
                self.progress(ProgressEvent(step, rows[step], total))
            self.new.index_rows(step, table)
            wiring = shape.rpartition(" -- ")[2]
            shape = f"{self.new.rows_shape(step, table)} -- {wiring}"
            self.new.run("INSERT INTO steps VALUES (?, ?, ?)", step, fingerprint, shape)
        for name, columns in _LEDGER_TABLES.items():
            for page in _pages(self.old, name, columns):
                self.new.many(f"INSERT INTO {name} VALUES ({', '.join('?' * len(columns))})", page)
        return rows

    def copy_facts(self) -> None:
        """Copy the facts, with the paths of sources in the new place."""
        for name in self.old.meta_names(""):
            if name not in _OF_STORE and not name.startswith(("words_", "vectors_")):
                self.new.set_meta(name, self.old.meta(name))
        old_folder, new_folder = self.index.folder.resolve(), self.place.folder.resolve()
        sources = {
            name: replace(source, path=new_folder / source.path.relative_to(old_folder))
            if source.path.is_relative_to(old_folder)
            else source
            for name, source in load_sources(self.old, self.index.base).items()
        }
        save_sources(self.new, sources, self.place.base)

    def copy_search_indexes(self) -> list[str]:
        """Index the words again, and copy the vectors; return the names."""
        names = fulltext.stored_indexes(self.old)
        for name in names:
            kind, _, table = name.partition("_")
            if kind == "words":
                index = fulltext.KeywordIndex(self.new, table, self._codec(table))
                index.ensure(self.old.meta(name))
                fulltext.fill_index(index, self.new, self.progress)
                index.finish()
            else:
                self._copy_vectors(name, table)
        return names

    def _copy_vectors(self, name: str, table: str) -> None:
        state = self.old.meta(name)
        self.new.set_meta(name, {key: state[key] for key in ("mark", "embedder")})
        vectors = vector_store(self.new, self.place.folder, table)
        vectors.create()
        reader = vector_reader(self.old, load_matrices(self.old, self.index.folder, {}))
        rows = Table(table, self._codec(table), self.old.rows(table))
        for page in self.old.rows(table).pages("id") if state["rows"] else ():
            ids, stored = reader.select(rows, [id for (id,) in page])
            if ids:
                vectors.append(ids, stored)
        vectors.finish()

    def check(self) -> None:
        """Raise IndexDamaged unless every table has the rows of the old one."""
        for (name,) in self.old.all("SELECT step FROM steps ORDER BY step"):
            if sum(map(sum_rows, self.new.rows(name).pages())) != self.old.meta(checksum_name(name), 0):
                raise IndexDamaged(f"the rows of {name} are not those that the last build wrote: run `kumi check`")

    def _codec(self, table: str) -> Codec[Any]:
        record: type[Record] | None = self.index.catalogue.record_types.get(table)
        if record is None:
            raise IndexUnavailable(f"table {table} belongs to no installed step: install its plug-in, then copy")
        return codec(record)


def _pages(db: Database, table: str, columns: tuple[str, ...]) -> Iterator[list[Any]]:
    names = ", ".join(columns)
    rows = db.all(f"SELECT {names} FROM {table} ORDER BY 1, 2")
    yield from (rows[i : i + _PAGE_ROWS] for i in range(0, len(rows), _PAGE_ROWS))


def _copy_folders(old: Path, new: Path) -> None:
    for name in (IMPORTS_FOLDER, MIRRORS_FOLDER, TEXTS_FOLDER):
        if (old / name).is_dir():
            shutil.copytree(old / name, new / name, dirs_exist_ok=True)


def _copy_cache(old: CacheDatabase, new: CacheDatabase) -> int:
    """Copy replies and usage; return the number of replies."""
    if not old.exists() or old.location == new.location:
        return 0
    keys = [key for (key,) in old.select("SELECT key FROM replies ORDER BY key")]
    for name, count in _CACHE_TABLES.items():
        insert = f"INSERT INTO {name} VALUES ({', '.join('?' * count)}) ON CONFLICT DO NOTHING"
        pages = [keys[i : i + _PAGE_ROWS] for i in range(0, len(keys), _PAGE_ROWS)] if name == "replies" else [[]]
        for page in pages:
            query = f"SELECT * FROM {name}"
            rows = old.select_in("SELECT key, value FROM replies WHERE key", page) if page else old.select(query)
            with new.write() as db:
                db.many(insert, rows)
    return len(keys)
