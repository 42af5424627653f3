"""scored rows + groups of each -> rows within a budget, spread over the groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from math import prod
from typing import TYPE_CHECKING

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Member, Mention
from kumihimo.core.table import Table
from kumihimo.methods.shared.map_step import SOURCE_TOKENS

if TYPE_CHECKING:
    from kumihimo.search.protocols import StoredVectors

Groups = Mapping[Hashable, float]  # the groups of a row, each with what a row of it leaves of the value of the next
_DUPLICATE_COSINE = 0.98
_ROUNDS = 4  # in which the centres of clusters move


def spread_rows(
    rows: Iterable[Evidence],
    groups: Mapping[str, Groups],
    vectors: Mapping[str, StoredVectors],
    budget: int,
    tokenizer: Tokenizer,
) -> Context:
    """Return the most valuable rows within the budget.

    The value of a row is its score, less for each earlier row of its groups. A row whose vector is close to that of an
    earlier one is left out. groups, vectors: by id.
    """
    uses: Counter[Hashable] = Counter()
    picked: list[Evidence] = []

    def value(item: Evidence) -> float:
        return item.score * prod(share ** uses[group] for group, share in groups[item.record.id].items())

    heap = [(-value(item), item.record.id, item) for item in rows]
    heapify(heap)
    while heap and budget > SOURCE_TOKENS:
        worth, id, item = heappop(heap)
        if (now := -value(item)) > worth:  # a row of its group came first
            heappush(heap, (now, id, item))
            continue
        size = item.tokens(tokenizer) + SOURCE_TOKENS
        if size <= budget and not _is_repeated(id, picked, vectors):
            picked.append(Evidence(item.table, item.record, -worth))
            uses.update(groups[id].keys())
            budget -= size
    return Context(tuple(picked))


def _is_repeated(id: str, picked: Sequence[Evidence], vectors: Mapping[str, StoredVectors]) -> bool:
    """Return whether the vector of a row is close to these."""
    import numpy as np

    others = [vectors[item.record.id] for item in picked if item.record.id in vectors]
    if id not in vectors or not others:
        return False
    own, matrix = vectors[id].astype(np.float64), np.array(others, dtype=np.float64)
    norms = np.sqrt((own * own).sum() * (matrix * matrix).sum(axis=1))
    return bool(((matrix * own).sum(axis=1) >= _DUPLICATE_COSINE * norms).any())


def cluster_vectors(vectors: Mapping[str, StoredVectors], count: int) -> dict[str, tuple[int, float]]:
    """Return the cluster of each row, and its cosine to the centre.

    The first centres are far from each other, then they move to the mean of their rows.
    """
    import numpy as np

    ids = sorted(vectors)
    if not ids:
        return {}
    rows = np.array([vectors[id] for id in ids], dtype=np.float64)
    rows /= np.maximum(np.sqrt((rows * rows).sum(axis=1, keepdims=True)), 1e-9)
    centres = rows.mean(axis=0, keepdims=True)
    while len(centres) < min(count, len(ids)):
        centres = np.vstack([centres, rows[np.argmin((rows @ centres.T).max(axis=1).round(6))]])
    for _ in range(_ROUNDS):
        nearest = (rows @ centres.T).round(6).argmax(axis=1)
        means = [
            rows[nearest == n].mean(axis=0) if (nearest == n).any() else centre for n, centre in enumerate(centres)
        ]
        centres = np.array([mean / max(float(np.sqrt((mean * mean).sum())), 1e-9) for mean in means])
    cosines = (rows @ centres.T).round(6)
    return {id: (int(row.argmax()), float(row.max())) for id, row in zip(ids, cosines, strict=True)}


def sample_rows(ids: Iterable[str], count: int) -> list[str]:
    """Return ids of chunks, spread evenly over the documents.

    The first chunk of each document comes before others, which come in the order of a digest. So do the documents.
    """
    by_document: dict[str, list[str]] = {}
    for id in ids:
        by_document.setdefault(id.partition(".")[0], []).append(id)
    ranked = [
        (turn, hash_parts(id), id)
        for first, *others in map(sorted, by_document.values())
        for turn, id in enumerate([first, *sorted(others, key=hash_parts)])
    ]
    return [id for *_, id in sorted(ranked)[:count]]


def equal_parts(values: Mapping[str, str], count: int) -> dict[str, int]:
    """Return the part of each key: equal parts by value.

    >>> equal_parts({"a": "2019", "b": "2021-04", "c": "2020", "d": ""}, 3)
    {'a': 0, 'c': 1, 'b': 2}
    """
    ordered = sorted((value, key) for key, value in values.items() if value)
    return {key: place * count // len(ordered) for place, (_, key) in enumerate(ordered)}


def split_evenly(rows: Sequence[Evidence], count: int, tokenizer: Tokenizer) -> list[list[Evidence]]:
    """Return the rows in batches of about the same size, in order."""
    sizes = [item.tokens(tokenizer) for item in rows]
    total, before = sum(sizes) or 1, 0
    batches: list[list[Evidence]] = [[] for _ in range(count)]
    for item, size in zip(rows, sizes, strict=True):
        batches[min((before + size // 2) * count // total, count - 1)].append(item)
        before += size
    return [batch for batch in batches if batch]


def assign_communities(
    ids: Sequence[str], mentions: Table[Mention], members: Table[Member], communities: Table[Community]
) -> dict[str, str]:
    """Return the level-0 community of each chunk, by majority of mentions.

    The first id wins a tie.
    """
    entities_by_chunk = mentions.child_values(ids, "entity")
    entities = sorted({entity for entity_ids in entities_by_chunk.values() for entity in entity_ids})
    leaves = members.ids_grouped("entity", entities).items()
    leaf_of = {entity: member_ids[0].rpartition(".")[0] for entity, member_ids in leaves if member_ids}
    top_of = _find_top_communities(leaf_of.values(), communities)
    part_of = {entity: top_of[leaf] for entity, leaf in leaf_of.items() if leaf in top_of}
    counts = {id: Counter(part_of[e] for e in ids if e in part_of) for id, ids in entities_by_chunk.items()}
    return {id: min(count, key=lambda part: (-count[part], part)) for id, count in counts.items() if count}


def _find_top_communities(leaves: Iterable[str], communities: Table[Community]) -> Mapping[str, str]:
    """Return the level-0 ancestor of each community."""
    rows = communities.get_many(sorted(set(leaves)))
    top_of = {id: community.parent or id for id, community in rows.items()}
    while rows := communities.get_many(sorted({row.parent for row in rows.values() if row.parent})):
        parents = {id: community.parent for id, community in rows.items() if community.parent}
        top_of = {id: parents.get(top, top) for id, top in top_of.items()}
    return top_of
