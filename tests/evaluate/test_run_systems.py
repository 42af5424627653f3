"""questions x systems -> rows of answers: what they hold, what they took, what becomes of failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.snapshot import Snapshot
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import EvalQuestion, SourceSpan, SystemAnswer
from kumihimo.evaluate.run_systems import answer_questions
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import parse_system
from kumihimo.llm.budget import Budget, Caps
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_server import FakeServer
from tests.cli_runner import kumi as shell
from tests.evaluate.factories_harbour import PIER, QUESTIONS, Scripted, fill

HYDE, NAIVE = parse_system("hyde"), parse_system("naive:k=2")


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


@contextmanager
def with_model(harbour: Kumihimo, memo: ResponseCache) -> Iterator[tuple[Snapshot, Scripted]]:
    models = Scripted(harbour.models.settings, lambda: memo)
    with harbour.snapshot() as reading:
        yield replace(reading, models=models), models


def test_without_a_model_documents_answer(harbour: Kumihimo) -> None:
    with harbour.snapshot() as reading:
        rows = answer_questions(reading, NAIVE, QUESTIONS, Budget())
        again = answer_questions(reading, NAIVE, QUESTIONS, Budget(), earlier=rows)
    first = rows[0]
    assert [row.question for row in rows] == ["pier", "pole", "both", "none"]
    assert (first.system, first.text, first.model) == ("naive:k=2", "“Bo Lind mends it each May.” [1]", "")
    assert [(source.n, source.table, len(source.places)) for source in first.contexts] == [
        (1, "chunks", 1),
        (2, "chunks", 1),
    ]
    start = PIER.index("Bo Lind")
    assert [(c.n, c.text, c.places) for c in first.citations] == [
        (1, "Bo Lind mends it each May.", (SourceSpan("notes/pier.md", start, start + 26, "line 1"),))
    ]
    assert (first.usage, first.seconds is None) == (Usage(), False)
    assert again == rows  # with the seconds of the first run


def test_what_an_answer_took_is_known_when_it_is_remembered(harbour: Kumihimo, memo: ResponseCache) -> None:
    with with_model(harbour, memo) as (reading, models):
        run = Budget()
        rows = answer_questions(reading, HYDE, QUESTIONS, run)
        asked = sum(models.chat("answer").prompt_counts.values())  # type: ignore[union-attr]
        assert asked == 8
        assert (run.total.calls, sum((row.usage for row in rows), Usage())) == (8, run.total)
        assert all(row.usage.calls == 2 and row.seconds is not None and row.model == "fake" for row in rows)
        anew = answer_questions(reading, HYDE, QUESTIONS, Budget())
        assert anew == [replace(row, seconds=None) for row in rows]
        assert answer_questions(reading, HYDE, QUESTIONS, Budget(), earlier=rows) == rows
        other = [replace(row, text="Something else.") for row in rows]
        assert answer_questions(reading, HYDE, QUESTIONS, Budget(), earlier=other) == anew
        assert sum(models.chat("answer").prompt_counts.values()) == asked  # type: ignore[union-attr]
        again = answer_questions(reading, HYDE, QUESTIONS, Budget(), generation=1)
        assert {row.generation for row in again} == {1}
        assert sum(models.chat("answer").prompt_counts.values()) == 2 * asked  # type: ignore[union-attr]


def test_sources_are_those_the_model_was_told(harbour: Kumihimo, memo: ResponseCache) -> None:
    with with_model(harbour, memo) as (reading, _):
        few = replace(reading, settings={**reading.settings, "answer": {"budget": 20, "response": ""}})
        whole, cut = (answer_questions(r, NAIVE, QUESTIONS[:1], Budget())[0] for r in (reading, few))
    assert (len(whole.contexts), len(cut.contexts)) == (2, 1)
    assert [c.n for c in cut.citations] == [1]


def test_a_row_keeps_why_its_evidence_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The old ferry Kestrel was built by Ada Holm.", encoding="utf-8")
    (tmp_path / "b.txt").write_text("Ada Holm learnt her trade in Oban.", encoding="utf-8")
    asked = [EvalQuestion("trade", "Where did the builder of the ferry Kestrel learn her trade?"), QUESTIONS[-1]]
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path)
        with kumi.snapshot() as reading:
            first, whole = rows = answer_questions(reading, parse_system("braid"), asked, Budget())
            found = reading.retrieve(asked[0].text, "braid")
            (named,) = (entity.id for entity in reading.table("entities") if entity.name == "Ada Holm")
    assert [(source.why, source.path) for source in first.contexts] == [
        (dict(each.feature_scores), each.via) for each in found
    ]
    assert all(source.why for source in first.contexts)
    one, other = first.contexts
    assert other.path == (one.id, named)
    assert (first.decided, whole.decided.partition(":")[0]) == ("", "asked of the whole")
    study = Study(tmp_path / "study")
    study.write_answers("braid", 0, rows)
    assert list(study.answers("braid")) == rows


def test_a_question_that_fails_takes_no_others_with_it(harbour: Kumihimo, memo: ResponseCache) -> None:
    asked = [*QUESTIONS, EvalQuestion("gulls", "Who counted the gulls?")]
    with with_model(harbour, memo) as (reading, _):
        rows = answer_questions(reading, NAIVE, asked, Budget())
        assert [row.failed for row in rows] == [*[""] * 4, "the model will not speak of gulls"]
        capped = Budget(Caps(calls=5))
        rows = answer_questions(reading, HYDE, asked[:4], capped)
        assert capped.total.calls == 5
        assert sum("--max-calls 5 was reached" in row.failed for row in rows) >= 1
        assert sum((row.usage for row in rows), Usage()) == capped.total  # what came of nothing was paid for, too
        rows = answer_questions(reading, HYDE, asked[:4], capped := Budget(Caps(calls=3)))
        assert (capped.total.calls, [row.failed for row in rows]) == (3, [""] * 4)


# -- the command


@pytest.fixture
def folder(tmp_path: Path, server: FakeServer) -> Path:
    fill(tmp_path)
    model = f'model = "m"\nbase_url = "{server.url}"\n'
    (tmp_path / "kumi.toml").write_text(f"[chat]\n{model}", "utf-8")
    Study(tmp_path / "eval").write("questions", QUESTIONS)
    assert shell(tmp_path, "index", "notes", "rows.jsonl", "--methods", "bm25,hyde").returncode == 0
    return tmp_path


def rows(folder: Path, name: str, n: int = 0) -> list[SystemAnswer]:
    return list(Study(folder / "eval").answers(name, n))


def test_a_run_that_was_capped_goes_on(folder: Path, server: FakeServer) -> None:
    server.configure(replies=[("Question: ", "So it is [1].")])
    ran = shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "7")
    assert ran.returncode == 1
    assert "4 of 12 answers failed; of the first: capped" in ran.stderr
    assert server.counts()["requests"] == 7
    ran = shell(folder, "eval", "run", "--again", "bm25", "--json")
    told: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    assert {n: (s["answered"], s["failed"]) for n, s in told["systems"].items()} == {"bm25": (8, 0), "hyde": (4, 0)}
    assert (told["paid"]["calls"], told["remembered"]["calls"]) == (7, 7)  # bm25 finds nothing for one, twice
    assert server.counts()["requests"] == 14
    before = {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")}
    assert shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "0").returncode == 0
    assert {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")} == before
    elsewhere = shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "0", "--cache", "other.db")
    assert elsewhere.returncode == 1  # what is there already is not lost for it
    assert {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")} == before
    ran_with = Study(folder / "eval").read_manifest()["run"]
    assert (ran_with["bm25"]["generations"], ran_with["hyde"]["models"]["hyde"]) == (2, "m temperature=0.0")
    assert [row.generation for row in rows(folder, "bm25", 1)] == [1] * 4


def test_nothing_is_paid_before_all_is_checked(folder: Path, server: FakeServer) -> None:
    for words, said in {
        ("--methods", "bm25,light"): "the index was not built for light",
        ("--methods", "bm25,naive:k=x"): "naive.k is a whole number",
        ("--methods", "bm25", "--again", "hyde"): "--again hyde: no system 'hyde'",
        ("--study", "elsewhere"): "`kumi eval questions` writes it",
        ("--max-cost", "1"): "a cap on cost needs prices",
    }.items():
        ran = shell(folder, "eval", "run", *words)
        assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    server.configure(key="secret")
    assert shell(folder, "eval", "run").returncode == 2
    assert not (folder / "eval" / "answers").exists()
    Study(folder / "eval").write("questions", [EvalQuestion("q", " ")])
    assert "question 'q' has no text" in shell(folder, "eval", "run").stderr


def test_methods_that_need_a_model_are_left_out(folder: Path) -> None:
    (folder / "kumi.toml").unlink()
    ran = shell(folder, "eval", "run")
    assert (ran.returncode, "(Left out: hyde. hyde needs a chat model" in ran.stderr) == (0, True)
    assert Study(folder / "eval").systems() == ["bm25"]
    ran = shell(folder, "eval", "run", "--methods", "hyde")
    assert (ran.returncode, "hyde needs a chat model" in ran.stderr) == (2, True)
