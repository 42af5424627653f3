"""a passage -> the passages that hang on it, by discourse relations of senses that are needed, or others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from kumihimo.core.records import DiscourseRelation, Passage
from kumihimo.core.table import Table
from kumihimo.index.pdtb_senses import parent_sense_labels, sense_subtree_labels
from kumihimo.index.pdtb_senses import sense_labels as every

Fallback = Literal["none", "parent", "any", "neighbours"]
_FALLBACK_ORDER: tuple[Fallback, ...] = (
    "none",
    "parent",
    "any",
    "neighbours",
)  # each does what those before it do, first


def expand_by_discourse(
    passage: Passage,
    wanted: Sequence[str],
    links: Table[DiscourseRelation],
    passages: Table[Passage],
    *,
    fallback: Fallback = "none",
    min_confidence: float = 0.0,
) -> list[Passage]:
    """The passages that a sense which is wanted, or a kind of one, ties to this one, either way, in the order of ids.

    (江上・福田, Listing 1.) fallback: where there are none, the senses that those are kinds of, then any sense, then
    the passages before and after it. least: links of which somebody was less sure do not count.
    """
    tied = [
        link
        for link in _adjacent_relations(passage, links)
        if link.confidence is None or link.confidence >= min_confidence
    ]
    for kinds in _widen_senses(wanted, fallback):
        ids = {link.second if link.first == passage.id else link.first for link in tied if link.text in kinds}
        if found := list(passages.get_many(sorted(ids - {passage.id})).values()):
            return found
    if fallback == "neighbours":
        return list(passages.get_many(_adjacent_ids(passage, passages)).values())
    return []


def _adjacent_relations(passage: Passage, links: Table[DiscourseRelation]) -> list[DiscourseRelation]:
    return [*links.where(first=passage.id), *links.where(second=passage.id)]


def _widen_senses(wanted: Sequence[str], fallback: Fallback) -> Iterator[frozenset[str]]:
    """The senses that may tie, first those that are wanted, then wider and wider."""
    far = _FALLBACK_ORDER.index(fallback)
    labels = tuple(dict.fromkeys(wanted))
    yield _descendant_senses(labels)
    while far >= _FALLBACK_ORDER.index("parent") and (labels := _parent_senses(labels)):
        yield _descendant_senses(labels)
    if far >= _FALLBACK_ORDER.index("any"):
        yield frozenset(every())


def _parent_senses(labels: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(parent for label in labels for parent in parent_sense_labels(label)))


def _descendant_senses(labels: Iterable[str]) -> frozenset[str]:
    return frozenset[str]().union(*map(sense_subtree_labels, labels))


def _adjacent_ids(passage: Passage, passages: Table[Passage]) -> list[str]:
    """The ids of the passages before and after it in the document, also where these stand in another chunk."""
    document, _, ordinal = passage.chunk.rpartition(".")
    ids = passages.ids(chunk=passage.chunk)
    at = ids.index(passage.id) if passage.id in ids else 0
    before = ids[at - 1 : at] if at else passages.ids(chunk=f"{document}.{int(ordinal) - 1:05}")[-1:]
    after = ids[at + 1 : at + 2] or passages.ids(chunk=f"{document}.{int(ordinal) + 1:05}")[:1]
    return [*before, *after]
