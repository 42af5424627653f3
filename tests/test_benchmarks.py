"""tiny data -> every benchmark runs to its end."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from benchmarks import meter, weights
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tiny_data import write_tiny_data

HELPERS = {"__init__", "__main__", "instant", "meter", "options", "question_sets", "tiny_data"}
FOLDER = Path(meter.__file__).parent


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_enforced", True)


@pytest.mark.parametrize("name", sorted({name for name, _ in BENCHMARKS}))
def test_benchmark_runs_on_tiny_data(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"benchmarks.{name}").main(["--quick", "--data", str(data)])
    assert capsys.readouterr().out


def test_every_benchmark_is_run_by_make_bench() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} - HELPERS == {name for name, _ in BENCHMARKS}


@pytest.mark.parametrize(
    ("by", "seen"), [("set", {"hotpot", "news", "novel"}), ("kind", {"news", "novel"})], ids=["set", "kind"]
)
def test_weights_never_saw_the_tested_set(by: str, seen: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    sums: defaultdict[str, float] = defaultdict(float)

    def record(examples: list[Any], *, drop: object, question_weight: Callable[[str], float]) -> None:
        for example in examples:
            sums[example.id.partition(" ")[0]] += question_weight(example.id)

    monkeypatch.setattr(weights, "learn_weights", record)
    sizes = {"musique": 4, "hotpot": 2, "news": 5, "novel": 1}
    sets = {
        name: weights.MeasuredSet([Mock(id=f"{name} {n}", recall=lambda *_: 1.0) for n in range(size)], {})
        for name, size in sizes.items()
    }
    assert weights.HeldOut(sets, by).recalls("musique by GPT-3.5", sets["musique"]) == [1.0] * 4
    assert sums == dict.fromkeys(seen, pytest.approx(weights.SET_WEIGHT)), "each set counts the same"


def test_limits_hold_unless_quick() -> None:
    with pytest.raises(SystemExit, match="above 1"):
        meter.check_at_most("figure", 2, 1)
    with pytest.raises(SystemExit, match="below 3"):
        meter.check_at_least("figure", 2, 3)
    meter.enforce_limits(enabled=False)
    meter.check_at_most("figure", 2, 1)
    meter.check_at_least("figure", 2, 3)
