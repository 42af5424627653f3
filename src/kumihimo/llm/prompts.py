"""a .md file beside the code + values -> a conversation, rendered the same every time."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from kumihimo.core.errors import StepError, describe_unknown
from kumihimo.llm.protocols import Messages

_ROLE_HEADING = re.compile(r"^# (system|user|assistant)[ \t]*\n", re.M)
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def render_prompt(path: Path, **values: str) -> Messages:
    """The messages under the headings `# system`, `# user`, with each `{name}` replaced once.

    What is put in is not read again, so that documents may hold braces and headings. Raises StepError for a name
    without a value, or a value without its name.
    """
    parts = _read_prompt(path)
    names = {name for _, text in parts for name in _PLACEHOLDER.findall(text)}
    if missing := sorted(names - values.keys()):
        raise StepError(f"{path.name}: {missing[0]} needs a value")
    if other := sorted(values.keys() - names):
        raise StepError(f"{path.name}: {describe_unknown('name', other[0], names)}")
    return [{"role": role, "content": _PLACEHOLDER.sub(lambda found: values[found[1]], text)} for role, text in parts]


@cache
def _read_prompt(path: Path) -> list[tuple[str, str]]:
    before, *pieces = _ROLE_HEADING.split(path.read_text(encoding="utf-8"))
    if before.strip() or not pieces:
        raise StepError(f"{path.name}: a prompt begins with a heading, # system or # user")
    return [(role, text.strip()) for role, text in zip(pieces[::2], pieces[1::2], strict=True)]
