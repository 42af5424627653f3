"""a .md file beside the code + values -> a conversation, always rendered the same way."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.llm.protocols import Messages

_ROLE_HEADING = re.compile(r"^# (system|user|assistant)[ \t]*\n", re.M)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def render_prompt(path: Path, **values: str) -> Messages:
    """Return the messages under `# system` and `# user`, with `{name}` replaced.

    Each name is replaced once and the values are not read again, so that documents may hold braces and headings.
    Raises StepError for a name without a value, or a value without its name.
    """
    parts = _read_prompt(path)
    names = {name for _, text in parts for name in _PLACEHOLDER.findall(text)}
    if missing := sorted(names - values.keys()):
        raise StepError(f"{path.name}: {missing[0]} needs a value")
    if unused := sorted(values.keys() - names):
        raise StepError(f"{path.name}: {describe_unknown('name', unused[0], names)}")
    return [{"role": role, "content": _PLACEHOLDER.sub(lambda match: values[match[1]], text)} for role, text in parts]


@cache
def _read_prompt(path: Path) -> list[tuple[str, str]]:
    before, *pieces = _ROLE_HEADING.split(path.read_text(encoding="utf-8"))
    if before.strip() or not pieces:
        raise StepError(f"{path.name}: a prompt begins with a heading, # system or # user")
    return [(role, text.strip()) for role, text in zip(pieces[::2], pieces[1::2], strict=True)]
