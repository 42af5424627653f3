"""small graph -> the subgraph around a passage, and scores of a walk from there."""

from __future__ import annotations

from math import log, sqrt

import pytest

from kumihimo.core.records import Mention
from kumihimo.core.table import Table
from kumihimo.methods.braid import ppr
from kumihimo.methods.braid.ppr import PassageGraph, expand_graph, personalized_pagerank, top_ids
from kumihimo.text.name_keys import entity_id, name_key
from tests.factories_tables import Held, table


def entity(name: str) -> str:
    return entity_id(name_key(name))


def mentions(**passages: str) -> Table[Mention]:
    """Return mentions of each passage's names, in order."""
    return table(
        Mention,
        [
            Mention(id=f"{passage}.{n:05}", text="", entity=entity(name), name=name, type="")
            for passage, names in passages.items()
            for n, name in enumerate(names.split())
        ],
    )


def test_lookups_in_both_directions() -> None:
    graph = PassageGraph(mentions(p="Ann Bo Ann", q="Bo"))
    assert graph.entities(["q", "p"]) == {
        "q": {entity("Bo"): None},
        "p": {entity("Ann"): None, entity("Bo"): None},
    }
    assert graph.passages([entity("Ann"), entity("Bo"), "?"]) == {
        entity("Ann"): ("p",),
        entity("Bo"): ("p", "q"),
        "?": (),
    }


def test_lookups_are_cached() -> None:
    graph = PassageGraph(mentions(p="Ann Bo"))
    before = graph.entities(["p"]), graph.passages([entity("Bo")])
    rows = graph.mentions.rows
    assert isinstance(rows, Held)
    rows.rows.clear()
    assert (graph.entities(["p"]), graph.passages([entity("Bo")])) == before
    assert graph.entities(["q"]) == {"q": {}}


def test_hubs_have_no_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppr, "HUB_MENTIONS", 2)
    graph = PassageGraph(mentions(p="Ann Bo", q="Ann", r="Ann Bo"))
    assert graph.passages([entity("Ann"), entity("Bo")]) == {entity("Ann"): (), entity("Bo"): ("p", "r")}
    part = expand_graph(graph, ["p"], [])
    assert list(part.passages) == ["p", "r"]
    assert list(part.entities) == [entity("Bo")], "hubs are not in the subgraph"


def test_subgraph_by_hand() -> None:
    part = expand_graph(PassageGraph(mentions(p="Ann Bo", q="Bo Cy", r="Cy")), ["p"], [entity("Cy"), "unknown"])
    assert list(part.passages) == ["p", "q", "r"], "question entities extend the subgraph"
    ann, bo, cy = map(entity, ("Ann", "Bo", "Cy"))
    names = {place: name for name, place in part.entities.items()}
    edges = {
        (int(r), names[int(c)]): float(w)
        for r, c, w in zip(part.edge_passages, part.edge_entities, part.edge_weights, strict=True)
    }
    half = 1 / sqrt(2)
    assert edges == pytest.approx({(0, ann): 1, (0, bo): half, (1, bo): half, (1, cy): half, (2, cy): half})
    assert part.out_weights[0].tolist() == pytest.approx([1 + half, 2 * half, half])
    assert part.out_weights[1][part.entities[bo]] == pytest.approx(2 * half)
    assert part.question_entities == pytest.approx({cy: 1 / log(3)})


def test_df_of_other_entities_counts_the_subgraph_only() -> None:
    part = expand_graph(PassageGraph(mentions(p="Ann", q="Ann Bo", r="Ann Bo", s="Bo")), ["p"], [])
    assert list(part.passages) == ["p", "q", "r"], "s shares nothing with p"
    assert part.out_weights[1][part.entities[entity("Bo")]] == pytest.approx(sqrt(2)), (
        "two of its three passages are in the subgraph"
    )
    assert expand_graph(PassageGraph(mentions()), [], []).edge_passages.tolist() == []


def test_seeds_stay_in_a_full_subgraph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppr, "_MAX_PASSAGES", 2)
    part = expand_graph(PassageGraph(mentions(a="Bo Cy Di", b="Bo Cy Di", y="Bo Cy Di", z="Elk")), ["z", "y"], [])
    assert list(part.passages) == ["y", "z"]


def test_walk_by_hand() -> None:
    """From p, .586 goes to Ann and .414 to Bo, whom q shares.

    With damping .5 the walk converges to p = .629, q = .037; .5 of p is restart mass.
    """
    part = expand_graph(PassageGraph(mentions(p="Ann Bo", q="Bo")), ["p"], [])
    assert personalized_pagerank(part, {"p": 3.0}, passage_share=0.8, damping=0.5) == pytest.approx(
        {"p": 0.129, "q": 0.037}, abs=0.001
    )


def test_walk_from_question_entities() -> None:
    """Bo restarts with .5, half of it for each passage; they send .5 back."""
    part = expand_graph(PassageGraph(mentions(p="Bo", q="Bo")), [], [entity("Bo")])
    scores = personalized_pagerank(part, {}, passage_share=0.8, damping=0.5)
    assert scores["p"] == scores["q"] == pytest.approx(1 / 6, abs=0.001)
    both = expand_graph(PassageGraph(mentions(p="Ann", q="Bo")), ["p"], [entity("Bo")])
    both_scores = personalized_pagerank(both, {"p": 1.0}, passage_share=0.8, damping=0.5)
    assert both_scores["p"] / both_scores["q"] == pytest.approx(0.8 * 0.5 / 0.2, abs=0.01), (
        "passages .8, a step further each"
    )


def test_passages_without_edges_have_no_score() -> None:
    part = expand_graph(PassageGraph(mentions(p="Ann", q="Bo")), ["p", "q"], [])
    assert list(personalized_pagerank(part, {"p": 1.0}, passage_share=0.8, damping=0.5)) == ["p"]
    assert personalized_pagerank(part, {}, passage_share=0.8, damping=0.5) == {}
    assert (
        personalized_pagerank(
            expand_graph(PassageGraph(mentions()), ["p"], []), {"p": 1.0}, passage_share=0.8, damping=0.5
        )
        == {}
    )


def test_rare_entities_carry_more_mass() -> None:
    common = {f"r{n}": "Sea" for n in range(8)}
    part = expand_graph(PassageGraph(mentions(p="Ann Sea", q="Ann", **common)), ["p"], [])
    scores = personalized_pagerank(part, {"p": 1.0}, passage_share=0.8, damping=0.6)
    assert top_ids(scores, 2) == ["p", "q"]
    assert scores["r0"] < scores["q"] / 7


def test_ties_are_sorted_by_id() -> None:
    assert top_ids({"b": 1.0, "c": 2.0, "a": 1.0}, 2) == ["c", "a"]
