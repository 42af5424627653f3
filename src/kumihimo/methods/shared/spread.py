"""scored rows + groups of each -> rows within a budget, spread over the groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Community, Member, Mention
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Vectors
from kumihimo.methods.shared.map_step import SOURCE_TOKENS
from kumihimo.search.protocols import StoredVectors, unit_vectors
from kumihimo.text import lazy_numpy as np

Groups = Mapping[Hashable, float]  # the groups of a row, each with what a row of it leaves of the value of the next
_DUPLICATE_COSINE, _OTHER_COSINE = 0.95, 0.5  # from which a row says nothing new, and all of it is new
_COMMON_SHARE = 0.9  # of the mean: some models give all texts much in common; identical rows stay identical
_MIN_VALUE = 1e-6
_ROUNDS = 4  # in which the centres of clusters move


def spread_rows(
    rows: Iterable[Evidence],
    groups: Mapping[str, Groups],
    vectors: Mapping[str, StoredVectors],
    budget: int,
    tokenizer: Tokenizer,
) -> Context:
    """Return the most valuable rows within the budget.

    The value of a row is its score, less for each earlier row of its groups, and less the closer its vector is to that
    of an earlier row. groups, vectors: by id.
    """
    items = sorted(rows, key=lambda item: item.record.id)
    sizes = [item.tokens(tokenizer) + SOURCE_TOKENS for item in items]
    values = np.array([item.score for item in items], dtype=np.float64)
    matrix = _unit_rows([vectors.get(item.record.id) for item in items])
    members: dict[Hashable, list[int]] = {}
    for n, item in enumerate(items):
        for group in groups[item.record.id]:
            members.setdefault(group, []).append(n)
    nearest, picked = np.zeros(len(items)), list[Evidence]()
    while len(items):
        new = np.clip((_DUPLICATE_COSINE - nearest) / (_DUPLICATE_COSINE - _OTHER_COSINE), 0, 1)
        n = int((values * new).round(9).argmax())
        worth, item = float(values[n] * new[n]), items[n]
        if worth < _MIN_VALUE:
            break
        values[n] = 0.0
        if sizes[n] > budget:
            continue
        picked.append(Evidence(item.table, item.record, worth))
        budget -= sizes[n]
        for group, share in groups[item.record.id].items():
            values[members[group]] *= share
        nearest = np.maximum(nearest, (matrix * matrix[n]).sum(axis=1))
    return Context(tuple(picked))


def _unit_rows(vectors: Sequence[StoredVectors | None]) -> Vectors:
    """Return the vectors with length 1, less what all have in common.

    Zeros for a missing one.
    """
    length = next((len(vector) for vector in vectors if vector is not None), 1)
    rows = np.array([np.zeros(length) if vector is None else unit_vectors(vector) for vector in vectors])
    rows = rows.reshape(len(vectors), length)
    rows -= _COMMON_SHARE * rows.mean(axis=0) if len(rows) else 0.0
    return np.asarray(rows / np.maximum(np.sqrt((rows * rows).sum(axis=1, keepdims=True)), 1e-9))


def cluster_vectors(vectors: Mapping[str, StoredVectors], count: int) -> dict[str, tuple[int, float]]:
    """Return the cluster of each row, and its cosine to the centre.

    The first centres are far from each other, then they move to the mean of their rows.
    """
    ids = sorted(vectors)
    if not ids:
        return {}
    rows = _unit_rows([vectors[id] for id in ids])
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
