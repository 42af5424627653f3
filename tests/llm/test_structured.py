"""the raw reply of a model -> its value: reasoning removed, JSON parsed and repaired, checked against the form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from kumihimo.core.errors import MalformedReply
from kumihimo.core.usage import Usage
from kumihimo.llm.prompts import ReplyForm, reply_form
from kumihimo.llm.protocols import ReasoningFilter, Reply, strip_reasoning

HARMONY = "<|channel|>analysis<|message|>Nine?<|end|><|start|>assistant<|channel|>final<|message|>At ten.<|return|>"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("At ten.", "At ten."),
        (" \n At ten. \n", "At ten."),
        ("", ""),
        ("<think>Nine?</think>At ten.", "At ten."),
        ("\n<think>\nNine?\nTen.\n</think>\n\nAt ten.", "At ten."),
        ("<think></think>At ten.", "At ten."),
        ("<THINK>Nine?</THINK> At ten.", "At ten."),
        ("<thinking>Nine?</thinking>At ten.", "At ten."),
        ("<thought>Nine?</thought>At ten.", "At ten."),
        ("<reasoning>Nine?</reasoning>At ten.", "At ten."),
        ("<think>Nine?</think>\n<think>Ten.</think>\n<thought>Yes.</thought> At ten.", "At ten."),
        ("<think>Is it <b>nine</b> or </i>?</think>At ten.", "At ten."),
        ("<think>Nine? And then the reply was cut", ""),
        ("<think>Nine?</think><think>Ten", ""),
        ("Close the block with </think> before the answer.", "Close the block with </think> before the answer."),
        ("It ends a thought:\n</think> is a tag.", "It ends a thought:\n</think> is a tag."),
        ("[THINK]Nine?[/THINK]At ten.", "At ten."),
        ("[THINK]Nine? And then the reply was cut", ""),
        ("[1] says ten.", "[1] says ten."),
        ("<seed:think>Nine?</seed:think>At ten.", "At ten."),
        ("◁think▷Nine?◁/think▷At ten.", "At ten."),
        ("Nine?\n◁/think▷\nAt ten.", "At ten."),
        ("The template ate the tag.\n</thinking>\n\nAt ten.", "At ten."),
        (HARMONY, "At ten."),
        (HARMONY.removesuffix("<|return|>"), "At ten."),
        ("<thinkpad> is a word.", "<thinkpad> is a word."),
        ("<b>At ten.</b>", "<b>At ten.</b>"),
        ("At ten. It says <think>nine</think>.", "At ten. It says <think>nine</think>."),
        ("<think>Nine?</think>It says <think>ten</think> and </think>.", "It says <think>ten</think> and </think>."),
        ("At ten, not <think>.", "At ten, not <think>."),
        ("<", "<"),
    ],
)
def test_reasoning_before_a_reply_is_removed(raw: str, text: str) -> None:
    assert strip_reasoning(raw) == text
    assert Reply(raw).text == text
    assert Reply(raw).raw == raw


def test_long_reasoning_is_removed_quickly() -> None:
    assert strip_reasoning("<think>" * 20_000 + "</think>At ten.") == "At ten."
    assert strip_reasoning("<think>a</think>" * 20_000 + "At ten.") == "At ten."
    assert strip_reasoning("a <" * 50_000 + "\n</think>\nAt ten.") == "At ten."
    assert strip_reasoning("<|channel|>final" * 20_000 + "<|message|>At ten.") == "At ten."
    assert strip_reasoning(unfinished := "<|channel|>final " * 20_000) == unfinished.strip()


def split(raw: str, size: int) -> list[str]:
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def stream(raw: str, size: int) -> str:
    """Return the text passed on from a reply in pieces."""
    tokens: list[str] = []
    token_filter = ReasoningFilter(tokens.append)
    for token in split(raw, size):
        token_filter(token)
    assert token_filter.started == bool(tokens)
    return "".join(tokens)


STREAMED = (
    "At ten.",
    " \n At ten,  \n\n <b>not</b> nine.",
    "<thinkpad> is a word.",
    "<b>At ten.</b>",
    "At ten. It says <think>nine</think>.",
    "<think>Nine? And then the reply was cut",
    "[THINK]Nine?[/THINK]At ten.",
    "[1] says <think>.",
    "<seed:think>Nine?</seed:think>At ten.",
    "◁think▷Nine?◁/think▷At ten.",
)


@pytest.mark.parametrize("raw", STREAMED)
@pytest.mark.parametrize("size", range(1, 41))
def test_a_streamed_reply_starts_after_its_reasoning(raw: str, size: int) -> None:
    assert stream(raw, size) == strip_reasoning(raw)


def test_no_token_is_kept_back_once_the_reply_starts() -> None:
    tokens: list[str] = []
    token_filter = ReasoningFilter(tokens.append)
    for token in ("At", " ten", " <", "think> or so"):
        token_filter(token)
        assert tokens[-1] == token


def test_a_reply_survives_its_bytes() -> None:
    usage = Usage(1, 30, 10, 5, 0.25, 1.2345)
    reply = Reply('<think>港</think>"At\u2028ten"\0', "length", usage)
    again = Reply.from_bytes(reply.to_bytes())
    assert again == Reply(reply.raw, "length", Usage(1, 30, 10, 5, 0.25, 1.234))
    assert again.truncated
    assert not Reply("x").truncated
    assert Reply.from_bytes(Reply("").to_bytes()) == Reply("", usage=Usage(1))


# -- forms


@dataclass(frozen=True)
class Name:
    title: str
    default: str = "none"


@dataclass(frozen=True, slots=True)
class Person:
    name: Name
    age: int
    likes: list[str]
    near: tuple[Name, ...] = ()
    job: str | None = None
    kind: Literal["guest", "host"] = "guest"


ADA = {"name": {"title": "Ada", "default": "A"}, "age": 36, "likes": ["sea"], "near": [], "job": None, "kind": "host"}
YES_NO: Any = Literal["yes", "no"]
JA: Any = Literal["はい", "いいえ"]


def parse(kind: Any, raw: str, finish_reason: str = "stop") -> Any:
    return reply_form(kind).parse(Reply(raw, finish_reason))


def test_a_dataclass_is_parsed_with_nested_values() -> None:
    ada = Person(Name("Ada", "A"), 36, ["sea"], kind="host")
    assert parse(Person, json.dumps(ADA)) == ada
    assert parse(Person, '{"name": {"title": "Bo"}, "age": 2, "likes": [], "near": [{"title": "Ada"}]}') == Person(
        Name("Bo"), 2, [], (Name("Ada"),)
    )
    assert parse(list[Person], json.dumps([ADA, ADA])) == parse(list[Person], json.dumps({"answer": [ADA, ADA]}))
    assert parse(list[Person], '{"answer": []}') == []
    assert parse(Person, f"<think>{{}}</think>{json.dumps(ADA)}") == ada


def schema_objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects within a schema, without the names of properties."""
    if isinstance(schema, list):
        for part in schema:
            yield from schema_objects(part)
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            values = value.values() if key in ("properties", "$defs") else [value]
            for part in values:
                yield from schema_objects(part)


@pytest.mark.parametrize("kind", [Name, Person, list[Person], YES_NO, list[YES_NO]])
def test_a_schema_is_as_strict_as_servers_want(kind: Any) -> None:
    schema = reply_form(kind).json_schema
    assert schema["type"] == "object"
    for part in schema_objects(schema):
        assert not {"title", "default"} & part.keys()
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
    json.dumps(schema)


def test_properties_may_have_any_name() -> None:
    assert list(reply_form(Name).json_schema["properties"]) == ["title", "default"]
    assert reply_form(Name).json_schema["properties"]["default"] == {"type": "string"}


@dataclass(frozen=True)
class Item:
    """A part of a reply, with a name that schemas use too."""

    required: str
    count: int


@dataclass(frozen=True)
class Inventory:
    """A reply with parts."""

    items: list[Item]


def test_a_form_has_instructions() -> None:
    assert reply_form(Name) is reply_form(Name)
    schema = json.loads(reply_form(Inventory).instructions.partition("JSON schema:\n")[2])
    item = {"type": "object", "properties": {"required": {"type": "string"}, "count": {"type": "integer"}}}
    assert schema == {"type": "object", "properties": {"items": {"type": "array", "items": item}}}
    assert isinstance(reply_form(YES_NO), ReplyForm)


@pytest.mark.parametrize(
    "raw",
    [
        '```json\n{"title": "Ada"}\n```',
        '```\n{"title": "Ada"}\n```',
        'Here you are:\n{"title": "Ada"}\nI hope that this helps.',
        '{"title": "Ada",}',
        "{'title': 'Ada'}",
        "{title: 'Ada'}",
        '{"title": "Ada"',
        '{"title": "Ada", // her name\n}',
    ],
)
def test_broken_json_is_repaired(raw: str) -> None:
    assert parse(Name, raw) == Name("Ada")


@pytest.mark.parametrize("raw", ["", "Ada.", "<think>{}", '"Ada"', "[]", "null", "[" * 100_000, '{"title":' * 100_000])
def test_a_reply_without_such_a_value_is_malformed(raw: str) -> None:
    with pytest.raises(MalformedReply):
        parse(Name, raw)


@pytest.mark.parametrize("raw", ['{"title": "Ada", "defau', '[{"title": "A"}, {"ti', "<think>Nine", "At ten and"])
def test_a_truncated_reply_is_not_guessed(raw: str) -> None:
    with pytest.raises(MalformedReply, match="cut off before its end: say the same more briefly"):
        parse(Name, raw, finish_reason="length")
    assert parse(Name, '{"title": "Ada"}', finish_reason="length") == Name("Ada")


@pytest.mark.parametrize(
    ("changed", "details"),
    [
        ({"age": "old"}, r"\(age: .*integer"),
        ({"name": {"default": "x"}}, r"\(name.title: Field required\)"),
        ({"kind": "ghost"}, r"\(kind: .*'guest' or 'host'"),
        ({"near": [{"title": "x"}, {"title": 3}]}, r"\(near.1.title: .*string"),
        ({"age": 1e999}, r"\(age: "),
    ],
)
def test_a_value_that_does_not_fit_is_named(changed: dict[str, object], details: str) -> None:
    with pytest.raises(MalformedReply, match=rf"^The reply does not fit the schema {details}"):
        parse(Person, json.dumps(ADA | changed))


@pytest.mark.parametrize("raw", ["Yes.", "yes", " **YES** ", "<think>no</think>Yes", '"yes"', '{"answer": "yes"}'])
def test_a_choice_may_stand_in_a_sentence(raw: str) -> None:
    assert parse(YES_NO, raw) == "yes"


def test_a_choice_may_be_any_word() -> None:
    assert [parse(JA, raw) for raw in ("はい", "はい。", "答え：はい")] == ["はい"] * 3
    assert [parse(JA, raw) for raw in ("「いいえ」です", "いいえ、違います。")] == ["いいえ"] * 2
    assert parse(Literal[1, 2], "It is 2.") == parse(Literal[1, 2], '{"answer": 2}') == 2


@pytest.mark.parametrize("raw", ["yes or no", "Yesterday", "none", "maybe", "", '{"answer": "maybe"}'])
def test_no_choice_or_two_choices_are_malformed(raw: str) -> None:
    with pytest.raises(MalformedReply):
        parse(YES_NO, raw)
