"""the reason for a piece of evidence -> JSON, and lines of text."""

from __future__ import annotations

from kumihimo.app.explanations import Reason
from kumihimo.cli import terminal


def reason_json(reason: Reason) -> dict[str, object]:
    """Return a reason as JSON: matched words, feature scores, linked passage."""
    span = reason.linked_span
    via = span and {
        "chunk": span.chunk,
        "uri": span.uri,
        "place": span.place,
        "start": span.start,
        "end": span.end,
        "goes_on": reason.continues,
        "entity": reason.entity,
        "name": reason.name,
    }
    return {"words": list(reason.words), "feature_scores": dict(reason.feature_scores), "via": via}


def reason_lines(reason: Reason) -> list[str]:
    """Return a reason as a sentence, and its feature scores, if any."""
    sentence = reason.describe(terminal.format_span(reason.linked_span) if reason.linked_span else "")
    return [sentence, format_feature_scores(reason)] if reason.feature_scores else [sentence]


def format_feature_scores(reason: Reason) -> str:
    """Return the score that each feature adds, as text.

    >>> format_feature_scores(Reason((), (("before", 2.104), ("bridges", 0.5), ("new", -0.25))))
    'before 2.10, bridges 0.50, new -0.25'
    """
    return ", ".join(f"{name} {score:.2f}" for name, score in reason.feature_scores)
