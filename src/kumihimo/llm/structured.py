"""what a model said -> what it meant: preambles cut off, JSON read and mended, checked against the form asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin

from kumihimo.core.digests import storable
from kumihimo.core.errors import Malformed
from kumihimo.core.usage import Usage
from kumihimo.llm.protocols import Hear

T = TypeVar("T")

_TAGS = "think|thinking|thought|thoughts|reasoning"
_THOUGHT = re.compile(rf"\s*<({_TAGS})>.*?</\1>", re.S | re.I)
_UNFINISHED = re.compile(rf"\A\s*<({_TAGS})>.*\Z", re.S | re.I)
_UNOPENED = re.compile(rf"\A(?:(?!<(?:{_TAGS})>).)*?</({_TAGS})>", re.S | re.I)
_OPENING = re.compile(rf"<(?:{_TAGS})>|<\|?[a-z]*\Z|<\|channel", re.I)  # or what may become one
_TRIES = 200  # places where JSON may begin
_HARMONY = re.compile(r"<\|channel\|>final.*?<\|message\|>", re.S)


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
    if final := _HARMONY.search(raw):
        raw = raw[final.end() :].removesuffix("<|return|>")
    text = _spoken(raw)
    return _UNFINISHED.sub("", text).strip()


def _spoken(text: str) -> str:
    """The text without the thoughts before it that are whole: opened and closed, or closed only."""
    while thought := _THOUGHT.match(text) or _UNOPENED.match(text):
        text = text[thought.end() :]
    return text.lstrip()


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
        self._held += piece
        final = _HARMONY.search(self._held)
        said = self._held[final.end() :].lstrip() if final else _spoken(self._held)
        if said and not _OPENING.match(said):
            self.begun = True
            self.hear(said)


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
        if reply.cut and not _is_json(reply.text):
            raise Malformed("The reply was cut off before its end: say the same more briefly.")
        if self._choices:
            return self._chosen(reply.text)
        wrong = Malformed("The reply holds no JSON.")
        for value in _values(reply.text):
            try:
                return self._checked(value)
            except Malformed as error:
                wrong = error
        raise wrong

    def _checked(self, value: Any) -> T:
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
            raise Malformed(f"The reply does not fit the schema ({wrong}).") from error

    def _chosen(self, text: str) -> T:
        """The one choice that the reply is, or that its text names. Raises Malformed."""
        plain = [value.get("answer") if isinstance(value, dict) else value for value in _values(text)]
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
            raise Malformed(f"The reply has to be one of {', '.join(map(str, self._choices))}.")
        return cast(T, named[0])


@cache
def form(kind: Any) -> Form[Any]:
    """The form of a frozen dataclass, a Literal, or a list of such."""
    return Form(kind)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _values(text: str) -> Iterator[object]:
    """What a text may hold as JSON: its objects and lists that are whole, longest first; at last what can be mended."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, object]] = []
    at = 0
    tries = 0
    while (begin := re.compile(r"[\[{]").search(text, at)) and tries < _TRIES:
        try:
            value, at = decoder.raw_decode(text, begin.start())
            found.append((begin.start() - at, value))
        except ValueError:
            at, tries = begin.end(), tries + 1
        except RecursionError as error:
            raise Malformed("The reply is nested too deeply.") from error
    yield from (_storable(value) for _, value in sorted(found, key=lambda pair: pair[0]))
    if "{" in text or "[" in text:
        yield _mended(text[min(i for i in (text.find("{"), text.find("[")) if i >= 0) :])


def _mended(text: str) -> object:
    """Broken JSON as it was probably meant. Raises Malformed."""
    from json_repair import loads

    try:
        return _storable(loads(text))
    except RecursionError as error:
        raise Malformed("The reply is nested too deeply.") from error


def _storable(value: Any) -> Any:
    """The value with texts that a file can hold: escapes may have named halves of characters."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return {storable(k): _storable(v) for k, v in value.items()} if isinstance(value, dict) else value


def _object(inner: Mapping[str, Any]) -> dict[str, Any]:
    """Servers take schemas of objects only: one with a single `answer`."""
    outer = {key: value for key, value in inner.items() if key == "$defs"}
    answer = {key: value for key, value in inner.items() if key != "$defs"}
    return {"type": "object", "properties": {"answer": answer}, **outer}


def _strict(schema: Any) -> Any:
    """The schema as strict servers want it: nothing may be added or left out; no defaults, titles or docstrings."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            made[key] = {name: _strict(part) for name, part in value.items()}
        elif key not in ("title", "default", "description"):
            made[key] = _strict(value)
    if "properties" in made:
        made |= {"additionalProperties": False, "required": list(made["properties"])}
    return made
