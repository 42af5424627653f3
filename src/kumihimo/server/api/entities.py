"""the graph -> HTTP: entities by name, one of them, its neighbours, and the path between two."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse
from kumihimo.app.browse.graph_path import find_path
from kumihimo.core.records import Entity
from kumihimo.server.access import Reader
from kumihimo.server.api.parameters import Cursor, PageSize, RowId, SearchText
from kumihimo.server.api.reading import found, read_index
from kumihimo.server.json_values import (
    Json,
    claim_json,
    entity_json,
    neighbour_json,
    plain,
    relation_json,
    title_json,
)

router = APIRouter(tags=["graph"])
_MAX_CLAIMS = 50
EntityType = Annotated[str, Query(alias="type", max_length=200, description="The main type.")]
EntityId = Annotated[str, Query(max_length=2000, description="An id, a name, or a form of a name.")]


@router.get("/entities")
async def list_entities(
    request: Request,
    access: Reader,
    q: SearchText = "",
    kind: EntityType = "",
    after: Cursor = "",
    limit: PageSize = 50,
) -> JSONResponse:
    """List entities, most mentions first.

    With `q`, those with this part of a name. Where no name has it, descriptions are searched, if the index has their
    words; `found_by` says so.
    """

    def read(snapshot: Snapshot) -> Json:
        page = browse.list_entities(snapshot, q, kind=kind, after=after, limit=limit)
        entities, found_by = list(page.items), "names"
        if q.strip() and not entities and not after:
            hits = browse.search_entities(snapshot, q, limit)
            entities, found_by = [e for e in hits if not kind or e.type == kind], "descriptions"
        return {"entities": [_summary(entity) for entity in entities], "next": page.next, "found_by": found_by}

    return JSONResponse(await read_index(request, access, read))


def _summary(entity: Entity) -> Json:
    return {**entity_json(entity), "text": entity.text}


@router.get("/entities/{id}")
async def get_entity(request: Request, access: Reader, id: RowId) -> JSONResponse:
    """Return an entity by its id, name or form.

    It has its types, first relations, claims and communities.
    """

    def read(snapshot: Snapshot) -> Json:
        entity = _find(snapshot, id)
        relations = browse.list_relations(snapshot, entity.id, limit=20)
        return {
            **_summary(entity),
            "types": plain(entity.types),
            "relations": [neighbour_json(entity.id, relation) for relation in relations.items],
            "next": relations.next,
            "claims": [claim_json(claim) for claim in browse.list_claims(snapshot, entity.id, _MAX_CLAIMS)],
            "communities": [title_json(snapshot, id) for id in browse.communities_of(snapshot, entity.id)],
        }

    return JSONResponse(await read_index(request, access, read))


@router.get("/entities/{id}/relations")
async def list_relations(
    request: Request, access: Reader, id: RowId, after: Cursor = "", limit: PageSize = 20
) -> JSONResponse:
    """List the relations of an entity, most mentions first."""

    def read(snapshot: Snapshot) -> Json:
        entity = _find(snapshot, id)
        page = browse.list_relations(snapshot, entity.id, after=after, limit=limit)
        return {"relations": [neighbour_json(entity.id, relation) for relation in page.items], "next": page.next}

    return JSONResponse(await read_index(request, access, read))


@router.get("/entities/{id}/passages")
async def list_passages(
    request: Request, access: Reader, id: RowId, after: Cursor = "", limit: PageSize = 20
) -> JSONResponse:
    """List excerpts of the passages that mention an entity."""

    def read(snapshot: Snapshot) -> Json:
        page = browse.list_passages(snapshot, _find(snapshot, id), after=after, limit=limit)
        return {"passages": [span.to_dict() for span in page.items], "next": page.next}

    return JSONResponse(await read_index(request, access, read))


@router.get("/entities/{id}/neighbours")
async def list_neighbours(
    request: Request, access: Reader, id: RowId, limit: Annotated[int, Query(ge=1, le=60)] = 20
) -> JSONResponse:
    """Return the closest neighbours of an entity, and all relations between them."""

    def read(snapshot: Snapshot) -> Json:
        near = browse.find_neighbours(snapshot, _find(snapshot, id), limit)
        return {
            "entities": [entity_json(entity) for entity in near.entities],
            "relations": [relation_json(relation) for relation in near.relations],
            "more": near.more,
        }

    return JSONResponse(await read_index(request, access, read))


@router.get("/path")
async def get_path(
    request: Request,
    access: Reader,
    start: Annotated[EntityId, Query(alias="from")],
    end: Annotated[EntityId, Query(alias="to")],
) -> JSONResponse:
    """Return the shortest path between two entities.

    Without a path, both lists are empty. `complete` is false if the graph around them is too large to be searched.
    """

    def read(snapshot: Snapshot) -> Json:
        path = find_path(snapshot, _find(snapshot, start), _find(snapshot, end))
        return {
            "entities": [entity_json(entity) for entity in path.entities],
            "relations": [relation_json(relation) for relation in path.relations],
            "complete": path.complete,
        }

    return JSONResponse(await read_index(request, access, read))


def _find(snapshot: Snapshot, id: str) -> Entity:
    return found(browse.find_entity(snapshot, id), "entity", id)
