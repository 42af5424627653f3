"""what a model said -> what it meant: preambles cut off, JSON read and mended, checked against the form asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin

from kumihimo.core.digests import replace_surrogates
from kumihimo.core.errors import MalformedReply
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import TokenCallback

T = TypeVar("T")

_REASONING_TAGS = "think|thinking|thought|thoughts|reasoning"
_THOUGHT = re.compile(rf"\s*<({_REASONING_TAGS})>.*?</\1>", re.S | re.I)
_UNFINISHED = re.compile(rf"\A\s*<({_REASONING_TAGS})>.*\Z", re.S | re.I)
_UNOPENED = re.compile(rf"\A(?:(?!<(?:{_REASONING_TAGS})>).)*?</({_REASONING_TAGS})>", re.S | re.I)
_MAYBE_TAG = re.compile(rf"<(?:{_REASONING_TAGS})>|<\|?[a-z]*\Z|<\|channel", re.I)  # or what may become one
_MAX_TRIES = 200  # places where JSON may begin
_HARMONY = re.compile(r"<\|channel\|>final.*?<\|message\|>", re.S)


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as it came, why it ended ("stop", "length", ...), and what was paid for it."""

    raw: str
    finish_reason: str = "stop"
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """Without the thoughts that thinking models put before it."""
        return strip_reasoning(self.raw)

    @property
    def truncated(self) -> bool:
        """Whether it broke off at the greatest length a reply may have."""
        return self.finish_reason == "length"

    def to_bytes(self) -> bytes:
        """As the memo keeps it."""
        told = self.usage
        counts = [told.prompt_tokens, told.cached_tokens, told.completion_tokens, told.cost, round(told.seconds, 3)]
        return json.dumps([self.raw, self.finish_reason, counts], ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def from_bytes(value: bytes) -> Reply:
        raw, end, counts = json.loads(value)
        return Reply(raw, end, Usage(1, *counts))


def strip_reasoning(raw: str) -> str:
    """The reply proper. Tags are thoughts only before it, so that a text about `<think>` stays whole.

    >>> said("<think>Nine? Ten.</think>At ten. It thinks in <think> tags.")
    'At ten. It thinks in <think> tags.'
    >>> said("The template ate the opening tag.</think> At ten.")
    'At ten.'
    """
    if final := _HARMONY.search(raw):
        raw = raw[final.end() :].removesuffix("<|return|>")
    text = _strip_closed_reasoning(raw)
    return _UNFINISHED.sub("", text).strip()


def _strip_closed_reasoning(text: str) -> str:
    """The text without the thoughts before it that are whole: opened and closed, or closed only."""
    while thought := _THOUGHT.match(text) or _UNOPENED.match(text):
        text = text[thought.end() :]
    return text.lstrip()


def require_text(reply: Reply) -> str:
    """The text, however far it goes. Raises Malformed where there is none."""
    if not reply.text:
        raise MalformedReply("The reply is empty.")
    return reply.text


def require_complete_text(reply: Reply) -> str:
    """The text. Raises Malformed where there is none, or it breaks off."""
    if reply.truncated and reply.text:
        raise MalformedReply("The reply was cut off before its end: say the same more briefly.")
    return require_text(reply)


class ReasoningFilter:
    """Tells the pieces of a reply on, from where it begins to speak."""

    def __init__(self, hear: TokenCallback) -> None:
        self.on_token, self.started, self._buffer = hear, False, ""

    def __call__(self, piece: str) -> None:
        if self.started:
            self.on_token(piece)
            return
        self._buffer += piece
        final = _HARMONY.search(self._buffer)
        said = self._buffer[final.end() :].lstrip() if final else _strip_closed_reasoning(self._buffer)
        if said and not _MAYBE_TAG.match(said):
            self.started = True
            self.on_token(said)


class ReplyForm(Generic[T]):
    """A form that replies are asked for in: its JSON schema, what to tell the model, and how to read it.

    >>> form(Literal["yes", "no"]).read(Reply("Yes."))
    'yes'
    """

    def __init__(self, kind: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter: TypeAdapter[T] = TypeAdapter(kind)
        inner = self._adapter.json_schema()
        self._wrapped = inner.get("type") != "object"
        self._choices = get_args(kind) if get_origin(kind) is Literal else ()
        self.json_schema = _strict_schema(_wrap_in_object(inner) if self._wrapped else inner)
        self.instructions = (
            "Reply with one JSON object and nothing else. It has to fit this JSON schema:\n"
            + json.dumps(self.json_schema, ensure_ascii=False)
        )

    def parse(self, reply: Reply) -> T:
        """What the reply says. Raises Malformed."""
        if reply.truncated and not _is_json(reply.text):
            raise MalformedReply("The reply was cut off before its end: say the same more briefly.")
        if self._choices:
            return self._parse_choice(reply.text)
        wrong = MalformedReply("The reply holds no JSON.")
        for value in _json_values(reply.text):
            try:
                return self._validate(value)
            except MalformedReply as error:
                wrong = error
        raise wrong

    def _validate(self, value: Any) -> T:
        from pydantic import ValidationError

        if self._wrapped and isinstance(value, dict) and "answer" in value:
            value = value["answer"]
        elif not self._wrapped and isinstance(value, list) and len(value) == 1:
            value = value[0]
        try:
            found: T = self._adapter.validate_python(value)
            return found
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors()[:3])
            raise MalformedReply(f"The reply does not fit the schema ({wrong}).") from error

    def _parse_choice(self, text: str) -> T:
        """The one choice that the reply is, or that its text names. Raises Malformed."""
        plain = [value.get("answer") if isinstance(value, dict) else value for value in _json_values(text)]
        for said in (*plain, text.strip(" .!。\"'`*")):
            for choice in self._choices:
                if str(said).casefold() == str(choice).casefold():
                    return cast(T, choice)
        named: list[Any] = []
        for choice in sorted(self._choices, key=lambda c: -len(str(c))):  # what is part of a longer one is not named
            there = re.compile(rf"(?<!\w){re.escape(str(choice))}(?!\w)", re.I)
            named += [choice] if there.search(text) else []
            text = there.sub(" ", text)
        if len(named) != 1:
            raise MalformedReply(f"The reply has to be one of {', '.join(map(str, self._choices))}.")
        return cast(T, named[0])


@cache
def reply_form(kind: Any) -> ReplyForm[Any]:
    """The form of a frozen dataclass, a Literal, or a list of such."""
    return ReplyForm(kind)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_values(text: str) -> Iterator[object]:
    """What a text may hold as JSON: its objects and lists that are whole, longest first; at last what can be mended."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, object]] = []
    at = 0
    tries = 0
    while (begin := re.compile(r"[\[{]").search(text, at)) and tries < _MAX_TRIES:
        try:
            value, at = decoder.raw_decode(text, begin.start())
            found.append((begin.start() - at, value))
        except ValueError:
            at, tries = begin.end(), tries + 1
        except RecursionError as error:
            raise MalformedReply("The reply is nested too deeply.") from error
    yield from (_storable_value(value) for _, value in sorted(found, key=lambda pair: pair[0]))
    if "{" in text or "[" in text:
        yield _repair_json(text[min(i for i in (text.find("{"), text.find("[")) if i >= 0) :])


def _repair_json(text: str) -> object:
    """Broken JSON as it was probably meant. Raises Malformed."""
    from json_repair import loads

    try:
        return _storable_value(loads(text))
    except RecursionError as error:
        raise MalformedReply("The reply is nested too deeply.") from error


def _storable_value(value: Any) -> Any:
    """The value with texts that a file can hold: escapes may have named halves of characters."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list):
        return [_storable_value(item) for item in value]
    return {replace_surrogates(k): _storable_value(v) for k, v in value.items()} if isinstance(value, dict) else value


def _wrap_in_object(inner: Mapping[str, Any]) -> dict[str, Any]:
    """Servers take schemas of objects only: one with a single `answer`."""
    outer = {key: value for key, value in inner.items() if key == "$defs"}
    answer = {key: value for key, value in inner.items() if key != "$defs"}
    return {"type": "object", "properties": {"answer": answer}, **outer}


def _strict_schema(schema: Any) -> Any:
    """The schema as strict servers want it: nothing may be added or left out; no defaults, titles or docstrings."""
    if isinstance(schema, list):
        return [_strict_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            made[key] = {name: _strict_schema(part) for name, part in value.items()}
        elif key not in ("title", "default", "description"):
            made[key] = _strict_schema(value)
    if "properties" in made:
        made |= {"additionalProperties": False, "required": list(made["properties"])}
    return made
