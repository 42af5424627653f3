"""rows with the same text -> the text once in the file, and gone with its last row."""

from __future__ import annotations

from pathlib import Path

from kumihimo.core.records import Mention
from kumihimo.core.table import Row, codec
from kumihimo.storage.sqlite.ledger import SqlLedger, drop_retired_tables
from kumihimo.storage.sqlite.store import Db, Store

SENTENCE = "Ada Vane built the pier of Fenwick, and Bea Orrell paid for it."


def row(number: int, text: str = SENTENCE) -> Row:
    return codec(Mention).encode(
        f"d.00000.{number:05}", Mention(entity=f"e{number % 2}", name="Ada", type="", text=text)
    )


def stored_texts(db: Db) -> list[tuple[str, int]]:
    return [(text, uses) for text, uses in db.all("SELECT text, uses FROM texts ORDER BY text")]


def fill(db: Db, *rows: Row, table: str = "mentions") -> SqlLedger:
    ledger = SqlLedger(db)
    ledger.ensure_table(table, codec(Mention), "chunks", "id")
    ledger.change(table, [], list(rows))
    ledger.settle(table)
    return ledger


def test_a_text_is_stored_once(tmp_path: Path) -> None:
    rows = [row(0), row(1), row(2, "short"), row(3, ""), row(4, "Another sentence, on the ferry of Fenwick.")]
    store = Store(tmp_path)
    with store.write_transaction() as db:
        ledger = fill(db, *rows)
        assert stored_texts(db) == [(SENTENCE, 2), (rows[4][1], 1)]
        assert [each for page in ledger.rows("mentions").pages() for each in page] == rows
        assert ledger.rows("mentions").where(("entity",), ("e0",)) == rows[::2]
        assert db.has("mentions")
        ledger.change("mentions", [rows[0]], [row(0, "Bo Lind dug the long ditch.")])
        assert stored_texts(db) == [(SENTENCE, 1), (rows[4][1], 1), ("Bo Lind dug the long ditch.", 1)]
        ledger.change("mentions", [rows[1]], [])
        assert SENTENCE not in dict(stored_texts(db))
    store.close()


def test_a_dropped_table_releases_its_texts(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with store.write_transaction() as db:
        fill(db, row(0), row(1))
    with store.write_transaction() as db:
        fill(db, row(0), table="others")
        assert stored_texts(db) == [(SENTENCE, 3)]
        drop_retired_tables(db, ["others"])
        assert (stored_texts(db), db.has("mentions")) == ([(SENTENCE, 1)], False)
    with store.write_transaction(rebuild=True) as db:
        assert (stored_texts(db), db.has("others")) == ([], False)
    store.close()
