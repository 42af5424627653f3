"""why a piece of evidence was chosen -> that as JSON, and in lines."""

from __future__ import annotations

from kumihimo.app.explanations import Reason
from kumihimo.cli import terminal


def reason_json(reason: Reason) -> dict[str, object]:
    """What of a piece of evidence tells why it was chosen."""
    tied = reason.linked_span
    path = tied and {
        "chunk": tied.chunk,
        "uri": tied.uri,
        "place": tied.place,
        "start": tied.start,
        "end": tied.end,
        "goes_on": reason.continues,
        "entity": reason.entity,
        "name": reason.name,
    }
    return {"words": list(reason.words), "why": dict(reason.feature_scores), "path": path}


def reason_lines(reason: Reason) -> list[str]:
    """As a person reads it: in a sentence, and in numbers where there are any."""
    told = reason.describe(terminal.format_span(reason.linked_span) if reason.linked_span else "")
    return [told, format_feature_scores(reason)] if reason.feature_scores else [told]


def format_feature_scores(reason: Reason) -> str:
    """What each feature adds.

    >>> numbers(Reason((), (("before", 2.104), ("bridges", 0.5), ("new", -0.25))))
    'before 2.10, bridges 0.50, new -0.25'
    """
    return ", ".join(f"{name} {much:.2f}" for name, much in reason.feature_scores)
