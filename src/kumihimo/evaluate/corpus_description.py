"""an index -> pieces of it, spread evenly -> a description of the documents, which questions are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from kumihimo.app.snapshot import Reading
from kumihimo.core.context import Ruler
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk, Report
from kumihimo.core.table import Table
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

PROMPT = Path(__file__).with_suffix(".md")
From = Literal["documents", "reports", "summaries"]
SAMPLE = 8000  # tokens that are shown
_PIECE = 250  # tokens of each
_NEEDS = {"reports": "global", "summaries": "meta"}  # the method that an index is built for to have them


def described(pieces: Sequence[str], ask: Ask) -> str:
    """What the documents are, as far as these pieces tell, by one call, for a person to go over.

    Raises ItemFailed where the model says nothing of use.
    """
    return ask(prompt(PROMPT, pieces="\n\n---\n\n".join(sorted(pieces)))).strip()


def pieces(reading: Reading, source: From = "documents", size: int = SAMPLE) -> list[str]:
    """Pieces of what the index holds, so many tokens in all. Raises SettingsError where there is nothing.

    documents: of their text, spread evenly over all of it, so that one twice as long has twice as many. reports,
    summaries: of what the index makes of them; a description of these favours the methods that read them.
    """
    if source == "documents":
        found = list(_of_chunks(reading.table("chunks"), reading.ruler, size))
    else:
        found = _of_texts(_told(reading, source), reading.ruler, size)
    if not found:
        raise SettingsError("the index holds no text to make questions of: `kumi index PATH` adds some")
    return found


def _of_chunks(chunks: Table[Chunk], ruler: Ruler, size: int) -> Iterator[str]:
    lengths = {str(id): int(tokens) for id, tokens in chunks.columns("id", "tokens") if tokens}
    for id in spread(list(lengths), list(lengths.values()), max(size // _PIECE, 1)):
        chunk = chunks[id]
        yield _cut(f"{chunk.title}\n{chunk.text}".strip(), _PIECE, ruler)


def spread(items: Sequence[str], lengths: Sequence[int], count: int) -> list[str]:
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


def _told(reading: Reading, source: From) -> list[str]:
    """What the index says of the documents. Raises SettingsError where that was not built."""
    if not reading.db.has(source):
        raise SettingsError(
            f"the index has no {source}: `kumi index --methods {_NEEDS[source]}` makes them, "
            "--from documents does without"
        )
    rows: Iterable[Any] = reading.table(source)
    if source == "summaries":
        return [row.found_by for row in rows]
    reports: list[Report] = list(rows)
    top = min((report.level for report in reports), default=0)
    return [f"{r.title}\n{r.summary}" for r in sorted(reports, key=lambda r: (-r.rating, r.id)) if r.level == top]


def _of_texts(texts: Sequence[str], ruler: Ruler, size: int) -> list[str]:
    """As much of each as there is room for, the same of all."""
    room = max(size // max(len(texts), 1), _PIECE)
    return [_cut(text, room, ruler) for text in texts[: max(size // room, 1)] if text.strip()]


def _cut(text: str, tokens: int, ruler: Ruler) -> str:
    starts = ruler(text)
    return text if len(starts) <= tokens else text[: starts[tokens]].rstrip()
