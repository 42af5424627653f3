"""a row of a table -> HTTP: the passages that it comes from, each within its page."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.source_files import surround
from kumihimo.server.access import Reader
from kumihimo.server.api.parameters import RowId, Table
from kumihimo.server.api.reading import found, read_index
from kumihimo.server.json_values import Json
from kumihimo.server.problems import NotFound

router = APIRouter(tags=["documents"])
_MAX_AROUND = 5000  # characters


@router.get("/trace/{table}/{id:path}")
async def trace(
    request: Request,
    access: Reader,
    table: Table,
    id: RowId,
    around: Annotated[int, Query(ge=0, le=_MAX_AROUND, description="Characters before and after.")] = 600,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> JSONResponse:
    """Return the passages that a row comes from.

    Each has its `page`: the text around it, no more than its page, slide or sheet, with `start` and `end` of the
    passage in this text. `more` says whether there are further passages.
    """

    def read(snapshot: Snapshot) -> Json:
        if table not in snapshot.record_types or not snapshot.db.has(table):
            raise NotFound(f"no table {table!r} here: a piece of evidence has `table` and `id`")
        row = found(snapshot.table(table).get(id), "row", id)
        spans = list(islice(snapshot.trace((table, id)), limit + 1))
        pages = [{**span.to_dict(), "page": surround(snapshot, span, around)} for span in spans[:limit]]
        return {"table": table, "id": id, "text": row.text, "spans": pages, "more": len(spans) > limit}

    return JSONResponse(await read_index(request, access, read))
