"""the data sets, where they are -> the figures that are promised. Prints them: `pytest -s tests/test_figures.py`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

import pytest
from benchmarks import files, growth
from benchmarks.meter import measured
from benchmarks.passages import FLOORS, SETS, recall

from kumihimo import Kumihimo

DATA = Path(__file__).parents[2] / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not DATA.exists(), reason=f"the data sets are not in {DATA}")


def found(name: str, methods: Sequence[str]) -> dict[str, float]:
    """Return recall@5 of a data set by method, and what indexing took."""
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            kumi.index(DATA / f"{SETS[name]}_corpus.jsonl", methods=methods)
        asked = DATA / f"{SETS[name]}_questions.jsonl"
        figures = {method: recall(kumi, asked, method, {})[0] for method in methods}
    figures["cpu"] = cost.cpu
    print(name, {said: round(value, 4) for said, value in figures.items()})
    return figures


@NEEDS_DATA
def test_passages_are_indexed_quickly_and_found_by_words_and_meaning() -> None:
    # In one test: two may be two processes, each with all of the indexes.
    figures = {name: found(name, ["bm25", "naive"]) for name in FLOORS}
    assert figures["musique"]["cpu"] < 15
    assert {name: floor for name, floor in FLOORS.items() if figures[name]["naive"] < floor} == {}
    assert mean(figures[name]["naive"] - figures[name]["bm25"] for name in FLOORS) >= 0.01  # what meaning adds


@NEEDS_DATA
@pytest.mark.parametrize("name", ["jsquad", "drcd"])
def test_japanese_and_chinese_are_found_by_words(name: str) -> None:
    assert found(name, ["bm25"])["bm25"] >= 0.96


def test_what_is_written_grows_as_the_documents() -> None:
    small, middle, large = (growth.index(count).written for count in (100, 200, 400))
    assert abs(middle / small - 2) <= 0.3
    assert abs(large / middle - 2) <= 0.3


def test_what_has_not_changed_is_not_opened(tmp_path: Path) -> None:
    folder = files.fill(tmp_path / "files", 30, tmp_path)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(folder, methods=["bm25"])
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            damage(path)
        again = kumi.index()
        assert (again.unchanged, again.failed) == (30, ())
        assert len(kumi.index(reread=True).failed) == 30


def damage(path: Path) -> None:
    """Replace the bytes of a file, but keep its size and time."""
    stat = path.stat()
    path.write_bytes(bytes(stat.st_size))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
