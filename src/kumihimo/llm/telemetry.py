"""a piece of work -> a span of OpenTelemetry, if the program has set it up; otherwise nothing.

OpenTelemetry is not imported here: a program that exports spans has imported it. No text of a question, a document or a
prompt is recorded.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import time_ns
from typing import Any

from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.usage import Usage

Attributes = Mapping[str, str | int | float | bool]
SetAttributes = Callable[[Attributes], None]
_API = "opentelemetry.trace"
_NO_SPAN: AbstractContextManager[SetAttributes] = nullcontext(lambda _: None)


def _tracer() -> Any:
    """Return the tracer of the program."""
    return sys.modules[_API].get_tracer("kumihimo")


def span(name: str, attributes: Attributes) -> AbstractContextManager[SetAttributes]:
    """Record what is done here as a span.

    Yields a function that adds attributes. An error adds its class, not its message.
    """
    return _record_span(name, attributes) if sys.modules.get(_API) else _NO_SPAN


@contextmanager
def _record_span(name: str, attributes: Attributes) -> Iterator[SetAttributes]:
    options = {"record_exception": False, "set_status_on_exception": False}
    with _tracer().start_as_current_span(name, attributes=dict(attributes), **options) as current:
        try:
            yield lambda more: current.set_attributes(dict(more))
        except BaseException as error:
            _mark_failed(current, error)
            raise


def _mark_failed(current: Any, error: BaseException) -> None:
    """Record the class of an error, not its message."""
    current.set_attribute("error.type", type(error).__name__)
    current.set_status(sys.modules[_API].StatusCode.ERROR)


def model_span(scope: str, model: str, *, has_reply: bool) -> AbstractContextManager[SetAttributes]:
    """Record a request to a model by the GenAI conventions.

    model: its name, then its parameters.
    """
    name, operation = model.partition(" ")[0], "chat" if has_reply else scope
    attributes = {"gen_ai.operation.name": operation, "gen_ai.request.model": name, "kumihimo.scope": scope}
    return span(f"{operation} {name}", attributes)


def usage_attributes(usage: Usage) -> Attributes:
    """Return the attributes of what a reply has cost."""
    return {
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.completion_tokens,
        "kumihimo.cost": usage.cost,
    }


class _StepSpans:
    """The spans of the steps of a build, one after the other."""

    def __init__(self, tracer: Any, progress: Progress | None) -> None:
        self._tracer, self._progress = tracer, progress
        self._running: tuple[ProgressEvent, int] | None = None  # the last event of a step, and when the step began

    def receive(self, event: ProgressEvent) -> None:
        """Begin a step where its first event arrives."""
        start = self._running[1] if self._running and self._running[0].step == event.step else None
        if start is None:
            self.end()
        self._running = event, start or time_ns()
        if self._progress:
            self._progress(event)

    def end(self, error: BaseException | None = None) -> None:
        """Record the step that runs."""
        if self._running is None:
            return
        event, start = self._running
        step = self._tracer.start_span(
            f"step {event.step}", attributes={"kumihimo.items": event.total}, start_time=start
        )
        if error:
            _mark_failed(step, error)
        step.end(time_ns())
        self._running = None


@contextmanager
def build_span(progress: Progress | None) -> Iterator[Progress | None]:
    """Record a build and each of its steps.

    Yields the receiver of progress, which tells the steps apart. An error belongs to the step that runs then.
    """
    if not sys.modules.get(_API):
        yield progress
        return
    steps = _StepSpans(_tracer(), progress)
    with span("build", {}):
        try:
            yield steps.receive
        except BaseException as error:
            steps.end(error)
            raise
        steps.end()
