"""Several builds of an index by a model -> answers about each, and the spread that the builds bring."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from kumihimo.evaluate.build_spread import spread_over_builds
from kumihimo.evaluate.records import EvalQuestion, Score
from kumihimo.evaluate.study import Study
from tests.cli_runner import Ran, kumi
from tests.fake_server import FakeServer

QUESTIONS = [EvalQuestion(f"q{i}", f"Who mended pier {i}?", reference="Bo Lind") for i in range(40)]


def scores(system: str, values: list[float]) -> list[Score]:
    return [Score("token_f1", system, question.id, value) for question, value in zip(QUESTIONS, values, strict=True)]


def test_the_spread_of_builds_widens_the_interval() -> None:
    rng = np.random.default_rng(2)
    ability = rng.normal(0.5, 0.1, size=40)
    rows = [
        scores(f"local#{b}" if b > 1 else "local", list(ability + shift))
        for b, shift in ((1, 0.1), (2, -0.1), (3, 0.0))
    ]
    equal = [scores("naive", list(ability)), scores("naive#2", list(ability))]
    alone = scores("bm25", list(ability))
    local, naive = spread_over_builds([row for each in (*rows, *equal, alone) for row in each], QUESTIONS)
    assert (local.system, round(local.between, 9), local.n) == ("local", 0.1, 40)
    assert local.means == pytest.approx([ability.mean() + 0.1, ability.mean() - 0.1, ability.mean()])
    assert local.value == pytest.approx(naive.value)
    assert (naive.system, naive.between) == ("naive", 0.0)
    assert naive.questions_error == pytest.approx(local.questions_error)
    assert local.low < naive.low < naive.value < naive.high < local.high
    assert naive.high - naive.value == pytest.approx(2.0227 * naive.questions_error, rel=1e-3)  # t with 39 degrees


def test_only_questions_with_a_value_in_each_build_count() -> None:
    rows = [
        *scores("local", [1.0] * 40),
        Score("token_f1", "local#2", "q1", 0.0),
        Score("token_f1", "local#2", "q2", 1.0),
    ]
    [spread] = spread_over_builds(rows, QUESTIONS)
    assert (spread.n, spread.means) == (2, [1.0, 0.5])
    assert spread_over_builds(rows[:-1], QUESTIONS) == []
    settings = [
        *scores("local:x=a", [1.0] * 40),
        *scores("local:x=a#b", [0.0] * 40),
        *scores("local:x=a#1", [0.0] * 40),
    ]
    assert spread_over_builds(settings, QUESTIONS) == []


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    (tmp_path / "notes").mkdir()
    for name in ("pier", "mole"):
        (tmp_path / "notes" / f"{name}.md").write_text(f"The {name} was mended by Bo Lind in 1911.", "utf-8")
    settings = f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n[mentions]\nmodel = "rules"\n'
    (tmp_path / "kumi.toml").write_text(settings, encoding="utf-8")
    assert kumi(tmp_path, "index", "notes", "--methods", "naive,bm25").returncode == 0
    Study(tmp_path / "eval").write("questions", QUESTIONS[:2])
    return tmp_path


def run(folder: Path, *words: str) -> Ran:
    ran = kumi(folder, "eval", *words)
    assert ran.returncode == 0, ran.stderr
    return ran


def test_answers_about_several_builds(folder: Path, server: FakeServer) -> None:
    summary = json.loads(run(folder, "run", "--methods", "naive", "--builds", "3", "--seed", "7", "--json").stdout)
    assert list(summary["systems"]) == ["naive", "naive#2", "naive#3"]
    assert server.counts()["requests"] == 6  # each answer of each build is asked for
    assert (folder / ".kumi-build-3").is_dir()
    study = Study(folder / "eval")
    models = {system: next(iter(study.answers(system))).model for system in study.systems()}
    assert [re.findall(r"seed=(\d)", models[system]) for system in ("naive", "naive#2", "naive#3")] == [
        ["7"],
        ["8"],
        ["9"],
    ]
    run(folder, "run", "--methods", "naive", "--builds", "3", "--seed", "7")
    assert server.counts()["requests"] == 6  # replies are cached
    spreads = json.loads(run(folder, "score", "--measures", "token_f1", "--json").stdout)["builds"]
    assert [(spread["system"], len(spread["means"]), spread["between"]) for spread in spreads] == [("naive", 3, 0.0)]
    assert "SD of builds" in run(folder, "score", "--measures", "token_f1").stdout
