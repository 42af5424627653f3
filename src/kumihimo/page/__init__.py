"""one read transaction -> an HTML page: its graph as nested circles, reports and sources; templates -> escaped HTML."""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import metadata
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import community_tree
from kumihimo.app.browse.community_tree import CommunityTree, display_name, table_or_empty
from kumihimo.core.records import Reference, Report
from kumihimo.text import safe_write, translation

_MARGIN = 1.2  # between two members, in the same unit as radii
_ITERATIONS = 60  # for the smallest enclosing circle


class Circle(NamedTuple):
    """A circle in the drawing."""

    centre: complex
    radius: float


_Circles = dict[Reference, Circle]


class GraphLayout(NamedTuple):
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
    distances = [
        abs(centres[a] * radii[b] + centres[b] * radii[a]) / (radii[a] + radii[b])
        for a, b in pairwise([front[-1], *front])
    ]
    start = distances.index(min(distances)) - 1
    return front[start:] + front[:start]


def _try_place(
    front: Sequence[int], centres: Sequence[complex], radii: Sequence[float], radius: float
) -> tuple[complex, int]:
    """Return the centre of a circle on the front's first pair.

    Also return the index of a circle in the way: from 2 on forwards, from -1 on backwards; 0 for none.
    """
    a, b = front[0], front[1]
    direction = centres[b] - centres[a]
    distance = abs(direction)
    first_distance, second_distance = radii[a] + radius, radii[b] + radius
    along = (distance * distance + first_distance * first_distance - second_distance * second_distance) / (2 * distance)
    across = sqrt(max(first_distance * first_distance - along * along, 0.0))
    centre = centres[a] + direction / distance * complex(along, -across)
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
        reaches = [abs(z - centre) + r for z, r in circles]
        reach = max(reaches)
        farthest, radius = circles[reaches.index(reach)]
        if reach < smallest:
            best, smallest = centre, reach
        if farthest != centre:
            beyond = farthest + (farthest - centre) / abs(farthest - centre) * radius
            centre += (beyond - centre) / step / 2
    return best, smallest


# Characters on the page for each kind of text. Beyond that, each text is cut to an equal share.
CHAR_BUDGET = {"entities": 2.5e6, "relations": 2e6, "claims": 5e5, "excerpts": 4e6, "reports": 6e6}
MAX_CHARS_BY_TABLE = {"entities": 600, "relations": 300, "claims": 300, "excerpts": 300, "reports": 20_000}
EXCERPTS_PER_ENTITY = 3  # quoted excerpts
_TABLE_LETTERS = {"entities": "e", "relations": "r", "claims": "k", "reports": "c"}

PageData = dict[str, Any]
Positions = Mapping[str, Mapping[str, int]]  # by table, of each row on the page


def write_graph_page(snapshot: Snapshot, path: Path, *, force: bool = False) -> dict[str, int]:
    """Write the page; return its number of entities, relations and reports."""
    data = page_data(snapshot)
    safe_write.write_file(path, render_page(data), force=force)
    drawn = {"entities": len(data["nodes"]), "relations": len(data["edges"])}
    return drawn | {"reports": len(table_or_empty(snapshot, "reports"))}


def render_page(data: PageData) -> Iterator[str]:
    """Yield the parts of the page."""
    return render_template(Path(__file__).parent, "graph.html", data=data)


def page_data(snapshot: Snapshot) -> PageData:
    """Return the data of the page, as lists.

    References to other rows are positions in these lists. The entities with most relations come first, and so do the
    relations between them.
    """
    entities = snapshot.table("entities")
    degree = Counter({id: 0 for (id,) in entities.columns("id")})
    relations = [
        relation
        for relation in table_or_empty(snapshot, "relations").columns("id", "source", "target")
        if relation[1] in degree and relation[2] in degree
    ]
    degree.update(end for _, *ends in relations for end in ends)
    communities = community_tree.load_tree(snapshot)
    nodes = _positions(sorted(degree, key=lambda id: (-degree[id], id)))
    relations.sort(key=lambda relation: (*sorted((nodes[relation[1]], nodes[relation[2]]), reverse=True), relation[0]))
    order = {
        "entities": nodes,
        "relations": _positions(id for id, _, _ in relations),
        "reports": _positions(sorted(communities.level, key=lambda id: (communities.level[id], id))),
        "claims": _positions(id for (id,) in table_or_empty(snapshot, "claims").columns("id")),
    }
    drawing, reports = layout_graph(communities, degree), table_or_empty(snapshot, "reports")
    return {
        "title": _title(snapshot),
        "radius": round(drawing.radius, 1),
        **_nodes(snapshot, nodes, drawing),
        "edges": _edges(snapshot, order),
        "communities": [_community(communities, id, drawing.communities[id], order) for id in order["reports"]],
        "reports": [report and _report(snapshot, report, order) for report in map(reports.get, order["reports"])],
        "claims": list(_claims(snapshot, order)),
    }


def _positions(ids: Iterable[str]) -> dict[str, int]:
    return {id: position for position, id in enumerate(ids)}


def _title(snapshot: Snapshot) -> str:
    sources = sorted({uri.partition("/")[0] for uri in community_tree.document_uris(snapshot).values()})
    return ", ".join(sources[:3]) + (" …" if len(sources) > 3 else "") or "Kumihimo"


def _chars_per_text(table: str, count: int) -> int:
    """Return the maximum length of each of `count` texts."""
    return max(60, min(MAX_CHARS_BY_TABLE[table], int(CHAR_BUDGET[table] / max(count, 1))))


def shorten(text: str, longest: int) -> str:
    """Return the text on one line, cut to `longest` characters.

    >>> shorten("The gate leaks.", 20), shorten("The gate leaks and leaks.", 11)
    ('The gate leaks.', 'The gate …')
    """
    line = " ".join(text.split())
    if len(line) <= longest:
        return line
    words = line[: longest - 1].rpartition(" ")[0]
    return f"{words} …" if len(words) > longest // 2 else f"{line[: longest - 1]}…"


# -- each row as a list: canvas.js names the fields


def _nodes(snapshot: Snapshot, nodes: Mapping[str, int], drawing: GraphLayout) -> PageData:
    """Return the entities, their types and uris.

    The most frequent types come first.
    """
    entities = snapshot.table("entities")
    excerpt_count = sum(min(EXCERPTS_PER_ENTITY, count) for (count,) in entities.columns("mentions"))
    excerpt_length, text_length = _chars_per_text("excerpts", excerpt_count), _chars_per_text("entities", len(nodes))
    type_counts = Counter(entity_type for (entity_type,) in entities.columns("type"))
    types = sorted(type_counts, key=lambda entity_type: (-type_counts[entity_type], entity_type))
    documents, files = community_tree.document_uris(snapshot), dict[str, int]()
    rows: list[Any] = [None] * len(nodes)
    for entity in entities:
        sources = [
            [files.setdefault(span.uri, len(files)), span.place, " ".join(span.text.split())]
            for span in community_tree.entity_excerpts(snapshot, documents, entity, EXCERPTS_PER_ENTITY, excerpt_length)
        ]
        circle, text = _circle(drawing.entities[entity.id]), shorten(entity.text, text_length)
        names = [form for form in entity.forms if form != entity.name][:5]
        start = [entity.name, types.index(entity.type), *circle, entity.mentions]
        rows[nodes[entity.id]] = [*start, text, names, sources, entity.id]
    return {"types": list(map(translation.translate, types)), "nodes": rows, "uris": list(files)}


def _circle(circle: Circle) -> tuple[float, float, float]:
    return round(circle.centre.real, 1), round(circle.centre.imag, 1), round(circle.radius, 2)


def _edges(snapshot: Snapshot, order: Positions) -> list[Any]:
    nodes, edges = order["entities"], order["relations"]
    rows: list[Any] = [None] * len(edges)
    longest = _chars_per_text("relations", len(edges))
    for relation in table_or_empty(snapshot, "relations"):
        if relation.id in edges:
            ends, keywords = (nodes[relation.source], nodes[relation.target]), ", ".join(relation.keywords)
            rows[edges[relation.id]] = [*ends, relation.weight, shorten(relation.text, longest), shorten(keywords, 100)]
    return rows


def _community(communities: CommunityTree, id: str, circle: Circle, order: Positions) -> list[Any]:
    parent = communities.parent[id]
    inside = [order["entities"][member] for member in communities.members[id] if member in order["entities"]]
    parent_position = order["reports"][parent] if parent else -1
    return [communities.level[id], parent_position, *_circle(circle), communities.size[id], sorted(inside), id]


def _report(snapshot: Snapshot, report: Report, order: Positions) -> list[Any]:
    """Return a report, with the findings that fit."""

    def parts(text: str, part: int) -> list[str | list[str]]:
        targets = _reference_targets(snapshot, community_tree.part_sources(report, part), order)
        return [f"{text} ", targets] if targets else [text]

    findings, room = [], _chars_per_text("reports", len(order["reports"])) - len(report.summary)
    for n, (summary, explanation) in enumerate(report.findings, 1):
        if room > 0:
            shortened = explanation if len(explanation) <= room else f"{explanation[:room].rpartition(' ')[0]} …"
            findings.append([[summary], parts(shortened, n)])
        room -= len(summary) + len(explanation)
    omitted, reason = len(report.findings) - len(findings), [report.reason] if report.reason else []
    texts = [report.title, report.rating, reason, parts(report.summary, 0), findings]
    return [*texts, community_tree.maker_of(report), omitted, len(report.added)]


def _reference_targets(snapshot: Snapshot, references: Sequence[Reference], order: Positions) -> str | list[str]:
    """Return page addresses of rows, or the places of chunks as text.

    The fifth entity is e4.
    """
    places = dict.fromkeys(display_name(snapshot, reference) for reference in references if reference[0] == "chunks")
    if places:
        return f"({'; '.join(places)})"
    return [f"{_TABLE_LETTERS[table]}{order[table][id]}" for table, id in references if id in order.get(table, {})]


def _claims(snapshot: Snapshot, order: Positions) -> Iterator[list[Any]]:
    longest = _chars_per_text("claims", len(order["claims"]))
    for claim in table_or_empty(snapshot, "claims"):
        ends = [order["entities"].get(end, -1) for end in (claim.subject, claim.object)]
        name = display_name(snapshot, ("claims", claim.id))
        when = " – ".join(filter(None, (claim.start, claim.end)))
        yield [name, claim.type, ", ".join(claim.statuses), shorten(claim.text, longest), ends, when]


_SHARED_TEMPLATES = Path(__file__).with_name("templates")
GESTURES = _SHARED_TEMPLATES / "gestures.js"  # a module that the server sends too


def render_template(
    package: Path, name: str, filters: Mapping[str, Callable[..., Any]] | None = None, **values: object
) -> Iterator[str]:
    """Yield the parts of a page from a template of a package.

    Templates may use each other, the shared ones, and all values. In them, `asset` is the text of a stylesheet or
    script, `hash_of` its digest, `translate` a message in the language of messages, `labels` those of a script, and
    `json` a filter for data inside a page.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # imported here: slow

    loader = FileSystemLoader([package / "templates", _SHARED_TEMPLATES])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )

    def asset(name: str) -> str:
        """Return the text of a file among the templates, without exports."""
        return re.sub("^export ", "", loader.get_source(environment, name)[0], flags=re.M)

    def hash_of(name: str) -> str:
        """Return the digest by which a policy allows a script."""
        return f"sha256-{b64encode(sha256(asset(name).encode()).digest()).decode()}"

    def labels(name: str) -> dict[str, str]:
        """Return the labels of a script with their translations."""
        return {text: re.sub(":[tmqn]}", "}", translation.translate(text)) for text in script_labels(asset(name))}

    environment.filters |= {"json": json_for_html, **(filters or {})}
    environment.globals |= {"asset": asset, "hash_of": hash_of, "labels": labels}
    environment.globals |= {"language": translation.message_language, "translate": translation.translate}
    environment.globals |= {"file_mark": safe_write.FILE_MARK, "version": metadata.version("kumihimo"), **values}
    return environment.get_template(name).generate()


def script_labels(script: str) -> list[str]:
    """Return the texts of `T` and `countOf` in a script.

    >>> script_labels('T("No results."); countOf(n, "entity", "entities")')
    ['No results.', '{0} entity', '{0} entities']
    """
    nouns = re.findall(r'countOf\([^"]*"([^"]+)"(?:, "([^"]+)")?', script)
    counts = [f"{{0}} {noun}" for one, many in nouns for noun in (one, many or f"{one}s")]
    return re.findall(r'\bT\("([^"]+)"', script) + counts


def json_for_html(data: object) -> str:
    r"""Return JSON that is safe inside an HTML page.

    >>> json_for_html(["</script>", "組"])
    '["\\u003c/script>","組"]'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
