"""The examples of docs/integrations.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kumihimo import Kumihimo

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize("block", BLOCKS, ids=["langchain", "llamaindex", "haystack"])
def test_an_example_runs(
    block: str, harbour: Kumihimo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    framework = re.search(r"kumihimo\.integrations\.(langchain|llamaindex|haystack)", block)
    assert framework
    package = {"langchain": "langchain_core", "llamaindex": "llama_index.core", "haystack": "haystack"}[framework[1]]
    pytest.importorskip(package, reason="`make test-integrations` installs it")
    monkeypatch.chdir(harbour.folder.parent)
    exec(compile(block, PAGE.name, "exec"), {})
    assert "Maren Oldacre drew the tide gates in 1983." in capsys.readouterr().out
