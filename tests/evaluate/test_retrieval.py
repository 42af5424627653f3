"""Questions with gold and systems -> measures by `trace`: documents, passages, foreign runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.core.context import Context, Evidence
from kumihimo.evaluate.gold import IndexLayout, read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion, Score, SourceSpan
from kumihimo.evaluate.retrieval import (
    ChunkTracer,
    RetrievalResult,
    average_measures,
    name_places,
    retrieve_all,
    score_result,
    translate_rankings,
    unique_names,
)
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import parse_system
from kumihimo.llm.budget import Budget
from tests.cli_runner import kumi as shell
from tests.evaluate.factories_harbour import QUESTIONS, fill

WITH_GOLD = QUESTIONS[:3]
LOG = "notes/more/log.md"


@pytest.fixture
def snapshot(harbour: Kumihimo) -> Iterator[Snapshot]:
    with harbour.snapshot() as snapshot:
        yield snapshot


def values(rows: Any) -> dict[str, float | None]:
    return {row.name: row.value for row in rows}


def test_measures_of_documents_and_passages(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.evaluate.retrieval.TOKEN_BUDGETS", (10, 4000))
    layout = read_index_layout(snapshot)
    gold = resolve_gold(snapshot, layout, WITH_GOLD)
    results = retrieve_all(snapshot, parse_system("bm25"), WITH_GOLD, ChunkTracer(snapshot, layout), Budget())
    values_by_question = {row.question: values(score_result(row, gold[row.question], [1, 5])) for row in results}
    assert (values_by_question["pier"]["recall@1"], values_by_question["pier"]["MRR"]) == (1, 1)
    assert (
        values_by_question["both"]["recall@1"],
        values_by_question["both"]["recall@5"],
        values_by_question["both"]["all-gold@5"],
    ) == (0.5, 1, 1)
    assert (
        values_by_question["pole"]["recall@1"],
        values_by_question["pole"]["recall@4000tokens"],
        values_by_question["pole"]["recall@10tokens"],
    ) == (1, 1, 0)
    assert (values_by_question["pole"]["chunks"], values_by_question["pole"]["tokens"]) == (
        len(results[1].places),
        sum(results[1].sizes),
    )
    detail = next(s.detail for s in score_result(results[1], gold["pole"], [5]) if s.name == "MRR")
    assert list(detail["places"].values()) == [1]


def test_evidence_is_traced_to_its_chunks(snapshot: Snapshot) -> None:
    layout, tracer = read_index_layout(snapshot), ChunkTracer(snapshot, read_index_layout(snapshot))
    entity = next(e for e in snapshot.table("entities") if "Lind" in e.text)
    document = next(d for d in snapshot.table("documents") if d.uri == LOG)
    pier = list(tracer([Evidence("entities", entity, 1.0)]))
    assert {place.uri for place in pier} == {"notes/pier.md"}
    traced = tracer([Evidence("documents", document, 1.0), Evidence("entities", entity, 0.5)])
    assert list(traced) == [*(layout.chunks[id] for id in layout.chunk_ids[document.id]), *pier]
    assert list(traced.values()) == [layout.tokens[id] for id in layout.chunk_ids[document.id]] + [
        traced[p] for p in pier
    ]
    assert tracer(Context()) == {}


def test_places_are_named_after_their_gold() -> None:
    places = [SourceSpan("a.md", 0, 9), SourceSpan("b.md", 0, 5), SourceSpan("a.md", 9, 20)]
    part, start = ({f"a.md[{x},{y})": (SourceSpan("a.md", x, y),)} for x, y in ((8, 12), (0, 2)))
    document = {"b.md": (SourceSpan("b.md", 0, 2**62),)}
    assert list(name_places(places, part)) == [["a.md[0,9)"], ["b.md[0,5)"], ["a.md[8,12)"]]
    assert list(name_places([None, *places], document)) == [[], ["a.md"], ["b.md"], []]
    assert unique_names(name_places(places, {**part, **start, **document})) == ["a.md[0,2)", "b.md", "a.md[8,12)"]


def test_recall_counts_chunks_not_names() -> None:
    gold = {f"a.md[{x},{x + 2})": (SourceSpan("a.md", x, x + 2),) for x in (0, 3, 6, 9)}
    row = RetrievalResult("s", "q", (SourceSpan("a.md", 0, 9), SourceSpan("a.md", 9, 20)), (5, 5))
    measured = values(score_result(row, gold, [1, 2]))
    assert (measured["recall@1"], measured["recall@2"], measured["all-gold@2"]) == (0.75, 1, 1)
    assert (measured["all-gold@1"], measured["MAP"], measured["recall@2000tokens"]) == (0, 1, 1)


def test_a_foreign_run_may_name_any_alternative() -> None:
    layout = IndexLayout({"a.md": "a", "b.md": "b"}, {"a.md": ["a.md"], "b.md": ["b.md"]}, {}, {}, {})
    gold = {"q": {"a.md or b.md": tuple(SourceSpan(uri, 0, 2**62) for uri in ("a.md", "b.md"))}}
    assert translate_rankings({"q": ["x", "b.md", "a.md"]}, gold, layout) == ({"q": ["x", "a.md or b.md", "a.md"]}, 1)
    assert translate_rankings({"q": ["a.md or b.md"]}, gold, layout) == ({"q": ["a.md or b.md"]}, 0)


def test_failed_retrieval_has_a_reason(snapshot: Snapshot) -> None:
    layout = read_index_layout(snapshot)
    rows = list(
        score_result(
            RetrievalResult("hyde", "pier", failed="capped"),
            resolve_gold(snapshot, layout, WITH_GOLD)["pier"],
            [5],
        )
    )
    assert {(row.value, row.reason) for row in rows} == {(None, "capped")}
    assert average_measures(rows, WITH_GOLD) == {"hyde": {}}


def test_a_mean_has_an_interval_of_clusters() -> None:
    questions = [EvalQuestion(str(n), "?", task=f"t{n // 2}") for n in range(4)]
    rows = [Score("MRR", "s", str(n), float(n < 2)) for n in range(4)] + [Score("MRR", "s", "9", None, "no")]
    mean = average_measures(rows, questions)["s"]["MRR"]
    assert (mean.value, mean.low, mean.high, mean.n) == (0.5, 0.0, 1.0, 4)


# -- the command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("retrieval")
    fill(path)
    assert shell(path, "index", "notes", "rows.jsonl", "--methods", "bm25,naive,hyde").returncode == 0
    Study(path / "eval").write("questions", QUESTIONS)
    return path


def eval_retrieval(folder: Path, *words: str, code: int = 0) -> tuple[str, str]:
    ran = shell(folder, "eval", "retrieval", *words)
    assert ran.returncode == code, ran.stderr
    return ran.stdout, ran.stderr


def test_table_file_and_runs_agree(folder: Path) -> None:
    out, errors = eval_retrieval(folder, "--run", "runs", "--qrels", "gold", "--k", "2,1")
    assert "(Left out: hyde. hyde needs a chat model" in errors
    assert "3 questions with gold, 1 without" in out
    assert [line.split()[0] for line in out.splitlines() if line[:1].strip()][:3] == ["system", "bm25", "naive"]
    stored = {(s.system, s.question, s.name): s.value for s in Study(folder / "eval").rows("retrieval", Score)}
    assert len(stored) == 2 * 3 * (5 * 2 + 2 + 2 + 2)
    runs = [word for name in ("bm25", "naive") for word in ("--from-run", f"runs/{name}.run")]
    for more in ([], ["--qrels", "gold"]):
        summary = json.loads(eval_retrieval(folder, *runs, *more, "--k", "1,2", "--json")[0])
        rescored = {(s.system, s.question, s.name): s.value for s in Study(folder / "eval").rows("retrieval", Score)}
        assert len(rescored) == 2 * 3 * (5 * 2 + 2)
        assert rescored.items() <= stored.items()
        assert (summary["questions"], summary["systems"]["bm25"]["MRR"]["n"]) == (3, 3)
    eval_retrieval(folder, "--run", "runs", "--qrels", "gold")  # a second run may replace our own files
    before = (folder / "eval" / "retrieval.jsonl").read_bytes()
    eval_retrieval(folder, "--methods", "bm25, naive")
    assert (folder / "eval" / "retrieval.jsonl").read_bytes() == before
    assert "missing" not in Study(folder / "eval").read_manifest()["retrieval"]


def test_rows_at_other_cutoffs_stay_until_the_inputs_change(folder: Path, tmp_path: Path) -> None:
    study = Study(tmp_path / "eval")
    study.write("questions", QUESTIONS)
    words = ["--study", str(study.folder), "--methods", "bm25,naive"]
    out, _ = eval_retrieval(folder, *words, "--k", "1,3")
    assert "`kumi eval report` shows which differences are significant." in out
    head = " ".join(out.split("bm25")[0].split())
    assert ("all-gold@3" in head, "nDCG@3" in head, "all-gold@1" in head) == (True, True, False)
    first = {(row.system, row.question, row.name): row.value for row in study.rows("retrieval", Score)}
    assert "Removed" not in eval_retrieval(folder, *words, "--k", "5")[1]
    both = {(row.system, row.question, row.name): row.value for row in study.rows("retrieval", Score)}
    assert first.items() < both.items()
    assert len(both) == 2 * 3 * (5 * 3 + 2 + 2 + 2)
    assert study.read_manifest()["retrieval"]["bm25"]["k"] == [1, 3, 5]
    study.write("questions", QUESTIONS[:2])
    _, errors = eval_retrieval(folder, *words, "--k", "5")
    assert "(Removed, because the index, the settings or the questions have changed: hit@1" in errors
    assert {row.name for row in study.rows("retrieval", Score) if "@1" in row.name} == set()


def test_a_report_compares_foreign_runs_without_questions(tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("".join(f"q{n} 0 a 1\n" for n in range(12)), "utf-8")
    for system, order in (("ours", "ab"), ("theirs", "ba")):
        lines = [f"q{n} Q0 {name} {r} {9 - r} {system}\n" for n in range(12) for r, name in enumerate(order, 1)]
        (tmp_path / f"{system}.run").write_text("".join(lines), "utf-8")
    eval_retrieval(tmp_path, "--qrels", "gold", "--from-run", "ours.run", "--from-run", "theirs.run", "--k", "1")
    ran = shell(tmp_path, "eval", "report")
    assert ran.returncode == 0, ran.stderr
    assert "ours has the best hit@1 on eval: 1.00, significantly better than theirs." in " ".join(ran.stdout.split())


def test_a_run_with_other_names(folder: Path) -> None:
    run = "pier Q0 notes/pier.md 1 9 theirs\nboth Q0 r-2 1 2 theirs\nboth Q0 r-9 2 1 theirs\n"
    (folder / "theirs.run").write_text(run, "utf-8")
    out, errors = eval_retrieval(folder, "--from-run", "theirs.run", "--methods", "bm25", "--json")
    assert "theirs ranks nothing for 1 questions, which score 0" in errors
    assert "theirs ranks 1 entries that the index does not have" in errors
    systems = json.loads(out)["systems"]
    assert systems["theirs"]["recall@5"]["value"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert "tokens" not in systems["theirs"]
    assert json.loads(out)["missing_baselines"] == ["naive"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--methods", "hyde"], "hyde needs a chat model"),
        (["--k", "5,x"], "write whole numbers from 1"),
        (["--from-run", "nothing.run"], "cannot be read"),
        (["--from-run", "theirs.run", "--from-run", "theirs.run"], "is a run of 'theirs', as theirs.run is"),
        (["--from-run", "theirs.run", "--qrels", "empty"], "marks nothing as relevant"),
        (["--from-run", "theirs.run", "--qrels", "other"], "ranks none of the questions with gold"),
        (["--from-run", "theirs.run", "--qrels", "other", "--methods", "bm25"], "leave out --methods"),
        (["--qrels", "other"], "other already exists"),
        (["--run", "notes"], "already exists"),
    ],
)
def test_errors_name_the_remedy(folder: Path, words: list[str], message: str) -> None:
    (folder / "theirs.run").write_text("pier Q0 a 1 9 theirs\n", "utf-8")
    (folder / "empty").write_text("", "utf-8")
    (folder / "other").write_text("q 0 a 1\n", "utf-8")
    assert message in eval_retrieval(folder, *words, code=2)[1]


def test_questions_without_gold_are_not_measured(folder: Path, tmp_path: Path) -> None:
    Study(tmp_path / "eval").write("questions", QUESTIONS[3:])
    _, errors = eval_retrieval(folder, "--study", str(tmp_path / "eval"), code=2)
    assert "has gold: `gold` names the passages with its answer" in errors
