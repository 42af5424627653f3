"""the parts of a report -> its text and its rating."""

from __future__ import annotations

from collections.abc import Iterable
from math import log

TOP_RATING_MENTIONS = 1000  # mentions for a rating of 10


def rate_mentions(mentions: int) -> tuple[float, str]:
    """Return a rating, 0 to 10, by mention count, with its reason.

    >>> rate_mentions(12)
    (3.7, 'Named 12 times.')
    """
    rating = min(10.0, round(10 * log(1 + mentions) / log(1 + TOP_RATING_MENTIONS), 1))
    return rating, f"Named {mentions} times."


def report_markdown(title: str, summary: str, findings: Iterable[tuple[str, str]]) -> str:
    """Return the Markdown text of a report."""
    parts = [f"# {title}", summary, *(part for heading, text in findings for part in (f"## {heading}", text))]
    return "\n\n".join(part for part in parts if part)
