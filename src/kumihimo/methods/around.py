"""rows of the graph -> Context: on one scale, each saying something else, and the chunks that they come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.records import Chunk, Mention, Tie
from kumihimo.core.table import Table
from kumihimo.ports.models import Match, Near

_SUPPORT = 300  # chunks behind what was found that are looked at, those behind most of it first


def scaled(found: Iterable[Evidence]) -> Context:
    """Best first, the best with a score of 1."""
    items = sorted(found, key=lambda item: -item.score)
    best = items[0].score if items and items[0].score > 0 else 1.0
    return Context(tuple(Evidence(item.table, item.record, max(item.score, 0.0) / best) for item in items))


def distinct(items: Iterable[Evidence]) -> Context:
    """Of those that say the same the first: by rule, one sentence ties many."""
    first: dict[str, Evidence] = {}
    for item in items:
        first.setdefault(item.text, item)
    return Context(tuple(first.values()))


def weightiest_first(item: Evidence) -> tuple[float, int, str]:
    """The order of relations that are equally near."""
    return -item.score, -getattr(item.record, "weight", 0), item.record.id


def best_first(item: Evidence) -> tuple[float, str]:
    return -item.score, item.record.id


def shared(parts: Sequence[tuple[Context, float]], budget: int, ruler: Ruler) -> list[Context]:
    """What of each part fits into its share of the budget; what the others leave is given to one after the other."""
    kept = [part.fit(int(budget * share), ruler) for part, share in parts]
    for i, (part, _) in enumerate(parts):
        others = sum(item.tokens(ruler) for j, other in enumerate(kept) if j != i for item in other)
        kept[i] = part.fit(budget - others, ruler)
    return kept


def behind(mentions: Table[Mention], ties: Table[Tie], ids: Sequence[str], tied: Sequence[str]) -> Counter[str]:
    """The chunks that the entities and relations come from, and of how many of them each speaks."""
    made = [mentions.ids(entity=id) for id in ids] + [ties.ids(relation=id) for id in tied]
    return Counter(chunk for group in made for chunk in {id.rpartition(".")[0] for id in group})


def reading(
    question: str,
    chunks: Table[Chunk],
    match: Match,
    near: Near,
    support: Counter[str],
    pool: int,
    *,
    others: bool = True,
) -> Context:
    """The chunks behind what was found, and what plain search finds: by words, meaning, and how much they support.

    others: whether those count that plain search alone finds.
    """
    most = sorted(support, key=lambda id: (-support[id], id))[:_SUPPORT]
    by_words, by_meaning = match(chunks, question, k=pool), near(chunks, question, k=pool) if others else Context()
    if most:
        among = near(chunks, question, k=pool, among=most)
        by_meaning = Context(tuple(sorted([*by_meaning, *among], key=best_first)))
    found = {item.record.id: item for item in (*by_words, *by_meaning)}
    supporting = Context(tuple(Evidence("chunks", found[id].record, support[id]) for id in found if support[id]))
    if not others:
        by_words = Context(tuple(item for item in by_words if support[item.record.id]))
    return scaled(Context.fuse([by_words, by_meaning, supporting], weights=[1.0, 0.5, 0.5]))
