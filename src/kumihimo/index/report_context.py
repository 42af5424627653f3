"""a community -> the context of its report: which elements and which reports of its parts, and how they are written."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Literal, TypeVar

from kumihimo.core.records import Claim, Community, Entity, Relation, Report
from kumihimo.core.table import Table
from kumihimo.index.data_refs import TABLE_NAMES, strip_references

ElementOrder = Literal["content", "paper"]
Element = Entity | Relation | Claim | Report
E = TypeVar("E", Entity, Relation, Claim, Report)

# Tokens of a line beside its text, as a rule: number, commas, names; of a claim type, status and dates too. Counted
# so, no text is counted twice, and what a community holds is a sum.
LINE_OVERHEAD: dict[type[Element], int] = {Entity: 10, Relation: 14, Claim: 30, Report: 4}


@dataclass(frozen=True, slots=True)
class ReportTables:
    """The tables that reports are made from."""

    communities: Table[Community]
    entities: Table[Entity]
    relations: Table[Relation]
    claims: Table[Claim]
    reports: Table[Report]


@dataclass(frozen=True, slots=True)
class CommunitySubgraph:
    """Entities and the edges between them, those whose ends have most edges in the whole graph first."""

    entities: dict[str, Entity]
    edges: list[Relation]
    degrees: dict[str, int]


@dataclass(frozen=True, slots=True)
class ReportContext:
    """What a report is written from, in the order in which it is numbered. elements: tokens of all there would be."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    claims: tuple[Claim, ...]
    reports: tuple[Report, ...]
    elements: int

    @property
    def ids_by_table(self) -> dict[str, tuple[str, ...]]:
        """table -> ids, the first of which is number 1."""
        return {
            "entities": tuple(e.id for e in self.entities),
            "relations": tuple(r.id for r in self.relations),
            "claims": tuple(c.id for c in self.claims),
            "reports": tuple(r.id for r in self.reports),
        }


def select_report_context(
    community: Community, tables: ReportTables, *, window: int, order: ElementOrder = "content"
) -> ReportContext:
    """What fits into `window` tokens (GraphRAG, arXiv:2404.16130, section 3.1.5).

    Of a leaf: edge by edge, those of the highest combined degree first, what is not yet there of source, target, edge,
    claims about either, up to the first that does not fit. Of a community with parts, if that is too much: the
    reports of its parts in place of their elements, the largest part first, until it fits.

    But: entities without an edge inside come last, instead of never. A report that is no shorter than what it would
    replace replaces nothing. The first element stays however long it is. `order`: "content" numbers what was selected
    by name and text, so that an edge elsewhere does not change the prompt; "paper" as it was selected.
    """
    taken, items = (
        _substitute_reports(community, tables, window)
        if community.children
        else ([], _leaf_elements(community, tables))
    )
    elements = sum(report.elements for report in taken) + sum(map(line_tokens, items))
    kept = list(_fit_window(window, [*taken, *items]))
    return ReportContext(
        _elements_of_kind(Entity, kept, order), _elements_of_kind(Relation, kept, order), _elements_of_kind(Claim, kept, order),
        _elements_of_kind(Report, kept, order), elements,
    )  # fmt: skip


def line_tokens(element: Element) -> int:
    """Tokens of its line in a prompt, or nearly."""
    return element.tokens + LINE_OVERHEAD[type(element)]


def community_subgraph(
    tables: ReportTables, members: Iterable[str], outside: Collection[str] = ()
) -> CommunitySubgraph:
    """The members that are there and the edges between them, and between them and entities `beyond`.

    An edge is inside if it begins at one member and ends at one: the ids tell, without reading those that leave.
    """
    entities = {id: entity for id in members if (entity := tables.entities.get(id))}
    begin: set[str] = set()
    end: set[str] = set()
    degrees: dict[str, int] = {}
    for id in entities:
        sources, targets = tables.relations.ids(source=id), tables.relations.ids(target=id)
        degrees[id] = len(sources) + len(targets)
        begin.update(sources)
        end.update(targets)
    edges = [edge for id in sorted(begin & end) if (edge := tables.relations.get(id))]
    for id in sorted(begin ^ end) if outside else ():
        edge = tables.relations.get(id)
        if edge and (edge.source in outside or edge.target in outside):
            edges.append(edge)
    for id in sorted({end for edge in edges for end in (edge.source, edge.target)} - degrees.keys()):
        degrees[id] = len(tables.relations.ids(source=id)) + len(tables.relations.ids(target=id))
    edges.sort(key=lambda e: (-degrees[e.source] - degrees[e.target], e.names, e.text, e.id))
    return CommunitySubgraph(entities, edges, degrees)


def community_entities(tables: ReportTables, community: Community) -> Iterator[str]:
    """The entities of all leaves of a community."""
    yield from community.members
    for id in community.children:
        if child := tables.communities.get(id):
            yield from community_entities(tables, child)


def _leaf_elements(community: Community, tables: ReportTables) -> list[Element]:
    found = community_subgraph(tables, community.members)
    return list(_ordered_elements(tables, found, found.entities.keys()))


def _ordered_elements(
    tables: ReportTables, subgraph: CommunitySubgraph, included: Collection[str]
) -> Iterator[Element]:
    """All there is to say of the entities that stay, in the order in which it is added."""
    told: set[str] = set()
    for edge in subgraph.edges:
        ends = [id for id in dict.fromkeys((edge.source, edge.target)) if id in included]
        fresh = [id for id in ends if id not in told]
        told.update(fresh)
        yield from (subgraph.entities[id] for id in fresh)
        if ends:
            yield edge
        for id in fresh:
            yield from _claims_about(tables, id)
    rest = [subgraph.entities[id] for id in included if id in subgraph.entities and id not in told]
    for entity in sorted(rest, key=lambda e: (-subgraph.degrees[e.id], e.name, e.text, e.id)):
        yield entity
        yield from _claims_about(tables, entity.id)


def _claims_about(tables: ReportTables, subject: str) -> list[Claim]:
    return sorted(tables.claims.where(subject=subject), key=_content_key)


def _substitute_reports(community: Community, tables: ReportTables, window: int) -> tuple[list[Report], list[Element]]:
    """The reports that are taken in place of parts, and the elements that stay.

    What the reports say of their length and their parts' decides first: a part that is surely replaced is never read.
    """
    known = {id: report for id in community.children if (report := tables.reports.get(id))}
    shorter = [id for id, report in known.items() if line_tokens(report) < report.elements]
    ranked = sorted(shorter, key=lambda id: (-known[id].elements, *_content_key(known[id])))
    size = sum(report.elements for report in known.values())
    taken = 0
    while taken < len(ranked) and size > window:
        size -= known[ranked[taken]].elements - line_tokens(known[ranked[taken]])
        taken += 1
    parts = _child_entities(community, tables) if taken < len(community.children) else {}
    found = _remaining_subgraph(tables, parts, set(ranked[:taken]))
    while True:
        gone = set(ranked[:taken])
        reports = [known[id] for id in ranked[:taken]]
        staying = {member for id in parts.keys() - gone for member in parts[id]} & found.entities.keys()
        items = list(_ordered_elements(tables, found, staying))
        if taken == len(ranked) or sum(map(line_tokens, [*reports, *items])) <= window:
            return reports, items
        taken += 1


def _child_entities(community: Community, tables: ReportTables) -> dict[str, list[str]]:
    """child -> its entities."""
    children = {id: child for id in community.children if (child := tables.communities.get(id))}
    return {id: list(community_entities(tables, child)) for id, child in children.items()}


def _remaining_subgraph(
    tables: ReportTables, parts: dict[str, list[str]], replaced: Collection[str]
) -> CommunitySubgraph:
    """The entities of the parts that are not gone, with the edges to those that are."""
    beyond = {member for id in replaced for member in parts.get(id, ())}
    return community_subgraph(
        tables, (member for id, part in parts.items() if id not in replaced for member in part), beyond
    )


def _fit_window(window: int, elements: Iterable[Element]) -> Iterator[Element]:
    """The first, and all up to the first that would pass the window."""
    used = 0
    for element in elements:
        if used and used + line_tokens(element) > window:
            return
        used += line_tokens(element)
        yield element


def _elements_of_kind(kind: type[E], elements: list[Element], order: ElementOrder) -> tuple[E, ...]:
    found = [element for element in elements if isinstance(element, kind)]
    return tuple(sorted(found, key=_content_key) if order == "content" else found)


def _content_key(element: Element) -> tuple[str, ...]:
    """What elements of a kind are sorted by: what is written of them; an id decides only between what reads alike."""
    if isinstance(element, Entity):
        return (element.name, element.type, element.text, element.id)
    if isinstance(element, Report):
        return (element.title, element.text, element.id)
    return (*element.names, element.type if isinstance(element, Claim) else "", element.text, element.id)


def render_report_context(context: ReportContext) -> str:
    """The context of a report: a table for each kind of element, whose rows are numbered from 1.

    References within the reports of parts are left out: their numbers mean something else here.
    """
    names = {entity.id: entity.name for entity in context.entities}
    entities = [(e.name, e.type, e.text) for e in context.entities]
    relations = [(*_end_names(names, (r.source, r.target), r.names), r.text) for r in context.relations]
    claims = [
        (*_end_names(names, (c.subject, c.object), c.names), c.type, ", ".join(c.statuses), c.start, c.end, c.text)
        for c in context.claims
    ]
    sections = [
        _table_section("entities", ["name", "type", "description"], entities),
        _table_section("relations", ["source", "target", "description"], relations),
        _table_section("claims", ["subject", "object", "type", "status", "from", "to", "description"], claims),
        _table_section("reports", ["report"], [(strip_references(r.text),) for r in context.reports]),
    ]
    return "\n\n".join(filter(None, sections))


def _end_names(names: dict[str, str], ids: tuple[str, str], own_names: Sequence[str]) -> tuple[str, str]:
    """Two entities by the names under which they are listed, else by those they have here."""
    one, other = (*own_names, "", "")[:2]
    return names.get(ids[0], one), names.get(ids[1], other)


def _table_section(table: str, columns: list[str], rows: Sequence[tuple[str, ...]]) -> str:
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
    return f"{TABLE_NAMES[table]}:\n{out.getvalue().rstrip()}"
