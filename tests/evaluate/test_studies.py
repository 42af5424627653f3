"""Published studies: the catalogue, and one command that asks, judges and reports."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.paper_studies import STUDY_NAMES, WINDOWS, read_design, window_systems
from kumihimo.evaluate.records import EvalQuestion, Verdict
from kumihimo.evaluate.scoring.run_scores import SCORE_MEASURES
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import parse_systems
from tests.cli_runner import Ran, kumi
from tests.fake_server import FakeServer

JUDGE_REPLY = json.dumps({"winner": 1, "reasoning": "It says more."})


@pytest.mark.parametrize("name", STUDY_NAMES)
def test_every_study_can_be_run(name: str) -> None:
    design = read_design(name)
    parsed = parse_systems(design.method_list)
    assert [system.name for system in parsed] == list(design.systems.values())
    assert design.protocol in PROTOCOLS
    assert {*design.measures} <= {*SCORE_MEASURES}
    assert {*design.stages} <= {"run", "judge", "claims", "score"}
    assert not design.against or design.against in design.systems.values()
    if name == "windows":
        base = design.method_list.partition("+budget")[0]
        assert (window_systems(base), len(WINDOWS)) == (design.systems, 4)


@pytest.mark.parametrize("name", STUDY_NAMES)
def test_published_figures_are_of_the_rows_and_columns_of_the_tables(name: str) -> None:
    design = read_design(name)
    criteria = {criterion for protocol in PROTOCOLS.values() for criterion in protocol.criteria}
    for table in design.tables:
        assert table.cites.partition(" ")[0] in ("figure", "table", "appendix", "section")
        for figures in (table.published or {}).values():
            for row, values in figures.items():
                parts = row.split(": ")
                assert {*parts} <= {*criteria, *design.systems}
                assert {*values} <= {*design.systems, *(table.measures or {}).values()}
    with pytest.raises(SettingsError, match=r"no data set|no published figures"):
        design.check_dataset("wiki")


def test_a_study_can_be_restricted() -> None:
    restrict = read_design("ablations").restrict_to
    assert restrict(["-Low", "light:hybrid"]).method_list == "light:hybrid,light:high"
    assert (restrict(["NaiveRAG", "-High"]).against, restrict(["-Low", "-High"]).against) == ("naive:words=false", "")
    for wrong in (["bm25"], ["-Low"]):
        with pytest.raises(SettingsError):
            restrict(wrong)
    with pytest.raises(SettingsError, match="bm25 has no window"):
        window_systems("bm25")
    with pytest.raises(SettingsError, match="naive:budget=5 sets budget, which this study varies"):
        window_systems("naive:budget=5")


# -- the command


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    (tmp_path / "notes").mkdir()
    for name in ("pier", "mole"):
        (tmp_path / "notes" / f"{name}.md").write_text(f"The {name} was mended by Bo Lind in 1911.", "utf-8")
    server.configure(replies=[("winner", JUDGE_REPLY)])
    settings = f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n[mentions]\nmodel = "rules"\n'
    (tmp_path / "kumi.toml").write_text(settings, encoding="utf-8")
    assert kumi(tmp_path, "index", "notes", "--methods", "naive,mapreduce,bm25").returncode == 0
    Study(tmp_path / "eval").write("questions", [EvalQuestion(n, f"Who mended the {n}?") for n in ("pier", "mole")])
    return tmp_path


def study(folder: Path, *words: str) -> Ran:
    return kumi(folder, "eval", "study", *words)


def test_a_study_is_one_command(folder: Path, server: FakeServer) -> None:
    arguments = ("levels", "--methods", "TS,SS", "--protocol", "graphrag")
    ran = study(folder, *arguments, "--max-calls", "2")
    assert ran.returncode == 1
    assert "judge graphrag" in ran.stderr
    assert "40" in ran.stderr
    assert (server.counts()["requests"], "run: " in ran.stderr, "judge: " in ran.stderr) == (2, True, False)
    ran = study(folder, *arguments, "--json")
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert list(summary["stages"]) == ["run", "judge", "report"]
    assert [Path(path).name for path in summary["tables"]] == ["tables.html", "tables.csv", "tables.tex"]
    assert summary["stages"]["judge"]["rows"] == {"ok": 40, "invalid": 0, "failed": 0}
    study_files = Study(folder / "eval" / "levels")
    assert {row.protocol for row in study_files.rows("verdicts", Verdict)} == {"graphrag"}
    assert (study_files.folder / "report.html").exists()
    assert not Study(folder / "eval").has("verdicts")
    assert server.counts()["requests"] == 46  # 3 calls an answer, 40 verdicts; no call twice
    with (study_files.folder / "tables.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert {(row["row"], row["column"], row["value"], row["published"]) for row in rows} >= {
        ("comprehensiveness: TS", "SS", "100.0", ""),
        ("directness: SS", "TS", "0.0", ""),
    }
    assert len(rows) == 2 * 4
    page = (study_files.folder / "tables.html").read_text(encoding="utf-8")
    assert ("100.0 (100.0–100.0)" in page, ", paper: " in page, "--dataset" in page) == (True, False, True)
    assert "The paper asked" not in ran.stderr
    ran = study(folder, *arguments, "--dataset", "podcasts")
    assert ran.returncode == 0, ran.stderr
    assert "The paper asked 125 questions about podcasts, this study asks 2" in ran.stderr
    assert "comprehensiveness: TS & -- & 100.0 (100.0--100.0), paper: 83" in (
        study_files.folder / "tables.tex"
    ).read_text(encoding="utf-8")
    assert server.counts()["requests"] == 46


def test_expensive_studies_need_consent(folder: Path, server: FakeServer) -> None:
    many = [EvalQuestion(str(n), f"Who mended wall {n}?") for n in range(60)]
    Study(folder / "eval").write("questions", many)
    ran = study(folder, "levels", "--methods", "TS,SS")
    assert ran.returncode == 2
    assert "no model was called; `--yes` agrees to them" in ran.stderr
    assert server.counts()["requests"] == 0


def test_a_dry_run_shows_what_a_study_needs(folder: Path, server: FakeServer) -> None:
    ran = study(folder, "levels", "--methods", "TS,SS", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    for text in ("TS: mapreduce", "kumi index DIR", "prompts are our own", "judge debiased"):
        assert text in ran.stdout
    assert server.counts()["requests"] == 0
    assert "podcasts" in study(folder, "levels", "--dataset", "podcast").stderr


def test_a_dry_run_shows_the_needs_before_they_are_there(folder: Path) -> None:
    study(folder, "levels", "--methods", "TS,SS", "--dry-run")
    (folder / "eval" / "questions.jsonl").rename(folder / "eval" / "later.jsonl")
    ran = study(folder, "levels", "--methods", "C0,TS", "--dry-run")
    assert ran.returncode == 0, ran.stderr
    assert "prompts are our own" in ran.stdout
    assert "Not estimated yet: the index was not built for global" in ran.stdout
    assert "not built for global" in json.loads(study(folder, "levels", "--dry-run", "--json").stdout)["missing"]
    assert Study(folder / "eval" / "levels").questions(), "it has lost the questions of an earlier run"
    assert "podcasts" in study(folder, "levels", "--dataset", "podcast", "--dry-run").stderr


def test_studies_are_listed_and_wrong_names_are_refused(folder: Path) -> None:
    assert {*json.loads(study(folder, "--json").stdout)} == {*STUDY_NAMES}
    assert "appendix C" in study(folder).stdout
    assert "levels" in study(folder, "level").stderr
    assert "protocol" in study(folder, "levels", "--protocol", "blind").stderr
    assert "stage" in study(folder, "levels", "--stages", "report").stderr
    assert "`kumi index --methods" in study(folder, "ablations").stderr


def test_a_plan_is_shown(folder: Path, server: FakeServer) -> None:
    ran = kumi(folder, "eval", "plan", "--methods", "naive,bm25", "--stages", "run,judge", "--protocol", "graphrag")
    assert ran.returncode == 0, ran.stderr
    assert "2 questions, 2 systems: naive, bm25." in ran.stdout
    assert "judge graphrag" in ran.stdout
    summary = json.loads(kumi(folder, "eval", "plan", "--stages", "judge", "--json", "--questions", "1").stdout)
    assert {e["step"] for e in summary["estimates"]} == {"judge debiased"}
    assert summary["questions"] == 1
    assert "stage" in kumi(folder, "eval", "plan", "--stages", "ask").stderr
    assert "± 50" not in ran.stdout
    ran = kumi(folder, "eval", "plan", "--methods", "naive,bm25", "--stages", "judge", "--detect", "10")
    assert "show a difference of 10 points" in ran.stdout
    assert re.findall(r"at most ±\d+ .*?(\S+)$", ran.stdout, re.M) == ["197", "785"]
    for points in ("1e-300", "101"):
        assert "write points from 0.01 to 100" in kumi(folder, "eval", "plan", "--detect", points).stderr
    assert "protocol" in kumi(folder, "eval", "plan", "--protocol", "x").stderr
    assert server.counts()["requests"] == 0
