"""files -> an index of them, and all that it holds: what the tests of the session, the readers and the laws share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kumihimo import Kumihimo
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.methods import METHODS
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests import fake_graph_reader

EXAMPLES = Path(__file__).parents[1] / "examples"
QUESTIONS = (
    "Who mended the breakwater?",
    "When does the ferry leave in winter?",
    "組紐を送ったのは誰ですか",
    "oat seed",
)
RANKING = [name for name, method in METHODS.items() if [*method.tables] == ["chunks"] and "k" in method.settings]
# may be asked without a model
FREE = [name for name, method in METHODS.items() if "llm" not in method.ports or "llm" in method.optional_ports]
BUILT = [  # have tables that may be made without a model
    name
    for name, method in METHODS.items()
    if all(
        "llm" not in BUILT_IN.steps[step].ports or "llm" in BUILT_IN.steps[step].optional_ports
        for step in BUILT_IN.upstream_steps(method.tables)
    )
]
ROOT_READS_ALL = not hasattr(os, "geteuid") or os.geteuid() == 0

REMEMBER = BUILT_IN.downstream_steps(["communities"])  # what they were before matters

Held = dict[str, list[Any]]


def fill(root: Path, files: Mapping[str, str]) -> Path:
    """A folder that holds these texts, by their paths below it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def texts(kumi: Kumihimo) -> dict[str, str]:
    """What the index holds of the documents, by uri."""
    with kumi.snapshot() as reading:
        return {document.uri: document.text for document in reading.table("documents")}


def uris(kumi: Kumihimo) -> list[str]:
    return sorted(texts(kumi))


def failed(kumi: Kumihimo) -> list[str]:
    """The makers of what could not be made."""
    return [maker for _, maker, _ in kumi.status().failed]


def found(kumi: Kumihimo, method: str, question: str, **settings: Any) -> list[list[Any]]:
    return [[e.table, e.record.id, e.score] for e in kumi.retrieve(question, method, **settings)]


class MadeUp(ModelRegistry):
    """A model of few words, for methods that ask; the graph is made by rule, answers are quoted, as without one."""

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(fake_graph_reader.answer, join_messages=True) if scope in METHODS else None


def connected(kumi: Kumihimo) -> Kumihimo:
    """The same, with a made-up model to ask."""
    kumi.models = MadeUp(kumi.models.settings, kumi.models.cache)
    return kumi


class ReportWriter(ModelRegistry):
    """A made-up model for reports alone."""

    def chat(self, scope: str) -> Chat | None:
        return FakeChat(fake_graph_reader.answer, join_messages=True) if scope == "reports" else None


def write_reports(kumi: Kumihimo) -> None:
    """Build the graph by rule, and its reports by a made-up model."""
    own = kumi.models
    with TemporaryDirectory() as folder:
        cache = ResponseCache(Path(folder, "cache.db"))
        kumi.models = ReportWriter(own.settings, lambda: cache)
        kumi.index(methods=[*dict.fromkeys([*kumi.status().methods, "global"])])
    kumi.models = own


def tables(kumi: Kumihimo) -> Held:
    """Every row of every table that was built, and what failed."""
    with kumi.snapshot() as reading:
        built = [name for name in BUILT_IN.record_types if reading.db.has(name)]
        held: Held = {name: [list(row) for page in reading.db.rows(name).pages() for row in page] for name in built}
        return held | {"failed": [list(row) for row in reading.db.failures()]}


def dump(kumi: Kumihimo, methods: Iterable[str] = BUILT) -> Held:
    """The same, and what each of these methods finds, for a few questions."""
    for method in methods:
        kumi.prepare_method(method)
    return tables(kumi) | {f"{m}: {q}": found(connected(kumi), m, q) for m in methods for q in QUESTIONS}


def apart(held: Held) -> Held:
    """The same, apart from communities and all that is made of them, or found by what reads them."""
    reads = {name for name, method in METHODS.items() if REMEMBER.intersection(method.tables)}
    return {name: rows for name, rows in held.items() if name not in REMEMBER and name.partition(": ")[0] not in reads}
