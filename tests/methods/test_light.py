"""Keywords of two levels: low ones find entities, high ones relations, each by a search of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import ItemFailed, SettingsError, UnparsableReply
from kumihimo.core.table import Table
from kumihimo.methods.light import light
from tests.methods.factories_search import Graph, Nearby, Scripted, match, rank, ruler

QUESTION = "How did trade in the strait change what Ruta Haverlock made?"
KEYS = {"high": ["trade by sea", "change of craft"], "low": ["Ruta Haverlock", "strait"]}


def strait() -> Graph:
    """Cord – Ruta Haverlock – Bo Lind – eels – the inn, and apart from them the mill and the lamp."""
    graph = Graph(strength=5.0)
    graph.says("Ruta Haverlock wound the cord.", "Ruta Haverlock", "the cord")
    graph.says("Ruta Haverlock owed Bo Lind a debt.", "Ruta Haverlock", "Bo Lind")
    graph.says("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.says("The inn served eels.", "eels", "the inn")
    graph.says("The mill burnt by a lamp.", "the mill", "the lamp")
    graph.says("The strait froze that year.")
    graph.themed("Bo Lind", "eels", "trade by sea", "winter")
    graph.themed("the mill", "the lamp", "fire")
    return graph


def found(keys: object = KEYS, graph: Graph | None = None, question: str = QUESTION, **settings: Any) -> Context:
    ask = None if keys is None else Scripted(lambda _: keys)
    tables = {name: each for name, each in (graph or strait()).tables().items() if name in TABLES}
    return light(
        question,
        **tables,
        keyword_search=match,
        vector_search=Nearby(),
        tokenizer=ruler,
        rerank=rank,
        llm=ask,
        **settings,
    )


TABLES = ("chunks", "mentions", "ties", "entities", "relations")


def texts(context: Context, table: str) -> list[str]:
    return [item.text for item in context if item.table == table]


def test_one_call_and_what_it_says() -> None:
    ask = Scripted(lambda _: KEYS)
    tables = {name: each for name, each in strait().tables().items() if name in TABLES}
    light(QUESTION, **tables, keyword_search=match, vector_search=Nearby(), tokenizer=ruler, rerank=rank, llm=ask)
    (told,) = ask.asked
    assert told.endswith(QUESTION)


def test_low_keywords_find_entities_and_what_ties_them() -> None:
    context = found({"high": ["fire"], "low": ["Ruta Haverlock"]}, mode="low", k=1)
    assert texts(context, "entities")[0] == "Ruta Haverlock."
    assert len(texts(context, "relations")) == 1, "the one of its relations that is nearest"
    assert "The mill burnt by a lamp." not in texts(context, "relations"), "high keywords are not searched"


def test_high_keywords_find_relations_and_their_ends() -> None:
    keys = {"high": ["trade by sea"], "low": ["the mill"]}
    context = found(keys, mode="high", k=1)
    assert texts(context, "relations") == ["Bo Lind sold eels in winter."]
    assert len(texts(context, "entities")) == 1, "no more than k of them"
    assert sorted(texts(found(keys, mode="high", k=2), "entities"))[:2] == ["Bo Lind.", "eels."]
    assert (
        texts(found(keys, question="What was sold?", mode="high", k=1), "chunks")[0] == "Bo Lind sold eels in winter."
    )


def test_a_hybrid_has_both_and_chunks_of_neither_are_left_out() -> None:
    context = found({"high": ["trade by sea"], "low": ["the cord"]}, k=1)
    assert texts(context, "entities")[0] == "the cord."
    assert "Bo Lind sold eels in winter." in texts(context, "relations")
    assert "The strait froze that year." not in texts(context, "chunks")


def test_a_mix_adds_what_plain_search_finds() -> None:
    assert "The strait froze that year." in texts(found(mode="mix"), "chunks")


def test_without_the_source_the_graph_alone_speaks() -> None:
    assert {item.table for item in found(source=False)} == {"entities", "relations"}


def test_neighbours_are_so_many_steps_away() -> None:
    graph = Graph(strength=5.0)
    for one, other in (("ash", "birch"), ("birch", "cedar"), ("cedar", "date")):
        graph.says(f"{one} {other}", one, other)

    def reached(steps: int) -> tuple[set[str], set[str]]:
        context = found({"high": [], "low": ["ash"]}, graph, question="?", mode="low", neighbours=steps, k=1)
        return set(texts(context, "entities")), set(texts(context, "relations"))

    assert reached(0) == ({"ash."}, set())
    assert reached(1)[1] == {"ash birch"}
    assert reached(2)[0] >= reached(1)[0] > reached(0)[0]


@dataclass
class Noted(Nearby):
    """It notes the texts that are searched with."""

    searched: list[tuple[str, list[str]]] = field(default_factory=list)

    def search_many(self, table: Table[Any], texts: Sequence[str], **options: Any) -> list[Context]:
        self.searched.append((table.name, list(texts)))
        return super().search_many(table, texts, **options)


def test_there_are_no_steps_backwards() -> None:
    with pytest.raises(SettingsError, match=r"light\.neighbours is -1"):
        found(neighbours=-1)


def test_each_keyword_is_searched_by_itself() -> None:
    near = Noted()
    tables = {name: each for name, each in strait().tables().items() if name in TABLES}
    light(
        QUESTION,
        **tables,
        keyword_search=match,
        vector_search=near,
        tokenizer=ruler,
        rerank=rank,
        llm=Scripted(lambda _: KEYS),
        neighbours=0,
    )
    assert near.searched == [("entities", KEYS["low"]), ("relations", KEYS["high"])]


@pytest.mark.parametrize("said", [{"high": [], "low": []}, {"high": ["  "], "low": [""]}])
def test_where_there_are_no_keywords_the_question_is_one(said: object) -> None:
    assert found(said) == found({"high": [QUESTION], "low": [QUESTION]})


def failing(error: ItemFailed) -> Any:
    def ask(*_: Any, **__: Any) -> Any:
        raise error

    return ask


def test_a_reply_that_cannot_be_read_is_no_refusal_and_a_server_that_fails_is_not_hidden(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = {name: each for name, each in strait().tables().items() if name in TABLES}
    options: Any = {**tables, "keyword_search": match, "vector_search": Nearby(), "tokenizer": ruler, "rerank": rank}
    assert light(QUESTION, **options, llm=failing(UnparsableReply("no JSON"))) == found({"high": [], "low": []})
    assert "light searches for the question itself: no JSON" in caplog.text
    with pytest.raises(ItemFailed, match="500"):
        light(QUESTION, **options, llm=failing(ItemFailed("500")))


def test_a_name_that_stands_in_the_question_twice_is_one_keyword() -> None:
    near = Noted()
    tables = {name: each for name, each in strait().tables().items() if name in TABLES}
    options: Any = {
        "keyword_search": match,
        "vector_search": near,
        "tokenizer": ruler,
        "rerank": rank,
        "llm": None,
        "neighbours": 0,
    }
    light("Did Bo Lind owe what Bo Lind sold?", **tables, **options)
    assert near.searched[0] == ("entities", ["Bo Lind"])


def test_without_a_model_names_are_low_and_other_words_high() -> None:
    question = "What did Ruta Haverlock owe in winter?"
    assert found(None, question=question) == found(
        {"high": ["owe winter"], "low": ["Ruta Haverlock"]}, question=question
    )
    question = "what was sold in winter?"
    assert found(None, question=question) == found({"high": ["sold winter"], "low": [question]}, question=question)


def test_relations_by_rule_are_found_by_what_they_tie() -> None:
    graph = Graph()
    graph.says("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.says("Bo Lind met Ruta Haverlock.", "Bo Lind", "Ruta Haverlock")
    context = found({"high": ["eels", "winter"], "low": []}, graph, "What was sold?", mode="high")
    assert texts(context, "relations")[0] == "Bo Lind sold eels in winter."
    assert texts(context, "chunks")[0] == "Bo Lind sold eels in winter."


def test_relations_stand_by_relevance_not_by_weight() -> None:
    graph = Graph(strength=5.0)
    for n in range(30):
        graph.says(f"The hub met person {n}.", "The Hub", f"Person {n}")
        graph.says(f"The hub met person {n} again.", "The Hub", f"Person {n}")
    graph.says("The hub lost money at sea.", "The Hub", "money")
    context = found({"high": ["money lost"], "low": ["The Hub"]}, graph)
    assert texts(context, "relations")[0] == "The hub lost money at sea."


def test_what_speaks_of_more_of_what_was_found_comes_first() -> None:
    graph = Graph(strength=5.0)
    graph.says("A bell rang loud today.", "bell")
    graph.says("A bell rang; tower, rope.", "bell", "tower", "rope")
    context = found({"high": ["sound"], "low": ["bell", "tower", "rope"]}, graph, question="rang?")
    assert texts(context, "chunks")[0] == "A bell rang; tower, rope."


def test_each_part_keeps_its_budget() -> None:
    context = found(entity_budget=4, relation_budget=11, text_budget=6)
    sizes = {table: sum(item.tokens(ruler) for item in context if item.table == table) for table in TABLES}
    assert 0 < sizes["entities"] <= 4
    assert 0 < sizes["relations"] <= 11
    assert 0 < sizes["chunks"] <= 6


def test_scores_compare_and_the_same_comes_every_time() -> None:
    context = found()
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert context == found()


def test_mentions_are_not_read_only_counted() -> None:
    tables = {name: each for name, each in strait().tables().items() if name in TABLES}
    light(QUESTION, **tables, keyword_search=match, vector_search=Nearby(), tokenizer=ruler, rerank=rank, llm=None)
    assert tables["mentions"].rows.read == tables["ties"].rows.read == 0


def test_a_question_whose_words_the_graph_does_not_reach_is_searched_plainly() -> None:
    context = found({"high": ["fire"], "low": ["the mill"]}, question="Which year froze?", k=1)
    assert texts(context, "chunks")[0] == "The strait froze that year."


def test_an_empty_graph_leaves_plain_search() -> None:
    graph = Graph()
    graph.says("The tide turns at nine.")
    assert texts(found(None, graph, "When does the tide turn?"), "chunks") == ["The tide turns at nine."]
    assert len(found(None, Graph(), "When does the tide turn?")) == 0
