"""a question of a facade -> what a snapshot returns, within a budget that the caller may cancel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kumihimo.app.snapshot import Snapshot, add_usage
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import IndexChanged
from kumihimo.core.records import Reference
from kumihimo.core.spans import Span
from kumihimo.core.task import Progress
from kumihimo.generation.answer import Length
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.concurrency import iterate_tokens
from kumihimo.llm.protocols import TokenCallback
from kumihimo.llm.registry import ModelRegistry
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
            budget.released = snapshot.released if restarts_left else nullcontext
            return call(replace(snapshot, budget=budget))
    raise AssertionError("a transaction that is never released sees no other build")


class Questions(ABC):
    """What answers questions: an index, or several."""

    models: ModelRegistry
    settings: dict[str, dict[str, object]]

    @abstractmethod
    def prepare_method(self, name: str, progress: Progress | None = None, *, cancel: CancelToken | None = None) -> None:
        """Build the tables that a method lacks, if they cost nothing."""

    @abstractmethod
    def snapshot(
        self, method: str = "", *, rights: str = "", cancel: CancelToken | None = None
    ) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of finished builds."""

    def retrieve(
        self,
        question: str,
        method: str = "",
        *,
        filter: str = "",
        rights: str = "",
        caps: Caps | None = None,
        paid_by: Budget | None = None,
        cancel: CancelToken | None = None,
        **settings: Any,
    ) -> Context:
        """Return the evidence that the method finds, best first.

        settings: of the method, such as k=5. filter: an expression over document metadata, such as `author = "Sabine
        Orrell" and date >= 2024`. rights: an expression, too: what the one who asks may see; a field that no document
        has is unset. Tables that the method lacks are built first, if they cost nothing. caps, paid_by, cancel: as for
        `ask`.
        """
        return read_one_build(
            partial(self.snapshot, method, rights=rights, cancel=cancel),
            self.models.budget(caps, paid_by, cancel),
            lambda snapshot: snapshot.retrieve(question, method, filter=filter, **settings),
        )

    def ask(
        self,
        question: str,
        method: str = "",
        *,
        filter: str = "",
        rights: str = "",
        length: Length | None = None,
        history: Sequence[Answer] = (),
        caps: Caps | None = None,
        paid_by: Budget | None = None,
        on_token: TokenCallback | None = None,
        on_context: Callable[[Context], None] | None = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        **settings: Any,
    ) -> Answer:
        """Return the answer with its citations.

        filter, rights: as for `retrieve`. length: `brief`, `normal` or `full`, of a chat model's answer; None: as set.
        history: earlier answers; the question may refer to them if there is a chat model. caps: limits on what is
        spent. paid_by: a budget that pays too, such as that of a key. on_token: receives the text as it arrives.
        on_context: receives the evidence before that. progress: receives an event as the search and the model begin.
        cancel: stops the question, which raises Cancelled; a request in flight is still paid.
        """
        search = {"filter": filter, "length": length, "history": history, **settings}
        listeners: dict[str, Any] = {"on_token": on_token, "on_context": on_context, "progress": progress}
        return answer_from_one_build(
            partial(self.snapshot, method, rights=rights, cancel=cancel),
            self.models.budget(caps, paid_by, cancel),
            lambda snapshot: snapshot.ask(question, method, **listeners, **search),
        )

    def stream(
        self, question: str, method: str = "", *, rights: str = "", **options: Any
    ) -> Generator[str, None, Answer]:
        """Yield the answer's text as it arrives; return the answer.

        options: as for `ask`. A generator that is closed cancels the question.
        """
        cancel = options.pop("cancel", None) or CancelToken()
        asked = {"rights": rights, **options}
        return (
            yield from iterate_tokens(
                lambda on_token: self.ask(question, method, on_token=on_token, cancel=cancel, **asked), cancel
            )
        )

    def suggest(self, answer: Answer, *, caps: Caps | None = None) -> Answer:
        """Return the answer with up to five next questions in `followups`.

        This takes one LLM call. caps: for the answer and the call together.
        """
        with self.snapshot() as snapshot:
            suggester = snapshot.followup_suggester(caps)
        return suggester(answer)

    def trace(self, reference: str | Reference, *, rights: str = "") -> list[Span]:
        """Return the source spans of a row, by id or (table, id)."""
        with self.snapshot(rights=rights) as snapshot:
            row = snapshot.find(reference).reference if isinstance(reference, str) else reference
            return list(snapshot.trace(row))
