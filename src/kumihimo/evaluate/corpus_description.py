"""an index -> pieces of it, spread evenly -> a description of the documents, which questions are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.context import Tokenizer
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Report
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
DescriptionSource = Literal["documents", "reports", "summaries"]
SAMPLE_TOKENS = 8000  # tokens that are shown
_PIECE_TOKENS = 250  # tokens of each
_REQUIRED_METHODS = {"reports": "global", "summaries": "meta"}  # the method that an index is built for to have them


def describe_documents(pieces: Sequence[str], llm: LLM) -> str:
    """What the documents are, as far as these pieces tell, by one call, for a person to go over.

    Raises ItemFailed where the model says nothing of use.
    """
    return llm(render_prompt(PROMPT, pieces="\n\n---\n\n".join(sorted(pieces)))).strip()


def sample_pieces(snapshot: Snapshot, source: DescriptionSource = "documents", size: int = SAMPLE_TOKENS) -> list[str]:
    """Pieces of what the index holds, so many tokens in all. Raises SettingsError where there is nothing.

    documents: of their text, spread evenly over all of it, so that one twice as long has twice as many. reports,
    summaries: of what the index makes of them; a description of these favours the methods that read them.
    """
    if source == "documents":
        found = list(_sample_chunks(snapshot.table("chunks"), snapshot.tokenizer, size))
    else:
        found = _sample_texts(_generated_texts(snapshot, source), snapshot.tokenizer, size)
    if not found:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    return found


def _sample_chunks(chunks: Table[Chunk], tokenizer: Tokenizer, size: int) -> Iterator[str]:
    lengths = {str(id): int(tokens) for id, tokens in chunks.columns("id", "tokens") if tokens}
    for id in pick_evenly_by_length(list(lengths), list(lengths.values()), max(size // _PIECE_TOKENS, 1)):
        chunk = chunks[id]
        yield _truncate(f"{chunk.title}\n{chunk.text}".strip(), _PIECE_TOKENS, tokenizer)


def pick_evenly_by_length(items: Sequence[str], lengths: Sequence[int], count: int) -> list[str]:
    """So many of the items at even distances of their lengths laid end to end, each once.

    >>> spread(["long", "short", "shorter"], [80, 30, 10], 2)  # at 30 and 90 of 120
    ['long', 'short']
    >>> spread(["long", "short", "shorter"], [80, 30, 10], 9)
    ['long', 'short', 'shorter']
    """
    if count >= len(items):
        return list(items)
    total, chosen, at, i = sum(lengths), dict[str, None](), 0, 0
    for n in range(count):
        wanted = (n + 0.5) * total / count
        while i < len(items) and at + lengths[i] <= wanted:
            at, i = at + lengths[i], i + 1
        if i < len(items):
            chosen[items[i]] = None
    return list(chosen)


def _generated_texts(snapshot: Snapshot, source: DescriptionSource) -> list[str]:
    """What the index says of the documents. Raises SettingsError where that was not built."""
    if not snapshot.db.has(source):
        raise SettingsError(
            f"the index has no {source}: `kumi index --methods {_REQUIRED_METHODS[source]}` makes them, "
            "--from documents does without"
        )
    rows: Iterable[Any] = snapshot.table(source)
    if source == "summaries":
        return [row.index_text for row in rows]
    reports: list[Report] = list(rows)
    top = min((report.level for report in reports), default=0)
    return [f"{r.title}\n{r.summary}" for r in sorted(reports, key=lambda r: (-r.rating, r.id)) if r.level == top]


def _sample_texts(texts: Sequence[str], tokenizer: Tokenizer, size: int) -> list[str]:
    """As much of each as there is room for, the same of all."""
    room = max(size // max(len(texts), 1), _PIECE_TOKENS)
    return [_truncate(text, room, tokenizer) for text in texts[: max(size // room, 1)] if text.strip()]


def _truncate(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    starts = tokenizer(text)
    return text if len(starts) <= tokens else text[: starts[tokens]].rstrip()
