"""A question that one passage begins and another ends -> both; and whatever else may be asked of whatever index."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.methods.braid import braid, ppr, published_weights, weights_from_settings
from kumihimo.methods.braid.features import score_candidates
from kumihimo.methods.braid.ppr import top_ids
from kumihimo.methods.braid.two_pass import FIRST_FEATURES, SECOND_FEATURES, run_first_pass, run_second_pass
from tests.methods.factories_search import Graph, Nearby, match, rank, ruler

QUESTION = "In which harbour town was the builder of Gull Pier born?"
PIER = "Gull Pier was built by Ruta Haverlock."
BORN = "Ruta Haverlock was born in Corvale."
DECOYS = ["A harbour town is a town.", "Tess Moll was born in a town.", "The pier of Osk is old."]


def harbour() -> Graph:
    """The decoys share as many words with the question as the passage that ends it, or more."""
    graph = Graph()
    graph.says(DECOYS[0])
    graph.says(PIER, "Gull Pier", "Ruta Haverlock", title="Gull Pier")
    graph.says(DECOYS[1], "Tess Moll", title="Tess Moll")
    graph.says(BORN, "Ruta Haverlock", "Corvale", title="Ruta Haverlock")
    graph.says(DECOYS[2], "Osk", title="Osk")
    return graph


def found(graph: Graph, question: str = QUESTION, passes: Any = None, **settings: Any) -> Context:
    tables: dict[str, Any] = {name: graph.tables()[name] for name in ("chunks", "mentions")}
    if passes:
        tables = {name: each.filtered(passes) for name, each in tables.items()}
    world: dict[str, Any] = {"keyword_search": match, "vector_search": Nearby(), "tokenizer": ruler, "rerank": rank}
    return braid(question, **{**dict.fromkeys(REPORTS), **tables, **world, **settings})


REPORTS = ("members", "communities", "reports")


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def test_the_second_hop_is_scored_knowing_the_first() -> None:
    context = found(harbour())
    assert set(texts(context)[:2]) == {PIER, BORN}
    assert [item.score for item in context] == sorted((item.score for item in context), reverse=True)
    assert len(context) == 5
    without = Graph()
    for text in (PIER, BORN, *DECOYS):
        without.says(text)
    assert BORN not in texts(found(without))[:2], "nothing ties it to the first"


def test_each_says_what_speaks_for_it_and_what_it_hangs_on() -> None:
    graph = harbour()
    one, two = found(graph).evidence[:2]
    assert two.via == (one.record.id, graph.entity("Ruta Haverlock"))
    why = dict(two.feature_scores)
    assert why["bridges"] > 0
    assert why.keys() <= set(SECOND_FEATURES)
    assert [much for _, much in two.feature_scores] == sorted(why.values(), reverse=True)
    assert found(graph).evidence[-1].via == ()


def test_both_passes() -> None:
    tables = harbour().tables()
    before = run_first_pass(QUESTION, tables["chunks"], tables["mentions"], match, Nearby())
    assert list(before.candidates.chunks) == sorted(before.candidates.chunks)
    assert {name for told in before.features.values() for name in told} >= set(FIRST_FEATURES)
    assert before.anchors == tuple(top_ids(before.rankings["words"], 3))
    after = run_second_pass(before, score_candidates(before.features, published_weights()["first"]), tables["chunks"])
    assert {name for told in after.features.values() for name in told} >= set(SECOND_FEATURES)
    assert len(after.anchors) == 2
    assert max(after.rankings["before"].values()) == 1.0


def test_the_second_pass_adds_what_the_first_did_not_have() -> None:
    tables = harbour().tables()
    before = run_first_pass(QUESTION, tables["chunks"], tables["mentions"], match, Nearby(), pool=1)
    pier = next(id for id, chunk in before.candidates.chunks.items() if chunk.text == PIER)
    one = {pier: before.candidates.chunks[pier]}
    object.__setattr__(before.candidates, "chunks", one)
    after = run_second_pass(before, {pier: 1.0}, tables["chunks"], anchors=1)
    assert sorted(chunk.text for chunk in after.candidates.chunks.values()) == [PIER, BORN]


def test_a_table_of_fewer_rows_is_all_there_is() -> None:
    graph = harbour()
    hidden = next(id for id, chunk in graph.rows["chunks"].items() if chunk.text == PIER)
    context = found(graph, passes=lambda id: not id.startswith(hidden))
    assert PIER not in texts(context)
    assert not any(hidden in item.via for item in context)
    assert len(context) == 4


def test_hubs_tie_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppr, "HUB_MENTIONS", 1)
    context = found(harbour())
    assert all(item.via == () for item in context)


@pytest.mark.parametrize("question", ["what is it?", "?!", "zyx", "In which harbour town?"])
def test_questions_of_no_entity_or_no_word(question: str) -> None:
    assert len(found(harbour(), question)) == 5, "meaning ranks them all"


def test_where_there_is_little_to_find() -> None:
    assert found(Graph()) == Context()
    one = Graph()
    one.says(PIER, "Gull Pier")
    assert texts(found(one)) == [PIER]
    assert texts(found(one, "Who?")) == [PIER]
    assert texts(found(one, vector_search=_nothing, keyword_search=_nothing)) == [PIER], "by the name in the question"
    assert found(one, "Who?", vector_search=_nothing, keyword_search=_nothing) == Context()


def _nothing(*_: object, **__: object) -> Context:
    return Context()


def test_japanese() -> None:
    graph = Graph()
    graph.says("町の塔は古い。")
    graph.says("潮見塔は鴨居蓮が建てた。", "潮見塔", "鴨居蓮", title="潮見塔")
    graph.says("山田花子は町で生まれた。", "山田花子", title="山田花子")
    graph.says("鴨居蓮は霧島町で生まれた。", "鴨居蓮", "霧島町", title="鴨居蓮")
    context = found(graph, "潮見塔を建てた人はどこで生まれたか。")
    assert set(texts(context)[:2]) == {"潮見塔は鴨居蓮が建てた。", "鴨居蓮は霧島町で生まれた。"}
    assert {item.via[1] for item in context.evidence[:2]} == {graph.entity("鴨居蓮")}


def test_k_and_budget_and_no_anchors() -> None:
    assert len(found(harbour(), k=2)) == 2
    assert len(found(harbour(), budget=8)) == 1, "a pier of seven words, and no room for another"
    assert len(found(harbour(), anchors=0)) == 5
    assert len(found(harbour(), pool=1, anchors=1)) < 5


def test_weights_that_are_set() -> None:
    weights = tuple(float(name == "words rank") for name in SECOND_FEATURES)
    context = found(harbour(), second_weights=weights)
    assert texts(context)[0] in DECOYS, "by words alone"
    assert [name for item in context for name, _ in item.feature_scores] == ["words rank"] * len(context)
    assert weights_from_settings((), weights) == {"second": dict(zip(SECOND_FEATURES, weights, strict=True))}
    said = r"^braid\.first_weights has 2 numbers and needs 9: words rank, .*`kumi tune --questions` finds them"
    with pytest.raises(SettingsError, match=said):
        found(harbour(), first_weights=(1.0, 2.0))
    senseless: list[dict[str, Any]] = [{"anchors": -1}, {"pool": 0}]
    for wrong in senseless:
        with pytest.raises(SettingsError, match="they take 0 and more, 1 and more"):
            found(harbour(), **wrong)


def test_those_that_are_published_are_of_all_features() -> None:
    weights = published_weights()
    assert (tuple(weights["first"]), tuple(weights["second"])) == (FIRST_FEATURES[1:], SECOND_FEATURES[1:]), (
        "words are told by the rest"
    )
    weights["first"] = {}
    assert published_weights()["first"], "what is given away can be changed without harm"


WHOLE, BROAD = "What are the main themes?", "What do the guests say about piers and towns?"
OF_ONE = "Is the pier of the town old?"
OF_THE_WHOLE, ACROSS = "asked of the whole: the reports of 1 communities", "asked across the documents: sentences of "


@pytest.mark.parametrize(
    ("question", "whole", "told"),
    [
        (WHOLE, "auto", OF_THE_WHOLE),
        (WHOLE, "always", OF_THE_WHOLE),
        (WHOLE, "never", ""),
        (BROAD, "auto", ACROSS),
        (BROAD, "always", ACROSS),
        (BROAD, "never", ""),
        (OF_ONE, "auto", ""),
        (OF_ONE, "always", ACROSS),
    ],
)
def test_what_asks_of_the_whole_or_across_it(
    question: str, whole: Literal["auto", "always", "never"], told: str
) -> None:
    graph = harbour()
    graph.says("The long pier leads out to sea from every town.", "Gull Pier")
    graph.says("A pier and a town were one thing to the dredgers.", "Osk", document="other")
    graph.group("root", "Of harbours. Of piers.", ["Gull Pier"])
    tables = {name: graph.tables()[name] for name in REPORTS}
    context = found(graph, question, whole=whole, **tables)
    assert context.query_type.startswith(told)
    assert bool(context.query_type) is bool(told)
    tables_of = [item.table for item in context]
    assert tables_of == sorted(tables_of, reverse=True), "points first"
    assert set(tables_of) == ({"points"} if told == OF_THE_WHOLE else {"points", "chunks"} if told else {"chunks"})


def test_without_reports_the_whole_is_searched_and_a_topic_is_found_across_documents() -> None:
    graph = harbour()
    assert {item.table for item in found(graph, WHOLE)} == {"chunks"}
    graph.says("The pier of every town is mended by the keepers.", document="other")
    graph.says("The town and its pier were one thing to the dredgers.", document="another")
    assert found(graph, BROAD).query_type == "asked across the documents: sentences of 2 of them"


def test_a_topic_of_which_nothing_is_said_is_searched_as_ever() -> None:
    question = "What do the guests say about volcanoes?"
    assert found(harbour(), question) == found(harbour(), question, whole="never")
    assert {item.table for item in found(harbour(), question)} == {"chunks"}


@dataclass
class Judge:
    """Whoever ranks: the other way round."""

    candidates: int = 20
    asked: list[str] = field(default_factory=list)

    def __call__(self, question: str, found: Context, by: str) -> Context:
        self.asked.append(question)
        return Context(found.evidence[::-1])


def test_what_follows_the_first_hop_is_judged_by_one_who_is_told_it() -> None:
    judge = Judge()
    context = found(harbour(), rerank=judge, reranker="model")
    usual = [text for text in texts(found(harbour())) if text != PIER]
    assert texts(context) == [PIER, *reversed(usual)]
    assert context.evidence[0].score == 2.0
    (said,) = judge.asked
    assert said.startswith(QUESTION)
    assert said.endswith(PIER)
    assert found(harbour(), rerank=(nobody := Judge())) == found(harbour())
    assert not nobody.asked


def test_two_processes_that_hash_otherwise_find_the_same() -> None:
    said = (
        "from tests.methods.test_braid import found, harbour; print([(e, e.feature_scores) for e in found(harbour())])"
    )
    one, other = (
        subprocess.run(
            [sys.executable, "-c", said],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert one == other
