"""chunks -> passages: pieces of about `size` tokens, cut at sentence ends."""

from __future__ import annotations

from collections.abc import Iterable

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Passage
from kumihimo.core.table import Table
from kumihimo.text.chunker import split_text


def passages(chunk: Chunk, chunks: Table[Chunk], tokenizer: Tokenizer, *, size: int = 50) -> Iterable[Passage]:
    """A chunk in pieces of at most `size` tokens, none of which repeats another (江上・福田, section 4.1: 50).

    But: the paper has no larger chunks; here these are, and what a chunk shares with the one before is left out.
    """
    if size < 1:
        raise SettingsError(f"passages.size is {size}; it must be 1 or more")
    before = chunks.get(f"{chunk.document}.{chunk.ordinal - 1:05}") if chunk.ordinal else None
    begin = max(before.end - chunk.start, 0) if before else 0
    for start, end, tokens in split_text(chunk.text, begin, tokenizer, size):
        text = chunk.text[start:end]
        yield Passage(chunk=chunk.id, start=chunk.start + start, end=chunk.start + end, tokens=tokens, text=text)
