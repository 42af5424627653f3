"""documents that come and go -> an index for `meta`, by a model that follows a script."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kumihimo import Kumihimo
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests.fake_graph_reader import FIELD_KEYS
from tests.fenced_texts import fenced_text

DOCUMENTS = {
    "gates": ("tides", "Tide gates close at high water. They are painted each May. A gate weighs nine tonnes."),
    "piers": ("tides", "Piers stand on oak. The old pier was built in 1911. It is mended by Bo Lind."),
    "locks": ("tides; ships", "Locks lift ships. A lock takes an hour. Its keeper is Ada Holm."),
    "yachts": ("ships", "Yachts race in June. Yachts carry two sails. A yacht is launched by hand."),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "metadata": {"preset": "paper", "text_categories": ("tides", "ships", "oats")},
    "summaries": {"listed": 2},
}


class Scholars(ModelRegistry):
    """A model that prepares, sums up, asks and answers by a script, for whoever asks."""

    def chat(self, scope: str) -> Chat | None:
        if not hasattr(self, "scholar"):
            self.scholar = FakeChat(script, join_messages=True)
        return self.scholar


def script(told: str) -> str:
    if kind(told) == "metadata":
        return prepared(fenced_text(told, "text"), FIELD_KEYS.findall(told))
    if kind(told) == "summaries":
        return f"## Concepts\n{fenced_text(told, 'questions')[:200]}"
    if kind(told) == "meta":
        more = "\n3. What do locks lift?" if fenced_text(told, "summary") else ""
        return f"1. What is said of tide gates?\n2. Who mends the pier?{more}"
    return "They close at high water [1][2][3]."


def kind(told: str) -> str:
    """Who asks."""
    marks = {"You prepare": "metadata", "You write a guide": "summaries", "You help experts": "meta"}
    return next((name for mark, name in marks.items() if told.startswith(mark)), "answer")


def prepared(text: str, keys: list[str]) -> str:
    """A document's first line names its first field; each of its sentences answers a question."""
    fields, _, body = text.partition("\n\n")
    said = [sentence for sentence in re.split(r"(?<=\.)\s+", body) if sentence]
    values: dict[str, list[str]] = {**{key: [] for key in keys}, keys[0]: fields.split("; ")}
    asked = [{"question": f"What is said in “{sentence[:-1]}”?", "answer": sentence} for sentence in said]
    return json.dumps({"fields": values, "questions": asked}, ensure_ascii=False)


class Library:
    """An index of documents that come and go, and what its model was asked."""

    def __init__(self, folder: Path, documents: Mapping[str, tuple[str, str]]) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.kumi = Kumihimo(folder / ".kumi", SETTINGS)
        self.kumi.models = self.models = Scholars(self.kumi.models.settings, self.kumi.models.cache)
        self.models.chat("")
        for name, (fields, text) in documents.items():
            self.write(name, fields, text)
        self.kumi.index(self.home, methods=["naive", "meta"])

    def write(self, name: str, fields: str, text: str) -> None:
        (self.home / f"{name}.txt").write_text(f"{fields}\n\n{text}", "utf-8")

    @contextmanager
    def asking(self) -> Iterator[list[str]]:
        """What is asked meanwhile."""
        before, new = Counter(self.models.scholar.prompt_counts), list[str]()
        yield new
        new += (self.models.scholar.prompt_counts - before).elements()

    def labels(self) -> dict[str, int]:
        with self.kumi.snapshot() as reading:
            return {row.label: row.questions for row in reading.table("summaries")}


def kinds(asked: list[str]) -> Counter[str]:
    return Counter(map(kind, asked))


def label(told: str) -> str:
    return fenced_text(told, "label")
