"""Questions in three languages -> whether they are of the whole; reports -> the sentences of it that tell most."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.methods.leading import _ordered, _themes, about

QUESTIONS = Path(__file__).parents[1] / "golden" / "whole.tsv"
ASKED = [line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("kind", "question"), ASKED)
def test_what_asks_of_the_whole_is_told(kind: str, question: str) -> None:
    assert (not about(question)) == (kind == "whole")


def test_of_the_whole_sentences_about_what_some_share_come_first() -> None:
    reports = [[(f"Pier {word} is old.", (), True), ("Well, you know.", (), True)] for word in "abcdefghijkl" * 3]
    for report in reports[:3]:
        report.append(("The braid is dyed.", (), True))
    themes = _themes(reports)
    assert "know" not in themes
    assert next(said[0] for _, _, said in _ordered(set(), themes, reports[0])) == "The braid is dyed."


def test_what_is_no_prose_comes_later() -> None:
    said = [("a_file.txt then a word.", (), True), ("A list of", (), True), ("A sentence.", (), True)]
    assert [(turn, each[0]) for turn, _, each in _ordered(set(), frozenset(), said)] == [
        (0, "A sentence."),
        (2, "a_file.txt then a word."),
        (3, "A list of"),
    ]
