"""a question -> HTTP: the answer or the evidence, whole or as server-sent events."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.query import Length, Query
from kumihimo.app.build.progress import describe_event
from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.core.answer import Answer
from kumihimo.core.context import Context
from kumihimo.core.errors import KumiError
from kumihimo.server.access import Allowed
from kumihimo.server.api.parameters import STRICT, Body, Mended, Question, QuestionBody
from kumihimo.server.problems import INTERNAL, problem
from kumihimo.server.responses import ServerEvent, event_response, json_response
from kumihimo.text.translation import message_language

router = APIRouter(tags=["questions"])
log = logging.getLogger("kumihimo")
_FIRST_EVENT_SECONDS = 5  # to wait for an error that has a status of its own; then the stream begins
_MAX_TURNS = 50
_MAX_ANSWER = 50_000  # characters of an earlier answer


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A question of the conversation so far, with its answer."""

    __pydantic_config__: ClassVar[Any] = STRICT
    question: Question
    answer: Annotated[str, Field(max_length=_MAX_ANSWER), Mended]


@dataclass(frozen=True, kw_only=True)
class SearchBody(QuestionBody):
    """A question to search for.

    settings: of the method, as `/methods` lists them. reasons: say of each piece of evidence why it was found, and
    where it is.
    """

    reasons: bool = True


@dataclass(frozen=True, kw_only=True)
class AskBody(SearchBody):
    """A question to answer.

    settings, reasons: as for a search. length: of an answer that a model writes. history: the conversation so far,
    oldest first. stream: send server-sent events.
    """

    length: Length | None = None
    history: Annotated[list[Body[Turn]], Field(max_length=_MAX_TURNS)] = field(default_factory=list)
    stream: bool = False


@router.post("/retrieve")
async def retrieve(access: Allowed, body: Body[SearchBody]) -> Response:
    """Return the evidence for a question, best first, with reasons."""
    context = await access.questions.search(_query(access, body))
    return await json_response(lambda: {"question": body.question, **context.to_dict()})


@router.post("/ask")
async def ask(access: Allowed, body: Body[AskBody]) -> Response:
    """Answer a question with citations.

    With `stream`, the events are `progress`, `evidence`, `token`, `citations` and `answer`, or `error`. A client that
    leaves stops the search and the model.
    """
    if body.stream:
        events = access.questions.answer_events(_answer_query(access, body))
        first = asyncio.ensure_future(anext(events))
        try:
            await asyncio.wait([first], timeout=_FIRST_EVENT_SECONDS)
            if first.done():
                first.result()  # or an error that is known before the search
        except BaseException:
            first.cancel()
            raise
        return event_response(answer_events(first, events))
    answer = await find_answer(access, body)
    return await json_response(answer.to_dict)


async def find_answer(access: Allowed, body: AskBody) -> Answer:
    """Return the answer to a request."""
    return await access.questions.answer(_answer_query(access, body))


def _answer_query(access: Allowed, body: AskBody) -> Query:
    """Return the query of a request for an answer."""
    history = [Answer.of_text(turn.question, turn.answer) for turn in body.history]
    return _query(access, body, length=body.length, history=history)


def _query(access: Allowed, body: SearchBody, **more: Any) -> Query:
    """Return the query of a request."""
    options = {"filter": body.filter, "settings": body.settings, "explain": body.reasons}
    return access.query(body.question, body.method, **options, **more)


async def answer_events(
    first: asyncio.Future[QuestionEvent], later: AsyncGenerator[QuestionEvent, None]
) -> AsyncGenerator[bytes, None]:
    """Yield the events of one question, up to `answer` or `error`."""
    try:
        async with aclosing(later) as events:
            yield await _encode(await first)
            async for event in events:
                yield await _encode(event)
    except KumiError as error:
        yield ServerEvent("error", json.loads(bytes(problem(error, language=message_language()).body))).encode()
    except Exception:
        log.exception("a question has failed")
        yield ServerEvent("error", {"title": "InternalError", "status": 500, "detail": INTERNAL}).encode()


async def _encode(event: QuestionEvent) -> bytes:
    """Return an event of a question as server-sent events.

    What may be long is written in a thread.
    """
    return await run_in_threadpool(_write, event) if isinstance(event, Answer | Context) else _write(event)


def _write(event: QuestionEvent) -> bytes:
    match event:
        case Answer():
            citations = {"citations": [citation.to_dict() for citation in event.citations]}
            return ServerEvent("citations", citations).encode() + ServerEvent("answer", event.to_dict()).encode()
        case Context():
            return ServerEvent("evidence", event.to_dict()).encode()
        case str():
            return ServerEvent("token", {"text": event}).encode()
    values = {"step": event.step, "text": describe_event(event), "model": event.model}
    return ServerEvent("progress", values).encode()
