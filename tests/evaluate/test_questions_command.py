"""kumi eval questions, import, export -> output for success and for errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kumihimo.evaluate.records import EvalQuestion, SystemAnswer
from kumihimo.evaluate.study import Study
from tests.cli_runner import Ran, kumi
from tests.factories_paid_steps import notes
from tests.fake_server import FakeServer

USERS = json.dumps({"answer": [{"persona": "A clerk."}, {"persona": "A pilot."}]})
TASKS = json.dumps({"answer": ["Compare piers"]})
ASKED = [json.dumps({"answer": [f"Which {who} themes recur?"]}) for who in ("clerks'", "pilots'")]
GROUNDED = json.dumps({"question": "Who says so?", "answer": "Ada.", "quote": "It never stood there."})


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    notes(tmp_path / "notes", 3)
    assert kumi(tmp_path, "index", "notes", "--methods", "bm25").returncode == 0
    settings = f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n'
    (tmp_path / "kumi.toml").write_text(settings, "utf-8")
    tasks = [("\nA clerk.\n</user>\n\n<task>", ASKED[0]), ("\nA pilot.\n</user>\n\n<task>", ASKED[1])]
    general = [
        ("<user>", TASKS),
        ('"persona"', USERS),
        ('"quote"', GROUNDED),
        ("do not stand in", GROUNDED),
    ]
    server.configure(replies=[*tasks, *general, ("", "A harbour.")])
    return tmp_path


def run_questions(folder: Path, *words: str, code: int = 0) -> Ran:
    small = ["--personas", "2", "--tasks", "1", "--questions", "1"]
    ran = kumi(folder, "eval", "questions", *(small if "--personas" not in words else []), *words)
    assert ran.returncode == code, ran
    return ran


def test_from_a_draft_to_questions(folder: Path, server: FakeServer) -> None:
    assert "A harbour.\n\nWritten to eval/description.md: review it" in run_questions(folder, "--draft").stdout
    assert "already exists: edit it" in run_questions(folder, "--draft", code=2).stderr
    (folder / "eval/description.md").write_text("A harbour and its cords.", "utf-8")
    out = run_questions(folder).stdout
    assert "eval/questions.jsonl: 2 questions (2 global), 2 of them new." in out
    assert re.search(r"^global +Which clerks' themes recur\?$", out, re.M)
    assert server.counts()["requests"] == 1 + 1 + 2 + 2
    manifest = Study(folder / "eval").read_manifest()["questions"]
    assert (manifest["description"], manifest["model"]) == ("A harbour and its cords.", "m temperature=0.0")
    assert set(manifest["prompts"]) >= {"corpus_description", "questions_asked", "grounded_questions"}
    before = (folder / "eval/questions.jsonl").read_bytes()
    assert "0 of them new" in run_questions(folder).stdout
    assert (folder / "eval/questions.jsonl").read_bytes() == before
    assert server.counts()["requests"] == 6


def test_other_questions_are_kept(folder: Path) -> None:
    (folder / "mine.txt").write_text("Who wound the cord?\n", "utf-8")
    assert kumi(folder, "eval", "import", "mine.txt").returncode == 0
    assert "1 other questions are there: --merge adds" in run_questions(folder, code=2).stderr
    assert "3 questions (3 global), 2 of them new" in run_questions(folder, "--merge").stdout
    assert json.loads(run_questions(folder, "--replace", "--json").stdout)["questions"] == 2
    assert "use one or the other" in run_questions(folder, "--merge", "--replace", code=2).stderr


def test_failures_are_listed_by_reason(folder: Path) -> None:
    ran = run_questions(folder, "--max-calls", "4", "--description", "A harbour.", code=1)
    capped = re.search("1 fewer than requested, questions of “A (clerk|pilot).”, “Compare piers”: capped", ran.stderr)
    assert capped, ran.stderr  # the two calls run concurrently: either may be the last
    assert "rows failed: run the same command to try them again" in ran.stderr
    assert "1 questions (1 global)" in ran.stdout
    summary = json.loads(
        run_questions(folder, "--personas", "0", "--local", "2", "--study", "local", "--json", code=1).stdout
    )
    assert summary["questions"] == 0
    assert [m["asked"] - m["made"] for m in summary["missing"]] == [1, 1]
    assert "The words of a quote do not stand in the passage" in summary["missing"][0]["why"]
    assert not (folder / "local").exists()


WRONG = [
    (["--personas", "0"], "no questions were requested: give --personas, --local or --linked"),
    (["--variant", "graphrga"], "no variant 'graphrga'; did you mean 'graphrag'"),
    (["--from", "report"], "did you mean 'reports'"),
    (["--description", "@nowhere.md"], "nowhere.md cannot be read"),
    (["--linked", "2"], "questions that link documents need the graph"),
    (["--set", "questioner.model=rules"], "questioner needs a chat model: set `model"),
]


def test_errors_are_reported_before_any_call(folder: Path, server: FakeServer) -> None:
    for words, message in WRONG:
        assert message in run_questions(folder, *words, code=2).stderr
    assert server.counts()["requests"] == 0
    assert not (folder / "eval").exists()


def test_a_folder_with_other_files_is_untouched_without_a_call(folder: Path, server: FakeServer) -> None:
    (folder / "taxes").mkdir()
    (folder / "taxes/2024.txt").write_text("mine")
    assert "taxes holds other files: name another folder" in run_questions(folder, "--study", "taxes", code=2).stderr
    assert server.counts()["requests"] == 0


def test_answers_of_other_systems_are_imported_and_exported(tmp_path: Path) -> None:
    rows = [{"question_id": n, "question_text": f"Who {n}?", "answer": f"Ada {n}."} for n in "abc"]
    (tmp_path / "a.json").write_text(json.dumps(rows), "utf-8")
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion("1", "Who a?"), EvalQuestion("2", "Who b?"), EvalQuestion("4", "Who d?")])
    out = kumi(tmp_path, "eval", "import", "a.json", "--system", "light:x").stdout
    assert out.splitlines() == [
        "light:x: answers to 2 of 3 questions.",
        "Questions without an answer, left out of comparisons: 1.",
        "Left out, because the study has no such question: 1 answers.",
    ]
    assert [(a.question, a.text) for a in study.answers("light:x")] == [("1", "Ada a."), ("2", "Ada b.")]
    repeated = kumi(tmp_path, "eval", "import", "a.json", "--system", "light:x")
    assert "light:x has already answered in this study: --replace" in repeated.stderr
    study.write_answers("naive", 0, [SystemAnswer("naive", "1", "", failed="capped")])
    out = kumi(tmp_path, "eval", "export", "--out", "qed").stdout
    assert out.splitlines()[1] == "Left out, because they failed: 1 answers of naive."
    files = {path.relative_to(tmp_path / "qed").as_posix() for path in (tmp_path / "qed").rglob("*.json")}
    assert files == {".kumihimo.json", "questions.json", "light%3Ax/user_global.json"}
    assert "ragas.jsonl" in kumi(tmp_path, "eval", "export", "--out", "lines", "--format", "ragas").stdout
    lines = ("lines/ragas.jsonl", "--format", "ragas", "--system", "light:x", "--study", "lines-back")
    assert "light:x: answers to 2 of 3 questions." in kumi(tmp_path, "eval", "import", *lines).stdout
    fresh = kumi(tmp_path, "eval", "import", "a.json", "--system", "graphrag", "--study", "new", "--json").stdout
    assert json.loads(fresh)["answers"] == 3
    assert [q.id for q in Study(tmp_path / "new").questions()] == ["a", "b", "c"]


def test_questions_are_imported_without_their_answers(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"question_id": "1", "question": "Who?", "answer": "Ada."}]', "utf-8")
    assert "It holds 1 answers: import them with --system NAME." in kumi(tmp_path, "eval", "import", "a.json").stdout
    assert "no format 'xml'" in kumi(tmp_path, "eval", "import", "a.json", "--format", "xml").stderr
    (tmp_path / "taxes").mkdir()
    (tmp_path / "taxes/2024.txt").write_text("mine")
    assert "or replace it with --force" in kumi(tmp_path, "eval", "export", "--out", "taxes").stderr
