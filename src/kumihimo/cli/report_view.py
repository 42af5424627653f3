"""the reports of an index -> what a person reads of them in a terminal, and a program as JSON."""

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

_TREE_LEVELS = 2  # levels of the tree
_MIN_ENTITIES = 3  # entities: smaller communities are counted, not listed
_MAX_LISTED = 20

Row = dict[str, Any]


def require_reports(reading: Snapshot) -> None:
    """Raises Unusable where no reports were built, with the command that does it."""
    if not reading.db.has("reports"):
        raise IndexUnavailable(
            "the index has no reports yet: `kumi index --methods global` writes them, "
            "`kumi plan --methods global` says what that costs"
        )


def find_report(reading: Snapshot, tree: CommunityTree, id: str) -> Report:
    """The report of the community of that id, or whose id alone begins so. Raises SettingsError."""
    wanted = id.removeprefix("reports:").removeprefix("communities:")
    ids = [wanted] if wanted in tree.level else sorted(known for known in tree.level if known.startswith(wanted))
    if len(ids) != 1:
        some = ", ".join(ids[:5])
        what = f"{len(ids):,} communities have ids that begin with {id!r}, {some}: write more of it"
        nothing = f"no community has an id that begins with {id!r}: `kumi report` shows ids"
        raise SettingsError(what if ids else nothing)
    report: Report | None = table_or_empty(reading, "reports").get(ids[0])
    if report is None:
        raise SettingsError(f"community {ids[0]} has no report yet: `kumi index` writes it")
    return report


# -- several


def list_reports(reading: Snapshot, tree: CommunityTree, level: int | None) -> list[Row]:
    """The communities of that level with what their reports are called; of no level: of the upper two, as a tree."""
    if level is not None and level >= tree.depth:
        raise SettingsError(f"there is no level {level}: the deepest is {tree.depth - 1}")
    ids = list(_walk(tree, tree.roots(), _TREE_LEVELS)) if level is None else tree.at_level(level)
    reports = table_or_empty(reading, "reports")
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
    """A line for each: id, title, rating, size; in a tree, small communities are counted at its end."""
    large = [row for row in rows if level is not None or row["entities"] >= _MIN_ENTITIES] or rows
    if not rows:
        print("There are no communities: nothing was found in the documents that could be in one.")
        return
    shown = [
        (
            row["id"][: _id_prefix_length(tree)],
            "  " * (row["level"] if level is None else 0) + (row["title"] or "(no report yet)"),
            "" if row["rating"] is None else f"{row['rating']:g}",
            f"{row['entities']:,}",
        )
        for row in large
    ]
    show_rows(shown, head=("id", "report", "rating", "entities"), numeric=(2, 3))
    if less := len(rows) - len(large):
        print(
            f"And {less:,} of fewer than {_MIN_ENTITIES} entities; `kumi report --level {tree.depth - 1}` lists them all."
        )
    elif level is None and tree.depth > _TREE_LEVELS:
        print(f"There are {tree.depth} levels: `kumi report --level {tree.depth - 1}` lists the finest.")
    extractive = [row["extractive"] for row in rows if row["title"]]
    if any(extractive):
        which = "They" if all(extractive) else "Some of these"
        print(f"{which} are extractive: sentences of the documents, put together without a model.")


def _id_prefix_length(tree: CommunityTree) -> int:
    """How much of an id tells it from all others, 6 letters at least."""
    return next(n for n in count(6) if len({id[:n] for id in tree.level}) == len(tree.level))


# -- one


def report_details(reading: Snapshot, tree: CommunityTree, report: Report) -> Row:
    """All of a report, with the names of what it refers to."""
    known = reference_names(reading, report)
    return {
        **_report_row(tree, report.id, report),
        "above": [_title_row(reading, id) for id in tree.ancestors(report.id)[:-1]],
        "summary": name_references(report.summary, report, known),
        "reason": name_references(report.reason, report, known),
        "findings": [
            {
                "summary": name_references(summary, report, known),
                "explanation": name_references(explanation, report, known),
            }
            for summary, explanation in report.findings
        ],
        "data": [
            {"table": table, "number": number, "id": id, "name": known[table, id]} for table, number, id in report.data
        ],
        "parts": [_title_row(reading, id) for id in tree.sorted_children(report.id)],
        "members": [{"id": id, "name": display_name(reading, ("entities", id))} for id in tree.members[report.id]],
        "sources": _source_counts(reading, report),
        "dropped": report.dropped,
    }


def _title_row(reading: Snapshot, id: str) -> Row:
    return {"id": id, "title": display_name(reading, ("reports", id))}


def _source_counts(reading: Snapshot, report: Report) -> dict[str, int]:
    """The documents that the community was found in, those with most passages first."""
    passages = Counter(span.uri for span in reading.trace(("reports", report.id)))
    return dict(sorted(passages.items(), key=lambda item: (-item[1], item[0])))


def show_report(found: Row) -> None:
    """The whole report; then what is above it, its parts or members, and the documents."""
    console = make_console()
    console.print(replace_controls(found["title"]), style="bold", markup=False)
    rated = f"level {found['level']}, rating {found['rating']:g} of 10, {found['entities']:,} entities, {found['id']}"
    console.print(rated, style="dim", markup=False)
    if found["extractive"]:
        console.print("(Extractive: sentences of the documents, put together without a model.)", style="dim")
    _print_text(found["summary"])
    for finding in found["findings"]:
        print()
        console.print(replace_controls(_one_line(finding["summary"])), style="bold cyan", markup=False)
        _print_text(finding["explanation"])
    if found["reason"]:
        _print_text(f"Why this rating: {found['reason']}")
    if found["dropped"]:
        console.print(f"(References taken out, since they pointed nowhere: {found['dropped']}.)", style="dim")
    _print_list("Part of", [part["title"] for part in found["above"]])
    _print_list("Parts", [f"{part['id']}  {part['title']}" for part in found["parts"]])
    _print_list("In it", [member["name"] for member in found["members"]])
    _print_list("Documents", [f"{uri}: {_passage_count(n)}" for uri, n in found["sources"].items()])


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
    """Where something was written, and how much is in it."""
    print(f"Wrote {replace_controls(str(path))}: {', '.join(f'{n:,} {name}' for name, n in rows.items())}.")
