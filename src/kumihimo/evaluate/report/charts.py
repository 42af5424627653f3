"""numbers of systems -> SVG pictures: quality against cost, threshold curves, ranks with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor, log10

from kumihimo.evaluate.report.markup import Html, format_figure, join_html, tag

_WIDTH, _HEIGHT = 540.0, 320.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 112.0, 14.0, 44.0
_LETTER_WIDTH = 7.0
_SHAPES = ("circle", "square", "up", "diamond", "down", "cross")

Point = tuple[float, float]
Projection = Callable[[float, float], Point]  # a value -> its position in the picture


def draw_marker(system: int, x: float, y: float) -> Html:
    """Draw a marker; each system has its own colour and shape."""
    kind, r = _SHAPES[system % len(_SHAPES)], 5.0
    css = f"mark s{system % 8}"
    if kind == "circle":
        return tag("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=r, class_=css)
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
    return tag("path", d=path, class_=css)


def draw_text(x: float, y: float, label: str, **more: str) -> Html:
    """Draw a text at a position."""
    return tag("text", label, x=f"{x:.1f}", y=f"{y:.1f}", **more)


def draw_svg(title: str, width: float, height: float, *inside: Html) -> Html:
    """Return a picture in a scrollable box."""
    picture = tag(
        "svg", tag("title", title), *inside, viewBox=f"0 0 {width:g} {height:g}", role="img", width=width, height=height
    )
    return tag("div", picture, class_="wide", tabindex="0", role="group", aria_label=title)


def draw_scatter(
    title: str,
    x_name: str,
    y_name: str,
    points: Mapping[str, Point],
    systems: Sequence[str],
    *,
    baseline: float | None = None,
) -> Html:
    """Draw points over a logarithmic x axis, with their Pareto frontier.

    baseline: the y value of a horizontal line.
    """
    placed = {name: (log10(max(x, 1e-9)), y) for name, (x, y) in points.items() if x > 0}
    if not placed:
        return Html("")
    xs, ys = [x for x, _ in placed.values()], [y for _, y in placed.values()]
    x_min, x_max = floor(min(xs) * 4 - 0.5) / 4, max(xs) + 0.12 * max(max(xs) - min(xs), 1)
    pad = 0.12 * max(max(ys) - min(ys), 1e-9 + abs(max(ys)) * 0.05)
    low, high = min(*ys, baseline if baseline is not None else min(ys)) - pad, max(*ys, baseline or max(ys)) + pad

    def project(x: float, y: float) -> Point:
        """Return the position of a point in the picture."""
        plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + (x - x_min) / (x_max - x_min) * plot_width, _TOP + (high - y) / (high - low) * plot_height

    frontier = pareto_frontier(placed)
    parts = [
        *_y_axis(low, high, project, x_min, x_max),
        *_x_axis(x_min, x_max, project, low),
        *_axis_names(x_name, y_name),
    ]
    if baseline is not None:
        parts.append(_draw_line(project(x_min, baseline), project(x_max, baseline), "even"))
    if len(frontier) > 1:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (project(*placed[name]) for name in frontier))
        parts.append(tag("polyline", points=corners, class_="frontier"))
    parts += [draw_marker(systems.index(name), *project(*place)) for name, place in placed.items()]
    parts += _point_labels({name: project(*place) for name, place in placed.items()})
    return draw_svg(title, _WIDTH, _HEIGHT, *parts)


def pareto_frontier(placed: Mapping[str, Point]) -> list[str]:
    """Return the points that no other point dominates, cheapest first.

    >>> pareto_frontier({"a": (1, 5), "b": (2, 4), "c": (3, 9)})
    ['a', 'c']
    """
    names: list[str] = []
    highest = float("-inf")
    for name in sorted(placed, key=lambda name: (placed[name][0], -placed[name][1], name)):
        if placed[name][1] > highest:
            names.append(name)
            highest = placed[name][1]
    return names


def _point_labels(places: Mapping[str, Point]) -> list[Html]:
    """Draw names to the right of their points, without overlaps."""
    boxes: list[tuple[float, float, float]] = []
    labels = []
    for name, (x, y) in sorted(places.items(), key=lambda item: item[1][1]):
        width, baseline = _LETTER_WIDTH * len(name), y + 4
        while any(x < end and x + width > start and abs(baseline - other) < 13 for start, end, other in boxes):
            baseline += 4
        boxes.append((x, x + width, baseline))
        labels.append(draw_text(x + 10, baseline, name, class_="name"))
    return labels


def _end_labels(places: Mapping[str, Point]) -> list[Html]:
    """Draw names at line ends, top to bottom, one line apart."""
    order = sorted(places, key=lambda name: places[name][1])
    heights: list[float] = []
    for name in order:
        heights.append(max(places[name][1] + 4, heights[-1] + 13 if heights else 0))
    offset = sum(y - places[name][1] - 4 for name, y in zip(order, heights, strict=True)) / len(order)
    shift = max(offset, heights[-1] - (_HEIGHT - _BOTTOM))
    return [
        draw_text(places[name][0] + 10, y - shift, name, class_="name") for name, y in zip(order, heights, strict=True)
    ]


def axis_ticks(low: float, high: float, limit: int = 6) -> list[float]:
    """Return round numbers between two values.

    >>> axis_ticks(31, 72)
    [40.0, 50.0, 60.0, 70.0]
    """
    unit = 10 ** floor(log10(max(high - low, 1e-9)))
    step = next(unit * factor for factor in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if (high - low) / (unit * factor) <= limit)
    first = int(-(-low // step))
    return [round(i * step, 10) for i in range(first, int(high // step) + 1)]


def _y_axis(low: float, high: float, project: Projection, x_min: float, x_max: float) -> list[Html]:
    """Draw the y axis: rules with their numbers."""
    return [
        part
        for y in axis_ticks(low, high)
        for part in (
            _draw_line(project(x_min, y), project(x_max, y), "rule"),
            draw_text(_LEFT - 7, project(x_min, y)[1] + 4, f"{y:g}", text_anchor="end"),
        )
    ]


def _x_axis(x_min: float, x_max: float, project: Projection, low: float) -> list[Html]:
    """Draw the numbers of a logarithmic x axis."""
    decades = range(floor(x_min), floor(x_max) + 1)
    digits = (1, 2, 5) if x_max - x_min < 2.5 else (1,)
    marks = [(power, digit) for power in decades for digit in digits if x_min <= power + log10(digit) <= x_max]
    return [
        draw_text(
            project(power + log10(digit), low)[0],
            _HEIGHT - _BOTTOM + 16,
            short_number(digit * 10.0**power),
            text_anchor="middle",
        )
        for power, digit in marks
    ]


def short_number(value: float) -> str:
    """Return a number with k or M for thousands and millions.

    >>> short_number(20_000), short_number(0.05), short_number(3_000_000)
    ('20 k', '0.05', '3 M')
    """
    for unit, name in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g}"


def _draw_line(start: Point, end: Point, css: str) -> Html:
    """Draw a line between two points."""
    return tag("line", x1=f"{start[0]:.1f}", y1=f"{start[1]:.1f}", x2=f"{end[0]:.1f}", y2=f"{end[1]:.1f}", class_=css)


def _axis_names(x_name: str, y_name: str) -> list[Html]:
    """Draw the names of both axes."""
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    return [
        draw_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x_name, text_anchor="middle", class_="axis"),
        draw_text(13, middle, y_name, text_anchor="middle", class_="axis", transform=f"rotate(-90 13 {middle:g})"),
    ]


def draw_curves(
    title: str, x_name: str, y_name: str, points_by_system: Mapping[str, Sequence[Point]], systems: Sequence[str]
) -> Html:
    """Draw a line for each system, with its name at the end."""
    all_points = [point for points in points_by_system.values() for point in points]
    xs, ys = [x for x, _ in all_points], [y for _, y in all_points]
    x_min, x_max, pad = min(xs), max(xs), 0.08 * max(max(ys) - min(ys), 0.1)
    low, high = min(ys) - pad, max(ys) + pad

    def project(x: float, y: float) -> Point:
        """Return the position of a point in the picture."""
        plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + (x - x_min) / ((x_max - x_min) or 1) * plot_width, _TOP + (high - y) / (high - low) * plot_height

    parts = [*_y_axis(low, high, project, x_min, x_max), *_axis_names(x_name, y_name)]
    parts += [
        draw_text(project(x, low)[0], _HEIGHT - _BOTTOM + 16, f"{x:g}", text_anchor="middle") for x in dict.fromkeys(xs)
    ]
    for name, points in points_by_system.items():
        number = systems.index(name)
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (project(*point) for point in points))
        parts.append(tag("polyline", points=path, class_=f"curve s{number % 8}"))
        parts += [draw_marker(number, *project(*point)) for point in points]
    parts += _end_labels({name: project(*points[-1]) for name, points in points_by_system.items()})
    return draw_svg(title, _WIDTH, _HEIGHT, *parts)


def draw_ranks(best: int, rank: int, worst: int, total: int, system: int) -> Html:
    """Draw a system's rank and the interval of its rank."""

    def x(n: float) -> float:
        """Return the x position of a rank."""
        return 10 + (n - 1) * 120 / max(total - 1, 1)

    marks = join_html(
        tag("line", x1=f"{x(n):.1f}", x2=f"{x(n):.1f}", y1=5, y2=15, class_="rule") for n in range(1, total + 1)
    )
    line = tag("line", x1=f"{x(best):.1f}", x2=f"{x(worst):.1f}", y1=10, y2=10, class_=f"span s{system % 8}")
    title = f"rank {rank}, between {best} and {worst}"
    return _inline_svg(title, marks, line, draw_marker(system, x(rank), 10))


def draw_interval(low: float, value: float, high: float, system: int, even: float = 50.0) -> Html:
    """Draw a share of 100 with its interval."""

    def x(share: float) -> float:
        """Return the x position of a share."""
        return 10 + 1.2 * share

    half = tag("line", x1=f"{x(even):.1f}", x2=f"{x(even):.1f}", y1=2, y2=18, class_="even")
    line = tag("line", x1=f"{x(low):.1f}", x2=f"{x(high):.1f}", y1=10, y2=10, class_=f"span s{system % 8}")
    title = f"{format_figure(value)}, between {format_figure(low)} and {format_figure(high)}"
    return _inline_svg(title, half, line, draw_marker(system, x(value), 10))


def _inline_svg(title: str, *inside: Html) -> Html:
    """Return a picture the size of a table row."""
    return tag("svg", tag("title", title), *inside, viewBox="0 0 140 20", width=140, height=20, role="img")
