"""Rows -> files of a study, and back; errors name the line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, Gold, Score, SourceSpan, SystemAnswer, Verdict
from kumihimo.evaluate.study import Study
from tests.cli_runner import kumi

QUESTION = EvalQuestion("q1", "Who mended it?", "local", gold=(Gold("notes/a.md", 3, 9),), more={"split": "dev"})
ANSWER = SystemAnswer(
    "global:C0",
    "q1",
    "Roake. [1]",
    (AnswerSource(1, "Roake.", "c", "chunks", 0.5, (SourceSpan("a.md", 0, 6),)),),
    usage=Usage(2),
)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "eval")


def test_rows_survive_a_round_trip(study: Study) -> None:
    study.write("questions", [QUESTION])
    verdict = Verdict("debiased", "directness", "q1", "a", "b", "b", 2, "tie", "alike")
    study.write("verdicts", [verdict])
    for generation in (0, 1):
        study.write_answers("global:C0", generation, [ANSWER])
    assert study.questions() == [QUESTION]
    assert list(study.rows("verdicts", Verdict)) == [verdict]
    assert list(study.answers("global:C0", 1)) == [ANSWER]
    assert (study.systems(), study.count_generations("global:C0"), study.count_generations("naive")) == (
        ["global:C0"],
        2,
        0,
    )


def test_a_file_is_written_whole_or_not_at_all(study: Study) -> None:
    def broken() -> Iterator[EvalQuestion]:
        yield EvalQuestion("q2", "?")
        raise KeyboardInterrupt

    study.write("questions", [QUESTION])
    with pytest.raises(KeyboardInterrupt):
        study.write("questions", broken())
    assert study.questions() == [QUESTION]
    assert not list(study.folder.glob(".*"))


def test_errors_name_the_line(study: Study) -> None:
    with pytest.raises(SettingsError, match="kumi eval questions"):
        study.questions()
    study.write("questions", [QUESTION, QUESTION])
    with pytest.raises(SettingsError, match="two questions have the id 'q1'"):
        study.questions()
    study.path("questions").write_text('{"id": "q1", "text": "?"}\n{"id": 3}\n', encoding="utf-8")
    with pytest.raises(SettingsError, match="line 2: id: Input should be a valid string; text: Field required"):
        study.questions()


def test_a_folder_with_other_files_is_untouched(study: Study) -> None:
    study.folder.mkdir()
    (study.folder / "taxes.txt").write_text("mine")
    with pytest.raises(SettingsError, match="name another folder with --study"):
        study.write("questions", [QUESTION])
    assert [path.name for path in study.folder.iterdir()] == ["taxes.txt"]


def test_the_manifest_records_each_stage(study: Study) -> None:
    assert study.read_manifest() == {}
    study.record_stage("judge", protocol="debiased", replicates=3)
    study.record_stage("claims", votes=[3, 3, 1])
    assert study.read_manifest() == {"claims": {"votes": [3, 3, 1]}, "judge": {"protocol": "debiased", "replicates": 3}}


def test_rows_of_other_systems_are_kept(study: Study) -> None:
    study.write("questions", [QUESTION, EvalQuestion("q2", "When?")])
    before = [Score("f1", system, question, 0.5) for system in ("bm25", "naive") for question in ("q1", "q2", "gone")]
    study.write("scores", before)
    study.replace_rows("scores", [Score("f1", "bm25", "q2", 1.0)], lambda row: row.system == "bm25")
    rows = [(row.system, row.question, row.value) for row in study.rows("scores", Score)]
    assert rows == [("bm25", "q2", 1.0), ("naive", "q1", 0.5), ("naive", "q2", 0.5)]


def test_status_names_files_and_commands(study: Study) -> None:
    study.write("questions", [QUESTION])
    study.write_answers("naive", 0, [ANSWER])
    output = kumi(study.folder.parent, "eval", "status").stdout
    assert "questions  1 rows" in output
    assert "1 answered" in output
    assert "not there yet: `kumi eval judge`" in output
