"""a connection -> the search indexes that its store has."""

from pathlib import Path

from kumihimo.search import protocols, vector_files
from kumihimo.search.postgres_vectors import LoadedMatrices, PostgresReader, PostgresVectors
from kumihimo.search.vector_files import MatrixReader
from kumihimo.storage.database import Database
from kumihimo.storage.sqlite.connection import Db


def vector_store(db: Database, folder: Path, table: str) -> protocols.VectorStore:
    """Return the vectors of a table. folder: of the index."""
    return vector_files.FileVectors(db, folder, table) if isinstance(db, Db) else PostgresVectors(db, table)


def vector_reader(db: Database, matrices: protocols.Matrices) -> protocols.VectorReader:
    """Return the vectors of a snapshot, for searches."""
    return MatrixReader(db, matrices) if isinstance(db, Db) else PostgresReader(db)


def load_matrices(db: Database, folder: Path, files: vector_files.MappedFiles) -> protocols.Matrices:
    """Return the vectors that a snapshot reads, by table.

    files: what is mapped already. Raises FileNotFoundError if a newer build removed a file.
    """
    return vector_files.map_snapshot(db, folder, files) if isinstance(db, Db) else LoadedMatrices(db)


def remove_unused_files(db: Database, folder: Path) -> list[Path]:
    """Remove vector files without a use; return what cannot be removed."""
    return vector_files.remove_unused_vector_files(db, folder) if isinstance(db, Db) else []


def drop_index(db: Database, name: str) -> None:
    """Drop all tables of a search index, such as words_chunks."""
    for suffix in ("", "_blocks", "_ids", "_near"):
        db.drop_table(f"{name}{suffix}")
