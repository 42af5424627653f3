"""a question + the evidence of several indexes -> one Context, by scores that compare between indexes.

The scores of a method compare within one index only: how rare a word is there, what the best passage is. So all pieces
of evidence of one kind are compared with the question by one measure, against each other; and the order of each index
decides how far the measure is trusted: isotonic regression fits it to that order, which so stays as it was. This is how
federated search learns to compare the scores of its sources (Si and Callan, 2003), with the evidence as the sample.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import attrgetter, itemgetter
from types import MappingProxyType

from kumihimo.core.context import Context, Evidence, KeyPoint, Tokenizer
from kumihimo.core.index_names import id_in_index, split_id
from kumihimo.llm.local_embedder import find_subwords
from kumihimo.methods.braid import published_weights
from kumihimo.methods.braid.plain_match import PlainMatcher
from kumihimo.search.protocols import RowTokens
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import hash_token, tokenize

TokensByText = Mapping[str, RowTokens]


@dataclass(frozen=True, slots=True)
class _Found:
    """A piece of evidence, its rank among those of its table in its index, and its calibrated score."""

    item: Evidence
    rank: int
    score: float


def merge_evidence(
    question: str,
    contexts: Mapping[str, Context],
    tokenizer: Tokenizer,
    *,
    k: int | None = None,
    budget: int | None = None,
    tokens: TokensByText = MappingProxyType({}),
) -> Context:
    """Return the evidence of several indexes, best first, by their names.

    The order of each index is kept. A passage that several indexes hold is that of the first. Scores are those of the
    method by rank, the highest of any index. k: rows at most, unless one index gives more. budget: tokens at most,
    unless one index needs more. tokens: of texts whose tokens are known.
    """
    positions = _last_positions(contexts.values())
    places = [
        (own[min(rank, len(own) - 1)], n, item)
        for n, (table, own) in enumerate(positions.items())
        for rank, item in enumerate(_merge_table(question, table, contexts, tokens))
    ]
    queries = tuple(dict.fromkeys(query for context in contexts.values() for query in context.queries))
    query_type = next((context.query_type for context in contexts.values() if context.query_type), "")
    merged = Context(tuple(item for *_, item in sorted(places, key=itemgetter(0, 1))), queries, query_type)
    if k is not None and all(len(context) <= k for context in contexts.values()):
        merged = merged.top(k)
    if budget is None:
        return merged
    sizes = [sum(item.tokens(tokenizer) for item in context) for context in contexts.values()]
    return merged.fit(max([budget, *sizes]), tokenizer)


def _merge_table(question: str, table: str, contexts: Mapping[str, Context], tokens: TokensByText) -> list[Evidence]:
    """Return the best rows of one table, named by their indexes."""
    rows = {name: [item for item in context if item.table == table] for name, context in contexts.items()}
    scores = _comparable_scores(question, [item for items in rows.values() for item in items], tokens)
    found: list[_Found] = []
    for name, items in rows.items():
        fitted = fit_to_order([scores[evidence_text(item)] for item in items])
        ranked = enumerate(zip(items, fitted, strict=True))
        found += [_Found(name_evidence(name, item), rank, score) for rank, (item, score) in ranked]
    best = sorted(_drop_repeats(found), key=lambda each: (-each.score, each.rank))  # stable: the first index wins
    if all(is_rated(each.item) for each in best):
        return [each.item for each in best]
    columns = zip_longest(*(map(attrgetter("score"), items) for items in rows.values()), fillvalue=0.0)
    scores_by_rank = list(map(max, columns))
    lowest = min(scores_by_rank)
    tail = (min(lowest, each.item.score) for each in best[len(scores_by_rank) :])
    return [replace(each.item, score=score) for each, score in zip(best, chain(scores_by_rank, tail), strict=True)]


def is_rated(item: Evidence) -> bool:
    """Return whether a model has rated a point, which compares between indexes."""
    return isinstance(item.record, KeyPoint) and not item.record.verbatim


def evidence_text(item: Evidence) -> str:
    """Return the text that evidence is compared by."""
    return item.record.prompt_text


def _drop_repeats(found: Iterable[_Found]) -> list[_Found]:
    """Return the evidence without what an earlier index has, too.

    That of the first index takes the best place of all. What one index repeats stays.
    """
    by_content: dict[str, list[_Found]] = defaultdict(list)
    for each in found:
        by_content[evidence_text(each.item)].append(each)
    kept: list[_Found] = []
    for same in by_content.values():
        first = [each for each in same if each.item.index == same[0].item.index]
        place = min(same, key=lambda each: (-each.score, each.rank))
        kept += [replace(first[0], rank=place.rank, score=place.score), *first[1:]]
    return kept


def _last_positions(contexts: Iterable[Context]) -> dict[str, list[int]]:
    """Return the last position of the n-th row of each table.

    So a method that lists one table after the other keeps that order, and one that mixes them does, too.
    """
    last: dict[str, list[int]] = {}
    for context in contexts:
        own: dict[str, list[int]] = defaultdict(list)
        for position, item in enumerate(context):
            own[item.table].append(position)
        for table, positions in own.items():
            last[table] = [max(pair) for pair in zip_longest(last.get(table, ()), positions, fillvalue=0)]
    return last


def _comparable_scores(question: str, items: Sequence[Evidence], tokens: TokensByText) -> dict[str, float]:
    """Return how well each text matches the question, by its text."""
    if all(map(is_rated, items)):
        return {evidence_text(item): item.score for item in items}
    texts = list(dict.fromkeys(map(evidence_text, items)))
    return dict(zip(texts, match_texts(question, texts, tokens), strict=True))


def match_texts(question: str, texts: Sequence[str], tokens: TokensByText = MappingProxyType({})) -> list[float]:
    """Return how well each text matches the question, by words and meaning.

    These are the features of `braid` that need no search, with its weights. Words are rare or not among these texts.
    tokens: of texts whose tokens are known.
    """
    read = {**_read_tokens([text for text in texts if text not in tokens]), **tokens}
    rows = {str(n): read[text] for n, text in enumerate(texts)}
    features, _ = PlainMatcher(ParsedQuestion(question), rows).match(rows)
    weights = published_weights()["plain"]
    return [round(sum(weights[name] * value for name, value in each.items()), 6) for each in features.values()]


def _read_tokens(texts: Sequence[str]) -> dict[str, RowTokens]:
    """Return the tokens of texts, as the forward index has them."""
    import numpy as np

    return {
        text: RowTokens(
            np.array([hash_token(token) for token in tokenize(text)], dtype=np.uint32),
            np.frombuffer(subwords, dtype=np.uint16),
        )
        for text, subwords in zip(texts, find_subwords(texts), strict=True)
    }


def fit_to_order(scores: Sequence[float]) -> list[float]:
    """Return the nearest scores that never rise: isotonic regression.

    >>> fit_to_order([3.0, 1.0, 2.0, 0.5])
    [3.0, 1.5, 1.5, 0.5]
    """
    blocks: list[tuple[float, int]] = []  # mean, and number of scores
    for score in scores:
        mean, count = score, 1
        while blocks and blocks[-1][0] < mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    return [mean for mean, count in blocks for _ in range(count)]


def names_index(item: Evidence) -> bool:
    """Return whether evidence says which index it is from.

    A point may rest on rows of several.
    """
    points = isinstance(item.record, KeyPoint) and all(split_id(id)[0] for _, id in item.record.parents())
    return bool(item.index) or points


def drop_copies(context: Context, indexes: Sequence[str]) -> Context:
    """Return the evidence without copies of what an earlier index has.

    indexes: their names, the first one first.
    """
    found = [_Found(item, rank, 0.0) for rank, item in enumerate(context)]
    found.sort(key=lambda each: indexes.index(each.item.index) if each.item.index else -1)  # stable
    kept = sorted(_drop_repeats(found), key=attrgetter("rank"))
    return replace(context, evidence=tuple(each.item for each in kept)) if len(kept) < len(context) else context


def name_evidence(index: str, item: Evidence) -> Evidence:
    """Return the evidence with ids that name its index."""
    record, *others = (replace(record, id=id_in_index(index, record.id)) for record in (item.record, *item.duplicates))
    via = (id_in_index(index, item.via[0]), *item.via[1:]) if item.via else ()
    return replace(item, record=record, duplicates=tuple(others), via=via)
