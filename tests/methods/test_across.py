"""Passages of many communities and documents -> sentences on a topic, of as many of them as possible."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context
from kumihimo.core.records import Point
from kumihimo.methods.across import across, parts
from tests.methods.small import Graph, Nearby, match, ruler

BOATS = "Old boats are mended in the long winter by hand."
RIVERS = "On the river old boats carry grain to the mill."
TARRED = "Every spring the old boats are tarred on the beach."


def found(graph: Graph, sought: str = "old boats", *, grouped: bool = True) -> Context:
    tables: dict[str, Any] = graph.tables()
    members, communities = (tables["members"], tables["communities"]) if grouped else (None, None)
    return across(sought, tables["chunks"], tables["mentions"], members, communities, match, Nearby(), ruler)


def shore() -> Graph:
    graph = Graph()
    graph.says(BOATS, "Osk", "Corvale")
    graph.says(TARRED, "Osk")
    graph.says(RIVERS, "Brannet")
    graph.says("The bakery opens before the first ferry leaves.", "Brannet")
    graph.group("sea", "Of the sea.", ["Osk", "Corvale"])
    graph.group("land", "Of the land.", ["Brannet"])
    return graph


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def test_each_community_speaks_before_any_speaks_twice() -> None:
    context = found(shore())
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert RIVERS in texts(context)[:2]
    assert context.decided == "asked across the documents: sentences of 2 of their communities"
    assert [item.score for item in context] == sorted((item.score for item in context), reverse=True)
    points = [item.record for item in context if isinstance(item.record, Point)]
    assert all(point.verbatim and point.sources[0][0] == "chunks" for point in points)
    assert len(points) == 3


def test_without_communities_documents_are_the_parts() -> None:
    context = found(shore(), grouped=False)
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert context.decided == "asked across the documents: sentences of 1 of them"


def test_nothing_is_said_twice_nor_nearly() -> None:
    graph = shore()
    graph.says(f"{BOATS} The bakery is closed.", "Brannet")
    graph.says(BOATS.replace("long", "dark"), "Brannet")
    assert [text.replace("dark", "long") for text in texts(found(graph))].count(BOATS) == 1


def test_words_akin_to_the_topic_count() -> None:
    graph = Graph()
    graph.says("Good educators listen before they speak to a class.", "Osk")
    assert texts(found(graph, "education")) == ["Good educators listen before they speak to a class."]


def test_too_little_is_nothing() -> None:
    assert found(shore(), "volcanoes") == Context()
    assert found(Graph()) == Context()
    assert found(shore(), "boats volcanoes glaciers deserts") == Context(), "two words of a topic of so many"


def test_a_statement_comes_before_a_question_and_who_somebody_is_comes_where_nothing_else_does() -> None:
    graph = Graph()
    asks = "Why are the old boats on the beach tarred so late?"
    presents = "Tess Moll is the founder of a yard for old boats."
    for text in (asks, presents, BOATS, "notes_2.txt Old boats lie on the beach."):
        graph.says(text, "Osk")
    graph.group("sea", "Of the sea.", ["Osk"])
    assert texts(found(graph)) == [BOATS, asks], "half as good as the best, and none that is worse"
    alone = Graph()
    alone.says(presents, "Osk")
    assert texts(found(alone)) == [presents]


def test_the_order_of_the_rows_changes_nothing() -> None:
    graph = shore()
    one = found(graph)
    for name in ("chunks", "mentions", "members", "communities"):
        graph.rows[name] = dict(reversed(graph.rows[name].items()))
    assert found(graph) == one


def test_a_passage_belongs_to_the_community_of_most_of_what_it_mentions() -> None:
    graph = shore()
    id = graph.says("Of three.", "Osk", "Corvale", "Brannet")
    alone = graph.says("Of one that is in none.", "Nobody")
    tables = graph.tables()
    of = parts([id, alone], tables["mentions"], tables["members"], tables["communities"])
    assert of == {id: "sea"}
    graph.group("leaf", "Of a part.", ["Brannet"], "top", level=1)
    graph.group("top", "Of the top.", [])
    graph.rows["members"] = {key: row for key, row in graph.rows["members"].items() if not key.startswith("land")}
    third = graph.says("Of Brannet.", "Brannet")
    tables = graph.tables()
    assert parts([third], tables["mentions"], tables["members"], tables["communities"]) == {third: "top"}


def test_japanese_and_chinese() -> None:
    graph = Graph()
    graph.says("古い船は毎年冬に浜で修理される。", "浜")
    graph.says("川では古い船が穀物を運んでいる。", "川")
    assert len(found(graph, "古い船")) == 2
    graph = Graph()
    graph.says("旧船每年冬天都在海滩上修理。", "海滩")
    assert texts(found(graph, "旧船")) == ["旧船每年冬天都在海滩上修理。"]
