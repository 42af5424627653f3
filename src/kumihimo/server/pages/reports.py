"""addresses under /reports -> the tree of communities, opened where a report is, and each report with its sources."""

from itertools import islice
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kumihimo.app.browse import browse_communities
from kumihimo.app.community_tree import CommunityTree, display_name, table_or_empty
from kumihimo.app.json_values import Json, community_json, place_json, report_json, span_json
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.records import Report
from kumihimo.core.table import Table
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.markdown import markdown_blocks
from kumihimo.server.pages.rendering import ReaderVisit, render
from kumihimo.server.problems import NotFound

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MAX_ROWS = 100  # of one community
_MAX_PLACES = 100
_PAGES_OF_ROWS = {"documents": "/documents/", "reports": "/reports/", "communities": "/reports/"}


@router.get("/reports")
def show_reports(visit: ReaderVisit, skip: int = 0) -> HTMLResponse:
    """Send the broadest reports, largest first."""
    try:
        with visit.access.served.kumi.snapshot(rights=visit.access.rights) as snapshot:
            tree = browse_communities(snapshot)
            reports = table_or_empty(snapshot, "reports")
            roots = tree.roots()
            cards = [_card(tree, id, reports) for id in roots[skip : skip + _MAX_ROWS]]
    except IndexUnavailable:
        roots, cards = [], []
    return render(visit, "reports.html", cards=cards, total=len(roots), skip=skip, more=_MAX_ROWS)


@router.get("/reports/{id}")
def show_report(visit: ReaderVisit, id: str) -> HTMLResponse:
    """Send a report, beside the part of the tree around it."""
    with visit.access.served.kumi.snapshot(rights=visit.access.rights) as snapshot:
        tree = browse_communities(snapshot)
        reports = table_or_empty(snapshot, "reports")
        report: Report | None = reports.get(id) if id in tree.level else None
        if report is None:
            raise NotFound("there is no such report, or it is gone since the last build: look among the reports")
        shown = report_json(snapshot, tree, report)
        branches = _open_branches(tree, id, reports)
    shown["summary_blocks"] = markdown_blocks(shown["summary"])
    for finding in shown["findings"]:
        finding["blocks"] = markdown_blocks(finding["explanation"])
    return render(visit, "report.html", report=shown, branches=branches, more=_MAX_ROWS)


def _card(tree: CommunityTree, id: str, reports: Table[Any]) -> Json:
    report: Report | None = reports.get(id)
    return {**community_json(tree, id, report), "summary": report.summary if report else ""}


def _open_branches(tree: CommunityTree, id: str, reports: Table[Any]) -> list[Json]:
    """Return the tree as rows in order, open from level 0 to this community and its parts."""
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
def show_sources(visit: ReaderVisit, table: str, id: str) -> Response:
    """Send the passages behind a row, or go to the only one."""
    with visit.access.served.kumi.snapshot(rights=visit.access.rights) as snapshot:
        if table not in snapshot.record_types or not (row := table_or_empty(snapshot, table).get(id)):
            raise NotFound("this row is not in the index, or it is gone since the last build: ask again")
        spans = list(islice(snapshot.trace((table, id)), _MAX_PLACES))
        name, text = _name(snapshot, table, id), row.text
    if table == "chunks" and spans:
        return RedirectResponse(visit.passage(place_json(spans[0])))
    if table in _PAGES_OF_ROWS:
        return RedirectResponse(visit.address(f"{_PAGES_OF_ROWS[table]}{id}"))
    return render(visit, "trace.html", name=name, text=text, table=table, id=id, spans=list(map(span_json, spans)))


def _name(snapshot: Snapshot, table: str, id: str) -> str:
    return display_name(snapshot, (table, id))
