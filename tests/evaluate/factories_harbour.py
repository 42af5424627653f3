"""A few notes -> an index, questions with gold, and a model with fixed replies."""

from __future__ import annotations

import json
from pathlib import Path

from kumihimo import Kumihimo
from kumihimo.core.errors import RequestRefused
from kumihimo.evaluate.records import EvalQuestion, Gold
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.testing.fake_models import FakeChat
from tests.fenced_texts import fenced_text

PIER = "The old pier was built in 1911. Bo Lind mends it each May. Its oak came from Harrow Wood."
LONG = "\n\n".join(
    f"Part {n} of the log. On day {n} the keeper {what}, and wrote it down."
    for n, what in enumerate(
        ["painted the lamp", "counted the gulls", "sailed to Kettle Narrows", "mended the sand pole"], 1
    )
)
ROWS = [{"id": "r-1", "text": "Yachts race in June."}, {"id": "r-2", "text": "Locks lift ships in an hour."}]
QUESTIONS = [
    EvalQuestion("pier", "Who mends it each May?", "local", gold=(Gold("notes/pier.md"),)),
    EvalQuestion(
        "pole", "On which day was the sand pole mended?", "local", gold=(Gold(text="mended  the\nsand pole"),)
    ),
    EvalQuestion("both", "What lifts ships, and when do yachts race?", "linked", gold=(Gold("r-1"), Gold("r-2"))),
    EvalQuestion("none", "What is it all about?"),
]


def fill(folder: Path) -> list[Path]:
    """Write the notes; the tests rely on their text."""
    notes = folder / "notes"
    (notes / "more").mkdir(parents=True)
    (notes / "pier.md").write_text(PIER, encoding="utf-8")
    (notes / "more" / "log.md").write_text(LONG, encoding="utf-8")
    (notes / "more" / "pier.md").write_text("Nothing is said of it here, but of oats.", encoding="utf-8")
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    return [notes, folder / "rows.jsonl"]


def build(folder: Path) -> Kumihimo:
    """Build an index of the notes with chunks of one or two sentences."""
    kumi = Kumihimo.open(folder / ".kumi", settings={"chunks": {"size": 24, "overlap": 0}})
    kumi.index(*fill(folder), methods=["bm25", "naive", "light", "hyde"])
    return kumi


class Scripted(ModelRegistry):
    """A model that replies by rule, and refuses to speak of gulls."""

    def chat(self, scope: str) -> Chat | None:
        if not hasattr(self, "fake_chat"):
            self.fake_chat = FakeChat(self._reply, workers=4)
        return self.fake_chat if scope in ("answer", "hyde", "light") else None

    @staticmethod
    def _reply(prompt: str) -> str:
        question = fenced_text(prompt, "question")
        if "gulls" in question:
            raise RequestRefused("the model will not speak of gulls")
        return f"That is so [1]. ({question.strip()[:20]})"
