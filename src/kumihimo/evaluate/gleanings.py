"""documents, sizes of chunks, numbers of gleanings -> how often entities are referred to (GraphRAG, figure 3)."""

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
    """One point of the figure."""

    size: int
    rounds: int

    @property
    def name(self) -> str:
        return f"chunks.size={self.size}+mentions.gleanings={self.rounds}"


def sample_documents(documents: Iterable[Document], count: int) -> list[Document]:
    """So many of them, the same ones each time; 0: all."""
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
    """A row for each document, size and number of gleanings: how often an entity is described.

    One conversation is the beginning of that with more gleanings, so that the most of them is all that is paid for.
    But: who is only named at an end of a relation is not counted; a round that finds nothing new is the last.
    """
    setups = [GleaningSetup(size, rounds) for size in CHUNK_SIZES for rounds in sorted(GLEANING_ROUNDS, reverse=True)]
    jobs = [(s, d, cut) for s in setups for d in documents for cut in _chunk_document(d, tokenizer, s.size, overlap)]
    own = {name: value for name, value in (settings or {}).items() if name != "gleanings"}

    def one(job: tuple[GleaningSetup, Document, Chunk]) -> int | ItemFailed:
        try:
            made = list(mentions(job[2], llm, gleanings=job[0].rounds, **own))
        except ItemFailed as failure:
            return failure
        return sum(bool(mention.text) for mention in made)

    found: dict[tuple[GleaningSetup, str], list[int | ItemFailed]] = {(s, d.uri): [] for s in setups for d in documents}
    for done, (job, said) in enumerate(zip(jobs, map_concurrent(one, jobs, llm.workers), strict=True), 1):
        found[job[0], job[1].uri].append(said)
        if progress:
            progress("gleanings", done, len(jobs))
    ordered = sorted(found.items(), key=lambda item: (item[0][0].size, item[0][0].rounds))
    return (_score(setup, uri, said) for (setup, uri), said in ordered)


def _chunk_document(document: Document, tokenizer: Tokenizer, size: int, overlap: int) -> list[Chunk]:
    made = chunks(document, tokenizer, size=size, overlap=overlap)
    return [replace(chunk, id=f"{document.id}.{n:05}") for n, chunk in enumerate(made)]


def _score(setup: GleaningSetup, uri: str, said: Sequence[int | ItemFailed]) -> Score:
    failed = [each for each in said if isinstance(each, ItemFailed)]
    detail = {"size": setup.size, "gleanings": setup.rounds, "chunks": len(said)}
    if failed:
        return Score(SCORE_NAME, setup.name, uri, None, str(failed[0]), detail, "failed")
    return Score(SCORE_NAME, setup.name, uri, float(sum(each for each in said if isinstance(each, int))), detail=detail)


def references_table(scores: Iterable[Score]) -> dict[int, list[float]]:
    """By size, of each number of gleanings: the references in those documents that never failed."""
    rows = list(scores)
    failed = {row.question for row in rows if row.value is None}
    found = {size: [0.0] * len(GLEANING_ROUNDS) for size in CHUNK_SIZES}
    for row in rows:
        if row.question not in failed and row.value is not None:
            found[row.detail["size"]][GLEANING_ROUNDS.index(row.detail["gleanings"])] += row.value
    return found


def draw_references(found: Mapping[int, Sequence[float]]) -> str:
    """The figure as SVG: a line for each size of chunks."""
    top = max([1.0, *(value for line in found.values() for value in line)])
    step = (_WIDTH - 3 * _MARGIN) / (len(GLEANING_ROUNDS) - 1)

    def at(n: int, value: float) -> tuple[float, float]:
        return _MARGIN + n * step, _HEIGHT - _MARGIN + (2 * _MARGIN - _HEIGHT) * value / top

    parts = [_svg_text(at(n, 0)[0], _HEIGHT - 32, str(n), "middle") for n in GLEANING_ROUNDS]
    parts += [_svg_text(_MARGIN - 8, at(0, share * top)[1] + 4, f"{share * top:,.0f}", "end") for share in (0, 0.5, 1)]
    parts += [
        _svg_text((_WIDTH - _MARGIN) / 2, _HEIGHT - 10, "gleanings", "middle"),
        _svg_text(8, 22, "references to entities"),
    ]
    for style, (size, line) in zip(("", "7 4", "2 4"), found.items(), strict=False):
        places = [at(n, value) for n, value in enumerate(line)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-dasharray="{style}"/>')
        parts.append(_svg_text(places[-1][0] + 8, places[-1][1] + 4, f"{size:,} tokens"))
    title = "<title>References to entities, by gleanings and size of chunks</title>"
    style = "font: 13px sans-serif; color: #333; background: #fff"
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" style="{style}">'
    return "\n".join([opened, title, *parts, "</svg>"])


def _svg_text(x: float, y: float, said: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(said)}</text>'
