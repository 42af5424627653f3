"""a conversation -> what a model of few words would say: it reads a graph out of texts, merges, reports, answers.

Entities are the capitalised words of a text; each is related to the next one of its sentence. Of some texts it leaves
one out at first, which it adds when asked whether that was all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise

from kumihimo.core.digests import hash_parts
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests.fenced_texts import fenced_text

_NAME = re.compile(r"\b[A-Z][a-z]+\b|[\u30a1-\u30fa][\u30a1-\u30fcー]+")
_SENTENCE = re.compile(r"[^.。!?]+[.。!?]?")
_GIVEN = re.compile(r"^(?:Of:\n|Entities:\n|Reports:\n)", re.M)  # where what is to be merged or reported on begins
FIELD_KEYS = re.compile(r"^- (\w+)(?: \(.*\))?: .* If not, the list is empty\.$", re.M)
_SHORT = 80  # characters: reports are shorter than what they replace


def answer(conversation: str) -> str:
    """What it says next."""
    while conversation.endswith(" Reply again, in full."):
        conversation = conversation.rsplit("\n\n", 2)[0]  # without the reply that was no good, and the complaint
    last = conversation.rpartition("\n\n")[2]
    first = _text_of(conversation)
    if "First the values of these fields" in conversation:
        return _prepared(fenced_text(conversation, "text"), FIELD_KEYS.findall(conversation))
    if "are still missing" in last:
        return "\n".join([*list(_records(first))[: _leaves_out(first)], "END"])
    if "claim<|>SUBJECT" in conversation.partition(first)[2]:
        return "\n".join([*_claims(first), "END"])
    if "entity<|>NAME<|>TYPE" in conversation:
        return "\n".join([*list(_records(first))[_leaves_out(first) :], "END"])
    return _other(conversation)


def _text_of(conversation: str) -> str:
    """The text that it is to read."""
    return fenced_text(conversation, "text") or conversation.partition("\n\n")[0]


def _leaves_out(text: str) -> bool:
    return int(hash_parts(text), 16) % 3 == 0


def _records(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(text):
        names = list(dict.fromkeys(_NAME.findall(sentence)))
        said = " ".join(sentence.split())
        for name in names:
            yield f"entity<|>{name}<|>person<|>{name}: {said}"
        for one, other in pairwise(names):
            yield f"relation<|>{one}<|>{other}<|>{said}<|>meeting<|>{len(said) % 10 + 1}"


def _frames(conversation: str) -> str:
    """Who is named in each passage, and its first word in small letters."""
    said = list[str]()
    for number, text in re.findall(r"^<passage(?:-\d+)? (\d+)>\n(.*?)\n</passage", conversation, re.M | re.S):
        said += [f"[{number}]", f"who: {'; '.join(list(dict.fromkeys(_NAME.findall(text)))[:4])}"]
        said += [f"predicate: {word}" for word in re.findall(r"\b[a-z]+\b", text)[:1]]
    return "\n".join(said)


def _claims(text: str) -> Iterator[str]:
    for sentence in _SENTENCE.findall(text):
        for name in _NAME.findall(sentence)[:1]:
            said = " ".join(sentence.split())
            yield f"claim<|>{name}<|>NONE<|>doing<|>TRUE<|>2024-01-01<|>NONE<|>{said}<|>{said}"


def _prepared(text: str, keys: list[str]) -> str:
    """Of the first names of a text a list for each field; of each sentence a question, and the sentence in answer."""
    names = list(dict.fromkeys(_NAME.findall(text)))
    told = [" ".join(sentence.split()) for sentence in _SENTENCE.findall(text) if sentence.strip()][:9]
    asked = [{"question": f"What was it that happened, such as {said[:60]!r}?", "answer": said} for said in told]
    return json.dumps({"fields": {key: names[n : n + 2] for n, key in enumerate(keys)}, "questions": asked})


def fill_links(conversation: str) -> Iterator[str]:
    """Of each pair a sense, or none, which its two texts decide."""
    texts = dict(re.findall(r"^(\d+): (.*)$", fenced_text(conversation, "texts"), re.M))
    for one, other in re.findall(r"(\d+) (\d+)", conversation.rpartition("\nPairs: ")[2]):
        n = int(hash_parts(texts[one], texts[other]), 16)
        yield f"{one} {other} | {('reason', 'precedence', 'none', 'list')[n % 4]} | {n // 8 % 11 / 10}"


def _groups(conversation: str) -> str:
    """One group of the entries, unless their names decide otherwise; a name that is two entries is left out."""
    entries = re.findall(r"^<item (\d+)>\nNames: (.*)$", conversation, re.M)
    names = [name for _, name in entries]
    numbers = [int(number) for number, name in entries if names.count(name) == 1]
    return json.dumps({"groups": [numbers] if int(hash_parts(*sorted(names)), 16) % 4 else []})


def _other(conversation: str) -> str:
    """A report, a rating, points, a description: whatever is asked for, of the words that are there."""
    if "You read numbered entries" in conversation:
        return _groups(conversation)
    if "\n\nPairs: " in conversation:
        return "\n".join(fill_links(conversation))
    if "\n- predicate: the verbs" in conversation:
        return _frames(conversation)
    given = _GIVEN.search(conversation)
    names = _NAME.findall(conversation[given.end() if given else 0 :].partition("\n</notes>")[0])
    words = " ".join(dict.fromkeys(names))[: _SHORT if given else 200] or "nothing"
    if "JSON schema" not in conversation:
        return f"It is said of {words}."
    schema = json.loads(conversation.rpartition("JSON schema:\n")[2].partition("\n\n")[0])
    return json.dumps(_filled(schema, schema, words), ensure_ascii=False)


def _filled(schema: dict[str, object], root: dict[str, object], words: str) -> object:
    kind = schema.get("type")
    if "$ref" in schema:
        return _filled(root["$defs"][str(schema["$ref"]).rpartition("/")[2]], root, words)  # type: ignore[index]
    if "enum" in schema:
        return schema["enum"][-1]  # type: ignore[index]
    if "anyOf" in schema:
        return _filled(schema["anyOf"][0], root, words)  # type: ignore[index]
    if kind == "object":
        return {name: _filled(part, root, words) for name, part in schema["properties"].items()}  # type: ignore[attr-defined]
    if kind == "array":
        return [_filled(schema["items"], root, words)]  # type: ignore[arg-type]
    return {"number": 5, "integer": 1, "boolean": True}.get(str(kind), f"{words} [Data: Entities (1, 2, 99)]")


class Readers(ModelRegistry):
    """That model for whoever asks; it counts what it was asked."""

    def chat(self, scope: str) -> Chat | None:
        given = self.settings.get(scope, {})
        if given.get("model") == "rules":
            return None
        if not hasattr(self, "reader"):
            self.reader = FakeChat(answer, join_messages=True)
        return self.reader
