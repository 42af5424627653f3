"""question + rows -> points: what a model reads out of rows for a question, batch by batch, and how much it helps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.digests import digest
from kumihimo.core.records import Point, Reference, Report
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask

PROMPT = Path(__file__).with_suffix(".md")
REDUCE = Path(__file__).with_name("reduce.md")  # how an answer is written from points


@dataclass(frozen=True, slots=True)
class Said:
    """A point as a model gives it."""

    description: str
    score: int
    sources: list[int]


def read(question: str, rows: Iterable[Evidence], ask: Ask, ruler: Ruler, *, window: int) -> Context:
    """The points of all rows, those that help most first; those of no help are left out.

    The rows are read in batches of `window` tokens, side by side. Raises ItemFailed where a batch could not be read:
    what it holds may matter most.
    """

    def points(batch: Sequence[Evidence]) -> list[tuple[float, Point]]:
        said = ask(prompt(PROMPT, sources=numbered(batch), question=question), into=list[Said])
        return [
            (float(min(one.score, 100)), point(one.description, cited(one.sources, batch), ruler))
            for one in said
            if one.score > 0 and one.description.strip()
        ]

    found = side_by_side(points, batches(rows, window, ruler), ask.workers)
    return best(each for points in found for each in points)


def shuffled(ids: Iterable[str], seed: int) -> list[str]:
    """The ids in an order that is nobody's, and the same wherever and in whichever order the rows were made."""
    return sorted(ids, key=lambda id: digest(str(seed), id))


def batches(rows: Iterable[Evidence], window: int, ruler: Ruler) -> Iterator[list[Evidence]]:
    """The rows in their order, as many together as the window takes; one that is longer stands alone."""
    batch: list[Evidence] = []
    left = window
    for row in rows:
        size = row.tokens(ruler)
        if batch and size > left:
            yield batch
            batch, left = [], window
        batch.append(row)
        left -= size
    if batch:
        yield batch


def numbered(rows: Sequence[Evidence]) -> str:
    """The rows as a model is told them."""
    return "\n\n".join(f"[{n}]\n{told(row)}" for n, row in enumerate(rows, 1))


def told(row: Evidence) -> str:
    """What a row says; without the references of a report, whose numbers mean something within it only."""
    from kumihimo.index.data_refs import unmarked

    return unmarked(row.text) if isinstance(row.record, Report) else row.told


def cited(numbers: Iterable[int], rows: Sequence[Evidence]) -> tuple[Reference, ...]:
    """The rows of these numbers; where none is right, all of them: it was read out of one of those."""
    right = {n for n in numbers if 1 <= n <= len(rows)} or set(range(1, len(rows) + 1))
    return tuple(rows[n - 1].reference for n in sorted(right))


def point(text: str, sources: Sequence[Reference], ruler: Ruler, *, verbatim: bool = False) -> Point:
    """A statement read out of these rows, named after both."""
    text = text.strip()
    id = digest(text, *(part for source in sources for part in source))
    return Point(id=id, text=text, sources=tuple(sources), tokens=len(ruler(text)), verbatim=verbatim)


def best(points: Iterable[tuple[float, Point]]) -> Context:
    """The points, the best first; equal ones in the order of their texts."""
    ranked = sorted(points, key=lambda each: (-each[0], each[1].text, each[1].sources))
    return Context(tuple(Evidence("points", point, score) for score, point in ranked))
