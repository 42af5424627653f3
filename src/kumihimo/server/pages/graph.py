"""addresses under /graph -> an entity with its relations, passages and communities; the path between two entities."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from kumihimo.app.browse import (
    Page,
    browse_communities,
    count_passages,
    find_entity,
    list_claims,
    list_entities,
    list_passages,
    list_relations,
    search_entities,
)
from kumihimo.app.community_tree import display_name
from kumihimo.app.graph_path import GraphPath, find_path
from kumihimo.app.json_values import Json, neighbour_json, relation_json
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.records import Entity
from kumihimo.server.api.reading import found
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.plain_text import marked_pieces, plain_text
from kumihimo.server.pages.reading import read_or
from kumihimo.server.pages.rendering import ReaderVisit, render
from kumihimo.text.name_keys import name_key
from kumihimo.text.tokens import mark_matches, subject_terms

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MAX_FOUND, _MAX_RELATIONS, _MAX_PASSAGES, _MAX_CLAIMS, _MAX_NAMES = 40, 30, 8, 20, 7


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """The query in an address of the graph.

    q: a part of a name. entity: an id. to: an id or a name, the end of a path. relations_after, passages_after: ids,
    where the next page begins.
    """

    q: str = ""
    entity: str = ""
    to: str = ""
    after: str = ""
    relations_after: str = ""
    passages_after: str = ""


@router.get("/graph")
async def show_graph(
    visit: ReaderVisit,
    q: str = "",
    entity: str = "",
    to: str = "",
    after: str = "",
    relations_after: str = "",
    passages_after: str = "",
) -> HTMLResponse:
    """Send the graph: a search, an entity, or a path."""
    query = GraphQuery(q.strip(), entity, to.strip(), after, relations_after, passages_after)
    empty: dict[str, Any] = {"found": Page(()), "shown": None, "path": None, "end": None, "total": 0}
    values = await read_or(visit, empty, lambda snapshot: {**empty, **_read(snapshot, query)})
    return render(visit, "graph.html", query=query, **values)


def _read(snapshot: Snapshot, query: GraphQuery) -> dict[str, Any]:
    """Return found entities, or one with all its parts."""
    if not snapshot.db.has("entities"):
        return {}
    total = len(snapshot.table("entities"))
    if not query.entity:
        return {"total": total, "found": _find(snapshot, query)}
    entity = found(find_entity(snapshot, query.entity), "entity", query.entity)
    end = find_entity(snapshot, query.to) if query.to else None
    path = _show_path(find_path(snapshot, entity, end)) if end else None
    return {"total": total, "shown": _show_entity(snapshot, entity, query), "path": path, "end": end}


def _find(snapshot: Snapshot, query: GraphQuery) -> Page[Entity]:
    """Return entities by name; by their descriptions if no name matches."""
    page = list_entities(snapshot, query.q, after=query.after, limit=_MAX_FOUND)
    if page.items or not query.q or query.after:
        return page
    return Page(tuple(search_entities(snapshot, query.q, _MAX_FOUND)))


def _show_entity(snapshot: Snapshot, entity: Entity, query: GraphQuery) -> Json:
    """Return an entity with its relations, passages, claims and communities."""
    relations = list_relations(snapshot, entity.id, after=query.relations_after, limit=_MAX_RELATIONS)
    passages = list_passages(snapshot, entity, after=query.passages_after, limit=_MAX_PASSAGES)
    tree = browse_communities(snapshot)
    communities = list(dict.fromkeys(tree.entity_path(entity.id)))
    terms = frozenset(subject_terms(" ".join((entity.name, *entity.forms))))
    return {
        "entity": entity,
        "other_names": _other_names(entity),
        "passage_count": count_passages(snapshot, entity),
        "relations": [neighbour_json(entity.id, relation) for relation in relations.items],
        "relations_next": relations.next,
        "passages": [_show_passage(span.to_dict(), terms) for span in passages.items],
        "passages_next": passages.next,
        "claims": list_claims(snapshot, entity.id, _MAX_CLAIMS),
        "communities": [(id, display_name(snapshot, ("reports", id))) for id in communities],
    }


def _other_names(entity: Entity) -> list[str]:
    """Return the names other than the one shown.

    Another spelling of the same name is none.
    """
    names = {name_key(name): name for name in reversed(entity.forms)}
    names.pop(name_key(entity.name), None)
    return [*reversed(names.values())][:_MAX_NAMES]


def _show_passage(span: Json, terms: frozenset[str]) -> Json:
    text = " ".join(plain_text(span["text"]).split())
    return {**span, "pieces": marked_pieces(text, list(mark_matches(text, terms)))}


def _show_path(path: GraphPath) -> Json:
    """Return the steps of a path, each with its entity."""
    steps = (
        [
            {"relation": relation_json(relation), "entity": entity}
            for relation, entity in zip(path.relations, path.entities[1:], strict=True)
        ]
        if path.entities
        else []
    )
    return {"first": path.entities[0] if path.entities else None, "steps": steps, "complete": path.complete}
