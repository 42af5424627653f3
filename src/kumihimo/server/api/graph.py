"""the graph -> HTTP: entities, their relations and paths, communities and their reports."""

from collections.abc import Iterable
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse, graph_path, json_values as values
from kumihimo.app.browse.community_tree import table_or_empty
from kumihimo.core.records import Entity, Relation
from kumihimo.server import access, problems
from kumihimo.server.api.parameters import Cursor, Limit, RowId, SearchText

router = APIRouter(tags=["graph"])
reports_router = APIRouter(tags=["reports"])
_MAX_CLAIMS = 50
EntityType = Annotated[str, Query(alias="type", max_length=200, description="The main type.")]
EntityId = Annotated[str, Query(max_length=2000, description="An id, a name, or a form of a name.")]
_MAX_MEMBERS = 200
_MAX_PASSAGES = 500  # that are counted by document
Parent = Annotated[str, Query(max_length=200, description="Only the parts of this community.")]
Level = Annotated[int | None, Query(ge=0, le=100, description="All of this level; 0 has the largest.")]


class TreePart(BaseModel):
    """The query for a page of communities: those in one, or of a level; without both, of level 0."""

    parent: Parent = ""
    level: Level = None
    after: Cursor = ""
    limit: Limit = 50

    def select(self, snapshot: Snapshot) -> list[str]:
        """Return these communities, largest first."""
        tree = browse.browse_communities(snapshot)
        if self.parent:
            problems.require_row(tree.level.get(self.parent), "community", self.parent)
            return tree.sorted_children(self.parent)
        return tree.roots() if self.level is None else tree.at_level(self.level)

    def page(self, snapshot: Snapshot, ids: list[str], name: str) -> values.Json:
        """Return a page of communities under a name."""
        first = ids.index(self.after) + 1 if self.after in ids else 0 if not self.after else len(ids)
        taken = ids[first : first + self.limit]
        return {name: _rows(snapshot, taken), "next": taken[-1] if len(ids) > first + self.limit else ""}


AskedPart = Annotated[TreePart, Query()]


@access.read_route(router, "/entities", "entities")
def list_entities(
    snapshot: Snapshot, q: SearchText = "", kind: EntityType = "", after: Cursor = "", limit: Limit = 50
) -> values.Json:
    """List entities, most mentions first.

    Without `q`, those that are named things; `other` counts the rest. With `q`, those with this part of a name. Where
    no name has it, descriptions are searched, if the index has their words; `found_by` says so.
    """
    page = browse.list_entities(snapshot, q, kind=kind, after=after, limit=limit)
    entities, found_by = list(page.items), "names"
    if q.strip() and not entities and not after:
        hits = browse.search_entities(snapshot, q, limit)
        entities, found_by = [e for e in hits if not kind or e.type == kind], "descriptions"
    rows = [_summary(entity) for entity in entities]
    return {"entities": rows, "next": page.next, "found_by": found_by, **browse.count_listed(snapshot)}


def _summary(entity: Entity) -> values.Json:
    return {**values.entity_json(entity), "text": entity.text}


@access.read_route(router, "/entities/{id}", "entities")
def get_entity(snapshot: Snapshot, id: RowId) -> values.Json:
    """Return an entity by its id, name or form.

    It has its types, first relations, claims and communities.
    """
    entity = _find(snapshot, id)
    relations = browse.list_relations(snapshot, entity.id, limit=20)
    return {
        **_summary(entity),
        "types": values.plain(entity.types),
        "relations": [values.neighbour_json(entity.id, relation) for relation in relations.items],
        "next": relations.next,
        "claims": [values.claim_json(claim) for claim in browse.list_claims(snapshot, entity.id, _MAX_CLAIMS)],
        "communities": [values.title_json(snapshot, id) for id in browse.communities_of(snapshot, entity.id)],
    }


@access.read_route(router, "/entities/{id}/relations", "entities")
def list_relations(snapshot: Snapshot, id: RowId, after: Cursor = "", limit: Limit = 20) -> values.Json:
    """List the relations of an entity, most mentions first."""
    entity = _find(snapshot, id)
    page = browse.list_relations(snapshot, entity.id, after=after, limit=limit)
    return {"relations": [values.neighbour_json(entity.id, relation) for relation in page.items], "next": page.next}


@access.read_route(router, "/entities/{id}/passages", "entities")
def list_passages(snapshot: Snapshot, id: RowId, after: Cursor = "", limit: Limit = 20) -> values.Json:
    """List excerpts of the passages that mention an entity."""
    page = browse.list_passages(snapshot, _find(snapshot, id), after=after, limit=limit)
    return {"passages": [span.to_dict() for span in page.items], "next": page.next}


@access.read_route(router, "/entities/{id}/neighbours", "entities")
def list_neighbours(snapshot: Snapshot, id: RowId, limit: Annotated[int, Query(ge=1, le=60)] = 20) -> values.Json:
    """Return the closest neighbours of an entity, and all relations between them."""
    near = browse.find_neighbours(snapshot, _find(snapshot, id), limit)
    return {**_graph_json(near.entities, near.relations), "more": near.more}


@access.read_route(router, "/path", "entities")
def get_path(
    snapshot: Snapshot, start: Annotated[EntityId, Query(alias="from")], end: Annotated[EntityId, Query(alias="to")]
) -> values.Json:
    """Return the shortest path between two entities.

    Without a path, both lists are empty. `complete` is false if the graph around them is too large to be searched.
    """
    path = graph_path.find_path(snapshot, _find(snapshot, start), _find(snapshot, end))
    return {**_graph_json(path.entities, path.relations), "complete": path.complete}


def _graph_json(entities: Iterable[Entity], relations: Iterable[Relation]) -> values.Json:
    return {
        "entities": list(map(values.entity_json, entities)),
        "relations": list(map(values.relation_json, relations)),
    }


def _find(snapshot: Snapshot, id: str) -> Entity:
    return problems.require_row(browse.find_entity(snapshot, id), "entity", id)


@access.read_route(reports_router, "/communities", "reports")
def list_communities(snapshot: Snapshot, part: AskedPart) -> values.Json:
    """List communities, largest first.

    Without `parent` and `level`, those of level 0.
    """
    return part.page(snapshot, part.select(snapshot), "communities")


@access.read_route(reports_router, "/communities/{id}", "reports")
def get_community(snapshot: Snapshot, id: RowId) -> values.Json:
    """Return a community with its neighbours in the tree.

    `above` has the communities that it is part of, `parts` its own; a leaf has `members`, its entities.
    """
    tree = browse.browse_communities(snapshot)
    problems.require_row(tree.level.get(id), "community", id)
    entities = table_or_empty(snapshot, "entities")
    members = entities.get_many(islice(tree.members[id], _MAX_MEMBERS)).values()
    return {
        **_rows(snapshot, [id])[0],
        "above": _rows(snapshot, tree.ancestors(id)[:-1]),
        "parts": _rows(snapshot, tree.sorted_children(id)[:_MAX_MEMBERS]),
        "members": [values.entity_json(entity) for entity in members],
    }


@access.read_route(reports_router, "/reports", "reports")
def list_reports(snapshot: Snapshot, part: AskedPart) -> values.Json:
    """List reports, those on the largest communities first.

    Without `parent` and `level`, those of level 0.
    """
    written = table_or_empty(snapshot, "reports")
    return part.page(snapshot, [id for id in part.select(snapshot) if written.ids(id=id)], "reports")


@access.read_route(reports_router, "/reports/{id}", "reports")
def get_report(snapshot: Snapshot, id: RowId) -> values.Json:
    """Return a report with its findings and their sources."""
    report = problems.require_row(table_or_empty(snapshot, "reports").get(id), "report", id)
    return values.report_json(snapshot, browse.browse_communities(snapshot), report, most_passages=_MAX_PASSAGES)


def _rows(snapshot: Snapshot, ids: list[str]) -> list[values.Json]:
    tree, reports = browse.browse_communities(snapshot), table_or_empty(snapshot, "reports").get_many(ids)
    return [values.community_json(tree, id, reports.get(id)) for id in ids]
