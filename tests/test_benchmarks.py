"""tiny data -> every benchmark runs to its end."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from benchmarks import meter
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tiny_data import write_tiny_data

HELPERS = {"__init__", "__main__", "instant", "meter", "options", "tiny_data"}
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


def test_limits_hold_unless_quick() -> None:
    with pytest.raises(SystemExit, match="above 1"):
        meter.check_at_most("figure", 2, 1)
    with pytest.raises(SystemExit, match="below 3"):
        meter.check_at_least("figure", 2, 3)
    meter.enforce_limits(enabled=False)
    meter.check_at_most("figure", 2, 1)
    meter.check_at_least("figure", 2, 3)
