"""text -> tokens: words, pairs of characters in unspaced scripts, and those that carry the meaning."""

from __future__ import annotations

from unicodedata import category

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.tokens import content_tokens, hash_token, pack_tokens, subject_terms, tokenize, word_tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("… — 🚢 _ .", []),
        ("The Sea", ["the", "sea"]),
        ("ＳＥＡ ﬁsh", ["sea", "fish"]),
        ("Café NAÏVE cafe\u0301", ["cafe", "naive", "cafe"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("don't e-mail", ["don", "t", "e", "mail"]),
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
        ("ที่ดิน", ["ที่ดิ", "ดิน"]),
        ("ลาว ລາວ", ["ลา", "าว", "ລາ", "າວ"]),
        ("Привет мир", ["привет", "мир"]),
    ],
)
def test_tokens(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("İstanbul", "istanbul"),
        ("q\u0303x", "qx"),
        ("break\u00adwater", "breakwater"),
        ("مُحَمَّد", "محمد"),
        ("مـحـمـد", "محمد"),
        ("שָׁלוֹם", "שלום"),
        ("Ո՞ւր", "Ուր"),
        ("ខ្ញុំ\u200bទៅ\u200bផ្សារ", "ខ្ញុំទៅផ្សារ"),
        ("葛\U000e0100城市", "葛城市"),
        ("\u200eboat\u200f", "boat"),
    ],
)
def test_marks_and_invisible_characters_do_not_split_words(text: str, same: str) -> None:
    assert tokenize(text) == tokenize(same)


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी भाषा",
        "বাংলা ভাষা",
        "தமிழ் மொழி",
        "తెలుగు భాష",
        "ಕನ್ನಡ ಭಾಷೆ",
        "മലയാളം ഭാഷ",
        "ગુજરાતી ભાષા",
        "ਪੰਜਾਬੀ ਭਾਸ਼ਾ",
        "ଓଡ଼ିଆ ଭାଷା",
        "සිංහල භාෂාව",
        "ދިވެހި ބަސް",
        "ᠮᠣᠩᠭᠣᠯ ᠬᠡᠯᠡ",
    ],
)
def test_vowel_signs_stay_in_spaced_words(text: str) -> None:
    assert len(tokenize(text)) == 2
    assert all(len(token) > 1 for token in tokenize(text))


def test_signs_that_tell_words_apart_stay() -> None:
    assert tokenize("ธรรม ธรณ์") != tokenize("ธรม ธรณ")
    assert tokenize("कर्म") != tokenize("करम"), "a virama is no accent"


@pytest.mark.parametrize("text", ["ประเทศที่ใหญ่", "ປະເທດທີ່ໃຫຍ່", "ប្រទេសធំជាងគេ", "နိုင်ငံအကြီးဆုံး", "ꦧꦱꦗꦮꦶꦏꦶ"])
def test_no_token_begins_with_a_mark(text: str) -> None:
    tokens = tokenize(text)
    assert len(tokens) > 1
    assert not [token for token in tokens if category(token[0]).startswith("M")]
    assert set("".join(tokens)) == set(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("getUserById", ["getuserbyid", "get", "user", "by", "id"]),
        ("HTTPServer parse", ["httpserver", "parse", "http", "server"]),
        ("get_user_id", ["get", "user", "id", "getuserid"]),
        ("PPR-1087", ["ppr", "1087", "ppr1087"]),
        ("COVID‑19 ward", ["covid", "19", "ward", "covid19"]),
        ("2026-05-01", ["2026", "05", "01"]),
        ("well-known", ["well", "known"]),
        ("GPUs iPhone PhD", ["gpu", "iphone", "phd"]),
        ("C++ and C#, F#.", ["c++", "and", "c#", "f#"]),
        (".NET (.NET)", [".net", ".net", "net", "net"]),
        ("C++17 Notepad++", ["c++", "17", "notepad++", "notepad"]),
        ("C++言語とC#入門", ["c++", "言語", "語と", "c#", "入門"]),
        ("3+ .5 a+b x#1 ... end.Start", ["3", "5", "a", "b", "x", "1", "end", "start"]),
    ],
)
def test_names_of_programmers_keep_signs_and_have_parts(text: str, expected: list[str]) -> None:
    assert tokenize(text) == expected


def test_word_tokens_follow_each_other_as_the_words_do() -> None:
    assert word_tokens("the McDonald house of PPR-1087") == ["the", "mcdonald", "house", "of", "ppr", "1087"]


def test_content_tokens() -> None:
    assert content_tokens("Who mended the breakwater, and who paid for the Breakwater?") == [
        "mend",
        "breakwater",
        "paid",
    ]
    assert content_tokens("Who was it?") == ["who", "was", "it"]
    assert content_tokens("🚢") == []


@given(st.text())
def test_tokens_have_no_spaces(text: str) -> None:
    assert all(token and not set(token) & set("\"'*()^:- \n\0") for token in tokenize(text))


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


@pytest.mark.parametrize("text", ["ตลาดอยู่ที่ไหน", "ຕະຫຼາດຢູ່ໃສ", "ផ្សារនៅឯណា", "ဈေးဘယ်မှာလဲ"])
def test_subject_terms_of_scripts_without_spaces_are_found_in_other_sentences(text: str) -> None:
    word = text[:4]
    assert set(subject_terms(text)) & set(subject_terms(f"{word}{word}"))


def test_subject_terms_keep_signs() -> None:
    assert subject_terms("Which compilers know C#?") == ["compiler", "c#"]
    assert subject_terms("यह हिन्दी है") == ["यह", "हिन्दी", "है"]
