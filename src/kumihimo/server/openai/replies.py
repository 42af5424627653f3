"""an answer -> the objects of a chat completion, whole or as a stream, with a list of sources."""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import chain, islice
from time import time
from typing import Any
from uuid import uuid4

from starlette.concurrency import run_in_threadpool

from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.core.answer import TRUNCATION_NOTE, Answer
from kumihimo.core.context import Context
from kumihimo.core.errors import KumiError
from kumihimo.core.spans import Span
from kumihimo.core.task import ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.server.problems import INTERNAL, error_body, status_of
from kumihimo.server.responses import write_json
from kumihimo.text.sentences import shorten_title
from kumihimo.text.translation import translate

log = logging.getLogger("kumihimo")
_MAX_EVIDENCE = 100  # ids of rows in a reply
Link = Callable[[Span], str]  # a passage -> the address of its page
_MAX_LINES = 30  # of the list
_MAX_ANNOTATIONS = 1000
_MAX_SPANS = 3  # of one number
_RULE = "\n\n---\n\n"  # between the text and its sources, in any language
_SOURCE_LINE = re.compile(r"- \[\d{1,3}\] \[(?:\\.|[^\\\]\n]){0,500}+\]\([^\s()]{1,500}+\)")
_MARKDOWN, _ESCAPED = re.compile(r"([\\`*\[\]<])"), r"\\\1"  # signs, and how they show as they are
_MAX_LABEL = 200  # characters


@dataclass(frozen=True, slots=True)
class ReplyHead:
    """What all chunks of a reply have in common."""

    model: str
    id: str = field(default_factory=lambda: f"chatcmpl-{uuid4().hex}")
    created: int = field(default_factory=lambda: int(time()))

    def object(self, kind: str, **values: Any) -> dict[str, Any]:
        """Return an object of this reply."""
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model, **values}

    def chunk(self, delta: dict[str, Any], finish_reason: str | None = None, **values: Any) -> dict[str, Any]:
        """Return a chunk of a stream."""
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return self.object("chat.completion.chunk", choices=[choice], **values)


def completion(head: ReplyHead, answer: Answer, link: Link) -> dict[str, Any]:
    """Return a whole reply."""
    content, annotations = write_content(answer, link), url_citations(answer, link)
    message = {"role": "assistant", "content": content, "refusal": None, "annotations": annotations}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason(answer), "logprobs": None}
    return head.object(
        "chat.completion", choices=[choice], usage=usage_json(answer.usage), kumihimo=extension_json(answer)
    )


def finish_reason(answer: Answer) -> str:
    """Return why the text ends."""
    return "length" if answer.truncated else "stop"


def usage_json(usage: Usage) -> dict[str, Any]:
    """Return the tokens of the model calls; 0 without a model."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def extension_json(answer: Answer) -> dict[str, Any]:
    """Return the method, the model, the status and the rows found."""
    evidence = [":".join(item.reference) for item in answer.context][:_MAX_EVIDENCE]
    return {"method": answer.method, "model": answer.model, "status": answer.status, "evidence": evidence}


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
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of a reply.

    The text of a model is passed on as it arrives; words of documents come with their numbers. An error that comes
    later than the first text is the last event. received: the events so far.
    """
    usage: dict[str, Any] = {"usage": None} if with_usage else {}
    yield _event(head.chunk({"role": "assistant", "content": ""}, **usage))
    text, model = "", ""
    try:
        async for event in _chain(received, events):
            if isinstance(event, ProgressEvent):
                model = event.model
            elif isinstance(event, str) and model:
                text += event
                yield _event(head.chunk({"content": event}, **usage))
            elif isinstance(event, Answer):
                yield await run_in_threadpool(_last_chunks, head, event, text, link, usage)
    except KumiError as error:
        yield _event(error_body(error, status_of(error)))
    except Exception:
        log.exception("a question has failed")
        yield _event(error_body(KumiError(INTERNAL), 500))
    yield b"data: [DONE]\n\n"


def _last_chunks(head: ReplyHead, answer: Answer, text: str, link: Link, usage: dict[str, Any]) -> bytes:
    """Return the chunks after the text: sources, annotations and usage.

    text: as it was streamed. usage: of each other chunk; empty if none is wanted.
    """
    content, annotations = write_content(answer, link).removeprefix(text), url_citations(answer, link)
    end = head.chunk({"annotations": annotations}, finish_reason(answer), kumihimo=extension_json(answer), **usage)
    chunks = [head.chunk({"content": content}, **usage)] if content else []
    used = [head.object("chat.completion.chunk", choices=[], usage=usage_json(answer.usage))] if usage else []
    return b"".join(map(_event, [*chunks, end, *used]))


async def _chain(received: list[QuestionEvent], events: AsyncIterator[QuestionEvent]) -> AsyncIterator[QuestionEvent]:
    """Yield the events that have been received, then the others."""
    for event in received:
        yield event
    async for event in events:
        yield event


def _event(value: dict[str, Any]) -> bytes:
    """Return a server-sent event that is nothing but a line of data."""
    return b"data: " + write_json(value) + b"\n\n"


def write_content(answer: Answer, link: Link) -> str:
    """Return the content of a reply.

    That is a remark, the text with its markers, and the sources in Markdown.
    """
    note = f"\n\n{translate(TRUNCATION_NOTE)}" if answer.truncated else ""
    return _before(answer) + answer.marked().text + note + source_list(answer, link)


def _before(answer: Answer) -> str:
    """Return that nothing was found, before the text."""
    remark = translate(answer.remark) if answer.status == "nothing" else ""
    return f"{remark}\n\n" if remark and answer.parts else remark


def source_list(answer: Answer, link: Link) -> str:
    """Return the sources of an answer, in Markdown; empty without citations."""
    lines: dict[str, None] = {}
    counts: dict[int, int] = {}
    for citation in answer.citations:
        span = citation.span
        counts[citation.n] = counts.get(citation.n, 0) + 1
        if counts[citation.n] <= _MAX_SPANS:
            lines[f"- [{citation.n}] [{_MARKDOWN.sub(_ESCAPED, _label(span))}]({link(span)})"] = None
    return _RULE + "\n".join([*lines][:_MAX_LINES]) if lines else ""


def without_source_list(text: str) -> str:
    """Return a text without the sources that `source_list` has added.

    >>> without_source_list("At nine. [1]\\n\\n---\\n\\n- [1] [a.md, line 1](http://localhost/documents/a?start=0&end=8)")
    'At nine. [1]'
    """
    before, rule, sources = text.rpartition(_RULE)
    is_list = rule and all(map(_SOURCE_LINE.fullmatch, sources.rstrip().split("\n")))
    return before if is_list else text


def url_citations(answer: Answer, link: Link) -> list[dict[str, Any]]:
    """Return the citations in the content of a reply.

    They are the first 1,000. Each has its characters `[start_index, end_index)`, a title, an address and the fields of
    its document.
    """
    spans: dict[int, list[Span]] = {}
    for citation in answer.citations:
        spans.setdefault(citation.n, []).append(citation.span)
    citations = {
        n: [{"title": _label(span), "url": link(span), "metadata": dict(span.metadata)} for span in own[:_MAX_SPANS]]
        for n, own in spans.items()
    }
    start = len(_before(answer))
    found = (
        {"type": "url_citation", "url_citation": {"start_index": start + first, "end_index": start + last, **each}}
        for first, last, numbers in answer.marked().markers
        for each in chain.from_iterable(citations.get(n, ()) for n in numbers)
    )
    return list(islice(found, _MAX_ANNOTATIONS))


def _label(span: Span) -> str:
    return shorten_title(f"{span.title} · {span.location}" if span.title else span.location, _MAX_LABEL)
