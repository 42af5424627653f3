"""questions in three languages -> whether they are broad, and their topic."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.text.question import ParsedQuestion
from kumihimo.text.question_types import extract_topic, question_pattern
from kumihimo.text.tokens import subject_terms

GOLDEN = Path(__file__).parents[1] / "golden"
QUERY_TYPES = [line.split("\t") for line in (GOLDEN / "broad.tsv").read_text(encoding="utf-8").splitlines()]
CORPUS_LEVEL = [line.split("\t") for line in (GOLDEN / "whole.tsv").read_text(encoding="utf-8").splitlines()]
BROAD_BUT_NOT_CORPUS = "What do guests say of machine learning?"  # not corpus-level, but broad


@pytest.mark.parametrize(("kind", "question"), QUERY_TYPES)
def test_broad_questions_are_detected(kind: str, question: str) -> None:
    assert ParsedQuestion(question).is_broad is (kind == "broad")
    assert kind != "broad" or subject_terms(extract_topic(question))


@pytest.mark.parametrize(("kind", "question"), CORPUS_LEVEL)
def test_corpus_level_questions_are_detected(kind: str, question: str) -> None:
    assert (not ParsedQuestion(question).corpus_terms) == (kind == "whole")


@pytest.mark.parametrize("question", [question for kind, question in CORPUS_LEVEL if kind == "one"])
def test_specific_questions_are_not_broad(question: str) -> None:
    assert ParsedQuestion(question).is_broad is (question == BROAD_BUT_NOT_CORPUS)


@pytest.mark.parametrize(
    ("question", "has_name"),
    [
        ("What do guests say of Tess Moll?", True),
        ("What do guests say of 2019?", True),
        ("What do guests say of AI, VR and APIs?", False),
        ("What would they ask them? Do guests talk of tides?", False),
    ],
)
def test_a_question_with_a_name_is_not_broad(question: str, has_name: bool) -> None:
    assert ParsedQuestion(question).is_broad is not has_name


@pytest.mark.parametrize(
    "question",
    [
        "ゲストは田中さんをどう語っていますか。",
        "エピソードでは「潮返し」をどう語っていますか。",
        "嘉宾们如何看待《红楼梦》？",
    ],
)
def test_quoted_names_in_japanese_and_chinese(question: str) -> None:
    assert not ParsedQuestion(question).is_broad


def test_topic_is_the_rest_of_the_question() -> None:
    assert extract_topic("How often do the guests disagree about trade secrets?") == "trade secrets?"
    assert extract_topic("What do guests typically recommend?") == ""
    assert subject_terms(extract_topic("話し手は人工知能の危険をどう見ていますか。")) == [
        "人工",
        "工知",
        "知能",
        "危険",
    ]


@pytest.mark.parametrize("kind", ["whole", "one"])
def test_questions_have_content_words(kind: str) -> None:
    assert [
        question for each, question in CORPUS_LEVEL if each == kind and not ParsedQuestion(question).has_content
    ] == []


@pytest.mark.parametrize(
    "question",
    [
        "What's that?",
        "Why?",
        "、。",
        "の は が を",
        "これらは何ですか",
        "それはなぜでしょうか",
        "何",
        "那个呢？",
        "为什么？",
    ],
)
def test_function_words_alone(question: str) -> None:
    assert not ParsedQuestion(question).has_content


@pytest.mark.parametrize(
    "question",
    [
        "What is this about?",
        "42",
        "c",
        "Who are the Who?",
        "はなは？",
        "まとめて",
        "何年ですか",
        "花は？",
        "他的家",
        "どんな話ですか",
    ],
)
def test_content_words(question: str) -> None:
    assert ParsedQuestion(question).has_content


@pytest.mark.parametrize("question", [question for kind, question in CORPUS_LEVEL if kind == "whole"])
def test_a_question_on_the_whole_corpus_is_read_widely(question: str) -> None:
    assert ParsedQuestion(question).is_on_all
    assert ParsedQuestion(question).wide_topic == ""


@pytest.mark.parametrize("name", ["cjk function", "cjk corpus", "cjk generic"])
def test_patterns_of_japanese_and_chinese_match_nothing_in_ascii(name: str) -> None:
    """So they are not compiled for an ASCII question."""
    assert not question_pattern(name).search(
        "".join(map(chr, range(128))) + " ".join(q for _, q in QUERY_TYPES if q.isascii())
    )
