"""a piece of work -> a span of OpenTelemetry, if the program has set it up; otherwise nothing.

OpenTelemetry is not imported here: a program that exports spans has imported it. No text of a question, a document or a
prompt is recorded.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from time import time_ns
from typing import Any

from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.usage import Usage

Attributes = Mapping[str, str | int | float | bool]
SetAttributes = Callable[[Attributes], None]


def _tracer() -> Any:
    """Return the tracer of the program, or None."""
    api = sys.modules.get("opentelemetry.trace")
    return api.get_tracer("kumihimo") if api else None


@contextmanager
def span(name: str, attributes: Attributes) -> Iterator[SetAttributes]:
    """Record what is done here as a span.

    Yields a function that adds attributes. An error adds its class, not its message.
    """
    tracer = _tracer()
    if tracer is None:
        yield _ignore
        return
    options = {"record_exception": False, "set_status_on_exception": False}
    with tracer.start_as_current_span(name, attributes=dict(attributes), **options) as current:
        try:
            yield lambda more: current.set_attributes(dict(more))
        except BaseException as error:
            current.set_attribute("error.type", type(error).__name__)
            current.set_status(sys.modules["opentelemetry.trace"].StatusCode.ERROR)
            raise


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


def _ignore(_attributes: Attributes) -> None:
    """Do nothing with the attributes."""


@contextmanager
def build_span(progress: Progress | None) -> Iterator[Progress | None]:
    """Record a build and each of its steps.

    Yields the receiver of progress, which tells the steps apart.
    """
    tracer = _tracer()
    if tracer is None:
        yield progress
        return
    steps: list[tuple[ProgressEvent, int]] = []  # the current one, and when it began

    def end_step() -> None:
        for event, start in steps:
            attributes = {"kumihimo.items": event.total}
            tracer.start_span(f"step {event.step}", attributes=attributes, start_time=start).end(time_ns())

    def receive(event: ProgressEvent) -> None:
        if not steps or steps[0][0].step != event.step:
            end_step()
            steps[:] = [(event, time_ns())]
        steps[0] = event, steps[0][1]
        if progress:
            progress(event)

    with span("build", {}):
        yield receive
        end_step()
