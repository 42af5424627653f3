"""builds of an index -> HTTP: start, list, follow and cancel them, as far as the sender may see."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from kumihimo.app.browse.json_values import Json, plain
from kumihimo.app.facade import Kumihimo
from kumihimo.llm.budget import Caps
from kumihimo.server import builds, problems, uploads
from kumihimo.server.access import BUILD_DETAILS, Access, Allowed
from kumihimo.server.api.parameters import STRICT, Body, Mended, Name, PathText
from kumihimo.server.responses import ServerEvent, event_response, json_response, parse_last_event_id

router = APIRouter(tags=["builds"])
_MAX_LINE = 4000  # characters of an edit
_OPEN_FIELDS = ("id", "kind", "state", "created", "started", "ended")


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options of a build.

    paths: none for all files that are indexed already. consent: pay again after a change of model, prompt or setting.
    """

    __pydantic_config__: ClassVar[Any] = STRICT
    paths: Annotated[list[PathText], Field(max_length=20)] = field(default_factory=list)
    methods: Annotated[list[Name], Field(max_length=50)] = field(default_factory=list)
    refresh: bool = False
    max_calls: Annotated[int | None, Field(ge=0)] = None
    max_tokens: Annotated[int | None, Field(ge=0)] = None
    max_cost: Annotated[float | None, Field(ge=0)] = None
    consent: bool = False


@router.post("/builds", status_code=202)
async def start_build(request: Request, access: Allowed, body: Body[BuildOptions]) -> Response:
    """Queue a build.

    One runs at a time. A build with the same options that waits is returned instead.
    """
    for name in body.methods:
        access.served.kumi.catalogue.method(name)
    paths = [str(uploads.allowed_path(path, request.app.state.settings.roots)) for path in body.paths]
    caps = Caps(body.max_calls, body.max_tokens, body.max_cost)
    job = access.served.builds.index(
        paths, methods=body.methods, refresh=body.refresh, caps=caps, consent=body.consent, key=access.grant.key
    )
    return await json_response(lambda: build_json(access, job), 202)


@router.get("/builds")
def list_builds(access: Allowed) -> Response:
    """List the latest builds, newest first."""
    return JSONResponse({"builds": [build_json(access, job) for job in visible_jobs(access)]})


@router.get("/builds/{id}")
def get_build(access: Allowed, id: Name) -> Response:
    """Return a build: its state, progress, result or error."""
    return JSONResponse(build_json(access, find_job(access, id)))


@router.get("/builds/{id}/events")
async def follow_build(
    access: Allowed, id: Name, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Follow a build as server-sent events, until it has ended.

    `state` has the build, `progress` what it does. With `Last-Event-ID`, the events after that one follow.
    """
    log = access.served.builds.events(find_job(access, id).id, parse_last_event_id(last_event_id))
    return event_response(_encode_events(log, limited=not access.grant.allows(BUILD_DETAILS)))


async def _encode_events(log: AsyncGenerator[ServerEvent, None], *, limited: bool) -> AsyncGenerator[bytes, None]:
    """Yield the events of a build.

    limited: only its states, without names and numbers, and without ids, which would count the events between them.
    """
    async with aclosing(log) as events:
        async for event in events:
            if not limited:
                yield await run_in_threadpool(event.encode)
            elif event.name == "state":
                yield ServerEvent(event.name, _limit_state(event.data)).encode()


@router.post("/builds/{id}/cancel")
async def cancel_build(access: Allowed, id: Name) -> Response:
    """Stop a build that waits or runs.

    The index stays as it was before.
    """
    job = access.served.builds.cancel(find_job(access, id).id)
    return await json_response(lambda: build_json(access, job))


@dataclass(frozen=True, kw_only=True)
class EditBody:
    """A line of aliases.txt. undo: to be removed."""

    __pydantic_config__: ClassVar[Any] = STRICT
    line: Annotated[str, Field(min_length=1, max_length=_MAX_LINE), Mended]
    undo: bool = False


@router.get("/edits")
async def list_edits(access: Allowed) -> Response:
    """List the edits of the graph.

    Each line comes with whether it is about something in the index.
    """
    return JSONResponse({"edits": await access.questions.run(Kumihimo.edit)})


@router.post("/edits", status_code=202)
async def edit_graph(access: Allowed, body: Body[EditBody]) -> Response:
    """Add a line to aliases.txt, or remove one; queue a build."""
    job = await apply_edit(access, body.line, undo=body.undo)
    return await json_response(lambda: build_json(access, job), 202)


async def apply_edit(access: Access, line: str, *, undo: bool = False) -> builds.BuildJob:
    """Add or remove a line of aliases.txt, and return the build."""
    await access.questions.run(lambda kumi: kumi.edit(line, undo=undo))
    return access.served.builds.index(key=access.grant.key)


def visible_jobs(access: Access) -> list[builds.BuildJob]:
    """Return the builds that the sender may see, newest first.

    With a filter, these are its own: others tell of hidden documents.
    """
    return access.served.builds.jobs_of(access.grant.key) if access.rights else access.served.builds.jobs


def find_job(access: Access, id: str) -> builds.BuildJob:
    """Return a build that the sender may see, or raise NotFound."""
    return problems.require_row(next((job for job in visible_jobs(access) if job.id == id), None), "build", id)


def build_json(access: Access, job: builds.BuildJob) -> Json:
    """Return a build as JSON.

    For one who sees only some documents: without names and numbers, and without what it does.
    """
    return plain(job) if access.grant.allows(BUILD_DETAILS) else _limit_state(plain(job))


def _limit_state(state: Mapping[str, Any]) -> Json:
    error = state["error"]
    return {
        **{name: state[name] for name in _OPEN_FIELDS},
        "progress": None,
        "error": {"name": error["name"], "message": "the build has failed"} if error else None,
    }
