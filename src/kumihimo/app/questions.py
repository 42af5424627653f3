"""a question of the facade -> what a snapshot returns, within a budget that the caller may cancel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from typing import TypeVar

from kumihimo.app.snapshot import Snapshot, add_usage
from kumihimo.core.context import Answer
from kumihimo.core.errors import IndexChanged
from kumihimo.llm.budget import Budget
from kumihimo.llm.telemetry import span

T = TypeVar("T")
OpenSnapshot = Callable[[], AbstractContextManager[Snapshot]]
MAX_RESTARTS = 2  # of a question, because of other builds


def answer_from_one_build(open_snapshot: OpenSnapshot, budget: Budget, ask: Callable[[Snapshot], Answer]) -> Answer:
    """Return an answer, with what all tries spent."""
    with span("ask", {}) as set_attributes:
        answer = read_one_build(open_snapshot, budget, ask)
        answer = add_usage(answer, budget, answer.usage.seconds)
        set_attributes(
            {
                "kumihimo.method": answer.method,
                "kumihimo.citations": len(answer.citations),
                "kumihimo.calls": answer.usage.calls,
                "kumihimo.cost": answer.usage.cost,
            }
        )
    return answer


def read_one_build(open_snapshot: OpenSnapshot, budget: Budget, call: Callable[[Snapshot], T]) -> T:
    """Return what a call makes of one finished build.

    It holds no transaction while a model speaks. If another build ends meanwhile, the call begins again on that one,
    and the cache has the replies to the requests that stay the same; the last try holds its transaction. So the call
    may tell its caller nothing before its last read. budget: of the question; its caps and its token count for every
    model that the call asks.
    """
    for restarts_left in reversed(range(MAX_RESTARTS + 1)):
        with suppress(IndexChanged), open_snapshot() as snapshot:
            budget.released = snapshot.db.released if restarts_left else nullcontext
            return call(replace(snapshot, budget=budget))
    raise AssertionError("a transaction that is never released sees no other build")
