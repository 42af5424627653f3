"""a conversation, a habit -> the reply of a model of this habit: how much it extracts, and how many words it writes.

Names are capitalised words, runs of katakana and of ideographs; concepts are long words. `CAROL` and `OPENIE` follow
recorded replies of real models: GPT-4 on a novel (8 entities for 600 tokens, descriptions of 20 words, reports of 470)
and GPT-3.5 on encyclopedia passages (many entities, no descriptions). The others are made up.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.fake_graph_reader import fill_links
from tests.fenced_texts import fenced_text

from benchmarks.instant import count_tokens
from kumihimo.core.digests import hash_parts
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import ChatRequest, Prices, Reply
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from kumihimo.text.lemmas import SLOTS

PRICES = Prices(prompt=0.4, completion=1.6)
_NAME = re.compile(r"[A-Z][\w'-]+(?: [A-Z][\w'-]+)*|[ァ-ヺ][ァ-ヺー]+|[一-鿿]{2,6}")
_WORD = re.compile(r"[ぁ-鿿]{1,2}|[^\sぁ-鿿]+")
_CONCEPT = re.compile(r"\b[a-z]{8,}\b")
_SENTENCE = re.compile(r"[^.。!?\n]+[.。!?]?")
_FIELD = re.compile(r"^- (\w+)(?: \(.*\))?: .* If not, the list is empty\.$", re.M)
_MISSING, _SCHEMA = "are still missing", "JSON schema:\n"


@dataclass(frozen=True)
class Habit:
    """How a model replies.

    names, concepts: shares of those in a sentence that become entities. relations: for each entity. description,
    merged, report, answer: words of one text. missing: share of the records that a second reading adds. questions: for
    each sentence. values: of each list of a frame. server_tokens: for each token of the built-in tokenizer.
    """

    name: str
    names: float
    concepts: float
    relations: float
    description: int
    missing: float
    merged: int
    report: int
    questions: float
    answer: int
    values: int
    server_tokens: float


TERSE = Habit("terse", 0.4, 0.0, 0.5, 8, 0.0, 25, 120, 0.3, 12, 1, 0.8)
USUAL = Habit("usual", 0.7, 0.1, 0.9, 20, 0.15, 70, 300, 0.6, 25, 2, 0.95)
WORDY = Habit("wordy", 1.0, 0.3, 1.5, 35, 0.4, 150, 600, 1.0, 45, 4, 1.1)
CAROL = Habit("carol", 0.55, 0.05, 0.72, 20, 0.5, 110, 470, 0.6, 25, 2, 0.95)
OPENIE = Habit("openie", 1.0, 0.2, 1.2, 6, 0.1, 25, 200, 0.8, 10, 2, 0.9)
HABITS = {habit.name: habit for habit in (TERSE, USUAL, WORDY, CAROL, OPENIE)}


@dataclass(frozen=True)
class Replier:
    """A habit applied to one conversation."""

    habit: Habit
    conversation: str
    text: str
    rng: random.Random

    def reply(self) -> str:
        """Return the next reply."""
        last = self.conversation.rpartition("\n\n")[2]
        if "First the values of these fields" in self.conversation:
            return self._questions()
        if "yes or no" in last:
            return "no"
        if "entity<|>NAME<|>TYPE" in self.conversation:
            records = list(dict.fromkeys(self._records()))
            first = max(1, round(len(records) * (1 - self.habit.missing)))
            return "\n".join([*(records[first:] if _MISSING in self.conversation else records[:first]), "END"])
        if "\n\nPairs: " in self.conversation:
            return "\n".join(line for line in fill_links(self.conversation) if "none" not in line) or "none"
        if "\n- predicate: the verbs" in self.conversation:
            return self._frames()
        before, wants_json, schema = self.conversation.rpartition(_SCHEMA)
        if not wants_json:
            return self._words(self.habit.merged if "Of:\n" in before else 10 * self.habit.answer)
        if "You read numbered entries" in before:
            return json.dumps({"groups": []})
        return json.dumps(self._fill(json.JSONDecoder().raw_decode(schema)[0]), ensure_ascii=False)

    def _words(self, count: int) -> str:
        """Return about so many words of the conversation."""
        words = [word for word in _WORD.findall(self.text) if not set('|<">').intersection(word)] or ["nothing"]
        count = max(3, round(count * self.rng.uniform(0.5, 1.5)))
        start = self.rng.randrange(len(words))
        gap = "" if any("ぁ" <= word[0] <= "ん" for word in words) else " "
        return gap.join((words[start:] + words * (1 + count // len(words)))[:count]) + "."

    def _records(self) -> Iterator[str]:
        """Yield the records of the text."""
        habit, found = self.habit, list[str]()
        for sentence in _SENTENCE.findall(self.text):
            here = [name for name in _NAME.findall(sentence) if self._takes(name, habit.names)]
            here += [word for word in _CONCEPT.findall(sentence) if self._takes(word, habit.concepts)]
            for name in dict.fromkeys(here):
                if name not in found:
                    found.append(name)
                    yield f"entity<|>{name}<|>concept<|>{name}: {self._words(habit.description)}"
            for name in here[1:]:
                if name != here[0] and self.rng.random() < habit.relations:
                    yield f"relation<|>{here[0]}<|>{name}<|>{self._words(habit.description)}<|>talk, work<|>7"

    @staticmethod
    def _takes(name: str, share: float) -> bool:
        return int(hash_parts(name), 16) % 1000 < 1000 * share

    def _questions(self) -> str:
        """Return the fields and the questions of a document."""
        names = list(dict.fromkeys(_NAME.findall(self.text)))
        count = sum(self.rng.random() < self.habit.questions for _ in _SENTENCE.findall(self.text)[:30])
        asked = [
            {"question": f"What of {self._words(8)}?", "answer": self._words(self.habit.answer)} for _ in range(count)
        ]
        keys = _FIELD.findall(self.conversation)
        fields = {key: names[n : n + self.habit.values] for n, key in enumerate(keys)}
        return json.dumps({"fields": fields, "questions": asked}, ensure_ascii=False)

    def _frames(self) -> str:
        """Return the slots of each passage."""
        lines = list[str]()
        for number, text in re.findall(r"^<passage(?:-\d+)? (\d+)>\n(.*?)\n</passage", self.conversation, re.M | re.S):
            values = "; ".join(_NAME.findall(text)[: self.habit.values]) or text.split()[0]
            lines += [f"[{number}]", *(f"{slot}: {values}" for slot in SLOTS[: 1 + self.habit.values])]
        return "\n".join(lines)

    def _fill(self, schema: dict[str, Any]) -> Any:
        """Return a value for a schema."""
        findings = max(1, self.habit.report // 100)

        def fill(part: dict[str, Any], name: str) -> Any:
            if "$ref" in part:
                return fill(schema["$defs"][part["$ref"].rpartition("/")[2]], name)
            if "enum" in part:
                return self.rng.choice(part["enum"])
            if "anyOf" in part:
                return fill(part["anyOf"][0], name)
            if part.get("type") == "object":
                return {key: fill(inner, key) for key, inner in part["properties"].items()}
            if part.get("type") == "array":
                return [fill(part["items"], name) for _ in range(findings if name == "findings" else 2)]
            if part.get("type") == "string":
                return self._words({"explanation": 70, "title": 5}.get(name, 20))
            return {"number": 0.5, "boolean": True}.get(part.get("type", ""), 1)

        return fill(schema, "")


class HabitChat(FakeChat):
    """A fake chat model of one habit, which counts the tokens of its server."""

    habit: Habit = USUAL

    def __call__(self, request: ChatRequest) -> Reply:
        reply = super().__call__(request)
        share = self.habit.server_tokens
        prompt = round(share * sum(count_tokens(message["content"]) for message in request.messages))
        completion = round(share * count_tokens(reply.text))
        usage = replace(
            reply.usage, prompt_tokens=prompt, completion_tokens=completion, cost=PRICES.cost(prompt, 0, completion)
        )
        return replace(reply, usage=usage)


class HabitModels(ModelRegistry):
    """A registry whose chat models all have one habit."""

    habit: Habit = USUAL

    def chat(self, _: str) -> Chat | None:
        if not hasattr(self, "reader"):
            habit = self.habit

            def answer(conversation: str) -> str:
                text = fenced_text(conversation, "text") or conversation.partition("\n\n")[2]
                return Replier(habit, conversation, text, random.Random(int(hash_parts(conversation), 16))).reply()

            self.reader = HabitChat(answer, join_messages=True, prices=PRICES, workers=1)
            self.reader.habit = habit
        return self.reader
