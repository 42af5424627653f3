"""toy steps that ask a model -> the catalogues of a test; documents and an index for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened import catalogue as catalogue_module
from kumihimo.app.opened.catalogue import extend_catalogue
from tests.fake_server import FakeServer
from tests.toy_steps import gists, meant, themes, told


def install(monkeypatch: pytest.MonkeyPatch, **functions: Any) -> None:
    """Install functions as a plug-in does: methods, steps, readers."""
    catalogue = extend_catalogue(catalogue_module.installed_catalogue(), **functions, origin="a test")
    monkeypatch.setattr(catalogue_module, "installed_catalogue", lambda: catalogue)


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add `gists` and `themes`, and the methods `told` and `meant`, to the real ones."""
    install(monkeypatch, steps=[gists, themes], methods=[told, meant])


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
