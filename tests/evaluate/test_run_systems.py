"""Questions and systems -> answer rows: content, usage, failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.usage import Usage
from kumihimo.evaluate.records import EvalQuestion, SourceSpan, SystemAnswer
from kumihimo.evaluate.run_systems import answer_questions
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import parse_system
from kumihimo.llm.budget import Budget, Caps
from kumihimo.storage.response_cache import ResponseCache
from tests.cli_runner import kumi as shell
from tests.evaluate.factories_harbour import PIER, QUESTIONS, Scripted, fill
from tests.fake_server import FakeServer

HYDE, NAIVE = parse_system("hyde"), parse_system("naive:k=2")


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


@contextmanager
def with_model(harbour: Kumihimo, cache: ResponseCache) -> Iterator[tuple[Snapshot, Scripted]]:
    models = Scripted(harbour.models.settings, lambda: cache)
    with harbour.snapshot() as snapshot:
        yield replace(snapshot, models=models), models


def test_without_a_model_documents_answer(harbour: Kumihimo) -> None:
    with harbour.snapshot() as snapshot:
        rows = answer_questions(snapshot, NAIVE, QUESTIONS, Budget())
        rerun = answer_questions(snapshot, NAIVE, QUESTIONS, Budget(), earlier=rows)
    first = rows[0]
    assert [row.question for row in rows] == ["pier", "pole", "both", "none"]
    assert (first.system, first.text, first.model) == ("naive:k=2", f"{PIER} [1]", "")
    assert [(source.n, source.table, len(source.places)) for source in first.contexts] == [
        (1, "chunks", 1),
        (2, "chunks", 1),
    ]
    place = SourceSpan("notes/pier.md", 0, len(PIER), "line 1")
    assert [(c.n, c.text, c.places) for c in first.citations] == [(1, PIER, (place,))]
    assert (first.usage, first.seconds is None) == (Usage(), False)
    assert rerun == rows  # with the seconds of the first run


def test_a_cached_answer_keeps_its_usage(harbour: Kumihimo, cache: ResponseCache) -> None:
    with with_model(harbour, cache) as (snapshot, models):
        run = Budget()
        rows = answer_questions(snapshot, HYDE, QUESTIONS, run)
        calls = sum(models.chat("answer").prompt_counts.values())  # type: ignore[union-attr]
        assert calls == 8
        assert (run.total.calls, sum((row.usage for row in rows), Usage())) == (8, run.total)
        assert all(row.usage.calls == 2 and row.seconds is not None and row.model == "fake" for row in rows)
        rerun = answer_questions(snapshot, HYDE, QUESTIONS, Budget())
        assert rerun == [replace(row, seconds=None) for row in rows]
        assert answer_questions(snapshot, HYDE, QUESTIONS, Budget(), earlier=rows) == rows
        other = [replace(row, text="Something else.") for row in rows]
        assert answer_questions(snapshot, HYDE, QUESTIONS, Budget(), earlier=other) == rerun
        assert sum(models.chat("answer").prompt_counts.values()) == calls  # type: ignore[union-attr]
        second_generation = answer_questions(snapshot, HYDE, QUESTIONS, Budget(), generation=1)
        assert {row.generation for row in second_generation} == {1}
        assert sum(models.chat("answer").prompt_counts.values()) == 2 * calls  # type: ignore[union-attr]


def test_sources_are_those_in_the_prompt(harbour: Kumihimo, cache: ResponseCache) -> None:
    with with_model(harbour, cache) as (snapshot, _):
        small_answer = {**snapshot.settings["answer"], "budget": 20}
        small_snapshot = replace(snapshot, settings={**snapshot.settings, "answer": small_answer})
        full, limited = (
            answer_questions(source, NAIVE, QUESTIONS[:1], Budget())[0] for source in (snapshot, small_snapshot)
        )
    assert (len(full.contexts), len(limited.contexts)) == (2, 1)
    assert [c.n for c in limited.citations] == [1]


def test_a_row_keeps_the_feature_scores_of_its_evidence(tmp_path: Path) -> None:
    (tmp_path / "Kestrel.txt").write_text("The old ferry Kestrel was built by Ada Holm.", encoding="utf-8")
    (tmp_path / "Ada Holm.txt").write_text("Ada Holm learnt her trade in Oban.", encoding="utf-8")
    question = EvalQuestion("trade", "Where did the builder of the ferry Kestrel learn her trade?")
    questions = [question, EvalQuestion("what", "What is it?")]
    with Kumihimo(tmp_path / ".kumi") as kumi:
        kumi.index(tmp_path)
        with kumi.snapshot("reports") as snapshot:
            first, without_words = rows = answer_questions(snapshot, parse_system("braid"), questions, Budget())
            context = snapshot.retrieve(questions[0].text, "braid")
            (entity_id,) = (entity.id for entity in snapshot.table("entities") if entity.name == "Ada Holm")
    assert [(source.why, source.path) for source in first.contexts] == [
        (dict(item.feature_scores), item.via) for item in context
    ]
    assert all(source.why for source in first.contexts)
    first_source, second_source = first.contexts
    assert second_source.path == (first_source.id, entity_id)
    assert (first.decided, without_words.decided.partition(":")[0]) == ("", "question without content words")
    study = Study(tmp_path / "study")
    study.write_answers("braid", 0, rows)
    assert list(study.answers("braid")) == rows


def test_a_failed_question_does_not_stop_the_others(harbour: Kumihimo, cache: ResponseCache) -> None:
    questions = [*QUESTIONS, EvalQuestion("gulls", "Who counted the gulls?")]
    with with_model(harbour, cache) as (snapshot, _):
        rows = answer_questions(snapshot, NAIVE, questions, Budget())
        assert [row.failed for row in rows] == [*[""] * 4, "the model will not speak of gulls"]
        budget = Budget(Caps(calls=5))
        rows = answer_questions(snapshot, HYDE, questions[:4], budget)
        assert budget.total.calls == 5
        assert sum("--max-calls 5 was reached" in row.failed for row in rows) >= 1
        assert sum((row.usage for row in rows), Usage()) == budget.total  # failed answers are paid for too
        rows = answer_questions(snapshot, HYDE, questions[:4], budget := Budget(Caps(calls=3)))
        assert (budget.total.calls, [row.failed for row in rows]) == (3, [""] * 4)


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


def test_a_capped_run_can_be_continued(folder: Path, server: FakeServer) -> None:
    server.configure(replies=[("<question>", "So it is [1].")])
    ran = shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "7")
    assert ran.returncode == 1
    assert "4 of 12 rows failed: run the same command to try them again; the first: capped" in ran.stderr
    assert server.counts()["requests"] == 7
    ran = shell(folder, "eval", "run", "--again", "bm25", "--json")
    summary: dict[str, Any] = json.loads(ran.stdout)
    assert ran.returncode == 0, ran.stderr
    assert {n: (s["answered"], s["failed"]) for n, s in summary["systems"].items()} == {"bm25": (8, 0), "hyde": (4, 0)}
    # bm25 finds nothing for one question, in both generations
    assert (summary["paid"]["calls"], summary["remembered"]["calls"]) == (7, 7)
    assert server.counts()["requests"] == 14
    before = {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")}
    assert shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "0").returncode == 0
    assert {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")} == before
    elsewhere = shell(folder, "eval", "run", "--again", "bm25", "--max-calls", "0", "--cache", "other.db")
    assert elsewhere.returncode == 1  # existing answers are kept all the same
    assert {path: path.read_bytes() for path in (folder / "eval").rglob("*.jsonl")} == before
    ran_with = Study(folder / "eval").read_manifest()["run"]
    assert (ran_with["bm25"]["generations"], ran_with["hyde"]["models"]["hyde"]) == (2, "m temperature=0.0")
    assert [row.generation for row in rows(folder, "bm25", 1)] == [1] * 4


def test_checks_run_before_any_call(folder: Path, server: FakeServer) -> None:
    for words, message in {
        ("--methods", "bm25,meta"): "the index was not built for meta",
        ("--methods", "bm25,naive:k=x"): "naive.k is a whole number",
        ("--methods", "bm25", "--again", "hyde"): "--again hyde: no system 'hyde'",
        ("--study", "elsewhere"): "`kumi eval questions` writes it",
        ("--max-cost", "1"): "a cap on cost needs prices",
    }.items():
        ran = shell(folder, "eval", "run", *words)
        assert (ran.returncode, message in ran.stderr) == (2, True), ran.stderr
    server.configure(key="secret")
    assert shell(folder, "eval", "run").returncode == 2
    assert not (folder / "eval" / "answers").exists()
    Study(folder / "eval").write("questions", [EvalQuestion("q", " ")])
    assert "question 'q' has no text" in shell(folder, "eval", "run").stderr


def test_a_question_that_is_too_long_fails_alone(harbour: Kumihimo, cache: ResponseCache) -> None:
    questions = [QUESTIONS[0], EvalQuestion("long", "a" * 10_001)]
    with with_model(harbour, cache) as (snapshot, _):
        first, long = answer_questions(snapshot, HYDE, questions, Budget())
    assert (first.failed, long.question, long.text) == ("", "long", "")
    assert long.failed.startswith("the question has 10,001 characters")


def test_methods_without_their_model_are_skipped(folder: Path) -> None:
    (folder / "kumi.toml").unlink()
    ran = shell(folder, "eval", "run")
    assert (ran.returncode, "(Left out: hyde. hyde needs a chat model" in ran.stderr) == (0, True)
    assert Study(folder / "eval").systems() == ["bm25"]
    ran = shell(folder, "eval", "run", "--methods", "hyde")
    assert (ran.returncode, "hyde needs a chat model" in ran.stderr) == (2, True)
