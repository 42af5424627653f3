"""A chunk -> its passages: exact spans of the document, none twice, nothing lost, however the text looks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Document, Passage
from kumihimo.index.chunks import chunks
from kumihimo.index.passages import passages
from kumihimo.llm.local_embedder import LocalTokenizer
from tests.index.factories_rows import Looks, table

TEXT = "# Ferries\n\nThe ferry leaves at nine. It is late. 組紐は十月に届く。Ada waits.\n\n- one oar\n- two oars\n" * 4


class Words:
    """A ruler for which a word is a token, which begins where the word does."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return [word.start() for word in re.finditer(r"\S+", text)]


def cut(text: str, size: int = 8, *, chunk: int = 30, overlap: int = 10) -> tuple[list[Chunk], list[Passage]]:
    """The chunks of a document and their passages; a word is a token."""
    document = Document(id="d", uri="d", file="d", title="T", media_type="text/plain", text=text)
    made = [
        replace(one, id=f"d.{n:05}") for n, one in enumerate(chunks(document, Words(), size=chunk, overlap=overlap))
    ]
    held = table("chunks", Chunk, made)
    return made, [passage for one in made for passage in passages(one, held, Words(), size=size)]


def test_a_passage_is_whole_sentences() -> None:
    _, made = cut("The ferry leaves at nine. It is late. Ada waits for it.", 8)
    assert [passage.text for passage in made] == ["The ferry leaves at nine. It is late.", "Ada waits for it."]
    assert [passage.tokens for passage in made] == [8, 4]
    assert {passage.chunk for passage in made} == {"d.00000"}


@settings(max_examples=60)
@given(text=st.text("ab.。、 \n#-😀字が", max_size=300), size=st.integers(1, 9))
@example(text=TEXT, size=8)
@example(text="word " * 100, size=8)
def test_passages_tile_the_document(text: str, size: int) -> None:
    whole, made = cut(text, size)
    assert all(text[passage.start : passage.end] == passage.text for passage in made)
    assert all(one.end <= other.start for one, other in pairwise(made))
    assert all(passage.tokens <= size for passage in made)
    inside = {at for passage in made for at in range(passage.start, passage.end)}
    held = {at for chunk in whole for at in range(chunk.start, chunk.end) if not text[at].isspace()}
    assert held <= inside
    for passage in made:
        [chunk] = [chunk for chunk in whole if chunk.id == passage.chunk]
        assert chunk.start <= passage.start < passage.end <= chunk.end


def test_what_chunks_share_is_in_the_first_of_them() -> None:
    whole, made = cut(TEXT)
    assert any(one.end > other.start for one, other in pairwise(whole))
    assert len({passage.start for passage in made}) == len(made)


def test_only_the_chunk_before_is_looked_up() -> None:
    looks: Looks = []
    whole, _ = cut(TEXT)
    held = table("chunks", Chunk, whole, looks)
    list(passages(whole[0], held, Words()))
    assert not looks
    list(passages(whole[2], held, Words()))
    assert looks == [("chunks", ("id",), ("d.00001",))]


def test_a_chunk_whose_forerunner_is_missing_is_cut_whole() -> None:
    whole, _ = cut(TEXT)
    [first, *_] = passages(whole[1], table("chunks", Chunk, []), Words())
    assert first.start == whole[1].start


def test_a_size_below_one_is_told() -> None:
    whole, _ = cut(TEXT)
    with pytest.raises(SettingsError, match=r"passages\.size is 0"):
        list(passages(whole[0], table("chunks", Chunk, []), Words(), size=0))


def test_a_long_line_takes_no_longer_than_its_chunks() -> None:
    text = "ab" * 100_000
    document = Document(id="d", uri="d", file="d", title="", media_type="text/plain", text=text)
    ruler = LocalTokenizer()
    began = process_time()
    made = [replace(one, id=f"d.{n:05}") for n, one in enumerate(chunks(document, ruler))]
    middle = process_time()
    held = table("chunks", Chunk, made)
    cut = [passage for chunk in made for passage in passages(chunk, held, ruler)]
    assert "".join(passage.text for passage in cut) == text
    assert process_time() - middle < 4 * (middle - began) + 1
