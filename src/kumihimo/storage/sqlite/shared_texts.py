"""rows whose text is stored elsewhere -> rows that refer to it, and the table `texts`, which has each line once.

Such a table has its rows in `rows_X`, and X is a view of them with their texts. A text of several lines refers to each
of them: the lines of a document are those of its chunks, and the sentences of an entity those of its mentions.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kumihimo.core.digests import hash_parts
from kumihimo.core.table import Codec, Row
from kumihimo.storage.database import Database

_MIN_SHARED = 20  # characters; a shorter text is in its row
ROWS_PREFIX = "rows_"  # of the tables behind the views
# a number refers to one line, a blob of JSON to several; no value: other columns have the text
_NUMBERS = "json_each(CASE typeof(r.text) WHEN 'text' THEN '[]' ELSE CAST(r.text AS TEXT) END)"
_LINE = "SELECT t.text FROM texts t WHERE t.n"
_LINES = f"SELECT t.text FROM {_NUMBERS} j CROSS JOIN texts t ON t.n = j.value ORDER BY j.key"
_TEXT = (
    f"CASE typeof(text) WHEN 'integer' THEN ({_LINE} = r.text)"
    f" WHEN 'blob' THEN (SELECT group_concat(text, char(10)) FROM ({_LINES})) ELSE text END"
)


def stored_table(table: str, codec: Codec[Any]) -> str:
    """Return the name of the table that holds the rows."""
    return ROWS_PREFIX + table if codec.record.SHARED_TEXT or codec.record.TEXT_SQL else table


def table_ddl(table: str, codec: Codec[Any]) -> str:
    """Return the statements that create a table and its view."""
    stored = stored_table(table, codec)
    columns = ", ".join(
        '"text" BLOB'
        if stored != table and name == "text"
        else f'"{name}" {_sql_type(name, kind)}{" NOT NULL" * (not nullable)}'
        for name, kind, nullable in zip(codec.columns, codec.sql_types, codec.nullable, strict=True)
    )
    ddl = f'CREATE TABLE "{stored}" ({columns}){"" if codec.record.BIG else " WITHOUT ROWID"}'
    if stored == table:
        return ddl
    text = f"coalesce(text, {codec.record.TEXT_SQL})" if codec.record.TEXT_SQL else _TEXT
    names = ", ".join(f"{text} AS text" if name == "text" else f'"{name}"' for name in codec.columns)
    return f'{ddl}; CREATE VIEW "{table}" AS SELECT {names} FROM "{stored}" r'


def _sql_type(name: str, kind: str) -> str:
    return "TEXT PRIMARY KEY" if name == "id" else "TEXT" if kind == "JSON" else kind


def stored_rows(db: Database, codec: Codec[Any], old: list[Row], new: list[Row]) -> list[Row]:
    """Return the new rows with references, and count uses."""
    if codec.record.TEXT_SQL:
        return [(row[0], _stored_text(codec, row), *row[2:]) for row in new]
    return _share_lines(db, old, new) if codec.record.SHARED_TEXT else new


def _stored_text(codec: Codec[Any], row: Row) -> str | None:
    """Return no value for a text that the other columns determine."""
    is_derived = row[1] == codec.decode(row).derived_text and "\0" not in row[1]  # JSON in SQLite stops at a zero
    return None if is_derived else row[1]


def _share_lines(db: Database, old: list[Row], new: list[Row]) -> list[Row]:
    lines = {row[1]: row[1].split("\n") for row in (*old, *new) if len(row[1]) >= _MIN_SHARED}
    uses: Counter[str] = Counter()
    for row in new:
        uses.update(lines.get(row[1], ()))
    for row in old:
        uses.subtract(lines.get(row[1], ()))
    keys = {line: bytes.fromhex(hash_parts(line)) for line in uses}
    added = ((keys[line], line, count) for line, count in uses.items() if count > 0)
    update = "ON CONFLICT (id) DO UPDATE SET uses = uses + excluded.uses"
    db.many(f"INSERT INTO texts (id, text, uses) VALUES (?, ?, ?) {update}", added)
    by_key: dict[bytes, int] = dict(db.all_in("SELECT id, n FROM texts WHERE id", list(keys.values())))
    numbers = {line: by_key[key] for line, key in keys.items()}
    _release(db, [(numbers[line], -count) for line, count in uses.items() if count < 0])
    references = {text: _reference([numbers[line] for line in parts]) for text, parts in lines.items()}
    return [(row[0], references.get(row[1], row[1]), *row[2:]) for row in new]


def _reference(numbers: list[int]) -> int | bytes:
    return numbers[0] if len(numbers) == 1 else str(numbers).replace(" ", "").encode()


def _release(db: Database, counts: list[tuple[int, int]]) -> None:
    """Lower the uses of lines, and delete those without any."""
    db.many("UPDATE texts SET uses = uses - ? WHERE n = ?", ((count, n) for n, count in counts))
    db.many("DELETE FROM texts WHERE n = ? AND uses <= 0", ((n,) for n, _ in counts))


def drop_rows(db: Database, table: str) -> None:
    """Drop a table, and the lines that only its rows use."""
    if db.one("SELECT 1 FROM sqlite_master WHERE type = 'view' AND name = ?", table):
        db.run(f'DROP VIEW "{table}"')
        table = ROWS_PREFIX + table
        _release(db, list(_count_uses(db, [table]).items()))
    db.run(f'DROP TABLE IF EXISTS "{table}"')


def find_wrong_uses(db: Database) -> list[str]:
    """Return what is wrong with the counts of shared texts."""
    query = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB ?"
    tables = [name for (name,) in db.all(query, f"{ROWS_PREFIX}*")]
    is_wrong = dict(db.all("SELECT n, uses FROM texts")) != _count_uses(db, tables)
    return ["the counts of shared texts are not those of the rows"] if is_wrong else []


def _count_uses(db: Database, tables: Iterable[str]) -> Counter[int]:
    """Return how often these tables refer to each line."""
    uses: Counter[int] = Counter()
    for table in tables:
        uses.update(dict(db.all(f'SELECT j.value, count(*) FROM "{table}" r, {_NUMBERS} j GROUP BY 1')))
    return uses
