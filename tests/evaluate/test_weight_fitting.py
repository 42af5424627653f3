"""Questions with gold and a small graph -> fitted weights, and their recall on other questions."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from kumihimo.evaluate.gold import DocumentSpan, GoldPassage, IndexLayout
from kumihimo.evaluate.weight_fitting import BraidWeights, FittingExample, cross_validate_recall, learn_weights
from kumihimo.methods.braid.two_pass import FIRST_FEATURES, SECOND_FEATURES, run_first_pass
from tests.methods.factories_search import FakeVectorSearch, GraphBuilder, keyword_search

PEOPLE = ("Ruta Haverlock", "Tess Moll", "Bo Lind", "Ann Kerrow", "Ola Brask", "Ida Wray", "Per Dunn")
PIERS = ("Gull Pier", "Osk Pier", "Long Pier", "North Pier", "Salt Pier", "Mill Pier", "Old Pier")


def build_all_examples() -> list[FittingExample]:
    """Build a question for each pier.

    Its answer is linked to the builder; a distractor shares more words with the question.
    """
    graph = GraphBuilder()
    ids: dict[str, tuple[str, str]] = {}
    for pier, person in zip(PIERS, PEOPLE, strict=True):
        builder_id = graph.add_chunk(f"{pier} was built by {person}.", pier, person, title=pier)
        origin_id = graph.add_chunk(f"{person} came to the world in Corvale.", person, title=person)
        graph.add_chunk(f"The builder of a town was born near {pier.split()[0]} town.")
        ids[pier] = builder_id, origin_id
    tables = graph.tables()
    layout = IndexLayout({}, {}, {id: DocumentSpan(id, 0, 9) for id in graph.rows["chunks"]}, {}, {})
    return [
        FittingExample(
            pier,
            run_first_pass(
                f"Where was the builder of {pier} born?",
                tables["chunks"],
                tables["mentions"],
                keyword_search,
                FakeVectorSearch(),
            ),
            tuple(GoldPassage(id, (DocumentSpan(id, 0, 5),)) for id in gold),
            layout,
            tables["chunks"],
        )
        for pier, gold in ids.items()
    ]


@pytest.fixture(scope="module")
def fitting_examples() -> list[FittingExample]:
    return build_all_examples()


def test_recall_counts_the_first_chunks(fitting_examples: list[FittingExample]) -> None:
    words = {"first": {"words": 1.0}, "second": {"words": 1.0}}
    assert [fitting_examples[0].recall(words, k=k) for k in (1, 2)] == [0.0, 0.5], (
        "a distractor shares more words with the question"
    )
    assert fitting_examples[0].recall(words, k=100) == 1.0
    assert [fitting_examples[0].is_relevant(passage.name) for passage in fitting_examples[0].gold] == [True, True]
    assert sum(map(fitting_examples[0].is_relevant, fitting_examples[0].first_pass.features)) == 2


def test_fitted_weights_find_more_than_words(fitting_examples: list[FittingExample]) -> None:
    weights = learn_weights(fitting_examples)
    assert (tuple(weights["first"]), tuple(weights["second"])) == (FIRST_FEATURES, SECOND_FEATURES)
    words = {"first": {"words": 1.0}, "second": {"words": 1.0}}
    assert fmean(example.recall(weights, k=2) for example in fitting_examples) == 1.0
    assert fmean(example.recall(words, k=2) for example in fitting_examples) < 0.8
    assert learn_weights(fitting_examples) == weights


def test_features_that_are_dropped_have_no_weight(fitting_examples: list[FittingExample]) -> None:
    weights = learn_weights(fitting_examples, drop=["bridges", "graph rank", "onward rank"])
    assert tuple(weights["second"]) == tuple(name for name in SECOND_FEATURES if name not in ("bridges", "onward rank"))
    assert not {"bridges", "graph rank"} & weights["first"].keys()


def test_question_weights_are_respected(fitting_examples: list[FittingExample]) -> None:
    wrong = replace(fitting_examples[-1], id="wrong", gold=fitting_examples[0].gold)
    fair = learn_weights(fitting_examples[:3])
    spoilt = learn_weights([*fitting_examples[:3], wrong])
    spared = learn_weights([*fitting_examples[:3], wrong], question_weight=lambda id: 0.001 if id == "wrong" else 1.0)

    def distance(first: BraidWeights, second: BraidWeights) -> float:
        return sum(abs(first["second"][name] - second["second"][name]) for name in SECOND_FEATURES)

    assert distance(fair, spared) < distance(fair, spoilt) / 3


def test_weights_are_never_negative(fitting_examples: list[FittingExample]) -> None:
    weights = learn_weights(fitting_examples)
    assert min([*weights["first"].values(), *weights["second"].values()]) == 0.0


def test_cross_validation_uses_unseen_questions(
    fitting_examples: list[FittingExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    folds: list[list[str]] = []

    def record_fold(fitting_examples: list[FittingExample]) -> BraidWeights:
        folds.append([example.id for example in fitting_examples])
        return {"first": {}, "second": {}}

    monkeypatch.setattr("kumihimo.evaluate.weight_fitting.learn_weights", record_fold)
    recalls = cross_validate_recall(fitting_examples)
    assert recalls.keys() == set(PIERS)
    assert len(folds) == 5
    assert sorted(name for fold in folds for name in PIERS if name not in fold) == sorted(PIERS)


def test_indistinct_candidates_give_zero_weights() -> None:
    without_gold = [replace(example, gold=()) for example in build_all_examples()[:1]]
    weights = learn_weights(without_gold)
    assert set(weights["first"].values()) | set(weights["second"].values()) == {0.0}
