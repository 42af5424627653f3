"""table -> full-text index: tokens, BM25 by hand, changing rows, hostile questions."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from pathlib import Path
from random import Random
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.core.errors import IndexUnavailable
from kumihimo.core.table import codec
from kumihimo.search.fulltext import KeywordIndex, SqliteKeywordSearch
from kumihimo.text.tokens import content_tokens, find_tokens, subject_terms, tokenize
from tests.search.factories_search_index import Note, Notes


def notes(folder: Path, texts: Mapping[str, str] | None = None) -> Notes:
    index = Notes(folder, lambda db: KeywordIndex(db, "notes", codec(Note)), SqliteKeywordSearch)
    if texts is not None:
        index.build(texts)
    return index


# -- tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("… — 🚢 _ .", []),
        ("The Sea", ["the", "sea"]),
        ("ＳＥＡ ﬁsh", ["sea", "fish"]),
        ("Café NAÏVE cafe\u0301", ["cafe", "naive", "cafe"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("snake_case don't e-mail", ["snake", "case", "don", "t", "e", "mail"]),
        ("ferries boats classes mending mended", ["ferry", "boat", "class", "mend", "mend"]),
        ("is as bus pass sing red yes", ["is", "as", "bus", "pass", "sing", "red", "yes"]),
        ("v2.0 1,000", ["v2", "0", "1", "000"]),
        ("組紐の工房", ["組紐", "紐の", "の工", "工房"]),
        ("港", ["港"]),
        ("港A棟", ["港", "a", "棟"]),
        ("ﾊﾝｶｸ", ["ハン", "ンカ", "カク"]),
        ("한국어", ["한국", "국어"]),
        ("我们去", ["我们", "们去"]),
        ("ไทย", ["ไท", "ทย"]),
        ("Привет мир", ["привет", "мир"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [("İstanbul", "istanbul"), ("q\u0303x", "qx"), ("break\u00adwater", "breakwater"), ("مُحَمَّد", "محمد")],
)
def test_combining_marks_do_not_split_words(text: str, same: str) -> None:

    assert tokenize(text) == tokenize(same)


def test_scripts_with_vowel_signs_have_words() -> None:

    assert len(tokenize("हिन्दी भाषा")) == 2


def test_content_tokens() -> None:
    assert content_tokens("Who mended the breakwater, and who paid for the Breakwater?") == [
        "mend",
        "breakwater",
        "paid",
    ]
    assert content_tokens("Who was it?") == ["who", "was", "it"]
    assert content_tokens("🚢") == []


@given(st.text())
def test_tokens_have_no_query_syntax(text: str) -> None:
    assert all(token and not set(token) & set("\"'*()^:-+ \0") for token in tokenize(text))


# -- ranking


def close(hits: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    return [(id, round(score, 9)) for id, score in hits] == [(id, round(score, 9)) for id, score in expected]


def test_scores_are_bm25(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea sea sky", "b": "sky sun moon star rain", "c": "fog", "d": "dew"})

    def bm25(frequency: int, length: int, rows: int) -> float:
        """Return the BM25 score: k1 = 1.2, b = .75, 4 rows with 10 words in total."""
        idf = log((4 - rows + 0.5) / (rows + 0.5))
        return idf * frequency * 2.2 / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / (10 / 4)))

    a, b, c = bm25(2, 3, 1), bm25(1, 5, 1), bm25(1, 1, 1)
    assert close(index.search_notes("sea"), [("a", a)])
    assert close(index.search_notes("the sun and the fog"), [("c", c), ("b", b)])
    assert close(index.search_notes("sea fog moon moon"), [("c", c), ("a", a), ("b", b)])
    index.store.close()


def test_ties_are_sorted_by_id_beyond_any_limit(tmp_path: Path) -> None:
    ids = [f"{i * 7919 % 500:03d}" for i in range(500)]  # shuffled
    index = notes(tmp_path, {})
    index.build({**{id: "the same sea" for id in ids}, "x": "sky"})  # inserted in this order
    assert index.ids("sea", k=7) == sorted(ids)[:7]
    assert index.ids("sea", k=499) == sorted(ids)[:499]
    assert len({score for _, score in index.search_notes("sea", k=500)}) == 1
    index.store.close()


def test_k_limits_the_results(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sea sky sun", "c": "fog"})
    assert index.ids("sea", k=1) == ["a"]
    assert index.ids("sea", k=99) == ["a", "b"]
    assert index.ids("sea", k=0) == index.ids("sea", k=-1) == []
    index.store.close()


def test_filter_applies_before_the_limit(tmp_path: Path) -> None:
    random = Random(7)
    words = "sea sky sun fog dew ice rain".split()  # noqa: SIM905
    texts = {f"n{i:03d}": " ".join(random.choices(words, k=random.randint(1, 5))) for i in range(400)}
    index = notes(tmp_path, texts)
    everything = index.search_notes("sea fog", k=400)
    for _ in range(60):
        visible = set(random.sample(sorted(texts), random.choice([0, 1, 5, 60, 399, 400])))
        k = random.choice([1, 2, 10, 100, 500])
        hits, _ = index.filtered("sea fog", k, visible)
        assert hits == [(id, score) for id, score in everything if id in visible][:k]
    index.store.close()


def test_no_more_rows_are_checked_than_necessary(tmp_path: Path) -> None:
    index = notes(tmp_path, {f"n{i:04d}": "sea " * (1 + i % 50) + f"x{i}" for i in range(2000)})
    assert index.filtered("sea", 5, {f"n{i:04d}" for i in range(2000)})[1] < 300  # the best rows and their ties
    assert index.filtered("sea", 5, set()) == ([], 20 + 2000), "the first query finds no visible row"
    index.store.close()


def test_unspaced_texts_are_found_by_pairs(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "組紐の工房は港にある。", "b": "工場の紐を組む。", "c": "我们去港口。"})
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
    index = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    assert index.ids(question) == []
    assert index.ids(f"{question} sea") == ["a"]
    assert index.ids("\ud800 sea \udfff") == ["a"]
    index.store.close()


def test_query_keywords_are_found_as_words(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "near or far", "b": "NOT now", "c": "fog", "d": "dew", "e": "ice"})
    assert index.ids("NEAR") == ["a"]
    assert index.ids("not") == ["b"]
    index.store.close()


def test_a_very_long_question_is_answered(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    start = perf_counter()
    assert index.ids(" ".join(f"w{i}" for i in range(5_000)) + " sea") == ["a"]
    assert index.ids("海" * 50_000 + " sea") == ["a"]
    assert index.ids("x" * 100_000 + " sea") == ["a"]
    assert perf_counter() - start < 5
    index.store.close()


# -- changing rows


def test_removed_rows_leave_no_trace(tmp_path: Path) -> None:
    before = {"a": "sea sky", "b": "sea sun sun", "c": "fog fog fog", "d": "the sea 港 and the fog"}
    after = {"b": "sun", "d": "the sea 港 and the fog", "e": "sea"}
    changed, fresh = notes(tmp_path / "changed", before), notes(tmp_path / "fresh", after)
    changed.build(after)
    assert changed.was_empty == [True, False]
    for question in ("sea", "fog", "sun", "sky", "港", "sea fog sun"):
        assert changed.search_notes(question) == fresh.search_notes(
            question
        )  # equal scores: the statistics are equal, too
    assert changed.ids("sky") == []
    changed.build({})
    assert changed.ids("sea fog sun") == []
    changed.store.close()
    fresh.store.close()


def test_row_that_returns_is_found_again(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    before = index.search_notes("sea")
    index.build({"b": "sky", "c": "fog"})
    assert index.search_notes("sea") == []
    index.build({"a": "sea", "b": "sky", "c": "fog"})
    assert index.search_notes("sea") == before
    index.store.close()


def test_row_with_unchanged_tokens_keeps_its_slot(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky"})
    index.build({"a": "Sea!", "b": "sky"}, pages=7)
    with index.store.read_transaction() as db:
        assert db.all("SELECT slot, id FROM words_notes_ids ORDER BY slot") == [(1, "a"), (2, "b")]
    index.store.close()


def test_a_reader_searches_its_own_build(tmp_path: Path) -> None:
    index = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    with index.open_search() as snapshot_search:
        before = snapshot_search("sea", 9)
        index.build({"b": "sea", "c": "fog", "d": "dew"})
        assert snapshot_search("sea", 9) == before
    assert index.ids("sea") == ["b"]
    index.store.close()


def test_other_fingerprint_rebuilds_the_index(tmp_path: Path) -> None:
    texts = {"a": "sea", "b": "sky", "c": "fog"}
    index = notes(tmp_path, texts)
    before = index.search_notes("sea")
    index.build(texts)
    index.build(texts, fingerprint="2")
    index.build(texts, fingerprint="2")
    assert index.was_empty == [True, False, True, False]
    assert index.search_notes("sea") == before
    index.store.close()


def test_missing_index_error_has_a_remedy(tmp_path: Path) -> None:
    index = notes(tmp_path)
    with index.store.write_transaction():
        pass
    with pytest.raises(IndexUnavailable) as error:
        index.search_notes("sea")
    assert str(error.value) == "notes is not indexed by words: `kumi index --methods bm25` does that"
    index.store.close()


@pytest.mark.parametrize(
    "text",
    [
        "組紐の工房A棟、2010年",
        "Café 東京タワー abc",
        "ナイト２０００ 第1回",
        "the ferries' café",
        "年",
        "한국어 ไทย",
        "",
    ],
)
def test_find_tokens_equals_tokenize(text: str) -> None:
    for question in ("組紐は2010年 A棟", "東京のタワー cafe abcd", "第１回 2000年", "ferry ab 年 한국 ไท", "の", ""):
        terms = frozenset(tokenize(question))
        assert find_tokens(text, terms) == terms.intersection(tokenize(text))


def test_endings_count_only_without_other_words() -> None:
    assert subject_terms("The mason's letter, and they've sealed it") == ["mason", "letter", "seal"]
    assert subject_terms("It'll Be Me") == ["ll"], "distinguishes a name from common words"
    assert subject_terms("What is it?") == []
