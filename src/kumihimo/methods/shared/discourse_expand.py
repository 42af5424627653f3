"""passage -> passages linked to it by discourse relations of the needed senses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from kumihimo.core.records import DiscourseRelation, Passage
from kumihimo.core.table import Table
from kumihimo.index.pdtb_senses import parent_sense_labels, sense_labels, sense_subtree_labels

Fallback = Literal["none", "parent", "any", "neighbours"]
_FALLBACK_ORDER: tuple[Fallback, ...] = ("none", "parent", "any", "neighbours")  # each one includes the earlier ones


def expand_by_discourse(
    passage: Passage,
    senses: Sequence[str],
    links: Table[DiscourseRelation],
    passages: Table[Passage],
    *,
    fallback: Fallback = "none",
    min_confidence: float = 0.0,
) -> list[Passage]:
    """Return passages linked to this one by a needed sense.

    Narrower senses count too, links count in both directions, and the order is by id (江上・福田, Listing 1).
    fallback: if there are none, use parent senses, then any sense, then the adjacent passages. min_confidence: ignore
    links below it.
    """
    relations = [
        link
        for link in _adjacent_relations(passage, links)
        if link.confidence is None or link.confidence >= min_confidence
    ]
    for allowed in _widen_senses(senses, fallback):
        ids = {link.second if link.first == passage.id else link.first for link in relations if link.text in allowed}
        if linked := list(passages.get_many(sorted(ids - {passage.id})).values()):
            return linked
    if fallback == "neighbours":
        return list(passages.get_many(_adjacent_ids(passage, passages)).values())
    return []


def _adjacent_relations(passage: Passage, links: Table[DiscourseRelation]) -> list[DiscourseRelation]:
    return [*links.where(first=passage.id), *links.where(second=passage.id)]


def _widen_senses(senses: Sequence[str], fallback: Fallback) -> Iterator[frozenset[str]]:
    """Yield sets of allowed senses, from narrow to wide."""
    position = _FALLBACK_ORDER.index(fallback)
    current = tuple(dict.fromkeys(senses))
    yield _descendant_senses(current)
    while position >= _FALLBACK_ORDER.index("parent") and (current := _parent_senses(current)):
        yield _descendant_senses(current)
    if position >= _FALLBACK_ORDER.index("any"):
        yield frozenset(sense_labels())


def _parent_senses(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parent for label in labels for parent in parent_sense_labels(label)))


def _descendant_senses(labels: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(sense_subtree_labels, labels))


def _adjacent_ids(passage: Passage, passages: Table[Passage]) -> list[str]:
    """Return the ids of the previous and next passage in the document.

    They may belong to the adjacent chunks.
    """
    document, _, ordinal = passage.chunk.rpartition(".")
    ids = passages.ids(chunk=passage.chunk)
    index = ids.index(passage.id) if passage.id in ids else 0
    previous = ids[index - 1 : index] if index else passages.ids(chunk=f"{document}.{int(ordinal) - 1:05}")[-1:]
    following = ids[index + 1 : index + 2] or passages.ids(chunk=f"{document}.{int(ordinal) + 1:05}")[:1]
    return [*previous, *following]
