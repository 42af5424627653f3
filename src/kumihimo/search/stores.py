"""a connection -> the search indexes that its store has."""

from pathlib import Path

from kumihimo.search.matrix_reader import MatrixReader
from kumihimo.search.postgres_vectors import LoadedMatrices, PostgresReader, PostgresVectors
from kumihimo.search.protocols import Matrices, VectorReader, VectorStore
from kumihimo.search.vector_files import (
    FileVectors,
    MappedFiles,
    map_snapshot,
    remove_unused_vector_files,
)
from kumihimo.storage.database import Database
from kumihimo.storage.sqlite.connection import Db


def vector_store(db: Database, folder: Path, table: str) -> VectorStore:
    """Return the vectors of a table. folder: of the index."""
    return FileVectors(db, folder, table) if isinstance(db, Db) else PostgresVectors(db, table)


def vector_reader(db: Database, matrices: Matrices) -> VectorReader:
    """Return the vectors of a snapshot, for searches."""
    return MatrixReader(db, matrices) if isinstance(db, Db) else PostgresReader(db)


def load_matrices(db: Database, folder: Path, files: MappedFiles) -> Matrices:
    """Return the vectors that a snapshot reads, by table.

    files: what is mapped already. Raises FileNotFoundError if a newer build removed a file.
    """
    return map_snapshot(db, folder, files) if isinstance(db, Db) else LoadedMatrices(db)


def remove_unused_files(db: Database, folder: Path) -> list[Path]:
    """Remove vector files without a use; return what cannot be removed."""
    return remove_unused_vector_files(db, folder) if isinstance(db, Db) else []


def drop_index(db: Database, name: str) -> None:
    """Drop all tables of a search index, such as words_chunks."""
    for suffix in ("", "_blocks", "_ids", "_near"):
        db.drop_table(f"{name}{suffix}")
