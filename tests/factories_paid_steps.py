"""toy steps that ask a model -> the catalogues of a test; documents and an index for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app import settings_registry
from kumihimo.app.facade import Kumihimo
from kumihimo.core.signature import Signature, collect_signatures
from kumihimo.index import RECORD_TYPES, STEPS
from kumihimo.llm.registry import scope_chat_settings
from kumihimo.methods import METHODS
from kumihimo.testing.fake_server import FakeServer
from tests.toy_steps import gists, meant, themes, told


def add_steps(
    monkeypatch: pytest.MonkeyPatch, steps: Mapping[str, Signature], methods: Mapping[str, Signature]
) -> None:
    """Add steps that ask a model, and methods, to the catalogues."""
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
    with_a_model = [name for name, step in steps.items() if "llm" in step.ports]
    monkeypatch.setattr(settings_registry, "LLM_SCOPES", (*settings_registry.LLM_SCOPES, *with_a_model))


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add `gists` and `themes`, and the methods `told` and `meant`, to the real ones."""
    add_steps(monkeypatch, collect_signatures(gists, themes), collect_signatures(told, meant))


def notes(folder: Path, count: int) -> Path:
    """Write so many documents of one chunk each."""
    folder.mkdir(exist_ok=True)
    for i in range(count):
        letter = "ABCDEFG"[i % 7]
        (folder / f"{i:03d}.txt").write_text(f"{letter} note {i} tells of harbour {i} and of the ferry.", "utf-8")
    return folder


def opened(tmp_path: Path, server: FakeServer, memo: Path | None = None, **scopes: dict[str, Any]) -> Kumihimo:
    """Open an index whose models are on this server."""
    chat = {"model": "m", "base_url": server.url, "timeout": 60.0, "workers": 8, **scopes.pop("chat", {})}
    return Kumihimo(tmp_path / ".kumi", {"chat": chat, **scopes}, cache=memo)
