"""the graph of an index -> export files, an HTML page, or its reports in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.community_tree import load_tree
from kumihimo.cli import jsonl, report_view
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.options import DEFAULT_INDEX, IndexFolder, JsonOutput
from kumihimo.core.errors import SettingsError, describe_unknown


def _format_names() -> list[str]:
    from kumihimo.exports import FORMATS  # imported here: other commands export nothing

    return list(FORMATS)


def export(
    format_name: Annotated[
        str,
        typer.Argument(help="graphml, csv, obsidian, parquet or rdf.", metavar="FORMAT", autocompletion=_format_names),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file or folder to write: graph.graphml, graph.ttl ...", metavar="PATH")
    ] = None,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Export the graph and its reports to files for other programs."""
    from kumihimo.exports import DEFAULT_PATHS, FORMATS

    if format_name not in FORMATS:
        raise SettingsError(describe_unknown("format", format_name, FORMATS))
    path = out or Path(DEFAULT_PATHS[format_name])
    with open_index(folder) as kumi, kumi.snapshot() as snapshot:
        written = FORMATS[format_name](snapshot, path)
    jsonl.print_json({"written": str(path), "rows": written}) if as_json else report_view.show_written(path, written)


def report(
    id: Annotated[
        str | None, typer.Argument(help="A community, by its id or a prefix. Default: the tree of reports.")
    ] = None,
    level: Annotated[
        int | None, typer.Option(help="List the reports of this level by size; 0 is the broadest.", min=0, metavar="N")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", help="Write an HTML page to this file: the graph, its reports, a search box.", metavar="FILE"
        ),
    ] = None,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show community reports: the tree, one report, or an HTML page."""
    if sum(value is not None for value in (id, level, html)) > 1:
        raise SettingsError("give one of ID, --level N and --html FILE")
    with open_index(folder) as kumi, kumi.snapshot() as snapshot:
        if html:
            from kumihimo import page

            written = page.write_graph_page(snapshot, html)
            jsonl.print_json({"written": str(html), "rows": written}) if as_json else report_view.show_written(
                html, written
            )
            return
        report_view.require_reports(snapshot)
        communities = load_tree(snapshot)
        if id is None:
            rows = report_view.list_reports(snapshot, communities, level)
            jsonl.print_json(rows) if as_json else report_view.show_report_tree(rows, communities, level)
        else:
            details = report_view.report_details(
                snapshot, communities, report_view.find_report(snapshot, communities, id)
            )
            jsonl.print_json(details) if as_json else report_view.show_report(details)
