"""what is to be seen of the graph -> files of it, a page, its reports in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.community_tree import tree
from kumihimo.cli import jsonl, report_view
from kumihimo.cli.cli_session import opened
from kumihimo.cli.options import HOME, Index, Json
from kumihimo.core.errors import SettingsError, unknown


def _formats() -> list[str]:
    from kumihimo.exports import FORMATS  # here: other commands write none of them

    return list(FORMATS)


def export(
    form: Annotated[
        str,
        typer.Argument(help="graphml, csv, obsidian, parquet or rdf.", metavar="FORMAT", autocompletion=_formats),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The file or folder to write: graph.graphml, graph.ttl ...", metavar="PATH")
    ] = None,
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Write the graph with its communities and reports, or all as RDF, to files that other programs read."""
    from kumihimo.exports import FORMATS, PLACES

    if form not in FORMATS:
        raise SettingsError(unknown("format", form, FORMATS))
    path = out or Path(PLACES[form])
    with opened(folder) as kumi, kumi.reading() as reading:
        written = FORMATS[form](reading, path)
    jsonl.show({"written": str(path), "rows": written}) if as_json else report_view.show_written(path, written)


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
    folder: Index = HOME,
    as_json: Json = False,
) -> None:
    """Show the reports of the communities: their tree, one of them, or all in a page with the graph."""
    if sum(said is not None for said in (id, level, html)) > 1:
        raise SettingsError("say one of ID, --level N and --html FILE")
    with opened(folder) as kumi, kumi.reading() as reading:
        if html:
            from kumihimo import page

            written = page.write(reading, html)
            jsonl.show({"written": str(html), "rows": written}) if as_json else report_view.show_written(html, written)
            return
        report_view.there(reading)
        communities = tree(reading)
        if id is None:
            listed = report_view.listed(reading, communities, level)
            jsonl.show(listed) if as_json else report_view.show_tree(listed, communities, level)
        else:
            told = report_view.told(reading, communities, report_view.found(reading, communities, id))
            jsonl.show(told) if as_json else report_view.show(told)
