"""a text that may hold anything -> the same, without what would steer a terminal."""

from __future__ import annotations

_CONTROLS = {c: "\ufffd" for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}


def replace_controls(text: str) -> str:
    """The text without what would steer a terminal: documents and models may hold anything."""
    return text.translate(_CONTROLS)
