"""Questions in three languages -> whether they ask across the documents, and of what."""

from __future__ import annotations

from pathlib import Path

import pytest

from kumihimo.methods.braid.query_type import contains_name, extract_topic, is_broad
from kumihimo.text.tokens import subject_terms

GOLDEN = Path(__file__).parents[1] / "golden"
ASKED = [line.split("\t") for line in (GOLDEN / "broad.tsv").read_text(encoding="utf-8").splitlines()]
OTHERS = [line.split("\t") for line in (GOLDEN / "whole.tsv").read_text(encoding="utf-8").splitlines()]
OF_GUESTS = "What do guests say of machine learning?"  # one for the whole, yet one that asks across the documents


@pytest.mark.parametrize(("kind", "question"), ASKED)
def test_what_asks_across_the_documents_is_told(kind: str, question: str) -> None:
    assert is_broad(question) is (kind == "broad")
    assert kind != "broad" or subject_terms(extract_topic(question))


@pytest.mark.parametrize("question", [question for kind, question in OTHERS if kind == "one"])
def test_what_asks_of_one_thing_does_not(question: str) -> None:
    assert is_broad(question) is (question == OF_GUESTS)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What do guests say of Tess Moll?", True),
        ("What do guests say of 2019?", True),
        ("What do guests say of AI, VR and APIs?", False),
        ("What would I ask them? Do guests talk of tides?", False),
    ],
)
def test_a_name_is_a_capital_within_a_sentence(question: str, named: bool) -> None:
    assert contains_name(question) is named


@pytest.mark.parametrize(
    "question",
    [
        "ゲストは田中さんをどう語っていますか。",
        "エピソードでは「潮返し」をどう語っていますか。",
        "嘉宾们如何看待《红楼梦》？",
    ],
)
def test_names_in_japanese_and_chinese_as_far_as_marks_tell(question: str) -> None:
    assert not is_broad(question)


def test_the_topic_is_what_is_left() -> None:
    assert extract_topic("How often do the guests disagree about trade secrets?") == "trade secrets?"
    assert extract_topic("What do guests typically recommend?") == ""
    assert subject_terms(extract_topic("話し手は人工知能の危険をどう見ていますか。")) == [
        "人工",
        "工知",
        "知能",
        "危険",
    ]
