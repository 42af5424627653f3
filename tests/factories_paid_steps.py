"""a chunk -> its gist, gists of one kind -> their theme: two steps that ask, put into the catalogues for a test."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kumihimo.app import settings_registry
from kumihimo.app.facade import Kumihimo
from kumihimo.core.context import Context
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk, Record
from kumihimo.core.signature import collect_signatures
from kumihimo.core.table import Group, Table
from kumihimo.index import RECORD_TYPES, STEPS
from kumihimo.llm.protocols import LLM
from kumihimo.llm.registry import scope_chat_settings
from kumihimo.methods import METHODS
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.testing.fake_server import FakeServer


@dataclass(frozen=True, slots=True)
class Gist(Record):
    GROUP: ClassVar[str] = "theme"
    theme: str


@dataclass(frozen=True, slots=True)
class Theme(Record):
    pass


@dataclass(frozen=True, slots=True)
class About:
    about: str


def gists(chunk: Chunk, llm: LLM, *, words: int = 9) -> Gist:
    """What a chunk is about."""
    said = llm(f"{chunk.text}\nThat in {words} words.", schema=About)
    return Gist(text=said.about, theme=hash_parts(chunk.text[:1]))


def themes(gists: Group[Gist], llm: LLM) -> Theme:
    """What the chunks that begin with the same letter have in common."""
    return Theme(text=llm("\n".join(["What do these have in common?", *sorted(g.text for g in gists)])))


def told(
    question: str, themes: Table[Theme], gists: Table[Gist], keyword_search: KeywordSearch, *, k: int = 5
) -> Context:
    """Gists and themes by words."""
    return keyword_search(themes, question, k=k) + keyword_search(gists, question, k=k)


def meant(question: str, gists: Table[Gist], vector_search: VectorSearch, *, k: int = 5) -> Context:
    """Gists by meaning."""
    return vector_search(gists, question, k=k)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps and methods above, among the real ones."""
    steps, methods = collect_signatures(gists, themes), collect_signatures(told, meant)
    for name, step in steps.items():
        monkeypatch.setitem(STEPS, name, step)
        monkeypatch.setitem(RECORD_TYPES, name, step.output_type)
        monkeypatch.setitem(
            settings_registry.ALL_SETTINGS, name, {**step.settings, **scope_chat_settings(step.settings)}
        )
    for name, method in methods.items():
        monkeypatch.setitem(METHODS, name, method)
        monkeypatch.setitem(settings_registry.ALL_SETTINGS, name, method.settings)
    for name, signature in {**steps, **methods}.items():
        monkeypatch.setitem(settings_registry.SETTINGS, name, signature.settings)
    monkeypatch.setattr(settings_registry, "LLM_SCOPES", (*settings_registry.LLM_SCOPES, *steps))


def notes(folder: Path, count: int) -> Path:
    """So many documents of one chunk each."""
    folder.mkdir(exist_ok=True)
    for i in range(count):
        letter = "ABCDEFG"[i % 7]
        (folder / f"{i:03d}.txt").write_text(f"{letter} note {i} tells of harbour {i} and of the ferry.", "utf-8")
    return folder


def opened(tmp_path: Path, server: FakeServer, memo: Path | None = None, **scopes: dict[str, Any]) -> Kumihimo:
    """An index whose models that server is."""
    chat = {"model": "m", "base_url": server.url, "timeout": 60.0, "workers": 8, **scopes.pop("chat", {})}
    return Kumihimo(tmp_path / ".kumi", {"chat": chat, **scopes}, cache=memo)
