"""table -> full-text index: what a word is, BM25 by hand, rows that come and go, questions nobody should ask."""

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
    made = Notes(folder, lambda db: KeywordIndex(db, "notes", codec(Note)), SqliteKeywordSearch)
    if texts is not None:
        made.build(texts)
    return made


# -- words


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
def test_the_words_of_a_text(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [("İstanbul", "istanbul"), ("q\u0303x", "qx"), ("break\u00adwater", "breakwater"), ("مُحَمَّد", "محمد")],
)
def test_marks_do_not_cut_a_word(text: str, same: str) -> None:

    assert tokenize(text) == tokenize(same)


def test_a_script_whose_vowels_are_marks_has_words() -> None:

    assert len(tokenize("हिन्दी भाषा")) == 2


def test_what_a_text_is_about() -> None:
    assert content_tokens("Who mended the breakwater, and who paid for the Breakwater?") == [
        "mend",
        "breakwater",
        "paid",
    ]
    assert content_tokens("Who was it?") == ["who", "was", "it"]
    assert content_tokens("🚢") == []


@given(st.text())
def test_words_hold_nothing_that_a_query_could_stumble_over(text: str) -> None:
    assert all(token and not set(token) & set("\"'*()^:-+ \0") for token in tokenize(text))


# -- ranking


def close(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    return [(id, round(score, 9)) for id, score in found] == [(id, round(score, 9)) for id, score in expected]


def test_scores_are_bm25(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea sea sky", "b": "sky sun moon star rain", "c": "fog", "d": "dew"})

    def bm25(frequency: int, length: int, rows: int) -> float:
        """k1 = 1.2, b = .75; 4 rows of 10 words."""
        idf = log((4 - rows + 0.5) / (rows + 0.5))
        return idf * frequency * 2.2 / (frequency + 1.2 * (1 - 0.75 + 0.75 * length / (10 / 4)))

    a, b, c = bm25(2, 3, 1), bm25(1, 5, 1), bm25(1, 1, 1)
    assert close(made.found("sea"), [("a", a)])
    assert close(made.found("the sun and the fog"), [("c", c), ("b", b)])
    assert close(made.found("sea fog moon moon"), [("c", c), ("a", a), ("b", b)])
    made.store.close()


def test_equals_come_in_the_order_of_ids_beyond_any_limit(tmp_path: Path) -> None:
    ids = [f"{i * 7919 % 500:03d}" for i in range(500)]  # mixed up
    made = notes(tmp_path, {})
    made.build({**{id: "the same sea" for id in ids}, "x": "sky"})  # in this order
    assert made.ids("sea", k=7) == sorted(ids)[:7]
    assert made.ids("sea", k=499) == sorted(ids)[:499]
    assert len({score for _, score in made.found("sea", k=500)}) == 1
    made.store.close()


def test_only_so_many_are_found(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sea sky sun", "c": "fog"})
    assert made.ids("sea", k=1) == ["a"]
    assert made.ids("sea", k=99) == ["a", "b"]
    assert made.ids("sea", k=0) == made.ids("sea", k=-1) == []
    made.store.close()


def test_a_filter_takes_rows_out_before_they_are_counted(tmp_path: Path) -> None:
    random = Random(7)
    words = "sea sky sun fog dew ice rain".split()  # noqa: SIM905
    texts = {f"n{i:03d}": " ".join(random.choices(words, k=random.randint(1, 5))) for i in range(400)}
    made = notes(tmp_path, texts)
    everything = made.found("sea fog", k=400)
    for _ in range(60):
        kept = set(random.sample(sorted(texts), random.choice([0, 1, 5, 60, 399, 400])))
        k = random.choice([1, 2, 10, 100, 500])
        found, _ = made.filtered("sea fog", k, kept)
        assert found == [(id, score) for id, score in everything if id in kept][:k]
    made.store.close()


def test_no_more_rows_are_looked_at_than_it_takes(tmp_path: Path) -> None:
    made = notes(tmp_path, {f"n{i:04d}": "sea " * (1 + i % 50) + f"x{i}" for i in range(2000)})
    assert made.filtered("sea", 5, {f"n{i:04d}" for i in range(2000)})[1] < 300  # the best and their equals
    assert made.filtered("sea", 5, set()) == ([], 20 + 2000), "the first few do not suffice"
    made.store.close()


def test_texts_without_spaces_are_found_by_pairs(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "組紐の工房は港にある。", "b": "工場の紐を組む。", "c": "我们去港口。"})
    assert made.ids("組紐の工房")[0] == "a"
    assert made.ids("組紐") == ["a"]
    assert made.ids("港口") == ["c"]
    made.store.close()


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
    made = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    assert made.ids(question) == []
    assert made.ids(f"{question} sea") == ["a"]
    assert made.ids("\ud800 sea \udfff") == ["a"]
    made.store.close()


def test_words_that_a_query_language_keeps_for_itself_are_found(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "near or far", "b": "NOT now", "c": "fog", "d": "dew", "e": "ice"})
    assert made.ids("NEAR") == ["a"]
    assert made.ids("not") == ["b"]
    made.store.close()


def test_a_very_long_question_is_answered(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    began = perf_counter()
    assert made.ids(" ".join(f"w{i}" for i in range(5_000)) + " sea") == ["a"]
    assert made.ids("海" * 50_000 + " sea") == ["a"]
    assert made.ids("x" * 100_000 + " sea") == ["a"]
    assert perf_counter() - began < 5
    made.store.close()


# -- rows that come and go


def test_what_is_taken_out_leaves_no_trace(tmp_path: Path) -> None:
    before = {"a": "sea sky", "b": "sea sun sun", "c": "fog fog fog", "d": "the sea 港 and the fog"}
    after = {"b": "sun", "d": "the sea 港 and the fog", "e": "sea"}
    changed, fresh = notes(tmp_path / "changed", before), notes(tmp_path / "fresh", after)
    changed.build(after)
    assert changed.filled == [True, False]
    for question in ("sea", "fog", "sun", "sky", "港", "sea fog sun"):
        assert changed.found(question) == fresh.found(question)  # and so rows, words and lengths are counted alike
    assert changed.ids("sky") == []
    changed.build({})
    assert changed.ids("sea fog sun") == []
    changed.store.close()
    fresh.store.close()


def test_a_row_that_comes_back_is_found_again(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    before = made.found("sea")
    made.build({"b": "sky", "c": "fog"})
    assert made.found("sea") == []
    made.build({"a": "sea", "b": "sky", "c": "fog"})
    assert made.found("sea") == before
    made.store.close()


def test_a_row_that_is_found_by_the_same_text_stays_where_it_is(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky"})
    made.build({"a": "Sea!", "b": "sky"}, pages=7)
    with made.store.read_transaction() as db:
        assert db.all("SELECT slot, id FROM words_notes_ids ORDER BY slot") == [(1, "a"), (2, "b")]
    made.store.close()


def test_a_reader_searches_its_own_build(tmp_path: Path) -> None:
    made = notes(tmp_path, {"a": "sea", "b": "sky", "c": "fog"})
    with made.searching() as early:
        before = early("sea", 9)
        made.build({"b": "sea", "c": "fog", "d": "dew"})
        assert early("sea", 9) == before
    assert made.ids("sea") == ["b"]
    made.store.close()


def test_other_code_makes_it_anew(tmp_path: Path) -> None:
    texts = {"a": "sea", "b": "sky", "c": "fog"}
    made = notes(tmp_path, texts)
    before = made.found("sea")
    made.build(texts)
    made.build(texts, fingerprint="2")
    made.build(texts, fingerprint="2")
    assert made.filled == [True, False, True, False]
    assert made.found("sea") == before
    made.store.close()


def test_a_table_that_is_not_indexed_says_how_to(tmp_path: Path) -> None:
    made = notes(tmp_path)
    with made.store.write_transaction():
        pass
    with pytest.raises(IndexUnavailable) as refused:
        made.found("sea")
    assert str(refused.value) == "notes is not indexed by words: `kumi index --methods bm25` does that"
    made.store.close()


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
def test_the_words_of_a_question_that_a_text_has(text: str) -> None:
    for question in ("組紐は2010年 A棟", "東京のタワー cafe abcd", "第１回 2000年", "ferry ab 年 한국 ไท", "の", ""):
        asked = frozenset(tokenize(question))
        assert find_tokens(text, asked) == asked.intersection(tokenize(text))


def test_endings_say_something_where_nothing_else_does() -> None:
    assert subject_terms("The mason's letter, and they've sealed it") == ["mason", "letter", "seal"]
    assert subject_terms("It'll Be Me") == ["ll"], "a name is told from common words by this"
    assert subject_terms("What is it?") == []
