"""answers of several systems -> what the judge reads: no sources, markers, titles or phrases, and all the content."""

from __future__ import annotations

import pytest

from kumihimo.evaluate.judging.blinding import StripMode, blind_answer, cut_references
from tests.counters import check_linear

LIGHTRAG = """# Why the Ferry Was Late

Based on the provided context, the ferry *Tern* was late for two reasons [1].

## Weather

- **Storm**: A storm closed the harbour on 3 May 2021 [1][2].

## Repairs

The winch had failed, according to the provided documents. The available information does not specify who mended it.

---

### References

- [1] harbour/ferry.md
- [2] Harbour Board minutes
* [3] tides.txt
"""
GRAPHRAG = """## Overview of the delay

The storm closed the harbour [Data: Reports (2, 7, +more)]. As stated in the data tables provided, the winch had failed
[Data: Entities (3); Relationships (1, 2)].
"""
OURS = """The storm closed the harbour [1]. Ada says that the winch had failed [2][4].

The documents do not say who mended it.
"""
JAPANESE = """## 船が遅れた理由

提供されたコンテキストによると、船は嵐のために遅れました[1]。港は閉鎖されました（出典：港.md）。

- 巻き上げ機も故障していました【2】。

**参考文献**
1. 港.md
2. 委員会議事録
"""
CHINESE = """# 渡轮为什么迟到

根据提供的上下文，渡轮因暴风雨而迟到[1]。文件没有签署【2†来源】。

提供的资料中没有提到谁修理了绞车。

### 参考资料

- [1] 港口.md
- [2] 会议记录
"""
QUESTIONS = {"en": "Why was the ferry late?", "ja": "なぜ船は遅れたのですか。", "zh": "渡轮为什么迟到？"}


def test_an_answer_of_lightrag() -> None:
    assert blind_answer(LIGHTRAG, QUESTIONS["en"]) == (
        "The ferry Tern was late for two reasons.\n\nWeather\n\n"
        "Storm: A storm closed the harbour on 3 May 2021.\n\nRepairs\n\n"
        "The winch had failed. The material does not specify who mended it."
    )


def test_an_answer_of_graphrag() -> None:
    assert blind_answer(GRAPHRAG, QUESTIONS["en"]) == "The storm closed the harbour. The winch had failed\n."


@pytest.mark.parametrize("opening", ["The documents", "The passages found", "The passages that were read"])
def test_an_answer_of_ours(opening: str) -> None:
    assert blind_answer(OURS.replace("The documents", opening), QUESTIONS["en"]) == (
        "The storm closed the harbour. Ada says that the winch had failed.\n\nThe material does not say who mended it."
    )


def test_an_answer_in_japanese() -> None:
    assert blind_answer(JAPANESE, QUESTIONS["ja"]) == (
        "船は嵐のために遅れました。港は閉鎖されました。\n\n巻き上げ機も故障していました。"
    )


def test_an_answer_in_chinese() -> None:
    assert blind_answer(CHINESE, QUESTIONS["zh"]) == (
        "渡轮因暴风雨而迟到。文件没有签署。\n\n资料中没有提到谁修理了绞车。"
    )


@pytest.mark.parametrize(
    "text",
    [
        "It was late in the context of the war, and the sources of the river were dry.",
        "He stole the documents. The report says that Ada lied, and the data were lost.",
        "According to the Harbour Board, the ferry left. According to the report of 1911, it sank.",
        "In the documents he stole, Ada found a map.",
        "The ruling was based on the documents that Ada found.",
        "It is fed twice.\n\n## Sources\n- The spring rises in May.\n- The lake is fed by snow.",
        "References to the strike are many.\nThey begin in May.",
        "## Causes\n\nRain.\n\n## Effects\n\nDelay.",
        "文書には三つの署名がある。ソースを煮る。資料館は火曜に休む。",
        "文件没有签署。这些资料馆的来源不明。",
        "A list: a) ferries (see below), b) gates (source of delay). In [brackets] too, 1990.",
    ],
)
def test_content_stays(text: str) -> None:
    assert blind_answer(text, "What happened?", "citations") == text
    assert blind_answer(text, "What happened?").split() == blind_answer(text, "What happened?", "markdown").split()


@pytest.mark.parametrize(
    "heading",
    ["References", "### References", "**References**", "References:", "## Sources", "**Sources:**", "### 参考文献",
     "出典：", "【参考資料】", "## 参考资料", "来源：", "Works cited"],
)  # fmt: skip
@pytest.mark.parametrize(
    "entries", ["- [1] ferry.md", "1. ferry.md\n2. tides.md", "\n* [1] Harbour Board\n\n", "ferry.md"]
)
def test_references_at_the_end_go(heading: str, entries: str) -> None:
    assert cut_references(f"It left.\n\n{heading}\n{entries}") == "It left."
    middle = f"{heading}\n{entries}\n\n## Next\n\nIt came back."
    assert cut_references(middle) == middle


@pytest.mark.parametrize("end", ["Sources: ferry.md, tides.md", "[1] ferry.md\n[2] tides.md", "出典：港.md、潮.md"])
def test_references_without_a_heading_of_their_own_go(end: str) -> None:
    assert cut_references(f"It left.\n\n{end}") == "It left."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("According to the sources, ada paid.", "Ada paid."),
        ("- From the retrieved passages, it left.\n- The context states that it came.", "It left.\nIt came."),
        (
            "It left (according to the sources), and came back, as described in the documents.",
            "It left, and came back.",
        ),
        ("The strike, based on the available data, failed.", "The strike failed."),
        ("The provided sources mention a strike. They are late.", "The material mentions a strike. They are late."),
        (
            "The dataset reveals that it left. The documents highlight two strikes.",
            "It left. The material highlights two strikes.",
        ),
        ("The documents don't say.", "The documents don't say."),
        ("検索された文書には、船は出たとある。資料に基づくと、遅れた。", "船は出たとある。遅れた。"),
        ("依据所提供的资料，渡轮停航。上述信息未说明原因。", "渡轮停航。资料未说明原因。"),
        ("**Answer:** At nine.", "At nine."),
        ("回答：九時です。", "九時です。"),
    ],
)
def test_phrases_about_sources_go(text: str, expected: str) -> None:
    assert blind_answer(text, "When?") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("| a | b |\n|---|---|\n| 1 | 2 |", "a | b \n 1 | 2"),
        ("snake_case_name and 2 * 3 * 4", "snake_case_name and 2 * 3 * 4"),
        ("組紐は**十月**に届きます。[1][2]\n1. 春\n2. 夏", "組紐は十月に届きます。\n春\n夏"),
        ("Cut [Data: Reports (1, 2, +more)].\n```py\nx\n```", "Cut.\nx"),
        ("1990. A year", "1990. A year"),
    ],
)
def test_words_stay_when_markup_goes(text: str, expected: str) -> None:
    assert blind_answer(text) == expected
    assert blind_answer(text, strip="none") == text


@pytest.mark.parametrize("strip", ["none", "markdown", "citations"])
def test_other_modes_keep_phrases(strip: StripMode) -> None:
    assert blind_answer("Based on the provided context, it left.", "When?", strip).startswith("Based on the provided")


@pytest.mark.parametrize(
    "piece",
    [
        "[1",
        "the provided ",
        "[",
        "# ",
        "**",
        "(source: ",
        "提供された",
        "根据",
        "- [1] a\n",
        "\n",
        "sources\n",
        " in ",
        "# x    ",
        "\n---\n",
        "|  ",
        "![a",
    ],
)
def test_work_grows_with_the_answer(piece: str) -> None:
    check_linear(lambda text: blind_answer(text, "Why?"), piece, 10_000)
