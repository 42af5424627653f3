"""a filter expression -> the documents that match: operators, types of values, errors, and odd texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Document
from kumihimo.core.table import Row, Table, codec
from kumihimo.search.metadata_filter import count_fields, matching_documents, parse_filter

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
    ("expression", "matches"),
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
        # a list matches if any item does
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
        # a missing field matches no comparison, and every negated one
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
        # full-width characters of a Japanese keyboard
        ("著者＝「縒野すみ」", True),
        ("著者 contains 「すみ」 and 年　＞＝　２０２０", True),
        ("（著者！＝「誰か」）　and　年＜＝2020", True),
        ("著者 in （「誰か」、「縒野すみ」，「x」）", True),
        ("年≧2020 and 年≦2020", True),
        ("年≥2020 and 年≤2020 and 年≠2021", True),
        ("date＝２０２０－０７", True),
    ],
)
def test_a_filter_matches_a_document(expression: str, matches: bool) -> None:
    assert parse_filter(expression).matches(NOTE) is matches


@pytest.mark.parametrize(
    ("expression", "problem"),
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
def test_a_syntax_error_is_shown_with_an_example(expression: str, problem: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_filter(expression)
    assert str(refused.value) == f'the filter {problem}: write it like author = "Sabine Orrell" and date >= 2024'


def test_an_invalid_date_is_refused() -> None:
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
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_filter(text).matches(NOTE)
    except SettingsError as refused:
        assert "\n" not in str(refused)  # noqa: PT017  either will do


# -- the same, against Python expressions

Expression = tuple[str, Callable[[dict[str, Any]], bool]]  # an expression, and the same in Python

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}


def comparison(field: str, order: str, value: int | str) -> Expression:
    literal = str(value) if isinstance(value, int) else f'"{value}"'

    def matches(document: dict[str, Any]) -> bool:
        lacking = field not in document
        return order == "!=" if lacking else OPERATORS[order](document[field], value)

    return f"{field} {order} {literal}", matches


def membership(field: str, values: list[int], negated: bool) -> Expression:
    text = f"{field} {'not ' * negated}in ({', '.join(map(str, values))})"
    return text, lambda document: (document.get(field) in values) != negated


def combination(left: Expression, right: Expression, operator: str) -> Expression:
    combined: dict[str, Callable[[bool, bool], bool]] = {"and": lambda a, b: a and b, "or": lambda a, b: a or b}
    return f"({left[0]}) {operator} ({right[0]})", lambda d: combined[operator](left[1](d), right[1](d))


ORDERS = st.sampled_from(list(OPERATORS))
LEAVES: st.SearchStrategy[Expression] = st.one_of(
    st.builds(comparison, st.sampled_from("ab"), ORDERS, st.integers(-3, 3)),
    st.builds(comparison, st.sampled_from("xy"), ORDERS, st.sampled_from(["p", "q", "pq", ""])),
    st.builds(membership, st.sampled_from("ab"), st.lists(st.integers(-3, 3), min_size=1), st.booleans()),
    st.sampled_from("abxy").map(lambda field: (field, lambda document: field in document)),
)
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        inner.map(lambda e: (f"not ({e[0]})", lambda d: not e[1](d))),
        st.builds(combination, inner, inner, st.sampled_from(["and", "or"])),
    ),
    max_leaves=8,
)
DOCUMENTS = st.fixed_dictionaries(
    {}, optional={f: st.integers(-3, 3) for f in "ab"} | {f: st.sampled_from(["p", "q", "pq"]) for f in "xy"}
)


@given(EXPRESSIONS, DOCUMENTS)
def test_a_filter_agrees_with_python(expression: Expression, document: dict[str, Any]) -> None:
    assert parse_filter(expression[0]).matches(document) is expression[1](document)


# -- over documents


@dataclass(frozen=True, slots=True)
class ListRows:
    """The rows of documents in a list."""

    documents: list[Row]

    def where(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[Row]:
        raise NotImplementedError

    def get_many(self, ids: Sequence[str]) -> list[Row]:
        raise NotImplementedError

    def ids(self, columns: tuple[str, ...], values: tuple[object, ...]) -> list[str]:
        raise NotImplementedError

    def ids_grouped(self, column: str, values: Sequence[str], limit: int | None = None) -> list[tuple[str, str]]:
        raise NotImplementedError

    def child_values(self, parents: Sequence[str], column: str) -> dict[str, list[Any]]:
        raise NotImplementedError

    def pages(self, *columns: str) -> Iterator[list[Row]]:
        positions = [codec(Document).columns.index(column) for column in columns]
        yield [tuple(row[position] for position in positions) for row in self.documents]

    def count(self) -> int:
        return len(self.documents)


def documents(*rows: dict[str, object]) -> Table[Document]:
    """Return documents a, b, c … with this metadata; only the first has a title and a time."""
    encode = codec(Document).encode
    records = [
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
    return Table(
        "documents", codec(Document), ListRows([encode(id, d) for id, d in zip("abcdefg", records, strict=False)])
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("year >= 2020", "b"),
        ("year", "ab"),
        ('year != 2021 or title = "Gate"', "ac"),
        ("uri contains 'notes/c'", "c"),
        ("media_type = 'text/html'", "a"),
        ("title = 'gate'", "a"),
        ("title = 'own'", "b"),  # the title is in its metadata only
        ("modified >= 2024", "a"),
        ("modified", "ab"),
        ("metadata.title = 'another'", "a"),
        ("metadata.year = 2021", "b"),
        ("nobody.here = 1 or year = 1", None),
        ("year = 1", ""),
    ],
)
def test_matching_documents(expression: str, expected: str | None) -> None:
    three = documents({"year": 2001, "title": "another"}, {"year": 2021, "title": "own", "modified": "May"}, {"é": 1})
    if expected is None:
        with pytest.raises(SettingsError):
            matching_documents(expression, three)
    else:
        assert matching_documents(expression, three) == set(expected)


def test_an_unknown_field_suggests_the_nearest() -> None:
    table = documents({"author": "x", "source": {"name": "n", "none": None}}, {"null": None, "empty": [], "著者": 1})
    fields = "author, file, media_type, modified, source.name, title, uri, 著者"
    for field, suggestion in (("auther", "author"), ("source.nam", "source.name")):
        with pytest.raises(SettingsError) as refused:
            matching_documents(f"{field} = 1 or author", table)
        assert str(refused.value) == f"the filter: no field {field!r}; did you mean {suggestion!r}? Known: {fields}"
    for field in ("null", "empty", "source.none", "`source name`"):
        with pytest.raises(SettingsError, match="the filter: no field"):
            matching_documents(field, table)


def test_completed_fields_replace_the_metadata() -> None:
    encode = codec(Document).encode
    document = Document(
        uri="a.docx",
        file="a.docx",
        title="A",
        media_type="",
        metadata={"author": "python-docx", "date": "2013-12-23", "topic": "tides"},
        fields={"date": "2024-05-18", "date_source": "name", "kind": "document"},
    )
    table = Table("documents", codec(Document), ListRows([encode("a", document)]))
    for expression in ("date >= 2024", "date = 2024", "date = 2024-05", "date < 2024-06", "topic", "metadata.author"):
        assert matching_documents(expression, table) == {"a"}
    for expression in ("date = 2013", "date > 2024", "date != 2024-05-18", "author = 'python-docx'"):
        assert matching_documents(expression, table, lenient=True) == set()
    counts = {"date": 1, "date_source": 1, "kind": 1, "file": 1, "title": 1, "topic": 1, "uri": 1}
    assert list(count_fields(table).items()) == [*counts.items(), ("media_type", 0), ("modified", 0)]


def test_the_columns_of_documents_are_always_known() -> None:
    assert matching_documents("modified > 2020 or title or not uri", documents()) == set()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists), st.text())
def test_a_filter_accepts_any_metadata(value: object, text: str) -> None:
    table = documents({"a": 1, "b": 1}, {"a": value, "b": text})
    quoted = json.dumps(text.replace("\\", ""), ensure_ascii=False)
    for literal in (quoted, "1", "2024-05", "true"):
        for test in ("=", "<", ">=", "contains"):
            assert matching_documents(f"a {test} {literal} or b {test} {literal}", table) <= {"a", "b"}
