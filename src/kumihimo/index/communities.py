"""entities and relations -> communities: entities that hang together, level by level; each its leaf."""

from __future__ import annotations

from collections.abc import Iterable

from kumihimo.core.records import Community, Entity, Member, Relation
from kumihimo.core.table import Table


def communities(
    entities: Table[Entity],
    relations: Table[Relation],
    previous: Table[Community],
    *,
    max_size: int = 10,
    seed: int = 0,
) -> Iterable[Community]:
    """Hierarchical Leiden (GraphRAG, arXiv:2404.16130, section 3.1.4); entities that have a community keep it."""
    raise NotImplementedError


def members(community: Community) -> Iterable[Member]:
    """The entities of a leaf."""
    return [Member(entity=entity) for entity in community.members]
