"""Candidates, and one that is read first -> what speaks for each, worked by hand."""

from __future__ import annotations

from math import log
from typing import Any

import pytest

from kumihimo.methods.braid.features import (
    Candidates,
    compute_features,
    feature_contributions,
    find_anchor_link,
    score_candidates,
)
from kumihimo.methods.braid.ppr import PassageGraph
from tests.methods import factories_search
from tests.methods.factories_search import Graph as Small

QUESTION = "Where was the builder of Gull Pier born?"  # builder, gull, pier, born
PIER, RUTA, OTHER = range(3)


def candidates(*spoken: str, question: str = QUESTION) -> tuple[Candidates, list[str]]:
    """Of three passages, of which the first says whom the second is about."""
    graph = Small()
    ids = [
        graph.says("Ruta Haverlock made it in 1890.", "Gull Pier", "Ruta Haverlock", "the sea", title="Gull Pier"),
        graph.says("She was born in Corvale.", "Ruta Haverlock", "Corvale", title="Ruta Haverlock"),
        graph.says("A pier stands in the sea.", "the sea"),
    ]
    tables: dict[str, Any] = graph.tables()
    named = frozenset(map(graph.entity, spoken))
    return Candidates(question, tables["chunks"].get_many(ids), PassageGraph(tables["mentions"]), named), ids


def test_words_of_the_question_tell_more_the_fewer_say_them() -> None:
    of, ids = candidates()
    assert [sorted(of.matched_words[id]) for id in ids] == [["gull", "pier"], ["born"], ["pier"]]
    rare = {"builder": log(4), "gull": log(2.5), "pier": log(2), "born": log(2.5)}  # of 0, 1, 2, 1 passages
    assert of.rarity == pytest.approx({word: much / sum(rare.values()) for word, much in rare.items()})
    assert of.coverage({"gull", "pier"}) == pytest.approx((log(2.5) + log(2)) / sum(rare.values()))
    assert of.coverage(()) == 0


def test_features_by_hand() -> None:
    of, ids = candidates("Gull Pier")
    told = compute_features(of, {"words": {ids[PIER]: 4.0, ids[OTHER]: 2.0}}, [ids[PIER]])
    born = of.coverage({"born"})
    nothing = dict.fromkeys(("adds", "shares", "named", "bridges"), 0.0)
    assert told[ids[PIER]] == pytest.approx(
        {
            "words": 1.0,
            "words rank": 1 / 2,
            "covers": of.coverage({"gull", "pier"}) ** 4,
            "new": 0.0,
            "titled": 1.0,
            **nothing,
        }
    ), "it does not go on from itself"
    assert told[ids[RUTA]] == pytest.approx(
        {"words": 0.0, "words rank": 1 / 201, "covers": born**4, "new": born, "titled": 0.0}
        | {"adds": born, "shares": 1 / 2, "named": 1.0, "bridges": born}
    ), "two passages mention her, and the first says her name, the title of the second"
    assert told[ids[OTHER]] == pytest.approx(
        {"words": 0.5, "words rank": 1 / 3, "covers": of.coverage({"pier"}) ** 4, "new": 0.0, "titled": 0.0}
        | {"adds": 0.0, "shares": 1 / 2, "named": 0.0, "bridges": 0.0}
    ), "tied, but it adds nothing"


def test_of_several_anchors_that_counts_to_which_it_is_most() -> None:
    of, ids = candidates()
    told = compute_features(of, {}, [ids[PIER], ids[RUTA]])
    assert told[ids[RUTA]]["bridges"] == pytest.approx(of.coverage({"born"}))
    assert told[ids[PIER]]["bridges"] == pytest.approx(of.coverage({"gull", "pier"})), "its title is named by this one"
    assert told[ids[PIER]]["named"] == 0.0, "which the anchor does not say"
    assert told[ids[OTHER]]["adds"] == pytest.approx(of.coverage({"pier"})), "to the second"
    assert told[ids[OTHER]]["new"] == 0.0


def test_without_anchors_or_rankings() -> None:
    of, ids = candidates()
    told = compute_features(of, {"words": {}}, [])
    assert told[ids[RUTA]]["words"] == told[ids[RUTA]]["bridges"] == 0.0
    assert told[ids[RUTA]]["new"] == of.coverage(of.matched_words[ids[RUTA]]) > 0
    assert compute_features(Candidates(QUESTION, {}, of.graph, frozenset()), {}, []) == {}


def test_a_question_of_no_words() -> None:
    of, ids = candidates(question="?!")
    assert of.rarity == {}
    assert compute_features(of, {}, [ids[PIER]])[ids[RUTA]]["new"] == 0.0


def test_titles_that_are_no_names() -> None:
    chunks = {
        "a": factories_search.chunk("x", "minutes_2019.md"),
        "b": factories_search.chunk("x"),
        "c": factories_search.chunk("x", "Mole (pier)"),
    }
    of, _ = candidates()
    titles = Candidates(QUESTION, chunks, of.graph, frozenset()).title_entities
    assert titles == {"c": Small().entity("Mole")}


def test_what_ties_two_passages() -> None:
    of, ids = candidates()
    ruta = Small().entity("Ruta Haverlock")
    assert find_anchor_link(of, ids[RUTA], [ids[PIER]]) == (ids[PIER], ruta)
    assert find_anchor_link(of, ids[PIER], [ids[PIER], ids[RUTA]]) == (ids[RUTA], ruta)
    assert find_anchor_link(of, ids[RUTA], [ids[OTHER]]) == ("", "")


def test_sums_are_spread_from_the_last_to_the_best() -> None:
    told = {"a": {"x": 1.0, "y": 1.0}, "b": {"x": 3.0}, "c": {}}
    assert score_candidates(told, {"x": 2.0, "y": -4.0}) == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.25})
    assert score_candidates({"a": {}, "b": {}}, {"x": 1.0}) == {"a": 1.0, "b": 1.0}
    assert score_candidates({}, {"x": 1.0}) == {}


def test_reasons_are_what_each_feature_adds_most_first() -> None:
    told = {"x": 0.5, "y": 1.0, "z": 0.0, "w": 1.0}
    assert feature_contributions(told, {"w": -1.0, "y": 1.0, "x": 2.0, "z": 9.0}) == (
        ("x", 1.0),
        ("y", 1.0),
        ("w", -1.0),
    )
