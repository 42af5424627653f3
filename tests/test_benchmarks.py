"""tiny data -> every benchmark runs to its end."""

from __future__ import annotations

import importlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import benchmarks.__main__
import pytest
from benchmarks import meter, same_answers, simulation, speed, weights
from benchmarks.__main__ import BENCHMARKS
from benchmarks.options import run_benchmark
from benchmarks.tiny_data import write_tiny_data

from kumihimo.core.errors import SettingsError

HELPERS = {"__init__", "__main__", "instant", "meter", "options", "question_sets", "tiny_data"}
HELPERS |= {"server_clients", "server_flood", "server_process", "speed_corpora", "speed_server", "speed_work"}
HELPERS |= {"corpus_statistics", "habits", "made_up", "postgres_process", "same_answers", "stored"}
HELPERS |= {"weight_fitting"}  # takes questions of yours
FOLDER = Path(meter.__file__).parent


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "_enforced", True)
    monkeypatch.setattr(meter, "unmet", [])


@pytest.mark.parametrize("name", sorted({name for name, _ in BENCHMARKS}))
def test_benchmark_runs_on_tiny_data(name: str, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module(f"benchmarks.{name}").main(["--quick", "--data", str(data)])
    assert capsys.readouterr().out


def test_the_simulation_builds_with_an_executor(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulation.main(["--quick", "--data", str(data), "--executor", "inline"])
    assert "| first build |" in capsys.readouterr().out
    with pytest.raises(SettingsError, match="'nowhere' is no address"):
        simulation.main(["--quick", "--data", str(data), "--executor", "nowhere"])


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


def _measure() -> None:
    meter.check_at_most("figure", 2, 1)
    meter.check_at_least("share", 2, 3)
    meter.check_at_most("ratio", float("nan"), 1)
    meter.check_at_most("met", 1, 1)


def test_unmet_bounds_are_listed_after_all_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_benchmark(_measure)
    out, err = capsys.readouterr()
    assert (stop.value.code, out.count("\n")) == (1, 4)
    assert err == "Unmet: figure is 2, above 1\nUnmet: share is 2.0000, below 3\nUnmet: ratio is nan, above 1\n"


def test_no_bound_is_unmet_in_a_quick_run() -> None:
    meter.enforce_limits(enabled=False)
    with pytest.raises(SystemExit) as stop:
        run_benchmark(_measure)
    assert stop.value.code == 0


def test_a_benchmark_that_stops_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        run_benchmark(lambda: print(1 / 0))
    assert capsys.readouterr().err == "Unmet: stopped by ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize("name", ["passages", "hops"])
def test_a_benchmark_without_its_data_says_how_to_get_them(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_benchmark(lambda: importlib.import_module(f"benchmarks.{name}").main(["--data", str(tmp_path)]))
    assert stop.value.code == 1
    assert "musique_train100_corpus.jsonl" in (said := capsys.readouterr().err)
    assert "`python -m benchmarks.data` says how to get the data sets" in said


def test_all_benchmarks_run_and_then_their_unmet_bounds_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\ncase $2 in *speed) echo "Unmet: a is 2" >&2; exit 1;; *keys) exit 3;; esac\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "speed,meanings,keys,growth"])
    monkeypatch.setattr(benchmarks.__main__, "find_spec", lambda _: None)
    with pytest.raises(SystemExit) as stop:
        benchmarks.__main__.main()
    assert stop.value.code == "\nUnmet or failed:\nspeed: a is 2\nkeys: exit status 3"
    headings = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("==")]
    assert headings == ["growth", "speed", "keys"]


def test_a_benchmark_without_its_extra_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "meanings"])
    monkeypatch.setattr(benchmarks.__main__, "find_spec", lambda _: None)
    benchmarks.__main__.main()
    assert "Skipped meanings: it needs the extra `multilingual`" in capsys.readouterr().out


def _answers(score: float, text: str) -> dict[str, Any]:
    answer = {"text": text, "evidence": [{"row": ["chunks", "1"], "score": score}]}
    methods = ("tables", *same_answers.METHODS, *same_answers.VARIANTS)
    return {"code": "src", "sets": {"messy": {method: {"Why?": answer} for method in methods}}}


@pytest.mark.parametrize(
    ("new", "figures", "status"),
    [
        (_answers(0.1, "a"), "1 | 1 | 0 | 0", 0),
        (_answers(0.1 + 1e-12, "a"), "1 | 0 | 1 | 0", 0),
        (_answers(0.1 + 1e-7, "a"), "1 | 0 | 0 | 1", 1),
        (_answers(0.1, "b"), "1 | 0 | 0 | 1", 1),
        ({"code": "src", "sets": {"messy": {"bm25": {}}}}, "1 | 0 | 0 | 1", 1),
        ({"code": "src", "sets": {}}, "1 | 0 | 0 | 1", 1),
    ],
)
def test_answers_that_differ_are_found(
    new: dict[str, Any], figures: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "old.json", tmp_path / "new.json"]
    for path, found in zip(paths, (_answers(0.1, "a"), new), strict=True):
        path.write_text(json.dumps(found), encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        same_answers.main(["compare", *map(str, paths), "--sets", "messy"])
    assert (stop.value.code, f"| messy | bm25 | {figures} |" in capsys.readouterr().out) == (status, True)


def test_answers_that_neither_file_has_are_not_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(_answers(0.1, "a")), encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        same_answers.main(["compare", str(path), str(path), "--sets", "examples,messy"])
    assert stop.value.code == 1
    assert "examples, bm25: neither file has it" in capsys.readouterr().out


def test_the_table_of_a_page_is_replaced(tmp_path: Path) -> None:
    page, codes = tmp_path / "speed.md", [speed.Code(name, tmp_path, tmp_path) for name in ("before", "now")]
    page.write_text(f"Before.\n\n{speed.BEGIN}\nold\n{speed.END}\n\nAfter.\n", encoding="utf-8")
    for value in (1.0, 3.0):
        figures = {"unit": {"now": 0.7}, "build, default tables": {"before": 4.0, "now": value}}
        speed.replace_table(page, speed.write_table(figures, codes, runs=3))
        text = page.read_text(encoding="utf-8")
        met = "met" if value < speed.UNITS["build, default tables"].at_most else "not met"
        assert f"| build, default tables | 4.00 | {value:.2f} | units | 2.8 | {met} |" in text
        assert (text[:8], text[-8:], text.count("| build"), "old" in text) == ("Before.\n", "\nAfter.\n", 1, False)


def test_a_page_without_a_place_for_the_table_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("No markers.", encoding="utf-8")
    with pytest.raises(SystemExit, match="no place for the table"):
        speed.replace_table(page, "| table |")
    assert page.read_text(encoding="utf-8") == "No markers."


def test_the_page_of_speed_has_a_place_for_its_table() -> None:
    text = (FOLDER.parent / "docs/speed.md").read_text(encoding="utf-8")
    assert (text.count(speed.BEGIN), text.count(speed.END)) == (1, 1)
    assert all(f"`{name}`" in text for name in speed.MEASUREMENTS)
