"""a community -> the context of its report: which elements and which reports of its parts, and how they are written."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal, TypeVar

from kumihimo.core.records import Claim, Community, Entity, Relation, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import NAMES, unmarked

Order = Literal["content", "paper"]
Element = Entity | Relation | Claim | Report
E = TypeVar("E", Entity, Relation, Claim, Report)

# Tokens of a line beside its text, as a rule: number, commas, names; of a claim type, status and dates too. Counted
# so, no text is counted twice, and what a community holds is a sum.
LINE: dict[type[Element], int] = {Entity: 10, Relation: 14, Claim: 30, Report: 4}


@dataclass(frozen=True, slots=True)
class Graph:
    """The tables that reports are made from."""

    communities: Table[Community]
    entities: Table[Entity]
    relations: Table[Relation]
    claims: Table[Claim]
    reports: Table[Report]


@dataclass(frozen=True, slots=True)
class Near:
    """Entities and the edges between them, those whose ends have most edges in the whole graph first."""

    entities: dict[str, Entity]
    edges: list[Relation]
    degrees: dict[str, int]


@dataclass(frozen=True, slots=True)
class Selected:
    """What a report is written from, in the order in which it is numbered. elements: tokens of all there would be."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    claims: tuple[Claim, ...]
    reports: tuple[Report, ...]
    elements: int

    @property
    def numbered(self) -> dict[str, tuple[str, ...]]:
        """table -> ids, the first of which is number 1."""
        return {
            "entities": tuple(e.id for e in self.entities),
            "relations": tuple(r.id for r in self.relations),
            "claims": tuple(c.id for c in self.claims),
            "reports": tuple(r.id for r in self.reports),
        }


def selected(community: Community, graph: Graph, *, window: int, order: Order = "content") -> Selected:
    """What fits into `window` tokens (GraphRAG, arXiv:2404.16130, section 3.1.5).

    Of a leaf: edge by edge, those of the highest combined degree first, what is not yet there of source, target, edge,
    claims about either, up to the first that does not fit. Of a community with parts, if that is too much: the
    reports of its parts in place of their elements, the largest part first, until it fits.

    But: entities without an edge inside come last, instead of never. A report that is no shorter than what it would
    replace replaces nothing. The first element stays however long it is. `order`: "content" numbers what was selected
    by name and text, so that an edge elsewhere does not change the prompt; "paper" as it was selected.
    """
    taken, items = _parted(community, graph, window) if community.children else ([], _whole(community, graph))
    elements = sum(report.elements for report in taken) + sum(map(cost, items))
    kept = list(_until(window, [*taken, *items]))
    return Selected(
        _those(Entity, kept, order), _those(Relation, kept, order), _those(Claim, kept, order),
        _those(Report, kept, order), elements,
    )  # fmt: skip


def cost(element: Element) -> int:
    """Tokens of its line in a prompt, or nearly."""
    return element.tokens + LINE[type(element)]


def near(graph: Graph, members: Iterable[str], beyond: Collection[str] = ()) -> Near:
    """The members that are there and the edges between them, and between them and entities `beyond`.

    An edge is inside if it begins at one member and ends at one: the ids tell, without reading those that leave.
    """
    entities = {id: entity for id in members if (entity := graph.entities.get(id))}
    begin: set[str] = set()
    end: set[str] = set()
    degrees: dict[str, int] = {}
    for id in entities:
        sources, targets = graph.relations.ids(source=id), graph.relations.ids(target=id)
        degrees[id] = len(sources) + len(targets)
        begin.update(sources)
        end.update(targets)
    edges = [edge for id in sorted(begin & end) if (edge := graph.relations.get(id))]
    for id in sorted(begin ^ end) if beyond else ():
        edge = graph.relations.get(id)
        if edge and (edge.source in beyond or edge.target in beyond):
            edges.append(edge)
    for id in sorted({end for edge in edges for end in (edge.source, edge.target)} - degrees.keys()):
        degrees[id] = len(graph.relations.ids(source=id)) + len(graph.relations.ids(target=id))
    edges.sort(key=lambda e: (-degrees[e.source] - degrees[e.target], e.names, e.text, e.id))
    return Near(entities, edges, degrees)


def members(graph: Graph, community: Community) -> Iterator[str]:
    """The entities of all leaves of a community."""
    yield from community.members
    for id in community.children:
        if child := graph.communities.get(id):
            yield from members(graph, child)


def _whole(community: Community, graph: Graph) -> list[Element]:
    found = near(graph, community.members)
    return list(_elements(graph, found, found.entities.keys()))


def _elements(graph: Graph, found: Near, staying: Collection[str]) -> Iterator[Element]:
    """All there is to say of the entities that stay, in the order in which it is added."""
    told: set[str] = set()
    for edge in found.edges:
        ends = [id for id in dict.fromkeys((edge.source, edge.target)) if id in staying]
        fresh = [id for id in ends if id not in told]
        told.update(fresh)
        yield from (found.entities[id] for id in fresh)
        if ends:
            yield edge
        for id in fresh:
            yield from _claims(graph, id)
    rest = [found.entities[id] for id in staying if id in found.entities and id not in told]
    for entity in sorted(rest, key=lambda e: (-found.degrees[e.id], e.name, e.text, e.id)):
        yield entity
        yield from _claims(graph, entity.id)


def _claims(graph: Graph, subject: str) -> list[Claim]:
    return sorted(graph.claims.where(subject=subject), key=_content)


def _parted(community: Community, graph: Graph, window: int) -> tuple[list[Report], list[Element]]:
    """The reports that are taken in place of parts, and the elements that stay.

    What the reports say of their length and their parts' decides first: a part that is surely replaced is never read.
    """
    known = {id: report for id in community.children if (report := graph.reports.get(id))}
    shorter = [id for id, report in known.items() if cost(report) < report.elements]
    ranked = sorted(shorter, key=lambda id: (-known[id].elements, *_content(known[id])))
    size = sum(report.elements for report in known.values())
    taken = 0
    while taken < len(ranked) and size > window:
        size -= known[ranked[taken]].elements - cost(known[ranked[taken]])
        taken += 1
    parts = _parts(community, graph) if taken < len(community.children) else {}
    found = _left(graph, parts, set(ranked[:taken]))
    while True:
        gone = set(ranked[:taken])
        reports = [known[id] for id in ranked[:taken]]
        staying = {member for id in parts.keys() - gone for member in parts[id]} & found.entities.keys()
        items = list(_elements(graph, found, staying))
        if taken == len(ranked) or sum(map(cost, [*reports, *items])) <= window:
            return reports, items
        taken += 1


def _parts(community: Community, graph: Graph) -> dict[str, list[str]]:
    """child -> its entities."""
    children = {id: child for id in community.children if (child := graph.communities.get(id))}
    return {id: list(members(graph, child)) for id, child in children.items()}


def _left(graph: Graph, parts: dict[str, list[str]], gone: Collection[str]) -> Near:
    """The entities of the parts that are not gone, with the edges to those that are."""
    beyond = {member for id in gone for member in parts.get(id, ())}
    return near(graph, (member for id, part in parts.items() if id not in gone for member in part), beyond)


def _until(window: int, elements: Iterable[Element]) -> Iterator[Element]:
    """The first, and all up to the first that would pass the window."""
    used = 0
    for element in elements:
        if used and used + cost(element) > window:
            return
        used += cost(element)
        yield element


def _those(kind: type[E], kept: list[Element], order: Order) -> tuple[E, ...]:
    found = [element for element in kept if isinstance(element, kind)]
    return tuple(sorted(found, key=_content) if order == "content" else found)


def _content(element: Element) -> tuple[str, ...]:
    """What elements of a kind are sorted by: what is written of them; an id decides only between what reads alike."""
    if isinstance(element, Entity):
        return (element.name, element.type, element.text, element.id)
    if isinstance(element, Report):
        return (element.title, element.text, element.id)
    return (*element.names, element.type if isinstance(element, Claim) else "", element.text, element.id)


def rendered(found: Selected) -> str:
    """The context of a report: a table for each kind of element, whose rows are numbered from 1.

    References within the reports of parts are left out: their numbers mean something else here.
    """
    names = {entity.id: entity.name for entity in found.entities}
    entities = [(e.name, e.type, e.text) for e in found.entities]
    relations = [(*_ends(names, (r.source, r.target), r.names), r.text) for r in found.relations]
    claims = [
        (*_ends(names, (c.subject, c.object), c.names), c.type, ", ".join(c.statuses), c.start, c.end, c.text)
        for c in found.claims
    ]
    sections = [
        _section("entities", ["name", "type", "description"], entities),
        _section("relations", ["source", "target", "description"], relations),
        _section("claims", ["subject", "object", "type", "status", "from", "to", "description"], claims),
        _section("reports", ["report"], [(unmarked(r.text),) for r in found.reports]),
    ]
    return "\n\n".join(filter(None, sections))


def _ends(names: dict[str, str], ids: tuple[str, str], said: Sequence[str]) -> tuple[str, str]:
    """Two entities by the names under which they are listed, else by those they have here."""
    one, other = (*said, "", "")[:2]
    return names.get(ids[0], one), names.get(ids[1], other)


def _section(table: str, columns: list[str], rows: Sequence[tuple[str, ...]]) -> str:
    """
    >>> print(_section("entities", ["name", "type", "description"], [("Ann", "", "A, the first."), ("Bo", "", "B.")]))
    Entities:
    number,name,description
    1,Ann,"A, the first."
    2,Bo,B.
    """
    if not rows:
        return ""
    filled = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    out = StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(["number", *(columns[i] for i in filled)])
    for number, row in enumerate(rows, 1):
        write([number, *(row[i] for i in filled)])
    return f"{NAMES[table]}:\n{out.getvalue().rstrip()}"
