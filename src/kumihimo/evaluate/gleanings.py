"""documents, sizes of chunks, numbers of gleanings -> how often entities are referred to (GraphRAG, figure 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from kumihimo.core.context import Ruler
from kumihimo.core.digests import digest
from kumihimo.core.errors import ItemFailed
from kumihimo.core.records import Chunk, Document
from kumihimo.core.task import Progress
from kumihimo.evaluate.records import Score
from kumihimo.index.chunks import chunks
from kumihimo.index.mentions import mentions
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.protocols import Ask

SIZES = (600, 1200, 2400)
ROUNDS = (0, 1, 2, 3)
NAME = "entity_references"
_WIDE, _HIGH, _SIDE = 520, 300, 56


@dataclass(frozen=True, slots=True)
class Setup:
    """One point of the figure."""

    size: int
    rounds: int

    @property
    def name(self) -> str:
        return f"chunks.size={self.size}+mentions.gleanings={self.rounds}"


def sampled(documents: Iterable[Document], count: int) -> list[Document]:
    """So many of them, the same ones each time; 0: all."""
    return sorted(documents, key=lambda document: digest(document.uri))[: count or None]


def references(
    documents: Sequence[Document],
    ask: Ask,
    ruler: Ruler,
    *,
    overlap: int = 100,
    settings: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Iterator[Score]:
    """A row for each document, size and number of gleanings: how often an entity is described.

    One conversation is the beginning of that with more gleanings, so that the most of them is all that is paid for.
    But: who is only named at an end of a relation is not counted; a round that finds nothing new is the last.
    """
    setups = [Setup(size, rounds) for size in SIZES for rounds in sorted(ROUNDS, reverse=True)]
    jobs = [(s, d, cut) for s in setups for d in documents for cut in _cut(d, ruler, s.size, overlap)]
    own = {name: value for name, value in (settings or {}).items() if name != "gleanings"}

    def one(job: tuple[Setup, Document, Chunk]) -> int | ItemFailed:
        try:
            made = list(mentions(job[2], ask, gleanings=job[0].rounds, **own))
        except ItemFailed as failure:
            return failure
        return sum(bool(mention.text) for mention in made)

    found: dict[tuple[Setup, str], list[int | ItemFailed]] = {(s, d.uri): [] for s in setups for d in documents}
    for done, (job, said) in enumerate(zip(jobs, side_by_side(one, jobs, ask.workers), strict=True), 1):
        found[job[0], job[1].uri].append(said)
        if progress:
            progress("gleanings", done, len(jobs))
    ordered = sorted(found.items(), key=lambda item: (item[0][0].size, item[0][0].rounds))
    return (_score(setup, uri, said) for (setup, uri), said in ordered)


def _cut(document: Document, ruler: Ruler, size: int, overlap: int) -> list[Chunk]:
    made = chunks(document, ruler, size=size, overlap=overlap)
    return [replace(chunk, id=f"{document.id}.{n:05}") for n, chunk in enumerate(made)]


def _score(setup: Setup, uri: str, said: Sequence[int | ItemFailed]) -> Score:
    failed = [each for each in said if isinstance(each, ItemFailed)]
    detail = {"size": setup.size, "gleanings": setup.rounds, "chunks": len(said)}
    if failed:
        return Score(NAME, setup.name, uri, None, str(failed[0]), detail, "failed")
    return Score(NAME, setup.name, uri, float(sum(each for each in said if isinstance(each, int))), detail=detail)


def table(scores: Iterable[Score]) -> dict[int, list[float]]:
    """By size, of each number of gleanings: the references in those documents that never failed."""
    rows = list(scores)
    failed = {row.question for row in rows if row.value is None}
    found = {size: [0.0] * len(ROUNDS) for size in SIZES}
    for row in rows:
        if row.question not in failed and row.value is not None:
            found[row.detail["size"]][ROUNDS.index(row.detail["gleanings"])] += row.value
    return found


def drawn(found: Mapping[int, Sequence[float]]) -> str:
    """The figure as SVG: a line for each size of chunks."""
    top = max([1.0, *(value for line in found.values() for value in line)])
    step = (_WIDE - 3 * _SIDE) / (len(ROUNDS) - 1)

    def at(n: int, value: float) -> tuple[float, float]:
        return _SIDE + n * step, _HIGH - _SIDE + (2 * _SIDE - _HIGH) * value / top

    parts = [_text(at(n, 0)[0], _HIGH - 32, str(n), "middle") for n in ROUNDS]
    parts += [_text(_SIDE - 8, at(0, share * top)[1] + 4, f"{share * top:,.0f}", "end") for share in (0, 0.5, 1)]
    parts += [_text((_WIDE - _SIDE) / 2, _HIGH - 10, "gleanings", "middle"), _text(8, 22, "references to entities")]
    for style, (size, line) in zip(("", "7 4", "2 4"), found.items(), strict=False):
        places = [at(n, value) for n, value in enumerate(line)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-dasharray="{style}"/>')
        parts.append(_text(places[-1][0] + 8, places[-1][1] + 4, f"{size:,} tokens"))
    title = "<title>References to entities, by gleanings and size of chunks</title>"
    style = "font: 13px sans-serif; color: #333; background: #fff"
    opened = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" role="img" style="{style}">'
    return "\n".join([opened, title, *parts, "</svg>"])


def _text(x: float, y: float, said: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="currentColor">{escape(said)}</text>'
