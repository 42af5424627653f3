"""tables -> an index on disk: protocols for the packages above, and SQLite."""

from sqlite3 import Error as StorageError

__all__ = ["StorageError"]  # what a full disk or a broken file raises
