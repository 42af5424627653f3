"""rows with the same text -> the text once in the file, and gone with its last row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kumihimo.core.records import Mention, Record, Report
from kumihimo.core.table import Row, codec
from kumihimo.storage.ledger import SqlLedger, drop_retired_tables
from kumihimo.storage.sqlite.connection import Db
from kumihimo.storage.sqlite.shared_texts import find_wrong_uses
from kumihimo.storage.sqlite.store import SqliteStore

SENTENCE = "Ada Vane built the pier of Fenwick, and Bea Orrell paid for it."


def row(number: int, text: str = SENTENCE) -> Row:
    return codec(Mention).encode(
        f"d.00000.{number:05}", Mention(entity=f"e{number % 2}", name="Ada", type="", text=text)
    )


def stored_texts(db: Db) -> list[tuple[str, int]]:
    return [(text, uses) for text, uses in db.all("SELECT text, uses FROM texts ORDER BY text")]


def fill(db: Db, *rows: Row, table: str = "mentions", kind: type[Record] = Mention) -> SqlLedger:
    ledger = SqlLedger(db)
    ledger.ensure_table(table, codec(kind), "chunks", "id")
    ledger.change(table, [], list(rows))
    ledger.settle(table)
    return ledger


def test_a_text_is_stored_once(tmp_path: Path) -> None:
    rows = [row(0), row(1), row(2, "short"), row(3, ""), row(4, "Another sentence, on the ferry of Fenwick.")]
    store = SqliteStore(tmp_path)
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
    store = SqliteStore(tmp_path)
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


def test_lines_are_shared(tmp_path: Path) -> None:
    rows = [row(0), row(1, f"{SENTENCE}\n\n{SENTENCE}\n"), row(2, f"Title\n{SENTENCE}"), row(3, "a\nb")]
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        ledger = fill(db, *rows)
        assert stored_texts(db) == [("", 2), (SENTENCE, 4), ("Title", 1)]
        assert [each for page in ledger.rows("mentions").pages() for each in page] == rows
        ledger.change("mentions", [rows[1]], [row(1, f"Title\n{SENTENCE}")])
        assert stored_texts(db) == [(SENTENCE, 3), ("Title", 2)]
        assert find_wrong_uses(db) == []
        db.run("UPDATE texts SET uses = 9 WHERE text = 'Title'")
        assert find_wrong_uses(db)
    store.close()


def test_a_text_that_other_columns_determine_is_not_stored(tmp_path: Path) -> None:
    empty = Report("Piers", "", 1.0, "", (), (), 0, 0, 0, 0)
    full = replace(empty, summary='Ada "Vane"\n\tbuilt.', findings=(("Ada", "She built."), ("潮", ""), ("", "é")))
    reports = [replace(report, text=report.derived_text) for report in (empty, full)]
    reports += [replace(empty, text="other words"), replace(full, findings=(("A\0b", "c"),), text="")]
    reports[3] = replace(reports[3], text=reports[3].derived_text)
    rows = [codec(Report).encode(f"r{i}", report) for i, report in enumerate(reports)]
    store = SqliteStore(tmp_path)
    with store.write_transaction() as db:
        ledger = fill(db, *rows, table="reports", kind=Report)
        assert [each for page in ledger.rows("reports").pages() for each in page] == rows
        stored = [(reports[2].text,), (reports[3].text,)]
        assert db.all("SELECT text FROM rows_reports WHERE text IS NOT NULL ORDER BY id") == stored
        drop_retired_tables(db, [])
    store.close()
