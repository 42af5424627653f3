"""prompt -> a stub reply, at once and of realistic length: the model of the benchmarks of graph and methods.

An extraction reply holds the names that the rules find in the text; a JSON reply is filled in from the schema in the
prompt.
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
from kumihimo.index.name_records import NameResolver
from kumihimo.index.rules import ner
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.local_embedder import LocalTokenizer
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat

EACH = 8  # entities and relations of a chunk
FILL = "It took part in what the speakers talk about here, said why it matters to them, and what came of it later on."
FINDING = " ".join([FILL] * 4)
REPORT = json.dumps(
    {
        "title": "What they talk about",
        "summary": " ".join([FILL] * 3),
        "rating": 6.5,
        "rating_explanation": FILL,
        "reason": FILL,
        "findings": [{"summary": FILL, "explanation": FINDING, "sources": [1, 2, 3, 5]} for _ in range(5)],
    }
)
_SCHEMA = "JSON schema:\n"
_NUMBERS = {"score": 50, "confidence": 80}  # other numbers are 1, a valid source number
_MANY = {"questions": 3, "sources": 1, "answer": 1}  # items of a list; other lists have two


def extract_records(text: str, *, own: bool = False) -> list[str]:
    """Return the records of a text.

    The rules find its names, so that a name can occur in other texts too.

    own: describe with words of the text, so that each text describes a name differently.
    """
    chunk = Chunk(title="", start=0, end=len(text), tokens=0, text=text)
    mentions = ner.find_mentions(chunk, ner.find_names(chunk), NameResolver())
    names = list(dict.fromkeys(mention.name for mention in mentions))[:EACH]
    return format_records(names, " ".join(text.split()[20:44]).replace("|", " ") if own else FILL)


def format_records(names: list[str], description: str = FILL) -> list[str]:
    """Return records of these names and of neighbouring pairs."""
    pairs = zip(names, [*names[1:], *names[:1]], strict=False)
    lines = [f"entity<|>{name}<|>person<|>{name} is named. {description}" for name in names]
    return lines + [f"relation<|>{a}<|>{b}<|>{a} and {b}. {description}<|>talk, work<|>7" for a, b in pairs]


@dataclass
class InstantRegistry(ModelRegistry):
    """A registry of stub models with extraction replies prepared in advance.

    cpu_seconds: those of each reply, to be subtracted from those of the caller.
    """

    records_by_text: Mapping[str, list[str]] = field(default_factory=dict)  # by `text_key`
    models: dict[str, FakeChat] = field(default_factory=dict)  # by scope
    cpu_seconds: list[float] = field(default_factory=list)

    def chat(self, scope: str) -> Chat | None:
        return self.models.setdefault(scope, FakeChat(self.answer, join_messages=True, workers=8))

    @property
    def prompt_counts(self) -> Counter[str]:
        """Return the prompts of all scopes with their counts."""
        return sum((model.prompt_counts for model in self.models.values()), Counter[str]())

    def answer(self, conversation: str) -> str:
        start = time.thread_time()
        reply = self._reply(conversation)
        self.cpu_seconds.append(time.thread_time() - start)
        return reply

    def _reply(self, conversation: str) -> str:
        last = conversation[conversation.rfind("\n\n") :]
        if "<|>NAME<|>" in conversation:
            lines = self.records_by_text[_prompt_text_key(conversation)]
            return "\n".join([*(lines[-1:] if "are still missing" in last else lines), "END"])
        if "in lines of a word and its values" in conversation:
            return "\n".join(
                f"[{n}]\nwho: speakers\npredicate: talk" for n in re.findall(r"</passage (\d+)>", conversation)
            )
        if "\n\nPairs: " in conversation:
            return "\n".join(f"{pair} | reason | 0.8" for pair in conversation.rpartition("Pairs: ")[2].split(", "))
        before, wants_json, schema = conversation.rpartition(_SCHEMA)
        return _json(before, json.JSONDecoder().raw_decode(schema)[0]) if wants_json else f"In short: {FILL} [1]"


def _json(before: str, schema: dict[str, Any]) -> str:
    """Return a report, a rating or a filled schema.

    One report in three is rated as helpful.
    """
    if "findings" in schema["properties"]:
        return REPORT.replace("What they talk about", f"What they talk about, {hash_parts(before)}")
    if set(schema["properties"]) == {"rating"}:
        return json.dumps({"rating": 3 if int(hash_parts(before), 16) % 3 == 0 else 0})
    return json.dumps(_SchemaFiller(schema, before, random.Random(int(hash_parts(before), 16))).fill(schema, ""))


@dataclass(frozen=True, slots=True)
class _SchemaFiller:
    """A schema, the prompt before it, and the generator for choices."""

    schema: Mapping[str, Any]
    before: str
    rng: random.Random

    def fill(self, part: Mapping[str, Any], name: str) -> Any:
        """Return a value for a part of the schema, for property `name`."""
        if "$ref" in part:
            return self.fill(self.schema["$defs"][part["$ref"].rpartition("/")[2]], name)
        if choices := part.get("enum"):
            return self.rng.choice(choices)
        kind = part.get("type", "string")
        if kind == "object":
            return {key: self.fill(inner, key) for key, inner in part["properties"].items()}
        if kind == "array":
            return [self.fill(part["items"], name) for _ in range(_MANY.get(name, 2))]
        return self._write_text(name) if kind == "string" else _NUMBERS.get(name, 1)

    def _write_text(self, name: str) -> str:
        """Return a filler sentence, a question of prompt words, or question words.

        The last paragraph of the prompt is the question.
        """
        if name in ("answer", "description"):
            return FILL
        source = self.before if name == "question" else self.before.split("\n\n")[-2]
        terms = sorted(set(re.findall(r"[^\W\d_]{4,}", source))) or ["words"]
        phrase = " ".join(self.rng.choices(terms, k=3 if name == "question" else 2))
        return f"What is said of {phrase}?" if name == "question" else phrase


def _prompt_text_key(conversation: str) -> str:
    """Return the key of an extraction prompt's text."""
    return text_key(conversation.rpartition("Text:\n<text>\n")[2].partition("\n</text>")[0])


def text_key(text: str) -> str:
    """Return the start of a text, which identifies it."""
    return text[:400].strip()


def use_instant_model(kumi: Kumihimo, *sources: Path, own: bool = False) -> InstantRegistry:
    """Replace the models by a stub with prepared records of these sources.

    The records are prepared here, before anything is measured. own: as in `extract_records`.
    """
    texts: list[str] = []
    for source in sources:
        with source.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                document = Document(uri="", file="", title="", media_type="", text=row["text"])
                texts += [chunk.text for chunk in chunks(document, kumi.tokenizer)]
    records_by_text = {text_key(text): extract_records(text, own=own) for text in texts}
    model = InstantRegistry(kumi.models.settings, kumi.models.cache, records_by_text=records_by_text)
    kumi.models = model
    return model


def count_tokens(text: str) -> int:
    """Count tokens with the built-in tokenizer; repeated paragraphs are cached."""
    return sum(map(_count_paragraph_tokens, re.split(r"(?<=\n\n)", text)))


@cache
def _count_paragraph_tokens(paragraph: str) -> int:
    return len(LocalTokenizer()(paragraph))
