"""`kumi eval judge` with a model server: files, tables, consent and exit codes."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo.evaluate.records import Rating, Verdict
from kumihimo.evaluate.study import Study
from tests.cli_runner import Ran, kumi
from tests.evaluate.fake_judges import make_answers, make_questions
from tests.fake_server import FakeServer

FIRST = json.dumps({"reasoning": "It says more.", "choice": "first"})
TIE = json.dumps({"winner": 0, "reasoning": "They are alike."})
ONLY_FIRST_JUDGE = ("--same", "none", "--second", "0")
SYSTEMS = ("naive", "global:C0")


@pytest.fixture
def study(tmp_path: Path, server: FakeServer) -> Study:
    study = Study(tmp_path / "eval")
    study.write("questions", make_questions(3))
    for system in SYSTEMS:
        rows = make_answers(system, [f"{system} says {i}." for i in range(3)])
        study.write_answers(system, 0, rows.values())
    study.write_answers("naive", 1, make_answers("naive", ["naive says so again."] * 3, 1).values())
    server.configure(replies=[("The criterion:", FIRST), ("The measure,", TIE)])
    settings = f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\nprompt_price = 1\n[second_judge]\nmodel = "n"\n'
    (tmp_path / "kumi.toml").write_text(settings, encoding="utf-8")
    return study


def judge(study: Study, *words: str) -> Ran:
    return kumi(study.folder.parent, "eval", "judge", *words)


def test_verdicts_are_written_and_rates_are_printed(study: Study, server: FakeServer) -> None:
    ran = judge(study)
    assert ran.returncode == 0, ran.stderr
    rows = list(study.rows("verdicts", Verdict))
    first, second = ([row for row in rows if row.role == role] for role in ("judge", "second_judge"))
    assert len(first) == 2 * 3 * 4 * 6  # one pair, and naive against itself
    assert 0 < len(second) < 40
    assert {row.judge for row in rows} == {"m temperature=0.0", "n temperature=0.0"}
    assert server.counts()["requests"] == len(rows)
    assert "comprehensiveness  naive  global:C0" in ran.stdout.replace("global:C0  naive", "naive  global:C0")
    assert "The second judge agrees by" in ran.stdout
    assert "The judge, m, wrote the answers of global:C0, naive" in ran.stderr
    assert "not compared with themselves" in ran.stderr.lower()
    assert "kumi eval run --methods global:C0 --generations 2" in ran.stderr
    before = study.path("verdicts").read_bytes()
    output = json.loads(judge(study, "--json").stdout)
    assert server.counts()["requests"] == len(rows)
    assert study.path("verdicts").read_bytes() == before
    assert output["rows"] == {"ok": len(rows), "invalid": 0, "failed": 0}
    assert {(pair["metric"], pair["mean"]) for pair in output["pairs"]} >= {("directness", 50.0)}
    assert output["bias"]["orders"][0]["flips"] == {"count": 9, "of": 9}
    entry = study.read_manifest()["judge"]["debiased"]
    assert (entry["judge"], entry["second_judge"], entry["replicates"]) == ("m temperature=0.0", "n temperature=0.0", 3)
    assert entry["own"]


def test_verdicts_of_other_protocols_are_kept(study: Study) -> None:
    assert judge(study, "--criteria", "directness", *ONLY_FIRST_JUDGE).returncode == 0
    assert judge(study, "--protocol", "graphrag", "--replicates", "1", *ONLY_FIRST_JUDGE).returncode == 0
    assert judge(study, "--criteria", "diversity", *ONLY_FIRST_JUDGE).returncode == 0
    rows = [(row.protocol, row.criterion) for row in study.rows("verdicts", Verdict)]
    assert rows[:18] == [("debiased", "diversity")] * 18
    assert {protocol for protocol, _ in rows[18:]} == {"graphrag"}
    assert len(rows) == 18 + 12
    assert set(study.read_manifest()["judge"]) == {"debiased", "graphrag"}
    assert study.read_manifest()["judge"]["graphrag"]["order"] == "fixed"


def test_many_calls_need_consent(study: Study, server: FakeServer) -> None:
    ran = judge(study, "--replicates", "30")
    assert (ran.returncode, server.counts()["requests"]) == (2, 0)
    assert "calls: no model was called; `--yes` agrees to them" in ran.stderr
    assert not study.has("verdicts")
    ran = judge(study, "--replicates", "30", "--max-calls", "40", "--second", "0", "--json")
    assert (ran.returncode, server.counts()["requests"]) == (1, 40)
    assert json.loads(ran.stdout)["rows"]["ok"] == 40
    assert "rows failed: run the same command to try them again" in ran.stderr
    assert sum(row.status == "ok" for row in study.rows("verdicts", Verdict)) == 40


def test_invalid_replies_are_counted(study: Study, server: FakeServer) -> None:
    server.configure(
        replies=[("The criterion: directness", "I cannot say."), ("Reply again", "No."), ("The criterion:", FIRST)]
    )
    words = ("--criteria", "directness,diversity", *ONLY_FIRST_JUDGE)
    ran = judge(study, *words)
    assert ran.returncode == 1
    assert "18 of 36 rows are invalid, more than 2 %" in ran.stderr
    assert {row.status for row in study.rows("verdicts", Verdict) if row.criterion == "directness"} == {"invalid"}
    assert judge(study, *words, "--max-invalid", "100").returncode == 0


def test_ratings_are_written(study: Study, server: FakeServer) -> None:
    score = {"justification": "so", "score": 70}
    names = ("recall", "precision", "specificity", "breadth", "depth", "relevancy")
    reply = json.dumps({f"system_{i}": dict.fromkeys(names, score) for i in (1, 2)})
    server.configure(replies=[("<system 1 (found)>", reply)])
    ran = judge(study, "--protocol", "mk", "--context-tokens", "3")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"naive +depth +70\.0 +3\n", ran.stdout)
    assert len(list(study.rows("ratings", Rating))) == 3 * 2 * 6
    assert not study.has("verdicts")
    assert server.counts()["requests"] == 3


def test_unknown_names_are_reported(study: Study) -> None:
    for words, message in (
        (("--protocol", "graph"), "no protocol 'graph'; did you mean 'graphrag'"),
        (("--methods", "naiv,global:C0"), "no answered system 'naiv'; did you mean 'naive'"),
        (("--against", "drift"), "`kumi eval run` adds systems"),
        (("--protocol", "lightrag", "--criteria", "diversity"), "leave out --criteria"),
    ):
        ran = judge(study, *words)
        assert (ran.returncode, message in ran.stderr) == (2, True), ran.stderr


def test_failed_answers_are_reported(study: Study) -> None:
    rows = [replace(row, failed="down") if row.question == "q1" else row for row in study.answers("naive")]
    study.write_answers("naive", 0, rows)
    ran = judge(study, "--criteria", "directness", *ONLY_FIRST_JUDGE, "--sample", "3")
    assert ran.returncode == 0
    assert "not judged: naive (1)" in ran.stderr
    assert len(list(study.rows("verdicts", Verdict))) == 2 * 6


def test_questions_without_an_answer_are_not_judged(study: Study) -> None:
    questions = [replace(q, more={"answerable": False}) if q.id == "q1" else q for q in study.questions()]
    study.write("questions", questions)
    for system, text in (("naive", "The documents do not say."), ("global:C0", "Ada paid.")):
        rows = [replace(row, text=text) if row.question == "q1" else row for row in study.answers(system)]
        study.write_answers(system, 0, rows)
    ran = judge(study, "--criteria", "directness", *ONLY_FIRST_JUDGE)
    assert ran.returncode == 0, ran.stderr
    assert "Questions without an answer in the documents, not judged: 1." in ran.stderr
    assert {row.question for row in study.rows("verdicts", Verdict)} == {"q0", "q2"}
    assert "naive refuses 1 of 1 questions without an answer, and 0 of 2 others." in ran.stdout
    assert "global:C0 refuses 0 of 1 questions without an answer, and 0 of 2 others." in ran.stdout
    assert "a tokens" in ran.stdout
