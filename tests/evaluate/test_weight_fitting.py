"""Questions with gold and a small graph -> fitted weights, and their recall on other questions."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from statistics import fmean

import pytest
from benchmarks.weight_fitting import DOCUMENT_WEIGHT, FittingExample, cross_validate_recall, learn_weights

from kumihimo.evaluate.gold import GoldPassages, IndexLayout
from kumihimo.evaluate.records import SourceSpan
from kumihimo.methods.braid import published_weights
from kumihimo.methods.braid.two_pass import FEATURES, BraidWeights, run_first_pass
from kumihimo.text.question import ParsedQuestion
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
    tables = graph.tables(every=True)
    layout = IndexLayout({}, {}, {id: SourceSpan(id, 0, 9) for id in graph.rows["chunks"]}, {}, {})
    return [
        FittingExample(
            pier,
            run_first_pass(
                ParsedQuestion(f"Where was the builder of {pier} born?"),
                tables["chunks"],
                tables["mentions"],
                tables["descriptions"],
                keyword_search,
                FakeVectorSearch(),
            ),
            {id: (SourceSpan(id, 0, 5),) for id in gold},
            layout,
        )
        for pier, gold in ids.items()
    ]


@pytest.fixture(scope="module")
def fitting_examples() -> list[FittingExample]:
    return build_all_examples()


def only(feature: str) -> BraidWeights:
    """Return weights that rank by one plain feature."""
    return {"plain": {feature: 1.0}, "first": {"plain": 1.0}, "second": {"plain": 1.0}}


def untitled(example: FittingExample) -> FittingExample:
    """Return the example as of documents without titles."""
    return replace(example, first_pass=replace(example.first_pass, walk={}, anchors=()))


def first_gold(example: FittingExample, count: int = 1) -> GoldPassages:
    return dict(islice(example.gold.items(), count))


def relabelled(example: FittingExample, feature: str) -> FittingExample:
    """Return the example without graph, its gold the best candidate by one feature alone."""
    plain = {id: dict(values) for id, values in example.first_pass.candidates.plain.items()}
    best = next(iter(example.gold))
    for id, values in plain.items():
        values[feature] = float(id == best)
    first_pass = replace(example.first_pass, candidates=replace(example.first_pass.candidates, plain=plain))
    return untitled(replace(example, first_pass=first_pass, gold=first_gold(example)))


def test_recall_counts_the_first_chunks(fitting_examples: list[FittingExample]) -> None:
    example = fitting_examples[0]
    assert [example.recall(only("words"), k=k) for k in (1, 2)] == [0.0, 0.5], (
        "a distractor shares more words with the question"
    )
    assert example.recall(only("words"), k=100) == 1.0
    assert [example.is_relevant(name) for name in example.gold] == [True, True]
    assert sum(map(example.is_relevant, example.first_pass.candidates.chunks)) == 2


def test_last_pass_is_the_second_where_the_graph_helps(fitting_examples: list[FittingExample]) -> None:
    example, weights = replace(fitting_examples[0], anchors=1), published_weights()
    assert len(example.last_pass(weights).anchors) == 1
    flat = untitled(example)
    assert flat.last_pass(weights) is flat.first_pass


def test_fitted_weights_find_more_than_words(fitting_examples: list[FittingExample]) -> None:
    weights = learn_weights(fitting_examples)
    assert {name: tuple(weights[name]) for name in weights} == FEATURES
    assert fmean(example.recall(weights, k=2) for example in fitting_examples) == 1.0
    assert fmean(example.recall(only("words"), k=2) for example in fitting_examples) < 0.8
    assert learn_weights(fitting_examples) == weights


def test_plain_weights_prefer_the_feature_of_the_gold(fitting_examples: list[FittingExample]) -> None:
    examples = [relabelled(example, "phrase") for example in fitting_examples]
    weights = learn_weights(examples)["plain"]
    assert tuple(weights) == FEATURES["plain"]
    assert weights["phrase"] > 1
    assert fmean(example.recall({**published_weights(), "plain": weights}, k=1) for example in examples) == 1.0


def test_weight_of_named_documents_is_not_learned(fitting_examples: list[FittingExample]) -> None:
    examples = [relabelled(example, "document") for example in fitting_examples]
    weights = dict(learn_weights(examples)["plain"])
    assert weights.pop("document") == DOCUMENT_WEIGHT
    assert weights == learn_weights(examples, drop=["document"])["plain"], "the words count as without it"


def test_plain_weights_compare_the_candidates_of_one_question(fitting_examples: list[FittingExample]) -> None:
    """A feature that is the same for all candidates of a question says nothing, whatever the other questions."""
    examples = []
    for n, example in enumerate(fitting_examples):
        values = {id: {"words": float(n > 3), "phrase": 0.0} for id in example.first_pass.candidates.plain}
        values[next(iter(example.gold))]["phrase"] = 1.0
        candidates = replace(example.first_pass.candidates, plain=values)
        first_pass = replace(example.first_pass, candidates=candidates)
        examples.append(untitled(replace(example, first_pass=first_pass, gold=first_gold(example, 1 + (n > 3)))))
    weights = learn_weights(examples)["plain"]
    assert weights["words"] == 0.0
    assert weights["phrase"] > 1


def test_questions_without_gold_among_the_candidates_are_ignored(fitting_examples: list[FittingExample]) -> None:
    missed = [replace(example, id=f"missed {example.id}", gold={}) for example in fitting_examples]
    assert learn_weights([*fitting_examples, *missed])["plain"] == learn_weights(fitting_examples)["plain"]


def test_graph_weights_come_from_questions_with_several_passages(fitting_examples: list[FittingExample]) -> None:
    published = published_weights()
    single = [replace(example, gold=first_gold(example)) for example in fitting_examples]
    flat = [untitled(example) for example in fitting_examples]
    for examples in (single, flat):
        weights = learn_weights(examples)
        assert (weights["first"], weights["second"]) == (published["first"], published["second"])
        assert weights["plain"] != published["plain"]
    both = learn_weights([*fitting_examples[:3], *single[3:]])
    assert both["second"] != published["second"]


def test_features_that_are_dropped_have_no_weight(fitting_examples: list[FittingExample]) -> None:
    dropped = ["bridges", "graph rank", "onward rank", "clause"]
    weights = learn_weights(fitting_examples, drop=dropped)
    assert {name: tuple(weights[name]) for name in weights} == {
        name: tuple(feature for feature in FEATURES[name] if feature not in dropped) for name in FEATURES
    }


def test_question_weights_are_respected(fitting_examples: list[FittingExample]) -> None:
    wrong = replace(fitting_examples[-1], id="wrong", gold=fitting_examples[0].gold)
    fair = learn_weights(fitting_examples[:3])
    spoilt = learn_weights([*fitting_examples[:3], wrong])
    spared = learn_weights([*fitting_examples[:3], wrong], question_weight=lambda id: 0.001 if id == "wrong" else 1.0)

    def distance(first: BraidWeights, second: BraidWeights, name: str) -> float:
        return sum(abs(first[name][feature] - second[name][feature]) for feature in FEATURES[name])

    for name in FEATURES:
        assert distance(fair, spared, name) < distance(fair, spoilt, name) / 3, name


def test_weights_are_never_negative(fitting_examples: list[FittingExample]) -> None:
    weights = learn_weights(fitting_examples)
    assert min(value for name in FEATURES for value in weights[name].values()) == 0.0


def test_cross_validation_uses_unseen_questions(
    fitting_examples: list[FittingExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    folds: list[list[str]] = []

    def record_fold(fitting_examples: list[FittingExample]) -> BraidWeights:
        folds.append([example.id for example in fitting_examples])
        return {name: {} for name in FEATURES}

    monkeypatch.setattr("benchmarks.weight_fitting.learn_weights", record_fold)
    recalls = cross_validate_recall(fitting_examples)
    assert recalls.keys() == set(PIERS)
    assert len(folds) == 5
    assert sorted(name for fold in folds for name in PIERS if name not in fold) == sorted(PIERS)


def test_without_any_gold_the_published_weights_are_returned(fitting_examples: list[FittingExample]) -> None:
    assert learn_weights([replace(fitting_examples[0], gold={})]) == published_weights()
