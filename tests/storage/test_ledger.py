"""one write transaction -> SqlLedger: changes, work to do, and its order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kumihimo.core.records import Record
from kumihimo.core.table import Codec, Row, codec, lookup_hash
from kumihimo.storage.ledger import SqlLedger
from kumihimo.storage.sqlite.store import SqliteStore


@dataclass(frozen=True, slots=True)
class Leaf(Record):
    GROUP: ClassVar[str] = "branch"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("size", ("branch", "size"))
    WAVE: ClassVar[str] = "size"
    branch: str
    size: int


@dataclass(frozen=True, slots=True)
class Big(Record):
    BIG: ClassVar[bool] = True
    note: str | None = None


LEAF: Codec[Any] = codec(Leaf)
A, B, C = ("a", "", "x", 1), ("b", "", "x", 2), ("c", "", "y", 2)


class RecordingView:
    """A view that records its calls."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def replace(self, old: list[Row], new: list[Row]) -> None:
        self.calls.append(([row[0] for row in old], [row[0] for row in new]))

    def clear(self) -> None:
        self.calls.append("clear")


@contextmanager
def open_ledger(folder: Path) -> Iterator[SqlLedger]:
    with SqliteStore(folder).write_transaction() as db:
        yield SqlLedger(db)


def fill(folder: Path, *rows: Row) -> None:
    with open_ledger(folder) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.change("leaves", [], list(rows))
        ledger.settle("leaves")
        ledger.set_fingerprint("leaves", "1")


def waves(ledger: SqlLedger) -> list[list[str]]:
    return [[key for page in wave for key in page] for wave in ledger.waves()]


# -- tables


def test_a_table_is_an_ordinary_one_with_typed_columns(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "")
        ledger.ensure_table("bigs", codec(Big), "documents", "")
        sql: dict[str, str] = dict(
            ledger.db.all("SELECT name, sql FROM sqlite_master WHERE name IN ('leaves', 'bigs')")
        )
    assert sql["leaves"] == (
        'CREATE TABLE "leaves" ("id" TEXT PRIMARY KEY NOT NULL, "text" TEXT NOT NULL, '
        '"branch" TEXT NOT NULL, "size" INTEGER NOT NULL) WITHOUT ROWID'
    )
    assert sql["bigs"] == 'CREATE TABLE "bigs" ("id" TEXT PRIMARY KEY NOT NULL, "text" TEXT NOT NULL, "note" TEXT)'


def test_each_lookup_has_its_index(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with open_ledger(tmp_path) as ledger:
        indexes = ledger.db.all(
            "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'leaves' ORDER BY 1"
        )
        assert indexes == [("leaves_branch",), ("leaves_branch_size",), ("leaves_size",)]
        plan = ledger.db.all("EXPLAIN QUERY PLAN SELECT * FROM leaves WHERE branch = 'x' AND size = 1 ORDER BY id")
    assert "USING COVERING INDEX leaves_branch_size" in plan[0][-1] or "USING INDEX leaves_branch_size" in plan[0][-1]
    assert len(plan) == 1  # no sorting step


def test_the_same_shape_keeps_what_a_table_holds(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with open_ledger(tmp_path) as ledger:
        assert ledger.ensure_table("leaves", LEAF, "documents", "id") is False
        assert ledger.rows("leaves").count() == 1
        assert ledger.fingerprint("leaves") == "1"
        assert ledger.changed("leaves") is False


@pytest.mark.parametrize(("kind", "source"), [(codec(Big), "documents"), (LEAF, "lines")])
def test_another_shape_empties_the_table(tmp_path: Path, kind: Codec[Any], source: str) -> None:
    fill(tmp_path, A)
    view = RecordingView()
    with open_ledger(tmp_path) as ledger:
        ledger.views["leaves"].append(view)
        ledger.record_dependencies("leaves", [("a", b"12345678")])
        assert ledger.ensure_table("leaves", kind, source, "id") is True
        assert ledger.rows("leaves").count() == 0
        assert ledger.fingerprint("leaves") is None
        assert ledger.changed("leaves") is True
        assert ledger.changed_lookups("leaves") is None
        assert list(ledger.dependencies("leaves")) == []
    assert view.calls == ["clear"]


def test_views_receive_old_and_new_rows(tmp_path: Path) -> None:
    fill(tmp_path, A, B)
    view = RecordingView()
    with open_ledger(tmp_path) as ledger:
        ledger.views["leaves"].append(view)
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.change("leaves", [A, B], [("a", "new", "x", 1), C])
        ledger.change("leaves", [], [])
        assert list(ledger.rows("leaves").pages()) == [[("a", "new", "x", 1), C]]
    assert view.calls == [(["a", "b"], ["a", "c"])]


def test_retired_tables_are_dropped_except_those_of_table_steps(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        for table, source, key in (("leaves", "documents", "id"), ("groups", "leaves", ""), ("kept", "leaves", "id")):
            ledger.ensure_table(table, LEAF, source, key)
            ledger.change(table, [], [A])
            ledger.set_fingerprint(table, "1")
            ledger.record_dependencies(table, [("a", b"12345678")])
            ledger.record_failures(table, [("a", "no")])
        ledger.retire(["kept"])
        assert [ledger.db.has(table) for table in ("leaves", "groups", "kept")] == [False, True, True]
        assert [ledger.fingerprint(table) for table in ("leaves", "groups", "kept")] == [None, None, "1"]
        assert [list(ledger.dependencies(table)) for table in ("leaves", "groups")] == [[], []]
        assert [ledger.failures(table) for table in ("leaves", "groups", "kept")] == [{}, {}, {"a": "no"}]
        assert ledger.rows("groups").count() == 1


def test_rows_are_grouped_by_a_column_in_the_order_of_ids(tmp_path: Path) -> None:
    fill(tmp_path, B, C, A)
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        assert ledger.grouped("leaves", "branch", ["x", "y", "z"]) == {"x": [A, B], "y": [C]}
        assert ledger.grouped("leaves", "id", ["c", "a"]) == {"a": [A], "c": [C]}


def test_the_earlier_rows_of_a_maker(tmp_path: Path) -> None:
    rows = [(f"{maker}.{i:05d}", "", "x", 1) for maker in ("a", "ab", "b", "c") for i in range(2)]
    fill(tmp_path, *rows)
    for everything in (False, True):
        with open_ledger(tmp_path) as ledger:
            ledger.ensure_table("leaves", LEAF, "documents", "id")
            ledger.todo("leaves", "leaves", "id", "", everything=everything)
            before = ledger.rows_by_maker("leaves", ["a", "b"], many=True)
            assert {maker: before[maker] for maker in ("a", "b")} == {"a": rows[:2], "b": rows[4:6]}
            assert ledger.rows_by_maker("leaves", [], many=True) == {}
            assert ledger.rows_by_maker("leaves", ["a.00000", "z"], many=False) == {"a.00000": [rows[0]]}


# -- what changed


def test_an_empty_table_records_no_changes_since_all_is_new(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.watch("leaves", "id", LEAF.lookup_keys)
        assert ledger.changed_lookups("leaves") == set()
        ledger.change("leaves", [], [A])
        assert ledger.changed_lookups("leaves") is None
        assert ledger.changed("leaves")
        assert ledger.db.all("SELECT * FROM changed") == []


def test_changed_keys_and_lookups_are_recorded(tmp_path: Path) -> None:
    fill(tmp_path, A, B)
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.watch("leaves", "id", [("id",)])
        ledger.watch("leaves", "branch", [("size",)])
        ledger.change("leaves", [A], [("a", "", "y", 1), ("d", "", "z", 3)])
        assert ledger.db.all("SELECT col, key FROM changed ORDER BY 1, 2") == [
            ("branch", "x"),
            ("branch", "y"),
            ("branch", "z"),
            ("id", "a"),
            ("id", "d"),
        ]
        lookups = [(("id",), "a"), (("id",), "d"), (("size",), 1), (("size",), 3)]
        assert ledger.changed_lookups("leaves") == {
            lookup_hash("leaves", columns, [value]) for columns, value in lookups
        }


# -- work


def test_the_first_time_every_key_is_listed_once(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.change("leaves", [], [C, B, A])
        ledger.todo("steps", "leaves", "id", "", everything=False)
        assert waves(ledger) == [["a", "b", "c"]]
        ledger.todo("steps", "leaves", "branch", "", everything=False)
        assert waves(ledger) == [["x", "y"]]
        assert waves(ledger) == []


def test_later_only_changed_and_failed_keys_are_listed(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.watch("leaves", "branch", ())
        ledger.change("leaves", [C], [])
        ledger.record_failures("entries", [("w", "no answer"), ("y", "no answer")])
        ledger.todo("entries", "leaves", "branch", "", everything=False)
        assert waves(ledger) == [["w", "y"]]
        ledger.todo("entries", "leaves", "branch", "", everything=True)
        assert waves(ledger) == [["w", "x", "y"]]  # y has no rows any more, so its results are removed


def test_waves_run_highest_first_after_keys_without_a_row(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.todo("reports", "leaves", "id", "size", everything=True)
        ledger.add_keys(["gone"])
        assert waves(ledger) == [["gone"], ["b", "c"], ["a"]]


def test_a_wave_adds_to_later_waves_only(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.todo("reports", "leaves", "id", "size", everything=False)
        ledger.add_keys(["b"])
        waves_run: list[list[str]] = []
        for wave in ledger.waves():
            waves_run.append([key for page in wave for key in page])
            ledger.add_keys(["a", "c"])  # c is in the same wave as b, so it cannot look up results of b
        assert waves_run == [["b"], ["a"]]


def test_keys_come_in_sorted_pages_and_are_counted(tmp_path: Path) -> None:
    rows = [(f"{i:05d}", "", "x", 1) for i in range(1200)]
    with open_ledger(tmp_path) as ledger:
        ledger.ensure_table("leaves", LEAF, "documents", "id")
        ledger.change("leaves", [], rows)
        ledger.todo("steps", "leaves", "id", "", everything=True)
        for wave in ledger.waves():
            pages = list(wave)
            assert ledger.todo_count == 1200
        assert [len(page) for page in pages] == [512, 512, 176]
        assert [key for page in pages for key in page] == [row[0] for row in rows]


# -- stored state


def test_failures_are_listed_until_they_succeed(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_failures("reports", [("b", "no answer"), ("a", "capped"), ("c", None)])
        ledger.record_failures("others", [("b", "another step's")])
    with open_ledger(tmp_path) as ledger:
        assert ledger.failures("reports") == {"a": "capped", "b": "no answer"}
        ledger.record_failures("reports", [("a", None), ("b", "no answer again")])
        assert ledger.failures("reports") == {"b": "no answer again"}
        assert ledger.failures("others") == {"b": "another step's"}


def test_lookups_are_those_of_the_last_run(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.record_dependencies("links", iter([("a", b"1" * 8), ("b", b"2" * 16)]))
        ledger.record_dependencies("links", iter([("a", b""), ("b", b"3" * 8), ("c", b"")]))
    with open_ledger(tmp_path) as ledger:
        assert list(ledger.dependencies("links")) == [("b", b"3" * 8)]
        assert list(ledger.dependencies("others")) == []


def test_a_fingerprint_is_stored(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with open_ledger(tmp_path) as ledger:
        assert ledger.fingerprint("leaves") == "1"
        assert ledger.fingerprint("others") is None
