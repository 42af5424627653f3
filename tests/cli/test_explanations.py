"""a question -> the reason for each piece of evidence: in the terminal, as JSON, as a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_cli import Run, kumi  # noqa: F401 (a fixture)
from tests.fixtures_index import fill

NOTES = {
    "Kestrel.txt": "The ferry Kestrel was built by Ada Holm.",
    "Ada Holm.txt": "Ada Holm learnt her trade in Oban <b>.",
    "c.txt": "A mill burnt.",
}
QUESTION = "Where did the builder of the ferry Kestrel learn her trade?"


@pytest.fixture
def indexed(kumi: Run, tmp_path: Path) -> Run:  # noqa: F811
    fill(tmp_path / "shelf", NOTES)
    assert kumi("index", "shelf")[0] == 0
    return kumi


def test_in_the_terminal_each_piece_tells_why(indexed: Run) -> None:
    plain, explained = indexed("retrieve", QUESTION)[1], indexed("retrieve", QUESTION, "--explain")[1]
    assert "Ada Holm\n" not in plain
    assert re.search(r"(adds|says) “[^”]+”.* (to|linked to) shelf/[\w ]+\.txt.* through Ada Holm\n", explained)
    assert re.search(r"\n   \w+[\w ]* -?\d\.\d\d, ", explained)
    assert [line for line in explained.splitlines() if line in plain.splitlines()] == plain.splitlines()
    code, answer, _ = indexed("ask", QUESTION, "--explain")
    assert (code, "Why these passages:" in answer, "through Ada Holm" in answer) == (0, True, True)


def test_of_other_methods_it_is_told_which_words_are_said(indexed: Run) -> None:
    out = indexed("retrieve", QUESTION, "--explain", "-m", "bm25")[1]
    assert "says “ferry Kestrel”\n" in out


def test_as_json(indexed: Run) -> None:
    (first, second, *_) = json.loads(indexed("retrieve", QUESTION, "--json")[1])["evidence"]
    assert isinstance(first["words"], list)
    assert list(first["feature_scores"].values()) == sorted(first["feature_scores"].values(), reverse=True)
    via = second["via"]
    assert (via["name"], via["goes_on"], via["uri"]) == ("Ada Holm", True, first["chunks"][0]["uri"])
    answer = json.loads(indexed("ask", QUESTION, "--json")[1])
    assert answer["query_type"] == ""
    assert answer["evidence"][0]["feature_scores"] == first["feature_scores"]
    assert "text" not in answer["evidence"][0]


def test_what_a_question_was_taken_for_is_said(indexed: Run) -> None:
    _, out, err = indexed("retrieve", "What are the main themes?")
    assert "corpus-level question" not in out
    assert "(Corpus-level question: reports of " in err or "communities" not in err
    result = json.loads(indexed("retrieve", "What are the main themes?", "--json")[1])
    assert bool(result["query_type"]) == ("Corpus-level question" in err)


def test_as_a_page(indexed: Run, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    assert indexed("retrieve", QUESTION, "--html", page)[:2] == (
        0,
        f"Wrote {page}: 3 pieces of evidence, and why each was chosen.\n",
    )
    html = page.read_text(encoding="utf-8")
    assert "through Ada Holm" in html
    assert "Oban &lt;b&gt;" in html
    assert '<a href="#e1">no. 1</a>' in html
    assert "<mark>Kestrel</mark>" in html
    assert not re.search(r"<script|https?://", html)
    assert indexed("retrieve", QUESTION, "--html", page)[0] == 0  # our own page may be overwritten
    page.write_text("mine")
    assert indexed("retrieve", QUESTION, "--html", page)[0] == 2
    assert indexed("retrieve", "--questions", "q.jsonl", "--html", page)[0] == 2


def test_user_text_is_never_markup_on_a_page(kumi: Run, tmp_path: Path) -> None:  # noqa: F811
    fill(tmp_path / "shelf", {f"{name}<script>.txt": f"{text} <script>alert('x')" for name, text in NOTES.items()})
    assert kumi("index", "shelf")[0] == 0
    page = tmp_path / "why.html"
    assert kumi("retrieve", f"{QUESTION} <script>alert('x')", "--html", page)[0] == 0
    html = page.read_text(encoding="utf-8")
    assert html.count("&lt;script&gt;") >= 5, "in the question and the names of files"
    assert "<script" not in html
    assert "alert('" not in html
