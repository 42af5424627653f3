"""numbered items + a text to check them against -> an LLM verdict on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kumihimo.core.errors import UnparsableReply
from kumihimo.evaluate.scoring.case import Tools, render_numbered_list

SUPPORT_PROMPT = Path(__file__).with_name("scoring_supported.md")
_BATCH_SIZE = 40  # items per call; the reply has a sentence on each


@dataclass(frozen=True, slots=True)
class Checked:
    """A verdict on the item with this number, with the reason first."""

    number: int
    reason: str
    holds: bool


N = TypeVar("N", bound=Any)  # a reply form with a `number`


def check_support(tools: Tools, question: str, statements: Sequence[str], text: str) -> list[Checked]:
    """Check each statement against the text, and return the verdicts in order.

    Without statements or text no LLM is called.
    """
    if not text.strip():
        return [Checked(number, "there is no text", False) for number, _ in enumerate(statements, 1)]
    return check_items(tools, SUPPORT_PROMPT, statements, question=question, text=text)


def check_items(tools: Tools, path: Path, items: Sequence[str], **values: str) -> list[Checked]:
    """Return a verdict on each item, in order.

    path: a prompt that shows the items as `{items}`.
    """
    return ask_by_item(tools, path, items, Checked, **values)


def ask_by_item(tools: Tools, path: Path, items: Sequence[str], schema: type[N], **values: str) -> list[N]:
    """Return the LLM's reply on each item, in order.

    schema: a reply form with the `number` of its item. Items missing from a reply are requested again. If a reply has
    two entries for an item, the first counts. Raises UnparsableReply if a reply covers no requested item.
    """
    replies: dict[int, N] = {}
    for start in range(0, len(items), _BATCH_SIZE):
        pending = list(range(start, min(start + _BATCH_SIZE, len(items))))
        while pending:
            kind: Any = schema
            for reply in tools.ask(path, list[kind], items=render_numbered_list([items[i] for i in pending]), **values):
                if 1 <= reply.number <= len(pending):
                    replies.setdefault(pending[reply.number - 1], reply)
            missing = [i for i in pending if i not in replies]
            if missing == pending:
                raise UnparsableReply(f"a reply gave no verdict on {len(pending)} of {len(items)} items")
            pending = missing
    return [replace(replies[i], number=i + 1) for i in range(len(items))]


def describe_checks(items: Sequence[str], verdicts: Sequence[Checked]) -> list[dict[str, Any]]:
    """Return the verdicts as rows for the detail of a score."""
    pairs = zip(items, verdicts, strict=True)
    return [{"text": item, "holds": verdict.holds, "reason": verdict.reason} for item, verdict in pairs]
