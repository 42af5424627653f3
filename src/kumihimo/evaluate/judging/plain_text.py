"""an answer -> its text without headings, emphasis, bullets, links and citations, which can sway judges."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

StripMode = Literal["none", "markdown", "citations", "all"]

_CITATION = re.compile(r"[ \t]*(?:\[(?:\d+(?:\s*[,;–-]\s*\d+)*)\]|【\d+(?:[,、]\s*\d+)*】|\[Data: [^\]]*\])")
_MARKUP_RULES = (
    (re.compile(r"^[ \t]*(?:```|~~~).*$\n?", re.M), ""),
    (re.compile(r"^[ \t]*(?:[-*_][ \t]*){3,}$\n?", re.M), ""),  # horizontal rules
    # the rule below a table's header
    (re.compile(r"^[ \t]*\|?(?:[ \t]*:?-{2,}:?[ \t]*\|)+[ \t]*(?::?-{2,}:?)?[ \t]*$\n?", re.M), ""),
    (re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.M), r"\1"),
    (re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.M), r"\1"),
    (re.compile(r"^[ \t]*(?:>[ \t]?)+", re.M), ""),
    (re.compile(r"^[ \t]*[-*+•][ \t]+", re.M), ""),
    (re.compile(r"^[ \t]*\d{1,2}[.)][ \t]+", re.M), ""),
    (re.compile(r"!?\[([^\]\n]+)\]\([^)\s]*\)"), r"\1"),
    (re.compile(r"(\*\*\*|\*\*|__)(?=\S)(.+?)(?<=\S)\1", re.S), r"\2"),
    (re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])"), r"\1"),
    (re.compile(r"(?<!\w)_(?=\S)([^_\n]+?)(?<=\S)_(?!\w)"), r"\1"),
    (re.compile(r"`([^`\n]+)`"), r"\1"),
    (re.compile(r"\n{3,}"), "\n\n"),
)


@lru_cache(maxsize=8192)
def strip_markup(text: str, strip: StripMode = "all") -> str:
    r"""Remove the chosen markup; words and line breaks stay.

    >>> strip_markup("## Who\n\n- **Ada** mended `it` [1, 3].\n- See [the log](x.md) [2]")
    'Who\n\nAda mended it.\nSee the log'
    >>> strip_markup("## Who\n**Ada** [1]", "citations")
    '## Who\n**Ada**'
    """
    if strip in ("citations", "all"):
        text = _CITATION.sub("", text)
    if strip in ("markdown", "all"):
        for pattern, replacement in _MARKUP_RULES:
            text = pattern.sub(replacement, text)
    return text.strip()
