"""what is to be seen of the graph -> files of it, a page, its reports in the terminal."""

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
    from kumihimo.exports import FORMATS  # here: other commands write none of them

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
    """Write the graph with its communities and reports, or all as RDF, to files that other programs read."""
    from kumihimo.exports import DEFAULT_PATHS, FORMATS

    if format_name not in FORMATS:
        raise SettingsError(describe_unknown("format", format_name, FORMATS))
    path = out or Path(DEFAULT_PATHS[format_name])
    with open_index(folder) as kumi, kumi.snapshot() as reading:
        written = FORMATS[format_name](reading, path)
    jsonl.print_json({"written": str(path), "rows": written}) if as_json else report_view.show_written(path, written)


def report(
    id: Annotated[
        str | None, typer.Argument(help="A community, or the beginning of its id; none: the tree of reports.")
    ] = None,
    level: Annotated[
        int | None, typer.Option(help="The reports of this level, 0 the broadest, by size.", min=0, metavar="N")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write a page to this file: the graph drawn, its reports, search.", metavar="FILE"),
    ] = None,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Show the reports of the communities: their tree, one of them, or all in a page with the graph."""
    if sum(said is not None for said in (id, level, html)) > 1:
        raise SettingsError("say one of ID, --level N and --html FILE")
    with open_index(folder) as kumi, kumi.snapshot() as reading:
        if html:
            from kumihimo import page

            written = page.write_graph_page(reading, html)
            jsonl.print_json({"written": str(html), "rows": written}) if as_json else report_view.show_written(
                html, written
            )
            return
        report_view.require_reports(reading)
        communities = load_tree(reading)
        if id is None:
            listed = report_view.list_reports(reading, communities, level)
            jsonl.print_json(listed) if as_json else report_view.show_report_tree(listed, communities, level)
        else:
            told = report_view.report_details(reading, communities, report_view.find_report(reading, communities, id))
            jsonl.print_json(told) if as_json else report_view.show_report(told)
