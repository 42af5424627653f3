"""numbers of systems -> the geometry of pictures: quality against cost, curves of thresholds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import ClassVar

from kumihimo.evaluate.report.summary_data import StudyResults

_LETTER_WIDTH = 7.0
MARKER_SHAPES = (  # corners around the middle, by the number of a system; "" is a circle
    "",
    "-4.5 -4.5L4.5 -4.5L4.5 4.5L-4.5 4.5",
    "0 -5.4L5 4L-5 4",
    "0 -5.8L5.8 0L0 5.8L-5.8 0",
    "0 5.4L5 -4L-5 -4",
    "-5.4 -1.8L-1.8 -1.8L-1.8 -5.4L1.8 -5.4L1.8 -1.8L5.4 -1.8L5.4 1.8L1.8 1.8L1.8 5.4L-1.8 5.4L-1.8 1.8L-5.4 1.8",
)

Point = tuple[float, float]
Position = Callable[[float], float]  # a value on an axis -> its place in the picture


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture of systems in a plane, in pixels from its top left corner.

    ticks: places and labels. lines: a class and the points of each. markers: the number of a system and its place.
    labels: names and places.
    """

    title: str
    x_name: str
    y_name: str
    x_ticks: list[tuple[float, str]]
    y_ticks: list[tuple[float, str]]
    lines: list[tuple[str, list[Point]]] = field(default_factory=list)
    markers: list[tuple[int, Point]] = field(default_factory=list)
    labels: list[tuple[str, Point]] = field(default_factory=list)
    width: ClassVar[float] = 540
    height: ClassVar[float] = 320
    start: ClassVar[float] = 52
    end: ClassVar[float] = 428
    top: ClassVar[float] = 14
    bottom: ClassVar[float] = 276


def _axis(low: float, high: float, start: float, end: float) -> Position:
    """Return the place of each value on an axis."""
    return lambda value: round(start + (value - low) / ((high - low) or 1) * (end - start), 1)


def _vertical_axis(values: Sequence[float], pad: float) -> tuple[Position, list[tuple[float, str]]]:
    """Return the vertical axis of these values, and its ticks."""
    low, high = min(values) - pad, max(values) + pad
    y = _axis(low, high, Chart.bottom, Chart.top)
    return y, [(y(tick), f"{tick:g}") for tick in axis_ticks(low, high)]


def axis_ticks(low: float, high: float, limit: int = 6) -> list[float]:
    """Return round numbers between two values.

    >>> axis_ticks(31, 72)
    [40.0, 50.0, 60.0, 70.0]
    """
    unit = 10 ** floor(log10(max(high - low, 1e-9)))
    step = next(unit * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if (high - low) / (unit * factor) <= limit)
    first = int(-(-low // step))
    return [round(i * step, 10) for i in range(first, int(high // step) + 1)]


def short_number(value: float) -> str:
    """Return a number with k or M for thousands and millions.

    >>> short_number(20_000), short_number(0.05), short_number(3_000_000)
    ('20 k', '0.05', '3 M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


# -- quality against cost


def cost_charts(study: StudyResults) -> tuple[list[Chart], list[Chart]]:
    """Return quality against tokens, and against the other costs."""
    answered = [row for row in study.costs if row.answered]
    others = {
        "calls": {row.system: row.calls for row in answered},
        "cost": {row.system: row.cost for row in answered},
        "seconds, median": {row.system: row.median_seconds or 0.0 for row in answered},
    }
    qualities = list(_qualities(study))
    by_tokens = (_cost_chart(study, "tokens", study.tokens, quality) for quality in qualities)
    by_others = (_cost_chart(study, name, costs, qualities[0]) for name, costs in others.items() if qualities)
    return list(filter(None, by_tokens)), list(filter(None, by_others))


def _qualities(study: StudyResults) -> Iterator[tuple[str, dict[str, float], float | None]]:
    """Yield quality measures with their values and the value of equal systems."""
    if study.deciding_criterion and study.deciding_criterion.ranking:
        means = {entry.system: entry.mean for entry in study.deciding_criterion.ranking}
        yield "points against the others", means, 50.0
    measures = [measure for measure in (study.leading_measure, *study.measures_in("claims")[:1]) if measure]
    for measure in {measure.name: measure for measure in measures}.values():
        yield measure.name, {system: measure.mean(system) or 0.0 for system in measure.order}, None


def _cost_chart(
    study: StudyResults, x_name: str, costs: Mapping[str, float], quality: tuple[str, dict[str, float], float | None]
) -> Chart | None:
    """Return quality against one kind of cost, with the Pareto frontier.

    quality: its name, the values, and the value of equal systems, which is drawn as a line.
    """
    y_name, qualities, even = quality
    points = {
        system: (log10(max(costs[system], 1e-9)), qualities[system])
        for system in study.systems
        if system in qualities and costs.get(system, 0) > 0
    }
    if not points:
        return None
    xs, ys = zip(*points.values(), strict=True)
    x_min, x_max = floor(min(xs) * 4 - 0.5) / 4, max(xs) + 0.12 * max(max(xs) - min(xs), 1)
    pad = 0.12 * max(max(ys) - min(ys), 1e-9 + abs(max(ys)) * 0.05)
    y, y_ticks = _vertical_axis(ys if even is None else (*ys, even), pad)
    x = _axis(x_min, x_max, Chart.start, Chart.end)
    places = {system: (x(place[0]), y(place[1])) for system, place in points.items()}
    frontier = [places[system] for system in pareto_frontier(points)]
    lines = [("frontier", frontier)] if len(frontier) > 1 else []
    if even is not None:
        lines.append(("even", [(Chart.start, y(even)), (Chart.end, y(even))]))
    return Chart(
        f"{study.name}: {y_name} against {x_name} per question",
        f"{x_name} per question",
        y_name,
        [(x(log10(value)), short_number(value)) for value in _decade_ticks(x_min, x_max)],
        y_ticks,
        lines,
        [(study.systems.index(system), place) for system, place in places.items()],
        list(_point_labels(places)),
    )


def _decade_ticks(low: float, high: float) -> list[float]:
    """Return round numbers between two powers of ten."""
    digits = (1, 2, 5) if high - low < 2.5 else (1,)
    values = [digit * 10.0**power for power in range(floor(low), floor(high) + 1) for digit in digits]
    return [value for value in values if low <= log10(value) <= high]


def pareto_frontier(placed: Mapping[str, Point]) -> list[str]:
    """Return the points that no other point dominates, cheapest first.

    >>> pareto_frontier({"a": (1, 5), "b": (2, 4), "c": (3, 9)})
    ['a', 'c']
    """
    names: list[str] = []
    for name in sorted(placed, key=lambda name: (placed[name][0], -placed[name][1], name)):
        if not names or placed[name][1] > placed[names[-1]][1]:
            names.append(name)
    return names


def _point_labels(places: Mapping[str, Point]) -> Iterator[tuple[str, Point]]:
    """Yield names to the right of their points, without overlaps."""
    boxes: list[tuple[float, float, float]] = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        width, baseline = _LETTER_WIDTH * len(name), y + 4
        while any(x < end and x + width > start and abs(baseline - other) < 13 for start, end, other in boxes):
            baseline += 4
        boxes.append((x, x + width, baseline))
        yield name, (x + 10, baseline)


# -- curves


def cluster_chart(study: StudyResults) -> Chart | None:
    """Return the clusters of claims by distance, a curve for each system."""
    measures = [measure for measure in study.measures_in("claims") if measure.name.startswith("clusters@")]
    curves = {
        system: [(float(measure.name.partition("@")[2]), measure.mean(system) or 0.0) for measure in measures]
        for system in study.systems
        if measures and system in measures[0].order
    }
    if not curves:
        return None
    xs, ys = zip(*(point for points in curves.values() for point in points), strict=True)
    y, y_ticks = _vertical_axis(ys, 0.08 * max(max(ys) - min(ys), 0.1))
    x = _axis(min(xs), max(xs), Chart.start, Chart.end)
    places = {system: [(x(distance), y(mean)) for distance, mean in points] for system, points in curves.items()}
    return Chart(
        f"Clusters of claims by distance: {study.name}",
        "distance at which clusters merge",
        "clusters",
        [(x(value), f"{value:g}") for value in dict.fromkeys(xs)],
        y_ticks,
        [(f"curve s{study.systems.index(system) % 8}", points) for system, points in places.items()],
        [(study.systems.index(system), place) for system, points in places.items() for place in points],
        _end_labels({system: points[-1] for system, points in places.items()}),
    )


def _end_labels(places: Mapping[str, Point]) -> list[tuple[str, Point]]:
    """Return names at line ends, top to bottom, one line apart."""
    order = sorted(places, key=lambda name: places[name][1])
    heights: list[float] = []
    for name in order:
        heights.append(max(places[name][1] + 4, heights[-1] + 13 if heights else 0))
    offset = sum(y - places[name][1] - 4 for name, y in zip(order, heights, strict=True)) / len(order)
    shift = max(offset, heights[-1] - Chart.bottom)
    return [(name, (places[name][0] + 10, round(y - shift, 1))) for name, y in zip(order, heights, strict=True)]
