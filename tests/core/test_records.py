"""values -> rows: hashes tell lists of parts apart, and rows have a text for search."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Document, Record
from kumihimo.core.spans import describe_place
from kumihimo.core.usage import Usage

PAGES = [(0, "p. 1"), (90, "p. 2"), (200, "p. 3")]


@pytest.mark.parametrize(
    ("places", "start", "end", "expected"),
    [
        (PAGES, 0, 90, "p. 1"),
        (PAGES, 0, 91, "p. 1–2"),
        (PAGES, 90, 90, "p. 2"),
        (PAGES, 200, 9999, "p. 3"),
        ([(0, "§ A"), (50, "")], 0, 60, "§ A"),
        ([(0, ""), (50, "§ A")], 0, 60, "§ A"),
        ([(0, ""), (50, "§ A")], 0, 50, ""),
        ([(0, "§ A"), (50, "§ B")], 0, 60, "§ A – § B"),
        ([(0, "sheet Year 1"), (50, "sheet Month 2")], 0, 60, "sheet Year 1 – sheet Month 2"),
        ([(9, "p. 1")], 0, 5, "p. 1"),
    ],
)
def test_where_a_stretch_stands(places: list[tuple[int, str]], start: int, end: int, expected: str) -> None:
    assert describe_place(places, start, end) == expected


PARTS = st.lists(st.text(st.characters(exclude_categories=())))  # including lone surrogates


def test_a_digest_is_twenty_hex_digits() -> None:
    assert len(hash_parts("港")) == 20
    assert set(hash_parts("港")) <= set("0123456789abcdef")
    assert len(hash_parts()) == 20


@given(PARTS, PARTS)
def test_lists_of_parts_share_a_digest_only_when_equal(a: list[str], b: list[str]) -> None:
    assert (hash_parts(*a) == hash_parts(*b)) == (a == b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("AB", "C"), ("A", "BC")),
        (("a", ""), ("a",)),
        (("", "a"), ("a", "")),
        (("a', 'b",), ("a", "b")),
        (("1:a",), ("a",)),
        (("é",), ("e\u0301",)),
        (("\\ud800",), ("\ud800",)),
        ((), ("",)),
    ],
)
def test_parts_that_look_alike_differ(a: tuple[str, ...], b: tuple[str, ...]) -> None:
    assert hash_parts(*a) != hash_parts(*b)


def test_a_row_never_changes() -> None:
    row = Record(id="a", text="one")
    with pytest.raises(FrozenInstanceError):
        row.text = "two"  # type: ignore[misc]


def test_a_row_is_found_by_its_text_and_made_of_nothing_it_says() -> None:
    row = Record(id="a", text="one")
    assert row.index_text == "one"
    assert row.parents() == ()


def test_id_and_text_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Record("a")  # type: ignore[call-arg]
    assert Record() == Record(id="", text="")


def test_a_chunk_tells_its_document_and_place_by_its_id() -> None:
    chunk = Chunk(id="4bbc395d71529a87b3de.00012", title="Sea", start=3, end=6, tokens=1, text="sea")
    assert chunk.document == "4bbc395d71529a87b3de"
    assert chunk.ordinal == 12


def test_a_chunk_is_found_by_its_title_too() -> None:
    chunk = Chunk(title="Sea", start=0, end=3, tokens=1, text="sky")
    untitled = Chunk(title="", start=0, end=3, tokens=1, text="sky")
    assert chunk.index_text == "Sea\nsky"
    assert untitled.index_text == "sky"


def test_documents_do_not_share_their_metadata() -> None:
    a, b = (Document(uri=uri, file=uri, title="", media_type="") for uri in "ab")
    assert a.metadata == {}
    assert a.metadata is not b.metadata


def test_usage_adds_up() -> None:
    one = Usage(calls=1, prompt_tokens=20, completion_tokens=3, cost=0.5, seconds=0.25)
    two = Usage(calls=2, prompt_tokens=10, completion_tokens=1, cost=0.25, seconds=0.5)
    assert one + two == Usage(calls=3, prompt_tokens=30, completion_tokens=4, cost=0.75, seconds=0.75)
    assert one + Usage() == one
