"""numbered items + what they are held against -> a verdict on each, by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from kumihimo.core.errors import Unreadable
from kumihimo.evaluate.scoring.case import Tools, numbered

SUPPORTED = Path(__file__).with_name("scoring_supported.md")
_TOGETHER = 40  # items in one call: the reply has a sentence on each


@dataclass(frozen=True, slots=True)
class Checked:
    """The reason first, then whether it holds of the item with that number."""

    number: int
    reason: str
    holds: bool


N = TypeVar("N", bound=Any)  # with a number


def supported(tools: Tools, question: str, statements: Sequence[str], text: str) -> list[Checked]:
    """Whether the text says each statement, in their order; nobody is asked where there are none, or no text."""
    if not text.strip():
        return [Checked(n, "there is no text", False) for n, _ in enumerate(statements, 1)]
    return checked(tools, SUPPORTED, statements, question=question, text=text)


def checked(tools: Tools, path: Path, items: Sequence[str], **values: str) -> list[Checked]:
    """A verdict on each item, in their order, by a prompt that shows them as `{items}`."""
    return by_item(tools, path, items, Checked, **values)


def by_item(tools: Tools, path: Path, items: Sequence[str], into: type[N], **values: str) -> list[N]:
    """What a model says of each item, in their order; into: its form, which has the number of the item.

    Those that a reply leaves out are asked about again, by themselves; of two verdicts on one item the first counts.
    Raises Unreadable where a reply says nothing about any of those it was asked about.
    """
    found: dict[int, N] = {}
    for begin in range(0, len(items), _TOGETHER):
        left = list(range(begin, min(begin + _TOGETHER, len(items))))
        while left:
            kind: Any = into
            for one in tools.ask(path, list[kind], items=numbered([items[i] for i in left]), **values):
                if 1 <= one.number <= len(left):
                    found.setdefault(left[one.number - 1], one)
            still = [i for i in left if i not in found]
            if still == left:
                raise Unreadable(f"a reply gave no verdict on {len(left)} of {len(items)} items")
            left = still
    return [replace(found[i], number=i + 1) for i in range(len(items))]


def told(items: Sequence[str], verdicts: Sequence[Checked]) -> list[dict[str, Any]]:
    """As the detail of a score keeps them."""
    pairs = zip(items, verdicts, strict=True)
    return [{"text": item, "holds": verdict.holds, "reason": verdict.reason} for item, verdict in pairs]
