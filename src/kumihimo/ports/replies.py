"""what a model said -> what it meant: preambles cut off, JSON read and mended, checked against the form asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin

from kumihimo.core.errors import Malformed
from kumihimo.core.records import Usage
from kumihimo.ports.models import Hear

T = TypeVar("T")

_THOUGHTS = "think|thinking|thought|thoughts|reasoning"
_PREAMBLE = re.compile(rf"\s*<({_THOUGHTS})>.*?(?:</\1>|\Z)", re.S | re.I)
_OPENING = re.compile(rf"<(?:{_THOUGHTS})>|<[a-z]*\Z", re.I)  # or what may become one
_UNOPENED = re.compile(r"\A(?:(?!<think(?:ing)?>).)*?</think(?:ing)?>", re.S | re.I)
_HARMONY = "<|channel|>final<|message|>"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply as it came, why it ended ("stop", "length", ...), and what was paid for it."""

    raw: str
    end: str = "stop"
    usage: Usage = field(default_factory=Usage)

    @property
    def text(self) -> str:
        """Without the thoughts that thinking models put before it."""
        return said(self.raw)

    @property
    def cut(self) -> bool:
        """Whether it broke off at the greatest length a reply may have."""
        return self.end == "length"

    def packed(self) -> bytes:
        """As the memo keeps it."""
        told = self.usage
        counts = [told.prompt_tokens, told.cached_tokens, told.completion_tokens, told.cost, round(told.seconds, 3)]
        return json.dumps([self.raw, self.end, counts], ensure_ascii=False, separators=(",", ":")).encode()

    @staticmethod
    def unpacked(value: bytes) -> Reply:
        raw, end, counts = json.loads(value)
        return Reply(raw, end, Usage(1, *counts))


def said(raw: str) -> str:
    """The reply proper. Tags are thoughts only before it, so that a text about `<think>` stays whole.

    >>> said("<think>Nine? Ten.</think>At ten. It thinks in <think> tags.")
    'At ten. It thinks in <think> tags.'
    >>> said("The template ate the opening tag.</think> At ten.")
    'At ten.'
    """
    text = raw.rpartition(_HARMONY)[2].removesuffix("<|return|>") if _HARMONY in raw else raw
    if "</think" in text:
        text = _UNOPENED.sub("", text, count=1)
    while preamble := _PREAMBLE.match(text):
        text = text[preamble.end() :]
    return text.strip()


def any_text(reply: Reply) -> str:
    """The text, however far it goes. Raises Malformed where there is none."""
    if not reply.text:
        raise Malformed("The reply is empty.")
    return reply.text


def whole_text(reply: Reply) -> str:
    """The text. Raises Malformed where there is none, or it breaks off."""
    if reply.cut and reply.text:
        raise Malformed("The reply was cut off before its end: say the same more briefly.")
    return any_text(reply)


class Spoken:
    """Tells the pieces of a reply on, from where it begins to speak."""

    def __init__(self, hear: Hear) -> None:
        self.hear, self.begun, self._held = hear, False, ""

    def __call__(self, piece: str) -> None:
        if self.begun:
            self.hear(piece)
            return
        self._held = (self._held + piece).lstrip()
        while (thought := _PREAMBLE.match(self._held)) and "</" in thought[0]:
            self._held = self._held[thought.end() :].lstrip()
        if self._held and not _OPENING.match(self._held):
            self.begun = True
            self.hear(self._held)


class Form(Generic[T]):
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
        self.schema = _strict(_object(inner) if self._wrapped else inner)
        self.told = "Reply with one JSON object and nothing else. It has to fit this JSON schema:\n" + json.dumps(
            self.schema, ensure_ascii=False
        )

    def read(self, reply: Reply) -> T:
        """What the reply says. Raises Malformed."""
        from pydantic import ValidationError

        text = reply.text
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            if choice := self._chosen(text):
                return cast(T, choice)
            if reply.cut:
                raise Malformed("The reply was cut off before its end: say the same more briefly.") from None
            value = _mended(text)
        if self._wrapped and isinstance(value, dict) and "answer" in value:
            value = value["answer"]
        try:
            found: T = self._adapter.validate_python(value)
            return found
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in error.errors()[:3])
            raise Malformed(f"The reply does not fit the schema ({wrong}).") from error

    def _chosen(self, text: str) -> Any:
        """The one choice that the text names, where it names one only."""
        named = [c for c in self._choices if re.search(rf"(?<!\w){re.escape(str(c))}(?!\w)", text, re.I)]
        return named[0] if len(named) == 1 else None


@cache
def form(kind: Any) -> Form[Any]:
    """The form of a frozen dataclass, a Literal, or a list of such."""
    return Form(kind)


def _mended(text: str) -> object:
    """The JSON in a text, with what is broken about it mended. Raises Malformed where there is none."""
    from json_repair import loads

    if "{" not in text and "[" not in text:
        raise Malformed("The reply holds no JSON.")
    try:
        return loads(text[min(i for i in (text.find("{"), text.find("[")) if i >= 0) :])
    except RecursionError as error:
        raise Malformed("The reply is nested too deeply.") from error


def _object(inner: Mapping[str, Any]) -> dict[str, Any]:
    """Servers take schemas of objects only: one with a single `answer`."""
    outer = {key: value for key, value in inner.items() if key == "$defs"}
    answer = {key: value for key, value in inner.items() if key != "$defs"}
    return {"type": "object", "properties": {"answer": answer}, **outer}


def _strict(schema: Any) -> Any:
    """The schema as strict servers want it: nothing may be added, nothing left out, no defaults, no titles."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            made[key] = {name: _strict(part) for name, part in value.items()}
        elif key not in ("title", "default"):
            made[key] = _strict(value)
    if "properties" in made:
        made |= {"additionalProperties": False, "required": list(made["properties"])}
    return made
