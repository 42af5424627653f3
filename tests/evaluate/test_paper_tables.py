"""A study and the design of a paper -> its tables: each form, and figures of the paper only for its data set."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.evaluate.paper_studies import read_design
from kumihimo.evaluate.paper_tables import fill_tables, write_tables
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion, Rating, Score, Verdict
from kumihimo.evaluate.report.summary_data import StudyResults, load_study_results
from kumihimo.evaluate.study import Study

IDS = [f"q{i}" for i in range(8)]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion(id, f"Why {id}?") for id in IDS])
    return study


def results(study: Study) -> StudyResults:
    return load_study_results(study, "eval")


def test_win_rates_over_one_system(study: Study) -> None:
    design = read_design("baselines")
    verdicts = [
        Verdict("lightrag", criterion, id, "naive:words=false", "light:hybrid", first, 0, "a" if n < 2 else "b")
        for criterion in ("diversity", "overall")
        for first in ("a", "b")
        for n, id in enumerate(IDS)
    ]
    study.write("verdicts", verdicts)
    [table] = fill_tables(design, results(study), "legal")
    assert list(table.columns) == ["NaiveRAG", "RQ-RAG", "HyDE", "GraphRAG"]
    cells = {
        row: {name: (cell.value, cell.published) for name, cell in values.items()} for row, values in table.rows.items()
    }
    assert cells == {"diversity": {"NaiveRAG": (25.0, 13.6)}, "overall": {"NaiveRAG": (25.0, 15.2)}}
    [without] = fill_tables(design, results(study))
    assert {cell.published for values in without.rows.values() for cell in values.values()} == {None}


def test_a_caption_says_what_the_cells_are(study: Study) -> None:
    design = read_design("levels")
    study.write(
        "verdicts",
        [
            Verdict(
                "debiased", "comprehensiveness", id, "global:C0", "naive:words=false", first, 0, "a", judge="big_one"
            )
            for first in ("a", "b")
            for id in IDS
        ],
    )
    tables = fill_tables(design, results(study))
    latex = Path(write_tables(study, design, tables)[2]).read_text(encoding="utf-8")
    assert (
        r"After GraphRAG, 2404.16130, figure 2. In brackets: the 95 \% interval, for all pairs of a criterion" in latex
    )
    assert r"*: p < .05 after Holm. Protocol debiased, judge big\_one. n = 8 questions." in latex
    assert "comprehensiveness: C0 & -- & -- & -- & -- & -- & 100.0* (100.0--100.0)" in latex


def test_counts_of_claims(study: Study) -> None:
    systems = ("global:C0", "naive:words=false")
    numbers = {"global:C0": 3, "naive:words=false": 1}
    study.write(
        "claims",
        [AnswerClaim(s, id, 0, f"Bo mended {id} {n} of {s}") for s in systems for id in IDS for n in range(numbers[s])],
    )
    study.write("sentences", [AnswerSentence(s, id, 0, "x", "claims") for s in systems for id in IDS])
    study.write("scores", [Score("token_f1", s, id, 1.0) for s in systems for id in IDS])
    claims, clusters = fill_tables(read_design("claims"), results(study), "news")
    assert (claims.cites, clusters.cites, claims.digits) == ("table 3", "table 4", 1)
    assert (claims.rows["C0"]["claims"].value, claims.rows["C0"]["claims"].published) == (3.0, 34.18)
    assert (claims.rows["SS"]["claims"].value, claims.rows["SS"]["claims"].n) == (1.0, 8)
    assert list(clusters.columns) == ["0.5", "0.6", "0.7", "0.8"]
    assert clusters.rows["SS"]["0.5"].published == 17.92
    assert claims.rows["C1"] == {}


def test_means_of_ratings_and_scores(study: Study) -> None:
    study.write("ratings", [Rating("mk", "depth", id, "meta", 1, 0, 70.0 + n) for n, id in enumerate(IDS)])
    study.write("scores", [Score("faithfulness", "discourse", id, n / 8) for n, id in enumerate(IDS)])
    [ratings] = fill_tables(read_design("arms"), results(study))
    assert ratings.rows["summary"]["depth"].value == 73.5
    [scores] = fill_tables(read_design("discourse"), results(study), "fiqa")
    cell = scores.rows["discourse"]["faithfulness"]
    assert (cell.value, cell.published, scores.digits) == (0.4375, None, 3)
    paths = write_tables(study, read_design("discourse"), [scores])
    latex = Path(paths[2]).read_text(encoding="utf-8")
    assert "discourse & -- & 0.438 (" in latex
    assert r"L\_v, L\_d & -- & --" in latex
    assert Path(paths[1]).read_text(encoding="utf-8").count("\n") == 2
    assert "江上・福田" in Path(paths[0]).read_text(encoding="utf-8")
