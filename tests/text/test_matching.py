"""text + subject terms -> marked words, and snippets."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.tokens import mark_matches, snippet_at, subject_terms

PIER = "It was a calm day. Nobody spoke. The pier was mended in May by the crew of the Oriole. It rained."
JAPANESE = "雨が降った。" * 20 + "石工は翌年に防波堤を直した。" + "霧が出た。" * 20


def marked(text: str, question: str) -> list[str]:
    return [text[start:end] for start, end in mark_matches(text, subject_terms(question))]


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        ("Ferries leave the gate's end.", "Does the ferry leave a gate?", ["Ferries", "leave", "gate"]),
        ("The end of it.", "What is the purpose of it?", []),
        ("防波堤は長い。", "防波堤を直したのは誰ですか", ["防波堤"]),
        ("東京大学の門", "東京の門", ["東京", "門"]),
        ("Ｔｏｗｅｒ と ﾀﾜｰ", "tower タワー", ["Ｔｏｗｅｒ", "ﾀﾜｰ"]),
        ("Café in Oban", "cafe", ["Café"]),
    ],
)
def test_words_of_the_question_are_marked(text: str, question: str, expected: list[str]) -> None:
    assert marked(text, question) == expected


def test_a_snippet_is_where_most_different_words_are() -> None:
    text = "The pier. The pier. The pier. " + "Fog came. " * 20 + "Hild mended the pier. " + "Rain fell. " * 20
    start, end = snippet_at(text, subject_terms("Who mended the pier?"), 60)
    assert "Hild mended the pier." in text[start:end]


def test_a_snippet_is_whole_sentences_where_they_fit() -> None:
    start, end = snippet_at(JAPANESE, subject_terms("防波堤を直したのは誰"), 40)
    assert JAPANESE[start:end].startswith("石工は翌年に防波堤を直した。霧が出た。")
    assert JAPANESE[start:end].endswith("。")


def test_a_long_sentence_is_cut_between_words() -> None:
    text = "word " * 300 + "needle here " + "word " * 300
    start, end = snippet_at(text, ["needl"], 50)
    assert text[start:end].startswith("word ")
    assert "needle here word" in text[start:end]
    assert text[end] == " "


def test_a_short_text_is_its_own_snippet() -> None:
    assert snippet_at("\n So it is. ", ["x"], 50) == (2, 11)
    assert snippet_at("  ", ["x"], 1) == (2, 2)


@given(st.text(alphabet="ab c.\n防波堤。ー|#", max_size=200), st.integers(1, 60))
def test_a_snippet_is_within_its_size(text: str, size: int) -> None:
    start, end = snippet_at(text, subject_terms("ab 防波 c"), size)
    assert 0 <= start <= end <= len(text)
    assert end - start <= size
    assert (end > start) == bool(text.strip())
