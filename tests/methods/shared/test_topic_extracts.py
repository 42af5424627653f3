"""chunks of several communities and documents -> sentences on a topic, spread over them."""

from __future__ import annotations

from typing import Any

import pytest

from kumihimo.core.context import Context, KeyPoint
from kumihimo.methods.shared import topic_extracts
from kumihimo.methods.shared.spread import assign_communities
from kumihimo.methods.shared.topic_extracts import extract_topic_sentences
from kumihimo.text.sentences import split_sentences
from tests.methods.factories_search import FakeVectorSearch, GraphBuilder, keyword_search, tokenizer

BOATS = "Old boats are mended in the long winter by hand."
RIVERS = "On the river old boats carry grain to the mill."
TARRED = "Every spring the old boats are tarred on the beach."


def extract(graph: GraphBuilder, topic: str = "old boats", *, grouped: bool = True) -> Context:
    tables: dict[str, Any] = graph.tables()
    members, communities = (tables["members"], tables["communities"]) if grouped else (None, None)
    return extract_topic_sentences(
        topic,
        tables["chunks"],
        tables["mentions"],
        members,
        communities,
        keyword_search,
        FakeVectorSearch(),
        tokenizer,
    )


def coast_graph() -> GraphBuilder:
    graph = GraphBuilder()
    graph.add_chunk(BOATS, "Osk", "Corvale")
    graph.add_chunk(TARRED, "Osk")
    graph.add_chunk(RIVERS, "Brannet", document="land")
    graph.add_chunk("The bakery opens before the first ferry leaves.", "Brannet", document="land")
    graph.add_community("sea", "Of the sea.", ["Osk", "Corvale"])
    graph.add_community("land", "Of the land.", ["Brannet"])
    return graph


def texts(context: Context) -> list[str]:
    return [item.text for item in context]


def test_each_community_gives_a_sentence_before_any_second_one() -> None:
    context = extract(coast_graph())
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert RIVERS in texts(context)[:2]
    assert context.query_type == "broad question: sentences from 2 communities"
    assert [item.score for item in context] == sorted((item.score for item in context), reverse=True)
    points = [item.record for item in context if isinstance(item.record, KeyPoint)]
    assert all(point.verbatim and point.sources[0][0] == "chunks" for point in points)
    assert len(points) == 3


def test_without_communities_documents_are_the_parts() -> None:
    context = extract(coast_graph(), grouped=False)
    assert set(texts(context)) == {BOATS, TARRED, RIVERS}
    assert context.query_type == "broad question: sentences from 2 documents"


def test_near_duplicates_are_dropped() -> None:
    graph = coast_graph()
    graph.add_chunk(f"{BOATS} The bakery is closed.", "Brannet")
    graph.add_chunk(BOATS.replace("long", "dark"), "Brannet")
    assert [text.replace("dark", "long") for text in texts(extract(graph))].count(BOATS) == 1


def test_words_with_the_same_root_count() -> None:
    graph = GraphBuilder()
    one, other = "Good educators listen before they speak to a class.", "Educational songs are long in the north."
    graph.add_chunk(one, "Osk")
    graph.add_chunk(other, "Osk", document="songs")
    assert set(texts(extract(graph, "education"))) == {one, other}


def test_words_with_the_same_prefix_are_all_checked() -> None:
    graph = GraphBuilder()
    one, other = "International letters take a week to come here.", "The internet has reached the island at last."
    graph.add_chunk(one, "Osk")
    graph.add_chunk(other, "Osk", document="wires")
    assert set(texts(extract(graph, "internationally internet", grouped=False))) == {one, other}
    graph.add_chunk("The ferries leave at nine from the long pier.", "Osk")
    graph.add_chunk("One ferry was late again in the autumn.", "Osk", document="wires")
    assert len(extract(graph, "ferries", grouped=False)) == 2


def test_only_the_places_of_the_topic_in_a_long_chunk_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, sizes = GraphBuilder(), list[int]()
    filler = " ".join(f"The bakery sells {i} loaves on a good day." for i in range(2000))
    graph.add_chunk(f"{filler} {BOATS} The bakery is closed. {TARRED} {filler}", "Osk")
    graph.add_chunk(f"# Boats\n{filler}\n{RIVERS}", "Osk", document="land")

    def split(text: str, start: int, end: int) -> list[tuple[int, int]]:
        sizes.append(end - start)
        return split_sentences(text, start, end)

    monkeypatch.setattr(topic_extracts, "split_sentences", split)
    assert set(texts(extract(graph, grouped=False))) == {BOATS, TARRED, RIVERS}
    assert 0 < sum(sizes) < 3000


def test_a_sentence_that_is_cut_is_no_quotation() -> None:
    graph = GraphBuilder()
    graph.add_chunk(f"It is {'very ' * 200}late, and old boats are {'very ' * 200}slow.", "Osk")
    graph.add_chunk(RIVERS, "Osk", document="land")
    graph.add_chunk(f"{TARRED} {'So it goes. ' * 80}", "Osk", document="sea")
    assert set(texts(extract(graph, grouped=False))) == {RIVERS, TARRED}


def test_too_little_coverage_gives_nothing() -> None:
    assert extract(coast_graph(), "volcanoes") == Context()
    assert extract(GraphBuilder()) == Context()
    assert extract(coast_graph(), "boats volcanoes glaciers deserts") == Context(), "boats is one of four topic words"


def test_statements_come_before_questions_and_introductions() -> None:
    graph = GraphBuilder()
    asks = "Why are the old boats on the beach tarred so late?"
    presents = "Tess Moll is the founder of a yard for old boats."
    for text in (asks, presents, BOATS, "notes_2.txt Old boats lie on the beach."):
        graph.add_chunk(text, "Osk", document=text)
    graph.add_community("sea", "Of the sea.", ["Osk"])
    assert texts(extract(graph, grouped=False)) == [BOATS, asks], "only scores above half the best"
    alone = GraphBuilder()
    other = "Ann Kerrow is the founder of a club for old boats."
    alone.add_chunk(presents, "Osk")
    alone.add_chunk(other, "Osk", document="other")
    assert set(texts(extract(alone))) == {presents, other}


def test_topic_of_a_single_part_gives_nothing() -> None:
    graph = GraphBuilder()
    graph.add_chunk(BOATS, "Osk")
    graph.add_chunk(TARRED, "Osk")
    assert extract(graph) == Context()
    graph.add_community("sea", "Of the sea.", ["Osk"])
    assert extract(graph) == Context()


def test_row_order_does_not_matter() -> None:
    graph = coast_graph()
    one = extract(graph)
    for name in ("chunks", "mentions", "members", "communities"):
        graph.rows[name] = dict(reversed(graph.rows[name].items()))
    assert extract(graph) == one


def test_chunk_belongs_to_the_community_of_most_mentions() -> None:
    graph = coast_graph()
    id = graph.add_chunk("Of three.", "Osk", "Corvale", "Brannet")
    alone = graph.add_chunk("Of one that is in none.", "Nobody")
    tables = graph.tables()
    communities = assign_communities([id, alone], tables["mentions"], tables["members"], tables["communities"])
    assert communities == {id: "sea"}
    graph.add_community("leaf", "Of a part.", ["Brannet"], "top", level=1)
    graph.add_community("top", "Of the top.", [])
    graph.rows["members"] = {key: row for key, row in graph.rows["members"].items() if not key.startswith("land")}
    third = graph.add_chunk("Of Brannet.", "Brannet")
    tables = graph.tables()
    assert assign_communities([third], tables["mentions"], tables["members"], tables["communities"]) == {third: "top"}


def test_japanese_and_chinese() -> None:
    graph = GraphBuilder()
    graph.add_chunk("古い船は毎年冬に浜で修理される。", "浜")
    graph.add_chunk("川では古い船が穀物を運んでいる。", "川", document="川")
    assert len(extract(graph, "古い船")) == 2
    graph = GraphBuilder()
    graph.add_chunk("旧船每年冬天都在海滩上修理。", "海滩")
    graph.add_chunk("河上的旧船把粮食运到磨坊。", "河", document="河")
    assert len(extract(graph, "旧船")) == 2
