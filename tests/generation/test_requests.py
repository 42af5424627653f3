"""questions -> requests: what the rules take for a list, an outline, topics ..., and what they leave alone."""

from __future__ import annotations

import pytest

from kumihimo.core.answer import Answer
from kumihimo.generation.quoting.requests import carry_names, read_request
from kumihimo.text.question import ParsedQuestion

REQUESTS = {
    "list": [
        "List all the people mentioned.",
        "Which organisations are mentioned?",
        "What documents are there?",
        "登場する人物を挙げてください",
        "どんな組織が出てきますか",
        "文書の一覧を見せて",
        "列出所有人物",
        "請列出所有文件",
    ],
    "documents": [
        "Which documents mention the ferry?",
        "Where is the breakwater mentioned?",
        "天草に触れている文書は？",
        "どの文書に防波堤が出てきますか",
        "哪些文档提到了渡轮？",
        "有多少文档提到灯塔",
    ],
    "outline": [
        "Summarise the court minutes",
        "What is the island guide about?",
        "第3回の会議の要点をまとめて",
        "広報しおよりには何が書かれていますか",
        "总结一下会议记录",
        "年度报告的主要内容是什么",
    ],
    "compare": [
        "Compare the Long Arm and the tide station",
        "What is the difference between kelp and wrack?",
        "Sam Altman vs Reid Hoffman",
        "組紐と真田紐の違いは何ですか",
        "东京和大阪有什么区别？",
        "甲方案與乙方案的差異",
    ],
    "themes": [
        "What are the main themes?",
        "What are the documents about?",
        "What do people say about education?",
        "How do writers portray the sea?",
        "What risks at sea are described in the letters?",
        "How is winter portrayed across the stories?",
        "Are there disagreements about the tides among the posts?",
        "主なテーマは何ですか",
        "海運をめぐる懸念は何ですか",
        "人们对渡轮有哪些担忧",
        "人工知能について何が語られていますか",
        "这些文档讲了什么",
        "關於隱私有哪些觀點",
    ],
}
DETAILS = [
    "Who painted the gate?",
    "What is the ferry called?",
    "Who wrote the report on the seals?",
    "Which book did Kevin Scott write?",
    "What did the survey find?",
    "What documents does a borrower need?",
    "Where is the list of boats kept?",
    "What people live on the island?",
    "What challenges did the keeper face?",
    "What topics does chapter four cover?",
    "Which risks does the policy cover?",
    "How do eels breathe?",
    "島の人口は何人ですか",
    "会議はいつ開かれましたか",
    "報告書を書いたのは誰ですか",
    "谁写了这份报告？",
    "渡轮几点出发？",
]


@pytest.mark.parametrize(("kind", "question"), [(kind, q) for kind, texts in REQUESTS.items() for q in texts])
def test_a_request_is_recognised(kind: str, question: str) -> None:
    request = read_request(ParsedQuestion(question))
    assert request is not None
    assert request.kind == kind


@pytest.mark.parametrize("question", DETAILS)
def test_a_question_of_detail_is_no_request(question: str) -> None:
    assert read_request(ParsedQuestion(question)) is None


def test_a_request_knows_its_subjects() -> None:
    subjects = {
        "Compare the old wall and the new wall": ("the old wall", "the new wall"),
        "Who are the people mentioned in the minutes?": ("person", "the minutes"),
        "Which files talk about tides?": ("tides", ""),
        "What do people say about education?": ("education", ""),
        "What are the main themes about education?": ("education", ""),
        "What are the main themes of the podcasts?": ("", ""),
        "What are the main themes of these emails?": ("", ""),
        "What topics come up in the reports?": ("", ""),
        "議事録を要約してください": ("議事録", ""),
        "組紐と真田紐の違いは何ですか": ("組紐", "真田紐"),
        "会社名を全部教えて": ("organization", ""),
    }
    found = {q: read_request(ParsedQuestion(q)) for q in subjects}
    assert {q: (r.subject, r.other) if r else None for q, r in found.items()} == subjects


@pytest.mark.parametrize(
    ("before", "question", "names"),
    [
        ("Who is Neha Narkhede?", "When did she leave?", "Neha Narkhede"),
        ("Who is Neha Narkhede?", "When did she move to Paris?", "Neha Narkhede"),
        ("Who built Thornhead Light?", "And when?", "Thornhead Light"),
        ("What is the tide station?", "Who built it?", "the tide station"),
        ("デッサさんは誰ですか", "彼女はどこに住んでいますか", "デッサさん"),
        ("種子図書館とは何ですか", "それはどこにありますか", "種子図書館"),
        ("谁是宮本顕治？", "他什么时候出生？", "宮本顕治"),
        ("谁是宮本顕治？", "什么时候？", "宮本顕治"),
        ("組紐資料館はどこですか", "いつですか", "組紐資料館"),
        ("特別展はいつですか", "場所は？", "特別展"),
    ],
)
def test_a_follow_up_takes_over_the_names(before: str, question: str, names: str) -> None:
    asked, note = carry_names(question, [Answer.of_text(before, "")])
    assert names in note
    assert asked == f"{question} {note}"


@pytest.mark.parametrize(
    "question",
    [
        "Where is the ferry?",
        "Who is Sam Altman?",
        "What does Sam Altman say of his company?",
        "How long does it take?",
        "What do the keepers say about their boats?",
        "真田紐とは何ですか",
    ],
)
def test_a_question_that_stands_alone_stays(question: str) -> None:
    assert carry_names(question, [Answer.of_text("Who is Neha Narkhede?", "")]) == (question, "")
    assert carry_names("When did she leave?", []) == ("When did she leave?", "")


def test_a_follow_up_of_another_year_is_the_same_question() -> None:
    asked, note = carry_names("And in 2022?", [Answer.of_text("What was the highest income in 2021?", "")])
    assert asked == "What was the highest income in 2022?"
    assert note == f"({asked})"
    before = Answer.of_text("2021年の収入はいくらですか", "")
    assert carry_names("2022年は？", [before])[0] == "2022年の収入はいくらですか"
