"""`kumi export`, `kumi report` -> files, a page, reports in the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.browse.community_tree import CommunityTree
from kumihimo.cli import report_commands
from kumihimo.exports import DEFAULT_PATHS, FORMATS
from tests import factories_graphs
from tests.cli.test_cli import Run, error_of, json_of, kumi

__all__ = ["kumi"]  # a fixture


@pytest.fixture
def graph(kumi: Run) -> Run:
    factories_graphs.index(Path(".kumi"), 60)
    return kumi


def rows(run: Run, *arguments: str) -> list[dict[str, Any]]:
    listed_rows: list[dict[str, Any]] = json_of(run("report", *arguments, "--json"))
    return listed_rows


# -- export


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "parquet"])
def test_a_format_is_written_where_it_is_said(name: str, graph: Run) -> None:
    code, out, err = graph("export", name)
    assert (code, err) == (0, "")
    assert re.match(rf"Wrote {re.escape(DEFAULT_PATHS[name])}: .*\b60 entities, ", out)
    assert Path(DEFAULT_PATHS[name]).exists()
    result = json_of(graph("export", name, "--out", "below/there", "--json"))
    assert result["written"] == str(Path("below/there"))
    assert result["rows"]["entities"] == 60
    assert Path("below/there").exists()


def test_an_unknown_format_is_told_from_the_nearest(graph: Run) -> None:
    assert "no format 'graphlm'; did you mean 'graphml'?" in error_of(graph("export", "graphlm"))


def test_a_place_that_is_taken_is_refused(graph: Run) -> None:
    Path("mine").write_text("mine", encoding="utf-8")
    assert "already exists" in error_of(graph("export", "graphml", "--out", "mine"))
    assert "already exists" in error_of(graph("report", "--html", "mine"))
    assert Path("mine").read_text(encoding="utf-8") == "mine"
    assert "is a folder" in error_of(graph("export", "graphml", "--out", "notes"))
    assert graph("export", "graphml", "--out", "mine", "--force")[0] == 0
    assert Path("mine").read_text(encoding="utf-8").startswith("<?xml")
    assert "cannot be written" in error_of(graph("export", "csv", "--out", "mine/below"))


def test_without_a_graph_the_index_says_so(kumi: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kumi("index", "notes", "--methods", "bm25")[0] == 0
    monkeypatch.setenv("KUMI_EMBEDDING_MODEL", "e")  # which would be paid
    monkeypatch.setenv("KUMI_EMBEDDING_BASE_URL", "http://127.0.0.1:9/v1")
    assert "has no table entities yet" in error_of(kumi("export", "csv"))
    assert "has no table entities yet" in error_of(kumi("report", "--html", "page.html"))
    assert "`kumi index --methods bm25,global` builds it, and `kumi plan --" in error_of(kumi("report"))


# -- reports


def test_the_tree_has_two_levels_at_first(graph: Run) -> None:
    listing = rows(graph)
    assert {row["level"] for row in listing} == {0, 1}
    for row, parent in ((row, row["parent"]) for row in listing if row["level"] == 1):
        before = [other["id"] for other in listing[: listing.index(row)] if other["level"] == 0]
        assert before[-1] == parent, "parts follow what they are part of"
    code, out, _ = graph("report")
    assert code == 0
    head, *lines, levels, by_rule = out.splitlines()
    assert head.split() == ["report", "entities", "rating", "id"]
    assert [line.split()[-1] for line in lines] == [row["id"][:6] for row in listing]
    inner = next(line for line in lines if line.endswith(listing[1]["id"][:6]))
    assert inner.startswith("  ")
    assert levels.startswith("There are 3 levels: ")
    count = sum(row["maker"] == "rows" for row in listing)
    assert by_rule.startswith(f"{count} of them ")


def test_only_the_largest_are_listed_at_first(graph: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_commands, "_MAX_LISTED", 3)
    listing = rows(graph)
    largest = sorted(listing, key=lambda row: -row["entities"])[:3]
    lines = graph("report")[1].splitlines()
    assert {line.split()[-1] for line in lines[1:4]} == {row["id"][:6] for row in largest}
    assert lines[4] == f"The 3 largest of {len(listing)}: `kumi report --all` lists them all."
    assert "`kumi report --level 2 --all` lists" in graph("report", "--level", "2")[1]
    everything = graph("report", "--all")[1]
    assert all(row["id"][:6] in everything for row in listing)
    assert "largest" not in everything
    assert "leave ID" in error_of(graph("report", "--all", listing[0]["id"]))


def test_a_level_holds_every_entity_once(graph: Run) -> None:
    for level in (0, 1, 2):
        listing = rows(graph, "--level", str(level))
        assert sum(row["entities"] for row in listing) == 60
        assert max(row["level"] for row in listing) == level
        assert [row["entities"] for row in listing] == sorted((row["entities"] for row in listing), reverse=True)
    assert "there is no level 3: the deepest is 2" in error_of(graph("report", "--level", "3"))


def test_a_report_is_shown_whole(graph: Run) -> None:
    row = next(row for row in rows(graph) if row["level"] == 1)
    report: Any = rows(graph, row["id"])
    assert (report["id"], report["title"], report["above"][0]["id"]) == (row["id"], row["title"], row["parent"])
    assert {item["table"] for item in report["findings"][0]["sources"]} >= {"entities", "reports"}
    assert sum(report["sources"].values()) > 0
    code, out, _ = graph("report", row["id"][:6])
    assert code == 0
    assert out.splitlines()[0] == row["title"]
    assert f"level 1, rating {row['rating']:g} of 10, {row['entities']:,} entities, {row['id']}" in out
    for finding in report["findings"]:
        assert finding["summary"] in out
        names = list(dict.fromkeys(item["name"] for item in finding["sources"]))
        assert f"[{'; '.join(names)}]" in " ".join(out.split())
    assert "\nPart of\n" in out
    assert "\nParts\n" in out
    assert "\nDocuments\n  notes/day-" in out


def test_a_leaf_names_its_members(graph: Run) -> None:
    leaf = rows(graph, "--level", "2")[0]
    report: Any = rows(graph, leaf["id"])
    assert len(report["members"]) == leaf["entities"]
    out = graph("report", leaf["id"])[1]
    assert "\nMembers\n" in out
    assert all(member["name"] in out for member in report["members"])


def test_an_id_that_is_not_clear_is_refused(graph: Run) -> None:
    assert "no community has an id that begins with 'xyz'" in error_of(graph("report", "xyz"))
    assert "give one of ID, --level N and --html FILE" in error_of(graph("report", "abc", "--level", "1"))


def test_communities_without_reports_are_listed(kumi: Run) -> None:
    tables = factories_graphs.made(60, 240)
    factories_graphs.write(Path(".kumi"), {**tables, "reports": tables["reports"][:1]})
    listing = rows(kumi, "--level", "2")
    assert sum(row["title"] is None for row in listing) >= len(listing) - 1
    assert "(no report yet)" in kumi("report", "--level", "2")[1]
    missing = next(row["id"] for row in listing if row["title"] is None)
    assert f"community {missing} has no report yet" in error_of(kumi("report", missing))


def test_an_index_without_communities_says_so(kumi: Run) -> None:
    factories_graphs.write(Path(".kumi"), {"documents": [], "communities": [], "reports": []})
    assert kumi("report")[:2] == (
        0,
        "There are no communities: no related entities were found in the documents.\n",
    )
    assert json_of(kumi("report", "--json")) == []


def test_nothing_steers_the_terminal(kumi: Run) -> None:
    tables = factories_graphs.made(8, 8)
    factories_graphs.write(Path(".kumi"), {**tables, "reports": [_evil(report) for report in tables["reports"]]})
    out = kumi("report")[1] + "".join(kumi("report", row["id"])[1] for row in rows(kumi))
    assert "evil" in out
    assert "\x1b" not in out


def _evil(report: Any) -> Any:
    evil = "evil \x1b[2J\x1b]0;title\x07"
    return replace(report, title=evil, summary=evil, reason=evil, findings=((evil, evil),))


def test_the_page_is_written_where_it_is_said(graph: Run) -> None:
    code, out, _ = graph("report", "--html", "report.html")
    assert (code, out) == (0, "Wrote report.html: 60 entities, 240 relations, 13 reports.\n")
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert json_of(graph("report", "--html", "report.html", "--json"))["rows"]["reports"] == 13


def test_ids_are_as_long_as_they_need_be() -> None:
    level = {"abcdefgh": 0, "abcdefxy": 0, "zzzzzzzz": 0}
    none: dict[str, tuple[str, ...]] = dict.fromkeys(level, ())
    assert report_commands._id_prefix_length(CommunityTree(level, dict.fromkeys(level, ""), none, none)) == 7
