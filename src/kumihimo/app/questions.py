"""a question of the facade -> what a snapshot returns, within a budget that the caller may cancel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar

from kumihimo.app.snapshot import Snapshot
from kumihimo.llm.budget import Budget

T = TypeVar("T")


def ask_one_build(
    open_snapshot: Callable[[], AbstractContextManager[Snapshot]], budget: Budget, call: Callable[[Snapshot], T]
) -> T:
    """Return what a call makes of one finished build.

    budget: of the question; its caps and its token count for every model that the call asks.
    """
    with open_snapshot() as snapshot:
        return call(replace(snapshot, budget=budget))
