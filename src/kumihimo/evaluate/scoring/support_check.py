"""numbered items + what they are held against -> a verdict on each, by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kumihimo.core.errors import UnparsableReply
from kumihimo.evaluate.scoring.case import Tools, render_numbered_list

SUPPORT_PROMPT = Path(__file__).with_name("scoring_supported.md")
_BATCH_SIZE = 40  # items in one call: the reply has a sentence on each


@dataclass(frozen=True, slots=True)
class Checked:
    """The reason first, then whether it holds of the item with that number."""

    number: int
    reason: str
    holds: bool


N = TypeVar("N", bound=Any)  # with a number


def check_support(tools: Tools, question: str, statements: Sequence[str], text: str) -> list[Checked]:
    """Whether the text says each statement, in their order; nobody is asked where there are none, or no text."""
    if not text.strip():
        return [Checked(n, "there is no text", False) for n, _ in enumerate(statements, 1)]
    return check_items(tools, SUPPORT_PROMPT, statements, question=question, text=text)


def check_items(tools: Tools, path: Path, items: Sequence[str], **values: str) -> list[Checked]:
    """A verdict on each item, in their order, by a prompt that shows them as `{items}`."""
    return ask_by_item(tools, path, items, Checked, **values)


def ask_by_item(tools: Tools, path: Path, items: Sequence[str], schema: type[N], **values: str) -> list[N]:
    """What a model says of each item, in their order; into: its form, which has the number of the item.

    Those that a reply leaves out are asked about again, by themselves; of two verdicts on one item the first counts.
    Raises Unreadable where a reply says nothing about any of those it was asked about.
    """
    found: dict[int, N] = {}
    for begin in range(0, len(items), _BATCH_SIZE):
        left = list(range(begin, min(begin + _BATCH_SIZE, len(items))))
        while left:
            kind: Any = schema
            for one in tools.ask(path, list[kind], items=render_numbered_list([items[i] for i in left]), **values):
                if 1 <= one.number <= len(left):
                    found.setdefault(left[one.number - 1], one)
            still = [i for i in left if i not in found]
            if still == left:
                raise UnparsableReply(f"a reply gave no verdict on {len(left)} of {len(items)} items")
            left = still
    return [replace(found[i], number=i + 1) for i in range(len(items))]


def describe_checks(items: Sequence[str], verdicts: Sequence[Checked]) -> list[dict[str, Any]]:
    """As the detail of a score keeps them."""
    pairs = zip(items, verdicts, strict=True)
    return [{"text": item, "holds": verdict.holds, "reason": verdict.reason} for item, verdict in pairs]
