"""studies -> a page and tables: what it says in words, what it shows, that it is safe, whole, small and the same."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kumihimo.core.errors import SettingsError
from kumihimo.evaluate import report
from kumihimo.evaluate.bias import SelfComparison
from kumihimo.evaluate.records import EvalQuestion, Score, Verdict
from kumihimo.evaluate.report import answer_details, conclusion
from kumihimo.evaluate.report.grid import render_grids
from kumihimo.evaluate.report.summary_data import StudyResults, load_study_results
from kumihimo.evaluate.study import Study
from tests.cli_runner import kumi
from tests.evaluate.factories_study import HARMFUL, JAPANESE, made

SYSTEMS = ("mapreduce", "light:hybrid", "naive", "bm25")
EMPTY = {"meta", "link", "input", "br", "line", "circle", "rect", "path", "polyline"}


class Page(HTMLParser):
    """The elements of a page and the texts of its scripts; each is closed."""

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
        if tag not in EMPTY:
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
    return made(tmp_path_factory.mktemp("study") / "harbour", 8, systems=SYSTEMS)


@pytest.fixture(scope="module")
def held(study: Study) -> StudyResults:
    return load_study_results(study, "harbour")


@pytest.fixture(scope="module")
def page(held: StudyResults) -> str:
    return "".join(report.render_evaluation_page([held], answer_details.compute_detail_limits([held])))


def judged(points: float, questions: int = 40, aa: float = 50.0) -> Iterator[Verdict]:
    """Two systems, by one criterion: a win for so many of 100; and the first against itself."""
    for b, share in (("new", points), ("old", aa)):
        for i in range(questions):
            winner = "a" if (i + 0.5) * 100 / questions < share else "b"
            for first in ("a", "b"):
                yield Verdict("debiased", "diversity", f"q{i}", "old", b, first, 0, winner)  # type: ignore[arg-type]


def told(folder: Path, verdicts: list[Verdict]) -> str:
    study = Study(folder)
    study.write("questions", [EvalQuestion(f"q{i}", "What?") for i in range(40)])
    study.write("verdicts", verdicts)
    return " ".join(
        report.strip_tags(said) for said in conclusion.render_headline(load_study_results(study, "harbour"))
    )


# -- in words


def test_words_of_a_clear_winner(tmp_path: Path) -> None:
    said = told(tmp_path, list(judged(20)))
    assert "new answers best on harbour: 80\u202f% of the points against the others" in said
    assert "significantly better than all others (protocol debiased, diversity; 40 questions)" in said
    assert "rings" not in said


def test_words_where_nothing_is_significant(tmp_path: Path) -> None:
    said = told(tmp_path, list(judged(45)))
    assert "No system answers significantly better than the others on harbour." in said
    assert "that may be chance" in said
    assert "a win rate of 72\u202f% or more would have been seen in 4 of 5 studies" in said


def test_words_where_a_system_beats_itself(tmp_path: Path) -> None:
    said = told(tmp_path, list(judged(20, aa=90)))
    assert "Read the win rates with care: 1 alarm." in said
    assert "against another generation of itself" in said
    without = told(tmp_path / "other", [v for v in judged(20) if v.a != v.b])
    assert "No system was compared with another answer of its own" in without


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([("diversity", "x", "y", "")], "Nothing is measured of harbour yet. None of 2 verdicts is of use."),
        ([("diversity", "x", "x", "tie")], "Nothing is measured of harbour yet. None of 2 verdicts is of use."),
        ([("directness", "x", "y", "tie"), ("diversity", "x", "y", "tie")], "It cannot be told from y"),
        ([("overall", "x", "y", "a"), ("diversity", "x", "y", "b")], "(protocol debiased, overall; 1 question)"),
        ([("directness", "x", "y", "b")], "(protocol debiased, directness; 1 question)"),
    ],
)
def test_words_of_next_to_nothing(tmp_path: Path, verdicts: list[tuple[str, str, str, str]], words: str) -> None:
    rows = [
        Verdict("debiased", c, "q1", a, b, first, 0, won, status="ok" if won else "invalid")  # type: ignore[arg-type]
        for c, a, b, won in verdicts
        for first in ("a", "b")
    ]
    assert words in told(tmp_path / "harbour", rows)
    report.write_evaluation_report([tmp_path / "harbour"], tmp_path / "report.html")


def test_words_name_who_is_cheaper_and_no_worse(held: StudyResults) -> None:
    assert held.deciding_criterion
    alike = [replace(pair, corrected=1.0) for pair in held.deciding_criterion.comparisons]
    ranks = sorted(held.deciding_criterion.ranking, key=lambda one: one.system != "mapreduce")
    said = " ".join(
        conclusion._cheaper_paragraph(held, replace(held.deciding_criterion, comparisons=alike, ranking=ranks))
    )
    assert re.search(r"<b>mapreduce</b> takes 1\d\d,\d\d\d tokens for a question; <b>\w+</b>: 97\u202f% fewer", said)
    sure = [replace(pair, corrected=0.001) for pair in held.deciding_criterion.comparisons]
    said = " ".join(
        conclusion._cheaper_paragraph(held, replace(held.deciding_criterion, comparisons=sure, ranking=ranks))
    )
    assert "which is significantly worse" in said


def test_words_without_a_judge(tmp_path: Path) -> None:
    study = Study(tmp_path)
    asked = [EvalQuestion(f"q{i}", "What?") for i in range(12)]
    study.write("questions", asked)
    assert "Nothing is measured" in conclusion.render_headline(load_study_results(study, "harbour"))[0]
    rows = [
        Score("recall@5", s, q.id, v + i % 2 / 9)
        for s, v in (("bm25", 0.2), ("naive", 0.7))
        for i, q in enumerate(asked)
    ]
    study.write("retrieval", rows)
    said = conclusion.render_headline(load_study_results(study, "harbour"))
    assert report.strip_tags(said[0]) == "naive has the best recall@5 on harbour: 0.76, significantly better than bm25."


# -- what is shown


def test_the_grid_shows_each_pair_from_both_sides(held: StudyResults) -> None:
    drawn = "".join(render_grids([held]))
    for criterion in held.criteria:
        for pair in criterion.comparisons:
            for one in (pair, pair.swap_sides()):
                shown = f"{round(one.mean)}{'*' if one.is_significant else ''}</td>"
                assert re.search(f'title="{one.a} over {one.b}: [^"]*">{re.escape(shown)}', drawn)
    assert drawn.count('class="self">50<') == 4 * 4
    assert "corrected by Holm among the 6 pairs" in drawn
    assert held.bias
    rings = SelfComparison("debiased", "diversity", "naive", held.bias.same[0].rate, "It rings.")
    alarmed = replace(held, bias=replace(held.bias, same=(rings,)))
    assert "".join(render_grids([alarmed])).count(" doubted") == 6
    quiet = replace(held, bias=replace(held.bias, same=()))
    assert " doubted" not in "".join(render_grids([quiet]))


def test_parts_that_are_missing_name_their_command(tmp_path: Path) -> None:
    study = Study(tmp_path)
    study.write("questions", [EvalQuestion("q1", "What?")])
    study.write("retrieval", [Score("recall@5", "bm25", "q1", 1.0)])
    held = load_study_results(study, "small")
    text = "".join(report.render_evaluation_page([held], answer_details.compute_detail_limits([held])))
    shown = {dict(attrs).get("id") for tag, attrs in Page(text).tags if tag == "section"}
    assert shown == {"answer", "retrieval", "questions", "how", "words"}
    assert re.findall(r"<code>(kumi eval [^<]*)</code>", text.partition('id="retrieval"')[0]) == [
        "kumi eval judge", "kumi eval judge --protocol mk", "kumi eval claims", "kumi eval score", "kumi eval run"
    ]  # fmt: skip


def test_undefined_values_are_counted_with_their_reasons(page: str) -> None:
    assert "faithfulness: no statements (4 answers)" in page
    assert "<small> 7/8</small>" in page


def test_a_question_tells_the_points_that_count_of_each_protocol(held: StudyResults) -> None:
    asked = answer_details.render_question_elements([held], answer_details.compute_detail_limits([held]))
    for question, said in zip(held.questions, asked, strict=True):
        data = json.loads(said.partition(">")[2].rpartition("<")[0])
        names = data["names"]
        for criterion in held.criteria:
            for (a, b), values in criterion.points.items():
                of = (names.index(criterion.protocol), names.index(criterion.name), *map(held.systems.index, (a, b)))
                assert data["points"][" ".join(map(str, of))] == round(values[question.id], 1)


def test_several_studies_are_rows_of_one_grid(held: StudyResults) -> None:
    other = replace(held, name="podcast", measures=())
    assert re.findall(r"<h4>(\w+)<", "".join(render_grids([held, other]))) == ["harbour", "podcast"]
    assert report._per_study([held, other], conclusion.render_headline)[0] == "<h3>harbour</h3>"
    ids = re.findall(
        r'id="(q\d-\d)"',
        "".join(
            answer_details.render_question_elements([held, other], answer_details.compute_detail_limits([held, other]))
        ),
    )
    assert ids == [f"q{n}-{i}" for n in range(2) for i in range(8)]


# -- safe, whole, small, the same


def test_nothing_that_anybody_wrote_is_markup(page: str) -> None:
    found = Page(page)
    assert "img" not in {tag for tag, _ in found.tags}
    assert not [key for _, attrs in found.tags for key in attrs if key.startswith("on")]
    question = json.loads(found.scripts["q0-1"])
    assert HARMFUL in question["text"]
    assert question["answers"][0][1].startswith(HARMFUL)
    assert any(row[8] and row[8].startswith(HARMFUL) for row in question["verdicts"])
    assert json.loads(found.scripts["q0-2"])["answers"][0][1].startswith(JAPANESE)


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    for _, attrs in Page(page).tags:
        target = attrs.get("src") or attrs.get("href") or "#"
        assert target.startswith("#") or target == "data:,"
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp", page)


def test_tables_have_scopes_and_boxes_that_a_keyboard_reaches(page: str) -> None:
    heads = [attrs for tag, attrs in Page(page).tags if tag == "th"]
    assert heads
    assert all(attrs.get("scope") in ("row", "col") for attrs in heads)
    boxes = [attrs for tag, attrs in Page(page).tags if attrs.get("class") in ("wide", "scroll")]
    assert all(attrs.get("tabindex") == "0" and attrs.get("aria-label") for attrs in boxes)


def test_what_there_is_no_room_for_is_cut_and_said(held: StudyResults) -> None:
    whole = answer_details.compute_detail_limits([held])
    assert whole.cut_notes == ()
    every = sum(len(v.reason) + len(v.why) for v in held.verdicts)
    small = answer_details.compute_detail_limits(
        [held], {"answers": 6_000, "quotes": 3_000, "reasons": every * 7 // 10}
    )
    assert small.replicates == {0, 1}
    assert "of 31 answers" in small.cut_notes[0] or "of 32 answers" in small.cut_notes[0]
    assert re.match(r"The reasons of \d+ verdicts are left out, those of replicates above 1:", small.cut_notes[1])
    cut, full = (sum(map(len, answer_details.render_question_elements([held], share))) for share in (small, whole))
    assert cut < 0.8 * full
    assert answer_details.compute_detail_limits([held], {**answer_details.BYTE_LIMITS, "reasons": 10}).replicates == {0}


# -- the command


def test_the_command_writes_a_page_and_tables(study: Study, tmp_path: Path) -> None:
    given = (str(study.folder), "--systems", "naive,bm25,mapreduce", "--neighbours")
    ran = kumi(tmp_path, "eval", "report", "--study", *given)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "harbour" in ran.stdout
    assert "report.html (" in ran.stdout
    rows = list(csv.DictReader((tmp_path / "report-csv" / "pairs.csv").read_text(encoding="utf-8").splitlines()))
    ratings = [(row["metric"], row["a"], row["b"], row["family"]) for row in rows if row["by"] == "ratings"]
    assert ratings[:2] == [("recall", "bm25", "naive", "12"), ("recall", "mapreduce", "bm25", "12")]
    assert {row["family"] for row in rows if row["by"] == "debiased"} == {"3"}
    assert {row["metric"] for row in rows if row["by"] == "debiased"} >= {"directness", "together"}
    first = (tmp_path / "report.html").read_bytes()
    told = json.loads(kumi(tmp_path, "eval", "report", "--study", *given, "--json").stdout)
    assert told["page"] == "report.html"
    assert told["words"].keys() == {"harbour"}
    assert told["size"] == len(first)
    assert (tmp_path / "report.html").read_bytes() == first


def test_what_is_not_there_is_said(study: Study, tmp_path: Path) -> None:
    ran = kumi(tmp_path, "eval", "report")
    assert ran.returncode == 2
    assert "`kumi eval questions` writes it" in ran.stderr
    with pytest.raises(SettingsError, match="holds no system 'nieve'"):
        load_study_results(study, "harbour", systems=["nieve"])
    (tmp_path / "report.html").write_text("mine")
    with pytest.raises(SettingsError, match="not by `kumi`"):
        report.write_evaluation_report([study.folder], tmp_path / "report.html")


def test_the_made_study_has_all_parts(held: StudyResults) -> None:
    assert list(held.systems) == list(SYSTEMS)
    assert held.missing == {}
    assert {measure.group for measure in held.measures} == {"ratings", "scores", "retrieval", "claims"}
