"""questions -> requests: what the rules take for a list, an outline, topics ..., and what they leave alone."""

from __future__ import annotations

import re

import pytest

from kumihimo.core.answer import Answer
from kumihimo.generation.quoting import selection
from kumihimo.generation.quoting.requests import carry_names, read_request
from kumihimo.generation.quoting.selection import read_selection
from kumihimo.text.question import ParsedQuestion

REQUESTS = {
    "documents": [
        "Which documents mention the ferry?",
        "Where is the breakwater mentioned?",
        "天草に触れている文書は？",
        "どの文書に防波堤が出てきますか",
        "哪些文档提到了渡轮？",
        "有多少文档提到灯塔",
        "What documents are there?",
        "文書の一覧を見せて",
        "請列出所有文件",
        "What tables are there and what do they contain?",
        "どんな表が入っていますか",
        "文件夹里有哪些表格，各有什么内容",
    ],
    "outline": [
        "Summarise the court minutes",
        "What is the island guide about?",
        "第3回の会議の要点をまとめて",
        "広報しおよりには何が書かれていますか",
        "总结一下会议记录",
        "年度报告的主要内容是什么",
        "List the headings of the harbour guide",
        "What sections does the harbour guide have?",
        "Give me the main points of the rope log in three sentences",
        "渡船計画内容を要約してください",
        "港の手引きの見出しを並べてください",
        "渡船の時刻表のページをざっくりまとめてほしい",
        "防波堤の維持管理計画の構成を教えて",
        "把渡轮手册的要点列出来",
        "灯塔维修规定的结构是什么？",
        "渡轮手册都讲了哪些内容，概括一下",
        "请列出渡轮手册的大纲",
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
        "What subjects come up in these minutes?",
        "What were the main topics in these minutes?",
        "Summarise these meeting notes.",
        "Which subjects appear in the whole collection?",
        "会议记录里有哪些议题？",
        "What common themes appear across the reports?",
        "この文書群の主な話題は?",
        "これらの議事録にはどんな話題が出てきますか",
        "这些会议记录的主要话题是什么？",
        "主なテーマは何ですか",
        "这些文档讲了什么",
        "What kinds of documents are in this collection?",
        "What can I find here?",
        "What topics does this archive cover?",
        "このフォルダで何を調べることができますか",
        "全体としてどんな分野の記録が載っていますか",
        "フォルダの中身を簡単に教えて",
        "这个文件夹里都收录了些什么资料？",
        "在这里我可以查到哪些信息？",
    ],
}
DETAILS = [
    "What do people say about education?",
    "How do writers portray the sea?",
    "What risks at sea are described in the letters?",
    "How is winter portrayed across the stories?",
    "Are there disagreements about the tides among the posts?",
    "海運をめぐる懸念は何ですか",
    "人们对渡轮有哪些担忧",
    "人工知能について何が語られていますか",
    "關於隱私有哪些觀點",
    "Who painted the gate?",
    "What is the ferry called?",
    "What did the survey find?",
    "What documents does a borrower need?",
    "Where is the list of boats kept?",
    "What people live on the island?",
    "What challenges did the keeper face?",
    "What topics does chapter four cover?",
    "What issues are raised in chapter four?",
    "この会議のテーマは何ですか",
    "Which risks does the policy cover?",
    "How do eels breathe?",
    "島の人口は何人ですか",
    "会議はいつ開かれましたか",
    "谁写了这份报告？",
    "渡轮几点出发？",
    "What parts does the winch contain?",
    "How many recipes are there?",
    "理事会の構成を教えてください",
    "全体としてどのような効果がありましたか",
    "漁具をまとめて運ぶ船は何隻ですか",
    "这里有什么好吃的？",
    "学生会的组织结构是什么？",
    "把缆绳更换的方法说一下",
    "码头部分一共有几篇文章，分别讲什么？",
]


@pytest.mark.parametrize(("kind", "question"), [(kind, q) for kind, texts in REQUESTS.items() for q in texts])
def test_a_request_is_recognised(kind: str, question: str) -> None:
    request = read_request(ParsedQuestion(question))
    assert request is not None
    assert request.kind == kind


@pytest.mark.parametrize("question", DETAILS)
def test_a_question_of_detail_or_on_a_topic_is_no_request(question: str) -> None:
    assert read_request(ParsedQuestion(question)) is None


def test_a_request_knows_its_subjects() -> None:
    subjects = {
        "Compare the old wall and the new wall": ("the old wall", "the new wall"),
        "Which files talk about tides?": ("tides", ""),
        "What are the main themes of the podcasts?": ("", ""),
        "What are the main themes of these emails?": ("", ""),
        "What topics come up in the reports?": ("", ""),
        "議事録を要約してください": ("議事録", ""),
        "組紐と真田紐の違いは何ですか": ("組紐", "真田紐"),
    }
    found = {q: read_request(ParsedQuestion(q)) for q in subjects}
    assert {q: (r.subject, r.other) if r else None for q, r in found.items()} == subjects


SELECTIONS = {
    "How many files are there?": "noun document, asks count",
    "How many files are from 2020?": "date 2020, noun document, asks count",
    "Which e-mails are from May 2018?": "date 2018-05, kind mail, asks which",
    "files from May 2018": "date 2018-05, noun document",
    "Which documents are in German?": "language de, noun document, asks which",
    "Who wrote Free Culture?": "title Free Culture",
    "Who wrote The Name of the Quay?": "title The Name of the Quay",
    "What did Ann Lee write?": "author Ann Lee, noun document, asks which",
    "How many PDFs mention the quay?": "mention the quay, kind pdf, asks count",
    "In which files does the quay appear?": "mention the quay, noun document, asks which",
    "令和6年の文書は何件ありますか": "date 2024, noun document, asks count",
    "最新の資料": "noun document, order newest",
    "PDFのファイルはいくつありますか": "kind pdf, noun document, asks count",
    "いちばん新しい文書はどれですか": "noun document, order newest, asks which",
    "潮について書かれた文書はありますか": "mention 潮, noun document, asks which",
    "李明写了多少份文件？": "author 李明, noun document, asks count",
    "縒野すみが書いた文書はどれですか": "author 縒野すみ, noun document, asks which",
    "「潮の道」の作者は誰ですか": "title 潮の道",
    "2018年5月有哪些文件？": "date 2018-05, noun document, asks list",
    "哪些文件是英文的？": "language en, noun document, asks which",
    "How many documents does the word quay appear in?": "mention quay, noun document, asks count",
    "潮見の名前が挙がっている文書はどれですか": "mention 潮見, noun document, asks which",
    "「潮の道」という語が出てくる文書は何件ですか": 'mention "潮の道", noun document, asks count',
    "潮声这个词在多少篇文档里出现过？": "mention 潮声, noun document, asks count",
    "列出所有出现潮声字样的文档": "mention 潮声, noun document, asks list",
    "李明写了哪些文档？": "author 李明, noun document, asks which",
}
OTHERS = [
    "How many people voted in 2020?",
    "How many documents can an admin upload at once?",
    "What is the latest version of the program?",
    "Which files must be copied to a new server?",
    "Who attended the last meeting?",
    "What was discussed in 2020?",
    "How many pages does the report of 2020 have?",
    "When was the oldest house built?",
    "How often do meetings take place?",
    "会議には何人が出席しましたか",
    "メールアドレスは何ですか",
    "最新の統計で一番多い月はいつですか",
    "申請にはどの書類が必要ですか",
    "会议多长时间开一次？",
    "哪些文件需要备份？",
    "2020年有多少成员加入委员会？",
]


@pytest.mark.parametrize(("question", "parts"), SELECTIONS.items())
def test_what_a_question_says_of_documents_is_read(question: str, parts: str) -> None:
    found = read_selection(ParsedQuestion(question).plain)
    assert {f"{name} {value}" for name, value in found.items()} == set(parts.split(", "))


@pytest.mark.parametrize("question", [*OTHERS, *DETAILS])
def test_a_word_that_says_nothing_of_documents_makes_another_question(question: str) -> None:
    assert read_selection(ParsedQuestion(question).plain).keys() <= {"title"}


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
        ("みどり号の初代の運転手は誰でしたか。", "その前は何をしていましたか。", "みどり"),
        ("ごん狐で、兵十は何を捕っていましたか。", "どうして怒ったのですか。", "兵十"),
        ("中文句号应该用全角还是半角？", "那引号呢？", "中文句号应该用全角还是半角"),
        ("What does the bot flag on an account do?", "And what does locking it do?", "bot flag account"),
        ("When did version 21 come out?", "Who was present at that meeting?", "version 21"),
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
        "What are the main themes of these documents?",
        "本は何冊まで借りられますか。",
        "ボランティアの人数は何人ですか。",
        "千分号是什么？",
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


def test_rules_for_other_scripts_need_their_characters() -> None:
    """So they are not compiled for an ASCII question."""
    asked = [
        "Which documents mention the ferry?",
        "Compare the gate and the wall",
        "Summarise it in 3 lines",
        "",
    ]
    rules = selection.read_rules("selection")
    groups = [rules["free"], rules["filler"], rules["label"], rules["times"], *rules["values"].values()]
    patterns = [
        pattern.replace("<noun>", "documents?") for group in groups for each in group.values() for pattern in each
    ]
    tables = selection.read_rules("table_questions")
    lists = [
        *tables["operations"].values(),
        *tables["comparisons"].values(),
        *map(tables["words"].get, ("light", "verb", "kana")),
    ]
    patterns += [pattern.replace("<V>", r"\d+").replace("<U>", "") for each in lists for pattern in each]
    others = [pattern for pattern in patterns if not pattern.isascii()]
    assert all(pattern.isascii() for each in rules["values"].values() for pattern, *_ in each.values())
    for kind in ("compare", "themes", "outline"):
        others += [each for name in ("ja", "zh") for each in selection.read_rules("requests")[kind][name]]
    assert others
    assert not [(pattern, text) for pattern in others for text in asked if re.search(pattern, text, re.IGNORECASE)]
