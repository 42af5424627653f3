"""rows -> Table: records survive storage, and each lookup is recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.errors import KumiError, StepError
from kumihimo.core.records import Chunk, Document, Passage, Record
from kumihimo.core.table import Codec, Group, JobTable, Row, Table, codec, lookup_hash
from tests.factories_tables import hide_rows

Lookups = list[tuple[str, tuple[str, ...], tuple[object, ...], bool]]


@dataclass(frozen=True, slots=True)
class Every(Record):
    """A record with a column of each type."""

    GROUP: ClassVar[str] = "name"
    INDEX: ClassVar[tuple[str | tuple[str, ...], ...]] = ("size", ("name", "size"), "name")

    name: str
    size: int
    weight: float
    good: bool
    members: tuple[str, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    more: Mapping[str, object] = field(default_factory=dict)
    note: str | None = None
    count: int | None = None
    parts: tuple[str, ...] | None = None


A = Every(id="a", text="one", name="x", size=1, weight=0.5, good=True)
B = Every(id="b", text="two", name="y", size=1, weight=1.5, good=False, members=("a", "c"), note="n")
C = Every(id="c", text="two", name="x", size=2, weight=1.5, good=False)


@dataclass(frozen=True, slots=True)
class ListRows:
    """Rows in a list."""

    codec: Codec[Every]
    rows: list[Row]

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        positions = [self.codec.columns.index(column) for column in columns]
        return [row for row in self.rows if tuple(row[position] for position in positions) == values]

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        return [row for id in ids for row in self.rows if row[0] == id]

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        return [row[0] for row in self.where(columns, values)]

    def ids_grouped(self, column: str, values: Sequence[str], most: int | None = None) -> list[tuple[str, str]]:
        return [(value, id) for value in values for id in self.ids((column,), (value,))[:most]]

    def child_values(self, makers: Sequence[str], column: str) -> dict[str, list[Any]]:
        position = self.codec.columns.index(column)
        return {m: [row[position] for row in self.rows if row[0].startswith(f"{m}.")] for m in makers}

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        positions = [self.codec.columns.index(column) for column in columns or self.codec.columns]
        for row in self.rows:
            yield [tuple(row[position] for position in positions)]

    def count(self) -> int:
        return len(self.rows)


def table(*records: Every, lookups: Lookups | None = None) -> Table[Every]:
    row_codec = codec(Every)
    rows = ListRows(row_codec, [row_codec.encode(r.id, r) for r in records])
    return Table("everything", row_codec, rows, None if lookups is None else lambda *look: lookups.append(look))


def test_columns_and_their_kinds() -> None:
    row_codec = codec(Every)
    names = ("id", "text", "name", "size", "weight", "good", "members", "pairs", "more", "note", "count", "parts")
    assert row_codec.columns == names
    assert row_codec.sql_types == ("TEXT",) * 3 + ("INTEGER", "REAL", "INTEGER") + ("JSON",) * 3 + (
        "TEXT",
        "INTEGER",
        "JSON",
    )
    assert row_codec.nullable == (False,) * 9 + (True,) * 3


def test_what_may_be_asked_begins_with_the_id_and_names_each_once() -> None:
    assert codec(Every).lookup_keys == (("id",), ("name",), ("size",), ("name", "size"))
    assert codec(Document).lookup_keys == (("id",), ("file",))


@given(
    st.builds(
        Every,
        id=st.text(),
        text=st.text(),
        name=st.text(),
        size=st.integers(),
        weight=st.floats(allow_nan=False),
        good=st.booleans(),
        members=st.lists(st.text()).map(tuple),
        pairs=st.lists(st.tuples(st.text(), st.integers())).map(tuple),
        more=st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.booleans())),
        note=st.none() | st.text(),
        count=st.none() | st.integers(),
        parts=st.none() | st.lists(st.text()).map(tuple),
    )
)
def test_a_record_comes_back_as_it_went(record: Every) -> None:
    row_codec = codec(Every)
    assert row_codec.decode(row_codec.encode(record.id, record)) == record


@given(st.lists(st.text()))
def test_texts_are_stored_as_json(texts: list[str]) -> None:
    stored = codec(Every).encode("a", replace(A, members=tuple(texts)))[codec(Every).columns.index("members")]
    assert stored == json.dumps(texts, ensure_ascii=False, separators=(",", ":"))


def test_the_texts_that_searches_find_are_those_of_the_records() -> None:
    records: list[Record] = [
        Passage(id="p", text="The pier.", start=0, end=9, tokens=3),
        Passage(id="q", start=9, end=9, tokens=0),
        Chunk(id="c", text="The gate.", title="Harbour", start=0, end=9, tokens=3),
    ]
    for record in records:
        row_codec = codec(type(record))
        expected = {record.id: record.index_text} if record.index_text else {}
        assert row_codec.index_texts([row_codec.encode(record.id, record)]) == expected


def test_true_and_false_come_back_from_sqlite_as_themselves() -> None:
    row_codec = codec(Every)
    row = [int(value) if isinstance(value, bool) else value for value in row_codec.encode("a", A)]
    assert row_codec.decode(tuple(row)).good is True


def test_a_record_is_stored_under_the_id_it_is_given() -> None:
    row_codec = codec(Every)
    assert row_codec.decode(row_codec.encode("z", A)).id == "z"


def test_equal_values_are_stored_alike_whatever_the_order_of_their_keys() -> None:
    row_codec = codec(Document)
    one, two = (
        Document(uri="u", file="u", title="", media_type="", metadata=metadata)
        for metadata in ({"a": 1, "b": "港"}, {"b": "港", "a": 1})
    )
    assert row_codec.encode("u", one) == row_codec.encode("u", two)
    assert '{"a":1,"b":"港"}' in row_codec.encode("u", one)


def test_a_class_of_no_columns_of_its_own() -> None:
    assert codec(Record).encode("a", Record(text="one")) == ("a", "one")
    assert codec(Record).decode(("a", "one")) == Record(id="a", text="one")


def test_a_column_no_table_can_hold_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Listed(Record):
        parts: list[str]

    @dataclass(frozen=True, slots=True)
    class Either(Record):
        size: int | str

    with pytest.raises(StepError, match=r"^Listed\.parts: a column is str, int, float, bool, a tuple or a Mapping; it"):
        codec(Listed)
    with pytest.raises(StepError, match=r"^Either\.size: a column has one type, or one type and None; it is int | str"):
        codec(Either)


def test_a_table_is_read_in_order_and_by_id() -> None:
    three = table(A, B, C)
    assert list(three) == [A, B, C]
    assert len(three) == 3
    assert three["b"] == three.get("b") == B
    assert three.get("z") is None
    assert "a" in three
    assert "z" not in three
    assert three
    assert not table()


def test_a_row_that_is_not_there_is_named() -> None:
    with pytest.raises(KumiError, match=r"^table everything has no row 'z'; it may have changed since: ask again$"):
        table(A)["z"]


def test_rows_are_looked_up_by_an_index() -> None:
    three = table(A, B, C)
    assert three.where(size=1) == [A, B]
    assert three.where(name="x") == [A, C]
    assert three.where(name="x", size=2) == three.where(size=2, name="x") == [C]
    assert three.where(id="b") == [B]
    assert three.where(size=9) == []


def test_a_look_up_by_something_else_names_the_nearest_index() -> None:
    with pytest.raises(StepError) as refused:
        table(A).where(sise=1)
    assert str(refused.value) == (
        "table everything: no index 'sise'; did you mean 'size'? Known: id, name, name,size, size"
    )
    with pytest.raises(StepError, match="no index 'size,weight'"):
        table(A).where(size=1, weight=0.5)


def test_raw_columns() -> None:
    assert list(table(A, B).columns("name", "size")) == [("x", 1), ("y", 1)]
    with pytest.raises(StepError, match=r"^table everything: no column 'nam'; did you mean 'name'\?"):
        next(table(A).columns("nam"))


def test_ids_of_several_values_no_more_of_each_than_asked() -> None:
    rows = table(A, B, C)
    assert rows.ids_grouped("name", ["y", "x", "z"]) == {"y": ["b"], "x": ["a", "c"], "z": []}
    assert rows.ids_grouped("name", ["x", "y"], limit=1) == {"x": ["a"], "y": ["b"]}


def test_records_of_several_values_are_those_of_single_lookups_and_recorded_alike() -> None:
    grouped, single = list[Any](), list[Any]()
    one_by_one = table(A, B, C, lookups=single)
    expected = {name: one_by_one.where(name=name) for name in ("y", "x", "z")}
    assert table(A, B, C, lookups=grouped).where_grouped("name", ["y", "x", "z"]) == expected
    assert grouped == single


def test_of_fewer_rows_the_first_that_pass() -> None:
    fewer = hide_rows(table(A, B, C), lambda id: id != "a")
    assert fewer.ids_grouped("name", ["x", "y"], limit=1) == {"x": ["c"], "y": ["b"]}, (
        "a is the first of x, and does not pass"
    )


def test_values_without_hidden_rows_are_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, looked_up = table(A, B, C), list[Sequence[str]]()
    find = ListRows.ids_grouped

    def record(self: ListRows, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        looked_up.append(list(values))
        return find(self, column, values, limit)

    monkeypatch.setattr(ListRows, "ids_grouped", record)
    assert hide_rows(rows, lambda id: id != "a").ids_grouped("name", ["x", "y"], limit=1) == {"x": ["c"], "y": ["b"]}
    assert looked_up == [["x", "y"], ["x"]]


def test_what_was_made_of_rows_by_their_ids() -> None:
    one, two, other = (replace(A, id=id, name=name) for id, name in (("m.0", "x"), ("m.1", "y"), ("ma.0", "z")))
    rows = table(one, two, other)
    assert rows.child_values(["ma", "m", "n"], "name") == {"ma": ["z"], "m": ["x", "y"], "n": []}
    assert hide_rows(rows, lambda id: id != "m.0").child_values(["m"], "id") == {"m": ["m.1"]}
    with pytest.raises(StepError, match=r"^table everything: no column 'nam'; did you mean 'name'\?"):
        rows.child_values(["m"], "nam")
    with pytest.raises(StepError, match="only whole-table steps iterate"):
        table(one, lookups=[]).child_values(["m"], "name")


def test_a_table_of_fewer_rows() -> None:
    fewer = hide_rows(table(A, B, C), lambda id: id != "b")
    assert list(fewer) == [A, C]
    assert len(fewer) == 2
    assert fewer.get("a") == A
    assert fewer.get("b") is None
    assert "b" not in fewer
    with pytest.raises(KumiError, match="table everything has no row 'b'"):
        fewer["b"]
    assert fewer.where(size=1) == [A]
    assert fewer.where(id="b") == []
    assert list(fewer.columns("name", "size")) == [("x", 1), ("x", 2)]
    assert list(fewer.columns("id")) == [("a",), ("c",)]
    assert fewer.view
    assert [fewer.view.is_whole(id) for id in "abc"] == [True, False, True]
    assert not hide_rows(table(A), lambda _: False)


def test_look_ups_in_a_table_of_fewer_rows_are_noted_as_what_they_found() -> None:
    lookups: Lookups = []
    fewer = hide_rows(table(A, B, lookups=lookups), lambda id: id != "b")
    fewer.get("b")
    fewer.where(size=1)
    assert lookups == [("everything", ("id",), ("b",), False), ("everything", ("size",), (1,), True)]
    with pytest.raises(StepError, match="only whole-table steps iterate"):
        len(fewer)


def test_each_look_up_is_noted_the_misses_too() -> None:
    lookups: Lookups = []
    rows = table(A, B, lookups=lookups)
    rows.get("a")
    rows.get("z")
    assert "b" in rows
    rows.where(size=1, name="x")
    rows.where(size=7)
    assert lookups == [
        ("everything", ("id",), ("a",), True),
        ("everything", ("id",), ("z",), False),
        ("everything", ("id",), ("b",), True),
        ("everything", ("name", "size"), ("x", 1), True),
        ("everything", ("size",), (7,), False),
    ]


def test_the_rows_that_the_keys_of_a_job_name_are_read_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups: Lookups = []
    read: list[list[str]] = []
    get_many = ListRows.get_many

    def counted(self: ListRows, ids: Sequence[str]) -> list[Row]:
        read.append([*ids])
        return get_many(self, ids)

    monkeypatch.setattr(ListRows, "get_many", counted)
    plain = table(A, B, C)
    rows = JobTable(plain.name, plain.codec, plain.rows, lambda *look: lookups.append(look), keys=["a", "b", "z"])
    assert [rows.get("c"), rows.get("b"), rows.get("a"), rows.get("z"), rows.get("c")] == [C, B, A, None, C]
    assert rows.get_many(["c", "z", "a"]) == {"c": C, "a": A}
    assert read == [["c"], ["b", "a", "z"]]
    noted = [(ids[0], found) for _, _, ids, found in lookups]
    assert noted == [(id, id != "z") for id in "cbazccza"]


def test_where_look_ups_are_noted_nothing_iterates() -> None:
    rows = table(A, lookups=[])
    message = r"^table everything allows only `get` and `where` here; only whole-table steps iterate$"
    with pytest.raises(StepError, match=message):
        list(rows)
    with pytest.raises(StepError, match=message):
        len(rows)
    with pytest.raises(StepError, match=message):
        list(rows.columns("name"))
    with pytest.raises(StepError, match=message):
        bool(rows)


def test_look_ups_are_told_apart() -> None:
    hashes = [
        lookup_hash("t", ("id",), ["a"]),
        lookup_hash("u", ("id",), ["a"]),
        lookup_hash("t", ("name",), ["a"]),
        lookup_hash("t", ("a", "b"), ["x", "y"]),
        lookup_hash("t", ("a", "b"), ["y", "x"]),
        lookup_hash("t", ("b", "a"), ["x", "y"]),
    ]
    assert len(set(hashes)) == len(hashes)
    assert all(-(2**63) <= number < 2**63 for number in hashes)
    assert lookup_hash("t", ("id",), ["\ud800"]) != lookup_hash("t", ("id",), ["\ud801"])


def test_a_group_is_a_tuple_of_its_rows() -> None:
    group = Group([A, B])
    assert group == (A, B)
    assert group[0] is A
