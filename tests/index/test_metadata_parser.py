"""a reply -> values and pairs: many forms of a valid reply, and invalid replies."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kumihimo.core.errors import MalformedReply
from kumihimo.index.metadata_parser import MetadataField, parse_metadata_reply
from tests.counters import check_linear

FIELDS = (
    MetadataField("research_field", "Has it a field?", "Which?", 3, ("Tide gates", "Rope making")),
    MetadataField("company", "Does it name companies?", "Which?", 2),
)
VALUES = (("Tide gates",), ("Long Arm", "Net Loft"))
PAIRS = (("What is a tide gate?", "A gate that the tide shuts."), ("Who made it?", "The Net Loft made it in 1998."))

PLAIN = """Yes or no:
1. yes
2. yes

Lists:
1. ['tide gates']
2. ['Long Arm', 'Net Loft']

Questions:
1. What is a tide gate?
2. Who made it?

Answers:
1. A gate that the tide shuts.
2. The Net Loft made it in 1998."""
QUESTION_LINES = "1. What is a tide gate?\n2. Who made it?"
ANSWER_LINES = "1. A gate that the tide shuts.\n2. The Net Loft made it in 1998."
FORMS = {
    "as asked for": PLAIN,
    "with an introduction and a farewell": f"Here is what you asked for.\n\n{PLAIN}",
    "without headings": "\n\n".join(part.partition("\n")[2] for part in PLAIN.split("\n\n")),
    "Markdown": PLAIN.replace("Yes or no:", "## Yes or No").replace("Lists:", "**Lists:**")
    .replace("Answers:", "### Answers").replace("1. What is a tide gate?", "**1.** **What is a tide gate?**"),
    "fenced": f"```text\n{PLAIN}\n```",
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "numbered 1)": PLAIN.replace("1. ", "1) ").replace("2. ", "2) "),
    "numbered (1)": PLAIN.replace("1. ", "(1) ").replace("2. ", "(2) "),
    "numbered １．": PLAIN.replace("1. ", "１．").replace("2. ", "２．"),
    "numbered 1、": PLAIN.replace("1. ", "1、").replace("2. ", "2、"),
    "numbered ①": PLAIN.replace("1. ", "①").replace("2. ", "② "),
    "numbered Q1: A1:": PLAIN.replace(QUESTION_LINES, "Q1: What is a tide gate?\nQ2: Who made it?").replace(
        ANSWER_LINES, "A1: A gate that the tide shuts.\nA2: The Net Loft made it in 1998."
    ),
    "numbered Ｑ１：": PLAIN.replace(QUESTION_LINES, "Ｑ１：What is a tide gate?\nＱ２：Who made it?"),
    "question under question": PLAIN.partition("Questions:")[0]
    + "Questions and answers:\nQ1. What is a tide gate?\nA1. A gate that the tide shuts.\n\nQ2. Who made it?\n"
    "A2. The Net Loft made it in 1998.",
    "answers without a number": PLAIN.partition("Questions:")[0]
    + "1. **Question:** What is a tide gate?\n   **Answer:** A gate that the tide shuts.\n"
    "2. **Question:** Who made it?\n"
    "   **Answer:** The Net Loft made it in 1998.",
    "answers without a mark": PLAIN.partition("Questions:")[0]
    + "Q&A\n1. What is a tide gate?\nA gate that the tide shuts.\n2. Who made it?\nThe Net Loft made it in 1998.",
    "under two headings, numbered on": PLAIN.replace("Questions:", "General questions:").replace(
        "2. Who", "Specific questions:\n2. Who"
    ),
    "under two headings, numbered anew": PLAIN.replace("Questions:", "General questions:")
    .replace("2. Who", "Specific questions:\n1. Who")
    .replace("2. The Net", "Specific answers:\n1. The Net"),
    "double quotes": PLAIN.replace("'", '"'),
    "typographic quotes": PLAIN.replace("'tide gates'", "“tide gates”").replace("'Long Arm', '", "‘Long Arm’，「"),
    "a comma at the end": PLAIN.replace("gates']", "gates',]"),
    "no quotes": PLAIN.replace("'", ""),
    "no brackets": PLAIN.replace("['", "").replace("']", "").replace("'", ""),
    "lists over several lines": PLAIN.replace("['Long", "[\n 'Long").replace("Loft']", "Loft',\n]")
    .replace("', '", "',\n  '"),
    "bulleted": PLAIN.replace("['tide gates']", "\n   - Tide Gates")
    .replace("['Long Arm', 'Net Loft']", "- Long Arm\n   - Net Loft"),
    "numbered within": PLAIN.replace("['Long Arm', 'Net Loft']", "\n1. Long Arm\n2. Net Loft"),
    "called by their fields": PLAIN.replace("1. ['tide", "Research field: ['tide")
    .replace("2. ['Long", "- **company**: ['Long"),
    "JSON": PLAIN.replace("1. ['tide gates']", '{"research_field": ["tide gates"],').replace(
        "2. ['Long Arm', 'Net Loft']", '"company": ["Long Arm", "Net Loft"]}'
    ),
    "lists alone": PLAIN.replace("1. ['", "['").replace("2. ['", "['"),
    "too many, and others": PLAIN.replace("['tide", "['Gates', 'ＴＩＤＥ  GATES', 'tide")
    .replace("Loft']", "Loft', 'Wrack Fund']"),
    "with reasons": PLAIN.replace("1. yes", "1. Yes, it does.").replace("2. yes", "2. Does it name companies? Yes"),
    "Japanese": PLAIN.replace("Yes or no:", "はい／いいえ：").replace("yes", "はい").replace("Lists:", "【リスト】")
    .replace("Questions:", "質問").replace("Answers:", "## 回答"),
    "Chinese": PLAIN.replace("Yes or no:", "是/否").replace("yes", "是的").replace("Lists:", "列表：")
    .replace("Questions:", "问题：").replace("Answers:", "答案："),
    "German": PLAIN.replace("Yes or no:", "Ja/Nein").replace("yes", "ja").replace("Lists:", "Listen:")
    .replace("Questions:", "Allgemeine und spezifische Fragen:").replace("Answers:", "Antworten:"),
    "an answer of several lines": PLAIN.replace("that the", "that\nthe").replace("in 1998", "in\n   1998"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_of_any_form_is_read(form: str) -> None:
    parsed = parse_metadata_reply(FORMS[form], FIELDS)
    assert (parsed.values, parsed.pairs) == (VALUES, PAIRS)


@pytest.mark.parametrize("no", ["no", "No.", "**No**", "いいえ", "否", "不是", "Nein", "non", "None of them? No"])
def test_where_the_answer_is_no_the_list_is_empty(no: str) -> None:
    parsed = parse_metadata_reply(PLAIN.replace("2. yes", f"2. {no}"), FIELDS)
    assert parsed.values == (("Tide gates",), ())


@pytest.mark.parametrize("nothing", ["[]", "[ ]", "['None']", "None", "n/a", "なし", "无", "", "- keine"])
def test_nothing_is_no_value(nothing: str) -> None:
    assert parse_metadata_reply(PLAIN.replace("['Long Arm', 'Net Loft']", nothing), FIELDS).values == (
        ("Tide gates",),
        (),
    )


def test_one_without_the_other_is_dropped() -> None:
    parsed = parse_metadata_reply(
        PLAIN.replace("2. The Net Loft made it in 1998.", "7. It was sold.\n8. It is gone."), FIELDS
    )
    assert parsed.pairs == PAIRS[:1]
    repeated = parse_metadata_reply(PLAIN.replace("2. Who made it?", "2. ＷＨＡＴ is a  tide gate?"), FIELDS)
    assert repeated.pairs == PAIRS[:1]


def test_numbers_within_an_answer_are_its_own() -> None:
    reply = PLAIN.replace(
        "tide shuts.", "tide shuts:\n   1. it rises,\n   2. it falls.\n1998. A dry year.\n1.5 m wide."
    )
    assert parse_metadata_reply(reply, FIELDS).pairs == (
        (PAIRS[0][0], "A gate that the tide shuts: 1. it rises, 2. it falls. 1998. A dry year. 1.5 m wide."),
        PAIRS[1],
    )


def test_nothing_to_ask_about_is_an_answer() -> None:
    for nothing in ("None", "なし。", ""):
        text = PLAIN.replace(QUESTION_LINES, nothing).replace(ANSWER_LINES, nothing)
        assert (parse_metadata_reply(text, FIELDS).values, parse_metadata_reply(text, FIELDS).pairs) == (VALUES, ())


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "not of the form"),
        ("I cannot help with that.", "not of the form"),
        ("🙂" * 9, "not of the form"),
        (PLAIN.partition("\n\nQuestions:")[0], "holds no questions"),
        (PLAIN.partition("\n\nAnswers:")[0], "No question of the reply has an answer"),
        (f"Answers:\n{ANSWER_LINES}", "No question of the reply has an answer"),
    ],
)
def test_what_cannot_be_read_is_told_to_the_model(reply: str, message: str) -> None:
    with pytest.raises(MalformedReply, match=message):
        parse_metadata_reply(reply, FIELDS)


MARKS = ("[", "]", "['", "Q1", "A:", "**", "(3)", "１．", "\ud800", "```")
BROKEN = st.lists(
    st.sampled_from([*PLAIN.splitlines(), "Questions:", "Answers:", *MARKS])
    | st.text(max_size=20),
    max_size=25,
).map("\n".join)  # fmt: skip


@given(BROKEN)
def test_no_reply_breaks_it(reply: str) -> None:
    try:
        parsed = parse_metadata_reply(reply, FIELDS)
    except MalformedReply:
        return
    assert all(len(values) <= field.maximum for values, field in zip(parsed.values, FIELDS, strict=True))
    assert set(parsed.values[0]) <= {*FIELDS[0].categories}
    assert all(question.strip() and answer.strip() for question, answer in parsed.pairs)


@pytest.mark.parametrize(
    "piece",
    [
        "['a",
        "1. ",
        "1",
        "'",
        "a,",
        "'a,'",
        "[",
        "**",
        "(1",
        "Q",
        "and ",
        "- ",
        "?",
        "的",
        "［「",
        " ",
        "yes or no ",
        "_",
    ],
)
@pytest.mark.parametrize("line", ["", "\n"])
def test_work_grows_with_the_reply(piece: str, line: str) -> None:
    def parse(text: str) -> None:
        for reply in (text, PLAIN.replace("['tide gates']", text), PLAIN.replace("2. Who", text + "\n2. Who")):
            with suppress(MalformedReply):
                parse_metadata_reply(reply, FIELDS)

    check_linear(parse, piece + line, 200_000)
