"""communities, reports, chunks -> size of each level; also in the status, with modularity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.browse.community_tree import index_levels, measure_levels
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.results import CommunityLevel, Status
from kumihimo.app.upkeep.status import index_modularity
from kumihimo.cli import terminal
from kumihimo.core.records import Chunk, Community, Report
from kumihimo.core.table import Table
from kumihimo.llm.protocols import Reply
from tests.factories_tables import table
from tests.fixtures_index import EXAMPLES, fill, write_reports


def community(id: str, level: int, parent: str = "", *children: str) -> Community:
    return Community(id=id, level=level, parent=parent, children=children, members=() if children else (f"e{id}",))


def report(id: str, tokens: int) -> Report:
    return Report("", "", 5.0, "", (), (), 0, 0, 0, tokens, id=id)


def chunks(*sizes: int) -> Table[Chunk]:
    return table(Chunk, [Chunk("", 0, 1, tokens, id=f"d.{i:05}") for i, tokens in enumerate(sizes)])


# t has children a and b, a has children p and q; z has none
TREE = [
    community("t", 0, "", "a", "b"),
    community("z", 0),
    community("a", 1, "t", "p", "q"),
    community("b", 1, "t"),
    community("p", 2, "a"),
    community("q", 2, "a"),
]
SIZES = {"t": 100, "z": 40, "a": 80, "b": 30, "p": 60, "q": 50}


def test_level_has_its_communities_and_leaves_above() -> None:
    results = measure_levels(
        table(Community, TREE), table(Report, [report(*each) for each in SIZES.items()]), chunks(600, 200)
    )
    assert results == [
        CommunityLevel("C0", 2, 140, 17.5),  # t z
        CommunityLevel("C1", 3, 150, 18.75),  # a b z
        CommunityLevel("C2", 4, 180, 22.5),  # p q b z
        CommunityLevel("TS", 2, 800, 100.0),
    ]


def test_reports_that_are_missing_are_not_counted() -> None:
    results = measure_levels(table(Community, TREE), table(Report, [report("z", 40)]), chunks(400))
    assert [(level.name, level.units, level.share) for level in results] == [
        ("C0", 1, 10.0),
        ("C1", 1, 10.0),
        ("C2", 1, 10.0),
        ("TS", 1, 100.0),
    ]


def test_empty_index() -> None:
    assert measure_levels(table(Community, []), table(Report, []), chunks()) == [CommunityLevel("TS", 0, 0, 0.0)]


def test_an_index_without_communities_has_no_levels(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine."}), methods=["bm25"])
        status = kumi.status(levels=True)
        assert (status.modularity, status.levels) == (None, ())
        with kumi.snapshot() as snapshot:
            assert (index_modularity(snapshot), index_levels(snapshot)) == (None, ())


def test_levels_and_modularity_of_an_index(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(EXAMPLES, methods=["global"])
        write_reports(kumi)
        status = kumi.status(levels=True)
        rows = status.rows
    *upper, source = status.levels
    assert [level.name for level in upper] == [f"C{n}" for n in range(len(upper))]
    assert [level.units for level in upper] == sorted(level.units for level in upper)
    assert upper[-1].units < rows["reports"]
    assert (source.name, source.units, source.share) == ("TS", rows["chunks"], 100.0)
    assert status.modularity
    now, cold = status.modularity
    assert 0.3 < now == pytest.approx(cold)  # nothing has changed since the first build


def printed(capsys: pytest.CaptureFixture[str], **more: Any) -> str:
    memo = {"replies": 0, "bytes": 0}
    terminal.show_status(replace(Status(".kumi", {}, (), {}, (), {}, {}, (), 0, memo), **more))
    return capsys.readouterr().out


def test_status_shows_levels_and_modularity(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(
        capsys,
        modularity=(0.63, 0.64),
        levels=(CommunityLevel("C0", 34, 26657, 2.62), CommunityLevel("TS", 1669, 1014611, 100.0)),
    )
    assert "modularity 0.630  0.640 if detected anew" in text
    assert "level  units     tokens  of the source\nC0        34     26,657          2.6 %\n" in text
    assert "TS     1,669  1,014,611        100.0 %" in text
    assert "--recluster" not in text
    assert "`kumi index --recluster` detects them from scratch" in printed(capsys, modularity=(0.56, 0.64))
    assert "modularity" not in printed(capsys)


def test_status_counts_the_fields_of_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prose = "The ferry leaves the harbour at nine, and it is back before the tide has turned."
    files = {"2024-05-18.md": f"---\ntopic: ferry\n---\n{prose}", "a.md": "Tide table", "b.csv": "a,b\n1,2\n"}
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", files), methods=["bm25"])
        status = kumi.status()
        visible = kumi.status(rights="date >= 2024")
    counts = {name: status.fields.get(name, 0) for name in ("author", "date", "language", "kind", "topic", "uri")}
    assert counts == {"author": 0, "date": 1, "language": 1, "kind": 3, "topic": 1, "uri": 3}
    assert visible.fields["kind"] == visible.fields["date"] == 1
    text = printed(capsys, fields=status.fields)
    assert "field    kind         3 documents\n" in text
    assert text.index(" language ") < text.index(" topic ")


def file_states(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_reading_changes_no_file(tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine."})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(notes, methods=["bm25"])
        kumi.cache.put_many([(b"k", Reply("At nine.").to_bytes())])
    before = file_states(tmp_path)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        expected = {"replies": 1, "bytes": 35, "hits": 0, "misses": 1}
        assert kumi.status(levels=True).cache == kumi.cache_stats() == expected
        assert kumi.spent() == []
        assert kumi.retrieve("When does the ferry leave?")
    assert file_states(tmp_path) == before


def test_reading_creates_no_cache(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine."}), methods=["bm25"])
        assert kumi.cache.size() == (0, 0)
        assert kumi.status().cache == {"replies": 0, "bytes": 0, "hits": 0, "misses": 0}
    assert [path.name for path in (tmp_path / ".kumi").glob("cache*")] == []
