"""Every study of a paper, on two tiny documents with a fake model -> it runs to the end, and its tables are filled."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from kumihimo.evaluate.paper_studies import STUDY_NAMES, read_design
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.study import Study
from tests.cli_runner import kumi
from tests.fake_server import FakeServer

METHODS = "naive,mapreduce,global,rq,hyde,light,meta,discourse"
ANSWER = ("if the sources lack a fact", "Bo Lind mended it in 1911 [1].")  # what the prompt says, the reply


@pytest.mark.slow
def test_every_study_runs_to_its_tables(tmp_path: Path, server: FakeServer) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("pier", "mole"):
        text = f"The {name} was mended by Bo Lind in 1911. Ada Moor owns the {name}."
        (tmp_path / "notes" / f"{name}.md").write_text(text, encoding="utf-8")
    settings = f'[chat]\nmodel = "m"\nbase_url = "{server.url}"\n[mentions]\nmodel = "rules"\n'
    (tmp_path / "kumi.toml").write_text(settings, encoding="utf-8")
    ran = kumi(tmp_path, "index", "notes", "--methods", METHODS, "--yes")
    assert "The index now holds 2 documents" in ran.stdout  # though the 5W1H of the fake model cannot be read
    server.configure(replies=[ANSWER])
    questions = [EvalQuestion(n, f"Who mended the {n}?", reference="Bo Lind.") for n in ("pier", "mole")]
    Study(tmp_path / "eval").write("questions", questions)
    for name in STUDY_NAMES:
        design, folder = read_design(name), tmp_path / "eval" / name
        ran = kumi(tmp_path, "eval", "study", name, "--yes")
        assert ran.returncode == 0, ran.stderr
        assert [(folder / f"tables.{kind}").stat().st_size > 0 for kind in ("html", "tex")] == [True, True]
        with (folder / "tables.csv").open(encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        named = {
            row["column"] if table.form == "against" else row["row"].rpartition(": ")[2]
            for table in design.tables
            for row in rows
        }
        expected = {system for system, spec in design.systems.items() if spec != design.against}
        assert (name, named) == (name, set() if name == "claims" else expected)  # the fake model finds no claims
