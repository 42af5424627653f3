"""question + tokens of rows -> features by hand, and window scores as by brute force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from kumihimo.llm.local_embedder import find_subwords, subword_vectors
from kumihimo.methods.braid.plain_match import WINDOW, PlainMatcher, _best_windows, _find_hits
from kumihimo.search.protocols import RowTokens
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import content_tokens, hash_token
from tests.methods.factories_search import row_tokens

QUESTION = "Who built the Gull Pier?"  # built, gull, pier


NAMES = {"window", "phrase", "similar", "topic", "clause"}


def matcher(question: str, *row_texts: str) -> PlainMatcher:
    """Return a matcher whose pool has rows 0, 1, 2 ..."""
    return PlainMatcher(ParsedQuestion(question), {str(i): row_tokens(text) for i, text in enumerate(row_texts)})


def column(name: str, question: str, *row_texts: str) -> list[float]:
    prepared = matcher(question, *row_texts)
    return [values[name] for values in prepared.match(prepared.pool)[0].values()]


def fillers(count: int) -> str:
    return " ".join(f"w{i}" for i in range(count))


def test_words_of_the_question_in_each_row() -> None:
    prepared = matcher(QUESTION, "The pier by the gull", "Built piers", "")
    features, words = prepared.match(prepared.pool)
    assert prepared.question.wording.tokens == ("built", "gull", "pier")
    assert words == {"0": {"gull", "pier"}, "1": {"built", "pier"}, "2": set()}
    assert all(set(values) == NAMES for values in features.values())
    assert features["2"] == dict.fromkeys(NAMES, 0.0), "has no tokens"


def test_rare_words_weigh_more() -> None:
    weights = np.array([log(1 + 3 / 1), log(1 + 3 / 2), log(1 + 3 / 3)])  # in 0, 1 and 2 of 3 rows
    prepared = matcher(QUESTION, "gull pier", "pier pier pier", "sea")
    assert prepared.rarity == pytest.approx(weights / weights.sum())


# -- window


def test_best_window_by_hand() -> None:
    built, gull, pier = matcher(QUESTION, "a", "b").rarity  # no row has a word: equal
    assert built == gull == pier == pytest.approx(1 / 3)
    rows = (
        "pier",
        "pier gull",
        "pier built the gull, gull and pier",
        f"gull {fillers(WINDOW - 2)} pier",
        f"gull {fillers(WINDOW - 1)} pier",
        f"gull {fillers(WINDOW)} pier pier pier built",
    )
    prepared = matcher(QUESTION, "a", "b")
    features, _ = prepared.match({str(i): row_tokens(text) for i, text in enumerate(rows)})
    assert [values["window"] for values in features.values()] == pytest.approx([1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 2 / 3])


def test_far_apart_halves_of_a_long_text_are_no_window() -> None:
    near, far = column(
        "window",
        "gull pier storm harbour",
        f"{fillers(500)} gull pier storm harbour",
        f"gull pier {fillers(500)} storm",
    )
    assert near == pytest.approx(1)
    assert 0.3 < far < 0.7


row_positions = st.lists(st.lists(st.integers(0, 9), max_size=90), min_size=1, max_size=4)


@given(row_positions, st.lists(st.floats(0.01, 1), min_size=6, max_size=6))
def test_windows_equal_brute_force(rows: Sequence[Sequence[int]], weights: list[float]) -> None:
    words, rarity = [f"q{i}" for i in range(6)], np.array(weights)  # 6-9 are other words
    tokens = [_tokens([f"q{i}" for i in row]) for row in rows]

    def brute(row: Sequence[int]) -> float:
        windows = (set(row[start : start + WINDOW]) for start in range(len(row)))
        return max((sum(weights[i] for i in window if i < 6) for window in windows), default=0.0)

    assert _best_windows(_find_hits(words, tokens), rarity) == pytest.approx([brute(row) for row in rows])


def _tokens(words: Sequence[str]) -> RowTokens:
    return RowTokens(np.array([*map(hash_token, words)], np.uint32), np.zeros(0, np.uint16))


@given(row_positions)
def test_counts_and_order_of_hits(rows: Sequence[Sequence[int]]) -> None:
    hits = _find_hits([f"q{i}" for i in range(6)], [_tokens([f"q{i}" for i in row]) for row in rows])
    expected = [(r, p, word) for r, row in enumerate(rows) for p, word in enumerate(row) if word < 6]
    assert list(zip(hits.rows, hits.positions, hits.words, strict=True)) == expected
    assert hits.counts.tolist() == [[row.count(word) for word in range(6)] for row in rows]
    assert hits.lengths.tolist() == [len(row) for row in rows]


def test_many_question_words() -> None:
    question = " ".join(f"q{i}" for i in range(100))
    whole, half, none = column("window", question, " ".join(f"q{i} q0" for i in range(100)), fillers(9) + " q7", "sea")
    assert whole == pytest.approx(16 / 100, abs=0.02), "every second token of 30, and q0"
    assert half == pytest.approx(1 / 100, abs=0.01)
    assert none == 0
    assert matcher(question, "q99 q64 q63").match(matcher(question, "q99 q64 q63").pool)[1]["0"] == {
        "q99",
        "q64",
        "q63",
    }


# -- phrase


def test_phrases_by_hand() -> None:
    prepared = matcher("built gull pier", "a", "b")
    rows = {
        "built gull pier": 2 / 3,
        "gull pier": 1 / 3,
        "gull old pier": 1 / 3,
        "gull very old pier": 0,
        "pier gull": 0,
        "built pier": 0,
        "gull pier, and gull pier": 1 / 3,
        "gull": 0,
    }
    features, _ = prepared.match({text: row_tokens(text) for text in rows})
    assert {text: values["phrase"] for text, values in features.items()} == pytest.approx(rows)


def test_phrase_does_not_span_rows() -> None:
    assert column("phrase", "gull pier", "sea gull", "pier") == [0, 0]


def test_one_word_has_no_phrase() -> None:
    assert column("phrase", "pier", "pier pier", "sea") == [0, 0]
    assert column("window", "pier", "pier pier", "sea") == [1, 0]


# -- clause


def bm25(counts: Mapping[str, int], length: int, mean_length: float, rarity: Mapping[str, float]) -> float:
    norm = 1.2 * (0.25 + 0.75 * length / mean_length)
    return sum(rarity[word] * count * 2.2 / (count + norm) for word, count in counts.items())


def test_clause_is_bm25_relative_to_the_best_row() -> None:
    rows = ["gull pier gull", "pier sea sky sun fog", "sea"]
    prepared = matcher("gull pier", *rows)
    rarity = dict(zip(prepared.question.wording.tokens, prepared.rarity, strict=True))
    best = bm25({"gull": 2, "pier": 1}, 3, 3, rarity)
    other = bm25({"pier": 1}, 5, 3, rarity)
    assert column("clause", "gull pier", *rows) == pytest.approx([1, other / best, 0])


def test_best_clause_counts() -> None:
    rows = ["red gull", "old pier", "red old", "sea"]
    first, second, mixed, none = column("clause", "red gull, and old pier", *rows)
    assert first == second == 1, "each is the best for one clause"
    assert mixed < 1
    assert none == 0
    together = column("clause", "red gull old pier", *rows)
    assert together[2] == pytest.approx(together[0], abs=0.2), "one clause: any two words are alike"


@pytest.mark.parametrize("question", ["gull pier?", "gull, pier", "The gull; the pier!", "Where is the gull pier?"])
def test_clauses_need_two_words(question: str) -> None:
    assert column("clause", question, "gull pier", "pier") == column("clause", "gull pier", "gull pier", "pier")


def test_words_count_less_if_no_row_has_many_of_them() -> None:
    question = " ".join(f"q{i}" for i in range(20))
    for shared, trust in ((0, 0), (1, 0.25), (2, 0.5), (6, 1)):
        row = " ".join(f"q{i}" for i in range(shared))
        prepared = matcher(question, f"sea {row}", *["sky"] * 500)
        assert prepared.lexical_trust == pytest.approx(trust, abs=0.08)
        clause = prepared.match(prepared.pool)[0]["0"]["clause"]
        assert clause == pytest.approx(prepared.lexical_trust), "the best row"
    assert matcher("", "sea").lexical_trust == PlainMatcher(ParsedQuestion("sea"), {}).lexical_trust == 0


# -- similar and topic


BOAT, ROWS_ON_BOATS = "boat on the sea", ["The ship is on the lake.", "Bread is on the table.", "boat on the sea"]


def subwords_by_rarity(question: str, rows: Sequence[str]) -> list[tuple[NDArray[np.uint16], NDArray[np.float64]]]:
    """Return the subwords of the question, then of each row, with their rarity among the rows."""
    ids = [np.frombuffer(each, np.uint16) for each in find_subwords([question, *rows])]
    return [(own, np.array([log(1 + 3 / (1 + sum(one in row for row in ids[1:]))) for one in own])) for own in ids]


def test_similar_is_the_best_cosine_of_each_subword() -> None:
    (own, rarity), *rows = subwords_by_rarity(BOAT, ROWS_ON_BOATS)
    assert len(set(rarity)) > 1
    vectors, lengths = subword_vectors(own)
    weights = rarity * lengths
    expected = [float((subword_vectors(row)[0] @ vectors.T).max(axis=0) @ weights / weights.sum()) for row, _ in rows]
    assert column("similar", BOAT, *ROWS_ON_BOATS) == pytest.approx(expected, abs=1e-6)
    assert expected[2] == pytest.approx(1, abs=1e-6)
    assert expected[0] > expected[1], "a ship is more like a boat than bread"


def test_topic_is_the_cosine_of_the_sums() -> None:
    sums = [weights @ subword_vectors(own)[0] for own, weights in subwords_by_rarity(BOAT, ROWS_ON_BOATS)]
    question, *rows = [total / np.linalg.norm(total) for total in sums]
    expected = [float(row @ question) for row in rows]
    assert column("topic", BOAT, *ROWS_ON_BOATS) == pytest.approx(expected, abs=1e-6)
    assert expected[2] == pytest.approx(1, abs=1e-6)
    assert expected[0] > expected[1]


def test_subword_vectors_have_length_one() -> None:
    vectors, lengths = subword_vectors(np.arange(50, dtype=np.uint16) + 300)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(50), abs=1e-5)
    assert (lengths > 0).all()
    assert len(set(lengths.tolist())) > 40


def test_rows_without_subwords_are_not_similar() -> None:
    empty = RowTokens(row_tokens("pier").words, np.zeros(0, np.uint16))
    pool = {"a": empty, "b": row_tokens("pier"), "c": empty, "d": row_tokens("gull"), "e": empty}
    features, _ = PlainMatcher(ParsedQuestion("pier"), pool).match(pool)
    for name in ("similar", "topic"):
        assert [values[name] for values in features.values()][::2] == [0, 0, 0]
    assert features["b"]["similar"] == pytest.approx(1, abs=1e-6)
    assert features["a"]["window"] == 1
    only = {"a": empty}
    assert PlainMatcher(ParsedQuestion("pier"), only).match(only)[0]["a"]["similar"] == 0


# -- all together


@pytest.mark.parametrize("question", ["", "?!", "🚢"])
def test_question_without_words(question: str) -> None:
    prepared = matcher(question, "gull pier", "")
    assert prepared.match(prepared.pool) == ({"0": {}, "1": {}}, {"0": frozenset(), "1": frozenset()})


def test_question_of_common_words_alone() -> None:
    prepared = matcher("Who was it?", "Who was it that sang?", "Nobody sang.")
    features, words = prepared.match(prepared.pool)
    assert words["0"] == set(content_tokens("Who was it?"))
    assert features["0"]["window"] == pytest.approx(1)
    assert features["1"]["window"] == 0


def test_no_rows() -> None:
    assert matcher(QUESTION, "gull").match({}) == ({}, {})


def test_japanese() -> None:
    question = "潮見塔を建てた人は誰か。"
    rows = ["潮見塔は鴨居蓮が建てた。", "町の塔は古い。", "雨。"]
    window, phrase, clause, similar = (
        column(name, question, *rows) for name in ("window", "phrase", "clause", "similar")
    )
    for values in (window, phrase, clause, similar):
        assert values[0] == max(values) > values[2]
    assert phrase[1] == 0
    assert clause[0] == 1


ROWS = [
    "The gull sat on the pier.",
    "Built in 1890, Gull Pier is long; the builder built it of oak.",
    "A storm broke the harbour wall.",
    "組紐の工房 A棟",
    "",
    fillers(200) + " gull pier",
]


@pytest.mark.parametrize(
    "question", [QUESTION, "When was the Gull Pier built, and which storm broke the harbour wall?"]
)
def test_features_do_not_depend_on_the_other_rows_read(question: str) -> None:
    prepared = matcher(question, *ROWS)
    features, words = prepared.match(prepared.pool)
    for ids in (["1"], ["4"], ["5", "0", "2"], list(prepared.pool)[::-1]):
        some, some_words = prepared.match({id: prepared.pool[id] for id in ids})
        assert some.keys() == set(ids)
        for id in ids:
            assert some[id] == pytest.approx(features[id], abs=1e-6)
            assert some_words[id] == words[id]


def test_all_features_are_shares() -> None:
    prepared = matcher("When was the Gull Pier built, and which storm broke the harbour wall?", *ROWS)
    for values in prepared.match(prepared.pool)[0].values():
        assert all(0 <= value <= 1 + 1e-6 for value in values.values())
