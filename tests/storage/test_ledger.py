"""one write transaction -> SqlLedger: what changed, what is to do, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kumihimo.core.records import Record
from kumihimo.core.table import Codec, Row, codec, lookup_hash
from kumihimo.storage.sqlite.ledger import SqlLedger
from kumihimo.storage.sqlite.store import Store


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


class Noted:
    """A view that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def replace(self, old: list[Row], new: list[Row]) -> None:
        self.told.append(([row[0] for row in old], [row[0] for row in new]))

    def clear(self) -> None:
        self.told.append("clear")


@contextmanager
def ledger(folder: Path) -> Iterator[SqlLedger]:
    with Store(folder).write_transaction() as db:
        yield SqlLedger(db)


def fill(folder: Path, *rows: Row) -> None:
    with ledger(folder) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.change("leaves", [], list(rows))
        made.settle("leaves")
        made.set_fingerprint("leaves", "1")


def waves(made: SqlLedger) -> list[list[str]]:
    return [[key for page in wave for key in page] for wave in made.waves()]


# -- tables


def test_a_table_is_an_ordinary_one_with_typed_columns(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "")
        made.ensure_table("bigs", codec(Big), "documents", "")
        sql: dict[str, str] = dict(made.db.all("SELECT name, sql FROM sqlite_master WHERE name IN ('leaves', 'bigs')"))
    assert sql["leaves"] == (
        'CREATE TABLE "leaves" ("id" TEXT PRIMARY KEY NOT NULL, "text" TEXT NOT NULL, '
        '"branch" TEXT NOT NULL, "size" INTEGER NOT NULL) WITHOUT ROWID'
    )
    assert sql["bigs"] == 'CREATE TABLE "bigs" ("id" TEXT PRIMARY KEY NOT NULL, "text" TEXT NOT NULL, "note" TEXT)'


def test_each_look_up_has_its_index(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with ledger(tmp_path) as made:
        found = made.db.all("SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'leaves' ORDER BY 1")
        assert found == [("leaves_branch",), ("leaves_branch_size",), ("leaves_size",)]
        plan = made.db.all("EXPLAIN QUERY PLAN SELECT * FROM leaves WHERE branch = 'x' AND size = 1 ORDER BY id")
    assert "USING COVERING INDEX leaves_branch_size" in plan[0][-1] or "USING INDEX leaves_branch_size" in plan[0][-1]
    assert len(plan) == 1  # nothing is sorted afterwards


def test_the_same_shape_keeps_what_a_table_holds(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with ledger(tmp_path) as made:
        assert made.ensure_table("leaves", LEAF, "documents", "id") is False
        assert made.rows("leaves").count() == 1
        assert made.fingerprint("leaves") == "1"
        assert made.changed("leaves") is False


@pytest.mark.parametrize(("kind", "source"), [(codec(Big), "documents"), (LEAF, "lines")])
def test_another_shape_empties_it(tmp_path: Path, kind: Codec[Any], source: str) -> None:
    fill(tmp_path, A)
    view = Noted()
    with ledger(tmp_path) as made:
        made.views["leaves"].append(view)
        made.record_dependencies("leaves", [("a", b"12345678")])
        assert made.ensure_table("leaves", kind, source, "id") is True
        assert made.rows("leaves").count() == 0
        assert made.fingerprint("leaves") is None
        assert made.changed("leaves") is True
        assert made.changed_lookups("leaves") is None
        assert list(made.dependencies("leaves")) == []
    assert view.told == ["clear"]


def test_views_are_told_what_goes_and_what_comes(tmp_path: Path) -> None:
    fill(tmp_path, A, B)
    view = Noted()
    with ledger(tmp_path) as made:
        made.views["leaves"].append(view)
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.change("leaves", [A, B], [("a", "new", "x", 1), C])
        made.change("leaves", [], [])
        assert list(made.rows("leaves").pages()) == [[("a", "new", "x", 1), C]]
    assert view.told == [(["a", "b"], ["a", "c"])]


def test_what_is_retired_goes_but_for_what_table_steps_made(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        for table, source, key in (("leaves", "documents", "id"), ("groups", "leaves", ""), ("kept", "leaves", "id")):
            made.ensure_table(table, LEAF, source, key)
            made.change(table, [], [A])
            made.set_fingerprint(table, "1")
            made.record_dependencies(table, [("a", b"12345678")])
            made.record_failures(table, [("a", "no")])
        made.retire(["kept"])
        assert [made.db.has(table) for table in ("leaves", "groups", "kept")] == [False, True, True]
        assert [made.fingerprint(table) for table in ("leaves", "groups", "kept")] == [None, None, "1"]
        assert [list(made.dependencies(table)) for table in ("leaves", "groups")] == [[], []]
        assert [made.failures(table) for table in ("leaves", "groups", "kept")] == [{}, {}, {"a": "no"}]
        assert made.rows("groups").count() == 1


def test_rows_are_grouped_by_a_column_in_the_order_of_ids(tmp_path: Path) -> None:
    fill(tmp_path, B, C, A)
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        assert made.grouped("leaves", "branch", ["x", "y", "z"]) == {"x": [A, B], "y": [C]}
        assert made.grouped("leaves", "id", ["c", "a"]) == {"a": [A], "c": [C]}


def test_what_a_maker_made_before(tmp_path: Path) -> None:
    rows = [(f"{maker}.{i:05d}", "", "x", 1) for maker in ("a", "ab", "b", "c") for i in range(2)]
    fill(tmp_path, *rows)
    for everything in (False, True):
        with ledger(tmp_path) as made:
            made.ensure_table("leaves", LEAF, "documents", "id")
            made.todo("leaves", "leaves", "id", "", everything=everything)
            before = made.rows_by_maker("leaves", ["a", "b"], many=True)
            assert {maker: before[maker] for maker in ("a", "b")} == {"a": rows[:2], "b": rows[4:6]}
            assert made.rows_by_maker("leaves", [], many=True) == {}
            assert made.rows_by_maker("leaves", ["a.00000", "z"], many=False) == {"a.00000": [rows[0]]}


# -- what changed


def test_a_table_that_was_empty_notes_nothing_and_says_all_is_new(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.watch("leaves", "id", LEAF.lookup_keys)
        assert made.changed_lookups("leaves") == set()
        made.change("leaves", [], [A])
        assert made.changed_lookups("leaves") is None
        assert made.changed("leaves")
        assert made.db.all("SELECT * FROM changed") == []


def test_keys_and_look_ups_of_what_went_and_came_are_noted(tmp_path: Path) -> None:
    fill(tmp_path, A, B)
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.watch("leaves", "id", [("id",)])
        made.watch("leaves", "branch", [("size",)])
        made.change("leaves", [A], [("a", "", "y", 1), ("d", "", "z", 3)])
        assert made.db.all("SELECT col, key FROM changed ORDER BY 1, 2") == [
            ("branch", "x"),
            ("branch", "y"),
            ("branch", "z"),
            ("id", "a"),
            ("id", "d"),
        ]
        asked = [(("id",), "a"), (("id",), "d"), (("size",), 1), (("size",), 3)]
        assert made.changed_lookups("leaves") == {lookup_hash("leaves", columns, [value]) for columns, value in asked}


# -- work


def test_the_first_time_every_key_is_to_do_once(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.change("leaves", [], [C, B, A])
        made.todo("steps", "leaves", "id", "", everything=False)
        assert waves(made) == [["a", "b", "c"]]
        made.todo("steps", "leaves", "branch", "", everything=False)
        assert waves(made) == [["x", "y"]]
        assert waves(made) == []


def test_then_only_what_changed_or_failed(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.watch("leaves", "branch", ())
        made.change("leaves", [C], [])
        made.record_failures("entries", [("w", "no answer"), ("y", "no answer")])
        made.todo("entries", "leaves", "branch", "", everything=False)
        assert waves(made) == [["w", "y"]]
        made.todo("entries", "leaves", "branch", "", everything=True)
        assert waves(made) == [["w", "x", "y"]]  # y has no rows left: what it made has to go


def test_waves_run_highest_first_and_keys_without_a_row_before_them(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.todo("reports", "leaves", "id", "size", everything=True)
        made.add_keys(["gone"])
        assert waves(made) == [["gone"], ["b", "c"], ["a"]]


def test_a_wave_adds_to_the_later_ones_only(tmp_path: Path) -> None:
    fill(tmp_path, A, B, C)
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.todo("reports", "leaves", "id", "size", everything=False)
        made.add_keys(["b"])
        seen: list[list[str]] = []
        for wave in made.waves():
            seen.append([key for page in wave for key in page])
            made.add_keys(["a", "c"])  # c is as deep as b: nothing that b made can be looked up by it
        assert seen == [["b"], ["a"]]


def test_keys_come_in_sorted_pages_and_are_counted(tmp_path: Path) -> None:
    rows = [(f"{i:05d}", "", "x", 1) for i in range(1200)]
    with ledger(tmp_path) as made:
        made.ensure_table("leaves", LEAF, "documents", "id")
        made.change("leaves", [], rows)
        made.todo("steps", "leaves", "id", "", everything=True)
        for wave in made.waves():
            pages = list(wave)
            assert made.todo_count == 1200
        assert [len(page) for page in pages] == [512, 512, 176]
        assert [key for page in pages for key in page] == [row[0] for row in rows]


# -- what is remembered


def test_failures_are_listed_until_they_are_mended(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        made.record_failures("reports", [("b", "no answer"), ("a", "capped"), ("c", None)])
        made.record_failures("others", [("b", "another step's")])
    with ledger(tmp_path) as made:
        assert made.failures("reports") == {"a": "capped", "b": "no answer"}
        made.record_failures("reports", [("a", None), ("b", "no answer again")])
        assert made.failures("reports") == {"b": "no answer again"}
        assert made.failures("others") == {"b": "another step's"}


def test_look_ups_are_those_of_the_last_run(tmp_path: Path) -> None:
    with ledger(tmp_path) as made:
        made.record_dependencies("links", iter([("a", b"1" * 8), ("b", b"2" * 16)]))
        made.record_dependencies("links", iter([("a", b""), ("b", b"3" * 8), ("c", b"")]))
    with ledger(tmp_path) as made:
        assert list(made.dependencies("links")) == [("b", b"3" * 8)]
        assert list(made.dependencies("others")) == []


def test_a_fingerprint_is_remembered(tmp_path: Path) -> None:
    fill(tmp_path, A)
    with ledger(tmp_path) as made:
        assert made.fingerprint("leaves") == "1"
        assert made.fingerprint("others") is None
