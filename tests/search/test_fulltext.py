"""table -> full-text index: BM25 by hand, changing rows, hostile questions."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest

from tests.counters import check_linear, count_lines, stop_endless_work
from tests.search.factories_search_index import keyword_notes

# -- ranking


def close(hits: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    return [(id, round(score, 9)) for id, score in hits] == [(id, round(score, 9)) for id, score in expected]


def test_scores_are_bm25(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea sea sky", "b": "sky sun moon star rain", "c": "fog", "d": "dew"})

    def bm25(frequency: int, length: int, rows: int) -> float:
        """Return the BM25 score: k1 = 1.2, b = .75, 4 rows with 10 words in total."""
        idf = log((4 - rows + 0.5) / (rows + 0.5))
        return idf * frequency * 2.2 / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / (10 / 4)))

    a, b, c = bm25(2, 3, 1), bm25(1, 5, 1), bm25(1, 1, 1)
    assert close(index.search_notes("sea"), [("a", a)])
    assert close(index.search_notes("the sun and the fog"), [("c", c), ("b", b)])
    assert close(index.search_notes("sea fog moon moon"), [("c", c), ("a", a), ("b", b)])
    index.store.close()


def test_each_row_is_checked_once_per_build(tmp_path: Path) -> None:
    texts = {f"n{i:04d}": "sea " * (1 + i % 50) + f"x{i}" for i in range(2000)}
    index = keyword_notes(tmp_path, texts)
    checked: list[str] = []

    def passes(id: str) -> bool:
        checked.append(id)
        return id in visible

    visible = {"n0003", "n0005"}
    for _ in range(2):
        with index.open_search(passes) as search:
            assert [[id for id, _ in search("sea", k)] for k in (5, 1)] == [["n0005", "n0003"], ["n0005"]]
    assert len(checked) < len(texts) + 20  # and the rows that were read
    visible = {"n0004"}
    index.build(texts | {"n9999": "fog"})  # a new state of the index
    with index.open_search(passes) as search:
        assert [id for id, _ in search("sea", 5)] == ["n0004"]
    index.store.close()


def test_unspaced_texts_are_found_by_pairs(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "組紐の工房は港にある。", "b": "工場の紐を組む。", "c": "我们去港口。"})
    assert index.ids("組紐の工房")[0] == "a"
    assert index.ids("組紐") == ["a"]
    assert index.ids("港口") == ["c"]
    index.store.close()


@pytest.mark.parametrize(
    "question",
    [
        "",
        " ",
        '"',
        '""',
        "*",
        "NOT",
        "OR NOT",
        "AND",
        "NEAR(x, 2",
        "^",
        "-",
        "text:",
        "{",
        "🚢",
        "\0",
        "; DROP TABLE",
    ],
)
def test_a_hostile_question_is_no_error(tmp_path: Path, question: str) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    assert index.ids(question) == []
    assert index.ids(f"{question} sea") == ["a"]
    assert index.ids("\ud800 sea \udfff") == ["a"]
    index.store.close()


def test_query_keywords_are_found_as_words(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "near or far", "b": "NOT now", "c": "fog", "d": "dew", "e": "ice"})
    assert index.ids("NEAR") == ["a"]
    assert index.ids("not") == ["b"]
    index.store.close()


def test_a_very_long_question_is_answered(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})

    def ask(question: str) -> None:
        assert index.ids(f"{question} sea") == ["a"]

    def count(words: int) -> int:
        return count_lines(lambda: ask(" ".join(f"w{words}x{i}" for i in range(words))))

    for piece in "海x":
        check_linear(ask, piece)
    assert count(1000) < 5 * count(250)
    with stop_endless_work():
        ask(" ".join(f"w{i}" for i in range(50_000)))
    index.store.close()


# -- changing rows


def test_row_with_unchanged_tokens_keeps_its_slot(tmp_path: Path) -> None:
    index = keyword_notes(tmp_path, {"a": "sea", "b": "sky"})
    index.build({"a": "Sea!", "b": "sky"}, pages=7)
    with index.store.read_transaction() as db:
        assert db.all("SELECT slot, id FROM words_notes_ids ORDER BY slot") == [(1, "a"), (2, "b")]
    index.store.close()
