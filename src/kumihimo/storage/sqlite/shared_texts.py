"""rows whose text other rows repeat -> rows that refer to it, and the table `texts`, which has it once.

Such a table has its rows in `rows_X`, and X is a view of them with their texts.
"""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.table import Codec, Row

if TYPE_CHECKING:
    from kumihimo.storage.sqlite.store import Db

_MIN_SHARED = 20  # characters: a reference has ten bytes
ROWS_PREFIX = "rows_"  # of the tables behind the views


def stored_table(table: str, codec: Codec[Any]) -> str:
    """Return the name of the table that holds the rows."""
    return ROWS_PREFIX + table if codec.record.SHARED_TEXT else table


def table_ddl(table: str, codec: Codec[Any]) -> str:
    """Return the statements that create a table and its view."""
    shared = codec.record.SHARED_TEXT
    columns = ", ".join(
        f'"{name}" {_sql_type(name, kind, shared=shared)}{" NOT NULL" * (not nullable)}'
        for name, kind, nullable in zip(codec.columns, codec.sql_types, codec.nullable, strict=True)
    )
    ddl = f'CREATE TABLE "{stored_table(table, codec)}" ({columns}){"" if codec.record.BIG else " WITHOUT ROWID"}'
    if not shared:
        return ddl
    text = "CASE typeof(text) WHEN 'blob' THEN (SELECT t.text FROM texts t WHERE t.id = r.text) ELSE text END AS text"
    names = ", ".join(text if name == "text" else f'"{name}"' for name in codec.columns)
    return f'{ddl}; CREATE VIEW "{table}" AS SELECT {names} FROM "{ROWS_PREFIX}{table}" r'


def _sql_type(name: str, kind: str, *, shared: bool) -> str:
    if name == "id":
        return "TEXT PRIMARY KEY"
    if shared and name == "text":
        return "BLOB"  # a reference, or a short text
    return "TEXT" if kind == "JSON" else kind


def share_texts(db: "Db", old: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """Return the new rows with references, and count uses."""
    uses: Counter[str] = Counter(row[1] for row in new if len(row[1]) >= _MIN_SHARED)
    uses.subtract(row[1] for row in old if len(row[1]) >= _MIN_SHARED)
    keys = {text: bytes.fromhex(hash_parts(text)) for text in uses}
    added = ((keys[text], text, count) for text, count in uses.items() if count > 0)
    db.many("INSERT INTO texts VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET uses = uses + excluded.uses", added)
    _release(db, [(keys[text], -count) for text, count in uses.items() if count < 0])
    return [(row[0], keys.get(row[1], row[1]), *row[2:]) for row in new]


def _release(db: "Db", counts: list[tuple[bytes, int]]) -> None:
    """Lower the uses of texts, and delete those without any."""
    db.many("UPDATE texts SET uses = uses - ? WHERE id = ?", ((count, id) for id, count in counts))
    db.many("DELETE FROM texts WHERE id = ? AND uses <= 0", ((id,) for id, _ in counts))


def drop_table(db: "Db", table: str) -> None:
    """Drop a table, and the texts that only its rows use."""
    if db.one("SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = ?", table):
        db.run(f'DROP VIEW "{table}"')
        table = ROWS_PREFIX + table
        _release(db, db.all(f"SELECT text, count(*) FROM \"{table}\" WHERE typeof(text) = 'blob' GROUP BY 1"))
    db.run(f'DROP TABLE IF EXISTS "{table}"')


def find_wrong_uses(db: "Db") -> str:
    """Return what is wrong with the counts of shared texts; empty: nothing."""
    tables = db.all("SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?", f"{ROWS_PREFIX}*")
    rows = " UNION ALL ".join(f"SELECT text FROM \"{name}\" WHERE typeof(text) = 'blob'" for (name,) in tables)
    counts = f"SELECT text, count(*) FROM ({rows or 'SELECT NULL AS text WHERE 0'}) GROUP BY 1"
    is_wrong = dict(db.all("SELECT id, uses FROM texts")) != dict(db.all(counts))
    return "the counts of shared texts are not those of the rows" if is_wrong else ""
