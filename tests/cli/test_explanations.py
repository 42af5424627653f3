"""a question -> the reason for each piece of evidence: in the terminal, as JSON, as a page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_cli import Run, kumi  # noqa: F401 (a fixture)
from tests.fixtures_index import fill

NOTES = {
    "a.md": "# Kestrel\n\nThe ferry Kestrel was built by Ada Holm.",
    "b.md": "# Ada Holm\n\nAda Holm learnt her trade in Oban & Co.",
    "c.txt": "A mill burnt.",
}
QUESTION = "Where did the builder of the ferry Kestrel learn her trade?"
REASONS = [
    "is from a document that you name: Kestrel; says “ferry Kestrel”",
    "says “trade”; continues passage 1 on Kestrel through Ada Holm",
    "has no word of the question; it may say it in other words",
]


@pytest.fixture
def indexed(kumi: Run, tmp_path: Path) -> Run:  # noqa: F811
    fill(tmp_path / "shelf", NOTES)
    assert kumi("index", "shelf")[0] == 0
    return kumi


def test_in_the_terminal_each_piece_tells_why(indexed: Run) -> None:
    plain, explained = indexed("retrieve", QUESTION)[1], indexed("retrieve", QUESTION, "--explain")[1]
    assert [line.strip() for line in explained.splitlines() if line not in plain.splitlines()] == REASONS
    assert [line for line in explained.splitlines() if line in plain.splitlines()] == plain.splitlines()
    assert not re.search(r"score|\d\.\d\d\b", explained), "numbers are for programs"
    code, answer, _ = indexed("ask", QUESTION, "--explain")
    assert code == 0
    below = answer.partition("Why these passages:\n")[2].splitlines()
    assert [line.strip() for line in below[1::2]] == REASONS


def test_of_other_methods_the_words_are_told(indexed: Run) -> None:
    out = indexed("retrieve", QUESTION, "--explain", "-m", "bm25")[1]
    assert "   says “ferry Kestrel”\n" in out
    assert "   says “trade”\n" in out


def test_as_json(indexed: Run) -> None:
    (first, second, *_) = json.loads(indexed("retrieve", QUESTION, "--json")[1])["evidence"]
    assert (first["words"], second["words"]) == (["ferry Kestrel"], ["trade"])
    assert [first["reason"], second["reason"]] == REASONS[:2]
    assert list(first["feature_scores"].values()) == sorted(first["feature_scores"].values(), reverse=True)
    via = second["via"]
    assert (via["name"], via["continues"], via["uri"]) == ("Ada Holm", True, first["spans"][0]["uri"])
    answer = json.loads(indexed("ask", QUESTION, "--json")[1])
    assert answer["query_type"] == ""
    assert answer["evidence"][0] == first, "everywhere evidence is the same"
    assert (via["rank"], via["location"]) == (1, first["location"])


def test_what_a_question_was_taken_for_is_said(indexed: Run) -> None:
    _, out, err = indexed("retrieve", "What are the main themes?")
    assert "corpus-level question" not in out
    assert "(Corpus-level question: reports of " in err or "communities" not in err
    result = json.loads(indexed("retrieve", "What are the main themes?", "--json")[1])
    assert bool(result["query_type"]) == ("Corpus-level question" in err)
