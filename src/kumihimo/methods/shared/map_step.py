"""question + rows -> points with scores: the map step, a model call for each batch of rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from kumihimo.core import digests, records, signature, table
from kumihimo.core.context import Context, Evidence, KeyPoint, Tokenizer
from kumihimo.index.chunk_background import Description, document_date
from kumihimo.llm import concurrency, prompts, protocols

MAP_PROMPT = Path(__file__).with_suffix(".md")
FORM_TOKENS = 200  # at most, of the schema of a reply in a prompt
SOURCE_TOKENS = 40  # at most, of the number and the title of a source
_MAX_CITED = 5  # rows of a point
REDUCE_PROMPT = Path(__file__).with_name("reduce.md")  # the answer prompt for points


Statement = tuple[str, int, list[int], Sequence[Evidence]]  # text, score, numbers of its sources, all rows


@dataclass(frozen=True, slots=True)
class Said:
    """A point in the model's reply."""

    description: str
    score: int
    sources: list[int]


def extract_points(
    question: str,
    batches: Iterable[Sequence[Evidence]],
    llm: protocols.LLM,
    tokenizer: Tokenizer,
    *,
    dates: Mapping[str, str] = MappingProxyType({}),
) -> Context:
    """Extract points from all batches of rows, the most helpful first.

    The batches are read concurrently. Points with score 0 are dropped. Raises ItemFailed if a batch fails, because it
    may hold the most important point. dates: of documents by id, for the prompt.
    """

    def extract(batch: Sequence[Evidence]) -> list[Statement]:
        sources = rows_to_sources(batch, dates)
        reply = llm(prompts.render_prompt(MAP_PROMPT, sources=sources, question=question), schema=list[Said])
        return [(item.description, item.score, item.sources, batch) for item in reply]

    results = concurrency.map_concurrent(extract, batches, llm.workers)
    return rank_statements(chain.from_iterable(results), tokenizer)


def shuffle_ids(ids: Iterable[str], seed: int) -> list[str]:
    """Return the ids in a pseudo-random order that depends on `seed` only."""
    return sorted(ids, key=lambda id: digests.hash_parts(str(seed), id))


def batch_evidence(rows: Iterable[Evidence], window: int, tokenizer: Tokenizer) -> Iterator[list[Evidence]]:
    """Yield batches of rows within the window; a longer row stands alone."""
    batch: list[Evidence] = []
    remaining = window
    for row in rows:
        size = row.tokens(tokenizer)
        if batch and size > remaining:
            yield batch
            batch, remaining = [], window
        batch.append(row)
        remaining -= size
    if batch:
        yield batch


def rows_to_sources(rows: Sequence[Evidence], dates: Mapping[str, str] = MappingProxyType({})) -> list[prompts.Source]:
    """Return the rows as numbered sources for a prompt.

    dates: of documents by id.
    """
    sources = prompts.number_sources(row.prompt_text for row in rows)
    places = (dates.get(row.record.id.partition(".")[0], "") for row in rows)
    return [source._replace(place=place) for source, place in zip(sources, places, strict=True)]


def document_dates(descriptions: table.Table[Description] | None, rows: Iterable[Evidence]) -> dict[str, str]:
    """Return the date of each document of the rows, by its id."""
    ids = list(dict.fromkeys(row.record.id.partition(".")[0] for row in rows))
    found = descriptions.get_many(ids) if descriptions is not None else {}
    return {id: document_date(found.get(id)) for id in ids}


def cited_references(numbers: Iterable[int], rows: Sequence[Evidence]) -> tuple[records.Reference, ...]:
    """Return up to five rows with these numbers; all without any."""
    valid = list(dict.fromkeys(n for n in numbers if 1 <= n <= len(rows)))[:_MAX_CITED]
    return tuple(rows[n - 1].reference for n in sorted(valid) or range(1, len(rows) + 1))


def make_point(
    text: str, sources: Sequence[records.Reference], tokenizer: Tokenizer, *, verbatim: bool = False
) -> KeyPoint:
    """Return a point with these sources; both determine its id."""
    text = text.strip()
    id = digests.hash_parts(text, *(part for source in sources for part in source))
    return KeyPoint(id=id, text=text, sources=tuple(sources), tokens=len(tokenizer(text)), verbatim=verbatim)


def rank_statements(statements: Iterable[Statement], tokenizer: Tokenizer) -> Context:
    """Return the useful statements as points, the most helpful first.

    Each point has the rows that it cites as its sources.
    """
    return rank_points(
        (float(min(score, 100)), make_point(text, cited_references(numbers, rows), tokenizer))
        for text, score, numbers, rows in statements
        if score > 0 and text.strip()
    )


def rank_points(points: Iterable[tuple[float, KeyPoint]]) -> Context:
    """Return the points by descending score, ties by text."""
    ranked = sorted(points, key=lambda pair: (-pair[0], pair[1].text, pair[1].sources))
    return Context(tuple(Evidence("points", point, score) for score, point in ranked))


def map_cost(rows: int, tokens: int, window: int, sizes: signature.IndexSizes) -> signature.QueryCost:
    """Return the cost of one call for each batch of rows.

    Batches are at least half full on average, unless a row is longer than the window.
    """
    least, most = -(-tokens // window), min(rows, -(-2 * tokens // window))
    prompt = sizes.prompt_tokens(MAP_PROMPT)
    maximum = most * (prompt + FORM_TOKENS) + tokens + rows * SOURCE_TOKENS
    return signature.QueryCost((min(least, most), most), (min(least, most) * prompt, maximum))
