"""Documents, chunk sizes and gleaning rounds -> references to entities (GraphRAG, figure 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from kumihimo.core.context import Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk, Document
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import Score
from kumihimo.index.chunks import chunks
from kumihimo.index.mentions import mentions
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.protocols import LLM

CHUNK_SIZES = (600, 1200, 2400)
GLEANING_ROUNDS = (0, 1, 2, 3)
SCORE_NAME = "entity_references"
_WIDTH, _HEIGHT, _MARGIN = 520, 300, 56


@dataclass(frozen=True, slots=True)
class GleaningSetup:
    """A point of the figure: a chunk size and a gleaning count."""

    size: int
    rounds: int

    @property
    def name(self) -> str:
        return f"chunks.size={self.size}+mentions.gleanings={self.rounds}"


def sample_documents(documents: Iterable[Document], count: int) -> list[Document]:
    """Pick `count` documents, always the same; 0: all."""
    return sorted(documents, key=lambda document: hash_parts(document.uri))[: count or None]


def count_references(
    documents: Sequence[Document],
    llm: LLM,
    tokenizer: Tokenizer,
    *,
    overlap: int = 100,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """Count the described entities for each document, chunk size and gleaning round.

    A conversation with fewer gleanings is a prefix of one with more, so you pay only for the longest. Limitation:
    an entity that only occurs as an end of a relation is not counted. A round without new entities is the last one.
    """
    setups = [GleaningSetup(size, rounds) for size in CHUNK_SIZES for rounds in sorted(GLEANING_ROUNDS, reverse=True)]
    jobs = [
        (s, d, chunk) for s in setups for d in documents for chunk in _chunk_document(d, tokenizer, s.size, overlap)
    ]
    mention_settings = {name: value for name, value in (settings or {}).items() if name != "gleanings"}

    def count_mentions(job: tuple[GleaningSetup, Document, Chunk]) -> int | ItemFailed:
        try:
            found_mentions = list(mentions(job[2], llm, gleanings=job[0].rounds, **mention_settings))
        except ItemFailed as failure:
            return failure
        return sum(bool(mention.text) for mention in found_mentions)

    counts_by_setup: dict[tuple[GleaningSetup, str], list[int | ItemFailed]] = {
        (s, d.uri): [] for s in setups for d in documents
    }
    for done, (job, outcome) in enumerate(zip(jobs, map_concurrent(count_mentions, jobs, llm.workers), strict=True), 1):
        counts_by_setup[job[0], job[1].uri].append(outcome)
        if progress:
            progress("gleanings", done, len(jobs))
    ordered = sorted(counts_by_setup.items(), key=lambda item: (item[0][0].size, item[0][0].rounds))
    return (_score(setup, uri, counts) for (setup, uri), counts in ordered)


def _chunk_document(document: Document, tokenizer: Tokenizer, size: int, overlap: int) -> list[Chunk]:
    pieces = chunks(document, tokenizer, size=size, overlap=overlap)
    return [replace(chunk, id=f"{document.id}.{n:05}") for n, chunk in enumerate(pieces)]


def _score(setup: GleaningSetup, uri: str, counts: Sequence[int | ItemFailed]) -> Score:
    failed = [count for count in counts if isinstance(count, ItemFailed)]
    detail = {"size": setup.size, "gleanings": setup.rounds, "chunks": len(counts)}
    if failed:
        return Score(SCORE_NAME, setup.name, uri, None, str(failed[0]), detail, "failed")
    return Score(
        SCORE_NAME, setup.name, uri, float(sum(count for count in counts if isinstance(count, int))), detail=detail
    )


def references_table(scores: Iterable[Score]) -> dict[int, list[float]]:
    """Return the references by chunk size and gleaning round.

    Only documents without failure count.
    """
    rows = list(scores)
    failed = {row.question for row in rows if row.value is None}
    totals = {size: [0.0] * len(GLEANING_ROUNDS) for size in CHUNK_SIZES}
    for row in rows:
        if row.question not in failed and row.value is not None:
            totals[row.detail["size"]][GLEANING_ROUNDS.index(row.detail["gleanings"])] += row.value
    return totals


def draw_references(totals: Mapping[int, Sequence[float]]) -> str:
    """Draw the figure as SVG: a line for each chunk size."""
    top = max([1.0, *(value for line in totals.values() for value in line)])
    step = (_WIDTH - 3 * _MARGIN) / (len(GLEANING_ROUNDS) - 1)

    def locate(n: int, value: float) -> tuple[float, float]:
        return _MARGIN + n * step, _HEIGHT - _MARGIN + (2 * _MARGIN - _HEIGHT) * value / top

    parts = [_svg_text(locate(n, 0)[0], _HEIGHT - 32, str(n), "middle") for n in GLEANING_ROUNDS]
    parts += [
        _svg_text(_MARGIN - 8, locate(0, share * top)[1] + 4, f"{share * top:,.0f}", "end") for share in (0, 0.5, 1)
    ]
    parts += [
        _svg_text((_WIDTH - _MARGIN) / 2, _HEIGHT - 10, "gleanings", "middle"),
        _svg_text(8, 22, "references to entities"),
    ]
    for style, (size, line) in zip(("", "7 4", "2 4"), totals.items(), strict=False):
        places = [locate(n, value) for n, value in enumerate(line)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-dasharray="{style}"/>')
        parts.append(_svg_text(places[-1][0] + 8, places[-1][1] + 4, f"{size:,} tokens"))
    title = "<title>References to entities, by gleanings and size of chunks</title>"
    style = "font: 13px sans-serif; color: #333; background: #fff"
    opening_tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" style="{style}">'
    )
    return "\n".join([opening_tag, title, *parts, "</svg>"])


def _svg_text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(text)}</text>'
