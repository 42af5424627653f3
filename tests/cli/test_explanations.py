"""A question -> why each piece of its evidence was chosen: in the terminal, in --json, in a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_cli import Run, kumi  # noqa: F401 (a fixture)
from tests.fixtures_index import fill

NOTES = {
    "a.txt": "The ferry Kestrel was built by Ada Holm.",
    "b.txt": "Ada Holm learnt her trade in Oban <b>.",
    "c.txt": "A mill burnt.",
}
QUESTION = "Where did the builder of the ferry Kestrel learn her trade?"


@pytest.fixture
def found(kumi: Run, tmp_path: Path) -> Run:  # noqa: F811
    fill(tmp_path / "shelf", NOTES)
    assert kumi("index", "shelf")[0] == 0
    return kumi


def test_in_the_terminal_each_piece_tells_why(found: Run) -> None:
    plain, told = found("retrieve", QUESTION)[1], found("retrieve", QUESTION, "--explain")[1]
    assert "Ada Holm\n" not in plain
    assert re.search(r"(adds|says) “[^”]+”.* (to|tied to) shelf/[ab]\.txt.* through Ada Holm\n", told)
    assert re.search(r"\n   \w+[\w ]* -?\d\.\d\d, ", told)
    assert [line for line in told.splitlines() if line in plain.splitlines()] == plain.splitlines()
    code, answer, _ = found("ask", QUESTION, "--explain")
    assert (code, "Why these passages:" in answer, "through Ada Holm" in answer) == (0, True, True)


def test_of_other_methods_it_is_told_which_words_are_said(found: Run) -> None:
    told = found("retrieve", QUESTION, "--explain", "-m", "bm25")[1]
    assert "says “ferry Kestrel”\n" in told


def test_as_json(found: Run) -> None:
    (first, second, *_) = json.loads(found("retrieve", QUESTION, "--json")[1])["evidence"]
    assert isinstance(first["words"], list)
    assert list(first["why"].values()) == sorted(first["why"].values(), reverse=True)
    path = second["path"]
    assert (path["name"], path["goes_on"], path["uri"]) == ("Ada Holm", True, first["chunks"][0]["uri"])
    asked = json.loads(found("ask", QUESTION, "--json")[1])
    assert asked["decided"] == ""
    assert asked["evidence"][0]["why"] == first["why"]
    assert "text" not in asked["evidence"][0]


def test_what_a_question_was_taken_for_is_said(found: Run) -> None:
    _, out, err = found("retrieve", "What are the main themes?")
    assert "asked of the whole" not in out
    assert "(Asked of the whole: the reports of " in err or "communities" not in err
    told = json.loads(found("retrieve", "What are the main themes?", "--json")[1])
    assert bool(told["decided"]) == ("Asked of the whole" in err)


def test_as_a_page(found: Run, tmp_path: Path) -> None:
    page = tmp_path / "why.html"
    assert found("retrieve", QUESTION, "--html", page)[:2] == (
        0,
        f"Wrote {page}: 3 pieces of evidence, and why each was chosen.\n",
    )
    html = page.read_text(encoding="utf-8")
    assert "through Ada Holm" in html
    assert "Oban &lt;b&gt;" in html
    assert '<a href="#e1">no. 1</a>' in html
    assert "<mark>Kestrel</mark>" in html
    assert not re.search(r"<script|https?://", html)
    assert found("retrieve", QUESTION, "--html", page)[0] == 0  # it is ours
    page.write_text("mine")
    assert found("retrieve", QUESTION, "--html", page)[0] == 2
    assert found("retrieve", "--questions", "q.jsonl", "--html", page)[0] == 2
