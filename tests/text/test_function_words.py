"""Gaps for the words of Japanese and Chinese that only carry grammar; everything else stays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from kumihimo.text.function_words import cut_function_words
from kumihimo.text.tokens import content_tokens


@pytest.mark.parametrize(
    ("question", "absent", "present"),
    [
        ("この図書館が抱えている主な課題は何ですか。", "てい いる です すか", "図書 書館 抱え 課題"),
        ("会費はどのように決まりますか。", "どの よう うに ます すか", "会費 決ま"),
        ("お金のことで困っているのはどんな人ですか。", "こと てい いる のは んな です", "お金 困っ"),
        ("PTAについて教えてください。", "つい いて くだ さい", "pta 教え"),
        ("今後の予定はどうなるのでしょうか。", "どう うな なる ので でし うか", "今後 予定"),
        ("这家医院现在有什么困难？", "现在 有什 什么", "医院 困难"),
        ("他們為什麼反對漲價？", "他們 什麼", "反對 漲價"),
    ],
)
def test_function_words_are_not_searched(question: str, absent: str, present: str) -> None:
    tokens = set(content_tokens(question))
    assert tokens.isdisjoint(absent.split())
    assert tokens.issuperset(present.split())


@pytest.mark.parametrize(
    ("question", "present"),
    [
        ("かものはしは何を食べるか", "かも もの のは はし 食べ"),
        ("いるかは何を食べますか", "いる るか 食べ"),
        ("ひまわりはいつ咲くか", "ひま まわ わり 咲く"),
        ("猫は誰のものですか", "猫は"),
        ("他们的目的是什么？", "目的"),
        ("谁了解这个过程？", "了解 过程"),
        ("什么是爱？", "是爱"),
        ("何ですか", "何で です すか"),
        ("什么？", "什么"),
    ],
)
def test_words_that_look_like_grammar_are_searched(question: str, present: str) -> None:
    assert set(content_tokens(question)).issuperset(present.split())


@given(st.text(st.sampled_from("のではいるこれ何お図書館PTA 。、什么的人了")))
def test_nothing_is_added(text: str) -> None:
    rest = iter(text)
    assert all(char in rest for char in re.sub(r"\s", "", cut_function_words(text)))


def test_a_long_text_is_cut_quickly() -> None:
    for text in ("では" * 5000, "の" * 10_000, "是的" * 5000, "が" * 9_999 + "図"):
        assert len(cut_function_words(text)) <= 10_000
