"""What a model said -> what it meant: thoughts cut off, JSON read and mended, checked against the form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from kumihimo.core.errors import MalformedReply
from kumihimo.core.usage import Usage
from kumihimo.llm.structured import ReasoningFilter, Reply, ReplyForm, reply_form, strip_reasoning

HARMONY = "<|channel|>analysis<|message|>Nine?<|end|><|start|>assistant<|channel|>final<|message|>At ten.<|return|>"


@pytest.mark.parametrize(
    ("raw", "meant"),
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
        ("The template ate the tag.</think>At ten.", "At ten."),
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
def test_thoughts_before_a_reply_are_no_part_of_it(raw: str, meant: str) -> None:
    assert strip_reasoning(raw) == meant
    assert Reply(raw).text == meant
    assert Reply(raw).raw == raw


def test_a_long_thought_is_cut_off_at_once() -> None:
    assert strip_reasoning("<think>" * 20_000 + "</think>At ten.") == "At ten."
    assert strip_reasoning("<think>a</think>" * 20_000 + "At ten.") == "At ten."
    assert strip_reasoning("a <" * 50_000 + "</think>At ten.") == "At ten."


def pieces(raw: str, size: int) -> list[str]:
    return [raw[i : i + size] for i in range(0, len(raw), size)]


def told(raw: str, size: int) -> str:
    """What is told of a reply that comes in pieces of that size."""
    heard: list[str] = []
    spoken = ReasoningFilter(heard.append)
    for piece in pieces(raw, size):
        spoken(piece)
    assert spoken.started == bool(heard)
    return "".join(heard)


SPOKEN = (
    "At ten.",
    " \n At ten,  \n\n <b>not</b> nine.",
    "<thinkpad> is a word.",
    "<b>At ten.</b>",
    "At ten. It says <think>nine</think>.",
    "<think>Nine? And then the reply was cut",
)


@pytest.mark.parametrize("raw", SPOKEN)
@pytest.mark.parametrize("size", range(1, 41))
def test_a_reply_is_told_as_it_comes_from_where_it_begins(raw: str, size: int) -> None:
    assert told(raw, size) == strip_reasoning(raw)


def test_nothing_is_held_back_once_it_speaks() -> None:
    heard: list[str] = []
    spoken = ReasoningFilter(heard.append)
    for piece in ("At", " ten", " <", "think> or so"):
        spoken(piece)
        assert heard[-1] == piece


def test_a_reply_is_unpacked_as_it_was_packed() -> None:
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


def read(kind: Any, raw: str, end: str = "stop") -> Any:
    return reply_form(kind).parse(Reply(raw, end))


def test_a_dataclass_is_read_with_all_within() -> None:
    ada = Person(Name("Ada", "A"), 36, ["sea"], kind="host")
    assert read(Person, json.dumps(ADA)) == ada
    assert read(Person, '{"name": {"title": "Bo"}, "age": 2, "likes": [], "near": [{"title": "Ada"}]}') == Person(
        Name("Bo"), 2, [], (Name("Ada"),)
    )
    assert read(list[Person], json.dumps([ADA, ADA])) == read(list[Person], json.dumps({"answer": [ADA, ADA]}))
    assert read(list[Person], '{"answer": []}') == []
    assert read(Person, f"<think>{{}}</think>{json.dumps(ADA)}") == ada


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """All objects within a schema, names of properties left out."""
    if isinstance(schema, list):
        for part in schema:
            yield from parts(part)
    elif isinstance(schema, dict):
        yield schema
        for key, value in schema.items():
            named = value.values() if key in ("properties", "$defs") else [value]
            for part in named:
                yield from parts(part)


@pytest.mark.parametrize("kind", [Name, Person, list[Person], YES_NO, list[YES_NO]])
def test_a_schema_is_as_strict_as_servers_want(kind: Any) -> None:
    schema = reply_form(kind).json_schema
    assert schema["type"] == "object"
    for part in parts(schema):
        assert not {"title", "default"} & part.keys()
        if part.get("type") == "object":
            assert part["additionalProperties"] is False
            assert part["required"] == list(part["properties"])
    json.dumps(schema)


def test_properties_may_be_called_what_they_like() -> None:
    assert list(reply_form(Name).json_schema["properties"]) == ["title", "default"]
    assert reply_form(Name).json_schema["properties"]["default"] == {"type": "string"}


def test_a_form_says_what_it_wants() -> None:
    assert reply_form(Name) is reply_form(Name)
    assert reply_form(Name).instructions.endswith(json.dumps(reply_form(Name).json_schema))
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
def test_what_is_broken_is_mended(raw: str) -> None:
    assert read(Name, raw) == Name("Ada")


@pytest.mark.parametrize("raw", ["", "Ada.", "<think>{}", '"Ada"', "[]", "null", "[" * 100_000, '{"title":' * 100_000])
def test_what_holds_no_such_thing_is_malformed(raw: str) -> None:
    with pytest.raises(MalformedReply):
        read(Name, raw)


@pytest.mark.parametrize("raw", ['{"title": "Ada", "defau', '[{"title": "A"}, {"ti', "<think>Nine", "At ten and"])
def test_what_was_cut_off_is_not_guessed(raw: str) -> None:
    with pytest.raises(MalformedReply, match="cut off before its end: say the same more briefly"):
        read(Name, raw, end="length")
    assert read(Name, '{"title": "Ada"}', end="length") == Name("Ada")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"age": "old"}, r"\(age: .*integer"),
        ({"name": {"default": "x"}}, r"\(name.title: Field required\)"),
        ({"kind": "ghost"}, r"\(kind: .*'guest' or 'host'"),
        ({"near": [{"title": "x"}, {"title": 3}]}, r"\(near.1.title: .*string"),
        ({"age": 1e999}, r"\(age: "),
    ],
)
def test_what_does_not_fit_is_named(changed: dict[str, object], said: str) -> None:
    with pytest.raises(MalformedReply, match=rf"^The reply does not fit the schema {said}"):
        read(Person, json.dumps(ADA | changed))


@pytest.mark.parametrize("raw", ["Yes.", "yes", " **YES** ", "<think>no</think>Yes", '"yes"', '{"answer": "yes"}'])
def test_a_choice_may_be_said_in_words(raw: str) -> None:
    assert read(YES_NO, raw) == "yes"


def test_a_choice_may_be_any_word() -> None:
    assert [read(JA, raw) for raw in ("はい", "はい。", "答え：はい")] == ["はい"] * 3
    assert [read(JA, raw) for raw in ("「いいえ」です", "いいえ、違います。")] == ["いいえ"] * 2
    assert read(Literal[1, 2], "It is 2.") == read(Literal[1, 2], '{"answer": 2}') == 2


@pytest.mark.parametrize("raw", ["yes or no", "Yesterday", "none", "maybe", "", '{"answer": "maybe"}'])
def test_a_choice_that_is_none_or_two_is_malformed(raw: str) -> None:
    with pytest.raises(MalformedReply):
        read(YES_NO, raw)
