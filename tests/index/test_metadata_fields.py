"""a reply -> values and pairs: many forms of a valid reply, and invalid replies."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kumihimo.core.errors import MalformedReply
from kumihimo.index.metadata_fields import MetadataField, ParsedMetadata, parse_metadata_reply, reply_type
from kumihimo.llm.prompts import ReplyForm
from kumihimo.llm.protocols import Reply
from tests.counters import check_linear

FIELDS = (
    MetadataField("research_field", "Has it a field?", "Which?", 3, ("Tide gates", "Rope making")),
    MetadataField("company", "Does it name companies?", "Which?", 2),
)
VALUES = (("Tide gates",), ("Long Arm", "Net Loft"))
PAIRS = (("What is a tide gate?", "A gate that the tide shuts."), ("Who made it?", "The Net Loft made it in 1998."))
VALUE: dict[str, Any] = {
    "fields": {"research_field": ["tide gates"], "company": ["Long Arm", "Net Loft"]},
    "questions": [{"question": question, "answer": answer} for question, answer in PAIRS],
}
PLAIN = json.dumps(VALUE)
FORMS = {
    "as asked for": PLAIN,
    "with an introduction and a farewell": f"Here is what you asked for.\n\n{PLAIN}\n\nI hope this helps.",
    "fenced": f"```json\n{PLAIN}\n```",
    "over several lines": json.dumps(VALUE, indent=2).replace("\n", "\r\n"),
    "after reasoning": f"<think>{{}}</think>{PLAIN}",
    "a comma at the end": PLAIN.replace('"Net Loft"]', '"Net Loft",]'),
    "a value for a list": PLAIN.replace('["tide gates"]', '"tide gates"'),
    "too many, and others": PLAIN.replace('["tide', '["Gates", "ＴＩＤＥ  GATES", "tide').replace(
        'Loft"]', 'Loft", "Wrack Fund"]'
    ),
    "empty values": PLAIN.replace('["tide', '["none", "", null, true, "tide'),
    "Markdown": PLAIN.replace("What is a tide gate?", "**What is** a tide gate?").replace("that the", "that\\nthe"),
    "a question twice": PLAIN.replace('"questions": [', f'"questions": [{json.dumps(VALUE["questions"][0])}, ').replace(
        "Who made it?", "Who made  it?"
    ),
    "a question without an answer": PLAIN.replace('"questions": [', '"questions": [{"question": "Why?"}, "How?", '),
    "keys in capitals": PLAIN.replace('"research_field"', '"Research_Field"')
    .replace('"fields"', '"Fields"')
    .replace('"questions"', '"QUESTIONS"')
    .replace('"question"', '"Question"')
    .replace('"answer"', '"Answer"'),
    "one more key": PLAIN.replace('{"fields"', '{"title": "Gates", "fields"'),
}


def parse(text: str, finish_reason: str = "stop") -> ParsedMetadata:
    return parse_metadata_reply(Reply(text, finish_reason), FIELDS)


@pytest.mark.parametrize("form", FORMS)
def test_a_reply_of_any_form_is_read(form: str) -> None:
    assert parse(FORMS[form]) == ParsedMetadata(VALUES, PAIRS)


@pytest.mark.parametrize("nothing", ["[]", "null", '["None"]', '"n/a"', '["なし。"]', '["无"]', '[""]', '["keine"]'])
def test_nothing_is_no_value(nothing: str) -> None:
    assert parse(PLAIN.replace('["Long Arm", "Net Loft"]', nothing)).values == (("Tide gates",), ())


def test_a_text_without_questions_is_an_answer() -> None:
    assert parse(json.dumps({**VALUE, "questions": []})) == ParsedMetadata(VALUES)


def test_fields_that_differ_in_case_keep_their_values() -> None:
    fields = [MetadataField("Topic", "", "Which?"), MetadataField("topic", "", "Which?")]
    reply = {"fields": {"topic": ["tides"], "Topic": ["gates"]}, "questions": []}
    assert parse_metadata_reply(Reply(json.dumps(reply)), fields).values == (("gates",), ("tides",))
    reply = {"fields": {"TOPIC": ["gates"]}, "questions": []}
    assert parse_metadata_reply(Reply(json.dumps(reply)), fields[:1]).values == (("gates",),)


def test_the_form_has_a_key_for_each_field() -> None:
    form: ReplyForm[Any] = ReplyForm(reply_type(FIELDS))
    schema = form.json_schema
    assert schema["$defs"]["Values"]["required"] == ["research_field", "company"]
    assert schema["required"] == ["fields", "questions"]
    assert form.parse(Reply(PLAIN)).fields.company == ["Long Arm", "Net Loft"]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ("", "holds no JSON"),
        ("I cannot help with that.", "holds no JSON"),
        (json.dumps({"questions": VALUE["questions"]}), r"lacks fields\.research_field"),
        (PLAIN.replace('"company"', '"firm"'), r"lacks fields\.company"),
        (json.dumps({"fields": VALUE["fields"]}), "lacks questions"),
        (PLAIN.replace('"answer"', '"reply"'), "No question of the reply has an answer"),
    ],
)
def test_what_cannot_be_read_is_told_to_the_model(reply: str, message: str) -> None:
    with pytest.raises(MalformedReply, match=message):
        parse(reply)


def test_a_reply_that_was_cut_off_keeps_its_complete_pairs() -> None:
    second = PLAIN.index("Who made it?")
    for end in range(second - 15, len(PLAIN) - 3):
        assert parse(PLAIN[:end], "length") == ParsedMetadata(VALUES, PAIRS[:1], PLAIN[:end].strip())
    assert parse(PLAIN[:-1], "length") == ParsedMetadata(VALUES, PAIRS, PLAIN[:-1])
    for end in range(PLAIN.index("that the tide")):
        with pytest.raises(MalformedReply, match=r"cut off|lacks|JSON"):
            parse(PLAIN[:end], "length")
    rest = json.dumps({"questions": VALUE["questions"]})
    assert parse_metadata_reply(Reply(rest), ()) == ParsedMetadata((), PAIRS)
    assert parse_metadata_reply(Reply(rest[:-9], "length"), ()).pairs == PAIRS[:1]


BROKEN = st.lists(
    st.sampled_from([*PLAIN.split(" "), "[", "]", "{", "}", '"', ":", "\ud800", "```"]) | st.text(max_size=20),
    max_size=25,
).map("".join)


@given(BROKEN, st.sampled_from(["stop", "length"]))
def test_no_reply_breaks_it(reply: str, finish_reason: str) -> None:
    try:
        parsed = parse(reply, finish_reason)
    except MalformedReply:
        return
    assert all(len(values) <= field.maximum for values, field in zip(parsed.values, FIELDS, strict=True))
    assert set(parsed.values[0]) <= {*FIELDS[0].categories}
    assert all(question.strip() and answer.strip() for question, answer in parsed.pairs)


@pytest.mark.parametrize("piece", ['"a", ', '{"question": "a", "answer": "b"}, ', "a", "的", " ", "**", "か。"])
def test_work_grows_with_the_reply(piece: str) -> None:
    def work(text: str) -> None:
        for before in ('["tide gates"', '"questions": ['):
            with suppress(MalformedReply):
                parse(PLAIN.replace(before, before + text))

    check_linear(work, piece, 50_000)
