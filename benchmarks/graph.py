"""The whole entity graph of the podcasts by a model that answers at once: CPU per 1,000 calls, memory, growth, updates.

The replies are as long as real ones: eight entities and eight relations a chunk, a gleaning round, reports of five
findings. What the peers take for the same is told in DESIGN; here all is included, start-up too for the update.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.meter import bound
from kumihimo import Kumihimo
from kumihimo.core.records import Chunk, Document, digest
from kumihimo.index.chunks import chunks
from kumihimo.index.rules import names
from kumihimo.ports.connect import Connections
from kumihimo.ports.fake import FakeChat
from kumihimo.ports.models import Chat

DATA = Path(os.environ.get("DATA", "../shared/data"))
METHODS = ("global", "local")
QUESTION = "What do the speakers hope, and what do they fear, of machines that learn?"
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


@dataclass
class Instant(Connections):
    """A model that has thought of all answers before it is asked."""

    known: Mapping[str, list[str]] = field(default_factory=dict)  # by how a text begins

    @cached_property
    def model(self) -> FakeChat:
        return FakeChat(self._answer, whole=True, workers=8)

    def chat(self, _: str) -> Chat | None:
        return self.model

    def _answer(self, conversation: str) -> str:
        last = conversation[conversation.rfind("\n\n") :]
        if "yes or no" in last:
            return "no"
        if "<|>NAME<|>" not in conversation:
            return _asked(conversation, conversation.rpartition("JSON schema:")[2])
        said = self.known[_text(conversation)]
        return "\n".join([*(said[-1:] if "are still missing" in last else said), "END"])


def _asked(conversation: str, form: str) -> str:
    """A report; to a question, a point, and that one report of three helps; else a description, or an answer."""
    if '"findings"' in form:
        return REPORT.replace("What they talk about", f"What they talk about, {digest(conversation)}")
    if '"rating"' in form:
        return json.dumps({"rating": 3 if int(digest(conversation), 16) % 3 == 0 else 0})
    if '"sources"' in form:
        return json.dumps({"answer": [{"description": FILL, "score": 50, "sources": [1]}]})
    return f"In short: {FILL} [1]"


def _text(conversation: str) -> str:
    """The text of an extraction prompt: after the examples, before the first reply."""
    return re.split(r"\n\n(?:entity<\|>|END)", conversation.rpartition("Text:\n")[2], maxsplit=1)[0][:400].strip()


def connected(kumi: Kumihimo, source: Path) -> Kumihimo:
    """The same, with that model; what it will say is thought of before anything is measured."""
    texts: list[str] = []
    for line in source.open(encoding="utf-8"):
        row = json.loads(line)
        document = Document(uri="", file="", title="", media_type="", text=row["text"])
        texts += [chunk.text for chunk in chunks(document, kumi.ruler)]
    kumi.models = Instant(
        kumi.models.settings, kumi.models.memo, known={text[:400].strip(): records(text) for text in texts}
    )
    return kumi


def build(home: Path, source: Path) -> dict[str, float]:
    """One command in this process: what it cost, and did."""
    began = cpu()
    with Kumihimo.open(home) as kumi:
        connected(kumi, source)
        thought = cpu() - began
        built = kumi.index(source, methods=METHODS)
        calls = kumi.models.model.asked  # type: ignore[attr-defined]
        return {
            "cpu": cpu() - thought,
            "calls": sum(calls.values()),
            "extractions": sum(n for said, n in calls.items() if "<|>NAME<|>" in said),
            "reports": built.rows["reports"],
            "reports_asked": sum(n for said, n in calls.items() if '"findings"' in said.rpartition("JSON schema:")[2]),
            "chunks": built.rows["chunks"],
            "entities": built.rows["entities"],
            "relations": built.rows["relations"],
            "failed": len(built.failed),
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def cpu() -> float:
    """Seconds of this process, since it began: start-up is in it."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def run(home: Path, source: Path) -> dict[str, float]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.graph", str(home), str(source)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    cost: dict[str, float] = json.loads(said)
    print(
        f"  {cost['chunks']:,} chunks, {cost['entities']:,} entities, {cost['relations']:,} relations, "
        f"{cost['reports']:,} reports: {cost['calls']:,} calls, {cost['cpu']:.1f} CPU s, {cost['peak']:.0f} MB"
    )
    return cost


def questions(home: Path) -> None:
    """What a question asks of the model, by method: calls, and tokens of the prompts by the built-in tokenizer."""
    ways: list[tuple[str, dict[str, Any]]] = [("global", {"level": level}) for level in range(3)]
    ways += [("global", {"dynamic": True}), ("local", {}), ("naive", {"words": False}), ("mapreduce", {})]
    for number, (method, settings) in enumerate(ways):
        with Kumihimo.open(home, memo=home / f"questions-{number}.db") as kumi:
            model = Instant(kumi.models.settings, kumi.models.memo)
            kumi.models = model
            kumi.ask(QUESTION, method, **settings)
            asked = model.model.asked
            said = ", ".join(f"{name}={value}" for name, value in settings.items())
            tokens = sum(n * len(kumi.ruler(prompt)) for prompt, n in asked.items())
            print(f"  {method} {said}: {sum(asked.values()):,} calls, {tokens:,} tokens")


def main() -> None:
    print("The entity graph of the podcasts, by a model that answers at once")
    lines = (DATA / "podcasts" / "kevin_scott_podcasts.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    with TemporaryDirectory() as folder:
        source = Path(folder, "podcasts.jsonl")
        costs = []
        for count in (len(lines) // 2, len(lines) - 5):
            source.write_text("".join(lines[:count]), encoding="utf-8")
            costs.append(run(Path(folder, f"{count}", ".kumi"), source))
        each = [1000 * cost["cpu"] / cost["calls"] for cost in costs]
        bound("CPU s for 1,000 calls", each[1], 4)
        bound("peak", costs[1]["peak"], 700, " MB")
        bound("CPU for a call, of twice the documents for that of once", each[1] / each[0], 1.2)
        source.write_text("".join(lines), encoding="utf-8")
        more = run(Path(folder, f"{len(lines) - 5}", ".kumi"), source)
        print(f"  5 more documents: {more['calls']:,} calls, {more['extractions']:,} of them for new chunks")
        print(f"  reports asked for again, or anew: {more['reports_asked']:,} of {more['reports']:,}")
        bound("5 more documents, start-up included", more["cpu"], 1.5, " CPU s")
        print(f"A question over them: {QUESTION}")
        questions(Path(folder, f"{len(lines) - 5}", ".kumi"))


if __name__ == "__main__":
    if len(sys.argv) == 3 and not sys.argv[1].startswith("-"):
        print(json.dumps(build(Path(sys.argv[1]), Path(sys.argv[2]))))
    else:
        main()
