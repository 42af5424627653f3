"""questions and answers -> which answers refuse, and which are left out of win rates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kumihimo.evaluate.judging.protocols import DEBIASED
from kumihimo.evaluate.judging.refusals import (
    Refusals,
    comparable_verdicts,
    count_refusals,
    is_refusal,
    is_unanswerable,
)
from kumihimo.evaluate.judging.verdicts import plan_judge_calls
from kumihimo.evaluate.records import EvalQuestion, SystemAnswer, Verdict
from kumihimo.generation.answer import PROMPT
from kumihimo.methods.shared.map_step import REDUCE_PROMPT
from tests.evaluate.fake_judges import make_answers

REFUSALS = (
    "No passage that answers this was found.",  # version 0.2 wrote these
    "これに答える記述は見つかりませんでした。",
    "未找到能回答这个问题的段落。",
    "未找到能回答這個問題的段落。",
    "",
    "The documents do not say when it left.",
    "The passages found do not say when it left.",
    "The passages that were found don't say when it left.",
    "The passages that were read do not answer the question.",
    "The passages read do not tell when it left.",
    "見つかった文章には、船長の名前は書かれていません。",
    "見つかった箇所では船長について述べられていません。",
    "読んだ箇所からはわかりません。",
    "找到的段落没有说明船长是谁。",
    "找到的片段中未提及船长。",
    "所讀的段落沒有回答這個問題。",
    "Based on the provided context, the sources do not mention a captain. The ferry is named [1].",
    "I am sorry but I am unable to answer this question given the provided data.",
    "Sorry, I'm not able to provide an answer to that question.[no-context]",
    "I do not have enough information to answer this.\n\n### References\n\n- [1] ferry.md",
    "There is no information about the captain in the knowledge base.",
    "Insufficient information.",
    "The documents provided here do not mention a captain.",
    "The article published in 2020 doesn't say who paid.",
    "The sources explicitly do not name him, and the text above does not say who he was.",
    "There is no mention of a captain.",
    "No information was found.",
    "There is not enough information to answer this question.",
    "The name of the captain is not mentioned in the provided documents.",
    "It cannot be determined from the sources who paid.",
    "資料には船長についての記述がありません。",
    "提供された情報からは、誰が払ったのかわかりません。",
    "文書には船長の名前は記載されていません。",
    "上下文中没有提及船长的名字。",
    "根据现有资料，无法确定是谁付的钱。",
    "未找到相关信息。",
)
ANSWERS = (
    "The ferry did not provide life jackets.",
    "The captain was unable to find the harbour.",
    "There is no ferry on Sundays.",
    "The dog was not found.",
    "It is not known to fail.",
    "Ada paid. The documents do not say how much.",
    "The documents do not say who paid. Ada ordered the rope in May. It came from Oban. It was red.",
    "船は見つかりませんでした。",
    "渡轮没有提供救生衣。",
    "He lacks a licence.",
    "The data center does not provide cooling.",
    "The text says the company does not have a policy.",
    "According to the documents, the company does not have a policy.",
    "The report on the company notes that it does not have a policy.",
    "There was no information desk.",
    "No answer came.",
    "資料館には絵が含まれていません。",
    "文書によると、規定には休暇が含まれていません。",
    "信息台没有提供地图。",
    "The passages found on the wreck say that she sank.",
    "見つかった文章によると、船は出ていません。",
    "找到的段落说渡轮没有提供救生衣。",
    "文件说公司没有提供保险。",
)


@pytest.mark.parametrize("text", REFUSALS)
def test_an_answer_that_only_refuses(text: str) -> None:
    assert is_refusal(text)


@pytest.mark.parametrize("path", [PROMPT, REDUCE_PROMPT], ids=lambda path: path.stem)
def test_our_prompts_ask_for_a_refusal_of_what_was_read(path: Path) -> None:
    prompt = path.read_text(encoding="utf-8")
    refusals = re.findall(r"\b(?:that|what) (the passages .+? do not [a-z ]+?)(?:, and|[.:])", prompt)
    assert len(refusals) == 2
    assert all(map(is_refusal, refusals))
    assert "documents do not say" not in prompt


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_that_says_something(text: str) -> None:
    assert not is_refusal(text)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, False),
        ({"reference": "Ada."}, False),
        ({"reference": "The ferry did not provide it."}, False),
        ({"reference": "The documents do not say."}, True),
        *(({"reference": text}, False) for text in ANSWERS),
        ({"reference": "There is no answer to the riddle."}, False),
        ({"reference": "The article does not mention the captain."}, False),
        ({"reference": "Insufficient information"}, True),
        ({"reference": "Not enough information to answer the question."}, True),
        ({"reference": "Insufficient information provided in the context. [1]"}, True),
        ({"reference": "Unanswerable"}, True),
        ({"reference": "The question cannot be answered."}, True),
        ({"reference": "Not in the documents."}, True),
        ({"reference": "Not mentioned in the provided text."}, True),
        ({"reference": "No answer."}, True),
        ({"reference": "情報不足。"}, True),
        ({"reference": "回答不能"}, True),
        ({"reference": "資料には記載がありません。"}, True),
        ({"reference": "答えなし"}, True),
        ({"reference": "信息不足。"}, True),
        ({"reference": "无法回答"}, True),
        ({"reference": "文档中未提及。"}, True),
        ({"reference": "没有答案。"}, True),
        ({"more": {"answerable": False}}, True),
        ({"more": {"answerable": True}}, False),
        ({"more": {"is_impossible": True}}, True),
        ({"more": {"unanswerable": True}, "reference": "Ada."}, True),
    ],
)
def test_gold_says_that_there_is_no_answer(fields: dict[str, Any], expected: bool) -> None:
    assert is_unanswerable(EvalQuestion("q", "Who paid?", **fields)) is expected


QUESTIONS = [
    EvalQuestion("q0", "Who paid?"),
    EvalQuestion("q1", "Who else?", more={"answerable": False}),
    EvalQuestion("q2", "When?"),
    EvalQuestion("q3", "Where?"),
]
TEXTS = {
    "x": ["Ada.", "I don't know.", "I don't know.", "I don't know."],
    "y": ["Bo.", "Cal.", "The sources do not say.", "In Oban."],
}


def answers() -> dict[str, dict[str, SystemAnswer]]:
    return {system: dict(make_answers(system, texts)) for system, texts in TEXTS.items()}


def test_no_judge_is_asked_about_them() -> None:
    calls = plan_judge_calls(DEBIASED, QUESTIONS, answers(), criteria=["directness"], replicates=1)
    assert [call.question.id for call in calls] == ["q0", "q0", "q3", "q3"]


def test_verdicts_on_them_do_not_count() -> None:
    rows = [Verdict("p", "c", f"q{n}", "x", "y", "a", 0, "a") for n in range(5)]
    kept = comparable_verdicts(rows, QUESTIONS, answers())
    assert [row.question for row in kept] == ["q0", "q3", "q4"]
    assert comparable_verdicts(rows, QUESTIONS, {}) == rows


def test_refusals_are_counted_apart() -> None:
    rows = answers()
    rows["y"]["q3"] = SystemAnswer("y", "q3", "", failed="it broke off")
    assert count_refusals(QUESTIONS, rows) == (Refusals("x", 1, 1, 2, 3), Refusals("y", 0, 1, 1, 2))
