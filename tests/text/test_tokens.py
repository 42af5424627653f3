"""text -> tokens: words, pairs of characters in unspaced scripts, and those that carry the meaning."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.tokens import content_tokens, hash_token, pack_tokens, subject_terms, tokenize


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


def test_token_numbers_are_stable_and_have_24_bits() -> None:
    assert (hash_token("pier"), hash_token("組紐")) == (16515293, 9704012), "stored in indexes: never change"
    packed = pack_tokens(["pier", "gull", "pier"])
    numbers = [int.from_bytes(packed[i : i + 3], "little") for i in range(0, len(packed), 3)]
    assert numbers == [hash_token(token) for token in ("pier", "gull", "pier")]
    assert pack_tokens([]) == b""


def test_token_numbers_rarely_collide() -> None:
    tokens = [f"w{i}" for i in range(20_000)]
    assert len({hash_token(token) for token in tokens}) >= len(tokens) - 40


def test_endings_count_only_without_other_words() -> None:
    assert subject_terms("The mason's letter, and they've sealed it") == ["mason", "letter", "seal"]
    assert subject_terms("It'll Be Me") == ["ll"], "distinguishes a name from common words"
    assert subject_terms("What is it?") == []
