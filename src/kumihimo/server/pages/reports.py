"""addresses under /reports -> the tree of communities, opened where a report is, and each report with its sources."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from kumihimo.app.browse import browse_communities
from kumihimo.app.community_tree import CommunityTree, display_name, table_or_empty
from kumihimo.app.json_values import Json, community_json, place_json, report_json
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.records import Record, Report
from kumihimo.core.table import Table
from kumihimo.server.pages.context import ReaderPage, read_or
from kumihimo.server.pages.errors import PageRoute
from kumihimo.server.pages.markdown import markdown_blocks
from kumihimo.server.pages.rendering import render
from kumihimo.server.reading import found, read_index

router = APIRouter(route_class=PageRoute, include_in_schema=False)
_MAX_ROWS = 100  # of one community
_MAX_PLACES = 100
_MAX_PASSAGES = 500  # that are counted by document
_PAGES_OF_ROWS = {"documents": "/documents/", "reports": "/reports/", "communities": "/reports/"}


@router.get("/reports")
async def show_reports(page: ReaderPage, skip: int = 0) -> HTMLResponse:
    """Send the broadest reports, largest first."""

    def read(snapshot: Snapshot) -> tuple[list[Json], int]:
        tree, reports = browse_communities(snapshot), table_or_empty(snapshot, "reports")
        roots = tree.roots()
        shown = roots[max(skip, 0) : max(skip, 0) + _MAX_ROWS]
        written = reports.get_many(shown)
        return [_card(tree, id, written.get(id)) for id in shown], len(roots)

    cards, total = await read_or(page, (list[Json](), 0), read)
    return render(page, "reports.html", cards=cards, total=total, skip=skip, more=_MAX_ROWS)


@router.get("/reports/{id}")
async def show_report(page: ReaderPage, id: str) -> HTMLResponse:
    """Send a report, beside the part of the tree around it."""

    def read(snapshot: Snapshot) -> tuple[Json, list[Json]]:
        tree, reports = browse_communities(snapshot), table_or_empty(snapshot, "reports")
        report: Report = found(reports.get(id) if id in tree.level else None, "report", id)
        shown = report_json(snapshot, tree, report, most_passages=_MAX_PASSAGES)
        shown["summary_sources"] = list(_link_sources(snapshot, shown["summary_sources"], shown["summary"]))
        for finding in shown["findings"]:
            finding["sources"] = list(_link_sources(snapshot, finding["sources"], finding["explanation"]))
        return shown, _open_branches(tree, id, reports)

    shown, branches = await read_index(page.request, page.access, read)
    shown["summary_blocks"] = markdown_blocks(shown["summary"])
    for finding in shown["findings"]:
        finding["blocks"] = markdown_blocks(finding["explanation"])
    return render(page, "report.html", report=shown, branches=branches, more=_MAX_ROWS)


def _card(tree: CommunityTree, id: str, report: Report | None) -> Json:
    return {**community_json(tree, id, report), "summary": report.summary if report else ""}


def _link_sources(snapshot: Snapshot, rows: list[Json], text: str) -> Iterator[Json]:
    """Yield the sources of a text, chunks as the sentences it copies.

    place: of such a sentence, or else None.
    """
    for row in rows:
        places = _find_sentences(snapshot, row["id"], text) if row["table"] == "chunks" else []
        for place in places:
            yield {**row, "name": ", ".join(filter(None, [place["uri"], place["place"]])), "place": place}
        if not places:
            yield {**row, "place": None}


def _find_sentences(snapshot: Snapshot, chunk: str, text: str) -> list[Json]:
    """Return the places in a chunk of lines of a text."""
    whole = next(snapshot.trace(("chunks", chunk)), None)
    if whole is None or len(whole.text) != whole.end - whole.start:
        return []
    lines = [r"\s*".join(map(re.escape, line.split())) for line in text.splitlines() if line.strip()]
    spans = [match.span() for line in lines if (match := re.search(line, whole.text))]
    parts = [replace(whole, start=whole.start + a, end=whole.start + b, text=whole.text[a:b]) for a, b in spans]
    return [place_json(snapshot.tracer.locate(part)) for part in parts]


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
async def show_sources(page: ReaderPage, table: str, id: str) -> Response:
    """Send the passages behind a row; for a chunk, go to it."""
    if table in _PAGES_OF_ROWS:
        return RedirectResponse(page.address(f"{_PAGES_OF_ROWS[table]}{quote(id)}"), 303)

    def read(snapshot: Snapshot) -> tuple[str, str, list[Json]]:
        known = table in snapshot.record_types
        row: Record = found(table_or_empty(snapshot, table).get(id) if known else None, "row", id)
        spans = [span.to_dict() for span in islice(snapshot.trace((table, id)), _MAX_PLACES)]
        return display_name(snapshot, (table, id)), row.text, spans

    name, text, spans = await read_index(page.request, page.access, read)
    if table == "chunks":
        return RedirectResponse(page.passage(spans[0]), 303)
    return render(page, "trace.html", name=name, text=text, table=table, id=id, spans=spans)
