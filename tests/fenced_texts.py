"""a prompt -> the texts between its tags, for models of tests that read prompts."""

from __future__ import annotations

import re

_RULE = "Everything inside <"


def fenced_texts(prompt: str, tag: str) -> list[str]:
    """Return the texts between tags of this name, in order."""
    pattern = rf"^<{tag}(-\d+|)( \d+|)(?: \([^\n]*\))?>\n(.*?)\n</{tag}\1\2>$"
    return [match[3] for match in re.finditer(pattern, prompt, re.M | re.S)]


def fenced_text(prompt: str, tag: str) -> str:
    """Return the last text between tags of this name; empty without one."""
    return next(reversed(fenced_texts(prompt, tag)), "")


def without_rule(message: str) -> str:
    """Return a message without the rule on material at its beginning."""
    return message.partition("\n\n")[2] if message.startswith(_RULE) else message
