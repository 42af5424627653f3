"""question in two hops -> both passages; and the behaviour on any question and index."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import SettingsError
from kumihimo.methods.braid import braid, ppr, published_weights, weights_from_settings
from kumihimo.methods.braid.features import sum_features
from kumihimo.methods.braid.two_pass import FEATURES, Pass, rank_candidates, run_first_pass, run_second_pass
from kumihimo.text.question import ParsedQuestion
from tests.factories_tables import hide_rows
from tests.methods.factories_search import FakeKeywordSearch, FakeVectorSearch, GraphBuilder, rerank, tokenizer

QUESTION = "In which harbour town was the builder of Gull Pier born?"
PIER = "Gull Pier was built by Ruta Haverlock."
BORN = "Ruta Haverlock was born in Corvale."
DISTRACTORS = ["A harbour town is a town.", "Tess Moll was born in a town.", "The pier of Osk is old."]


def harbour_graph() -> GraphBuilder:
    """Distractors share at least as many words with the question as the second hop."""
    graph = GraphBuilder()
    graph.add_chunk(DISTRACTORS[0])
    graph.add_chunk(PIER, "Gull Pier", "Ruta Haverlock", title="Gull Pier")
    graph.add_chunk(DISTRACTORS[1], "Tess Moll", title="Tess Moll")
    graph.add_chunk(BORN, "Ruta Haverlock", "Corvale", title="Ruta Haverlock")
    graph.add_chunk(DISTRACTORS[2], "Osk", title="Osk")
    return graph


def search(graph: GraphBuilder, question: str = QUESTION, passes: Any = None, **settings: Any) -> Context:
    tables: dict[str, Any] = {name: graph.tables(every=True)[name] for name in SEARCHED}
    if passes:
        tables = {name: hide_rows(each, passes) for name, each in tables.items()}
    world: dict[str, Any] = {
        "keyword_search": FakeKeywordSearch(),
        "vector_search": FakeVectorSearch(),
        "tokenizer": tokenizer,
        "rerank": rerank,
    }
    return braid(ParsedQuestion(question), **{**dict.fromkeys(REPORTS), **tables, **world, **settings})


SEARCHED = ("chunks", "mentions", "descriptions")
REPORTS = ("members", "communities", "reports")


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def untitled(*chunk_texts: str) -> GraphBuilder:
    """Each text is a document without a title; all name the same entity."""
    graph = GraphBuilder()
    for i, text in enumerate(chunk_texts):
        graph.add_chunk(text, "Ruta Haverlock", document=str(i))
    return graph


def test_second_hop_is_scored_relative_to_the_first() -> None:
    context = search(harbour_graph())
    assert set(texts(context)[:2]) == {PIER, BORN}
    assert [item.score for item in context] == sorted((item.score for item in context), reverse=True)
    assert len(context) == 5
    without = GraphBuilder()
    for text in (PIER, BORN, *DISTRACTORS):
        without.add_chunk(text)
    assert BORN not in texts(search(without))[:2], "no entity links it to the first hop"


@pytest.mark.parametrize("graph", [harbour_graph(), untitled(PIER, BORN, *DISTRACTORS)])
def test_scores_are_probabilities(graph: GraphBuilder) -> None:
    context = search(graph)
    assert sum(item.score for item in context) == pytest.approx(1)
    assert all(0 < item.score < 1 for item in context)
    first, second = (item.score for item in search(graph, k=2))
    assert [first, second] == [item.score for item in context][:2], "among all candidates, not among the results"


def test_evidence_has_feature_scores_and_link_to_first_hop() -> None:
    graph = harbour_graph()
    one, two = search(graph).evidence[:2]
    assert two.via == (one.record.id, graph.entity("Ruta Haverlock"))
    scores = dict(two.feature_scores)
    assert scores["bridges"] > 0
    assert scores["plain"] > 0
    assert scores.keys() <= set(FEATURES["second"])
    assert [score for _, score in two.feature_scores] == sorted(scores.values(), reverse=True)
    assert search(graph).evidence[-1].via == ()


def test_untitled_documents_are_ranked_without_the_graph() -> None:
    context = search(untitled(PIER, BORN, *DISTRACTORS))
    assert texts(context)[0] == PIER, "has the rare words of the question"
    assert all(item.via == () for item in context)
    assert {name for item in context for name, _ in item.feature_scores} <= set(FEATURES["plain"])
    assert context.evidence[0].feature_scores


def test_titles_count_only_if_the_text_names_them() -> None:
    def graph(*titles: str) -> GraphBuilder:
        built = GraphBuilder()
        for text, title in zip((PIER, BORN, *DISTRACTORS), titles, strict=True):
            built.add_chunk(text, "Ruta Haverlock", title=title)
        return built

    labels = [f"Label {letter}" for letter in "ABCDE"]
    assert any(item.via for item in search(graph("Gull Pier", "Ruta Haverlock", *labels[2:]))), "two of five"
    assert not any(item.via for item in search(graph("Gull Pier", *labels[1:]))), "one of five"


@pytest.mark.parametrize("question", ["Who painted the lighthouse?", "painted lighthouse", "Lighthouse!"])
def test_first_passage_has_something_in_common_with_the_question(question: str) -> None:
    match = "The lighthouse was painted by sailors."
    graph = untitled(*DISTRACTORS, PIER, BORN, match, "Bread is baked at dawn.", "Ruta Haverlock sang.")
    context = search(graph, question)
    assert texts(context)[0] == match
    assert dict(context.evidence[0].feature_scores)["words"] > 0


def passes_of(graph: GraphBuilder, question: str = QUESTION, **settings: Any) -> Pass:
    chunks, mentions, descriptions = (graph.tables(every=True)[name] for name in SEARCHED)
    searches = settings.pop("keyword_search", FakeKeywordSearch()), settings.pop("vector_search", FakeVectorSearch())
    return run_first_pass(ParsedQuestion(question), chunks, mentions, descriptions, *searches, **settings)


def test_both_passes() -> None:
    first_pass = passes_of(harbour_graph())
    assert list(first_pass.candidates.chunks) == sorted(first_pass.candidates.chunks)
    weights = published_weights()
    assert {name for values in first_pass.features(weights).values() for name in values} >= set(FEATURES["first"])
    assert len(first_pass.anchors) == 3
    assert all(set(values) == set(FEATURES["plain"]) for values in first_pass.candidates.plain.values())
    second_pass = run_second_pass(first_pass, weights)
    assert {name for values in second_pass.features(weights).values() for name in values} >= set(FEATURES["second"])
    assert len(second_pass.anchors) == 2
    assert max(values["before"] for values in second_pass.walk.values()) == 1.0
    assert max(values["plain"] for values in second_pass.features(weights).values()) == 1.0


def test_the_first_hop_leads_and_the_plain_score_orders_passages_with_one_title() -> None:
    graph = harbour_graph()
    for text in ("Gull Pier is old.", "Gull Pier: who designed it was born in a town.", "Gull Pier is long."):
        graph.add_chunk(text, "Gull Pier", title="Gull Pier")
    last_pass, weights = run_second_pass(passes_of(graph), published_weights()), published_weights()
    ranked = rank_candidates(last_pass, last_pass.features(weights), weights)
    titles = {item.record.id: getattr(item.record, "title", "") for item in ranked}
    leader = last_pass.candidates.chunks[last_pass.anchors[0]]
    plain = sum_features(last_pass.candidates.plain, weights["plain"])
    assert titles[ranked.evidence[0].record.id] == leader.title
    by_title: dict[str, list[float]] = {}
    for item in ranked:
        by_title.setdefault(titles[item.record.id], []).append(plain[item.record.id])
    assert max(map(len, by_title.values())) > 2
    assert all(scores == sorted(scores, reverse=True) for scores in by_title.values())
    assert [item.score for item in ranked] == sorted((item.score for item in ranked), reverse=True)
    assert sum(item.score for item in ranked) == pytest.approx(1)


class NearestOnly(FakeVectorSearch):
    """Vector search that returns one row, unless it is asked for certain rows."""

    def __call__(self, *args: Any, k: int, candidate_ids: Any = None) -> Context:
        return super().__call__(*args, k=1 if candidate_ids is None else k, candidate_ids=candidate_ids)


def test_meaning_is_compared_with_all_candidates_of_both_searches() -> None:
    first_pass = passes_of(harbour_graph(), vector_search=NearestOnly())
    meanings = [values["meaning"] for values in first_pass.candidates.plain.values()]
    assert len(meanings) == 5
    assert (min(meanings), max(meanings)) == (0.0, 1.0)
    assert 0 < sorted(meanings)[2] < 1


def test_second_pass_adds_graph_neighbours() -> None:
    first_pass = passes_of(harbour_graph(), pool=1)
    every = first_pass.candidates
    pier = next(id for id, chunk in every.chunks.items() if chunk.text == PIER)
    for name in ("chunks", "plain", "matched_words"):
        object.__setattr__(every, name, {pier: getattr(every, name)[pier]})
    object.__setattr__(first_pass, "walk", {pier: first_pass.walk[pier]})
    second_pass = run_second_pass(first_pass, published_weights(), anchors=1)
    assert sorted(chunk.text for chunk in second_pass.candidates.chunks.values()) == [PIER, BORN]
    assert all(set(values) == set(FEATURES["plain"]) for values in second_pass.candidates.plain.values())


def test_hidden_rows_are_never_used() -> None:
    graph = harbour_graph()
    hidden = next(id for id, chunk in graph.rows["chunks"].items() if chunk.text == PIER)
    context = search(graph, passes=lambda id: not id.startswith(hidden))
    assert PIER not in texts(context)
    assert not any(hidden in item.via for item in context)
    assert len(context) == 4


def test_hubs_link_no_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ppr, "HUB_MENTIONS", 1)
    context = search(harbour_graph())
    assert all(item.via == () for item in context)


@pytest.mark.parametrize("question", ["zyx", "What is IT?", "In which harbour town?", "海"])
def test_questions_without_entities_or_words(question: str) -> None:
    assert len(search(harbour_graph(), question)) == 5, "vector search ranks all chunks"


@pytest.mark.parametrize("question", ["the of and is it what", "Who?", "?!", "これは何ですか"])
def test_questions_without_content_words(question: str) -> None:
    graph = harbour_graph()
    graph.add_community("root", "Of harbours. Of piers.", ["Gull Pier"])
    tables = {name: graph.tables()[name] for name in REPORTS}
    context = search(graph, question, **tables)
    assert (len(context), context.query_type) == (0, "question without content words: name what it is about")
    assert len(search(graph, question, whole="never", **tables)) == 5, "vector search ranks all chunks"
    assert search(graph, question, whole="always", **tables).query_type == CORPUS_LEVEL


def test_small_indexes() -> None:
    assert search(GraphBuilder()) == Context()
    one = GraphBuilder()
    one.add_chunk(PIER, "Gull Pier")
    assert texts(search(one)) == [PIER]
    assert texts(search(one, "Who was it then?", whole="never")) == [PIER]
    assert search(one, vector_search=_no_hits, keyword_search=NoHits()) == Context()


class NoHits(FakeKeywordSearch):
    """Keyword search that finds nothing."""

    def __call__(self, *_: object, **__: object) -> Context:
        return Context()


def _no_hits(*_: object, **__: object) -> Context:
    return Context()


def test_pool_may_come_from_one_search() -> None:
    expected = set(texts(search(harbour_graph())))
    assert set(texts(search(harbour_graph(), keyword_search=NoHits()))) == expected
    assert PIER in texts(search(harbour_graph(), vector_search=_no_hits))


def test_japanese() -> None:
    graph = GraphBuilder()
    graph.add_chunk("町の塔は古い。")
    graph.add_chunk("潮見塔は鴨居蓮が建てた。", "潮見塔", "鴨居蓮", title="潮見塔")
    graph.add_chunk("山田花子は町で生まれた。", "山田花子", title="山田花子")
    graph.add_chunk("鴨居蓮は霧島町で生まれた。", "鴨居蓮", "霧島町", title="鴨居蓮")
    context = search(graph, "潮見塔を建てた人はどこで生まれたか。")
    assert set(texts(context)[:2]) == {"潮見塔は鴨居蓮が建てた。", "鴨居蓮は霧島町で生まれた。"}
    assert {item.via[1] for item in context.evidence[:2]} == {graph.entity("鴨居蓮")}


def test_k_and_budget_and_no_anchors() -> None:
    assert len(search(harbour_graph(), k=2)) == 2
    assert len(search(harbour_graph(), budget=8)) == 1, "the first chunk has seven tokens"
    assert len(search(harbour_graph(), anchors=0)) == 5
    assert len(search(harbour_graph(), pool=1, anchors=1)) < 5


def test_weights_from_settings() -> None:
    only = {name: tuple(float(each == one) for each in FEATURES[name]) for name, one in ONLY.items()}
    context = search(harbour_graph(), plain_weights=only["plain"], second_weights=only["second"])
    assert set(texts(context)[3:]) == {BORN, DISTRACTORS[2]}, "ranked by the number of common words"
    assert [name for item in context for name, _ in item.feature_scores] == ["plain"] * len(context)
    flat = search(untitled(PIER, *DISTRACTORS), plain_weights=only["plain"])
    assert texts(flat)[3] == DISTRACTORS[2]
    assert {name for item in flat for name, _ in item.feature_scores} == {"words"}
    own = weights_from_settings({"plain": (), "second": only["second"]})
    assert own == {"second": dict(zip(FEATURES["second"], only["second"], strict=True))}
    message = r"^braid\.first_weights has 2 numbers and needs 7: plain, .*an empty list uses the published ones"
    with pytest.raises(SettingsError, match=message):
        search(harbour_graph(), first_weights=(1.0, 2.0))


ONLY = {"plain": "words", "second": "plain"}


def test_published_weights_cover_all_features() -> None:
    weights = published_weights()
    assert {name: tuple(weights[name]) for name in weights} == FEATURES
    weights["first"] = {}  # type: ignore[index]
    assert published_weights()["first"], "callers get a copy"


CORPUS_QUESTION, BROAD_QUESTION = "What are the main themes?", "What do the guests say about piers and towns?"
SPECIFIC = "Is the pier of the town old?"
CORPUS_LEVEL, BROAD_ANSWER = "corpus-level question: reports of 1 communities", "broad question: sentences from "


@pytest.mark.parametrize(
    ("question", "whole", "query_type"),
    [
        (CORPUS_QUESTION, "auto", CORPUS_LEVEL),
        (CORPUS_QUESTION, "always", CORPUS_LEVEL),
        (CORPUS_QUESTION, "never", ""),
        (BROAD_QUESTION, "auto", BROAD_ANSWER),
        (BROAD_QUESTION, "always", BROAD_ANSWER),
        (BROAD_QUESTION, "never", ""),
        (SPECIFIC, "auto", ""),
        (SPECIFIC, "always", BROAD_ANSWER),
    ],
)
def test_corpus_level_and_broad_questions(
    question: str, whole: Literal["auto", "always", "never"], query_type: str
) -> None:
    graph = harbour_graph()
    graph.add_chunk("The long pier leads out to sea from every town.", "Gull Pier")
    graph.add_chunk("A pier and a town were one thing to the dredgers.", "Osk", document="other")
    graph.add_community("root", "Of harbours. Of piers.", ["Gull Pier"])
    tables = {name: graph.tables()[name] for name in REPORTS}
    context = search(graph, question, whole=whole, **tables)
    assert context.query_type.startswith(query_type)
    assert bool(context.query_type) is bool(query_type)
    tables_of = [item.table for item in context]
    assert tables_of == sorted(tables_of, reverse=True), "points come first"
    assert set(tables_of) == (
        {"points"} if query_type == CORPUS_LEVEL else {"points", "chunks"} if query_type else {"chunks"}
    )


def test_the_largest_communities_answer_a_corpus_level_question(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = harbour_graph()
    for id, text, size in (("a", "Of old harbours.", 5), ("b", "Of long piers.", 7), ("c", "Of tall towns.", 6)):
        graph.add_community(id, text, ["Osk"])
        graph.rows["reports"][id] = replace(graph.rows["reports"][id], elements=size)
    graph.add_community("part", "Of a part.", ["Osk"], parent="b", level=1)
    graph.rows["reports"]["part"] = replace(graph.rows["reports"]["part"], elements=9)
    tables = {name: graph.tables()[name] for name in REPORTS}
    assert len(search(graph, CORPUS_QUESTION, **tables)) == 3
    monkeypatch.setattr(sys.modules[braid.__module__], "_MAX_COMMUNITIES", 2)
    assert texts(search(graph, CORPUS_QUESTION, **tables)) == ["Of long piers.", "Of tall towns."]


def test_without_reports_corpus_level_questions_are_searched() -> None:
    graph = harbour_graph()
    assert {item.table for item in search(graph, CORPUS_QUESTION)} == {"chunks"}
    graph.add_chunk("The pier of every town is mended by the keepers.", document="other")
    graph.add_chunk("The town and its pier were one thing to the dredgers.", document="another")
    assert search(graph, BROAD_QUESTION).query_type == "broad question: sentences from 2 documents"


def test_broad_question_on_unknown_topic_is_searched_normally() -> None:
    question = "What do the guests say about volcanoes?"
    assert search(harbour_graph(), question) == search(harbour_graph(), question, whole="never")
    assert {item.table for item in search(harbour_graph(), question)} == {"chunks"}


@dataclass
class Judge:
    """Reranker that reverses the order."""

    candidates: int = 20
    questions: list[str] = field(default_factory=list)

    def __call__(self, question: str, context: Context, reranker: str) -> Context:
        self.questions.append(question)
        return Context(context.evidence[::-1])


def test_reranker_sees_the_first_hop_in_its_query() -> None:
    judge = Judge()
    context = search(harbour_graph(), rerank=judge, reranker="model")
    usual = [text for text in texts(search(harbour_graph())) if text != PIER]
    assert texts(context) == [PIER, *reversed(usual)]
    assert context.evidence[0].score == 2.0
    (query,) = judge.questions
    assert query.startswith(QUESTION)
    assert query.endswith(PIER)
    assert search(harbour_graph(), rerank=(unused := Judge())) == search(harbour_graph())
    assert not unused.questions


def test_results_do_not_depend_on_hash_seed() -> None:
    program = (
        "from tests.methods.test_braid import harbour_graph, search; "
        "print([(e, e.feature_scores) for e in search(harbour_graph())])"
    )
    one, other = (
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert one == other
