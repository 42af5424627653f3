"""a complete run -> docs/recorded.md."""

from __future__ import annotations

from docs.recorded_run import Run


def write_page(run: Run) -> None:
    """Write the page."""
