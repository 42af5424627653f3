"""untrusted text -> text without terminal control characters."""

from __future__ import annotations

_CONTROLS = {c: "\ufffd" for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}


def replace_controls(text: str) -> str:
    """Replace control characters: documents and models may contain terminal escapes."""
    return text.translate(_CONTROLS)
