"""communities -> the communities of one level, which cover each entity once."""

from __future__ import annotations

from collections.abc import Iterable

from kumihimo.core.records import Community


def communities_at_level(communities: Iterable[Community], level: int) -> list[Community]:
    """Return the communities of a level, with leaves of higher levels.

    Leaf communities repeat on deeper levels, so every level covers all entities.

    >>> top = Community(id="t", level=0, parent="", children=("a", "b"), members=())
    >>> parts = [Community(id=id, level=1, parent="t", children=(), members=(id * 2,)) for id in "ab"]
    >>> alone = Community(id="z", level=0, parent="", children=(), members=("zz",))
    >>> [[c.id for c in communities_at_level([top, *parts, alone], level)] for level in (0, 1, 2)]
    [['t', 'z'], ['a', 'b', 'z'], ['a', 'b', 'z']]
    """
    return [c for c in communities if c.level == level or (c.level < level and not c.children)]


def deepest_level(communities: Iterable[Community]) -> int:
    """Return the deepest level; 0 without a split or without communities."""
    return max((community.level for community in communities), default=0)
