"""`kumi export` and `kumi report` -> files, a page, reports in the terminal."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.community_tree import CommunityTree
from kumihimo.cli import report_view
from kumihimo.exports import DEFAULT_PATHS, FORMATS
from tests import factories_graphs
from tests.cli.test_cli import Run, document, kumi, refused

__all__ = ["kumi"]  # a fixture


@pytest.fixture
def seen(kumi: Run) -> Run:
    factories_graphs.index(Path(".kumi"), 60)
    return kumi


def rows(run: Run, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document(run("report", *arguments, "--json"))
    return found


# -- export


@pytest.mark.parametrize("name", [name for name in FORMATS if name != "parquet"])
def test_a_format_is_written_where_it_is_said(name: str, seen: Run) -> None:
    code, out, err = seen("export", name)
    assert (code, err) == (0, "")
    assert re.match(rf"Wrote {re.escape(DEFAULT_PATHS[name])}: .*\b60 entities, ", out)
    assert Path(DEFAULT_PATHS[name]).exists()
    told = document(seen("export", name, "--out", "below/there", "--json"))
    assert told["written"] == str(Path("below/there"))
    assert told["rows"]["entities"] == 60
    assert Path("below/there").exists()


def test_an_unknown_format_is_told_from_the_nearest(seen: Run) -> None:
    assert "no format 'graphlm'; did you mean 'graphml'?" in refused(seen("export", "graphlm"))


def test_a_place_that_is_taken_is_refused(seen: Run) -> None:
    Path("mine").write_text("mine")
    assert "is there already" in refused(seen("export", "graphml", "--out", "mine"))
    assert "is there already" in refused(seen("report", "--html", "mine"))
    assert Path("mine").read_text() == "mine"
    assert "is there already" in refused(seen("export", "graphml", "--out", "notes"))
    assert "cannot be written" in refused(seen("export", "csv", "--out", "mine/below"))


def test_without_a_graph_the_index_says_so(kumi: Run) -> None:
    assert kumi("index", "notes", "--methods", "bm25")[0] == 0
    assert "has no table entities yet" in refused(kumi("export", "csv"))
    assert "has no table entities yet" in refused(kumi("report", "--html", "page.html"))
    assert "`kumi index --methods global` writes them" in refused(kumi("report"))


# -- reports


def test_the_tree_has_two_levels_at_first(seen: Run) -> None:
    told = rows(seen)
    assert {row["level"] for row in told} == {0, 1}
    for row, parent in ((row, row["parent"]) for row in told if row["level"] == 1):
        before = [other["id"] for other in told[: told.index(row)] if other["level"] == 0]
        assert before[-1] == parent, "parts follow what they are part of"
    code, out, _ = seen("report")
    assert code == 0
    head, *lines, less, extractive = out.splitlines()
    assert head.split() == ["id", "report", "rating", "entities"]
    assert [line.split()[0] for line in lines] == [row["id"][:6] for row in told if row["entities"] >= 3]
    inner = next(line for line in lines if line.startswith(told[1]["id"][:6]))
    assert inner[6:].startswith("    ")
    assert less == "And 1 of fewer than 3 entities; `kumi report --level 2` lists them all."
    assert "without a model" in extractive


def test_a_level_holds_every_entity_once(seen: Run) -> None:
    for level in (0, 1, 2):
        told = rows(seen, "--level", str(level))
        assert sum(row["entities"] for row in told) == 60
        assert max(row["level"] for row in told) == level
        assert [row["entities"] for row in told] == sorted((row["entities"] for row in told), reverse=True)
    assert "there is no level 3: the deepest is 2" in refused(seen("report", "--level", "3"))


def test_a_report_is_shown_whole(seen: Run) -> None:
    row = next(row for row in rows(seen) if row["level"] == 1)
    told: Any = rows(seen, row["id"])
    assert (told["id"], told["title"], told["above"][0]["id"]) == (row["id"], row["title"], row["parent"])
    assert {item["table"] for item in told["data"]} >= {"entities", "reports"}
    assert sum(told["sources"].values()) > 0
    code, out, _ = seen("report", row["id"][:6])
    assert code == 0
    assert out.splitlines()[0] == row["title"]
    assert f"level 1, rating {row['rating']:g} of 10, {row['entities']:,} entities, {row['id']}" in out
    for finding in told["findings"]:
        assert finding["summary"] in out
        assert "[Data:" not in finding["explanation"]
    assert "\nPart of\n" in out
    assert "\nParts\n" in out
    assert "\nDocuments\n  notes/day-" in out
    assert told["data"][0]["name"] in out


def test_a_leaf_names_its_members(seen: Run) -> None:
    leaf = rows(seen, "--level", "2")[0]
    told: Any = rows(seen, leaf["id"])
    assert len(told["members"]) == leaf["entities"]
    out = seen("report", leaf["id"])[1]
    assert "\nIn it\n" in out
    assert all(member["name"] in out for member in told["members"])


def test_an_id_that_is_not_clear_is_refused(seen: Run) -> None:
    assert "no community has an id that begins with 'xyz'" in refused(seen("report", "xyz"))
    assert "13 communities have ids that begin with ''" in refused(seen("report", ""))
    assert "say one of ID, --level N and --html FILE" in refused(seen("report", "abc", "--level", "1"))


def test_communities_without_reports_are_listed(kumi: Run) -> None:
    tables = factories_graphs.made(60, 240)
    factories_graphs.write(Path(".kumi"), {**tables, "reports": tables["reports"][:1]})
    told = rows(kumi, "--level", "2")
    assert sum(row["title"] is None for row in told) >= len(told) - 1
    assert "(no report yet)" in kumi("report", "--level", "2")[1]
    missing = next(row["id"] for row in told if row["title"] is None)
    assert f"community {missing} has no report yet" in refused(kumi("report", missing))


def test_an_index_without_communities_says_so(kumi: Run) -> None:
    factories_graphs.write(Path(".kumi"), {"documents": [], "communities": [], "reports": []})
    assert kumi("report")[:2] == (
        0,
        "There are no communities: nothing was found in the documents that could be in one.\n",
    )
    assert document(kumi("report", "--json")) == []


def test_nothing_steers_the_terminal(kumi: Run) -> None:
    tables = factories_graphs.made(8, 8)
    factories_graphs.write(Path(".kumi"), {**tables, "reports": [_evil(report) for report in tables["reports"]]})
    out = kumi("report")[1] + "".join(kumi("report", row["id"])[1] for row in rows(kumi))
    assert "evil" in out
    assert "\x1b" not in out


def _evil(report: Any) -> Any:
    evil = "evil \x1b[2J\x1b]0;title\x07"
    return replace(report, title=evil, summary=evil, reason=evil, findings=((evil, evil),))


def test_the_page_is_written_where_it_is_said(seen: Run) -> None:
    code, out, _ = seen("report", "--html", "report.html")
    assert (code, out) == (0, "Wrote report.html: 60 entities, 240 relations, 13 reports.\n")
    assert Path("report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert document(seen("report", "--html", "report.html", "--json"))["rows"]["reports"] == 13


def test_ids_are_as_long_as_they_need_be() -> None:
    level = {"abcdefgh": 0, "abcdefxy": 0, "zzzzzzzz": 0}
    none: dict[str, tuple[str, ...]] = dict.fromkeys(level, ())
    assert report_view._id_prefix_length(CommunityTree(level, dict.fromkeys(level, ""), none, none)) == 7
