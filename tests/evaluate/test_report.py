"""studies -> a page and tables: conclusion, panels, safety, size limits, reproducible bytes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.core.usage import Usage
from kumihimo.evaluate import report
from kumihimo.evaluate.bias import SelfComparison
from kumihimo.evaluate.records import (
    AnswerClaim,
    AnswerSource,
    EvalQuestion,
    Rating,
    Score,
    SourceSpan,
    SystemAnswer,
    Verdict,
)
from kumihimo.evaluate.report import answer_details
from kumihimo.evaluate.report.summary_data import StudyResults, load_study_results
from kumihimo.evaluate.study import Study
from tests.cli_runner import kumi
from tests.evaluate.factories_study import HARMFUL, JAPANESE, build_study

SYSTEMS = ("mapreduce", "light:hybrid", "naive", "bm25")
VOID_ELEMENTS = {"meta", "link", "input", "br", "line", "circle", "rect", "path", "polyline"}


class Page(HTMLParser):
    """The elements and script texts of a page. Every element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)
        if tag == "script":
            self.scripts[dict(attrs).get("id") or ""] = ""

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[list(self.scripts)[-1]] += data


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return build_study(tmp_path_factory.mktemp("study") / "harbour", 8, systems=SYSTEMS)


@pytest.fixture(scope="module")
def results(study: Study) -> StudyResults:
    return load_study_results(study, "harbour")


@pytest.fixture(scope="module")
def page(results: StudyResults) -> str:
    return render_page(results)


def make_verdicts(points: float, questions: int = 40, aa: float = 50.0) -> Iterator[Verdict]:
    """Yield verdicts on two systems by one criterion, and on one against itself.

    points: the share of wins of 100.
    """
    for b, share in (("new", points), ("old", aa)):
        for i in range(questions):
            winner = "a" if (i + 0.5) * 100 / questions < share else "b"
            for first in ("a", "b"):
                yield Verdict("debiased", "diversity", f"q{i}", "old", b, first, 0, winner)  # type: ignore[arg-type]


def render_page(*studies: StudyResults) -> str:
    return "".join(report.render_evaluation_page(studies, answer_details.compute_detail_limits(studies)))


def section(page: str, id: str) -> str:
    """Return the HTML of one section of a page."""
    return page.partition(f'<section id="{id}">')[2].partition("</section>")[0]


def question_details(studies: list[StudyResults], limits: answer_details.DetailLimits) -> dict[str, Any]:
    return dict(answer_details.question_details(studies, limits))


def headline_text(results: StudyResults) -> str:
    return " ".join(report.headline_texts(results))


def judged_text(folder: Path, verdicts: list[Verdict]) -> str:
    """Return the headline of a study with these verdicts."""
    study = Study(folder)
    study.write("questions", [EvalQuestion(f"q{i}", "What?") for i in range(40)])
    study.write("verdicts", verdicts)
    return headline_text(load_study_results(study, "harbour"))


# -- the conclusion


def test_words_of_a_clear_winner(tmp_path: Path) -> None:
    text = judged_text(tmp_path, list(make_verdicts(20)))
    assert "new answers best on harbour: 80\u202f% of the points against the others" in text
    assert "significantly better than all others (protocol debiased, diversity; 40 questions)" in text
    assert "Read the win rates with care" not in text


def test_words_without_significance(tmp_path: Path) -> None:
    text = judged_text(tmp_path, list(make_verdicts(45)))
    assert "No system answers significantly better than the others on harbour." in text
    assert "which may be chance" in text
    assert "a win rate of 72\u202f% or more is significant in 4 of 5 studies" in text


def test_words_when_a_system_beats_itself(tmp_path: Path) -> None:
    text = judged_text(tmp_path, list(make_verdicts(20, aa=90)))
    assert "Read the win rates with care: 1 alarm." in text
    assert "against another generation of itself" in text
    without = judged_text(tmp_path / "other", [v for v in make_verdicts(20) if v.a != v.b])
    assert "No system was compared with another answer of its own" in without


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([("diversity", "x", "y", "")], "There are no results for harbour yet. None of 2 verdicts is valid."),
        ([("diversity", "x", "x", "tie")], "There are no results for harbour yet. None of 2 verdicts is valid."),
        ([("directness", "x", "y", "tie"), ("diversity", "x", "y", "tie")], "It cannot be distinguished from y"),
        ([("overall", "x", "y", "a"), ("diversity", "x", "y", "b")], "(protocol debiased, overall; 1 question)"),
        ([("directness", "x", "y", "b")], "(protocol debiased, directness; 1 question)"),
    ],
)
def test_words_of_few_verdicts(tmp_path: Path, verdicts: list[tuple[str, str, str, str]], words: str) -> None:
    rows = [
        Verdict("debiased", c, "q1", a, b, first, 0, won, status="ok" if won else "invalid")  # type: ignore[arg-type]
        for c, a, b, won in verdicts
        for first in ("a", "b")
    ]
    assert words in judged_text(tmp_path / "harbour", rows)
    report.write_evaluation_report([tmp_path / "harbour"], tmp_path / "report.html")


def test_words_name_cheaper_systems(results: StudyResults) -> None:
    assert results.deciding_criterion
    ranking = sorted(results.deciding_criterion.ranking, key=lambda entry: entry.system != "mapreduce")
    criterion = replace(results.deciding_criterion, ranking=ranking)
    insignificant = replace(criterion, comparisons=[replace(pair, corrected=1.0) for pair in criterion.comparisons])
    text = headline_text(replace(results, criteria=[insignificant]))
    assert re.search(r"mapreduce uses 1\d\d,\d\d\d tokens per question; \w+: 97\u202f% fewer tokens, not sig", text)
    significant = replace(criterion, comparisons=[replace(pair, corrected=0.001) for pair in criterion.comparisons])
    text = headline_text(replace(results, criteria=[significant]))
    assert re.search(r"per question\. Among the cheaper systems \S+ is best: .*, which is significantly worse\.", text)


def test_words_without_a_judge(tmp_path: Path) -> None:
    study = Study(tmp_path)
    questions = [EvalQuestion(f"q{i}", "What?") for i in range(12)]
    study.write("questions", questions)
    assert headline_text(load_study_results(study, "harbour")) == "There are no results for harbour yet."
    rows = [
        Score("recall@5", s, q.id, v + i % 2 / 9)
        for s, v in (("bm25", 0.2), ("naive", 0.7))
        for i, q in enumerate(questions)
    ]
    study.write("retrieval", rows)
    headline = headline_text(load_study_results(study, "harbour"))
    assert headline == "naive has the best recall@5 on harbour: 0.76, significantly better than bm25."
    equal = [Score("hit@5", s, q.id, float(i % 2)) for s in ("bm25", "naive") for i, q in enumerate(questions)]
    study.write("retrieval", [*equal, *rows])
    assert "is the first that the study has of recall@5, " in headline_text(load_study_results(study, "harbour"))
    study.write("retrieval", equal)
    headline = headline_text(load_study_results(study, "harbour"))
    assert "by hit@5. bm25 and naive are equal with 0.50. bm25 cannot be distinguished from naive" in headline


# -- what is shown


def test_the_grid_shows_each_pair_from_both_sides(results: StudyResults, page: str) -> None:
    grid = section(page, "grid")
    for criterion in results.criteria:
        for pair in criterion.comparisons:
            for one in (pair, pair.swap_sides()):
                label = f"{round(one.mean)}{'*' if one.is_significant else ''}</td>"
                assert re.search(f'title="{one.a} over {one.b}: [^"]*">{re.escape(label)}', grid)
    assert grid.count('class="self">50<') == 4 * 4
    assert "corrected by Holm among the 6 pairs" in grid
    assert results.bias
    alarm = SelfComparison("debiased", "diversity", "naive", results.bias.same[0].rate, "It differs.")
    alarmed = replace(results, bias=replace(results.bias, same=(alarm,)))
    assert section(render_page(alarmed), "grid").count(" doubted") == 6
    unalarmed = replace(results, bias=replace(results.bias, same=()))
    assert " doubted" not in section(render_page(unalarmed), "grid")


def test_missing_parts_name_their_command(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion("q1", "What?")])
    study.write("retrieval", [Score("recall@5", "bm25", "q1", 1.0)])
    results = load_study_results(study, "small")
    text = render_page(results)
    sections = {dict(attrs).get("id") for tag, attrs in Page(text).tags if tag == "section"}
    assert sections == {"answer", "retrieval", "questions", "how", "words"}
    assert re.findall(r"<code>(kumi eval [^<]*)</code>", text.partition('id="retrieval"')[0]) == [
        "kumi eval judge", "kumi eval judge --protocol mk", "kumi eval claims", "kumi eval score", "kumi eval run"
    ]  # fmt: skip


def test_refusals_are_in_no_win_rate(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion(f"q{i}", "What?", reference="Insufficient information."[: 99 * (i == 0)])
                              for i in range(4)])  # fmt: skip
    texts = {"old": ["Ada.", "I do not know.", "Ada.", "Ada."], "new": ["Bo.", "The sources do not say.", "Bo.", "Bo."]}
    for system, answers in texts.items():
        study.write_answers(system, 0, [SystemAnswer(system, f"q{i}", text) for i, text in enumerate(answers)])
    study.write("verdicts", [Verdict("debiased", "diversity", f"q{i}", "old", "new", "a", 0, "a") for i in range(4)])
    results = load_study_results(study, "small")
    assert [pair.n for pair in results.criteria[0].comparisons] == [2]
    cells = re.findall(
        r"<td[^>]*>([^<]*)</td>", section(render_page(results), "bias").partition("Refused elsewhere")[2]
    )
    assert cells[1:3] == ["0 of 1", "1 of 3"]


def test_undefined_values_are_counted_with_their_reasons(page: str) -> None:
    assert "faithfulness: no statements (4 answers)" in page
    assert "<small> 7/8</small>" in page


def test_a_measure_without_any_value_is_shown(tmp_path: Path) -> None:
    study = Study(tmp_path / "eval")
    study.write("questions", [EvalQuestion("q1", "Who?")])
    study.write("ratings", [Rating("mk", "recall", "q1", "naive", 1, 0, None, status="failed", why="capped")])
    report.write_evaluation_report([study.folder], tmp_path / "report.html")
    assert "0/1" in (tmp_path / "report.html").read_text("utf-8")


def test_question_data_holds_the_points_of_each_protocol(results: StudyResults, page: str) -> None:
    scripts = Page(page).scripts
    for n, question in enumerate(results.questions):
        data = json.loads(scripts[f"q0-{n}"])
        names = data["names"]
        for criterion in results.criteria:
            for (a, b), values in criterion.points.items():
                key = (
                    names.index(criterion.protocol),
                    names.index(criterion.name),
                    *map(results.systems.index, (a, b)),
                )
                assert data["points"][" ".join(map(str, key))] == round(values[question.id], 1)


def test_several_studies_are_rows_of_one_grid(results: StudyResults) -> None:
    page = render_page(results, replace(results, name="podcast", measures=()))
    assert re.findall(r"<h4>(\w+)<", section(page, "grid")) == ["harbour", "podcast"]
    assert re.findall(r"<h3>(\w+)<", section(page, "answer")) == ["harbour", "podcast"]
    assert re.findall(r"<h3>(\w+)<", section(page, "scores")) == ["harbour"]
    assert [id for id in Page(page).scripts if id.startswith("q")] == [f"q{n}-{i}" for n in range(2) for i in range(8)]


# -- safety and size


def test_user_text_is_never_markup(page: str) -> None:
    parsed = Page(page)
    assert "img" not in {tag for tag, _ in parsed.tags}
    assert not [key for _, attrs in parsed.tags for key in attrs if key.startswith("on")]
    question = json.loads(parsed.scripts["q0-1"])
    assert HARMFUL in question["text"]
    assert question["answers"][0][1].startswith(HARMFUL)
    assert any(row[8] and row[8].startswith(HARMFUL) for row in question["verdicts"])
    assert json.loads(parsed.scripts["q0-2"])["answers"][0][1].startswith(JAPANESE)


def test_every_field_is_escaped(tmp_path: Path) -> None:
    x = "<script>alert('&')</script>"
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion(f"q{i}{x}", x, "local", "user", x, f"{i}{x}", x, (x,)) for i in range(12)])
    ids = [question.id for question in study.questions()]
    systems = [f"{name}{x}" for name in "abc"]
    place = SourceSpan(x, 0, 9, x)
    for system in systems:
        source = AnswerSource(1, x, x, "chunks", 0, (place,))
        usage = Usage(1, 1000 + len(system) * systems.index(system), 0, 400, 0.1, 1)
        rows = [SystemAnswer(system, id, x, (source,), (source,), usage, 1.0, x) for id in ids]
        study.write_answers(system, 0, [*rows[:-1], replace(rows[-1], failed=x)])
    pairs = [*combinations(systems, 2), (systems[0], systems[0])]
    verdict = Verdict(x, x, "", "", "", "a", 0, "a", x, why=x, judge=x)
    choices: list[Any] = [{"winner": "a"}, {"winner": "b"}, {"winner": "", "status": "invalid"}]
    study.write(
        "verdicts",
        [
            replace(verdict, criterion=criterion, question=id, a=a, b=b, role=role, **choices[n % 3])
            for criterion, (n, id), (a, b) in product((x, f"second{x}"), enumerate(ids), pairs)
            for role in ("judge", "second_judge")
        ],
    )
    scores = [Score(x, system, id, None if n == 3 else n / 9, x) for system in systems for n, id in enumerate(ids)]
    study.write("scores", scores)
    study.write("retrieval", scores)
    study.write("ratings", [Rating(x, x, id, s, 1, 0, n, x, judge=x) for s in systems for n, id in enumerate(ids)])
    study.write("claims", [AnswerClaim(s, id, 0, x, True, True, 0.5) for s in systems for id in ids])
    study.record_stage(x, model=x)
    results = load_study_results(study, f"study{x}")
    text = render_page(results, replace(results, name=f"other{x}", missing={x: x}))
    assert text.count("<script>") == 1, "only the script of the page"
    assert "alert('" not in re.sub(r"<script type.*", "", text)
    assert {attrs.get("id", "") for tag, attrs in Page(text).tags if tag == "script"} == {
        "", "index", *(f"q{n}-{i}" for n in range(2) for i in range(12))
    }  # fmt: skip
    assert {panel for panel in report._PANEL_TITLES if not section(text, panel)} == set()
    assert x in " ".join(report.headline_texts(results))


def test_the_page_loads_nothing(page: str) -> None:
    for _, attrs in Page(page).tags:
        target = attrs.get("src") or attrs.get("href") or "#"
        assert target.startswith("#") or target == "data:,"
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp", page)


def test_tables_have_scopes_and_keyboard_access(page: str) -> None:
    heads = [attrs for tag, attrs in Page(page).tags if tag == "th"]
    assert heads
    assert all(attrs.get("scope") in ("row", "col") for attrs in heads)
    boxes = [attrs for tag, attrs in Page(page).tags if attrs.get("class") in ("wide", "scroll")]
    assert all(attrs.get("tabindex") == "0" and attrs.get("aria-label") for attrs in boxes)


def test_details_are_cut_to_the_limits(results: StudyResults) -> None:
    full_limits = answer_details.compute_detail_limits([results])
    assert full_limits.cut_notes == ()
    reason_bytes = sum(len(v.reason) + len(v.why) for v in results.verdicts)
    small_limits = answer_details.compute_detail_limits(
        [results], {"answers": 6_000, "quotes": 3_000, "reasons": reason_bytes * 7 // 10}
    )
    assert small_limits.replicates == {0, 1}
    assert "of 31 answers" in small_limits.cut_notes[0] or "of 32 answers" in small_limits.cut_notes[0]
    assert re.match(r"The reasons of \d+ verdicts are left out \(replicates above 1\):", small_limits.cut_notes[1])
    small_size, full_size = (
        len(json.dumps(question_details([results], limits))) for limits in (small_limits, full_limits)
    )
    assert small_size < 0.8 * full_size
    few_reasons = {**answer_details.BYTE_LIMITS, "reasons": 10}
    assert answer_details.compute_detail_limits([results], few_reasons).replicates == {0}


# -- the command


def test_the_command_writes_a_page_and_tables(study: Study, tmp_path: Path) -> None:
    arguments = (str(study.folder), "--systems", "naive,bm25,mapreduce", "--neighbours")
    ran = kumi(tmp_path, "eval", "report", "--study", *arguments)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "harbour" in ran.stdout
    assert "report.html (" in ran.stdout
    rows = list(csv.DictReader((tmp_path / "report-csv" / "pairs.csv").read_text(encoding="utf-8").splitlines()))
    ratings = [(row["metric"], row["a"], row["b"], row["family"]) for row in rows if row["by"] == "ratings"]
    assert ratings[:2] == [("recall", "bm25", "naive", "12"), ("recall", "mapreduce", "bm25", "12")]
    assert {row["family"] for row in rows if row["by"] == "debiased"} == {"3"}
    assert {row["metric"] for row in rows if row["by"] == "debiased"} >= {"directness", "together"}
    measures = (tmp_path / "report-csv" / "measures.csv").read_text(encoding="utf-8").splitlines()
    means = [row for row in csv.DictReader(measures) if row["mean"]]
    assert all(float(row["low"]) <= float(row["mean"]) + 1e-9 <= float(row["high"]) + 2e-9 for row in means)
    latex = (tmp_path / "report-csv" / "measures.tex").read_text(encoding="utf-8")
    assert latex.count("\\begin{table}") == len({row["group"] for row in means})
    row = next(row for row in means if row["group"] == "retrieval")
    cell = f"{float(row['mean']):.3f} ({float(row['low']):.3f}--{float(row['high']):.3f}"
    assert any(line.startswith(f"{row['system']} & ") and cell in line for line in latex.splitlines())
    first = (tmp_path / "report.html").read_bytes()
    output = json.loads(kumi(tmp_path, "eval", "report", "--study", *arguments, "--json").stdout)
    assert output["page"] == "report.html"
    assert output["words"].keys() == {"harbour"}
    assert output["size"] == len(first)
    assert (tmp_path / "report.html").read_bytes() == first


def test_missing_input_is_reported(study: Study, tmp_path: Path) -> None:
    ran = kumi(tmp_path, "eval", "report")
    assert ran.returncode == 2
    assert "`kumi eval questions` writes it" in ran.stderr
    with pytest.raises(SettingsError, match="has no system 'nieve'"):
        load_study_results(study, "harbour", systems=["nieve"])
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(SettingsError, match="already exists, and `kumi` did not write it"):
        report.write_evaluation_report([study.folder], tmp_path / "report.html")


def test_the_sample_study_has_all_parts(results: StudyResults) -> None:
    assert list(results.systems) == list(SYSTEMS)
    assert results.missing == {}
    assert {measure.group for measure in results.measures} == {"ratings", "scores", "retrieval", "claims"}
