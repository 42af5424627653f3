"""one index.db -> its format, and the tables that every build needs."""

from kumihimo.core.errors import IndexUnavailable
from kumihimo.storage.sqlite.connection import Db

FORMAT = 4  # of index.db; version 0.1 wrote 1
_KEPT_BY_REBUILD = ("communities", "meta", "steps")  # communities remember; meta holds the sources and methods
_KEPT_META = ("sources", "methods", "models", "origins", "build", "file")  # the last two number other files

LEDGER_TABLES = """
CREATE TABLE IF NOT EXISTS steps  (step TEXT PRIMARY KEY, fingerprint TEXT, shape TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS failed (step TEXT, maker TEXT, error TEXT NOT NULL, PRIMARY KEY (step, maker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS looked (step TEXT, maker TEXT, at BLOB NOT NULL, PRIMARY KEY (step, maker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS meta   (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS texts  (n INTEGER PRIMARY KEY, id BLOB UNIQUE, text TEXT NOT NULL, uses INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS files  (uri TEXT PRIMARY KEY, source TEXT NOT NULL, stamp TEXT NOT NULL) WITHOUT ROWID;
"""


def file_format(db: Db) -> int:
    """Return the file's format; 0 where nothing was written yet."""
    version = int(db.all("PRAGMA user_version")[0][0])
    if version == 0 and db.one("SELECT 1 FROM sqlite_master"):
        raise IndexUnavailable(f"{db.path} is a database of something else: name another folder with `--index DIR`")
    return version


def prepare_tables(db: Db, *, rebuild: bool) -> None:
    """Create missing ledger tables; to rebuild, drop the others first."""
    if rebuild and file_format(db):
        _drop_tables(db)
    for statement in filter(str.strip, LEDGER_TABLES.split(";")):
        db.run(statement)
    db.run(f"PRAGMA user_version = {FORMAT}")


def _drop_tables(db: Db) -> None:
    """Drop the tables that a build makes, except the communities."""
    query = (
        "SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        " ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC"  # a full-text table takes its own tables with it
    )
    for kind, name in db.all(query):
        if name not in _KEPT_BY_REBUILD:
            db.run(f'DROP {kind} IF EXISTS "{name}"')
    db.run(f"DELETE FROM meta WHERE name NOT IN ({','.join('?' * len(_KEPT_META))})", *_KEPT_META)
    db.run("DELETE FROM steps WHERE step <> 'communities'")
    db.run("UPDATE steps SET fingerprint = NULL")
