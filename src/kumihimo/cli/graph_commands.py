"""the graph of an index -> its entities, likely duplicates of them, or the results of a SPARQL query."""

import csv
import sys
from collections import defaultdict
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, cast

from typer import Argument, Exit, Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import browse, json_values
from kumihimo.app.browse.sparql import DEFAULT_LIMIT, DEFAULT_TIMEOUT, index_prefixes, solution_triples
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.results import RdfTerm, Solutions
from kumihimo.app.settings.config import ALIASES
from kumihimo.cli import options, printing, similar_entities
from kumihimo.core import control_characters, records
from kumihimo.core.errors import SettingsError
from kumihimo.core.spans import Span
from kumihimo.text import safe_write, sentences, translation
from kumihimo.text.graph_edits import parse_edits
from kumihimo.text.name_keys import entity_id, name_key

RESULT_FORMATS = ("table", "json", "csv", "turtle")
_MAX_CELL = 300  # characters of a cell
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_AUTO_SCORE = 0.9  # pairs from this score are written without asking
_MIN_SCORE = 0.5  # pairs from this score are shown
_MAX_PLACES = 20
_MAX_NEIGHBOURS = 20
_MAX_WIDTH = 160  # characters of a description in a table


def entities(
    session: options.PaidSession,
    name: Annotated[str | None, Argument(help="The entity to show. Default: list them, most mentions first.")] = None,
    list_similar: Annotated[bool, Option("--similar", help="List pairs that are likely the same entity.")] = False,
    list_merged: Annotated[bool, Option("--merged", help="List the forms of names that rules merged.")] = False,
    write: Annotated[bool, Option("--write", help="Write pairs to aliases.txt; a terminal asks about each.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="With --write: write all pairs without asking.")] = False,
    least: Annotated[
        float | None, Option(help="Minimum similarity (default 0.5; 0.9 with --yes, but not --ask).", min=0, max=1)
    ] = None,
    ask_model: Annotated[bool, Option("--ask", help="Ask the chat model about each pair.")] = False,
    limit: Annotated[int, Option(help="Maximum number of rows.", min=1)] = 50,
) -> None:
    """List the entities of the graph, show one, or find duplicates."""
    if list_similar and (name or list_merged):
        raise SettingsError("--similar compares all entities: leave the name and --merged out")
    if (write or ask_model or least is not None) and not list_similar:
        raise SettingsError("--write, --ask and --least apply to pairs: add --similar")
    _check_write(session, write, yes)
    with session.open() as kumi, session.read(kumi, "entities") as snapshot:
        if list_merged:
            entity_id = _find_entity(kumi, snapshot, name).id if name else ""
            session.show(list_merged_names(snapshot, entity_id, limit), show_merged)
        elif name:
            session.show(_entity_details(snapshot, _find_entity(kumi, snapshot, name)), _show_entity)
        elif not list_similar:
            session.show(_list_entities(snapshot, limit), _show_entities)
        else:
            least = least if least is not None else _AUTO_SCORE if yes and not ask_model else _MIN_SCORE
            review = similar_entities.find_similar(
                kumi, snapshot, session, least=least, limit=limit, ask_model=ask_model
            )
    if list_similar:
        review.show(session, write, yes)


def _check_write(session: options.PaidSession, write: bool, yes: bool) -> None:
    """Raise SettingsError unless the user can be asked or has agreed."""
    if yes and not write:
        raise SettingsError("--yes needs --write: add it")
    if write and not yes and (session.as_json or not printing.is_interactive()):
        raise SettingsError("--write asks about each pair in a terminal: elsewhere add --yes")


# -- entities


def _find_entity(kumi: Kumihimo, snapshot: Snapshot, name: str) -> records.Entity:
    """Return the entity of a name or form.

    Raises SettingsError, with similar names.
    """
    key, edits = name_key(name), parse_edits(tuple(cast(Sequence[str], kumi.settings["mentions"]["aliases"])))
    snapshot.table("entities")  # raises if it has not been built
    if entity := browse.find_entity(snapshot, edits.aliases.get(key, name)):
        return entity
    names = {name_key(known): known for (known,) in snapshot.table("entities").columns("name")}
    suggestions = [repr(names[close]) for close in get_close_matches(key, names, n=3, cutoff=0.6)]
    hint = f"; did you mean {' or '.join(suggestions)}?" if suggestions else ":"
    raise SettingsError(f"no entity {name!r}{hint} `kumi entities` lists them")


def _list_entities(snapshot: Snapshot, limit: int) -> dict[str, Any]:
    snapshot.table("entities")  # raises if it has not been built
    page = browse.list_entities(snapshot, limit=limit)
    return {"entities": list(map(json_values.entity_json, page.items)), **browse.count_listed(snapshot)}


def _entity_details(snapshot: Snapshot, entity: records.Entity) -> dict[str, Any]:
    relations = snapshot.table("relations")
    edges: list[records.Relation] = [*relations.where(source=entity.id), *relations.where(target=entity.id)]
    edges.sort(key=lambda relation: (-relation.weight, relation.names, relation.id))
    spans = snapshot.trace(("entities", entity.id))
    return {
        **json_values.entity_json(entity),
        "types": entity.types,
        "text": entity.text,
        "neighbours": [json_values.neighbour_json(entity.id, relation) for relation in edges],
        "places": [span.to_place() for span in islice(spans, _MAX_PLACES)],
    }


def _show_entities(result: dict[str, Any]) -> None:
    rows = [
        (e["name"], translation.translate(e["type"]), f"{e['mentions']:,}", f"{len(e['forms']):,}")
        for e in result["entities"]
    ]
    printing.show_rows(rows, head=("entity", "type", "mentions", "forms"), numeric=(2, 3))
    remaining = result["total"] - len(rows)
    printing.print_message(
        f"{remaining:,} more: `kumi entities --limit {result['total']}` lists all." if remaining else ""
    )
    printing.print_message(f"Left out: {result['other']:,} that may be no names." if result["other"] else "")


def _show_entity(result: dict[str, Any]) -> None:
    kinds = f" ({', '.join(map(translation.translate, result['types']))})" if result["types"] else ""
    printing.print_text(f"{result['name']}{kinds}, ", end="")
    printing.print_message(f"{result['mentions']:,} mentions")
    printing.print_styled(f"entities:{result['id']}", "dim")
    if len(result["forms"]) > 1:
        printing.print_message(f"Forms: {'; '.join(result['forms'])}")
    printing.print_text(f"\n{result['text']}\n")
    if result["neighbours"]:
        nearest = result["neighbours"][:_MAX_NEIGHBOURS]
        rows = [(n["name"], f"{n['weight']:,}", sentences.shorten_line(n["text"], _MAX_WIDTH)) for n in nearest]
        printing.show_rows(rows, head=("neighbour", "ties", ""), numeric=(1,))
        remaining = len(result["neighbours"]) - len(rows)
        printing.print_message(f"{remaining:,} more neighbours.\n" if remaining else "")
    places = (
        Span("", place["uri"], 0, 0, "", translation.translate(place["place"])).location for place in result["places"]
    )
    printing.print_text("\n".join(dict.fromkeys(places)))


# -- edits


def edit(
    session: options.IndexSession,
    line: Annotated[
        str, Argument(help="'NAME = NAME', 'type: NAME = TYPE', 'delete: NAME', ...: see the documentation.")
    ] = "",
    undo: Annotated[bool, Option("--undo", help="Remove the line instead.")] = False,
) -> None:
    """Mend the graph with a line of aliases.txt, or list its lines."""
    if undo and not line:
        raise SettingsError("--undo needs a line: `kumi edit` lists them")
    with session.open() as kumi:
        lines, path = kumi.edit(line, undo=undo), kumi.base / ALIASES
    session.show({"file": str(path), "edits": lines}, partial(_show_edits, changed=bool(line)))


def _show_edits(result: dict[str, Any], *, changed: bool) -> None:
    if changed:
        printing.print_message(f"{result['file']} has changed: `kumi index` applies it to the graph.")
    else:
        note = translation.translate("matches nothing")
        printing.show_rows([(line, "" if matches else note) for line, matches in result["edits"].items()])


# -- SPARQL


def sparql(
    index: options.IndexSettings,
    query: Annotated[str, Argument(help="A SPARQL 1.1 query; @FILE reads a file; - reads standard input.")],
    format_name: Annotated[
        str,
        Option(
            "--format",
            help="table, json, csv or turtle. Default: table for rows, turtle for triples.",
            metavar="NAME",
            autocompletion=lambda: list(RESULT_FORMATS),
        ),
    ] = "",
    limit: Annotated[int, Option(help="Maximum number of rows; 0: all.", min=0)] = DEFAULT_LIMIT,
    timeout: Annotated[float, Option(help="Stop after this many seconds.", min=0.01, max=86_400)] = DEFAULT_TIMEOUT,
) -> None:
    """Query documents, passages, entities and reports as RDF."""
    if format_name:
        options.check_choice("format", format_name, RESULT_FORMATS)
    text = _read_query(query)
    with index.open() as kumi:
        index.prepare_method(kumi, "reports")
        solutions = kumi.sparql(text, limit=limit or None, timeout=timeout)
        prefixes = index_prefixes(kumi.settings)
    format_name = "json" if index.as_json else format_name or ("turtle" if solutions.is_graph else "table")
    if format_name == "turtle" and not solutions.is_graph:
        raise SettingsError("turtle needs triples: use CONSTRUCT or DESCRIBE, or choose --format table, json or csv")
    show = {"table": _show_table, "json": _show_json, "csv": _show_csv, "turtle": _show_turtle}[format_name]
    show(solutions, prefixes)
    if solutions.cut:
        sys.stdout.flush()
        printing.print_error(
            f"there are more than {limit:,} rows: `--limit` shows more"
            if solutions.cut == "rows"
            else f"stopped after {timeout:g} s with partial results: `--timeout` allows more"
        )
    raise Exit(1 if solutions.cut == "time" else 0)


def _read_query(query: str) -> str:
    """Return the query from the argument, a file or standard input.

    Raises SettingsError if the file cannot be read.
    """
    if query == "-":
        return sys.stdin.read()
    return safe_write.read_text_file(Path(query[1:]), "name a file in UTF-8") if query.startswith("@") else query


def _show_table(solutions: Solutions, prefixes: dict[str, str]) -> None:
    if solutions.boolean is not None:
        printing.print_message("yes" if solutions.boolean else "no")
    elif not solutions.rows:
        printing.print_message("No results.")
    else:
        rows = [[_format_cell(term, prefixes) for term in row] for row in solutions.rows]
        printing.show_rows(rows, [f"?{name}" for name in solutions.columns])


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
        printing.print_json({"head": {}, "boolean": solutions.boolean})
        return
    names = list(solutions.columns)
    rows = [{name: _term_json(term) for name, term in zip(names, row, strict=True) if term} for row in solutions.rows]
    printing.print_json({"head": {"vars": names}, "results": {"bindings": rows}, "cut": solutions.cut})


def _term_json(term: RdfTerm) -> dict[str, str]:
    fields = {"type": term.kind, "value": term.value, "xml:lang": term.language, "datatype": term.datatype}
    return {name: value for name, value in fields.items() if value or name == "value"}


def _show_csv(solutions: Solutions, _: dict[str, str]) -> None:
    """Print SPARQL 1.1 CSV; an apostrophe protects spreadsheets from formulas."""
    text = StringIO()
    out = csv.writer(text, lineterminator="\n")
    if solutions.boolean is not None:
        out.writerows([["answer"], ["yes" if solutions.boolean else "no"]])
    else:
        out.writerow(solutions.columns)
        out.writerows([_csv_cell(term) for term in row] for row in solutions.rows)
    printing.print_text(text.getvalue(), end="")


def _csv_cell(term: RdfTerm | None) -> str:
    if term is None:
        return ""
    risky = term.kind == "literal" and not term.datatype and term.value.startswith(_FORMULA_STARTS)
    return f"{chr(39) * risky}{'_:' * (term.kind == 'bnode')}{term.value}".replace("\0", "\ufffd")


def _show_turtle(solutions: Solutions, prefixes: dict[str, str]) -> None:
    from kumihimo.exports import write_triples

    out = BytesIO()
    write_triples(solution_triples(solutions), out, prefixes)
    printing.print_text(control_characters.escape_controls(out.getvalue().decode()), end="")


_MAX_PLACE = 24  # characters of a document's uri


def list_merged_names(snapshot: Snapshot, entity: str, limit: int) -> dict[str, Any]:
    """Return the merged forms, with rules and documents.

    entity: the id of the only one to list; empty: all of them.
    """
    uris: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    documents = snapshot.table("documents")
    for row in snapshot.table("merges"):
        for form, name, rule in row.merges:
            if entity in ("", entity_id(name_key(name))):
                uris[name, form, rule].add(documents[row.id].uri)
    rows = [
        {"name": name, "form": form, "rule": rule, "documents": sorted(uris[name, form, rule])}
        for name, form, rule in sorted(uris)
    ]
    return {"merged": rows[:limit], "total": len(rows)}


def show_merged(result: dict[str, Any]) -> None:
    """Print the merged forms, with the first document of each."""
    rows = [(row["name"], row["form"], row["rule"], _shorten_places(row["documents"])) for row in result["merged"]]
    printing.show_rows(rows, head=("entity", "merged form", "rule", "in"))
    if remaining := result["total"] - len(rows):
        printing.print_message(f"{remaining:,} more: `kumi entities --merged --limit {result['total']}` lists all.")
    if rows:
        printing.print_message("\nTo undo one, add a line to aliases.txt, and run `kumi index`:")
        printing.print_text(f"{result['merged'][0]['form']} != {result['merged'][0]['name']}")


def _shorten_places(uris: list[str]) -> str:
    """Return the first document, and the number of others.

    >>> _shorten_places(["notes/harbour.md", "notes/island.md"])
    'notes/harbour.md + 1'
    """
    return sentences.shorten_line(uris[0], _MAX_PLACE) + (f" + {len(uris) - 1:,}" if len(uris) > 1 else "")
