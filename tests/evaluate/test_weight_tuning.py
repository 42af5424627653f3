"""Questions with gold -> `braid` weights, their gain, and output of `python -m benchmarks.weight_fitting`."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from benchmarks import weight_fitting
from benchmarks.weight_fitting import FittingExample, build_examples, merge_gold, refit_weights

from kumihimo import Kumihimo
from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.methods.braid import published_weights
from kumihimo.methods.braid.two_pass import FEATURES, BraidWeights
from tests.cli.test_cli import Run, built, kumi  # noqa: F401 (fixtures)
from tests.fixtures_index import fill

THINGS = (
    "rope sail lamp tar oars nails mast keel anchor rudder chart bell buoy net crate barrel hatch winch cleat boom gaff"
)
NAMES = {
    f"{n}.txt": f"The {thing} of the Kestrel was made by Ada Holm in year {n}."
    for n, thing in enumerate(THINGS.split())
}


def question_rows(count: int = 21, *, wrong: bool = False) -> list[dict[str, object]]:
    """Return a question for each thing.

    wrong: the gold is another document.
    """
    things = THINGS.split()[:count]
    return [
        {"question": f"Who made the {thing}?", "gold": f"{(n + 7) % 21 if wrong else n}.txt"}
        for n, thing in enumerate(things)
    ]


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def things(kumi: Run, tmp_path: Path) -> Run:  # noqa: F811
    fill(tmp_path / "things", NAMES)
    assert kumi("index", "things", "--methods", "braid")[0] == 0
    return kumi


def test_gold_of_equal_questions_is_merged() -> None:
    clicks = [EvalQuestion("a", "Who?", gold=(Gold("x"),)), EvalQuestion("b", "who", gold=(Gold("y"), Gold("x")))]
    assert merge_gold(clicks) == [EvalQuestion("a", "Who?", gold=(Gold("x"), Gold("y")))]
    with pytest.raises(SettingsError, match="one id"):
        merge_gold([EvalQuestion("a", "Who?"), EvalQuestion("a", "When?")])


def test_questions_are_learned_from_as_they_are_searched(tmp_path: Path) -> None:
    fill(tmp_path / "things", NAMES)
    with Kumihimo.open(tmp_path / ".kumi") as kumihimo:
        kumihimo.index(tmp_path / "things", methods=["braid"])
        with kumihimo.snapshot() as snapshot:
            texts = ("Who made the rudder?", "Who made the ruddr?")
            questions = [EvalQuestion(text, text, gold=(Gold("9.txt"),)) for text in texts]
            right, misspelled = (example.first_pass for example in build_examples(snapshot, questions))
            assert right.candidates.plain
            assert misspelled.candidates.plain == right.candidates.plain


@pytest.mark.usefixtures("things")
def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    few = write(tmp_path / "few.jsonl", question_rows(19))
    with pytest.raises(SettingsError, match="19 questions with gold are too few"):
        weight_fitting.main([str(few), "--index", str(tmp_path / ".kumi")])


@pytest.mark.usefixtures("things")
def test_weights_are_fitted_for_the_configured_pool_and_anchors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = [
        EvalQuestion(str(n), str(q["question"]), gold=(Gold(str(q["gold"])),)) for n, q in enumerate(question_rows())
    ]
    fitted_to: list[FittingExample] = []

    def learned(examples: Sequence[FittingExample]) -> BraidWeights:
        fitted_to.extend(examples)
        return published_weights()

    monkeypatch.setattr(weight_fitting, "learn_weights", learned)
    small = {"braid": {"pool": 3, "anchors": 1}}
    with Kumihimo.open(tmp_path / ".kumi", settings=small) as kumi, kumi.snapshot() as snapshot:  # noqa: F811
        refit_weights(snapshot, questions)
    assert {example.anchors for example in fitted_to} == {1}
    assert max(len(example.first_pass.candidates.chunks) for example in fitted_to) <= 6, "three of each search"


@pytest.mark.usefixtures("things")
def test_useless_weights_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "asked.jsonl", question_rows())
    weight_fitting.main([str(path), "--index", str(tmp_path / ".kumi")])
    out = capsys.readouterr().out
    assert "21 questions with gold" in out
    assert "do not help more than chance would" in out  # the present weights find all gold
    assert set(tomllib.loads(out[out.index("[braid]") :])["braid"]) == {f"{name}_weights" for name in FEATURES}


@pytest.mark.usefixtures("things")
def test_better_weights_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kumi.toml").write_text(f"[braid]\nplain_weights = {[-1.0] * len(FEATURES['plain'])}")
    path = write(tmp_path / "asked.jsonl", question_rows())
    weight_fitting.main([str(path), "--index", str(tmp_path / ".kumi")])
    assert "Fitted weights help." in capsys.readouterr().out
    with Kumihimo.open(tmp_path / ".kumi") as kumi, kumi.snapshot() as snapshot:  # noqa: F811
        result = refit_weights(
            snapshot,
            [
                EvalQuestion(str(n), str(q["question"]), gold=(Gold(str(q["gold"])),))
                for n, q in enumerate(question_rows())
            ],
        )
    assert result.is_improvement
    assert result.low > 0
    assert result.present_recall < result.fitted_recall == 1.0
