"""numbers of systems -> pictures as SVG: quality against cost, curves over thresholds, ranks with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10

from kumihimo.evaluate.report.markup import Html, format_figure, join_html, tag

_WIDTH, _HEIGHT = 540.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 112.0, 14.0, 44.0
_LETTER_WIDTH = 7.0
_SHAPES = ("circle", "square", "up", "diamond", "down", "cross")

Point = tuple[float, float]
Projection = Callable[[float, float], Point]  # a value -> its place in the picture


def draw_marker(at: int, x: float, y: float) -> Html:
    """Systems differ by colour and by shape."""
    kind, r = _SHAPES[at % len(_SHAPES)], 5.0
    of = f"mark s{at % 8}"
    if kind == "circle":
        return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=r, class_=of)
    shapes: dict[str, list[Point]] = {
        "square": [(-1, -1), (1, -1), (1, 1), (-1, 1)],
        "up": [(0, -1.2), (1.1, 0.9), (-1.1, 0.9)],
        "down": [(0, 1.2), (1.1, -0.9), (-1.1, -0.9)],
        "diamond": [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
        "cross": [(-1.2, -.4), (-.4, -.4), (-.4, -1.2), (.4, -1.2), (.4, -.4), (1.2, -.4), (1.2, .4), (.4, .4),
                  (.4, 1.2), (-.4, 1.2), (-.4, .4), (-1.2, .4)],
    }  # fmt: skip
    corners = shapes[kind]
    path = "M" + "L".join(f"{x + dx * r * 0.9:.1f} {y + dy * r * 0.9:.1f}" for dx, dy in corners) + "Z"
    return tag("path", d=path, class_=of)


def draw_text(x: float, y: float, said: str, **more: str) -> Html:
    return tag("text", said, x=f"{x:.1f}", y=f"{y:.1f}", **more)


def draw_svg(title: str, wide: float, high: float, *inside: Html) -> Html:
    drawn = tag(
        "svg", tag("title", title), *inside, viewBox=f"0 0 {wide:g} {high:g}", role="img", width=wide, height=high
    )
    return tag("div", drawn, class_="wide", tabindex="0", role="group", aria_label=title)


def draw_scatter(
    title: str,
    x_name: str,
    y_name: str,
    points: Mapping[str, Point],
    systems: Sequence[str],
    *,
    baseline: float | None = None,
) -> Html:
    """x on a scale of powers of ten; a line joins those that no other beats in both."""
    placed = {name: (log10(max(x, 1e-9)), y) for name, (x, y) in points.items() if x > 0}
    if not placed:
        return Html("")
    xs, ys = [x for x, _ in placed.values()], [y for _, y in placed.values()]
    left, right = floor(min(xs) * 4 - 0.5) / 4, max(xs) + 0.12 * max(max(xs) - min(xs), 1)
    pad = 0.12 * max(max(ys) - min(ys), 1e-9 + abs(max(ys)) * 0.05)
    low, high = min(*ys, baseline if baseline is not None else min(ys)) - pad, max(*ys, baseline or max(ys)) + pad

    def at(x: float, y: float) -> Point:
        wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + (x - left) / (right - left) * wide, _TOP + (high - y) / (high - low) * tall

    best = pareto_frontier(placed)
    parts = [*_y_axis(low, high, at, left, right), *_x_axis(left, right, at, low), *_axis_names(x_name, y_name)]
    if baseline is not None:
        parts.append(_draw_line(at(left, baseline), at(right, baseline), "even"))
    if len(best) > 1:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*placed[name]) for name in best))
        parts.append(tag("polyline", points=corners, class_="frontier"))
    parts += [draw_marker(systems.index(name), *at(*place)) for name, place in placed.items()]
    parts += _point_labels({name: at(*place) for name, place in placed.items()})
    return draw_svg(title, _WIDTH, _HEIGHT, *parts)


def pareto_frontier(placed: Mapping[str, Point]) -> list[str]:
    """Those of which no other has more for less, the cheapest first.

    >>> frontier({"a": (1, 5), "b": (2, 4), "c": (3, 9)})
    ['a', 'c']
    """
    found: list[str] = []
    most = float("-inf")
    for name in sorted(placed, key=lambda name: (placed[name][0], -placed[name][1], name)):
        if placed[name][1] > most:
            found.append(name)
            most = placed[name][1]
    return found


def _point_labels(places: Mapping[str, Point]) -> list[Html]:
    """To the right of their points, none over another."""
    taken: list[tuple[float, float, float]] = []
    found = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        wide, down = _LETTER_WIDTH * len(name), y + 4
        while any(x < right and x + wide > left and abs(down - other) < 13 for left, right, other in taken):
            down += 4
        taken.append((x, x + wide, down))
        found.append(draw_text(x + 10, down, name, class_="name"))
    return found


def _end_labels(places: Mapping[str, Point]) -> list[Html]:
    """At the ends of lines, from top to bottom as these, a line's height apart."""
    order = sorted(places, key=lambda name: places[name][1])
    down: list[float] = []
    for name in order:
        down.append(max(places[name][1] + 4, down[-1] + 13 if down else 0))
    off = sum(y - places[name][1] - 4 for name, y in zip(order, down, strict=True)) / len(order)
    up = max(off, down[-1] - (_HEIGHT - _BOTTOM))
    return [draw_text(places[name][0] + 10, y - up, name, class_="name") for name, y in zip(order, down, strict=True)]


def axis_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between.

    >>> ticks(31, 72)
    [40.0, 50.0, 60.0, 70.0]
    """
    unit = 10 ** floor(log10(max(high - low, 1e-9)))
    step = next(unit * by for by in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if (high - low) / (unit * by) <= most)
    first = int(-(-low // step))
    return [round(i * step, 10) for i in range(first, int(high // step) + 1)]


def _y_axis(low: float, high: float, at: Projection, left: float, right: float) -> list[Html]:
    return [
        part
        for y in axis_ticks(low, high)
        for part in (
            _draw_line(at(left, y), at(right, y), "rule"),
            draw_text(_LEFT - 7, at(left, y)[1] + 4, f"{y:g}", text_anchor="end"),
        )
    ]


def _x_axis(left: float, right: float, at: Projection, low: float) -> list[Html]:
    decades = range(floor(left), floor(right) + 1)
    by = (1, 2, 5) if right - left < 2.5 else (1,)
    shown = [(power, n) for power in decades for n in by if left <= power + log10(n) <= right]
    return [
        draw_text(at(p + log10(n), low)[0], _HEIGHT - _BOTTOM + 16, short_number(n * 10.0**p), text_anchor="middle")
        for p, n in shown
    ]


def short_number(value: float) -> str:
    """
    >>> short(20_000), short(0.05), short(3_000_000)
    ('20 k', '0.05', '3 M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


def _draw_line(one: Point, other: Point, of: str) -> Html:
    return tag("line", x1=f"{one[0]:.1f}", y1=f"{one[1]:.1f}", x2=f"{other[0]:.1f}", y2=f"{other[1]:.1f}", class_=of)


def _axis_names(x_name: str, y_name: str) -> list[Html]:
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    return [
        draw_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x_name, text_anchor="middle", class_="axis"),
        draw_text(13, middle, y_name, text_anchor="middle", class_="axis", transform=f"rotate(-90 13 {middle:g})"),
    ]


def draw_curves(
    title: str, x_name: str, y_name: str, found: Mapping[str, Sequence[Point]], systems: Sequence[str]
) -> Html:
    """A line for each system, named where it ends."""
    every = [point for points in found.values() for point in points]
    xs, ys = [x for x, _ in every], [y for _, y in every]
    left, right, pad = min(xs), max(xs), 0.08 * max(max(ys) - min(ys), 0.1)
    low, high = min(ys) - pad, max(ys) + pad

    def at(x: float, y: float) -> Point:
        wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + (x - left) / ((right - left) or 1) * wide, _TOP + (high - y) / (high - low) * tall

    parts = [*_y_axis(low, high, at, left, right), *_axis_names(x_name, y_name)]
    parts += [
        draw_text(at(x, low)[0], _HEIGHT - _BOTTOM + 16, f"{x:g}", text_anchor="middle") for x in dict.fromkeys(xs)
    ]
    for name, points in found.items():
        of = systems.index(name)
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in points))
        parts.append(tag("polyline", points=way, class_=f"curve s{of % 8}"))
        parts += [draw_marker(of, *at(*point)) for point in points]
    parts += _end_labels({name: at(*points[-1]) for name, points in found.items()})
    return draw_svg(title, _WIDTH, _HEIGHT, *parts)


def draw_ranks(best: int, rank: int, worst: int, of: int, at: int) -> Html:
    """Where a system stands, from 1 at the left, and where it may stand."""

    def x(n: float) -> float:
        return 10 + (n - 1) * 120 / max(of - 1, 1)

    marks = join_html(
        tag("line", x1=f"{x(n):.1f}", x2=f"{x(n):.1f}", y1=5, y2=15, class_="rule") for n in range(1, of + 1)
    )
    line = tag("line", x1=f"{x(best):.1f}", x2=f"{x(worst):.1f}", y1=10, y2=10, class_=f"span s{at % 8}")
    said = f"rank {rank}, between {best} and {worst}"
    return _inline_svg(said, marks, line, draw_marker(at, x(rank), 10))


def draw_interval(low: float, value: float, high: float, at: int, even: float = 50.0) -> Html:
    """A share of 100 with its interval."""

    def x(v: float) -> float:
        return 10 + 1.2 * v

    half = tag("line", x1=f"{x(even):.1f}", x2=f"{x(even):.1f}", y1=2, y2=18, class_="even")
    line = tag("line", x1=f"{x(low):.1f}", x2=f"{x(high):.1f}", y1=10, y2=10, class_=f"span s{at % 8}")
    said = f"{format_figure(value)}, between {format_figure(low)} and {format_figure(high)}"
    return _inline_svg(said, half, line, draw_marker(at, x(value), 10))


def _inline_svg(said: str, *inside: Html) -> Html:
    """In a line of a table."""
    return tag("svg", tag("title", said), *inside, viewBox="0 0 140 20", width=140, height=20, role="img")
