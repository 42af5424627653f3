"""a question -> HTTP: the answer or the evidence, whole or as server-sent events."""

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from kumihimo.app.json_values import Json, answer_json, bare_evidence_json, context_json, evidence_json
from kumihimo.app.progress import describe_event
from kumihimo.app.question_limits import check_question
from kumihimo.app.snapshot import Length, Snapshot
from kumihimo.core.context import Answer, Context
from kumihimo.core.errors import KumiError, SettingsError, describe_unknown
from kumihimo.core.task import ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.core.wiring import ROOT
from kumihimo.server.access import AskedIndexes, Reader, find_asked
from kumihimo.server.api.parameters import STRICT, Body, FilterText, MoreIndexes, Name, Question, Settings
from kumihimo.server.events import ServerEvent, cancel_on_disconnect, event_response
from kumihimo.server.problems import problem
from kumihimo.text.translation import message_language, suggest_language

router = APIRouter(tags=["questions"])
log = logging.getLogger("kumihimo")
_MAX_TURNS = 50
_MAX_ANSWER = 50_000  # characters of an earlier answer
_INTERNAL = "the server has made a mistake: its log has the details; ask again, and report it if that happens each time"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A question of the conversation so far, with its answer."""

    __pydantic_config__: ClassVar[Any] = STRICT
    question: Question
    answer: Annotated[str, Field(max_length=_MAX_ANSWER)]


@dataclass(frozen=True, kw_only=True)
class SearchBody:
    """A question to search for.

    settings: of the method, as `/methods` lists them. reasons: say of each piece of evidence why it was found, and
    where it is. more_indexes: asked together with the index of the address.
    """

    __pydantic_config__: ClassVar[Any] = STRICT
    question: Question
    method: Name = ""
    filter: FilterText = ""
    settings: Settings = field(default_factory=dict)
    reasons: bool = True
    more_indexes: MoreIndexes = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class AskBody:
    """A question to answer.

    settings, reasons, more_indexes: as for a search. length: of an answer that a model writes. history: the
    conversation so far, oldest first. stream: send server-sent events.
    """

    __pydantic_config__: ClassVar[Any] = STRICT
    question: Question
    method: Name = ""
    filter: FilterText = ""
    settings: Settings = field(default_factory=dict)
    reasons: bool = True
    more_indexes: MoreIndexes = field(default_factory=list)
    length: Length | None = None
    history: Annotated[list[Body[Turn]], Field(max_length=_MAX_TURNS)] = field(default_factory=list)
    stream: bool = False


@router.post("/retrieve")
async def retrieve(request: Request, access: Reader, body: Body[SearchBody]) -> JSONResponse:
    """Return the evidence for a question, best first, with reasons."""

    async def search() -> Json:
        asked = find_asked(request, access, body.more_indexes)
        await _check(asked, body)
        options = {**_search_options(asked, body), "paid_by": asked.new_budget()}
        context = await asked.questions.retrieve(body.question, body.method, **options)
        evidence = await _describe_evidence(asked, body, context)
        return {"question": body.question, **context_json(context, evidence)}

    return JSONResponse(await cancel_on_disconnect(request, search()))


@router.post("/ask")
async def ask(request: Request, access: Reader, body: Body[AskBody]) -> Response:
    """Answer a question with citations.

    With `stream`, the events are `progress`, `evidence`, `token`, `citations` and `answer`, or `error`. A client that
    leaves stops the search and the model.
    """
    suggest_language(body.question)  # here, so that the stream has it too
    asked = find_asked(request, access, body.more_indexes)
    if body.stream:
        await cancel_on_disconnect(request, _check(asked, body))
        return event_response(answer_events(asked, body))

    async def answer() -> Json:
        await _check(asked, body)
        result = await asked.questions.ask(body.question, body.method, **_options(asked, body))
        return answer_json(result, await _describe_evidence(asked, body, result.context, result.question))

    return JSONResponse(await cancel_on_disconnect(request, answer()))


async def _check(asked: AskedIndexes, body: SearchBody | AskBody) -> None:
    """Raise every error that can be known before the search."""
    asked.first.notes.question = body.question
    check_question(body.question)
    suggest_language(body.question)
    await asked.read(lambda s: check_search(s, body.method, body.filter, body.settings))


def check_search(snapshot: Snapshot, method: str, filter: str, settings: Mapping[str, object]) -> None:
    """Raise every error of a question that its options alone show.

    A name that is no setting would be an option of `ask`: nothing else may pass.
    """
    name = method or snapshot.default_method()
    known = snapshot.method(name).settings
    for setting, value in settings.items():
        if setting not in known:
            raise SettingsError(f"{name} has {describe_unknown('setting', setting, known)}")
        known[setting].parse(name, value)
    if filter.strip():
        snapshot.narrowed(filter).table(ROOT)


def _search_options(asked: AskedIndexes, body: SearchBody | AskBody) -> dict[str, Any]:
    return {**body.settings, "filter": body.filter, "rights": asked.rights}  # the rights are not theirs to set


def _options(asked: AskedIndexes, body: AskBody) -> dict[str, Any]:
    return {
        **_search_options(asked, body),
        "length": body.length,
        "history": [Answer(turn.question, "", turn.answer, (), Context(), Usage()) for turn in body.history],
        "paid_by": asked.new_budget(),
    }


async def _describe_evidence(
    asked: AskedIndexes, body: SearchBody | AskBody, context: Context, rewritten: str = ""
) -> list[Json]:
    """Return the evidence, with its reasons if they are wanted.

    rewritten: the question as it was asked in the end. If a build has just removed some of it, without reasons.
    """
    question = rewritten or body.question
    if not body.reasons:
        return bare_evidence_json(context)
    try:
        return await asked.read(lambda snapshot: evidence_json(snapshot, question, context))
    except KumiError as error:
        log.info("the evidence has changed since the search: %s", error)
        return bare_evidence_json(context)


async def answer_events(asked: AskedIndexes, body: AskBody) -> AsyncGenerator[ServerEvent, None]:
    """Yield the events of one question, up to `answer` or `error`."""
    call = asked.questions.events(body.question, body.method, **_options(asked, body))
    shown, evidence = Context(), list[Json]()
    try:
        async with aclosing(call) as events:
            async for event in events:
                if isinstance(event, Context):
                    shown, evidence = event, await _describe_evidence(asked, body, event)
                    yield ServerEvent("evidence", context_json(shown, evidence))
                elif isinstance(event, Answer):
                    if event.context != shown or event.question != body.question:
                        evidence = await _describe_evidence(asked, body, event.context, event.question)
                    yield ServerEvent("citations", {"citations": [c.to_dict() for c in event.citations]})
                    yield ServerEvent("answer", answer_json(event, evidence))
                else:
                    yield _describe(event)
    except KumiError as error:
        yield ServerEvent("error", json.loads(bytes(problem(error, language=message_language()).body)))
    except Exception:
        log.exception("a question has failed")
        yield ServerEvent("error", {"title": "InternalError", "status": 500, "detail": _INTERNAL})


def _describe(event: ProgressEvent | str) -> ServerEvent:
    if isinstance(event, str):
        return ServerEvent("token", {"text": event})
    return ServerEvent("progress", {"step": event.step, "text": describe_event(event), "model": event.model})
