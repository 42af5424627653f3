"""a SPARQL query -> its results as a table, JSON, CSV or Turtle."""

from __future__ import annotations

import csv
import sys
from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from kumihimo.app.results import RdfTerm, Solutions
from kumihimo.app.sparql import DEFAULT_LIMIT, DEFAULT_TIMEOUT, rdf_prefixes, rdf_settings
from kumihimo.cli import jsonl, terminal
from kumihimo.cli.cli_session import open_index
from kumihimo.cli.options import DEFAULT_INDEX, IndexFolder, JsonOutput, SettingOverrides
from kumihimo.core.errors import SettingsError, describe_unknown

RESULT_FORMATS = ("table", "json", "csv", "turtle")
_MAX_CELL = 300  # characters of a cell
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def sparql(
    query: Annotated[str, typer.Argument(help="A SPARQL 1.1 query; @FILE reads a file; - reads standard input.")],
    format_name: Annotated[
        str,
        typer.Option(
            "--format",
            help="table, json, csv or turtle. Default: table for rows, turtle for triples.",
            metavar="NAME",
            autocompletion=lambda: list(RESULT_FORMATS),
        ),
    ] = "",
    limit: Annotated[int, typer.Option(help="Maximum number of rows; 0: all.", min=0)] = DEFAULT_LIMIT,
    timeout: Annotated[float, typer.Option(help="Stop after this many seconds.", min=0.01)] = DEFAULT_TIMEOUT,
    options: SettingOverrides = None,
    folder: IndexFolder = DEFAULT_INDEX,
    as_json: JsonOutput = False,
) -> None:
    """Query the whole index as RDF: documents, passages, entities, reports."""
    if format_name and format_name not in RESULT_FORMATS:
        raise SettingsError(describe_unknown("format", format_name, RESULT_FORMATS))
    with open_index(folder, options) as kumi:
        solutions = kumi.sparql(_read_query(query), limit=limit or None, timeout=timeout)
        prefixes = rdf_prefixes(**rdf_settings(kumi.settings))
    format_name = "json" if as_json else format_name or ("turtle" if solutions.is_graph else "table")
    if format_name == "turtle" and not solutions.is_graph:
        raise SettingsError("turtle needs triples: use CONSTRUCT or DESCRIBE, or choose --format table, json or csv")
    {"table": _show_table, "json": _show_json, "csv": _show_csv, "turtle": _show_turtle}[format_name](
        solutions, prefixes
    )
    if solutions.cut:
        sys.stdout.flush()
        terminal.print_error(
            f"there are more than {limit:,} rows: `--limit` shows more"
            if solutions.cut == "rows"
            else f"stopped after {timeout:g} s with partial results: `--timeout` allows more"
        )
    raise typer.Exit(1 if solutions.cut == "time" else 0)


def _read_query(query: str) -> str:
    """Return the query from the argument, a file or standard input.

    Raises SettingsError if the file cannot be read.
    """
    try:
        if query == "-":
            return sys.stdin.read()
        return Path(query[1:]).read_text(encoding="utf-8-sig") if query.startswith("@") else query
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{query.removeprefix('@')} cannot be read ({error}): name a file in UTF-8") from error


def _show_table(solutions: Solutions, prefixes: dict[str, str]) -> None:
    if solutions.boolean is not None:
        print("yes" if solutions.boolean else "no")
    elif not solutions.rows:
        print("No results.")
    else:
        terminal.show_rows(
            ([_format_cell(term, prefixes) for term in row] for row in solutions.rows), solutions.columns
        )


def _format_cell(term: RdfTerm | None, prefixes: dict[str, str]) -> str:
    """Return a short form: IRIs by prefix, text on one line."""
    if term is None:
        return ""
    if term.kind == "bnode":
        return f"_:{term.value}"
    if term.kind == "uri":
        name = max(prefixes, key=lambda name: len(prefixes[name]) * term.value.startswith(prefixes[name]))
        abbreviated = term.value.startswith(prefixes[name])
        return f"{name}:{term.value.removeprefix(prefixes[name])}" if abbreviated else term.value
    text = " ".join(term.value.split())
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]} …"


def _show_json(solutions: Solutions, _: dict[str, str]) -> None:
    """Print SPARQL 1.1 Query Results JSON; triples are rows of three."""
    if solutions.boolean is not None:
        jsonl.print_json({"head": {}, "boolean": solutions.boolean})
        return
    rows = [
        {name: _term_json(term) for name, term in zip(solutions.columns, row, strict=True) if term}
        for row in solutions.rows
    ]
    jsonl.print_json({"head": {"vars": list(solutions.columns)}, "results": {"bindings": rows}, "cut": solutions.cut})


def _term_json(term: RdfTerm) -> dict[str, str]:
    fields = {"type": term.kind, "value": term.value, "xml:lang": term.language, "datatype": term.datatype}
    return {name: value for name, value in fields.items() if value or name == "value"}


def _show_csv(solutions: Solutions, _: dict[str, str]) -> None:
    """Print SPARQL 1.1 CSV; an apostrophe protects spreadsheets from formulas."""
    out = csv.writer(sys.stdout, lineterminator="\n")
    if solutions.boolean is not None:
        out.writerows([["answer"], ["yes" if solutions.boolean else "no"]])
        return
    out.writerow(solutions.columns)
    out.writerows([_csv_cell(term) for term in row] for row in solutions.rows)


def _csv_cell(term: RdfTerm | None) -> str:
    if term is None:
        return ""
    risky = term.kind == "literal" and not term.datatype and term.value.startswith(_FORMULA_STARTS)
    return f"{chr(39) * risky}{'_:' * (term.kind == 'bnode')}{term.value}".replace("\0", "\ufffd")


def _show_turtle(solutions: Solutions, prefixes: dict[str, str]) -> None:
    from kumihimo.app.sparql import solution_triples
    from kumihimo.exports.rdf import write_turtle

    out = BytesIO()
    write_turtle(solution_triples(solutions), out, prefixes)
    print(out.getvalue().decode(), end="")
