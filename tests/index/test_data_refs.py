"""a text with references -> the rows they name; other words stay unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.index.data_refs import (
    ResolvedText,
    format_reference,
    resolve_references,
    split_cited_statements,
    strip_references,
)
from tests.counters import check_linear

ROW_IDS = {
    "entities": [f"e{n}" for n in range(1, 9)],
    "relations": [f"r{n}" for n in range(1, 24)],
    "claims": ["c1", "c2"],
    "reports": ["p1"],
    "chunks": ["s1", "s2"],
}


@pytest.mark.parametrize(
    ("written", "normalised"),
    [
        (
            "[Data: Entities (5, 7); Relationships (23); Claims (2, +more)]",
            "[Data: Entities (5, 7); Relationships (23); Claims (2, +more)]",
        ),
        ("[Data: Entities (5;7), Relationships (23)]", "[Data: Entities (5, 7); Relationships (23)]"),
        ("［Data：Entities（5、7）；Claims（２）］", "[Data: Entities (5, 7); Claims (2)]"),
        ("【data: entities (5, 7) relationships (23)】", "[Data: Entities (5, 7); Relationships (23)]"),
        ("[Data: Entity (5); Relationship (23); Claim (1); Report (1); Source (2)]",
         "[Data: Entities (5); Relationships (23); Claims (1); Reports (1); Sources (2)]"),
        ("[DATA: Relations (3)]", "[Data: Relationships (3)]"),
        ("[Data: Entities (5, 7); Claims (1)", "[Data: Entities (5, 7); Claims (1)]"),
        ("[Data: Entities (5, 7]", "[Data: Entities (5, 7)]"),
        ("Data: Entities (5, 7)", "[Data: Entities (5, 7)]"),
        ("(Data: Entities (5, 7))", "[Data: Entities (5, 7)]"),
        ("[Data: Entities 5, 7; Claims 2]", "[Data: Entities (5, 7); Claims (2)]"),
        ("[Data: Entities [5, 7]; Claims [2]]", "[Data: Entities (5, 7); Claims (2)]"),
        ("[Data: Entities (5 and 7)]", "[Data: Entities (5, 7)]"),
        ("[Data: Entities (5-7)]", "[Data: Entities (5, 6, 7)]"),
        ("[Data: Entities (7, 5, 7, + more)]", "[Data: Entities (5, 7, +more)]"),
        ("[Data: Entities (ids 5, #7)]", "[Data: Entities (5, 7)]"),
        ("[Data: Claims (2); Claims (1)]", "[Data: Claims (1, 2)]"),
    ],
)  # fmt: skip
def test_references_are_read_however_they_are_written(written: str, normalised: str) -> None:
    assert resolve_references(f"So it is {written}. And on.", ROW_IDS) == ResolvedText(
        f"So it is {normalised}. And on.", resolve_references(normalised, ROW_IDS).data, 0
    )
    assert resolve_references(normalised, ROW_IDS).data


def test_numbers_become_rows() -> None:
    resolved = resolve_references("So [Data: Relationships (23); Entities (7, 5)]. And [Data: Entities (5)].", ROW_IDS)
    assert resolved.data == (("entities", 5, "e5"), ("entities", 7, "e7"), ("relations", 23, "r23"))


@pytest.mark.parametrize(
    ("written", "expected", "dropped"),
    [
        ("So [Data: Entities (5, 99); Claims (7)].", "So [Data: Entities (5)].", 2),
        ("So [Data: Entities (99, +more)].", "So.", 1),
        ("So [Data: Entities (0)] it is.", "So it is.", 1),
        ("So [Data: Entities (7-99)].", "So [Data: Entities (7, 8)].", 1),
        ("So [Data: Documents (3); Claims (1)].", "So [Data: Claims (1)].", 1),
        (f"So [Data: Entities ({'9' * 5000}, 1)].", "So [Data: Entities (1)].", 1),
        ("組紐は十月に届く[Data: Entities (77)]。", "組紐は十月に届く。", 1),
    ],
)
def test_what_points_nowhere_is_taken_out_and_counted(written: str, expected: str, dropped: int) -> None:
    resolved = resolve_references(written, ROW_IDS)
    assert (resolved.text, resolved.dropped) == (expected, dropped)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The data: see the table (3).",
        "[Data: none]",
        "[Data: Entities ()]",
        "Metadata: Entities (5)",
        "The data: reports 3 and 4 are late.",
        "See [5, 7] and Entities (5).",
        "data " * 50,
        "[Data: " * 50,
    ],
)
def test_what_is_no_reference_stays(text: str) -> None:
    assert resolve_references(text, ROW_IDS) == ResolvedText(text, (), 0)


PIECES = st.sampled_from(
    [
        *"()]）、-１5 \n",
        "[Data: ",
        "［data：",
        "Entities",
        "claims ",
        "Relationships (",
        "99",
        ", ",
        "; ",
        "+more",
        "組紐",
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES).map("".join)))
def test_any_text_is_read(text: str) -> None:
    resolved = resolve_references(text, ROW_IDS)
    assert all(ROW_IDS[table][n - 1] == id for table, n, id in resolved.data)
    assert resolved.data == tuple(sorted(set(resolved.data)))
    assert sum(len(statement) for statement, _ in split_cited_statements(text)) <= len(text)
    assert len(strip_references(text)) <= len(text)


@given(st.dictionaries(st.sampled_from(sorted(ROW_IDS)), st.lists(st.integers(1, 30), min_size=1), max_size=5))
def test_a_reference_is_read_as_it_was_written(numbers: dict[str, list[int]]) -> None:
    ids = {table: [f"{table}{n}" for n in range(1, 31)] for table in ROW_IDS}
    expected = sorted({(table, n, f"{table}{n}") for table, table_numbers in numbers.items() for n in table_numbers})
    resolved = resolve_references(f"So it is {format_reference(numbers)}.", ids)
    assert resolved == ResolvedText(f"So it is {format_reference(numbers)}.", tuple(expected), 0)


@given(st.text(alphabet=st.characters(exclude_characters="dD")))
def test_words_without_references_are_never_altered(text: str) -> None:
    assert resolve_references(text, ROW_IDS) == ResolvedText(text, (), 0)
    assert strip_references(text) == text


@pytest.mark.parametrize(
    "piece",
    [" ", "[", "data", "data: ", "[Data: Entities (5, ", "Data: Entities (5) ", "[Data: Entities (5", "\n"],
)
def test_work_grows_with_the_text(piece: str) -> None:
    check_linear(lambda text: resolve_references(text, ROW_IDS), piece)


def test_statements_and_what_they_rest_on() -> None:
    text = "A paid. [Data: Sources (1)] B left [Data: Entities (2, 3); Sources (2)] C"
    assert list(split_cited_statements(text)) == [
        ("A paid.", {"chunks": [1]}),
        ("B left", {"entities": [2, 3], "chunks": [2]}),
        ("C", {}),
    ]
