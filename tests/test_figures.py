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


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, float]]:
    """Recall@5 by data set and method, and what indexing took."""
    figures: dict[str, dict[str, float]] = {}
    for name, stem in SETS.items():
        with TemporaryDirectory() as folder, Kumihimo.open(Path(folder, ".kumi")) as kumi:
            with measured() as cost:
                kumi.index(DATA / f"{stem}_corpus.jsonl", methods=["bm25", "naive"])
            asked = DATA / f"{stem}_questions.jsonl"
            figures[name] = {method: recall(kumi, asked, method, {})[0] for method in ("bm25", "naive")}
            figures[name]["cpu"] = cost.cpu
        print(name, {said: round(value, 4) for said, value in figures[name].items()})
    return figures


@NEEDS_DATA
def test_passages_are_indexed_quickly(found: dict[str, dict[str, float]]) -> None:
    assert found["musique"]["cpu"] < 15


@NEEDS_DATA
@pytest.mark.parametrize("name", FLOORS)
def test_passages_are_found_by_words_and_meaning(found: dict[str, dict[str, float]], name: str) -> None:
    assert found[name]["naive"] >= FLOORS[name]


@NEEDS_DATA
def test_meaning_adds_to_words(found: dict[str, dict[str, float]]) -> None:
    assert mean(found[name]["naive"] - found[name]["bm25"] for name in FLOORS) >= 0.01


@NEEDS_DATA
@pytest.mark.parametrize("name", ["jsquad", "drcd"])
def test_japanese_and_chinese_are_found_by_words(found: dict[str, dict[str, float]], name: str) -> None:
    assert found[name]["bm25"] >= 0.96


def test_what_is_written_grows_as_the_documents() -> None:
    small, middle, large = (growth.index(count).written for count in (100, 200, 400))
    assert abs(middle / small - 2) <= 0.3
    assert abs(large / middle - 2) <= 0.3


def test_what_has_not_changed_is_not_opened(tmp_path: Path) -> None:
    folder = files.fill(tmp_path / "files", 30, tmp_path)
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        kumi.index(folder)
        with files.opened(folder) as again:
            assert kumi.index().same == 30
        with files.opened(folder) as checked:
            assert kumi.index(check=True).read == 30
    assert (len(again), len(checked)) == (0, 30)
