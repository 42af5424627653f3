"""why a piece of evidence was chosen -> that as JSON, and in lines."""

from __future__ import annotations

from kumihimo.app.explanations import Reason
from kumihimo.cli import terminal


def as_json(reason: Reason) -> dict[str, object]:
    """What of a piece of evidence tells why it was chosen."""
    tied = reason.tied
    path = tied and {
        "chunk": tied.chunk,
        "uri": tied.uri,
        "place": tied.place,
        "start": tied.start,
        "end": tied.end,
        "goes_on": reason.goes_on,
        "entity": reason.entity,
        "name": reason.name,
    }
    return {"words": list(reason.words), "why": dict(reason.why), "path": path}


def lines(reason: Reason) -> list[str]:
    """As a person reads it: in a sentence, and in numbers where there are any."""
    told = reason.told(terminal.where(reason.tied) if reason.tied else "")
    return [told, numbers(reason)] if reason.why else [told]


def numbers(reason: Reason) -> str:
    """What each feature adds.

    >>> numbers(Reason((), (("before", 2.104), ("bridges", 0.5), ("new", -0.25))))
    'before 2.10, bridges 0.50, new -0.25'
    """
    return ", ".join(f"{name} {much:.2f}" for name, much in reason.why)
