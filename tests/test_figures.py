"""the data sets, where they are -> the figures that are promised. Prints them: `pytest -s tests/test_figures.py`."""

from __future__ import annotations

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


def found(name: str) -> dict[str, float]:
    """Recall@5 of a data set by method, and what indexing took."""
    with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
        with measured() as cost:
            kumi.index(DATA / f"{SETS[name]}_corpus.jsonl", methods=["bm25", "naive"])
        asked = DATA / f"{SETS[name]}_questions.jsonl"
        figures = {method: recall(kumi, asked, method, {})[0] for method in ("bm25", "naive")}
    figures["cpu"] = cost.cpu
    print(name, {said: round(value, 4) for said, value in figures.items()})
    return figures


@NEEDS_DATA
def test_passages_are_indexed_quickly_and_found_by_words_and_meaning() -> None:
    figures = {name: found(name) for name in FLOORS}  # in one test: two may be two processes, each of which indexes all
    assert figures["musique"]["cpu"] < 15
    assert {name: floor for name, floor in FLOORS.items() if figures[name]["naive"] < floor} == {}
    assert mean(figures[name]["naive"] - figures[name]["bm25"] for name in FLOORS) >= 0.01  # what meaning adds


@NEEDS_DATA
@pytest.mark.parametrize("name", ["jsquad", "drcd"])
def test_japanese_and_chinese_are_found_by_words(name: str) -> None:
    assert found(name)["bm25"] >= 0.96


def test_what_is_written_grows_as_the_documents() -> None:
    small, middle, large = (growth.index(count).written for count in (100, 200, 400))
    assert abs(middle / small - 2) <= 0.3
    assert abs(large / middle - 2) <= 0.3


def test_what_has_not_changed_is_not_opened(tmp_path: Path) -> None:
    folder = files.fill(tmp_path / "files", 30, tmp_path)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(folder)
        with files.opened(folder) as again:
            assert kumi.index().unchanged == 30
        with files.opened(folder) as checked:
            assert kumi.index(reread=True).read == 30
    assert (len(again), len(checked)) == (0, 30)
