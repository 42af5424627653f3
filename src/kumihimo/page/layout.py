"""community tree -> circles, nested, with the largest in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from kumihimo.app.community_tree import CommunityTree
from kumihimo.core.records import Reference

_MARGIN = 1.2  # between two members, in the same unit as radii
_ITERATIONS = 60  # for the smallest enclosing circle


@dataclass(frozen=True, slots=True)
class Circle:
    """A circle in the drawing."""

    centre: complex
    radius: float


_Circles = dict[Reference, Circle]


@dataclass(frozen=True, slots=True)
class GraphLayout:
    """The circles of entities and communities, around 0.

    radius: of the whole drawing.
    """

    entities: Mapping[str, Circle]
    communities: Mapping[str, Circle]
    radius: float


def layout_graph(tree: CommunityTree, degree: Mapping[str, int]) -> GraphLayout:
    """Return nested circles for a tree, deterministic and without physics.

    degree: the number of relations of each entity. Circle packing as in Wang et al., 2006, doi:10.1145/1124772.1124851.
    """
    circles: _Circles = {("entities", id): Circle(0j, 2 + min(sqrt(degree[id]), 14.0)) for id in degree}
    contents = {id: _contents(tree, degree, id) for id in tree.level}
    for id in sorted(tree.level, key=lambda id: -tree.level[id]):  # relative to its own centre
        circles["communities", id] = Circle(0j, _arrange(circles, contents[id]))
    outermost: list[Reference] = [("communities", id) for id in tree.roots()]
    radius = _arrange(circles, [*outermost, *(("entities", id) for id in degree if id not in tree.leaf_by_entity)])
    for id in sorted(tree.level, key=lambda id: tree.level[id]):  # absolute
        for item in contents[id]:
            circles[item] = Circle(circles[item].centre + circles["communities", id].centre, circles[item].radius)
    entities = {id: circles["entities", id] for id in degree}
    return GraphLayout(entities, {id: circles["communities", id] for id in tree.level}, radius)


def _contents(tree: CommunityTree, degree: Mapping[str, int], id: str) -> list[Reference]:
    return [
        *(("communities", child) for child in tree.children[id]),
        *(("entities", member) for member in tree.members[id] if member in degree),
    ]


def _arrange(circles: _Circles, items: Iterable[Reference]) -> float:
    """Pack these circles around 0; return the radius around them.

    The largest are in the middle. The radius includes a margin.
    """
    ordered = sorted(items, key=lambda id: (-circles[id].radius, id))
    gaps = [circles[id].radius * 1.03 + _MARGIN for id in ordered]
    places = pack_circles(gaps)
    offset, radius = enclosing_circle(places, gaps)
    for id, centre in zip(ordered, places, strict=True):
        circles[id] = Circle(centre - offset, circles[id].radius)
    return radius + _MARGIN


def pack_circles(radii: Sequence[float]) -> list[complex]:
    """Return centres of touching circles without overlap, first ones in the middle.

    Each circle is placed where the front, the ring of outermost circles, is nearest to the middle. Circles behind it
    leave the front.

    >>> pack_circles([2.0, 1.0])
    [(-1+0j), (2+0j)]
    """
    if len(radii) < 2:
        return [0j] * len(radii)
    centres = [complex(-radii[1]), complex(radii[0])]
    front = [0, 1]
    for radius in radii[2:]:
        front = _rotate_to_nearest(front, centres, radii)
        centre, blocker = _try_place(front, centres, radii, radius)
        while blocker:
            front = [front[0], *front[blocker:]] if blocker > 0 else [front[blocker], *front[1:blocker]]
            centre, blocker = _try_place(front, centres, radii, radius)
        front.insert(1, len(centres))
        centres.append(centre)
    return centres


def _rotate_to_nearest(front: list[int], centres: Sequence[complex], radii: Sequence[float]) -> list[int]:
    """Rotate the front to start with its innermost pair."""
    best, smallest, a = 0, float("inf"), front[-1]
    for i, b in enumerate(front):
        distance = abs(centres[a] * radii[b] + centres[b] * radii[a]) / (radii[a] + radii[b])
        if distance < smallest:
            best, smallest = i, distance
        a = b
    return front[best - 1 :] + front[: best - 1] if best else [front[-1], *front[:-1]]


def _try_place(
    front: list[int], centres: Sequence[complex], radii: Sequence[float], radius: float
) -> tuple[complex, int]:
    """Return the centre of a circle on the front's first pair.

    Also return the index of a circle in the way: from 2 on forwards, from -1 on backwards; 0 for none.
    """
    a, b = front[0], front[1]
    direction = centres[b] - centres[a]
    distance = abs(direction)
    first_distance, second_distance = radii[a] + radius, radii[b] + radius
    along = (distance * distance + first_distance * first_distance - second_distance * second_distance) / (2 * distance)
    centre = centres[a] + direction / distance * complex(
        along, -sqrt(max(first_distance * first_distance - along * along, 0.0))
    )
    tolerance = radius - 1e-6
    hits = [i for i, c in enumerate(front) if i > 1 and abs(centres[c] - centre) < radii[c] + tolerance]
    if not hits:
        return centre, 0
    forwards, backwards = hits[0], len(front) - hits[-1]
    return centre, forwards if forwards - 1 <= backwards else -backwards


def enclosing_circle(centres: Sequence[complex], radii: Sequence[float]) -> tuple[complex, float]:
    """Return a circle around all circles, close to the smallest.

    It is larger by a few percent at most (Bădoiu and Clarkson, 2003).

    >>> enclosing_circle([-3 + 0j, 3 + 0j], [1.0, 1.0])
    (0j, 4.0)
    """
    if not centres:
        return 0j, 1.0
    circles = list(zip(centres, radii, strict=True))
    left, right = min(z.real - r for z, r in circles), max(z.real + r for z, r in circles)
    low, high = min(z.imag - r for z, r in circles), max(z.imag + r for z, r in circles)
    centre = best = complex((left + right) / 2, (low + high) / 2)
    smallest = max(abs(z - best) + r for z, r in circles)
    for step in range(2, _ITERATIONS if len(circles) > 2 else 2):
        reach, farthest, radius = _farthest(circles, centre)
        if reach < smallest:
            best, smallest = centre, reach
        if farthest != centre:
            beyond = farthest + (farthest - centre) / abs(farthest - centre) * radius
            centre += (beyond - centre) / step / 2
    return best, smallest


def _farthest(circles: Sequence[tuple[complex, float]], centre: complex) -> tuple[float, complex, float]:
    distance, farthest, radius = -1.0, 0j, 0.0
    for z, r in circles:
        if (reach := abs(z - centre) + r) > distance:
            distance, farthest, radius = reach, z, r
    return distance, farthest, radius
