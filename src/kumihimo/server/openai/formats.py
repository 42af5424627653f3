"""an answer -> a chat completion or a response of OpenAI's API, whole or as the events of a stream."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from time import time
from typing import Any
from uuid import uuid4

from starlette.concurrency import run_in_threadpool

from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.core import errors, task
from kumihimo.core.answer import Answer
from kumihimo.server import problems, responses
from kumihimo.server.openai import replies

log = logging.getLogger("kumihimo")
_DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """A chat completion. with_usage: whether a stream ends with the tokens."""

    model: str
    link: replies.Link
    with_usage: bool = False
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time()))

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a whole reply."""
        content, annotations = replies.write_content(answer, self.link), replies.url_citations(answer, self.link)
        message = {"role": "assistant", "content": content, "refusal": None, "annotations": annotations}
        choice = {"index": 0, "message": message, "finish_reason": _finish_reason(answer), "logprobs": None}
        usage, extension = _chat_usage(answer), replies.extension_json(answer)
        return self._object("chat.completion", choices=[choice], usage=usage, kumihimo=extension)

    def begin(self) -> bytes:
        """Return the events before the text."""
        return self._chunk({"role": "assistant", "content": ""})

    def delta(self, text: str) -> bytes:
        """Return the event of a piece of the text."""
        return self._chunk({"content": text})

    def end(self, answer: Answer, text: str) -> bytes:
        """Return the events after the text.

        text: as it was streamed.
        """
        content = replies.write_content(answer, self.link).removeprefix(text)
        annotations, extension = replies.url_citations(answer, self.link), replies.extension_json(answer)
        chunks = [self.delta(content)] if content else []
        chunks.append(self._chunk({"annotations": annotations}, _finish_reason(answer), kumihimo=extension))
        if self.with_usage:
            chunks.append(_data(self._object("chat.completion.chunk", choices=[], usage=_chat_usage(answer))))
        return b"".join(chunks) + _DONE

    def failure(self, error: errors.KumiError) -> bytes:
        """Return the last event of a stream that fails."""
        return _data(problems.error_body(error, problems.status_of(error))) + _DONE

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **values: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        usage: dict[str, Any] = {"usage": None} if self.with_usage else {}
        return _data(self._object("chat.completion.chunk", choices=[choice], **usage, **values))

    def _object(self, kind: str, **values: Any) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, **values}


def _finish_reason(answer: Answer) -> str:
    """Return why the text ends."""
    return "length" if answer.truncated else "stop"


def _chat_usage(answer: Answer) -> dict[str, Any]:
    """Return the tokens of the model calls; 0 without a model."""
    usage = answer.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _data(value: dict[str, Any]) -> bytes:
    """Return a server-sent event that is nothing but a line of data."""
    return b"data: " + responses.write_json(value) + b"\n\n"


_FIXED: dict[str, Any] = {  # what every response has in common
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": False,
    "previous_response_id": None,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "none",
    "tools": [],
    "top_p": None,
}


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A response, with one message."""

    model: str
    link: replies.Link
    id: str = field(default_factory=lambda: uuid4().hex)
    created: int = field(default_factory=lambda: int(time()))
    _numbers: Iterator[int] = field(default_factory=count)

    def whole(self, answer: Answer) -> dict[str, Any]:
        """Return a whole reply."""
        status = "incomplete" if answer.truncated else "completed"
        citations = replies.url_citations(answer, self.link)
        annotations = [{"type": citation["type"], **citation["url_citation"]} for citation in citations]
        message = self._message(status, [_part(replies.write_content(answer, self.link), annotations)])
        reason = {"reason": "max_output_tokens"} if answer.truncated else None
        usage = answer.usage
        tokens = {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.tokens,
        }
        more = {"incomplete_details": reason, "usage": tokens, "kumihimo": replies.extension_json(answer)}
        return self._response(status, [message], **more)

    def begin(self) -> bytes:
        """Return the events before the text."""
        response, message = self._response("in_progress"), self._message("in_progress", [])
        return self._events(
            ("created", {"response": response}),
            ("in_progress", {"response": response}),
            ("output_item.added", {"output_index": 0, "item": message}),
            ("content_part.added", {**self._place, "part": _part("", [])}),
        )

    def delta(self, text: str) -> bytes:
        """Return the event of a piece of the text."""
        return self._events(("output_text.delta", {**self._place, "delta": text, "logprobs": []}))

    def end(self, answer: Answer, text: str) -> bytes:
        """Return the events after the text.

        text: as it was streamed.
        """
        response = self.whole(answer)
        (message,) = response["output"]
        (part,) = message["content"]
        rest = part["text"].removeprefix(text)
        annotations = (
            ("output_text.annotation.added", {**self._place, "annotation_index": n, "annotation": annotation})
            for n, annotation in enumerate(part["annotations"])
        )
        return (self.delta(rest) if rest else b"") + self._events(
            *annotations,
            ("output_text.done", {**self._place, "text": part["text"], "logprobs": []}),
            ("content_part.done", {**self._place, "part": part}),
            ("output_item.done", {"output_index": 0, "item": message}),
            (response["status"], {"response": response}),
        )

    def failure(self, error: errors.KumiError) -> bytes:
        """Return the last event of a stream that fails."""
        known: Any = problems.error_body(error, problems.status_of(error))["error"]
        code = "rate_limit_exceeded" if known["type"] == "rate_limit_error" else "server_error"
        response = self._response("failed", error={"code": code, "message": known["message"]})
        return self._events(("failed", {"response": response}))

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.id}", "output_index": 0, "content_index": 0}

    def _events(self, *events: tuple[str, dict[str, Any]]) -> bytes:
        named = ((f"response.{kind}", values) for kind, values in events)
        return b"".join(
            responses.ServerEvent(name, {"type": name, "sequence_number": next(self._numbers), **values}).encode()
            for name, values in named
        )

    def _response(self, status: str, output: Iterable[dict[str, Any]] = (), **values: Any) -> dict[str, Any]:
        head = {"id": f"resp_{self.id}", "object": "response", "created_at": self.created, "status": status}
        empty = {"error": None, "incomplete_details": None, "usage": None}
        return {**head, "model": self.model, "output": [*output], **_FIXED, **empty, **values}

    def _message(self, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
        place = {"id": f"msg_{self.id}", "type": "message", "role": "assistant"}
        return {**place, "status": status, "content": content}


def _part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the text of a message."""
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


ReplyFormat = ChatFormat | ResponseFormat


async def stream_reply(reply: ReplyFormat, events: AsyncIterator[QuestionEvent]) -> AsyncGenerator[bytes, None]:
    """Yield the events of a reply.

    The text of a model is passed on as it arrives; words of documents come with their numbers. An error that comes
    later than the first text is the last event.
    """
    yield reply.begin()
    text, model = "", ""
    try:
        async for event in events:
            if isinstance(event, task.ProgressEvent):
                model = event.model
            elif isinstance(event, str) and model:
                text += event
                yield reply.delta(event)
            elif isinstance(event, Answer):
                yield await run_in_threadpool(reply.end, event, text)
    except errors.KumiError as error:
        yield reply.failure(error)
    except Exception:
        log.exception("a question has failed")
        yield reply.failure(errors.KumiError(problems.INTERNAL))
