"""communities -> those that make up one level: each entity in exactly one of them."""

from __future__ import annotations

from collections.abc import Iterable

from kumihimo.core.records import Community


def communities_at_level(communities: Iterable[Community], level: int) -> list[Community]:
    """The communities of that level, and the leaves above it, which stand for themselves further down.

    >>> top = Community(id="t", level=0, parent="", children=("a", "b"), members=())
    >>> parts = [Community(id=id, level=1, parent="t", children=(), members=(id * 2,)) for id in "ab"]
    >>> alone = Community(id="z", level=0, parent="", children=(), members=("zz",))
    >>> [[c.id for c in at_level([top, *parts, alone], level)] for level in (0, 1, 2)]
    [['t', 'z'], ['a', 'b', 'z'], ['a', 'b', 'z']]
    """
    return [c for c in communities if c.level == level or (c.level < level and not c.children)]


def deepest_level(communities: Iterable[Community]) -> int:
    """The last level on which anything is split; 0 where nothing is, or there is nothing."""
    return max((community.level for community in communities), default=0)
