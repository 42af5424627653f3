"""the reports and summaries of an index -> text, JSON, an HTML page, or export files."""

from itertools import count, islice
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse import community_tree
from kumihimo.app.browse.json_values import community_json, report_json
from kumihimo.cli import options, printing
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Report, Summary
from kumihimo.index.summaries import resolve_label_id
from kumihimo.text import translation

_TREE_LEVELS = 2
_MAX_LISTED = 20
_MAX_PLACES = 20
_BY_RULE = "(By rule: descriptions of its entities and relations, without a model.)"

Row = dict[str, Any]


def _format_names() -> list[str]:
    from kumihimo.exports import FORMATS  # imported here: other commands export nothing

    return list(FORMATS)


def export(
    index: options.IndexFolder,
    writing: options.Writing,
    format_name: Annotated[
        str, Argument(help="graphml, csv, obsidian, parquet or rdf.", metavar="FORMAT", autocompletion=_format_names)
    ],
    out: Annotated[
        Path | None, Option(help="The file or folder to write: graph.graphml, graph.ttl ...", metavar="PATH")
    ] = None,
) -> None:
    """Export the graph and its reports to files for other programs."""
    from kumihimo.exports import DEFAULT_PATHS, FORMATS

    options.check_choice("format", format_name, FORMATS)
    path = out or Path(DEFAULT_PATHS[format_name])
    with index.snapshot("reports") as snapshot:
        _show_written(index, path, FORMATS[format_name](snapshot, path, force=writing.force))


def _show_written(index: options.IndexFolder, path: Path, rows: dict[str, int]) -> None:
    counts = translation.join_words([translation.translate(f"{n:,} {name}") for name, n in rows.items()], last=", ")
    index.show({"written": str(path), "rows": rows}, f"Wrote {path}: {counts}.")


# -- reports


def report(
    index: options.IndexFolder,
    writing: options.Writing,
    id: Annotated[str | None, Argument(help="A community, by its id or a prefix. Default: list the largest.")] = None,
    level: Annotated[
        int | None, Option(help="List the reports of this level by size; 0 is the broadest.", min=0, metavar="N")
    ] = None,
    html: Annotated[
        Path | None,
        Option(help="Write an HTML page to this file: the graph, its reports, a search box.", metavar="FILE"),
    ] = None,
    list_all: Annotated[bool, Option("--all", help="List all reports, not only the twenty largest.")] = False,
) -> None:
    """Show community reports: the largest, one report, or an HTML page."""
    if sum(value is not None for value in (id, level, html)) > 1:
        raise SettingsError("give one of ID, --level N and --html FILE")
    if list_all and (id or html):
        raise SettingsError("--all lists reports: leave ID and --html out")
    with index.snapshot("reports") as snapshot:
        if html:
            from kumihimo import page

            _show_written(index, html, page.write_graph_page(snapshot, html, force=writing.force))
            return
        snapshot.table("reports")  # raises if it has not been built
        tree = community_tree.load_tree(snapshot)
        if id is None:
            shown = None if list_all else _MAX_LISTED
            index.show(_list_reports(snapshot, tree, level), lambda rows: _show_report_tree(rows, tree, level, shown))
        else:
            index.show(report_json(snapshot, tree, _find_report(snapshot, tree, id)), _show_report)


def _find_report(snapshot: Snapshot, tree: community_tree.CommunityTree, id: str) -> Report:
    """Return the report of a community by its id or prefix.

    Raises SettingsError if no community or several match.
    """
    prefix = id.removeprefix("reports:").removeprefix("communities:")
    ids = [prefix] if prefix in tree.level else sorted(name for name in tree.level if name.startswith(prefix))
    if not ids:
        raise SettingsError(f"no community has an id that begins with {id!r}: `kumi report` shows ids")
    if len(ids) > 1:
        matches = ", ".join(ids[:5])
        raise SettingsError(f"{len(ids):,} communities have ids that begin with {id!r}, {matches}: give more of the id")
    report: Report | None = community_tree.table_or_empty(snapshot, "reports").get(ids[0])
    if report is None:
        raise SettingsError(f"community {ids[0]} has no report yet: `kumi index` writes it")
    return report


def _list_reports(snapshot: Snapshot, tree: community_tree.CommunityTree, level: int | None) -> list[Row]:
    """Return the communities of a level, with the titles of their reports.

    level None: the upper two levels, as a tree. Raises SettingsError if there is no such level.
    """
    if level is not None and level >= tree.depth:
        raise SettingsError(f"there is no level {level}: the deepest is {tree.depth - 1}")
    if level is None:
        ids = [id for root in tree.roots() for id in (root, *tree.sorted_children(root))]
    else:
        ids = tree.at_level(level)
    reports = community_tree.table_or_empty(snapshot, "reports")
    return [row for id in ids if (row := community_json(tree, id, reports.get(id)))["title"] or row["entities"] > 1]


def _show_report_tree(rows: list[Row], tree: community_tree.CommunityTree, level: int | None, most: int | None) -> None:
    """Print one line per community: title, size, rating, id.

    most: print only this many, the largest. A community is at least as large as its parts, so a tree stays whole.
    """
    if not rows:
        printing.print_message("There are no communities: no related entities were found in the documents.")
        return
    if not any(row["title"] for row in rows):
        printing.print_message(
            "There are no reports: a chat model writes them. "
            "`kumi ask` names the topics without one: What are the main topics?"
        )
        return
    largest = {row["id"] for row in sorted(rows, key=lambda row: -row["entities"])[:most]}
    listed = [row for row in rows if row["id"] in largest]
    table, prefix = [], _id_prefix_length(tree)
    for row in listed:
        title = "  " * (row["level"] if level is None else 0) + (row["title"] or "(no report yet)")
        rating = "" if row["rating"] is None else f"{row['rating']:g}"
        changes = _count_changes(row["changes"]) if row["changes"] else ""
        table.append((title, f"{row['entities']:,}", rating, row["id"][:prefix], changes))
    if any(row["changes"] for row in listed):
        printing.show_rows(table, head=("report", "entities", "rating", "id", "changes"), numeric=(1, 2), dim=(3,))
    else:
        printing.show_rows(
            [row[:4] for row in table], head=("report", "entities", "rating", "id"), numeric=(1, 2), dim=(3,)
        )
    option = "" if level is None else f" --level {level}"
    if len(listed) < len(rows):
        printing.print_message(
            f"The {len(listed)} largest of {len(rows):,}: `kumi report{option} --all` lists them all."
        )
    if level is None and tree.depth > _TREE_LEVELS:
        printing.print_message(
            f"There are {tree.depth} levels: `kumi report --level {tree.depth - 1}` lists the finest."
        )
    if by_rule := sum(row["maker"] == "rows" for row in rows):
        printing.print_message(
            f"{by_rule:,} of them {'is' if by_rule == 1 else 'are'} made by rule: few entities, one chunk, or one hub."
        )


def _id_prefix_length(tree: community_tree.CommunityTree) -> int:
    """Return the length of the shortest unambiguous id prefix, at least 6."""
    return next(n for n in count(6) if len({id[:n] for id in tree.level}) == len(tree.level))


def _show_report(report: Row) -> None:
    """Print a report, then its parents, parts or members, and documents."""
    size = f"rating {report['rating']:g} of 10, {report['entities']:,} entities"
    printing.print_styled(report["title"], "bold")
    printing.print_message(f"level {report['level']}, {size}, {report['id']}", "dim")
    if report["maker"] == "rows":
        printing.print_message(_BY_RULE, "dim")
    if report["changes"]:
        printing.print_message(
            f"({_count_changes(report['changes'])} it was written: `kumi index --refresh` writes it again.)", "dim"
        )
    _print_text(report["summary"])
    _print_sources(report["summary_sources"])
    for finding in report["findings"]:
        printing.print_styled(f"\n{_one_line(finding['summary'])}", "bold cyan")
        _print_text(finding["explanation"])
        _print_sources(finding["sources"])
    if report["reason"]:
        printing.print_message(f"\nWhy this rating: {report['reason'].replace('**', '')}")
    if report["dropped"]:
        printing.print_message(f"(References removed because they matched nothing: {report['dropped']}.)", "dim")
    _print_list("Part of", [part["title"] for part in report["above"]])
    _print_list("Parts", [f"{part['title']}  ({part['id']})" for part in report["parts"]])
    _print_list("Members", [member["name"] for member in report["members"]])
    sources = report["sources"].items()
    _print_list("Documents", [f"{uri}: {n:,} {'passage' if n == 1 else 'passages'}" for uri, n in sources])


def _count_changes(changes: int) -> str:
    return f"{changes:,} {'change' if changes == 1 else 'changes'} since"


def _print_sources(rows: list[Row]) -> None:
    """Print the names of source rows, each once."""
    if names := list(dict.fromkeys(_one_line(row["name"]) for row in rows)):
        printing.print_styled(f"[{'; '.join(names)}]", "dim")


def _print_text(text: str) -> None:
    if text:
        printing.print_styled("\n" + text.replace("**", ""))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_list(head: str, items: list[str]) -> None:
    if not items:
        return
    printing.print_message(f"\n{head}", "bold")
    for item in items[:_MAX_LISTED]:
        printing.print_styled(f"  {_one_line(item)}")
    if len(items) > _MAX_LISTED:
        printing.print_message(f"  and {len(items) - _MAX_LISTED:,} more (--json lists them)", "dim")


# -- summaries


def summaries(
    index: options.IndexFolder,
    value: Annotated[
        str | None, Argument(help="The summary to show: `research_field = NLP` or `NLP`. Default: list them.")
    ] = None,
    limit: Annotated[int, Option(help="Maximum number of rows.", min=1)] = 50,
) -> None:
    """List the metadata summaries that `meta` uses, or show one."""
    with index.snapshot() as snapshot:
        table = snapshot.table("summaries")
        if value is None:
            rows = sorted(table, key=lambda summary: (-summary.questions, summary.label))
            entries = [_summary_row(summary) for summary in rows[:limit]]
            index.show({"summaries": entries, "total": len(rows)}, _show_summaries)
        else:
            summary = table[resolve_label_id(value, table.columns("id", "label"))]
            spans = islice(snapshot.trace(("summaries", summary.id)), _MAX_PLACES)
            details = {**_summary_row(summary), "text": summary.text, "documents": [span.uri for span in spans]}
            index.show(details, _show_summary)


def _summary_row(summary: Summary) -> Row:
    return {name: getattr(summary, name) for name in ("id", "label", "questions", "tokens")}


def _show_summaries(listing: Row) -> None:
    if not listing["total"]:
        printing.print_message(
            "There are no summaries: no document has metadata to group questions by. "
            "`tags.by` in kumi.toml names the metadata fields."
        )
        return
    rows = [(entry["label"], f"{entry['questions']:,}") for entry in listing["summaries"]]
    printing.show_rows(rows, head=("label", "questions"), numeric=(1,))
    if remaining := listing["total"] - len(rows):
        printing.print_message(f"{remaining:,} more: `kumi summaries --limit {listing['total']}` lists all.")


def _show_summary(details: Row) -> None:
    head = f"{details['label']}, {details['questions']:,} questions, id summaries:{details['id']}"
    printing.print_message(f"{head}\n")
    printing.print_text("\n".join([f"{details['text']}\n", *details["documents"]]))
