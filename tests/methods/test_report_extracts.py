"""Questions in three languages -> whether they are of the whole; reports -> the sentences of it that tell most."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo.methods.shared.report_extracts import _find_themes, _order_texts, descendant_reports, question_terms
from tests.methods.factories_search import Graph

QUESTIONS = Path(__file__).parents[1] / "golden" / "whole.tsv"
ASKED = [line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("kind", "question"), ASKED)
def test_what_asks_of_the_whole_is_told(kind: str, question: str) -> None:
    assert (not question_terms(question)) == (kind == "whole")


def said(*texts: str) -> list[tuple[str, tuple[tuple[str, str], ...], bool]]:
    return [(text, (("chunks", "c"),), True) for text in texts]


def test_of_the_whole_that_sentence_comes_first_that_speaks_of_what_others_seldom_speak_of() -> None:
    told = {f"other {i}": said("The long pier is old, you know.", "Well, you know the old pier.") for i in range(9)}
    told |= {f"of braids {i}": said("Well, you know the old pier.", "The long braid is dyed red.") for i in range(3)}
    themes = _find_themes(told)
    own = themes["of braids 0"]
    assert {"braid", "dyed", "red"} <= own.keys()
    assert not {"pier", "old", "long"} & own.keys()
    assert (
        next(each[0] for _, _, each in _order_texts(set(), own, told["of braids 0"])) == "The long braid is dyed red."
    )


def test_no_detail_is_a_theme_and_no_name_nor_who_speaks() -> None:
    told = {f"{i}": said("Ruta Haverlock dyes silk.", "KEVIN: The braid is red.") for i in range(3)}
    told |= {f"other {i}": said("Tides turn.") for i in range(9)} | {"detail": said("A cormorant dries its wings.")}
    themes = _find_themes(told)
    assert themes["0"].keys() == {"dye", "silk", "braid", "red"}
    assert themes["detail"] == {}


def test_what_is_no_prose_comes_later() -> None:
    told = said("a_file.txt then a word.", "A list of", "A sentence.")
    assert [(turn, each[0]) for turn, _, each in _order_texts(set(), {}, told)] == [
        (0, "A sentence."),
        (2, "a_file.txt then a word."),
        (3, "A list of"),
    ]


def test_the_reports_of_its_parts_speak_for_a_community() -> None:
    graph = Graph()
    graph.group("root", "Of harbours.", [])
    graph.group("leaf", "Of a cord.", ["Ruta"], "root", level=1)
    graph.group("leaf of it", "Of a knot.", ["Bo"], "leaf", level=2)
    graph.group("other", "Of a mill.", ["Osk"])
    for id, children in (("root", ("leaf",)), ("leaf", ("leaf of it",))):
        was = graph.rows["communities"][id]
        graph.rows["communities"][id] = replace(was, children=children, members=())
    tables = graph.tables()
    chosen = tables["reports"].get_many(["root", "other"]).values()
    found = descendant_reports(chosen, tables["communities"], tables["reports"])
    assert {id: [report.text for report in parts] for id, parts in found.items()} == {
        "root": ["Of a cord.", "Of a knot."]
    }
