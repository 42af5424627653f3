"""candidates + an anchor -> features, computed by hand."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, log
from typing import Any

import pytest

from kumihimo.methods.braid.document_match import DocumentMatch
from kumihimo.methods.braid.features import (
    CandidateReader,
    Candidates,
    compare_sums,
    feature_contributions,
    find_anchor_link,
    names_its_title,
    scale_sums,
    sum_features,
    walk_features,
)
from kumihimo.methods.braid.plain_match import PLAIN_FEATURES, PlainMatcher
from kumihimo.methods.braid.ppr import PassageGraph
from kumihimo.text.question import ParsedQuestion
from tests.methods.factories_search import FakeVectorSearch, GraphBuilder, chunk, keyword_search

QUESTION = "Where was the builder of Gull Pier born?"  # builder, gull, pier, born
PIER, RUTA, OTHER = range(3)


def sample_reader(
    graph: GraphBuilder, pool: list[str], question: str = QUESTION, **fields: Mapping[str, Any]
) -> CandidateReader:
    chunks = graph.tables()["chunks"]
    matcher = PlainMatcher(ParsedQuestion(question), keyword_search.tokens(chunks, pool))
    scores: dict[str, Any] = {"found": {}, "keyword_scores": {}, "vector_scores": {}, "documents": {}, **fields}
    return CandidateReader(chunks, keyword_search, FakeVectorSearch(), matcher, **scores)


def sample_graph() -> tuple[GraphBuilder, list[str]]:
    """Three chunks; the first names the subject of the second."""
    graph = GraphBuilder()
    return graph, [
        graph.add_chunk("Ruta Haverlock made it in 1890.", "Gull Pier", "Ruta Haverlock", "the sea", title="Gull Pier"),
        graph.add_chunk("She was born in Corvale.", "Ruta Haverlock", "Corvale", title="Ruta Haverlock"),
        graph.add_chunk("A pier stands in the sea.", "the sea"),
    ]


def sample_candidates(*names: str, question: str = QUESTION) -> tuple[Candidates, list[str]]:
    graph, ids = sample_graph()
    reader = sample_reader(graph, ids, question)
    entities = frozenset(map(graph.entity, names))
    return Candidates(reader, PassageGraph(graph.tables()["mentions"]), entities, *reader.read(ids)), ids


# -- reading


def test_reader_adds_searches_and_documents_to_the_plain_features() -> None:
    graph, ids = sample_graph()
    documents = {ids[RUTA].partition(".")[0]: DocumentMatch(0.75, ("Ruta",))}
    scores = {ids[PIER]: 4.0, ids[OTHER]: 1.0}
    vectors = {ids[PIER]: 0.2, ids[RUTA]: 0.8, ids[OTHER]: 0.4}
    reader = sample_reader(graph, ids, keyword_scores=scores, vector_scores=vectors, documents=documents)
    chunks, features, words = reader.read(ids)
    assert chunks.keys() == features.keys() == words.keys() == set(ids)
    assert all(values.keys() == set(PLAIN_FEATURES) for values in features.values())
    assert [features[id]["words"] for id in ids] == [1, 0, 0.25]
    assert [features[id]["meaning"] for id in ids] == pytest.approx([0, 1, 1 / 3]), "between the worst and the best"
    assert [features[id]["document"] for id in ids] == [0, 0.75, 0]
    assert [sorted(words[id]) for id in ids] == [["gull", "pier"], ["born"], ["pier"]]
    assert features[ids[PIER]]["window"] > features[ids[OTHER]]["window"] > 0
    assert reader.vector_search.row_counts == [], "all have a score"  # type: ignore[attr-defined]


def test_meaning_of_candidates_beyond_the_search_is_computed() -> None:
    graph, ids = sample_graph()
    chunks = graph.tables()["chunks"]
    exact = {item.record.id: max(item.score, 0.0) for item in FakeVectorSearch()(chunks, QUESTION, k=3)}
    low, high = -0.1, exact[ids[RUTA]] + 0.5
    _, features, _ = sample_reader(graph, ids, vector_scores={ids[PIER]: high, "other": low}).read(ids)
    assert features[ids[PIER]]["meaning"] == 1
    for id in (ids[RUTA], ids[OTHER]):
        assert 0 < features[id]["meaning"] == pytest.approx((exact[id] - low) / (high - low))
    _, features, _ = sample_reader(graph, ids, vector_scores={ids[PIER]: 9.0, "other": 8.0}).read(ids)
    assert features[ids[RUTA]]["meaning"] == 0, "below all others"


def test_words_count_less_if_no_candidate_has_many_of_them() -> None:
    graph, ids = sample_graph()
    far = "pier " + " ".join(f"q{i}" for i in range(40))
    reader = sample_reader(graph, ids, far, keyword_scores={ids[PIER]: 4.0, ids[OTHER]: 2.0})
    _, features, _ = reader.read(ids)
    trust = reader.matcher.lexical_trust
    assert 0 < trust < 0.5
    assert [features[id]["words"] for id in ids] == pytest.approx([trust, 0, trust / 2])


def test_extended_candidates_have_the_same_features_as_read_at_once() -> None:
    graph, ids = sample_graph()
    scores = {ids[RUTA]: 0.9, ids[PIER]: 0.6, ids[OTHER]: 0.3}
    reader = sample_reader(graph, ids, keyword_scores=scores, vector_scores=scores)
    passage_graph = PassageGraph(graph.tables()["mentions"])
    every, one = (Candidates(reader, passage_graph, frozenset(), *reader.read(some)) for some in (ids, ids[:1]))
    both = one.extended([ids[OTHER], ids[PIER]])
    assert list(both.chunks) == sorted([ids[PIER], ids[OTHER]])
    for id in both.chunks:
        assert both.plain[id] == pytest.approx(every.plain[id], abs=1e-6)
        assert both.matched_words[id] == every.matched_words[id]
    assert both.plain[ids[OTHER]]["words"] == pytest.approx(1 / 3), "of the best score, of whatever chunk"
    assert one.extended([]).chunks == one.chunks
    assert one.chunks.keys() == {ids[PIER]}, "unchanged"


def test_rows_without_text_are_no_candidates() -> None:
    graph, ids = sample_graph()
    empty = graph.add_chunk("")
    chunks, features, words = sample_reader(graph, [*ids, empty]).read([*ids, empty])
    assert chunks.keys() == features.keys() == words.keys() == set(ids)


# -- compared with anchors


def test_rare_question_words_weigh_more() -> None:
    pool, ids = sample_candidates()
    assert [sorted(pool.matched_words[id]) for id in ids] == [["gull", "pier"], ["born"], ["pier"]]
    weights = {"builder": log(4), "gull": log(2.5), "pier": log(2), "born": log(2.5)}  # found in 0, 1, 2, 1 chunks
    assert pool.rarity == pytest.approx({word: weight / sum(weights.values()) for word, weight in weights.items()})
    assert pool.coverage({"gull", "pier"}) == pytest.approx((log(2.5) + log(2)) / sum(weights.values()))
    assert pool.coverage(()) == 0


def test_features_by_hand() -> None:
    pool, ids = sample_candidates("Gull Pier")
    values = walk_features(pool, {"graph": {ids[PIER]: 4.0, ids[OTHER]: 2.0}}, [ids[PIER]])
    born = pool.coverage({"born"})
    no_links = dict.fromkeys(("adds", "shares", "named", "bridges"), 0.0)
    assert values[ids[PIER]] == pytest.approx(
        {"graph": 1.0, "graph rank": 1 / 2, "new": 0.0, "titled": 1.0, **no_links}
    ), "an anchor has no link to itself"
    assert values[ids[RUTA]] == pytest.approx(
        {"graph": 0.0, "graph rank": 1 / 201, "new": born, "titled": 0.0}
        | {"adds": born, "shares": 1 / 2, "named": 1.0, "bridges": born}
    ), "two chunks mention her, and the first names the title of the second"
    assert values[ids[OTHER]] == pytest.approx(
        {"graph": 0.5, "graph rank": 1 / 3, "new": 0.0, "titled": 0.0}
        | {"adds": 0.0, "shares": 1 / 2, "named": 0.0, "bridges": 0.0}
    ), "linked, but without new question words"


def test_anchor_features_are_maxima() -> None:
    pool, ids = sample_candidates()
    values = walk_features(pool, {}, [ids[PIER], ids[RUTA]])
    assert values[ids[RUTA]]["bridges"] == pytest.approx(pool.coverage({"born"}))
    assert values[ids[PIER]]["bridges"] == pytest.approx(pool.coverage({"gull", "pier"})), (
        "the other anchor names its title"
    )
    assert values[ids[PIER]]["named"] == 0.0, "the anchor does not name this title"
    assert values[ids[OTHER]]["adds"] == pytest.approx(pool.coverage({"pier"})), "relative to the second anchor"
    assert values[ids[OTHER]]["new"] == 0.0


def test_without_anchors_or_rankings() -> None:
    pool, ids = sample_candidates()
    values = walk_features(pool, {"graph": {}}, [])
    assert values[ids[RUTA]]["graph"] == values[ids[RUTA]]["bridges"] == 0.0
    assert values[ids[RUTA]]["new"] == pool.coverage(pool.matched_words[ids[RUTA]]) > 0
    assert walk_features(Candidates(pool.reader, pool.graph, frozenset(), {}, {}, {}), {}, []) == {}


def test_question_without_words() -> None:
    pool, ids = sample_candidates(question="?!")
    assert pool.coverage(()) == 0
    assert walk_features(pool, {}, [ids[PIER]])[ids[RUTA]]["new"] == 0.0
    assert pool.plain[ids[RUTA]].keys() == {"words", "meaning", "document"}


def test_titles_that_are_no_names() -> None:
    chunks = {"a": chunk("x", "minutes_2019.md"), "b": chunk("x"), "c": chunk("x", "Mole (pier)")}
    pool, _ = sample_candidates()
    titles = Candidates(pool.reader, pool.graph, frozenset(), chunks, {}, {}).title_entities
    assert titles == {"c": GraphBuilder().entity("Mole")}


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Gull Pier", "Gull Pier was built in 1890.", True),
        ("Gull Pier", "They sailed from Gull Pier", True),
        ("Gull Pier", "It was built in 1890.", False),
        ("Gull Pier", "", False),
        ("", "Gull Pier was built.", False),
        ("Gull Pier", "Gull Pier", False),
        ("Gull Pier", "# Gull Pier\n\nIt was built in 1890.", False),
        ("Gull Pier", "Gull Pier\n=========\n\nIt was built.", False),
        ("Gull Pier", "== Gull Pier ==\nIt was built.", False),
        ("Gull Pier", "# Gull Pier\r\nIt was built.", False),
        ("Gull Pier", "It was built.\n\n## Gull Pier", False),
        ("Gull Pier", "# Gull Pier\n\nGull Pier was built in 1890.", True),
        ("Gull Pier", "# Gull Pier\n\n## Gull Pier\n\nIt leaks.\nSo Gull Pier closed.", True),
        ("Gull Pier (harbour)", "# Gull Pier\n\nThe Gull Pier is long.", True),
        ("Gull Pier", "the gull pier is a pier", False),
        ("minutes_2019.md", "See minutes_2019.md for all.", False),
        ("潮見塔", "潮見塔は鴨居蓮が建てた。", True),
        ("潮見塔", "# 潮見塔\n\n町の塔は古い。", False),
        ("潮見塔", "# 潮見塔\n\n町の潮見塔は古い。", True),
    ],
)
def test_a_text_names_its_title_outside_headings(title: str, text: str, expected: bool) -> None:
    assert names_its_title(chunk(text, title)) is expected


def test_anchor_link_is_the_rarest_common_entity() -> None:
    pool, ids = sample_candidates()
    ruta = GraphBuilder().entity("Ruta Haverlock")
    assert find_anchor_link(pool, ids[RUTA], [ids[PIER]]) == (ids[PIER], ruta)
    assert find_anchor_link(pool, ids[PIER], [ids[PIER], ids[RUTA]]) == (ids[RUTA], ruta)
    assert find_anchor_link(pool, ids[RUTA], [ids[OTHER]]) == ("", "")


# -- sums


def test_sums_are_scaled_or_compared_with_the_best() -> None:
    sums = sum_features({"a": {"x": 1.0, "y": 1.0}, "b": {"x": 3.0}, "c": {}}, {"x": 2.0, "y": -4.0})
    assert sums == {"a": -2.0, "b": 6.0, "c": 0.0}
    assert scale_sums(sums) == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.25})
    assert scale_sums({"a": 2.0, "b": 2.0}) == {"a": 1.0, "b": 1.0}
    assert compare_sums(sums) == pytest.approx({"a": exp(-8), "b": 1.0, "c": exp(-6)})
    assert compare_sums({"a": 9e9, "b": -9e9}) == {"a": 1.0, "b": 0.0}
    assert scale_sums({}) == compare_sums({}) == sum_features({}, {"x": 1.0}) == {}


def test_feature_contributions_are_sorted() -> None:
    values = {"x": 0.5, "y": 1.0, "z": 0.0, "w": 1.0}
    assert feature_contributions(values, {"w": -1.0, "y": 1.0, "x": 2.0, "z": 9.0}) == (
        ("x", 1.0),
        ("y", 1.0),
        ("w", -1.0),
    )
