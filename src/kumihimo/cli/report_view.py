"""the reports of an index -> what a person reads of them in a terminal, and a program as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from kumihimo.app.community_tree import Tree, called, held, names, spoken
from kumihimo.app.snapshot import Reading
from kumihimo.cli.sanitize import harmless
from kumihimo.cli.terminal import _console, show_rows
from kumihimo.core.errors import SettingsError, Unusable
from kumihimo.core.records import Report

_SHOWN = 2  # levels of the tree
_FEW = 3  # entities: smaller communities are counted, not listed
_LISTED = 20

Row = dict[str, Any]


def there(reading: Reading) -> None:
    """Raises Unusable where no reports were built, with the command that does it."""
    if not reading.db.has("reports"):
        raise Unusable(
            "the index has no reports yet: `kumi index --methods global` writes them, "
            "`kumi plan --methods global` says what that costs"
        )


def found(reading: Reading, tree: Tree, id: str) -> Report:
    """The report of the community of that id, or whose id alone begins so. Raises SettingsError."""
    wanted = id.removeprefix("reports:").removeprefix("communities:")
    ids = [wanted] if wanted in tree.level else sorted(known for known in tree.level if known.startswith(wanted))
    if len(ids) != 1:
        some = ", ".join(ids[:5])
        what = f"{len(ids):,} communities have ids that begin with {id!r}, {some}: write more of it"
        nothing = f"no community has an id that begins with {id!r}: `kumi report` shows ids"
        raise SettingsError(what if ids else nothing)
    report: Report | None = held(reading, "reports").get(ids[0])
    if report is None:
        raise SettingsError(f"community {ids[0]} has no report yet: `kumi index` writes it")
    return report


# -- several


def listed(reading: Reading, tree: Tree, level: int | None) -> list[Row]:
    """The communities of that level with what their reports are called; of no level: of the upper two, as a tree."""
    if level is not None and level >= tree.depth:
        raise SettingsError(f"there is no level {level}: the deepest is {tree.depth - 1}")
    ids = list(_walked(tree, tree.roots(), _SHOWN)) if level is None else tree.at(level)
    reports = held(reading, "reports")
    return [row for id in ids if (row := _row(tree, id, reports.get(id)))["title"] or row["entities"] > 1]


def _walked(tree: Tree, ids: Iterable[str], levels: int) -> Iterator[str]:
    for id in ids:
        yield id
        if levels > 1:
            yield from _walked(tree, tree.below(id), levels - 1)


def _row(tree: Tree, id: str, report: Report | None) -> Row:
    return {
        "id": id,
        "level": tree.level[id],
        "parent": tree.parent[id],
        "entities": tree.size[id],
        "title": report.title if report else None,
        "rating": report.rating if report else None,
        "extractive": report.extractive if report else None,
    }


def show_tree(rows: list[Row], tree: Tree, level: int | None) -> None:
    """A line for each: id, title, rating, size; in a tree, small communities are counted at its end."""
    large = [row for row in rows if level is not None or row["entities"] >= _FEW] or rows
    if not rows:
        print("There are no communities: nothing was found in the documents that could be in one.")
        return
    shown = [
        (
            row["id"][: _enough(tree)],
            "  " * (row["level"] if level is None else 0) + (row["title"] or "(no report yet)"),
            "" if row["rating"] is None else f"{row['rating']:g}",
            f"{row['entities']:,}",
        )
        for row in large
    ]
    show_rows(shown, head=("id", "report", "rating", "entities"), figures=(2, 3))
    if less := len(rows) - len(large):
        print(f"And {less:,} of fewer than {_FEW} entities; `kumi report --level {tree.depth - 1}` lists them all.")
    elif level is None and tree.depth > _SHOWN:
        print(f"There are {tree.depth} levels: `kumi report --level {tree.depth - 1}` lists the finest.")
    extractive = [row["extractive"] for row in rows if row["title"]]
    if any(extractive):
        which = "They" if all(extractive) else "Some of these"
        print(f"{which} are extractive: sentences of the documents, put together without a model.")


def _enough(tree: Tree) -> int:
    """How much of an id tells it from all others, 6 letters at least."""
    return next(n for n in count(6) if len({id[:n] for id in tree.level}) == len(tree.level))


# -- one


def told(reading: Reading, tree: Tree, report: Report) -> Row:
    """All of a report, with the names of what it refers to."""
    known = names(reading, report)
    return {
        **_row(tree, report.id, report),
        "above": [_titled(reading, id) for id in tree.above(report.id)[:-1]],
        "summary": spoken(report.summary, report, known),
        "reason": spoken(report.reason, report, known),
        "findings": [
            {"summary": spoken(summary, report, known), "explanation": spoken(explanation, report, known)}
            for summary, explanation in report.findings
        ],
        "data": [
            {"table": table, "number": number, "id": id, "name": known[table, id]} for table, number, id in report.data
        ],
        "parts": [_titled(reading, id) for id in tree.below(report.id)],
        "members": [{"id": id, "name": called(reading, ("entities", id))} for id in tree.members[report.id]],
        "sources": _sources(reading, report),
        "dropped": report.dropped,
    }


def _titled(reading: Reading, id: str) -> Row:
    return {"id": id, "title": called(reading, ("reports", id))}


def _sources(reading: Reading, report: Report) -> dict[str, int]:
    """The documents that the community was found in, those with most passages first."""
    passages = Counter(span.uri for span in reading.trace(("reports", report.id)))
    return dict(sorted(passages.items(), key=lambda item: (-item[1], item[0])))


def show(found: Row) -> None:
    """The whole report; then what is above it, its parts or members, and the documents."""
    console = _console()
    console.print(harmless(found["title"]), style="bold", markup=False)
    rated = f"level {found['level']}, rating {found['rating']:g} of 10, {found['entities']:,} entities, {found['id']}"
    console.print(rated, style="dim", markup=False)
    if found["extractive"]:
        console.print("(Extractive: sentences of the documents, put together without a model.)", style="dim")
    _say(found["summary"])
    for finding in found["findings"]:
        print()
        console.print(harmless(_line(finding["summary"])), style="bold cyan", markup=False)
        _say(finding["explanation"])
    if found["reason"]:
        _say(f"Why this rating: {found['reason']}")
    if found["dropped"]:
        console.print(f"(References taken out, since they pointed nowhere: {found['dropped']}.)", style="dim")
    _show_list("Part of", [part["title"] for part in found["above"]])
    _show_list("Parts", [f"{part['id']}  {part['title']}" for part in found["parts"]])
    _show_list("In it", [member["name"] for member in found["members"]])
    _show_list("Documents", [f"{uri}: {_counted(n)}" for uri, n in found["sources"].items()])


def _say(text: str) -> None:
    if text:
        print()
        _console().print(harmless(text.replace("**", "")), markup=False)


def _line(text: str) -> str:
    return " ".join(text.split())


def _counted(n: int) -> str:
    return f"{n:,} {'passage' if n == 1 else 'passages'}"


def _show_list(head: str, items: list[str]) -> None:
    if not items:
        return
    print()
    console = _console()
    console.print(head, style="bold", markup=False)
    for item in items[:_LISTED]:
        console.print(f"  {harmless(_line(item))}", markup=False)
    if len(items) > _LISTED:
        console.print(f"  and {len(items) - _LISTED:,} more (--json lists them)", style="dim", markup=False)


def show_written(path: Path, rows: Mapping[str, int]) -> None:
    """Where something was written, and how much is in it."""
    print(f"Wrote {harmless(str(path))}: {', '.join(f'{n:,} {name}' for name, n in rows.items())}.")
