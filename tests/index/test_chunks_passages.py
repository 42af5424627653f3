"""a chunk -> its passages: exact spans of the document, without overlap or lost text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import example, given, settings, strategies as st

from kumihimo.core.records import Chunk, Document, Passage
from kumihimo.index.chunks import chunks, passages
from kumihimo.llm.local_embedder import LocalTokenizer
from tests.counters import CountingTokenizer
from tests.index.factories_rows import Lookups, table

TEXT = "# Ferries\n\nThe ferry leaves at nine. It is late. 組紐は十月に届く。Ada waits.\n\n- one oar\n- two oars\n" * 4


class WordTokenizer:
    """A tokenizer with one token per word, at the word's offset."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return [word.start() for word in re.finditer(r"\S+", text)]


def make_passages(text: str, size: int = 8, *, chunk: int = 30, overlap: int = 10) -> tuple[list[Chunk], list[Passage]]:
    """Return the chunks of a document and their passages, with one token per word."""
    document = Document(id="d", uri="d", file="d", title="T", media_type="text/plain", text=text)
    document_chunks = [
        replace(draft, id=f"d.{n:05}")
        for n, draft in enumerate(chunks(document, WordTokenizer(), size=chunk, overlap=overlap))
    ]
    chunk_table = table("chunks", Chunk, document_chunks)
    return document_chunks, [
        replace(passage, id=f"{draft.id}.{n:05}")
        for draft in document_chunks
        for n, passage in enumerate(passages(draft, chunk_table, WordTokenizer(), size=size))
    ]


def test_a_passage_is_whole_sentences() -> None:
    _, results = make_passages("The ferry leaves at nine. It is late. Ada waits for it.", 8)
    assert [passage.text for passage in results] == ["The ferry leaves at nine. It is late.", "Ada waits for it."]
    assert [passage.tokens for passage in results] == [8, 4]
    assert {passage.chunk for passage in results} == {"d.00000"}


@settings(max_examples=60)
@given(text=st.text("ab.。、 \n#-😀字が", max_size=300), size=st.integers(1, 9))
@example(text=TEXT, size=8)
@example(text="word " * 100, size=8)
def test_passages_tile_the_document(text: str, size: int) -> None:
    chunk_list, results = make_passages(text, size)
    assert all(text[passage.start : passage.end] == passage.text for passage in results)
    assert all(first.end <= second.start for first, second in pairwise(results))
    assert all(passage.tokens <= size for passage in results)
    covered = {offset for passage in results for offset in range(passage.start, passage.end)}
    needed = {offset for chunk in chunk_list for offset in range(chunk.start, chunk.end) if not text[offset].isspace()}
    assert needed <= covered
    for passage in results:
        [chunk] = [chunk for chunk in chunk_list if chunk.id == passage.chunk]
        assert chunk.start <= passage.start < passage.end <= chunk.end


def test_what_chunks_share_is_in_the_first_of_them() -> None:
    chunk_list, results = make_passages(TEXT)
    assert any(first.end > second.start for first, second in pairwise(chunk_list))
    assert len({passage.start for passage in results}) == len(results)


def test_only_the_chunk_before_is_looked_up() -> None:
    lookups: Lookups = []
    chunk_list, _ = make_passages(TEXT)
    chunk_table = table("chunks", Chunk, chunk_list, lookups)
    list(passages(chunk_list[0], chunk_table, WordTokenizer()))
    assert not lookups
    list(passages(chunk_list[2], chunk_table, WordTokenizer()))
    assert lookups == [("chunks", ("id",), ("d.00001",))]


def test_a_chunk_whose_forerunner_is_missing_is_cut_whole() -> None:
    chunk_list, _ = make_passages(TEXT)
    [first, *_] = passages(chunk_list[1], table("chunks", Chunk, []), WordTokenizer())
    assert first.start == chunk_list[1].start


def test_a_long_line_is_tokenized_once_for_its_chunks_and_once_for_its_passages() -> None:
    text = "ab" * 100_000
    document = Document(id="d", uri="d", file="d", title="", media_type="text/plain", text=text)
    tokenizer = CountingTokenizer(LocalTokenizer())
    document_chunks = [replace(draft, id=f"d.{n:05}") for n, draft in enumerate(chunks(document, tokenizer))]
    assert tokenizer.characters == len(text)
    tokenizer.characters = 0
    chunk_table = table("chunks", Chunk, document_chunks)
    results = [passage for chunk in document_chunks for passage in passages(chunk, chunk_table, tokenizer)]
    assert "".join(passage.text for passage in results) == text
    assert tokenizer.characters <= sum(len(chunk.text) for chunk in document_chunks)
