"""An index -> evenly sampled pieces of text -> a description of the documents for question generation."""

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
SAMPLE_TOKENS = 8000
_PIECE_TOKENS = 250
_REQUIRED_METHODS = {"reports": "global", "summaries": "meta"}  # the method whose index has them


def describe_documents(pieces: Sequence[str], llm: LLM) -> str:
    """Describe the documents from these pieces by one LLM call.

    A person should review the draft. Raises ItemFailed if the reply is unusable.
    """
    return llm(render_prompt(PROMPT, pieces="\n\n---\n\n".join(sorted(pieces)))).strip()


def sample_pieces(snapshot: Snapshot, source: DescriptionSource = "documents", size: int = SAMPLE_TOKENS) -> list[str]:
    """Sample pieces of the index, up to `size` tokens in all.

    documents: pieces of their text at even distances, so that a document of twice the length gives twice as many.
    reports, summaries: the generated texts of the index; such a description favours the methods that use them. Raises
    SettingsError if the index holds no text.
    """
    if source == "documents":
        samples = list(_sample_chunks(snapshot.table("chunks"), snapshot.tokenizer, size))
    else:
        samples = _sample_texts(_generated_texts(snapshot, source), snapshot.tokenizer, size)
    if not samples:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    return samples


def _sample_chunks(chunks: Table[Chunk], tokenizer: Tokenizer, size: int) -> Iterator[str]:
    lengths = {str(id): int(tokens) for id, tokens in chunks.columns("id", "tokens") if tokens}
    for id in pick_evenly_by_length(list(lengths), list(lengths.values()), max(size // _PIECE_TOKENS, 1)):
        chunk = chunks[id]
        yield _truncate(f"{chunk.title}\n{chunk.text}".strip(), _PIECE_TOKENS, tokenizer)


def pick_evenly_by_length(items: Sequence[str], lengths: Sequence[int], count: int) -> list[str]:
    """Pick items at even distances over their total length.

    >>> pick_evenly_by_length(["long", "short", "shorter"], [80, 30, 10], 2)  # at 30 and 90 of 120
    ['long', 'short']
    >>> pick_evenly_by_length(["long", "short", "shorter"], [80, 30, 10], 9)
    ['long', 'short', 'shorter']
    """
    if count >= len(items):
        return list(items)
    total, picked, position, i = sum(lengths), dict[str, None](), 0, 0
    for n in range(count):
        target = (n + 0.5) * total / count
        while i < len(items) and position + lengths[i] <= target:
            position, i = position + lengths[i], i + 1
        if i < len(items):
            picked[items[i]] = None
    return list(picked)


def _generated_texts(snapshot: Snapshot, source: DescriptionSource) -> list[str]:
    """Return the reports or summaries of the index.

    Raises SettingsError if they were not built.
    """
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
    """Truncate the texts to an equal share of the tokens."""
    room = max(size // max(len(texts), 1), _PIECE_TOKENS)
    return [_truncate(text, room, tokenizer) for text in texts[: max(size // room, 1)] if text.strip()]


def _truncate(text: str, tokens: int, tokenizer: Tokenizer) -> str:
    starts = tokenizer(text)
    return text if len(starts) <= tokens else text[: starts[tokens]].rstrip()
