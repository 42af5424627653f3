"""Passages of many communities and documents -> sentences on a topic, of as many of them as possible."""

from __future__ import annotations

from typing import Any

from kumihimo.core.context import Context
from kumihimo.core.records import KeyPoint
from kumihimo.methods.braid.topic_extracts import assign_communities, extract_topic_sentences
from tests.methods.factories_search import Graph, Nearby, match, ruler

BOATS = "Old boats are mended in the long winter by hand."
RIVERS = "On the river old boats carry grain to the mill."
TARRED = "Every spring the old boats are tarred on the beach."


def found(graph: Graph, sought: str = "old boats", *, grouped: bool = True) -> Context:
    tables: dict[str, Any] = graph.tables()
    members, communities = (tables["members"], tables["communities"]) if grouped else (None, None)
    return extract_topic_sentences(
        sought, tables["chunks"], tables["mentions"], members, communities, match, Nearby(), ruler
    )


def shore() -> Graph:
    graph = Graph()
    graph.says(BOATS, "Osk", "Corvale")
    graph.says(TARRED, "Osk")
    graph.says(RIVERS, "Brannet", document="land")
    graph.says("The bakery opens before the first ferry leaves.", "Brannet", document="land")
    graph.group("sea", "Of the sea.", ["Osk", "Corvale"])
    graph.group("land", "Of the land.", ["Brannet"])
    return graph


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def test_each_community_speaks_before_any_speaks_twice() -> None:
    context = found(shore())
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert RIVERS in texts(context)[:2]
    assert context.query_type == "asked across the documents: sentences of 2 of their communities"
    assert [item.score for item in context] == sorted((item.score for item in context), reverse=True)
    points = [item.record for item in context if isinstance(item.record, KeyPoint)]
    assert all(point.verbatim and point.sources[0][0] == "chunks" for point in points)
    assert len(points) == 3


def test_without_communities_documents_are_the_parts() -> None:
    context = found(shore(), grouped=False)
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert context.query_type == "asked across the documents: sentences of 2 of them"


def test_nothing_is_said_twice_nor_nearly() -> None:
    graph = shore()
    graph.says(f"{BOATS} The bakery is closed.", "Brannet")
    graph.says(BOATS.replace("long", "dark"), "Brannet")
    assert [text.replace("dark", "long") for text in texts(found(graph))].count(BOATS) == 1


def test_words_akin_to_the_topic_count() -> None:
    graph = Graph()
    one, other = "Good educators listen before they speak to a class.", "Educational songs are long in the north."
    graph.says(one, "Osk")
    graph.says(other, "Osk", document="songs")
    assert set(texts(found(graph, "education"))) == {one, other}


def test_words_that_begin_alike_are_all_looked_for() -> None:
    graph = Graph()
    one, other = "International letters take a week to come here.", "The internet has reached the island at last."
    graph.says(one, "Osk")
    graph.says(other, "Osk", document="wires")
    assert set(texts(found(graph, "internationally internet", grouped=False))) == {one, other}
    graph.says("The ferries leave at nine from the long pier.", "Osk")
    graph.says("One ferry was late again in the autumn.", "Osk", document="wires")
    assert len(found(graph, "ferries", grouped=False)) == 2


def test_too_little_is_nothing() -> None:
    assert found(shore(), "volcanoes") == Context()
    assert found(Graph()) == Context()
    assert found(shore(), "boats volcanoes glaciers deserts") == Context(), "two words of a topic of so many"


def test_a_statement_comes_before_a_question_and_who_somebody_is_comes_where_nothing_else_does() -> None:
    graph = Graph()
    asks = "Why are the old boats on the beach tarred so late?"
    presents = "Tess Moll is the founder of a yard for old boats."
    for text in (asks, presents, BOATS, "notes_2.txt Old boats lie on the beach."):
        graph.says(text, "Osk", document=text)
    graph.group("sea", "Of the sea.", ["Osk"])
    assert texts(found(graph, grouped=False)) == [BOATS, asks], "half as good as the best, and none that is worse"
    alone = Graph()
    other = "Ann Kerrow is the founder of a club for old boats."
    alone.says(presents, "Osk")
    alone.says(other, "Osk", document="other")
    assert set(texts(found(alone))) == {presents, other}


def test_what_is_said_in_one_part_is_searched_as_ever() -> None:
    graph = Graph()
    graph.says(BOATS, "Osk")
    graph.says(TARRED, "Osk")
    assert found(graph) == Context()
    graph.group("sea", "Of the sea.", ["Osk"])
    assert found(graph) == Context()


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
    of = assign_communities([id, alone], tables["mentions"], tables["members"], tables["communities"])
    assert of == {id: "sea"}
    graph.group("leaf", "Of a part.", ["Brannet"], "top", level=1)
    graph.group("top", "Of the top.", [])
    graph.rows["members"] = {key: row for key, row in graph.rows["members"].items() if not key.startswith("land")}
    third = graph.says("Of Brannet.", "Brannet")
    tables = graph.tables()
    assert assign_communities([third], tables["mentions"], tables["members"], tables["communities"]) == {third: "top"}


def test_japanese_and_chinese() -> None:
    graph = Graph()
    graph.says("古い船は毎年冬に浜で修理される。", "浜")
    graph.says("川では古い船が穀物を運んでいる。", "川", document="川")
    assert len(found(graph, "古い船")) == 2
    graph = Graph()
    graph.says("旧船每年冬天都在海滩上修理。", "海滩")
    graph.says("河上的旧船把粮食运到磨坊。", "河", document="河")
    assert len(found(graph, "旧船")) == 2
