"""the tree of communities -> a circle for each, with its parts or its members inside, the weightiest in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from kumihimo.app.community_tree import CommunityTree
from kumihimo.core.records import Reference

_MARGIN = 1.2  # between two members, in the unit of their radii
_ITERATIONS = 60  # towards the middle of the smallest circle around some


@dataclass(frozen=True, slots=True)
class Circle:
    """Where something is drawn."""

    centre: complex
    radius: float


_Circles = dict[Reference, Circle]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """Where each entity and each community is drawn, around 0; the radius holds them all."""

    entities: Mapping[str, Circle]
    communities: Mapping[str, Circle]
    radius: float


def layout_graph(tree: CommunityTree, degree: Mapping[str, int]) -> GraphLayout:
    """The same circles for the same tree and degrees (entity -> how many relations it has); none is moved by physics.

    Circles in circles (Wang et al., 2006, doi:10.1145/1124772.1124851).
    """
    around: _Circles = {("entities", id): Circle(0j, 2 + min(sqrt(degree[id]), 14.0)) for id in degree}
    inside = {id: _contents(tree, degree, id) for id in tree.level}
    for id in sorted(tree.level, key=lambda id: -tree.level[id]):  # each from its own middle
        around["communities", id] = Circle(0j, _arrange(around, inside[id]))
    outermost: list[Reference] = [("communities", id) for id in tree.roots()]
    radius = _arrange(around, [*outermost, *(("entities", id) for id in degree if id not in tree.leaf_by_entity)])
    for id in sorted(tree.level, key=lambda id: tree.level[id]):  # all from one
        for inner in inside[id]:
            around[inner] = Circle(around[inner].centre + around["communities", id].centre, around[inner].radius)
    entities = {id: around["entities", id] for id in degree}
    return GraphLayout(entities, {id: around["communities", id] for id in tree.level}, radius)


def _contents(tree: CommunityTree, degree: Mapping[str, int], id: str) -> list[Reference]:
    return [
        *(("communities", child) for child in tree.children[id]),
        *(("entities", member) for member in tree.members[id] if member in degree),
    ]


def _arrange(around: _Circles, inside: Iterable[Reference]) -> float:
    """Place these around 0, the largest in the middle; gives the radius that holds them and a margin."""
    ordered = sorted(inside, key=lambda id: (-around[id].radius, id))
    gaps = [around[id].radius * 1.03 + _MARGIN for id in ordered]
    places = pack_circles(gaps)
    middle, radius = enclosing_circle(places, gaps)
    for id, at in zip(ordered, places, strict=True):
        around[id] = Circle(at - middle, around[id].radius)
    return radius + _MARGIN


def pack_circles(radii: Sequence[float]) -> list[complex]:
    """Middles of circles of these radii that touch and do not overlap, the first ones in the middle.

    Each is put where the front, the circles that are outermost, is nearest to the middle; what is then behind it
    leaves the front.

    >>> packed([2.0, 1.0])
    [(-1+0j), (2+0j)]
    """
    if len(radii) < 2:
        return [0j] * len(radii)
    at = [complex(-radii[1]), complex(radii[0])]
    front = [0, 1]
    for radius in radii[2:]:
        front = _rotate_to_nearest(front, at, radii)
        place, hit = _try_place(front, at, radii, radius)
        while hit:
            front = [front[0], *front[hit:]] if hit > 0 else [front[hit], *front[1:hit]]
            place, hit = _try_place(front, at, radii, radius)
        front.insert(1, len(at))
        at.append(place)
    return at


def _rotate_to_nearest(front: list[int], at: Sequence[complex], radii: Sequence[float]) -> list[int]:
    """The front, beginning with the two whose touching point is nearest to the middle."""
    best, least, a = 0, float("inf"), front[-1]
    for i, b in enumerate(front):
        far = abs(at[a] * radii[b] + at[b] * radii[a]) / (radii[a] + radii[b])
        if far < least:
            best, least = i, far
        a = b
    return front[best - 1 :] + front[: best - 1] if best else [front[-1], *front[:-1]]


def _try_place(front: list[int], at: Sequence[complex], radii: Sequence[float], radius: float) -> tuple[complex, int]:
    """Where a circle touches the first two of the front; and which of the others is in the way.

    That is an index: from 2 on forwards, from -1 on backwards; 0 where none is.
    """
    a, b = front[0], front[1]
    to = at[b] - at[a]
    apart = abs(to)
    far, other = radii[a] + radius, radii[b] + radius
    along = (apart * apart + far * far - other * other) / (2 * apart)
    place = at[a] + to / apart * complex(along, -sqrt(max(far * far - along * along, 0.0)))
    least = radius - 1e-6
    hits = [i for i, c in enumerate(front) if i > 1 and abs(at[c] - place) < radii[c] + least]
    if not hits:
        return place, 0
    forwards, backwards = hits[0], len(front) - hits[-1]
    return place, forwards if forwards - 1 <= backwards else -backwards


def enclosing_circle(places: Sequence[complex], radii: Sequence[float]) -> tuple[complex, float]:
    """A circle around all of these, the smallest but for a few parts in a hundred (Bădoiu and Clarkson, 2003).

    >>> enclosed([-3 + 0j, 3 + 0j], [1.0, 1.0])
    (0j, 4.0)
    """
    if not places:
        return 0j, 1.0
    circles = list(zip(places, radii, strict=True))
    left, right = min(z.real - r for z, r in circles), max(z.real + r for z, r in circles)
    low, high = min(z.imag - r for z, r in circles), max(z.imag + r for z, r in circles)
    middle = best = complex((left + right) / 2, (low + high) / 2)
    least = max(abs(z - best) + r for z, r in circles)
    for step in range(2, _ITERATIONS if len(circles) > 2 else 2):
        reach, place, radius = _farthest(circles, middle)
        if reach < least:
            best, least = middle, reach
        if place != middle:
            beyond = place + (place - middle) / abs(place - middle) * radius
            middle += (beyond - middle) / step / 2
    return best, least


def _farthest(circles: Sequence[tuple[complex, float]], middle: complex) -> tuple[float, complex, float]:
    far, place, radius = -1.0, 0j, 0.0
    for z, r in circles:
        if (reach := abs(z - middle) + r) > far:
            far, place, radius = reach, z, r
    return far, place, radius
