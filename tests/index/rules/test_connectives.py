"""Two adjacent texts -> the sense of a connective, and the text in Arg1."""

from __future__ import annotations

import pytest

from kumihimo.core.records import Passage
from kumihimo.index.pdtb_senses import leaf_sense_labels
from kumihimo.index.rules.connectives import (
    ALONE_CONFIDENCE,
    INSIDE_CONFIDENCE,
    SPLIT_CONFIDENCE,
    START_CONFIDENCE,
    _load_connectives,
    find_explicit_relation,
    link_passages,
)
from tests.counters import check_linear


@pytest.mark.parametrize(
    ("later", "sense"),
    [
        ("Therefore the ferry waited.", "result"),
        ("So the ferry waited.", "result"),
        ("This is because the tide had turned.", "reason"),
        ("However, Ada left.", "juxtaposition"),
        ("But Ada left.", "juxtaposition"),
        ("Nevertheless she left.", "contra-expectation"),
        ("For example, the Tern.", "instantiation"),
        ("Then it left.", "precedence"),
        ("Meanwhile, Ada slept.", "synchronous"),
        ("Instead it stayed.", "chosen alternative"),
        ("In  addition\nthere is a mill.", "conjunction"),
        ("Similarly, the mill burnt.", "conjunction"),
        ("Specifically, at nine.", "specification"),
        ("- “However, it left.”", "juxtaposition"),
        ("なぜなら、潮が引いていたからだ。", "reason"),
        ("したがって船は遅れた。", "result"),
        ("だから遅れた。", "result"),
        ("しかし、船は出た。", "contra-expectation"),
        ("「しかし船は出た。」", "contra-expectation"),
        ("例えば漁船だ。", "instantiation"),
        ("また、水車も燃えた。", "conjunction"),
        ("一方、水車は残った。", "juxtaposition"),
        ("つまり遅刻だ。", "equivalence"),
        ("その後、船は出た。", "precedence"),
        ("这是因为下雨。", "reason"),
        ("所以船晚了。", "result"),
        ("但是船走了。", "contra-expectation"),
        ("例如，渔船。", "instantiation"),
        ("而且磨坊也烧了。", "progression"),
        ("与此同时，她睡着了。", "synchronous"),
        ("總之，船晚了。", "generalization"),
    ],
)
def test_what_a_sentence_begins_with(later: str, sense: str) -> None:
    for earlier in ("The tide had turned.", "潮が引いた。", "退潮了。", "# A heading", ""):
        assert find_explicit_relation(earlier, later) == (sense, True, START_CONFIDENCE)


@pytest.mark.parametrize(
    "later",
    [
        "Butter is good.", "So far, nobody came.", "Sofas are sold.", "Then-president Ada left.", "Andrew left.",
        "The mill burnt.", "Because the tide had turned, the ferry waited.", "If it rains, it waits.",
        "Or so they say.", "Second World War ships.", "The ferry, but not Ada, left.", "He said so, then left.",
        "またぐのは難しい。", "一方的な話だ。", "もし雨なら、船は遅れる。", "結果は良い。", "はじめに。",
        "因为下雨，所以船晚了。", "结果显示船晚了。", "但丁写了诗。", "", "\u200b", "🙂" * 50, "。", "---", "1. ",
    ],
)  # fmt: skip
def test_a_look_alike_of_a_connective_marks_nothing(later: str) -> None:
    assert find_explicit_relation("The tide had turned.", later) is None


def test_what_came_before_may_be_the_condition() -> None:
    assert find_explicit_relation("It may rain.", "In that case the ferry waits.") == (
        "hypothetical",
        False,
        START_CONFIDENCE,
    )
    assert find_explicit_relation("雨かもしれない。", "その場合、船は待つ。") == (
        "hypothetical",
        False,
        START_CONFIDENCE,
    )


@pytest.mark.parametrize(
    ("earlier", "later", "sense", "forward"),
    [
        ("The ferry waited", "because the tide had turned.", "reason", True),
        ("The ferry waited,", "although nobody came.", "expectation", True),
        ("The ferry waited,", "but nobody came.", "juxtaposition", True),
        ("Nobody came. Because the tide had turned,", "the ferry waited.", "reason", False),
        ("If it rains,", "then the ferry waits.", "hypothetical", False),
        ("潮が引いていたので、", "船は遅れた。", "reason", False),
        ("晴れたら、", "船は出る。", "hypothetical", False),
        ("もし雨が降る日に風も強い、", "船は出ない。", "hypothetical", False),
        ("因为下雨，", "所以船晚了。", "reason", False),
        ("船晚了，", "因为下雨。", "reason", True),
        ("如果下雨，", "船就晚。", "hypothetical", False),
    ],
)
def test_two_halves_of_a_sentence(earlier: str, later: str, sense: str, forward: bool) -> None:
    assert find_explicit_relation(earlier, later) == (sense, forward, SPLIT_CONFIDENCE)


def test_a_conjunction_alone_is_less_sure() -> None:
    assert find_explicit_relation("The ferry waited.", "Because the tide had turned.") == (
        "reason",
        True,
        ALONE_CONFIDENCE,
    )
    assert find_explicit_relation("船は遅れた。", "もし雨なら。") == ("hypothetical", True, ALONE_CONFIDENCE)
    assert find_explicit_relation("船晚了。", "因为下雨。") == ("reason", True, ALONE_CONFIDENCE)


def test_a_connective_within_a_sentence_is_less_sure() -> None:
    assert find_explicit_relation("Ada left.", "The ferry, however, stayed.") == (
        "juxtaposition",
        True,
        INSIDE_CONFIDENCE,
    )
    assert find_explicit_relation("It rained.", "The ferry, therefore, stayed.") == ("result", True, INSIDE_CONFIDENCE)
    assert find_explicit_relation("彼女は去った。", "船は、しかし、残った。") == (
        "contra-expectation",
        True,
        INSIDE_CONFIDENCE,
    )
    assert find_explicit_relation("下雨了。", "船晚了，因此，她走了。") is None
    assert find_explicit_relation("It rained.", "Ada left. The ferry, however, stayed.") is None, "that ties it to Ada"
    assert START_CONFIDENCE > SPLIT_CONFIDENCE > INSIDE_CONFIDENCE > ALONE_CONFIDENCE


def test_every_sense_of_the_table_is_one() -> None:
    assert {word.sense for word in _load_connectives()} <= {*leaf_sense_labels(), ""}
    assert all(not word.sense for word in _load_connectives() if word.kind == "other")
    assert {word.language for word in _load_connectives()} == {"English", "Japanese", "Chinese"}


def passage(id: str, text: str) -> Passage:
    return Passage("c", 0, len(text), 1, id=id, text=text)


def test_only_of_passages_that_follow_each_other() -> None:
    a, b, c = passage("a", "It rained."), passage("b", "Because it rained,"), passage("c", "so the ferry waited.")
    relations = list(link_passages([(a, b), (a, c), (b, c)]))
    assert [(link.first, link.second, link.text, link.confidence) for link in relations] == [
        ("c", "b", "reason", SPLIT_CONFIDENCE)
    ]


@pytest.mark.parametrize(
    ("piece", "end"), [("because ", ""), ("a, ", ""), ("「", ""), (" ", "so"), ("し", ""), ("-", "")]
)
def test_work_grows_with_the_text(piece: str, end: str) -> None:
    check_linear(lambda text: find_explicit_relation(text + end, text + end), piece)
