"""prompt -> reply, at once and as long as a real one: what the benchmarks of the graph and of the methods ask.

A text has the entities that its names give; JSON is filled in after the schema that is asked for.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kumihimo import Kumihimo
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Document
from kumihimo.index.chunks import chunks
from kumihimo.index.rules import ner
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.protocols import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

EACH = 8  # entities and relations of a chunk
FILL = "It took part in what the speakers talk about here, said why it matters to them, and what came of it later on."
FINDING = " ".join([FILL] * 4) + " [Data: Entities (1, 2); Relationships (1, 3, +more)]"
REPORT = json.dumps(
    {
        "title": "What they talk about",
        "summary": " ".join([FILL] * 3),
        "rating": 6.5,
        "rating_explanation": FILL,
        "reason": FILL,
        "findings": [{"summary": FILL, "explanation": FINDING} for _ in range(5)],
    }
)
_SCHEMA = "JSON schema:\n"
_NUMBERS = {"score": 50, "confidence": 80}  # others are 1, as the number of a source may be
_MANY = {"questions": 3, "sources": 1, "answer": 1}  # items of a list; of others two


def records(text: str, *, own: bool = False) -> list[str]:
    """What the model reads in a text: names that stand in it, so that they come again elsewhere.

    own: with words of the text, so that of a name something else is said each time.
    """
    chunk = Chunk(title="", start=0, end=len(text), tokens=0, text=text)
    found = list(dict.fromkeys(mention.name for mention in ner.find_mentions(chunk, {})))[:EACH]
    return told(found, " ".join(text.split()[20:44]).replace("|", " ") if own else FILL)


def told(found: list[str], said: str = FILL) -> list[str]:
    """Records of these names, and of as many pairs of neighbours among them."""
    pairs = zip(found, [*found[1:], *found[:1]], strict=False)
    lines = [f"entity<|>{name}<|>person<|>{name} is named. {said}" for name in found]
    return lines + [f"relation<|>{a}<|>{b}<|>{a} and {b}. {said}<|>talk, work<|>7" for a, b in pairs]


@dataclass
class Instant(ModelRegistry):
    """A model that has thought of all answers before it is asked.

    spent: the CPU seconds that it took all the same, of whoever asked.
    """

    known: Mapping[str, list[str]] = field(default_factory=dict)  # records by how a text begins
    models: dict[str, FakeChat] = field(default_factory=dict)  # by scope
    spent: list[float] = field(default_factory=list)

    def chat(self, scope: str) -> Chat | None:
        return self.models.setdefault(scope, FakeChat(self.answer, join_messages=True, workers=8))

    @property
    def asked(self) -> Counter[str]:
        """The prompts of all scopes."""
        return sum((model.prompt_counts for model in self.models.values()), Counter[str]())

    def answer(self, conversation: str) -> str:
        began = time.thread_time()
        reply = self._reply(conversation)
        self.spent.append(time.thread_time() - began)
        return reply

    def _reply(self, conversation: str) -> str:
        last = conversation[conversation.rfind("\n\n") :]
        if "yes or no" in last:
            return "no"
        if "<|>NAME<|>" in conversation:
            said = self.known[_text(conversation)]
            return "\n".join([*(said[-1:] if "are still missing" in last else said), "END"])
        before, asks, schema = conversation.rpartition(_SCHEMA)
        return _json(before, json.JSONDecoder().raw_decode(schema)[0]) if asks else f"In short: {FILL} [1]"


def _json(before: str, schema: dict[str, Any]) -> str:
    """A report; else whatever the schema asks for; of three reports to be rated one helps."""
    if "findings" in schema["properties"]:
        return REPORT.replace("What they talk about", f"What they talk about, {hash_parts(before)}")
    if set(schema["properties"]) == {"rating"}:
        return json.dumps({"rating": 3 if int(hash_parts(before), 16) % 3 == 0 else 0})
    return json.dumps(_Form(schema, before, random.Random(int(hash_parts(before), 16))).filled(schema, ""))


@dataclass(frozen=True, slots=True)
class _Form:
    """A schema, what stands before it, and how to choose among its words."""

    schema: Mapping[str, Any]
    before: str
    rng: random.Random

    def filled(self, part: Mapping[str, Any], name: str) -> Any:
        """A value of that part of the form; name: of the property that it is for."""
        if "$ref" in part:
            return self.filled(self.schema["$defs"][part["$ref"].rpartition("/")[2]], name)
        if choices := part.get("enum"):
            return self.rng.choice(choices)
        kind = part.get("type", "string")
        if kind == "object":
            return {key: self.filled(inner, key) for key, inner in part["properties"].items()}
        if kind == "array":
            return [self.filled(part["items"], name) for _ in range(_MANY.get(name, 2))]
        return self._said(name) if kind == "string" else _NUMBERS.get(name, 1)

    def _said(self, name: str) -> str:
        """A sentence; a question of words of the prompt; or words of its last paragraph, which is the question."""
        if name in ("answer", "description"):
            return FILL
        told = self.before if name == "question" else self.before.split("\n\n")[-2]
        terms = sorted(set(re.findall(r"[^\W\d_]{4,}", told))) or ["words"]
        said = " ".join(self.rng.choices(terms, k=3 if name == "question" else 2))
        return f"What is said of {said}?" if name == "question" else said


def _text(conversation: str) -> str:
    """The text of an extraction prompt: after the examples, before the first reply."""
    return beginning(re.split(r"\n\n(?:entity<\|>|END)", conversation.rpartition("Text:\n")[2], maxsplit=1)[0])


def beginning(text: str) -> str:
    """By which a text is known."""
    return text[:400].strip()


def connected(kumi: Kumihimo, *sources: Path, own: bool = False) -> Instant:
    """That model in place of the others; what it says of these sources is thought of before anything is measured.

    own: something else of a name each time.
    """
    texts: list[str] = []
    for source in sources:
        with source.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                document = Document(uri="", file="", title="", media_type="", text=row["text"])
                texts += [chunk.text for chunk in chunks(document, kumi.tokenizer)]
    known = {beginning(text): records(text, own=own) for text in texts}
    model = Instant(kumi.models.settings, kumi.models.cache, known=known)
    kumi.models = model
    return model


def tokens(text: str) -> int:
    """Those of the built-in tokenizer; what comes again in many prompts is counted once."""
    return sum(map(_tokens, re.split(r"(?<=\n\n)", text)))


@cache
def _tokens(paragraph: str) -> int:
    return len(LocalTokenizer()(paragraph))
