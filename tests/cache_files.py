"""a response cache in a file -> the file, and the connection that writes it."""

import sqlite3
from pathlib import Path

from kumihimo.storage.response_cache import ResponseCache
from kumihimo.storage.sqlite.cache_file import CacheFile


def cache_file(cache: ResponseCache) -> CacheFile:
    assert isinstance(cache.database, CacheFile)
    return cache.database


def path_of(cache: ResponseCache) -> Path:
    return cache_file(cache).path


def writer_of(cache: ResponseCache) -> sqlite3.Connection:
    """Return the connection that writes; open it if needed."""
    return cache_file(cache)._connect()
