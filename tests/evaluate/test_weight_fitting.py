"""Questions with gold over a small graph -> weights that find it, and what they are worth on other questions."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from kumihimo.evaluate.gold import DocumentSpan, GoldPassage, IndexLayout
from kumihimo.evaluate.weight_fitting import BraidWeights, FittingExample, cross_validate_recall, learn_weights
from kumihimo.methods.braid.two_pass import FIRST_FEATURES, SECOND_FEATURES, run_first_pass
from tests.methods.factories_search import Graph, Nearby, match

PEOPLE = ("Ruta Haverlock", "Tess Moll", "Bo Lind", "Ann Kerrow", "Ola Brask", "Ida Wray", "Per Dunn")
PIERS = ("Gull Pier", "Osk Pier", "Long Pier", "North Pier", "Salt Pier", "Mill Pier", "Old Pier")


def made() -> list[FittingExample]:
    """Of each pier a question whose answer is told of its builder; of others it is said in more of its words."""
    graph = Graph()
    ids: dict[str, tuple[str, str]] = {}
    for pier, person in zip(PIERS, PEOPLE, strict=True):
        one = graph.says(f"{pier} was built by {person}.", pier, person, title=pier)
        other = graph.says(f"{person} came to the world in Corvale.", person, title=person)
        graph.says(f"The builder of a town was born near {pier.split()[0]} town.")
        ids[pier] = one, other
    tables = graph.tables()
    there = IndexLayout({}, {}, {id: DocumentSpan(id, 0, 9) for id in graph.rows["chunks"]}, {}, {})
    return [
        FittingExample(
            pier,
            run_first_pass(
                f"Where was the builder of {pier} born?", tables["chunks"], tables["mentions"], match, Nearby()
            ),
            tuple(GoldPassage(id, (DocumentSpan(id, 0, 5),), True) for id in gold),
            there,
            tables["chunks"],
        )
        for pier, gold in ids.items()
    ]


@pytest.fixture(scope="module")
def of() -> list[FittingExample]:
    return made()


def test_recall_is_of_what_is_among_the_first(of: list[FittingExample]) -> None:
    words = {"first": {"words": 1.0}, "second": {"words": 1.0}}
    assert [of[0].recall(words, k=k) for k in (1, 2)] == [0.0, 0.5], "of which the first is said in more words"
    assert of[0].recall(words, k=100) == 1.0
    assert [of[0].is_relevant(one.name) for one in of[0].gold] == [True, True]
    assert sum(map(of[0].is_relevant, of[0].first_pass.features)) == 2


def test_what_is_learned_finds_what_words_do_not(of: list[FittingExample]) -> None:
    weights = learn_weights(of)
    assert (tuple(weights["first"]), tuple(weights["second"])) == (FIRST_FEATURES, SECOND_FEATURES)
    words = {"first": {"words": 1.0}, "second": {"words": 1.0}}
    assert fmean(example.recall(weights, k=2) for example in of) == 1.0
    assert fmean(example.recall(words, k=2) for example in of) < 0.8
    assert learn_weights(of) == weights


def test_features_that_are_dropped_have_no_weight(of: list[FittingExample]) -> None:
    weights = learn_weights(of, drop=["bridges", "graph rank", "onward rank"])
    assert tuple(weights["second"]) == tuple(name for name in SECOND_FEATURES if name not in ("bridges", "onward rank"))
    assert not {"bridges", "graph rank"} & weights["first"].keys()


def test_a_question_counts_as_much_as_is_said(of: list[FittingExample]) -> None:
    wrong = replace(of[-1], id="wrong", gold=of[0].gold)
    fair = learn_weights(of[:3])
    spoilt = learn_weights([*of[:3], wrong])
    spared = learn_weights([*of[:3], wrong], question_weight=lambda id: 0.001 if id == "wrong" else 1.0)

    def apart(one: BraidWeights, other: BraidWeights) -> float:
        return sum(abs(one["second"][name] - other["second"][name]) for name in SECOND_FEATURES)

    assert apart(fair, spared) < apart(fair, spoilt) / 3


def test_nothing_speaks_against_a_passage(of: list[FittingExample]) -> None:
    weights = learn_weights(of)
    assert min([*weights["first"].values(), *weights["second"].values()]) == 0.0


def test_each_question_is_measured_by_weights_that_have_not_seen_it(
    of: list[FittingExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def fitted(of: list[FittingExample]) -> BraidWeights:
        seen.append([example.id for example in of])
        return {"first": {}, "second": {}}

    monkeypatch.setattr("kumihimo.evaluate.weight_fitting.learn_weights", fitted)
    found = cross_validate_recall(of)
    assert found.keys() == set(PIERS)
    assert len(seen) == 5
    assert sorted(name for fold in seen for name in PIERS if name not in fold) == sorted(PIERS)


def test_where_nothing_tells_candidates_apart() -> None:
    alike = [replace(example, gold=()) for example in made()[:1]]
    weights = learn_weights(alike)
    assert set(weights["first"].values()) | set(weights["second"].values()) == {0.0}
