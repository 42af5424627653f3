"""a text with references -> the text without them; other words stay unchanged."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kumihimo.index.data_refs import strip_references
from tests.counters import check_linear


@pytest.mark.parametrize(
    "written",
    [
        "[Data: Entities (5, 7); Relationships (23); Claims (2, +more)]",
        "[Data: Entities (5;7), Relationships (23)]",
        "［Data：Entities（5、7）；Claims（２）］",
        "【data: entities (5, 7) relationships (23)】",
        "[Data: Entity (5); Relationship (23); Claim (1); Report (1); Source (2)]",
        "[DATA: Relations (3)]",
        "[Data: Entities (5, 7); Claims (1)",
        "[Data: Entities (5, 7]",
        "Data: Entities (5, 7)",
        "(Data: Entities (5, 7))",
        "[Data: Entities 5, 7; Claims 2]",
        "[Data: Entities [5, 7]; Claims [2]]",
        "[Data: Entities (5 and 7)]",
        "[Data: Entities (5-7)]",
        "[Data: Entities (7, 5, 7, + more)]",
        "[Data: Entities (ids 5, #7)]",
        "[Data: Documents (3); Claims (1)]",
        f"[Data: Entities ({'9' * 5000}, 1)]",
    ],
)
def test_references_are_removed_however_they_are_written(written: str) -> None:
    assert strip_references(f"So it is {written}. And on.") == "So it is. And on."
    assert strip_references(f"So it is. {written}. And on.") == "So it is. And on."
    if not written.startswith("Data"):
        assert strip_references(f"組紐は十月に届く{written}。") == "組紐は十月に届く。"


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
    assert strip_references(text) == text


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
    assert len(strip_references(text)) <= len(text)


@given(st.text(alphabet=st.characters(exclude_characters="dD")))
def test_words_without_references_are_never_altered(text: str) -> None:
    assert strip_references(text) == text


@pytest.mark.parametrize(
    "piece",
    [" ", "[", "data", "data: ", "[Data: Entities (5, ", "Data: Entities (5) ", "[Data: Entities (5", "\n"],
)
def test_work_grows_with_the_text(piece: str) -> None:
    check_linear(strip_references, piece)
