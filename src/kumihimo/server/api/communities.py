"""communities and their reports -> HTTP: one level of the tree at a time, and each of them whole."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse
from kumihimo.app.browse.community_tree import CommunityTree, table_or_empty
from kumihimo.server.access import Reader
from kumihimo.server.api.parameters import Cursor, PageSize, RowId
from kumihimo.server.api.reading import found, read_index
from kumihimo.server.json_values import Json, community_json, entity_json, report_json

router = APIRouter(tags=["reports"])
_MAX_MEMBERS = 200
_MAX_PASSAGES = 500  # that are counted by document
Parent = Annotated[str, Query(max_length=200, description="Only the parts of this community.")]
Level = Annotated[int | None, Query(ge=0, le=100, description="All of this level; 0 has the largest.")]


@router.get("/communities")
async def list_communities(
    request: Request,
    access: Reader,
    parent: Parent = "",
    level: Level = None,
    after: Cursor = "",
    limit: PageSize = 50,
) -> JSONResponse:
    """List communities, largest first.

    Without `parent` and `level`, those of level 0.
    """

    def read(snapshot: Snapshot) -> Json:
        ids, following = _page(_select(browse.browse_communities(snapshot), parent, level), after, limit)
        return {"communities": _rows(snapshot, ids), "next": following}

    return JSONResponse(await read_index(request, access, read))


@router.get("/communities/{id}")
async def get_community(request: Request, access: Reader, id: RowId) -> JSONResponse:
    """Return a community with its neighbours in the tree.

    `above` has the communities that it is part of, `parts` its own; a leaf has `members`, its entities.
    """

    def read(snapshot: Snapshot) -> Json:
        tree = browse.browse_communities(snapshot)
        found(tree.level.get(id), "community", id)
        entities = table_or_empty(snapshot, "entities")
        members = entities.get_many(islice(tree.members[id], _MAX_MEMBERS)).values()
        return {
            **_rows(snapshot, [id])[0],
            "above": _rows(snapshot, tree.ancestors(id)[:-1]),
            "parts": _rows(snapshot, tree.sorted_children(id)[:_MAX_MEMBERS]),
            "members": [entity_json(entity) for entity in members],
        }

    return JSONResponse(await read_index(request, access, read))


@router.get("/reports")
async def list_reports(
    request: Request,
    access: Reader,
    parent: Parent = "",
    level: Level = None,
    after: Cursor = "",
    limit: PageSize = 50,
) -> JSONResponse:
    """List reports, those on the largest communities first.

    Without `parent` and `level`, those of level 0.
    """

    def read(snapshot: Snapshot) -> Json:
        selected = _select(browse.browse_communities(snapshot), parent, level)
        written = table_or_empty(snapshot, "reports")
        ids, following = _page([id for id in selected if written.ids(id=id)], after, limit)
        return {"reports": _rows(snapshot, ids), "next": following}

    return JSONResponse(await read_index(request, access, read))


@router.get("/reports/{id}")
async def get_report(request: Request, access: Reader, id: RowId) -> JSONResponse:
    """Return a report with its findings and their sources."""

    def read(snapshot: Snapshot) -> Json:
        report = found(table_or_empty(snapshot, "reports").get(id), "report", id)
        return report_json(snapshot, browse.browse_communities(snapshot), report, most_passages=_MAX_PASSAGES)

    return JSONResponse(await read_index(request, access, read))


def _select(tree: CommunityTree, parent: str, level: int | None) -> list[str]:
    """Return the communities of a part of the tree, largest first."""
    if parent:
        found(tree.level.get(parent), "community", parent)
        return tree.sorted_children(parent)
    return tree.roots() if level is None else tree.at_level(level)


def _page(ids: list[str], after: str, limit: int) -> tuple[list[str], str]:
    first = ids.index(after) + 1 if after in ids else 0 if not after else len(ids)
    taken = ids[first : first + limit]
    return taken, taken[-1] if len(ids) > first + limit else ""


def _rows(snapshot: Snapshot, ids: list[str]) -> list[Json]:
    tree, reports = browse.browse_communities(snapshot), table_or_empty(snapshot, "reports").get_many(ids)
    return [community_json(tree, id, reports.get(id)) for id in ids]
