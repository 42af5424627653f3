"""one read transaction -> an HTML page: its graph, reports and sources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from kumihimo.app.community_tree import (
    CommunityTree,
    display_name,
    document_uris,
    entity_excerpts,
    load_tree,
    split_references,
    table_or_empty,
)
from kumihimo.app.safe_write import FILE_MARK, write_file
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.records import Entity, Reference, Relation, Report
from kumihimo.page.layout import Circle, GraphLayout, layout_graph

# Characters on the page for each kind of text. Beyond that, each text is cut to an equal share.
CHAR_BUDGET = {
    "entities": 2_500_000,
    "relations": 2_000_000,
    "claims": 500_000,
    "excerpts": 4_000_000,
    "reports": 6_000_000,
}
MAX_CHARS_BY_TABLE = {"entities": 600, "relations": 300, "claims": 300, "excerpts": 300, "reports": 20_000}
EXCERPTS_PER_ENTITY = 3  # quoted excerpts
_TABLE_LETTERS = {"entities": "e", "relations": "r", "claims": "k", "reports": "c"}

PageData = dict[str, Any]


def write_graph_page(snapshot: Snapshot, path: Path) -> dict[str, int]:
    """Write the page; return its number of entities, relations and reports."""
    data = page_data(snapshot)
    write_file(path, render_page(data))
    return {
        "entities": len(data["nodes"]),
        "relations": len(data["edges"]),
        "reports": len(table_or_empty(snapshot, "reports")),
    }


def render_page(data: PageData) -> Iterator[str]:
    """Yield the parts of the page."""
    title = f"{data['title']}: graph and reports"
    parts = {"mark": FILE_MARK, "title": escape(title), "data": json_for_html(data)}
    parts |= {name: _read_part(name) for name in ("page.css", "canvas.js", "page.js")}
    for i, piece in enumerate(_read_part("page.html").split("%%")):
        yield parts[piece] if i % 2 else piece


def _read_part(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def json_for_html(data: object) -> str:
    r"""Return JSON that is safe inside an HTML page.

    >>> json_for_html(["</script>", "組"])
    '["\\u003c/script>","組"]'
    """
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def page_data(snapshot: Snapshot) -> PageData:
    """Return the data of the page, as lists.

    References to other rows are positions in these lists. The entities with most relations come first, and so do the
    relations between them.
    """
    entities = snapshot.table("entities")
    relations: list[tuple[str, str, str]] = list(
        table_or_empty(snapshot, "relations").columns("id", "source", "target")
    )
    degree = Counter({id: 0 for (id,) in entities.columns("id")})
    relations = [relation for relation in relations if relation[1] in degree and relation[2] in degree]
    degree.update(end for _, *ends in relations for end in ends)
    communities = load_tree(snapshot)
    nodes = {id: position for position, id in enumerate(sorted(degree, key=lambda id: (-degree[id], id)))}
    relations.sort(key=lambda relation: (*sorted((nodes[relation[1]], nodes[relation[2]]), reverse=True), relation[0]))
    edges = {id: position for position, (id, _, _) in enumerate(relations)}
    circles = {
        id: position
        for position, id in enumerate(sorted(communities.level, key=lambda id: (communities.level[id], id)))
    }
    order = {"entities": nodes, "relations": edges, "reports": circles}
    order["claims"] = {id: position for position, (id,) in enumerate(table_or_empty(snapshot, "claims").columns("id"))}
    drawing = layout_graph(communities, degree)
    return {
        "title": _title(snapshot),
        "radius": round(drawing.radius, 1),
        **_nodes(snapshot, nodes, drawing),
        "edges": list(_edges(snapshot, order)),
        "communities": [_community(communities, id, drawing.communities[id], order) for id in circles],
        "reports": list(_reports(snapshot, order)),
        "claims": list(_claims(snapshot, order)),
    }


def _title(snapshot: Snapshot) -> str:
    sources = sorted({uri.partition("/")[0] for uri in document_uris(snapshot).values()})
    return ", ".join(sources[:3]) + (" …" if len(sources) > 3 else "") or "Kumihimo"


def _chars_per_text(table: str, count: int) -> int:
    """Return the maximum length of each of `count` texts."""
    return max(60, min(MAX_CHARS_BY_TABLE[table], CHAR_BUDGET[table] // max(count, 1)))


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


def _nodes(snapshot: Snapshot, nodes: dict[str, int], drawing: GraphLayout) -> PageData:
    """Return the entities, their types and uris.

    The most frequent types come first.
    """
    entities = snapshot.table("entities")
    excerpt_count = sum(min(EXCERPTS_PER_ENTITY, count) for (count,) in entities.columns("mentions"))
    types = [
        entity_type
        for entity_type, _ in sorted(
            Counter(entity_type for (entity_type,) in entities.columns("type")).items(), key=_by_count
        )
    ]
    type_positions, documents, files = (
        {entity_type: position for position, entity_type in enumerate(types)},
        document_uris(snapshot),
        dict[str, int](),
    )
    rows: list[Any] = [None] * len(nodes)
    for entity in entities:
        sources = [
            [files.setdefault(span.uri, len(files)), span.place, " ".join(span.text.split())]
            for span in entity_excerpts(
                snapshot, documents, entity, EXCERPTS_PER_ENTITY, _chars_per_text("excerpts", excerpt_count)
            )
        ]
        circle = _circle(drawing.entities[entity.id])
        text = shorten(entity.text, _chars_per_text("entities", len(nodes)))
        row = [
            entity.name,
            type_positions[entity.type],
            *circle,
            entity.mentions,
            text,
            _other_names(entity),
            sources,
            entity.id,
        ]
        rows[nodes[entity.id]] = row
    return {"types": types, "nodes": rows, "uris": list(files)}


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _other_names(entity: Entity) -> list[str]:
    return [form for form in entity.forms if form != entity.name][:5]


def _circle(circle: Circle) -> tuple[float, float, float]:
    return round(circle.centre.real, 1), round(circle.centre.imag, 1), round(circle.radius, 2)


def _edges(snapshot: Snapshot, order: dict[str, dict[str, int]]) -> Iterable[list[Any]]:
    nodes, edges = order["entities"], order["relations"]
    rows: list[Any] = [None] * len(edges)
    longest = _chars_per_text("relations", len(edges))
    relation: Relation
    for relation in table_or_empty(snapshot, "relations") if edges else ():
        if relation.id in edges:
            ends = nodes[relation.source], nodes[relation.target]
            keywords = ", ".join(relation.keywords)
            rows[edges[relation.id]] = [*ends, relation.weight, shorten(relation.text, longest), shorten(keywords, 100)]
    return rows


def _community(communities: CommunityTree, id: str, circle: Circle, order: dict[str, dict[str, int]]) -> list[Any]:
    parent = communities.parent[id]
    inside = [order["entities"][member] for member in communities.members[id] if member in order["entities"]]
    parent_position = order["reports"][parent] if parent else -1
    return [communities.level[id], parent_position, *_circle(circle), communities.size[id], sorted(inside), id]


def _reports(snapshot: Snapshot, order: dict[str, dict[str, int]]) -> Iterable[list[Any] | None]:
    """Yield the report of each community, or None."""
    reports = table_or_empty(snapshot, "reports")
    longest = _chars_per_text("reports", len(order["reports"]))
    for id in order["reports"]:
        report = reports.get(id)
        yield None if report is None else _report(snapshot, report, order, longest)


def _report(snapshot: Snapshot, report: Report, order: dict[str, dict[str, int]], longest: int) -> list[Any]:
    """Return a report, with the findings that fit."""

    def parts(text: str) -> list[str | list[str]]:
        return [
            part if isinstance(part, str) else _reference_targets(snapshot, part, order)
            for part in split_references(text, report)
        ]

    findings, room = [], longest - len(report.summary)
    for summary, explanation in report.findings:
        if room > 0:
            shortened = explanation if len(explanation) <= room else f"{explanation[:room].rpartition(' ')[0]} …"
            findings.append([parts(summary), parts(shortened)])
        room -= len(summary) + len(explanation)
    omitted = len(report.findings) - len(findings)
    reason, summary_parts = parts(report.reason), parts(report.summary)
    return [report.title, report.rating, reason, summary_parts, findings, int(report.extractive), omitted]


def _reference_targets(
    snapshot: Snapshot, references: list[Reference], order: dict[str, dict[str, int]]
) -> str | list[str]:
    """Return page addresses of rows, or the places of chunks as text.

    The fifth entity is e4.
    """
    places = [display_name(snapshot, reference) for reference in references if reference[0] == "chunks"]
    if places:
        return f"({'; '.join(places)})"
    return [f"{_TABLE_LETTERS[table]}{order[table][id]}" for table, id in references if id in order.get(table, {})]


def _claims(snapshot: Snapshot, order: dict[str, dict[str, int]]) -> Iterator[list[Any]]:
    longest = _chars_per_text("claims", len(order["claims"]))
    for claim in table_or_empty(snapshot, "claims"):
        ends = [order["entities"].get(end, -1) for end in (claim.subject, claim.object)]
        name = display_name(snapshot, ("claims", claim.id))
        when = " – ".join(filter(None, (claim.start, claim.end)))
        yield [name, claim.type, ", ".join(claim.statuses), shorten(claim.text, longest), ends, when]
