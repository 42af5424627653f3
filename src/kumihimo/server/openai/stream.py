"""the events of a question -> the chunks of a streamed reply."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import KumiError
from kumihimo.server.openai.errors import error_body
from kumihimo.server.openai.replies import ReplyHead, extension_json, finish_reason, usage_json
from kumihimo.server.openai.source_list import Link, source_list, url_citations
from kumihimo.server.problems import status_of


@dataclass(frozen=True, slots=True)
class DataEvent:
    """A server-sent event that is nothing but a line of data."""

    data: str

    def encode(self) -> bytes:
        return f"data: {self.data}\n\n".encode()


DONE = DataEvent("[DONE]")


async def first_events(events: AsyncIterator[QuestionEvent]) -> list[QuestionEvent]:
    """Return the events up to the first evidence or text.

    Most errors are raised before it, while the status of the response can still be chosen.
    """
    received: list[QuestionEvent] = []
    async for event in events:
        received.append(event)
        if isinstance(event, Context | str | Answer):
            break
    return received


async def stream_chunks(
    head: ReplyHead,
    received: list[QuestionEvent],
    events: AsyncIterator[QuestionEvent],
    link: Link,
    *,
    with_usage: bool,
) -> AsyncIterator[DataEvent]:
    """Yield the chunks of a reply.

    An error that comes later than the first text is the last event. received: the events so far.
    """
    usage: dict[str, Any] = {"usage": None} if with_usage else {}
    yield _event(head.chunk({"role": "assistant", "content": ""}, **usage))
    text = ""
    try:
        async for event in _chain(received, events):
            if isinstance(event, str):
                text += event
                yield _event(head.chunk({"content": event}, **usage))
            elif isinstance(event, Answer):
                for chunk in _last_chunks(head, event, text, link):
                    yield _event({**chunk, **usage})
                if with_usage:
                    yield _event(head.object("chat.completion.chunk", choices=[], usage=usage_json(event.usage)))
    except KumiError as error:
        yield _event(error_body(error, status_of(error)))
    yield DONE


def _last_chunks(head: ReplyHead, answer: Answer, text: str, link: Link) -> list[dict[str, Any]]:
    """Return the chunks after the text: the sources and the annotations.

    text: as it was streamed.
    """
    rest = answer.text.removeprefix(text) if answer.text.startswith(text) else ""
    last = {"content": rest + source_list(answer, link)}
    return [
        *([head.chunk(last)] if last["content"] else []),
        head.chunk(
            {"annotations": url_citations(answer, link)}, finish_reason(answer), kumihimo=extension_json(answer)
        ),
    ]


async def _chain(received: list[QuestionEvent], events: AsyncIterator[QuestionEvent]) -> AsyncIterator[QuestionEvent]:
    """Yield the events that have been received, then the others."""
    for event in received:
        yield event
    async for event in events:
        yield event


def _event(value: dict[str, Any]) -> DataEvent:
    return DataEvent(json.dumps(value, ensure_ascii=False))
