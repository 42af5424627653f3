"""the documents of an index, or of a folder or year -> a page: how many, of what, from when, and on which topics."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.browse import browse_overview, name_value
from kumihimo.app.browse.community_tree import table_or_empty
from kumihimo.app.browse.json_values import overview_json
from kumihimo.server.pages.context import AllowedPage, read_or
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.rendering import render
from kumihimo.server.problems import found

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/overview")
async def show_overview(page: AllowedPage, part: str = "") -> HTMLResponse:
    """Send the overview of all documents, or of a folder or year."""

    def read(snapshot: Snapshot) -> dict[str, Any]:
        overview = found(browse_overview(snapshot, part.strip()), "folder or year", part)
        return {"overview": overview_json(snapshot, overview), "reports": len(table_or_empty(snapshot, "reports"))}

    values = await read_or(page, {"overview": None, "reports": 0}, read)
    return await render(page, "overview.html", **values, part=part.strip(), name_value=name_value)
