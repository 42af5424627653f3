"""addresses under /graph and /reports -> entities with their relations, paths, reports with their sources."""

from itertools import islice
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, StringConstraints
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse
from kumihimo.app.browse.community_tree import CommunityTree, display_name, table_or_empty
from kumihimo.app.browse.graph_path import GraphPath, find_path
from kumihimo.app.browse.json_values import Json, community_json, neighbour_json, relation_json, report_json
from kumihimo.app.build import graph_edits
from kumihimo.core.records import Entity, Record, Report
from kumihimo.core.table import Table
from kumihimo.server.api import builds
from kumihimo.server.pages import errors, markdown, rendering
from kumihimo.server.pages.context import AllowedPage, read_or
from kumihimo.server.problems import require_row
from kumihimo.server.sessions import read_form
from kumihimo.text import name_keys, tokens

router = APIRouter(route_class=errors.PageRoute, include_in_schema=False)
_MAX_FOUND, _MAX_RELATIONS, _MAX_PASSAGES, _MAX_CLAIMS, _MAX_NAMES = 40, 30, 8, 20, 7
_MAX_ROWS = 100  # of one community
_MAX_PLACES = 100
_MAX_COUNTED = 500  # passages, by document
Stripped = Annotated[str, StringConstraints(strip_whitespace=True)]
_PAGES_OF_ROWS = {"documents": "/documents/", "reports": "/reports/", "communities": "/reports/"}


class GraphQuery(BaseModel):
    """The query in an address of the graph.

    q: a part of a name. entity: an id. to: an id or a name, the end of a path. relations_after, passages_after: ids,
    where the next page begins.
    """

    q: Stripped = ""
    entity: str = ""
    to: Stripped = ""
    after: str = ""
    relations_after: str = ""
    passages_after: str = ""


@router.get("/graph")
async def show_graph(page: AllowedPage, query: Annotated[GraphQuery, Query()]) -> HTMLResponse:
    """Send the graph: a search, an entity, or a path."""
    empty: dict[str, Any] = {
        "found": browse.ListPage(()),
        "shown": None,
        "path": None,
        "end": None,
        "total": 0,
        "other": 0,
    }
    values = await read_or(page, empty, lambda snapshot: {**empty, **_read(snapshot, query)}, "entities")
    edits = await run_in_threadpool(graph_edits.read_lines, page.access.served.kumi.opened)
    return await rendering.render(page, "graph.html", query=query, edits=edits, **values)


def _read(snapshot: Snapshot, query: GraphQuery) -> dict[str, Any]:
    """Return found entities, or one with all its parts."""
    if not snapshot.db.has("entities"):
        return {}
    if not query.entity:
        return {"found": _find(snapshot, query), **browse.count_listed(snapshot)}
    entity = require_row(browse.find_entity(snapshot, query.entity), "entity", query.entity)
    end = browse.find_entity(snapshot, query.to) if query.to else None
    path = _show_path(find_path(snapshot, entity, end)) if end else None
    return {
        "total": len(snapshot.table("entities")),
        "shown": _show_entity(snapshot, entity, query),
        "path": path,
        "end": end,
    }


def _find(snapshot: Snapshot, query: GraphQuery) -> browse.ListPage[Entity]:
    """Return entities by name; by their descriptions if no name matches."""
    page = browse.list_entities(snapshot, query.q, after=query.after, limit=_MAX_FOUND)
    if page.items or not query.q or query.after:
        return page
    return browse.ListPage(tuple(browse.search_entities(snapshot, query.q, _MAX_FOUND)))


def _show_entity(snapshot: Snapshot, entity: Entity, query: GraphQuery) -> Json:
    """Return an entity with its relations, passages, claims and communities."""
    relations = browse.list_relations(snapshot, entity.id, after=query.relations_after, limit=_MAX_RELATIONS)
    passages = browse.list_passages(snapshot, entity, after=query.passages_after, limit=_MAX_PASSAGES)
    tree = browse.browse_communities(snapshot)
    reports = table_or_empty(snapshot, "reports").get_many(list(dict.fromkeys(tree.entity_path(entity.id))))
    terms = frozenset(tokens.subject_terms(" ".join((entity.name, *entity.forms))))
    return {
        "entity": entity,
        "other_names": _other_names(entity),
        "passage_count": browse.count_passages(snapshot, entity),
        "relations": [neighbour_json(entity.id, relation) for relation in relations.items],
        "relations_next": relations.next,
        "passages": [_show_passage(span.to_dict(), terms) for span in passages.items],
        "passages_next": passages.next,
        "claims": browse.list_claims(snapshot, entity.id, _MAX_CLAIMS),
        "communities": [(id, report.title) for id, report in reports.items()],
    }


def _other_names(entity: Entity) -> list[str]:
    """Return the names other than the one shown.

    Another spelling of the same name is none.
    """
    names = {name_keys.name_key(name): name for name in reversed(entity.forms)}
    names.pop(name_keys.name_key(entity.name), None)
    return [*reversed(names.values())][:_MAX_NAMES]


def _show_passage(span: Json, terms: frozenset[str]) -> Json:
    text = " ".join(markdown.plain_text(span["text"]).split())
    return {**span, "pieces": markdown.marked_pieces(text, list(tokens.mark_matches(text, terms)))}


def _show_path(path: GraphPath) -> Json:
    """Return the steps of a path, each with its entity."""
    pairs = zip(path.relations, path.entities[1:], strict=True)
    steps = [{"relation": relation_json(relation), "entity": entity} for relation, entity in pairs]
    return {"first": path.entities[0] if path.entities else None, "steps": steps, "complete": path.complete}


@router.post("/edits")
async def edit_graph(page: AllowedPage) -> Response:
    """Add or remove a line of aliases.txt; queue a build."""
    form = await read_form(page.request)
    await builds.apply_edit(page.access, form.get("line", ""), undo="undo" in form)
    return RedirectResponse(page.address("/documents", "builds"), 303)


@router.get("/reports")
async def show_reports(page: AllowedPage, skip: int = 0) -> HTMLResponse:
    """Send the broadest reports, largest first."""

    def read(snapshot: Snapshot) -> tuple[list[Json], int]:
        tree, reports = browse.browse_communities(snapshot), table_or_empty(snapshot, "reports")
        roots = tree.roots()
        shown = roots[max(skip, 0) : max(skip, 0) + _MAX_ROWS]
        written = reports.get_many(shown)
        summaries = {id: report.summary for id, report in written.items()}
        cards = [{**community_json(tree, id, written.get(id)), "summary": summaries.get(id, "")} for id in shown]
        return cards, len(roots)

    cards, total = await read_or(page, (list[Json](), 0), read, "reports")
    return await rendering.render(page, "reports.html", cards=cards, total=total, skip=skip, more=_MAX_ROWS)


@router.get("/reports/{id}")
async def show_one_report(page: AllowedPage, id: str) -> HTMLResponse:
    """Send a report, beside the part of the tree around it."""

    def read(snapshot: Snapshot) -> tuple[Json, list[Json]]:
        tree, reports = browse.browse_communities(snapshot), table_or_empty(snapshot, "reports")
        report: Report = require_row(reports.get(id) if id in tree.level else None, "report", id)
        shown = report_json(snapshot, tree, report, most_passages=_MAX_COUNTED)
        shown["summary_blocks"] = markdown.markdown_blocks(shown["summary"])
        for finding in shown["findings"]:
            finding["blocks"] = markdown.markdown_blocks(finding["explanation"])
        return shown, _open_branches(tree, id, reports)

    shown, branches = await page.access.read(read, "reports")
    return await rendering.render(page, "report.html", report=shown, branches=branches, more=_MAX_ROWS)


def _open_branches(tree: CommunityTree, id: str, reports: Table[Any]) -> list[Json]:
    """Return the rows of the tree, open down to a community."""
    path, rows = tree.ancestors(id), list[Json]()

    def add(ids: list[str], depth: int) -> None:
        shown = [each for n, each in enumerate(ids) if n < _MAX_ROWS or each in path]
        for each in shown:
            rows.append({**community_json(tree, each, reports.get(each)), "depth": depth, "open": each in path})
            if each in path and tree.children[each]:
                add(tree.sorted_children(each), depth + 1)
        if len(shown) < len(ids):
            rows.append({"id": "", "depth": depth, "hidden": len(ids) - len(shown)})

    add(tree.roots(), 0)
    return rows


@router.get("/trace/{table}/{id:path}")
async def show_sources(page: AllowedPage, table: str, id: str) -> Response:
    """Send the passages behind a row; for a chunk, go to it."""
    if table in _PAGES_OF_ROWS:
        return RedirectResponse(page.address(f"{_PAGES_OF_ROWS[table]}{quote(id)}"), 303)

    def read(snapshot: Snapshot) -> tuple[str, str, list[Json]]:
        known = table in snapshot.record_types
        row: Record = require_row(table_or_empty(snapshot, table).get(id) if known else None, "row", id)
        spans = [span.to_dict() for span in islice(snapshot.trace((table, id)), _MAX_PLACES)]
        return display_name(snapshot, (table, id)), row.text, spans

    name, text, spans = await page.access.read(read)
    if table == "chunks":
        return RedirectResponse(page.passage(spans[0]), 303)
    return await rendering.render(page, "trace.html", name=name, text=text, table=table, id=id, spans=spans)
