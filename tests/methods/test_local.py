"""Entities near a question, and what is said of them, in one budget."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context, Evidence
from kumihimo.core.records import Chunk, Entity, Relation
from kumihimo.methods.local import local
from kumihimo.methods.shared.entity_linking import link_entities
from kumihimo.methods.shared.graph_context import share_budget
from kumihimo.text.name_keys import entity_id, name_key
from tests.methods.factories_search import Graph, Nearby, chunk, match, rank, ruler, table


def harbour() -> Graph:
    graph = Graph()
    graph.says("Ruta Haverlock wound the cord for Bo Lind.", "Ruta Haverlock", "Bo Lind", "the cord")
    graph.says("Bo Lind sold eels in winter.", "Bo Lind", "eels")
    graph.says("The mill burnt in spring.", "the mill")
    graph.claim("Ruta Haverlock is said to have left.", "Ruta Haverlock")
    graph.group("root", "Of the harbour and the mill.", [], level=0)
    graph.group("leaf", "Of a cord.", ["Ruta Haverlock", "Bo Lind", "the cord"], "root", level=1)
    graph.group("other", "Of a mill.", ["the mill"], "root", level=1)
    return graph


def found(graph: Graph, question: str, near: Nearby | None = None, **settings: Any) -> Context:
    return local(
        question,
        **graph.tables(),
        keyword_search=match,
        vector_search=near or Nearby(),
        tokenizer=ruler,
        rerank=rank,
        **settings,
    )


def texts(context: Context, table: str) -> list[str]:
    return [item.text for item in context if item.table == table]


def test_what_is_said_of_the_entities_that_a_question_names() -> None:
    context = found(harbour(), "What did Ruta Haverlock wind for Bo Lind?", k=2)
    assert texts(context, "entities") == ["Bo Lind.", "Ruta Haverlock."]
    assert texts(context, "relations")[0] == "Ruta Haverlock wound the cord for Bo Lind."  # of both, so it is first
    assert texts(context, "claims") == ["Ruta Haverlock is said to have left."]
    assert texts(context, "reports")[0] == "Of a cord."  # holds as many as the root, and is smaller
    assert texts(context, "chunks")[0] == "Ruta Haverlock wound the cord for Bo Lind."
    assert not texts(context, "mentions")


def test_scores_compare_and_chunks_stand_first_where_they_are_equal() -> None:
    context = found(harbour(), "What did Ruta Haverlock wind for Bo Lind?")
    scores = [item.score for item in context]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert [item.table for item in context if item.score == 1][:2] == ["chunks", "entities"]


def test_a_hub_costs_no_more_than_its_share() -> None:
    graph = Graph(strength=5.0)
    for n in range(300):
        graph.says(f"The hub met person {n}.", "The Hub", f"Person {n}")
    graph.says("Ruta Haverlock wound cord.", "Ruta Haverlock", "Cord")
    near = Nearby()
    context = found(graph, "Who are The Hub and Ruta Haverlock?", near, k=2, edges=5)
    told = texts(context, "relations")
    assert sum("hub" in text for text in told) == 5
    assert "Ruta Haverlock wound cord." in told
    held = graph.tables()
    local("The Hub?", **held, keyword_search=match, vector_search=Nearby(), tokenizer=ruler, rerank=rank, k=1, edges=5)
    assert held["mentions"].rows.read == 0  # ids alone


def test_the_budget_is_kept_and_what_one_part_leaves_the_others_use() -> None:
    def part(name: str, *sizes: int) -> Context:
        rows = {f"{name}{n}.00000": chunk(" ".join(["word"] * size)) for n, size in enumerate(sizes)}
        return Context(tuple(Evidence(name, record, 1.0) for record in table(name, Chunk, rows)))

    def sizes(parts: list[Context]) -> list[list[int]]:
        return [[item.tokens(ruler) for item in part] for part in parts]

    assert sizes(share_budget([(part("a", 5, 5), 0.5), (part("b", 5, 5), 0.5)], 20, ruler)) == [[5, 5], [5, 5]]
    assert sizes(share_budget([(part("a", 9, 3), 0.2), (part("b", 5, 5), 0.8)], 20, ruler)) == [[9], [5, 5]]
    assert sizes(share_budget([(part("a"), 0.5), (part("b", 5, 5, 5, 5), 0.5)], 20, ruler)) == [[], [5, 5, 5, 5]]
    context = found(harbour(), "What did Ruta Haverlock wind for Bo Lind?", budget=30)
    assert 0 < sum(item.tokens(ruler) for item in context) <= 30


def test_what_plain_search_finds_is_there_without_any_entity() -> None:
    graph = Graph()
    graph.says("The tide turns at nine.")
    assert texts(found(graph, "When does the tide turn?"), "chunks") == ["The tide turns at nine."]


def test_rows_that_a_filter_hides_are_passed_over() -> None:
    graph = harbour()
    tables = graph.tables()
    for name in ("entities", "communities", "reports", "relations", "claims"):
        tables[name] = tables[name].filtered(lambda _: False)
    context = local(
        "What did Bo Lind sell?", **tables, keyword_search=match, vector_search=Nearby(), tokenizer=ruler, rerank=rank
    )
    assert {item.table for item in context} == {"chunks"}


def names(question: str, *known: str) -> list[str]:
    rows = {entity_id(name_key(name)): _entity(name) for name in known}
    return [entity.name for entity in link_entities(question, table("entities", Entity, rows))[0]]


def _entity(name: str) -> Entity:
    return Entity(name=name, type="", forms=(name,), types=(), mentions=1, tokens=0)


def test_names_stand_in_a_question_as_one_writes_them() -> None:
    assert names(
        "did the Kettle Narrows' pilot, J. B. Lippincott, ask Apple?",
        "Kettle Narrows",
        "J. B. Lippincott",
        "Apple Inc.",
    ) == [
        "Kettle Narrows",
        "J. B. Lippincott",
        "Apple Inc.",
    ]
    assert names("Who heads the Bank of Japan?", "Bank", "Japan", "Bank of Japan") == ["Bank of Japan"]
    assert names("What will you do?", "Will", "What") == []


def test_names_stand_in_a_japanese_question() -> None:
    assert names(
        "組紐工房の春香さんはスティーブ・ジョブズに会いましたか。", "組紐工房", "春香", "スティーブ・ジョブズ", "組紐"
    ) == [
        "組紐工房",
        "春香",
        "スティーブ・ジョブズ",
    ]
    assert names("A棟とKORG社について", "A棟", "KORG社") == ["A棟", "KORG社"]


def test_a_japanese_question_finds_its_relation() -> None:
    graph = Graph()
    graph.says("春香は組紐工房で働く。", "春香", "組紐工房")
    graph.says("太郎は海で泳ぐ。", "太郎", "海")
    context = found(graph, "春香は組紐工房で何をしますか。", k=2)
    assert [item.record.names for item in context if isinstance(item.record, Relation)] == [
        tuple(name for _, name in sorted((entity_id(name_key(n)), n) for n in ("春香", "組紐工房")))
    ]
    assert texts(context, "chunks")[0] == "春香は組紐工房で働く。"
