"""catalogues -> pictures of the tables' sources and the methods' inputs. As a program: writes docs/pictures/."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from kumihimo.core.signature import Signature
from kumihimo.core.wiring import ROOT, Step, order_steps
from kumihimo.index import STEPS
from kumihimo.methods import METHODS

FOLDER = Path(__file__).with_name("pictures")
PORTS = {
    "keyword_search": "by words",
    "vector_search": "by meaning",
    "llm": "a chat model",
    "tokenizer": "counts tokens",
    "rerank": "reranks",
}
WIDTH, HEIGHT, ROOM = 112.0, 40.0, 44.0  # width and height of a box; space between two layers
LETTER = 6.8  # maximum width of one at 11 px
STYLE = """
text { font: 11px system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif; fill: #59636e }
.name { font: 600 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; fill: #1f2328 }
.card { fill: #ffffff; stroke: #d1d9e0 }
.free { fill: #f6f8fa; stroke: #59636e }
.asks { fill: #fff1d6; stroke: #9a6700; stroke-width: 2 }
.paid { fill: #fffaf0; stroke: #9a6700 }
.made, .looked { fill: none; stroke: #818b98; stroke-width: 1.2 }
.looked { stroke-dasharray: 3 3 }
.head, .dot { fill: #59636e }
.may, .may.dear { fill: none; stroke: #59636e; stroke-width: 1.5 }
.may.dear { stroke: #9a6700 }
.dear { fill: #9a6700 }
.rule { stroke: #d1d9e0 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .name { fill: #f0f6fc }
  .card { fill: #0d1117; stroke: #3d444d }
  .free { fill: #151b23; stroke: #9198a1 }
  .asks { fill: #3a2a08; stroke: #d29922 } .paid { fill: #1c170b; stroke: #d29922 }
  .made, .looked { stroke: #656c76 }
  .head, .dot { fill: #9198a1 } .dear { fill: #d29922 }
  .may { stroke: #9198a1 } .may.dear { stroke: #d29922 }
  .rule { stroke: #3d444d }
}"""

Node = tuple[str, ...]  # a table; or an edge that crosses a layer: source, target, layer
Layers = list[list[Node]]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, picture in pictures().items():
        (FOLDER / name).write_text(picture, encoding="utf-8")


def pictures() -> dict[str, str]:
    """Return the files of docs/pictures/ by name."""
    return {"tables.svg": tables(STEPS), "methods.svg": methods(METHODS, STEPS)}


# -- the tables


def tables(steps: Mapping[str, Signature]) -> str:
    """Draw each table as a box below its sources, with arrows."""
    order = order_steps(steps)
    edges = [(source, step.name) for step in order for source in step.inputs]
    layers = _layered(order, edges)
    x = _spread(layers, edges)
    right = max(x[node] + _wide(node) / 2 for layer in layers for node in layer) + 16
    y = {node: 16 + i * (HEIGHT + ROOM) for i, layer in enumerate(layers) for node in layer}
    lookups = {(t, s.name) for s in order if s.keyed for t in s.tables.values() if t != s.source}
    costs = _table_costs(order)
    parts = [_draw_edge(edge, layers, x, y, dashed=edge in lookups) for edge in edges]
    parts.append(_draw_box(ROOT, "from your files", "free", x[ROOT,], y[ROOT,]))
    parts += [_draw_box(s.name, _describe_shape(s), costs[s.name], x[s.name,], y[s.name,]) for s in order]
    bottom = 16 + len(layers) * (HEIGHT + ROOM) - ROOM
    self_reading = any(step.name in step.tables.values() for step in order)
    without = all("llm" in step.signature.optional_ports for step in order if costs[step.name] == "asks")
    legend, width, height = _draw_legend(
        [*costs.values()], lookups=bool(lookups), self_reading=self_reading, without=without, y=bottom + 30
    )
    middle = f'<g transform="translate({max(0, width - right) / 2:g},0)">'
    return _svg("What each table of an index is made of", max(right, width), height, [middle, *parts, "</g>", *legend])


def _describe_shape(step: Step) -> str:
    mark = " ↺" if step.name in step.tables.values() else ""
    return {"row": "by row", "group": "by group", "table": "as a whole"}[step.signature.shape] + mark


def _table_costs(order: Sequence[Step]) -> dict[str, str]:
    """Return the cost of each table: "asks", "paid" or "free".

    The step of "asks" calls a model; that of "paid" reads from such a table.
    """
    kinds: dict[str, str] = {}
    for step in order:
        paid = any(kinds.get(name, "free") != "free" for name in step.inputs)
        kinds[step.name] = "asks" if "llm" in step.signature.ports else "paid" if paid else "free"
    return kinds


def _layered(order: Sequence[Step], edges: Sequence[tuple[str, str]]) -> Layers:
    """Return layers with each table below its sources and few crossings.

    An edge has a node in each layer that it crosses.
    """
    depth = {ROOT: 0}
    for step in order:
        depth[step.name] = 1 + max(depth[name] for name in step.inputs)
    layers: Layers = [[(name,) for name in depth if depth[name] == i] for i in range(max(depth.values()) + 1)]
    for a, b in edges:
        for i in range(depth[a] + 1, depth[b]):
            layers[i].append((a, b, str(i)))
    links = _link_nodes(layers, edges)
    best = layers
    for turn in range(12):
        layers = [list(layer) for layer in layers]
        _sort_layers(layers if turn % 2 else layers[::-1], links)
        best = min(best, layers, key=lambda candidate: _count_crossings(candidate, links))
    return best


def _link_nodes(layers: Layers, edges: Sequence[tuple[str, str]]) -> dict[Node, list[Node]]:
    """Return the neighbours of each node in the adjacent layers."""
    links: dict[Node, list[Node]] = {node: [] for layer in layers for node in layer}
    for edge in edges:
        path = _edge_path(edge, layers)
        for one, other in itertools.pairwise(path):
            links[one].append(other)
            links[other].append(one)
    return links


def _edge_path(edge: tuple[str, str], layers: Layers) -> list[Node]:
    return [(edge[0],), *(node for layer in layers for node in layer if node[:2] == edge), (edge[1],)]


def _sort_layers(layers: Layers, links: Mapping[Node, list[Node]]) -> None:
    """Sort each layer by the neighbours in the layer before it."""
    for before, layer in itertools.pairwise(layers):
        positions = {node: i for i, node in enumerate(before)}
        order = {node: i for i, node in enumerate(layer)}
        mean = {n: _mean([positions[other] for other in links[n] if other in positions], order[n]) for n in layer}
        layer.sort(key=lambda node: (mean[node], order[node]))


def _count_crossings(layers: Layers, links: Mapping[Node, list[Node]]) -> int:
    count = 0
    for above, below in itertools.pairwise(layers):
        at = {node: i for i, node in enumerate(below)}
        ends = [(i, at[other]) for i, node in enumerate(above) for other in links[node] if other in at]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(ends) for c, d in ends[:i])
    return count


def _spread(layers: Layers, edges: Sequence[tuple[str, str]]) -> dict[Node, float]:
    """Return x of each node: near linked nodes, without overlap."""
    links = _link_nodes(layers, edges)
    x = {node: 0.0 for layer in layers for node in layer}
    for turn in range(40):
        for layer in layers if turn % 2 else layers[::-1]:
            wanted = [_mean([x[other] for other in links[node]], x[node]) for node in layer]
            x.update(zip(layer, _place_apart(layer, wanted), strict=True))
    left = min(x[node] - _wide(node) / 2 for node in x) - 16
    return {node: round(at - left, 1) for node, at in x.items()}


def _place_apart(layer: Sequence[Node], wanted: Sequence[float]) -> list[float]:
    """Return places near the wanted ones without overlap, in order.

    The method is pool adjacent violators.
    """
    begins, at = [0.0], 0.0
    for one, other in itertools.pairwise(layer):
        begins.append(at := at + (_wide(one) + _wide(other)) / 2)
    pools: list[list[float]] = []
    for want, begin in zip(wanted, begins, strict=True):
        pools.append([want - begin])
        while len(pools) > 1 and _mean(pools[-2], 0) > _mean(pools[-1], 0):
            pools[-2:] = [pools[-2] + pools[-1]]
    placed = [_mean(pool, 0) for pool in pools for _ in pool]
    return [place + begin for place, begin in zip(placed, begins, strict=True)]


def _wide(node: Node) -> float:
    return 18.0 if len(node) > 1 else _box_width(node[0]) + 16


def _box_width(name: str) -> float:
    """Return the width of a box with this name."""
    return max(WIDTH, len(name) * 7.3 + 12)


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


def _draw_edge(
    edge: tuple[str, str], layers: Layers, x: Mapping[Node, float], y: Mapping[Node, float], *, dashed: bool
) -> str:
    path = _edge_path(edge, layers)
    line = f"M{x[path[0]]:g},{y[path[0]] + HEIGHT:g}"
    for one, other in itertools.pairwise(path):
        top, end, half = y[one] + HEIGHT, y[other] - (0 if len(other) > 1 else 5), ROOM / 2
        line += f" C{x[one]:g},{top + half:g} {x[other]:g},{end - half:g} {x[other]:g},{end:g}"
        line += f" V{y[other] + HEIGHT:g}" if len(other) > 1 else ""
    tip, end = x[path[-1]], y[path[-1]]
    head = f'<path class="head" d="M{tip - 4:g},{end - 8:g} h8 l-4,7 z"/>'
    return f'<path class="{"looked" if dashed else "made"}" d="{line}"/>{head}'


def _draw_box(name: str, note: str, kind: str, x: float, y: float) -> str:
    width = _box_width(name)
    return (
        f'<rect class="{kind}" x="{x - width / 2:g}" y="{y:g}" width="{width:g}" height="{HEIGHT:g}" rx="6"/>'
        + _draw_text(name, x, y + 17, "name", "middle")
        + _draw_text(note, x, y + 32, anchor="middle")
    )


def _draw_legend(
    kinds: Iterable[str], *, lookups: bool, self_reading: bool, without: bool, y: float
) -> tuple[list[str], float, float]:
    """Return the legend of colours and lines, its width and bottom.

    without: whether all steps that ask a chat model can work without one.
    """
    asks = "by a chat model, or by rule" if without else "asks a chat model"
    labels = {"free": "costs nothing", "asks": asks, "paid": "made of what was asked"}
    parts, x = [], 16.0
    signs = {kind: f'<rect class="{kind}" y="-10" width="18" height="12" rx="3"/>' for kind in labels if kind in kinds}
    if lookups:
        labels["looked"], signs["looked"] = "looked up", '<path class="looked" d="M0,-4 h18"/>'
    if self_reading:
        labels["own"], signs["own"] = "reads itself, too", _draw_text("↺", 6, 0)
    for kind, sign in signs.items():
        parts.append(f'<g transform="translate({x:g},{y:g})">{sign}{_draw_text(labels[kind], 24, 0)}</g>')
        x += 40 + len(labels[kind]) * LETTER * 0.9
    return parts, x, y + 16


# -- the methods


def methods(methods: Mapping[str, Signature], steps: Mapping[str, Signature]) -> str:
    """Draw a row for each method and a column for each input."""
    kinds = {ROOT: "free", **_table_costs(order_steps(steps))}
    read = [name for name in kinds if any(name in m.tables or name in m.optional_tables for m in methods.values())]
    used = [port for port in dict.fromkeys([*PORTS, *(p for m in methods.values() for p in m.ports)])]
    used = [port for port in used if any(port in m.ports for m in methods.values())]
    label = max(map(len, methods)) * 7.6 + 32
    x = {name: label + 14 + i * 26 + (18 if name in used else 0) for i, name in enumerate([*read, *used])}
    titles = {name: f"{name}: {PORTS[name]}" if name in PORTS and name in used else name for name in x}
    top = 30 + max(len(title) for title in titles.values()) * LETTER * 0.72
    wide = max(x[name] + len(titles[name]) * LETTER * 0.72 for name in x) + 16
    paid = {"llm", *(name for name in read if kinds[name] != "free")}
    parts = [_draw_slanted(titles[name], x[name], top - 12) for name in x]
    for i, (name, method) in enumerate(methods.items()):
        y = top + i * 26
        parts.append(f'<path class="rule" d="M16,{y:g} H{max(x.values()) + 14:g}"/>')
        parts.append(_draw_text(name, 18, y + 17, "name"))
        marks = [column for column in x if column in method.tables or column in method.ports]
        parts += [_draw_dot(x[column], y + 13, "dear" if column in paid else "dot") for column in marks]
        parts += [
            _draw_dot(x[column], y + 13, "may dear" if column in paid else "may") for column in method.optional_tables
        ]
    bottom = top + len(methods) * 26
    parts += [
        _draw_dot(22, bottom + 20, "dear"),
        _draw_text("asks a chat model, or reads what one may make", 32, bottom + 24),
    ]
    parts += [_draw_dot(22, bottom + 38, "may"), _draw_text("reads it where it is there", 32, bottom + 42)]
    return _svg("What each method reads and uses", max(wide, 310), bottom + 58, parts)


def _draw_dot(x: float, y: float, kind: str) -> str:
    return f'<circle class="{kind}" cx="{x:g}" cy="{y:g}" r="5"/>'


def _draw_slanted(text: str, x: float, y: float) -> str:
    return f'<g transform="translate({x + 3:g},{y:g}) rotate(-45)">{_draw_text(text, 0, 0)}</g>'


# -- SVG


def _draw_text(text: str, x: float, y: float, kind: str = "", anchor: str = "start") -> str:
    how = (f' class="{kind}"' if kind else "") + (f' text-anchor="{anchor}"' if anchor != "start" else "")
    return f'<text x="{x:g}" y="{y:g}"{how}>{escape(text)}</text>'


def _svg(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    """Return a picture on a card, readable on any page colour."""
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    card = f'<rect class="card" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="8"/>'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n<title>{title}</title>\n<style>{STYLE}\n</style>'
    )
    return "\n".join([head, card, *parts, "</svg>\n"])


if __name__ == "__main__":
    main()
