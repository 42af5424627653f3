"""candidates + an anchor -> features, computed by hand."""

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
from tests.methods.factories_search import GraphBuilder

QUESTION = "Where was the builder of Gull Pier born?"  # builder, gull, pier, born
PIER, RUTA, OTHER = range(3)


def sample_candidates(*names: str, question: str = QUESTION) -> tuple[Candidates, list[str]]:
    """Three chunks; the first names the subject of the second."""
    graph = GraphBuilder()
    ids = [
        graph.add_chunk("Ruta Haverlock made it in 1890.", "Gull Pier", "Ruta Haverlock", "the sea", title="Gull Pier"),
        graph.add_chunk("She was born in Corvale.", "Ruta Haverlock", "Corvale", title="Ruta Haverlock"),
        graph.add_chunk("A pier stands in the sea.", "the sea"),
    ]
    tables: dict[str, Any] = graph.tables()
    entities = frozenset(map(graph.entity, names))
    return Candidates(question, tables["chunks"].get_many(ids), PassageGraph(tables["mentions"]), entities), ids


def test_rare_question_words_weigh_more() -> None:
    pool, ids = sample_candidates()
    assert [sorted(pool.matched_words[id]) for id in ids] == [["gull", "pier"], ["born"], ["pier"]]
    weights = {"builder": log(4), "gull": log(2.5), "pier": log(2), "born": log(2.5)}  # found in 0, 1, 2, 1 chunks
    assert pool.rarity == pytest.approx({word: weight / sum(weights.values()) for word, weight in weights.items()})
    assert pool.coverage({"gull", "pier"}) == pytest.approx((log(2.5) + log(2)) / sum(weights.values()))
    assert pool.coverage(()) == 0


def test_features_by_hand() -> None:
    pool, ids = sample_candidates("Gull Pier")
    values = compute_features(pool, {"words": {ids[PIER]: 4.0, ids[OTHER]: 2.0}}, [ids[PIER]])
    born = pool.coverage({"born"})
    no_links = dict.fromkeys(("adds", "shares", "named", "bridges"), 0.0)
    assert values[ids[PIER]] == pytest.approx(
        {
            "words": 1.0,
            "words rank": 1 / 2,
            "covers": pool.coverage({"gull", "pier"}) ** 4,
            "new": 0.0,
            "titled": 1.0,
            **no_links,
        }
    ), "an anchor has no link to itself"
    assert values[ids[RUTA]] == pytest.approx(
        {"words": 0.0, "words rank": 1 / 201, "covers": born**4, "new": born, "titled": 0.0}
        | {"adds": born, "shares": 1 / 2, "named": 1.0, "bridges": born}
    ), "two chunks mention her, and the first names the title of the second"
    assert values[ids[OTHER]] == pytest.approx(
        {"words": 0.5, "words rank": 1 / 3, "covers": pool.coverage({"pier"}) ** 4, "new": 0.0, "titled": 0.0}
        | {"adds": 0.0, "shares": 1 / 2, "named": 0.0, "bridges": 0.0}
    ), "linked, but without new question words"


def test_anchor_features_are_maxima() -> None:
    pool, ids = sample_candidates()
    values = compute_features(pool, {}, [ids[PIER], ids[RUTA]])
    assert values[ids[RUTA]]["bridges"] == pytest.approx(pool.coverage({"born"}))
    assert values[ids[PIER]]["bridges"] == pytest.approx(pool.coverage({"gull", "pier"})), (
        "the other anchor names its title"
    )
    assert values[ids[PIER]]["named"] == 0.0, "the anchor does not name this title"
    assert values[ids[OTHER]]["adds"] == pytest.approx(pool.coverage({"pier"})), "relative to the second anchor"
    assert values[ids[OTHER]]["new"] == 0.0


def test_without_anchors_or_rankings() -> None:
    pool, ids = sample_candidates()
    values = compute_features(pool, {"words": {}}, [])
    assert values[ids[RUTA]]["words"] == values[ids[RUTA]]["bridges"] == 0.0
    assert values[ids[RUTA]]["new"] == pool.coverage(pool.matched_words[ids[RUTA]]) > 0
    assert compute_features(Candidates(QUESTION, {}, pool.graph, frozenset()), {}, []) == {}


def test_question_without_words() -> None:
    pool, ids = sample_candidates(question="?!")
    assert pool.rarity == {}
    assert compute_features(pool, {}, [ids[PIER]])[ids[RUTA]]["new"] == 0.0


def test_titles_that_are_no_names() -> None:
    chunks = {
        "a": factories_search.chunk("x", "minutes_2019.md"),
        "b": factories_search.chunk("x"),
        "c": factories_search.chunk("x", "Mole (pier)"),
    }
    pool, _ = sample_candidates()
    titles = Candidates(QUESTION, chunks, pool.graph, frozenset()).title_entities
    assert titles == {"c": GraphBuilder().entity("Mole")}


def test_anchor_link_is_the_rarest_common_entity() -> None:
    pool, ids = sample_candidates()
    ruta = GraphBuilder().entity("Ruta Haverlock")
    assert find_anchor_link(pool, ids[RUTA], [ids[PIER]]) == (ids[PIER], ruta)
    assert find_anchor_link(pool, ids[PIER], [ids[PIER], ids[RUTA]]) == (ids[RUTA], ruta)
    assert find_anchor_link(pool, ids[RUTA], [ids[OTHER]]) == ("", "")


def test_scores_are_scaled_from_zero_to_one() -> None:
    values = {"a": {"x": 1.0, "y": 1.0}, "b": {"x": 3.0}, "c": {}}
    assert score_candidates(values, {"x": 2.0, "y": -4.0}) == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.25})
    assert score_candidates({"a": {}, "b": {}}, {"x": 1.0}) == {"a": 1.0, "b": 1.0}
    assert score_candidates({}, {"x": 1.0}) == {}


def test_feature_contributions_are_sorted() -> None:
    values = {"x": 0.5, "y": 1.0, "z": 0.0, "w": 1.0}
    assert feature_contributions(values, {"w": -1.0, "y": 1.0, "x": 2.0, "z": 9.0}) == (
        ("x", 1.0),
        ("y", 1.0),
        ("w", -1.0),
    )
