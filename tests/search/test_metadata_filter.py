"""An expression -> which documents pass: operators, what is compared as what, errors, texts nobody should write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Document
from kumihimo.core.table import Row, Table, codec
from kumihimo.search.metadata_filter import matching_documents, parse_filter

NOTE: dict[str, object] = {
    "author": "Hild Garrow",
    "year": 2021,
    "pages": "1,200",
    "code": "007",
    "date": "2020-07-01",
    "taken": "2024-05-01T10:30:00Z",
    "since": "1987",
    "tags": ["Tide Station", "braiding"],
    "numbers": [3, 12],
    "source": {"name": "Net Loft", "by": [{"name": "Ruta"}, {"name": "Bo"}]},
    "draft": False,
    "score": 0.1,
    "著者": "縒野すみ",
    "年": "２０２０",
    "any thing": 1,
    "a.b": 2,
    "लेखक": "x",
    "order": 7,
    "quote": 'say "oh"',
    "path": "C:\\dir",
    "null": None,
    "empty": "",
    "none": [],
}


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        # text: case and width make no difference
        ('author = "hild garrow"', True),
        ("author = 'ＨＩＬＤ　Garrow'", True),
        ('author == "Hild Garrow"', True),
        ('author = "Hild"', False),
        ('author != "Hild"', True),
        ('author > "Bo" and author < "Z"', True),
        ('author contains "GARROW"', True),
        ('author contains "Bo"', False),
        ('author not contains "Bo"', True),
        ('author in ("Bo", "Hild Garrow")', True),
        ('author in ("Bo")', False),
        ('author not in ("Bo", "Ada")', True),
        ('author NOT IN ("hild garrow")', False),
        ('quote = "say \\"oh\\""', True),
        ("quote = 'say \"oh\"'", True),
        ('path = "C:\\dir"', True),
        ("author = “Hild Garrow”", True),
        # numbers
        ("year = 2021", True),
        ("year = 2021.0", True),
        ("year >= 2021 and year <= 2021", True),
        ("year > 2021 or year < 2021", False),
        ("year = '2021'", True),
        ("year > '999'", True),
        ("year > -1", True),
        ("score = 0.1", True),
        ("pages = 1200", True),
        ("pages > 999", True),
        ("code = 7", True),
        ('code = "7"', False),
        ('code = "007"', True),
        ("author > 0", False),
        ("author <= 0", False),
        ("author != 0", True),
        ("year contains 02", True),
        # dates, to the precision given
        ("date = 2020", True),
        ("date = 2020-07", True),
        ("date = 2020-07-01", True),
        ('date = "2020-07"', True),
        ("date = 2020-08", False),
        ("date <= 2020", True),
        ("date < 2020", False),
        ("date > 2020", False),
        ("date >= 2020-07 and date < 2020-07-02", True),
        ("date > 2019-12-31", True),
        ("taken <= 2024-05-01", True),
        ('taken <= "2024-05-01"', True),
        ("taken = 2024-05-01T10:30", True),
        ("taken = 2024-05-01T10:30:00Z", True),
        ("taken > 2024-05-01T10:31", False),
        ('taken <= "2024-05-01 10:30"', True),
        ("since = 1987", True),
        ("since < 1987-02", True),
        ("since = 1987-01", False),
        ("year >= 2020-05", True),
        ("author >= 2020-05", False),
        ('date contains "-07-"', True),
        # true and false
        ("draft = false", True),
        ("draft = TRUE", False),
        ("draft = 'false'", True),
        ("draft = 0", False),
        # a list passes if any item does
        ('tags = "tide station"', True),
        ('tags = "tide"', False),
        ('tags contains "tide"', True),
        ('tags in ("x", "braiding")', True),
        ('tags != "braiding"', False),
        ('tags != "x"', True),
        ("numbers > 10 and numbers < 10", True),
        # fields
        ("author", True),
        ("draft", True),
        ("null or empty or none or nothing", False),
        ("not null", True),
        ('source.name = "net loft"', True),
        ('source.by.name = "ruta"', True),
        ("source", True),
        ('source = "net loft"', False),
        ("source.nothing", False),
        ("author.name", False),
        ("`any thing` = 1", True),
        ("`a.b` = 2 and a.b = 2", True),
        ("लेखक = 'x'", True),
        ("order = 7 and orders != 7", True),
        ("in = 2 or not contains", True),
        # a field that is lacking passes no comparison, and so the opposite of each
        ('nobody = "x" or nobody < "x" or nobody >= "x" or nobody contains ""', False),
        ('nobody != "x"', True),
        ('nobody not in ("x")', True),
        ('not (nobody = "x")', True),
        ('nobody != "x" and nobody', False),
        # and, or, not
        ("author or year and nothing", True),
        ("(author or year) and nothing", False),
        ("not nothing and not not author", True),
        ("not (author and nothing)", True),
        ("NOT nothing AnD author", True),
        ("((((author))))", True),
        ("author\n and\tyear", True),
        # as a Japanese keyboard types it
        ("著者＝「縒野すみ」", True),
        ("著者 contains 「すみ」 and 年　＞＝　２０２０", True),
        ("（著者！＝「誰か」）　and　年＜＝2020", True),
        ("著者 in （「誰か」、「縒野すみ」，「x」）", True),
        ("年≧2020 and 年≦2020", True),
        ("年≥2020 and 年≤2020 and 年≠2021", True),
        ("date＝２０２０－０７", True),
    ],
)
def test_what_an_expression_says_of_a_document(expression: str, passes: bool) -> None:
    assert parse_filter(expression).matches(NOTE) is passes


@pytest.mark.parametrize(
    ("expression", "where"),
    [
        ("author =", "ends too early"),
        ("(author", "ends too early"),
        ("author and", "ends too early"),
        ("author = Hild", "is not understood from 'Hild' (character 10) on"),
        ("author order", "is not understood from 'order' (character 8) on"),
        ('author = "Hild', "is not understood from '\"Hild' (character 10) on"),
        ("author ~ 'x'", "is not understood from \"~ 'x'\" (character 8) on"),
        ("author in ()", "is not understood from ')' (character 12) on"),
        ("author in 'x'", "is not understood from \"'x'\" (character 11) on"),
        ("'author' = 'x'", "is not understood from \"'author' = 'x'\" (character 1) on"),
        ("a = 1) and b", "is not understood from ') and b' (character 6) on"),
    ],
)
def test_what_is_not_understood_is_shown_with_an_example(expression: str, where: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_filter(expression)
    assert str(refused.value) == f'the filter {where}: write it like author = "Sabine Orrell" and date >= 2024'


def test_what_is_no_date_is_said() -> None:
    with pytest.raises(SettingsError) as refused:
        parse_filter("date > 2024-13")
    assert str(refused.value) == "the filter: 2024-13 is no date: write it like 2024-05-01, 2024-05 or 2024"


@pytest.mark.parametrize("expression", ["not " * 5000 + "a", "a and (b or " * 5000 + "c" + ")" * 5000])
def test_no_nesting_exhausts_the_stack(expression: str) -> None:
    with pytest.raises(SettingsError, match="nested more than 100 deep"):
        parse_filter(expression)
    assert parse_filter("(" * 5000 + "a" + ")" * 5000).matches({"a": 1})
    assert parse_filter("a and (b or " * 49 + "c" + ")" * 49).matches({"a": 1, "c": 1})


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    try:
        parse_filter(text).matches(NOTE)
    except SettingsError as refused:
        assert "\n" not in str(refused)  # noqa: PT017  either will do


# -- the same, written a second time

Expression = tuple[str, Callable[[dict[str, Any]], bool]]  # and what it says, in Python

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def compared(field: str, order: str, value: int | str) -> Expression:
    literal = str(value) if isinstance(value, int) else f'"{value}"'

    def said(document: dict[str, Any]) -> bool:
        lacking = field not in document
        return order == "!=" if lacking else OPERATORS[order](document[field], value)

    return f"{field} {order} {literal}", said


def among(field: str, values: list[int], no: bool) -> Expression:
    text = f"{field} {'not ' * no}in ({', '.join(map(str, values))})"
    return text, lambda document: (document.get(field) in values) != no


def both(one: Expression, two: Expression, word: str) -> Expression:
    combined: dict[str, Callable[[bool, bool], bool]] = {"and": lambda a, b: a and b, "or": lambda a, b: a or b}
    return f"({one[0]}) {word} ({two[0]})", lambda d: combined[word](one[1](d), two[1](d))


ORDERS = st.sampled_from(list(OPERATORS))
LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.builds(compared, st.sampled_from("ab"), ORDERS, st.integers(-3, 3)),
    st.builds(compared, st.sampled_from("xy"), ORDERS, st.sampled_from(["p", "q", "pq", ""])),
    st.builds(among, st.sampled_from("ab"), st.lists(st.integers(-3, 3), min_size=1), st.booleans()),
    st.sampled_from("abxy").map(lambda field: (field, lambda document: field in document)),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda e: (f"not ({e[0]})", lambda d: not e[1](d))),
        st.builds(both, inner, inner, st.sampled_from(["and", "or"])),
    ),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={f: st.integers(-3, 3) for f in "ab"} | {f: st.sampled_from(["p", "q", "pq"]) for f in "xy"}
)


@given(EXPRESSIONS, DOCUMENTS)
def test_an_expression_says_what_python_says(expression: Expression, document: dict[str, Any]) -> None:
    assert parse_filter(expression[0]).matches(document) is expression[1](document)


# -- over documents


@dataclass(frozen=True, slots=True)
class Held:
    """Documents held in a list."""

    documents: list[Row]

    def get(self, id: str) -> Row | None:
        raise NotImplementedError

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        raise NotImplementedError

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        raise NotImplementedError

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        raise NotImplementedError

    def ids_grouped(self, column: str, values: Sequence[str], most: int | None = None) -> list[tuple[str, str]]:
        raise NotImplementedError

    def child_values(self, makers: Sequence[str], column: str) -> dict[str, list[Any]]:
        raise NotImplementedError

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        ats = [codec(Document).columns.index(column) for column in columns]
        yield [tuple(row[at] for at in ats) for row in self.documents]

    def count(self) -> int:
        return len(self.documents)


def documents(*rows: dict[str, object]) -> Table[Document]:
    """Documents a, b, c … of this metadata; the first is a page, the others have no title and no time."""
    encode = codec(Document).encode
    made = [
        Document(
            uri=f"notes/{id}.html",
            file=f"notes/{id}.html",
            title="Gate" if id == "a" else "",
            media_type="text/html" if id == "a" else "text/plain",
            modified="2024-05-01" if id == "a" else "",
            metadata=metadata,
        )
        for id, metadata in zip("abcdefg", rows, strict=False)
    ]
    return Table("documents", codec(Document), Held([encode(id, d) for id, d in zip("abcdefg", made, strict=False)]))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("year >= 2020", "b"),
        ("year", "ab"),
        ('year != 2021 or title = "Gate"', "ac"),
        ("uri contains 'notes/c'", "c"),
        ("media_type = 'text/html'", "a"),
        ("title = 'gate'", "a"),
        ("title = 'own'", "b"),  # a document without a title of its own
        ("modified >= 2024", "a"),
        ("modified", "ab"),
        ("metadata.title = 'another'", "a"),
        ("metadata.year = 2021", "b"),
        ("nobody.here = 1 or year = 1", None),
        ("year = 1", ""),
    ],
)
def test_which_documents_pass(expression: str, expected: str | None) -> None:
    three = documents({"year": 2001, "title": "another"}, {"year": 2021, "title": "own", "modified": "May"}, {"é": 1})
    if expected is None:
        with pytest.raises(SettingsError):
            matching_documents(expression, three)
    else:
        assert matching_documents(expression, three) == set(expected)


def test_a_field_that_no_document_has_is_told_from_the_nearest() -> None:
    held = documents({"author": "x", "source": {"name": "n", "none": None}}, {"null": None, "empty": [], "著者": 1})
    known = "author, file, media_type, modified, source.name, title, uri, 著者"
    for asked, near in (("auther", "author"), ("source.nam", "source.name")):
        with pytest.raises(SettingsError) as refused:
            matching_documents(f"{asked} = 1 or author", held)
        assert str(refused.value) == f"the filter: no field {asked!r}; did you mean {near!r}? Known: {known}"
    for asked in ("null", "empty", "source.none", "`source name`"):
        with pytest.raises(SettingsError, match="the filter: no field"):
            matching_documents(asked, held)


def test_own_fields_are_known_where_nobody_has_them() -> None:
    assert matching_documents("modified > 2020 or title or not uri", documents()) == set()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.text())
def test_any_metadata_can_be_asked(value: object, text: str) -> None:
    held = documents({"a": 1, "b": 1}, {"a": value, "b": text})
    quoted = json.dumps(text.replace("\\", ""), ensure_ascii=False)
    for literal in (quoted, "1", "2024-05", "true"):
        for test in ("=", "<", ">=", "contains"):
            assert matching_documents(f"a {test} {literal} or b {test} {literal}", held) <= {"a", "b"}
