"""method guide -> a line for each method, and the figures of the documentation."""

from __future__ import annotations

from pathlib import Path

from kumihimo.app.method_guide import RECALL, RECALL_SETS
from kumihimo.methods import METHODS

PAGE = Path(__file__).parents[2] / "docs" / "methods.md"


def test_every_method_says_what_it_suits() -> None:
    assert all(method.declaration.best_for for method in METHODS.values())


def test_recall_figures_match_documentation() -> None:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text(encoding="utf-8").splitlines() if "| ." in line]
    cells = {row[0].split(",")[0].strip(" `"): row[1:] for row in reversed(rows) if len(row) == len(RECALL_SETS) + 1}
    for name, shares in RECALL.items():
        assert [float(cell.split("/")[0]) for cell in cells[name]] == list(shares), name
        assert len(shares) == len(RECALL_SETS)
