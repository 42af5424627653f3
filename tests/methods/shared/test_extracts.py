"""questions in three languages -> corpus-level or not; reports -> their best sentences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo.methods.shared.extracts import _find_themes, _order_texts, descendant_reports
from kumihimo.text.question import ParsedQuestion
from tests.methods.factories_search import GraphBuilder

QUESTIONS = Path(__file__).parents[2] / "golden" / "whole.tsv"
QUERY_TYPES = [line.split("\t") for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("kind", "question"), QUERY_TYPES)
def test_corpus_level_questions_are_detected(kind: str, question: str) -> None:
    assert (not ParsedQuestion(question).corpus_terms) == (kind == "whole")


def sourced(*texts: str) -> list[tuple[str, tuple[tuple[str, str], ...], bool]]:
    return [(text, (("chunks", "c"),), True) for text in texts]


def test_sentence_with_distinctive_themes_comes_first() -> None:
    texts_of = {
        f"other {i}": sourced("The long pier is old, you know.", "Well, you know the old pier.") for i in range(9)
    }
    texts_of |= {
        f"of braids {i}": sourced("Well, you know the old pier.", "The long braid is dyed red.") for i in range(3)
    }
    themes = _find_themes(texts_of)
    words = themes["of braids 0"]
    assert {"braid", "dyed", "red"} <= words.keys()
    assert not {"pier", "old", "long"} & words.keys()
    assert (
        next(each[0] for _, _, each in _order_texts(set(), words, texts_of["of braids 0"]))
        == "The long braid is dyed red."
    )


def test_details_and_names_are_no_themes() -> None:
    texts_of = {f"{i}": sourced("Ruta Haverlock dyes silk.", "KEVIN: The braid is red.") for i in range(3)}
    texts_of |= {f"other {i}": sourced("Tides turn.") for i in range(9)} | {
        "detail": sourced("A cormorant dries its wings.")
    }
    themes = _find_themes(texts_of)
    assert themes["0"].keys() == {"dye", "silk", "braid", "red"}
    assert themes["detail"] == {}


def test_non_prose_comes_later() -> None:
    texts_of = sourced("a_file.txt then a word.", "A list of", "A sentence.")
    assert [(turn, each[0]) for turn, _, each in _order_texts(set(), {}, texts_of)] == [
        (0, "A sentence."),
        (2, "a_file.txt then a word."),
        (3, "A list of"),
    ]


def test_descendant_reports_belong_to_their_ancestor() -> None:
    graph = GraphBuilder()
    graph.add_community("root", "Of harbours.", [])
    graph.add_community("leaf", "Of a cord.", ["Ruta"], "root", level=1)
    graph.add_community("leaf of it", "Of a knot.", ["Bo"], "leaf", level=2)
    graph.add_community("other", "Of a mill.", ["Osk"])
    for id, children in (("root", ("leaf",)), ("leaf", ("leaf of it",))):
        community = graph.rows["communities"][id]
        graph.rows["communities"][id] = replace(community, children=children, members=())
    tables = graph.tables()
    selected = tables["reports"].get_many(["root", "other"]).values()
    by_root = descendant_reports(selected, tables["communities"], tables["reports"])
    assert {id: [report.text for report in parts] for id, parts in by_root.items()} == {
        "root": ["Of a cord.", "Of a knot."]
    }


def test_children_are_read_before_their_children_and_not_without_end() -> None:
    graph = GraphBuilder()
    graph.add_community("root", "Of harbours.", [])
    children = tuple(f"child {n:02}" for n in range(39))
    grandchildren = ("grandchild 0", "grandchild 1")
    for id in children:
        graph.add_community(id, f"Of {id}.", [], "root", level=1)
    for id in grandchildren:
        graph.add_community(id, f"Of {id}.", [], children[0], level=2)
    rows = graph.rows["communities"]
    rows["root"] = replace(rows["root"], children=children)
    rows[children[0]] = replace(rows[children[0]], children=grandchildren)
    tables = graph.tables()
    by_root = descendant_reports(
        tables["reports"].get_many(["root"]).values(), tables["communities"], tables["reports"]
    )
    assert [report.id for report in by_root["root"]] == [*children, grandchildren[0]]
