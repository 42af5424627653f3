"""documents -> chunks -> passages: text spans of about `size` tokens, cut at sentence ends."""

from collections.abc import Iterable

from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Document, Passage
from kumihimo.core.settings import Count, Tokens
from kumihimo.core.table import Table
from kumihimo.text import chunker, text_units


def chunks(document: Document, tokenizer: Tokenizer, *, size: Tokens = 600, overlap: Count = 100) -> Iterable[Chunk]:
    """Split a document into overlapping chunks of at most `size` tokens.

    Each chunk begins with the last `overlap` tokens of the previous one. Cuts fall only between sentences, list items
    and table rows, unless one of them alone is longer than `size`; a heading stays with the text after it (GraphRAG,
    arXiv:2404.16130, section 3.1: 600 and 100).
    """
    if overlap >= size:
        raise SettingsError(f"chunks.overlap is {overlap}; it must be below chunks.size, which is {size}")
    text, parts = document.text, chunker.split_text(document.text, document.body, tokenizer, size, overlap)
    if document.imported:  # the other system has split it
        units = text_units.load_units(document.imported)
        parts = (chunker.TokenSpan(u.start, u.end, len(tokenizer(text[u.start : u.end]))) for u in units)
    for start, end, tokens in parts:
        yield Chunk(title=document.title, start=start, end=end, tokens=tokens, text=text[start:end])


def passages(chunk: Chunk, chunks: Table[Chunk], tokenizer: Tokenizer, *, size: Tokens = 50) -> Iterable[Passage]:
    """Split a chunk into passages of at most `size` tokens, without overlap.

    (江上・福田, section 4.1: 50.) But: the paper has no larger chunks; here the text that a chunk shares with the
    previous one is left out.
    """
    previous = chunks.get(f"{chunk.document}.{chunk.ordinal - 1:05}") if chunk.ordinal else None
    begin = max(previous.end - chunk.start, 0) if previous else 0
    for start, end, tokens in chunker.split_text(chunk.text, begin, tokenizer, size):
        text = chunk.text[start:end]
        yield Passage(start=chunk.start + start, end=chunk.start + end, tokens=tokens, text=text)
