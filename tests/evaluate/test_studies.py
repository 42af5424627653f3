"""Published studies: the catalogue, gleanings, and one command that asks, judges and reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, SettingsError
from kumihimo.core.records import Document
from kumihimo.evaluate.gleanings import count_references, draw_references, references_table
from kumihimo.evaluate.judging.protocols import PROTOCOLS
from kumihimo.evaluate.records import EvalQuestion, Score, Verdict
from kumihimo.evaluate.scoring import SCORE_MEASURES
from kumihimo.evaluate.studies import STUDIES, window_systems
from kumihimo.evaluate.study import Study, read_jsonl_rows
from kumihimo.evaluate.systems import parse_systems
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.testing.fake_server import FakeServer
from tests.cli_runner import Ran, kumi

JUDGE_REPLY = json.dumps({"winner": 1, "reasoning": "It says more."})


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_can_be_run(name: str) -> None:
    design = STUDIES[name]
    parsed = parse_systems(design.method_list) if design.systems else []
    assert [system.name for system in parsed] == list(design.systems.values())
    assert design.protocol in PROTOCOLS
    assert {*design.measures} <= {*SCORE_MEASURES}
    assert {*design.stages} <= {"run", "judge", "claims", "score"}
    assert not design.against or design.against in design.systems.values()


def test_a_study_can_be_restricted() -> None:
    restrict = STUDIES["ablations"].restrict_to
    assert restrict(["-Low", "light:hybrid"]).method_list == "light:hybrid,light:high"
    assert (restrict(["NaiveRAG", "-High"]).against, restrict(["-Low", "-High"]).against) == ("naive:words=false", "")
    for wrong in (["bm25"], ["-Low"]):
        with pytest.raises(SettingsError):
            restrict(wrong)
    with pytest.raises(SettingsError, match="bm25 has no window"):
        window_systems("bm25")


# -- gleanings


class Reader:
    """A model that finds one entity in each of two turns, and fails for a storm."""

    fingerprint, workers = "reader", 1

    def __init__(self) -> None:
        self.prompts: set[str] = set()

    def __call__(self, prompt: Any, *, parse: Any, **_: Any) -> Any:
        from kumihimo.llm.structured import Reply

        self.prompts.add(json.dumps(prompt))
        if any("storm" in message["content"] for message in prompt):
            raise ItemFailed("the model is out")
        turn = sum(message["role"] == "assistant" for message in prompt)
        if turn % 2:
            return parse(Reply("no"))
        name = ("Ada", "Bo", "Cleo", "Dan")[turn // 2]
        return parse(Reply(f"entity<|>{name}<|>person<|>{name} mends.\nEND"))


def test_more_gleanings_find_more_in_smaller_chunks() -> None:
    text = " ".join(f"Ada mends wall {n} by the sea." for n in range(250))
    documents = [
        Document(id=name, text=content, uri=name, file=name, title="", media_type="")
        for name, content in (("long", text), ("bad", "A storm."))
    ]
    reader: Any = Reader()
    rows = list(count_references(documents, reader, LocalTokenizer()))
    assert {row.system for row in rows} >= {"chunks.size=600+mentions.gleanings=0"}
    assert {row.status for row in rows if row.question == "bad"} == {"failed"}
    totals = references_table(rows)
    chunks = {row.detail["size"]: row.detail["chunks"] for row in rows if row.question == "long"}
    assert totals == {size: [n * count for n in (1.0, 2.0, 3.0, 4.0)] for size, count in chunks.items()}
    assert chunks[600] > chunks[1200] > chunks[2400] - 1
    assert len(reader.prompts) <= 7 * sum(chunks.values()) + 3  # fewer gleanings are a prefix of more
    picture = draw_references(totals)
    assert picture.count("<polyline") == 3
    assert "2,400 tokens" in picture


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
    assert summary["stages"]["judge"]["rows"] == {"ok": 40, "invalid": 0, "failed": 0}
    study_files = Study(folder / "eval" / "levels")
    assert {row.protocol for row in study_files.rows("verdicts", Verdict)} == {"graphrag"}
    assert (study_files.folder / "report.html").exists()
    assert not Study(folder / "eval").has("verdicts")
    assert server.counts()["requests"] == 46  # 3 calls an answer, 40 verdicts; no call twice


def test_expensive_studies_need_consent(folder: Path, server: FakeServer) -> None:
    many = [EvalQuestion(str(n), f"Who mended wall {n}?") for n in range(60)]
    Study(folder / "eval").write("questions", many)
    ran = study(folder, "levels", "--methods", "TS,SS")
    assert ran.returncode == 2
    assert "no model was called; `--yes` agrees to them" in ran.stderr
    assert server.counts()["requests"] == 0


def test_studies_are_listed_and_wrong_names_are_refused(folder: Path) -> None:
    assert {*json.loads(study(folder, "--json").stdout)} == {*STUDIES}
    assert "appendix C" in study(folder).stdout
    assert "levels" in study(folder, "level").stderr
    assert "protocol" in study(folder, "levels", "--protocol", "blind").stderr
    assert "stage" in study(folder, "levels", "--stages", "report").stderr
    assert "`kumi index --methods" in study(folder, "ablations").stderr
    assert "mentions needs a chat model" in study(folder, "gleanings").stderr


def test_gleanings_are_written_and_drawn(folder: Path, server: FakeServer) -> None:
    server.configure(replies=[("one word, yes or no", "yes"), ("", "entity<|>Bo<|>person<|>Bo mends.\nEND")])
    ran = study(folder, "gleanings", "--set", "mentions.model=m")
    assert ran.returncode == 0, ran.stderr
    study_files = Study(folder / "eval" / "gleanings")
    rows = list(read_jsonl_rows(study_files.path("gleanings"), Score))
    assert {(row.name, row.value) for row in rows} == {("entity_references", 1.0)}
    assert len(rows) == 2 * 3 * 4
    assert study_files.read_manifest()["gleanings"]["documents"] == 2
    assert study_files.read_text("gleanings.svg").startswith("<svg")
    assert "2 gleanings" in ran.stdout


def test_a_plan_is_shown(folder: Path, server: FakeServer) -> None:
    ran = kumi(folder, "eval", "plan", "--methods", "naive,bm25", "--stages", "run,judge", "--protocol", "graphrag")
    assert ran.returncode == 0, ran.stderr
    assert "2 questions, 2 systems: naive, bm25." in ran.stdout
    assert "judge graphrag" in ran.stdout
    summary = json.loads(kumi(folder, "eval", "plan", "--stages", "judge", "--json", "--questions", "1").stdout)
    assert {e["step"] for e in summary["estimates"]} == {"judge debiased"}
    assert summary["questions"] == 1
    assert "stage" in kumi(folder, "eval", "plan", "--stages", "ask").stderr
    assert "protocol" in kumi(folder, "eval", "plan", "--protocol", "x").stderr
    assert server.counts()["requests"] == 0
