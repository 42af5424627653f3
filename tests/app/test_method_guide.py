"""method guide -> a line for each method, and the figures of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

from kumihimo.app.settings.settings_registry import RECALL, RECALL_SETS, setting_help
from kumihimo.core.context import Context
from kumihimo.core.signature import collect_signatures
from kumihimo.methods import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_every_method_says_what_it_suits() -> None:
    assert all(method.declaration.best_for for method in METHODS.values())


def test_recall_figures_match_documentation() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if "| ." in line]
    cells = {row[0].split(",")[0].strip(" `"): row[1:] for row in reversed(rows) if len(row) == len(RECALL_SETS) + 1}
    for name, shares in RECALL.items():
        assert [float(cell.split()[0]) for cell in cells[name]] == list(shares), name
        assert len(shares) == len(RECALL_SETS)


def test_help_on_settings_is_that_of_the_documentation() -> None:
    page = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", PAGE.with_name("settings.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `(\w+)\.(\w+)` \| [^|]* \| [^|]* \| ([^|]*) \|$", page, re.M)
    for name, method in METHODS.items():
        documented = {setting: text for scope, setting, text in rows if scope == name}
        assert setting_help(name, method) == documented
        assert documented.keys() == method.settings.keys()


def test_a_plug_in_describes_its_settings_in_its_docstring() -> None:
    def longest(question: str, *, k: int = 3, least: int = 0, other: bool = False) -> Context:
        """Return the longest chunks.

        k: how many. least: characters;
        shorter ones are left out.
        """
        raise NotImplementedError

    (method,) = collect_signatures(longest).values()
    help_texts = {"k": "how many.", "least": "characters; shorter ones are left out."}
    assert setting_help("longest", method) == help_texts
