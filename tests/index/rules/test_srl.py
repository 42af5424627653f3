"""A passage -> the 5W1H slots and the predicate, by rule: by hand in three languages."""

from __future__ import annotations

import pytest

from kumihimo.index.rules import srl
from tests.counters import check_linear


def slots(text: str) -> dict[str, list[str]]:
    values_by_slot: dict[str, list[str]] = {}
    for slot, value in srl.find_slots(text):
        values_by_slot.setdefault(slot, []).append(value)
    return values_by_slot


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "The next morning, Elsie received a letter from America.",
            {
                "who": ["Elsie"],
                "predicate": ["received"],
                "what": ["letter"],
                "where": ["America"],
                "when": ["next morning"],
            },
        ),
        ("Holmes and Watson went to London by train.",
         {"who": ["Holmes", "Watson"], "predicate": ["went"], "where": ["London"], "how": ["train"]}),
        ("Qubit is tall.", {"who": ["Qubit"], "predicate": ["is tall"]}),
        ("He does not know her past.", {"predicate": ["does not know"], "what": ["past"]}),
        ("There was a whip on the bed.", {"who": ["whip"], "where": ["bed"]}),
        ("The ferry was cancelled because of heavy snow.",
         {"who": ["ferry"], "predicate": ["was cancelled"], "why": ["heavy snow"]}),
        ("You know, I think, I mean, I guess.", {}),
        ("KEVIN SCOTT: Well, I was born in Virginia on 3 May 1972.",
         {"when": ["3 May 1972"], "who": ["Kevin Scott"], "predicate": ["was born"], "where": ["Virginia"]}),
    ],
)  # fmt: skip
def test_english(text: str, expected: dict[str, list[str]]) -> None:
    assert slots(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("キュービットは昨年、ロンドンで結婚した。",
         {"who": ["キュービット"], "when": ["昨年"], "where": ["ロンドン"], "predicate": ["結婚した"]}),
        ("踊る人形が鉛筆で紙に描かれていた。",
         {"who": ["踊る人形"], "how": ["鉛筆"], "where": ["紙"], "predicate": ["描かれていた"]}),
        ("ホームズとワトソンは廊下にいる。",
         {"who": ["ホームズ", "ワトソン"], "where": ["廊下"], "predicate": ["いる"]}),
        ("大雪のため、フェリーは欠航した。",
         {"why": ["大雪", "大雪"], "who": ["フェリー"], "predicate": ["欠航した"]}),
        ("1883年4月3日、彼は手紙を受け取った。",
         {"when": ["1883年4月3日", "1883年4月3日"], "who": ["彼"], "what": ["手紙"], "predicate": ["受け取った"]}),
    ],
)  # fmt: skip
def test_japanese(text: str, expected: dict[str, list[str]]) -> None:
    assert slots(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("由于大雪，渡轮公司宣布停航。",
         {"why": ["大雪"], "who": ["渡轮公司"], "predicate": ["宣布"], "what": ["停航"]}),
        ("1912年，孫中山在南京建立中華民國。",
         {"when": ["1912年"] * 2, "where": ["南京"], "who": ["孫中山"], "predicate": ["建立"], "what": ["中華民國"]}),
    ],
)  # fmt: skip
def test_chinese(text: str, expected: dict[str, list[str]]) -> None:
    assert slots(text) == expected


@pytest.mark.parametrize(
    "text", ["Ada написала книгу", "كتبت آدا كتابا", "Hon skrev en bok 1883.", "\n\n", "...", "###"]
)
def test_other_languages_yield_little_and_break_nothing(text: str) -> None:
    assert set(slots(text)) <= {"who", "when", "what", "where"}


@pytest.mark.parametrize(
    "piece",
    ["of the ", "Ada and ", "Ada, ", "in the house ", "because ", "の家", "ために、", "在a", "因為a", "( ", "a"],
)
def test_work_grows_with_the_text(piece: str) -> None:
    check_linear(slots, piece)
