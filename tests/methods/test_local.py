"""entities near a question, and their context in one budget."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk, Entity, Relation
from kumihimo.methods.local import local
from kumihimo.methods.shared.ranking import link_entities, share_budget
from kumihimo.text.name_keys import entity_id, name_key
from tests.factories_tables import hide_rows
from tests.methods.factories_search import (
    FakeVectorSearch,
    GraphBuilder,
    chunk,
    keyword_search,
    rerank,
    table,
    tokenizer,
)


def harbour_graph() -> GraphBuilder:
    graph = GraphBuilder()
    graph.add_chunk("Ruta Haverlock wound the cord for Bo Lind.", "Ruta Haverlock", "Bo Lind", "the cord")
    graph.add_chunk("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.add_chunk("The mill burnt in spring.", "the mill")
    graph.add_claim("Ruta Haverlock is said to have left.", "Ruta Haverlock")
    graph.add_community("root", "Of the harbour and the mill.", [], level=0)
    graph.add_community("leaf", "Of a cord.", ["Ruta Haverlock", "Bo Lind", "the cord"], "root", level=1)
    graph.add_community("other", "Of a mill.", ["the mill"], "root", level=1)
    return graph


def search(graph: GraphBuilder, question: str, near: FakeVectorSearch | None = None, **settings: Any) -> Context:
    return local(
        question,
        **graph.tables(),
        keyword_search=keyword_search,
        vector_search=near or FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        **settings,
    )


def texts(context: Context, table: str) -> list[str]:
    return [item.text for item in context if item.table == table]


def test_named_entities_bring_their_context() -> None:
    context = search(harbour_graph(), "What did Ruta Haverlock wind for Bo Lind?", k=2)
    assert texts(context, "entities") == ["Bo Lind.", "Ruta Haverlock."]
    assert texts(context, "relations")[0] == "Ruta Haverlock wound the cord for Bo Lind."  # between both entities
    assert texts(context, "claims") == ["Ruta Haverlock is said to have left."]
    assert texts(context, "reports")[0] == "Of a cord."  # as many entities as the root, but smaller
    assert texts(context, "chunks")[0] == "Ruta Haverlock wound the cord for Bo Lind."
    assert not texts(context, "mentions")


def test_chunks_come_first_among_equal_scores() -> None:
    context = search(harbour_graph(), "What did Ruta Haverlock wind for Bo Lind?")
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert [item.table for item in context if item.score == 1][:2] == ["chunks", "entities"]


def test_hub_brings_a_limited_number_of_relations() -> None:
    graph = GraphBuilder(strength=5.0)
    for n in range(300):
        graph.add_chunk(f"The hub met person {n}.", "The Hub", f"Person {n}")
    graph.add_chunk("Ruta Haverlock wound cord.", "Ruta Haverlock", "Cord")
    near = FakeVectorSearch()
    context = search(graph, "Who are The Hub and Ruta Haverlock?", near, k=2, edges=5)
    relations = texts(context, "relations")
    assert sum("hub" in text for text in relations) == 5
    assert "Ruta Haverlock wound cord." in relations
    tables = graph.tables()
    local(
        "The Hub?",
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
        k=1,
        edges=5,
    )
    assert tables["mentions"].rows.read == 0  # only ids


def test_unused_budget_goes_to_other_parts() -> None:
    def part(name: str, *sizes: int) -> Context:
        rows = {f"{name}{n}.00000": chunk(" ".join(["word"] * size)) for n, size in enumerate(sizes)}
        return Context(tuple(Evidence(name, record, 1.0) for record in table(name, Chunk, rows)))

    def sizes(parts: list[Context]) -> list[list[int]]:
        return [[item.tokens(tokenizer) for item in part] for part in parts]

    assert sizes(share_budget([(part("a", 5, 5), 0.5), (part("b", 5, 5), 0.5)], 20, tokenizer)) == [[5, 5], [5, 5]]
    assert sizes(share_budget([(part("a", 9, 3), 0.2), (part("b", 5, 5), 0.8)], 20, tokenizer)) == [[9], [5, 5]]
    assert sizes(share_budget([(part("a"), 0.5), (part("b", 5, 5, 5, 5), 0.5)], 20, tokenizer)) == [[], [5, 5, 5, 5]]
    context = search(harbour_graph(), "What did Ruta Haverlock wind for Bo Lind?", budget=30)
    assert 0 < sum(item.tokens(tokenizer) for item in context) <= 30


def test_plain_hits_without_entities() -> None:
    graph = GraphBuilder()
    graph.add_chunk("The tide turns at nine.")
    assert texts(search(graph, "When does the tide turn?"), "chunks") == ["The tide turns at nine."]


def test_filtered_rows_are_skipped() -> None:
    graph = harbour_graph()
    tables = graph.tables()
    for name in ("entities", "communities", "reports", "relations", "claims"):
        tables[name] = hide_rows(tables[name], lambda _: False)
    context = local(
        "What did Bo Lind sell?",
        **tables,
        keyword_search=keyword_search,
        vector_search=FakeVectorSearch(),
        tokenizer=tokenizer,
        rerank=rerank,
    )
    assert {item.table for item in context} == {"chunks"}


def linked_names(question: str, *known_names: str) -> list[str]:
    rows = {entity_id(name_key(name)): _entity(name) for name in known_names}
    return [entity.name for entity in link_entities(question, table("entities", Entity, rows))[0]]


def _entity(name: str) -> Entity:
    return Entity(name=name, type="", forms=(name,), types=(), mentions=1, tokens=0)


def test_names_are_linked_as_users_write_them() -> None:
    assert linked_names(
        "did the Kettle Narrows' pilot, J. B. Lippincott, ask Apple?",
        "Kettle Narrows",
        "J. B. Lippincott",
        "Apple Inc.",
    ) == [
        "Kettle Narrows",
        "J. B. Lippincott",
        "Apple Inc.",
    ]
    assert linked_names("Who heads the Bank of Japan?", "Bank", "Japan", "Bank of Japan") == ["Bank of Japan"]
    assert linked_names("What will you do?", "Will", "What") == []


def test_names_are_linked_in_japanese() -> None:
    assert linked_names(
        "組紐工房の春香さんはスティーブ・ジョブズに会いましたか。", "組紐工房", "春香", "スティーブ・ジョブズ", "組紐"
    ) == [
        "組紐工房",
        "春香",
        "スティーブ・ジョブズ",
    ]
    assert linked_names("A棟とKORG社について", "A棟", "KORG社") == ["A棟", "KORG社"]


def test_a_japanese_question_finds_its_relation() -> None:
    graph = GraphBuilder()
    graph.add_chunk("春香は組紐工房で働く。", "春香", "組紐工房")
    graph.add_chunk("太郎は海で泳ぐ。", "太郎", "海")
    context = search(graph, "春香は組紐工房で何をしますか。", k=2)
    assert [item.record.names for item in context if isinstance(item.record, Relation)] == [
        tuple(name for _, name in sorted((entity_id(name_key(n)), n) for n in ("春香", "組紐工房")))
    ]
    assert texts(context, "chunks")[0] == "春香は組紐工房で働く。"
