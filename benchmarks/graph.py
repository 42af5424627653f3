"""The whole entity graph of the podcasts by a model that answers at once: CPU per 1,000 calls, memory, growth, updates.

The replies are as long as real ones: eight entities and eight relations a chunk, a gleaning round, reports of five
findings. What the peers take for the same is told in DESIGN; here all is included, start-up too for the update.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.meter import bound, measured
from kumihimo import Kumihimo
from kumihimo.core.records import Chunk, digest
from kumihimo.index.rules import names
from kumihimo.ports.connect import Connections
from kumihimo.ports.fake import FakeChat
from kumihimo.ports.models import Chat

DATA = Path(os.environ.get("DATA", "../shared/data"))
METHODS = ("global", "local")
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


def records(text: str) -> list[str]:
    """What the model reads in a text: names that stand in it, so that they come again elsewhere."""
    chunk = Chunk(title="", start=0, end=len(text), tokens=0, text=text)
    found = list(dict.fromkeys(mention.name for mention in names.mentions(chunk, {})))[:EACH]
    pairs = zip(found, [*found[1:], *found[:1]], strict=False)
    lines = [f"entity<|>{name}<|>person<|>{name} is named. {FILL}" for name in found]
    return lines + [f"relation<|>{a}<|>{b}<|>{a} and {b}. {FILL}<|>talk, work<|>7" for a, b in pairs]


class Instant(Connections):
    """A model that has thought of all answers before it is asked."""

    @cached_property
    def model(self) -> FakeChat:
        return FakeChat(self._answer, whole=True, workers=8)

    known: dict[str, list[str]] = {}

    def chat(self, scope: str) -> Chat | None:
        return self.model

    def _answer(self, conversation: str) -> str:
        last = conversation[conversation.rfind("\n\n") :]
        if "yes or no" in last:
            return "no"
        if "are still missing" in last or "<|>NAME<|>" in conversation:
            text = conversation.partition("# user")[2] or conversation
            said = self.known.get(digest(_text(conversation)), [])
            return "\n".join([*(said[-1:] if "are still missing" in last else said), "END"])
        return REPORT if "findings" in conversation else f"In short: {FILL}"


def _text(conversation: str) -> str:
    """The text of an extraction prompt, which stands after the examples."""
    return conversation.rpartition("Text:\n")[2].partition("\nentity<|>")[0].strip()


def passages(count: int) -> Iterator[str]:
    path = DATA / "podcasts" / "kevin_scott_podcasts.jsonl"
    for i, line in enumerate(path.open(encoding="utf-8")):
        if i < count:
            yield line
