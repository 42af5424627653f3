"""builds of an index -> HTTP: start, list, follow and cancel them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import Field

from kumihimo.llm.budget import Caps
from kumihimo.server.access import Editor
from kumihimo.server.api.build_values import build_event, build_json, queue_index
from kumihimo.server.api.parameters import STRICT, Body, Name, PathText
from kumihimo.server.events import ServerEvent, encode_events, parse_last_event_id
from kumihimo.server.upload_names import allowed_path

router = APIRouter(tags=["builds"])
STREAM_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the second one is for nginx


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
    job = queue_index(
        request, access, paths, methods=body.methods, refresh=body.refresh, caps=caps, consent=body.consent
    )
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

    return StreamingResponse(encode_events(limited()), media_type="text/event-stream", headers=STREAM_HEADERS)


@router.post("/builds/{id}/cancel")
async def cancel_build(access: Editor, id: Name) -> JSONResponse:
    """Stop a build that waits or runs.

    The index stays as it was before.
    """
    return JSONResponse(build_json(access, access.served.builds.cancel(id)))
