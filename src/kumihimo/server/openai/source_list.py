"""an answer -> the list of its sources, below its text, and annotations of the text."""

import re
from collections.abc import Callable
from typing import Any

from kumihimo.app.evidence.citation_markers import find_markers
from kumihimo.core.context import Answer
from kumihimo.core.spans import Span
from kumihimo.text.sentences import shorten_line

Link = Callable[[Span], str]  # a passage -> the address of its page
_MAX_LINES = 30  # of the list
_MAX_SPANS = 3  # of one number
_RULE = "\n\n---\n\n"  # between the text and its sources, in any language
# Possessive: a text that nearly is a list would else be tried in endless ways.
_LINE = r"- \[\d{1,3}\] \[(?:\\.|[^\\\]\n]){0,500}+\]\([^\s()]{1,500}+\)"
_LIST = re.compile(rf"{_RULE}{_LINE}(?:\n{_LINE})*+\s*+\Z")
_MARKDOWN = re.compile(r"([\\`*\[\]<])")
_MAX_LABEL = 200  # characters


def source_list(answer: Answer, link: Link) -> str:
    """Return the sources of an answer, in Markdown.

    They are added to its text. Empty without citations.
    """
    lines: dict[str, None] = {}
    counts: dict[int, int] = {}
    for citation in answer.citations:
        span = citation.span
        counts[citation.n] = counts.get(citation.n, 0) + 1
        if counts[citation.n] <= _MAX_SPANS:
            lines[f"- [{citation.n}] [{_escape(_label(span))}]({link(span)})"] = None
    return _RULE + "\n".join([*lines][:_MAX_LINES]) if lines else ""


def without_source_list(text: str) -> str:
    """Return a text without the sources that `source_list` has added.

    >>> without_source_list("At nine. [1]\\n\\n---\\n\\n- [1] [a.md, line 1](http://localhost/documents/a?start=0&end=8)")
    'At nine. [1]'
    """
    return _LIST.sub("", text)


def url_citations(answer: Answer, link: Link) -> list[dict[str, Any]]:
    """Return the citations in the text of an answer.

    Each has its characters `[start_index, end_index)`, a title and an address.
    """
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "start_index": marker.start,
                "end_index": marker.end,
                "title": _label(span),
                "url": link(span),
            },
        }
        for marker in find_markers(answer)
        for span in marker.spans[:_MAX_SPANS]
    ]


def _label(span: Span) -> str:
    return shorten_line(f"{span.title} · {span.location}" if span.title else span.location, _MAX_LABEL)


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", text)
