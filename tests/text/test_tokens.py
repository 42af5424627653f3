"""text -> tokens: words, pairs of characters in unspaced scripts, and those that carry the meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.text.tokens import content_tokens, find_tokens, subject_terms, tokenize


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
