"""two levels of keywords: low ones find entities, high ones relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kumihimo.core.context import Context
from kumihimo.core.errors import ItemFailed, UnparsableReply
from kumihimo.core.table import Table
from kumihimo.methods.light import light
from tests.methods.factories_search import (
    FakeVectorSearch,
    GraphBuilder,
    ScriptedLLM,
    keyword_search,
    rerank,
    tokenizer,
)

QUESTION = "How did trade in the strait change what Ruta Haverlock made?"
KEYS = {"high": ["trade by sea", "change of craft"], "low": ["Ruta Haverlock", "strait"]}


def strait_graph() -> GraphBuilder:
    """Cord – Ruta Haverlock – Bo Lind – eels – the inn; separately the mill and the lamp."""
    graph = GraphBuilder(strength=5.0)
    graph.add_chunk("Ruta Haverlock wound the cord.", "Ruta Haverlock", "the cord")
    graph.add_chunk("Ruta Haverlock owed Bo Lind a debt.", "Ruta Haverlock", "Bo Lind")
    graph.add_chunk("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.add_chunk("The inn served eels.", "eels", "the inn")
    graph.add_chunk("The mill burnt by a lamp.", "the mill", "the lamp")
    graph.add_chunk("The strait froze that year.")
    graph.set_keywords("Bo Lind", "eels", "trade by sea", "winter")
    graph.set_keywords("the mill", "the lamp", "fire")
    return graph


def search(
    keys: object = KEYS, graph: GraphBuilder | None = None, question: str = QUESTION, **settings: Any
) -> Context:
    llm = None if keys is None else ScriptedLLM(lambda _: keys)
    tables = {name: each for name, each in (graph or strait_graph()).tables().items() if name in TABLES}
    return light(
        question,
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
        **settings,
    )


TABLES = ("chunks", "mentions", "ties", "entities", "relations")


def texts(context: Context, table: str) -> list[str]:
    return [item.text for item in context if item.table == table]


def test_one_call_extracts_keywords() -> None:
    llm = ScriptedLLM(lambda _: KEYS)
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    light(
        QUESTION,
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
    )
    (text,) = llm.prompts
    assert text.endswith(f"<question>\n{QUESTION}\n</question>")


def test_the_model_sees_names_as_the_documents_write_them() -> None:
    llm = ScriptedLLM(lambda _: KEYS)
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    light(
        "縄を作ったのは誰ですか",
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
    )
    [prompt] = llm.prompts
    names = prompt.partition("<names>\n")[2].partition("\n</names>")[0].split("\n")
    assert set(names) <= {"Ruta Haverlock", "Bo Lind", "the inn", "eels", "the cord", "the mill", "the lamp"}
    assert 0 < len(names) <= 8
    many = GraphBuilder()
    many.add_chunk("Many.", *(f"Name {n}{'x' * 80}" for n in range(20)))
    tables = {name: each for name, each in many.tables().items() if name in TABLES}
    light(
        "Who?",
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
    )
    names = llm.prompts[1].partition("<names>\n")[2].partition("\n</names>")[0].split("\n")
    assert set(map(len, names)) == {60}


def test_names_far_from_the_question_are_not_shown() -> None:
    graph = GraphBuilder()
    graph.add_chunk("Osk.", "the harbour of Osk", "the old harbour", "Manhattan")
    llm = ScriptedLLM(lambda _: KEYS)
    tables = {name: each for name, each in graph.tables().items() if name in TABLES}
    light(
        "Who built the harbour of Osk?",
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
    )
    assert "the harbour of Osk" in llm.prompts[0]
    assert "Manhattan" not in llm.prompts[0]


def test_a_question_on_the_whole_needs_no_call() -> None:
    question = "What are the main themes of these articles?"
    llm = ScriptedLLM(lambda _: KEYS)
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    found = light(
        question,
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=llm,
    )
    assert not llm.prompts
    assert found == search(None, question=question)


def test_low_keywords_find_entities_and_their_relations() -> None:
    context = search({"high": ["fire"], "low": ["Ruta Haverlock"]}, mode="low", k=1)
    assert texts(context, "entities")[0] == "Ruta Haverlock."
    assert len(texts(context, "relations")) == 1, "its nearest relation"
    assert "The mill burnt by a lamp." not in texts(context, "relations"), "high keywords are not searched"


def test_high_keywords_find_relations_and_their_ends() -> None:
    keys = {"high": ["trade by sea"], "low": ["the mill"]}
    context = search(keys, mode="high", k=1)
    assert texts(context, "relations") == ["Bo Lind sold eels in winter."]
    assert len(texts(context, "entities")) == 1, "at most k"
    assert sorted(texts(search(keys, mode="high", k=2), "entities"))[:2] == ["Bo Lind.", "eels."]
    assert (
        texts(search(keys, question="What was sold?", mode="high", k=1), "chunks")[0] == "Bo Lind sold eels in winter."
    )


def test_hybrid_has_both_without_unrelated_chunks() -> None:
    context = search({"high": ["trade by sea"], "low": ["the cord"]}, k=1)
    assert texts(context, "entities")[0] == "the cord."
    assert "Bo Lind sold eels in winter." in texts(context, "relations")
    assert "The strait froze that year." not in texts(context, "chunks")


def test_mix_adds_plain_hits() -> None:
    assert "The strait froze that year." in texts(search(mode="mix"), "chunks")


def test_without_source_only_graph_rows() -> None:
    assert {item.table for item in search(source=False)} == {"entities", "relations"}


def test_neighbours_limits_expansion_steps() -> None:
    graph = GraphBuilder(strength=5.0)
    for one, other in (("ash", "birch"), ("birch", "cedar"), ("cedar", "date")):
        graph.add_chunk(f"{one} {other}", one, other)

    def reachable(steps: int) -> tuple[set[str], set[str]]:
        context = search({"high": [], "low": ["ash"]}, graph, question="?", mode="low", neighbours=steps, k=1)
        return set(texts(context, "entities")), set(texts(context, "relations"))

    assert reachable(0) == ({"ash."}, set())
    assert reachable(1)[1] == {"ash birch"}
    assert reachable(2)[0] >= reachable(1)[0] > reachable(0)[0]


@dataclass
class RecordingSearch(FakeVectorSearch):
    """A vector search that records its queries."""

    searches: list[tuple[str, list[str]]] = field(default_factory=list)

    def search_many(self, table: Table[Any], texts: Sequence[str], **options: Any) -> list[Context]:
        self.searches.append((table.name, list(texts)))
        return super().search_many(table, texts, **options)


def test_keywords_are_searched_separately() -> None:
    near = RecordingSearch()
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    light(
        QUESTION,
        **tables,
        keyword_search=keyword_search,
        vector_search=near,
        tokenizer=tokenizer,
        rerank=rerank,
        llm=ScriptedLLM(lambda _: KEYS),
        neighbours=0,
    )
    assert near.searches == [("entities", KEYS["low"]), ("relations", KEYS["high"])]


@pytest.mark.parametrize("keys", [{"high": [], "low": []}, {"high": ["  "], "low": [""]}])
def test_question_replaces_missing_keywords(keys: object) -> None:
    assert search(keys) == search({"high": [QUESTION], "low": [QUESTION]})


def failing_llm(error: ItemFailed) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_unparsable_reply_is_handled_but_server_failure_is_raised(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    options: Any = {
        **tables,
        "keyword_search": keyword_search,
        "vector_search": FakeVectorSearch(),
        "tokenizer": tokenizer,
        "rerank": rerank,
    }
    assert light(QUESTION, **options, llm=failing_llm(UnparsableReply("no JSON"))) == search({"high": [], "low": []})
    assert "light searches for the question itself: no JSON" in caplog.text
    with pytest.raises(ItemFailed, match="500"):
        light(QUESTION, **options, llm=failing_llm(ItemFailed("500")))


def test_repeated_name_is_one_keyword() -> None:
    near = RecordingSearch()
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    options: Any = {
        "keyword_search": keyword_search,
        "vector_search": near,
        "tokenizer": tokenizer,
        "rerank": rerank,
        "llm": None,
        "neighbours": 0,
    }
    light("Did Bo Lind owe what Bo Lind sold?", **tables, **options)
    assert near.searches[0] == ("entities", ["Bo Lind"])


def test_without_model_names_are_low_and_other_words_high() -> None:
    question = "What did Ruta Haverlock owe in winter?"
    assert search(None, question=question) == search(
        {"high": ["owe winter"], "low": ["Ruta Haverlock"]}, question=question
    )
    question = "what was sold in winter?"
    assert search(None, question=question) == search({"high": ["sold winter"], "low": [question]}, question=question)


def test_rule_based_relations_are_found_by_their_ends() -> None:
    graph = GraphBuilder()
    graph.add_chunk("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.add_chunk("Bo Lind met Ruta Haverlock.", "Bo Lind", "Ruta Haverlock")
    context = search({"high": ["eels", "winter"], "low": []}, graph, "What was sold?", mode="high")
    assert texts(context, "relations")[0] == "Bo Lind sold eels in winter."
    assert texts(context, "chunks")[0] == "Bo Lind sold eels in winter."


def test_relations_rank_by_relevance_not_weight() -> None:
    graph = GraphBuilder(strength=5.0)
    for n in range(30):
        graph.add_chunk(f"The hub met person {n}.", "The Hub", f"Person {n}")
        graph.add_chunk(f"The hub met person {n} again.", "The Hub", f"Person {n}")
    graph.add_chunk("The hub lost money at sea.", "The Hub", "money")
    context = search({"high": ["money lost"], "low": ["The Hub"]}, graph)
    assert texts(context, "relations")[0] == "The hub lost money at sea."


def test_chunks_with_more_support_come_first() -> None:
    graph = GraphBuilder(strength=5.0)
    graph.add_chunk("A bell rang loud today.", "bell")
    graph.add_chunk("A bell rang; tower, rope.", "bell", "tower", "rope")
    context = search({"high": ["sound"], "low": ["bell", "tower", "rope"]}, graph, question="rang?")
    assert texts(context, "chunks")[0] == "A bell rang; tower, rope."


def test_each_part_fits_its_budget() -> None:
    context = search(entity_budget=4, relation_budget=11, text_budget=6)
    sizes = {table: sum(item.tokens(tokenizer) for item in context if item.table == table) for table in TABLES}
    assert 0 < sizes["entities"] <= 4
    assert 0 < sizes["relations"] <= 11
    assert 0 < sizes["chunks"] <= 6


def test_scores_are_comparable_and_deterministic() -> None:
    context = search()
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert context == search()


def test_mentions_are_counted_without_reading_rows() -> None:
    tables = {name: each for name, each in strait_graph().tables().items() if name in TABLES}
    light(
        QUESTION,
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        llm=None,
    )
    assert tables["mentions"].rows.read == tables["ties"].rows.read == 0


def test_question_outside_the_graph_gets_plain_hits() -> None:
    context = search({"high": ["fire"], "low": ["the mill"]}, question="Which year froze?", k=1)
    assert texts(context, "chunks")[0] == "The strait froze that year."


def test_empty_graph_gives_plain_hits() -> None:
    graph = GraphBuilder()
    graph.add_chunk("The tide turns at nine.")
    assert texts(search(None, graph, "When does the tide turn?"), "chunks") == ["The tide turns at nine."]
    assert len(search(None, GraphBuilder(), "When does the tide turn?")) == 0
