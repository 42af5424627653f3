"""question + rows -> points: what a model reads out of rows for a question, batch by batch, and how much it helps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import KeyPoint, Reference, Report
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM

PROMPT = Path(__file__).with_suffix(".md")
REDUCE_PROMPT = Path(__file__).with_name("reduce.md")  # how an answer is written from points


@dataclass(frozen=True, slots=True)
class Said:
    """A point as a model gives it."""

    description: str
    score: int
    sources: list[int]


def extract_points(question: str, rows: Iterable[Evidence], llm: LLM, tokenizer: Tokenizer, *, window: int) -> Context:
    """The points of all rows, those that help most first; those of no help are left out.

    The rows are read in batches of `window` tokens, side by side. Raises ItemFailed where a batch could not be read:
    what it holds may matter most.
    """

    def points(batch: Sequence[Evidence]) -> list[tuple[float, KeyPoint]]:
        said = llm(render_prompt(PROMPT, sources=format_sources(batch), question=question), schema=list[Said])
        return [
            (float(min(one.score, 100)), make_point(one.description, cited_references(one.sources, batch), tokenizer))
            for one in said
            if one.score > 0 and one.description.strip()
        ]

    found = map_concurrent(points, batch_evidence(rows, window, tokenizer), llm.workers)
    return rank_points(each for points in found for each in points)


def shuffle_ids(ids: Iterable[str], seed: int) -> list[str]:
    """The ids in an order that is nobody's, and the same wherever and in whichever order the rows were made."""
    return sorted(ids, key=lambda id: hash_parts(str(seed), id))


def batch_evidence(rows: Iterable[Evidence], window: int, tokenizer: Tokenizer) -> Iterator[list[Evidence]]:
    """The rows in their order, as many together as the window takes; one that is longer stands alone."""
    batch: list[Evidence] = []
    left = window
    for row in rows:
        size = row.tokens(tokenizer)
        if batch and size > left:
            yield batch
            batch, left = [], window
        batch.append(row)
        left -= size
    if batch:
        yield batch


def format_sources(rows: Sequence[Evidence]) -> str:
    """The rows as a model is told them."""
    return "\n\n".join(f"[{n}]\n{source_text(row)}" for n, row in enumerate(rows, 1))


def source_text(row: Evidence) -> str:
    """What a row says; without the references of a report, whose numbers mean something within it only."""
    from kumihimo.index.data_refs import strip_references

    return strip_references(row.text) if isinstance(row.record, Report) else row.prompt_text


def cited_references(numbers: Iterable[int], rows: Sequence[Evidence]) -> tuple[Reference, ...]:
    """The rows of these numbers; where none is right, all of them: it was read out of one of those."""
    right = {n for n in numbers if 1 <= n <= len(rows)} or set(range(1, len(rows) + 1))
    return tuple(rows[n - 1].reference for n in sorted(right))


def make_point(text: str, sources: Sequence[Reference], tokenizer: Tokenizer, *, verbatim: bool = False) -> KeyPoint:
    """A statement read out of these rows, named after both."""
    text = text.strip()
    id = hash_parts(text, *(part for source in sources for part in source))
    return KeyPoint(id=id, text=text, sources=tuple(sources), tokens=len(tokenizer(text)), verbatim=verbatim)


def rank_points(points: Iterable[tuple[float, KeyPoint]]) -> Context:
    """The points, the best first; equal ones in the order of their texts."""
    ranked = sorted(points, key=lambda each: (-each[0], each[1].text, each[1].sources))
    return Context(tuple(Evidence("points", point, score) for score, point in ranked))
