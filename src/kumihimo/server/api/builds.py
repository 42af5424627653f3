"""builds of an index -> HTTP: start, list, follow and cancel them, as far as the sender may see."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from kumihimo.app.browse.json_values import Json, plain
from kumihimo.llm.budget import Caps
from kumihimo.server.access import Access, Editor
from kumihimo.server.api.parameters import STRICT, Body, Name, PathText
from kumihimo.server.builds import BuildJob
from kumihimo.server.events import ServerEvent, event_response, parse_last_event_id
from kumihimo.server.uploads import allowed_path

router = APIRouter(tags=["builds"])
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
async def start_build(request: Request, access: Editor, body: Body[BuildOptions]) -> JSONResponse:
    """Queue a build.

    One runs at a time. A build with the same options that waits is returned instead.
    """
    for name in body.methods:
        access.served.kumi.catalogue.method(name)
    paths = [str(allowed_path(path, request.app.state.settings.roots)) for path in body.paths]
    caps = Caps(body.max_calls, body.max_tokens, body.max_cost)
    job = queue_index(access, paths, methods=body.methods, refresh=body.refresh, caps=caps, consent=body.consent)
    return JSONResponse(build_json(access, job), 202)


@router.get("/builds")
async def list_builds(access: Editor) -> JSONResponse:
    """List the latest builds, newest first."""
    return JSONResponse({"builds": [build_json(access, job) for job in access.served.builds.jobs]})


@router.get("/builds/{id}")
async def get_build(access: Editor, id: Name) -> JSONResponse:
    """Return a build: its state, progress, result or error."""
    return JSONResponse(build_json(access, access.served.builds.find(id)))


@router.get("/builds/{id}/events")
async def follow_build(
    access: Editor, id: Name, last_event_id: Annotated[str | None, Header()] = None
) -> StreamingResponse:
    """Follow a build as server-sent events, until it has ended.

    `state` has the build, `progress` what it does. With `Last-Event-ID`, the events after that one follow.
    """
    log = access.served.builds.events(id, parse_last_event_id(last_event_id))

    async def limited() -> AsyncGenerator[ServerEvent, None]:
        async with aclosing(log) as events:
            async for event in events:
                yield build_event(access, event)

    return event_response(limited())


@router.post("/builds/{id}/cancel")
async def cancel_build(access: Editor, id: Name) -> JSONResponse:
    """Stop a build that waits or runs.

    The index stays as it was before.
    """
    return JSONResponse(build_json(access, access.served.builds.cancel(id)))


def build_json(access: Access, job: BuildJob) -> Json:
    """Return a build as JSON.

    For one who sees only some documents: without names and numbers of files and rows.
    """
    return _limit_state(plain(job)) if access.rights else plain(job)


def build_event(access: Access, event: ServerEvent) -> ServerEvent:
    """Return an event of a build, limited in the same way."""
    if not access.rights:
        return event
    data = _limit_progress(event.data) if event.name == "progress" else _limit_state(event.data)
    return ServerEvent(event.name, data, event.id)


def _limit_state(state: Mapping[str, Any]) -> Json:
    error = state["error"]
    return {
        **{name: state[name] for name in _OPEN_FIELDS},
        "progress": _limit_progress(state["progress"]) if state["progress"] else None,
        "error": {"name": error["name"], "message": "the build has failed"} if error else None,
    }


def _limit_progress(progress: Mapping[str, Any]) -> Json:
    return {"step": progress["step"], "share": progress["share"]}


def queue_index(
    access: Access,
    paths: Sequence[str] = (),
    *,
    methods: Sequence[str] = (),
    refresh: bool = False,
    caps: Caps | None = None,
    consent: bool = False,
) -> BuildJob:
    """Queue a build, or return one with the same options that waits.

    The key of the sender pays.
    """
    return access.served.builds.index(
        paths, methods=methods, refresh=refresh, caps=caps, consent=consent, key=access.grant.key
    )
