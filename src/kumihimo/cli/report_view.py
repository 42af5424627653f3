"""the reports of an index -> text for a terminal, or JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from kumihimo.app.community_tree import CommunityTree, display_name, name_references, reference_names, table_or_empty
from kumihimo.app.snapshot import Snapshot
from kumihimo.cli.sanitize import replace_controls
from kumihimo.cli.terminal import make_console, show_rows
from kumihimo.core.errors import IndexUnavailable, SettingsError
from kumihimo.core.records import Report

_TREE_LEVELS = 2
_MIN_ENTITIES = 3  # smaller communities are counted, not listed
_MAX_LISTED = 20

Row = dict[str, Any]


def require_reports(snapshot: Snapshot) -> None:
    """Raise IndexUnavailable if the index has no reports."""
    if not snapshot.db.has("reports"):
        raise IndexUnavailable(
            "the index has no reports yet: `kumi index --methods global` writes them, "
            "`kumi plan --methods global` says what that costs"
        )


def find_report(snapshot: Snapshot, tree: CommunityTree, id: str) -> Report:
    """Return the report of a community by its id or prefix.

    Raises SettingsError if no community or several match.
    """
    prefix = id.removeprefix("reports:").removeprefix("communities:")
    ids = (
        [prefix]
        if prefix in tree.level
        else sorted(community for community in tree.level if community.startswith(prefix))
    )
    if len(ids) != 1:
        matches = ", ".join(ids[:5])
        ambiguous = f"{len(ids):,} communities have ids that begin with {id!r}, {matches}: give more of the id"
        missing = f"no community has an id that begins with {id!r}: `kumi report` shows ids"
        raise SettingsError(ambiguous if ids else missing)
    report: Report | None = table_or_empty(snapshot, "reports").get(ids[0])
    if report is None:
        raise SettingsError(f"community {ids[0]} has no report yet: `kumi index` writes it")
    return report


# -- lists of reports


def list_reports(snapshot: Snapshot, tree: CommunityTree, level: int | None) -> list[Row]:
    """Return the communities of a level, with the titles of their reports.

    level None: the upper two levels, as a tree. Raises SettingsError if there is no such level.
    """
    if level is not None and level >= tree.depth:
        raise SettingsError(f"there is no level {level}: the deepest is {tree.depth - 1}")
    ids = list(_walk(tree, tree.roots(), _TREE_LEVELS)) if level is None else tree.at_level(level)
    reports = table_or_empty(snapshot, "reports")
    return [row for id in ids if (row := _report_row(tree, id, reports.get(id)))["title"] or row["entities"] > 1]


def _walk(tree: CommunityTree, ids: Iterable[str], levels: int) -> Iterator[str]:
    for id in ids:
        yield id
        if levels > 1:
            yield from _walk(tree, tree.sorted_children(id), levels - 1)


def _report_row(tree: CommunityTree, id: str, report: Report | None) -> Row:
    return {
        "id": id,
        "level": tree.level[id],
        "parent": tree.parent[id],
        "entities": tree.size[id],
        "title": report.title if report else None,
        "rating": report.rating if report else None,
        "extractive": report.extractive if report else None,
    }


def show_report_tree(rows: list[Row], tree: CommunityTree, level: int | None) -> None:
    """Print one line per community: id, title, rating, size.

    In a tree, small communities are counted in the last line.
    """
    listed = [row for row in rows if level is not None or row["entities"] >= _MIN_ENTITIES] or rows
    if not rows:
        print("There are no communities: no related entities were found in the documents.")
        return
    table = [
        (
            row["id"][: _id_prefix_length(tree)],
            "  " * (row["level"] if level is None else 0) + (row["title"] or "(no report yet)"),
            "" if row["rating"] is None else f"{row['rating']:g}",
            f"{row['entities']:,}",
        )
        for row in listed
    ]
    show_rows(table, head=("id", "report", "rating", "entities"), numeric=(2, 3))
    if hidden := len(rows) - len(listed):
        print(
            f"And {hidden:,} with fewer than {_MIN_ENTITIES} entities; "
            f"`kumi report --level {tree.depth - 1}` lists them all."
        )
    elif level is None and tree.depth > _TREE_LEVELS:
        print(f"There are {tree.depth} levels: `kumi report --level {tree.depth - 1}` lists the finest.")
    extractive = [row["extractive"] for row in rows if row["title"]]
    if any(extractive):
        subject = "They" if all(extractive) else "Some of these"
        print(f"{subject} are extractive: sentences of the documents, selected without a model.")


def _id_prefix_length(tree: CommunityTree) -> int:
    """Return the length of the shortest unambiguous id prefix, at least 6."""
    return next(n for n in count(6) if len({id[:n] for id in tree.level}) == len(tree.level))


# -- one report


def report_details(snapshot: Snapshot, tree: CommunityTree, report: Report) -> Row:
    """Return a whole report, with the names of its references."""
    name_by_ref = reference_names(snapshot, report)
    return {
        **_report_row(tree, report.id, report),
        "above": [_title_row(snapshot, id) for id in tree.ancestors(report.id)[:-1]],
        "summary": name_references(report.summary, report, name_by_ref),
        "reason": name_references(report.reason, report, name_by_ref),
        "findings": [
            {
                "summary": name_references(summary, report, name_by_ref),
                "explanation": name_references(explanation, report, name_by_ref),
            }
            for summary, explanation in report.findings
        ],
        "data": [
            {"table": table, "number": number, "id": id, "name": name_by_ref[table, id]}
            for table, number, id in report.data
        ],
        "parts": [_title_row(snapshot, id) for id in tree.sorted_children(report.id)],
        "members": [{"id": id, "name": display_name(snapshot, ("entities", id))} for id in tree.members[report.id]],
        "sources": _source_counts(snapshot, report),
        "dropped": report.dropped,
    }


def _title_row(snapshot: Snapshot, id: str) -> Row:
    return {"id": id, "title": display_name(snapshot, ("reports", id))}


def _source_counts(snapshot: Snapshot, report: Report) -> dict[str, int]:
    """Return the documents of a community with passage counts, largest first."""
    passages = Counter(span.uri for span in snapshot.trace(("reports", report.id)))
    return dict(sorted(passages.items(), key=lambda item: (-item[1], item[0])))


def show_report(report: Row) -> None:
    """Print a report, then its parents, parts or members, and documents."""
    console = make_console()
    console.print(replace_controls(report["title"]), style="bold", markup=False)
    subtitle = (
        f"level {report['level']}, rating {report['rating']:g} of 10, {report['entities']:,} entities, {report['id']}"
    )
    console.print(subtitle, style="dim", markup=False)
    if report["extractive"]:
        console.print("(Extractive: sentences of the documents, selected without a model.)", style="dim")
    _print_text(report["summary"])
    for finding in report["findings"]:
        print()
        console.print(replace_controls(_one_line(finding["summary"])), style="bold cyan", markup=False)
        _print_text(finding["explanation"])
    if report["reason"]:
        _print_text(f"Why this rating: {report['reason']}")
    if report["dropped"]:
        console.print(f"(References removed because they matched nothing: {report['dropped']}.)", style="dim")
    _print_list("Part of", [part["title"] for part in report["above"]])
    _print_list("Parts", [f"{part['id']}  {part['title']}" for part in report["parts"]])
    _print_list("Members", [member["name"] for member in report["members"]])
    _print_list("Documents", [f"{uri}: {_passage_count(n)}" for uri, n in report["sources"].items()])


def _print_text(text: str) -> None:
    if text:
        print()
        make_console().print(replace_controls(text.replace("**", "")), markup=False)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _passage_count(n: int) -> str:
    return f"{n:,} {'passage' if n == 1 else 'passages'}"


def _print_list(head: str, items: list[str]) -> None:
    if not items:
        return
    print()
    console = make_console()
    console.print(head, style="bold", markup=False)
    for item in items[:_MAX_LISTED]:
        console.print(f"  {replace_controls(_one_line(item))}", markup=False)
    if len(items) > _MAX_LISTED:
        console.print(f"  and {len(items) - _MAX_LISTED:,} more (--json lists them)", style="dim", markup=False)


def show_written(path: Path, rows: Mapping[str, int]) -> None:
    """Print the path written and its row counts."""
    print(f"Wrote {replace_controls(str(path))}: {', '.join(f'{n:,} {name}' for name, n in rows.items())}.")
