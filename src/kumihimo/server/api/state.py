"""the served indexes -> HTTP: names, methods, estimated and spent cost, and the state of each."""

from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.browse import browse_overview
from kumihimo.app.browse.json_values import Json, method_json, overview_json, plain
from kumihimo.app.build.estimate_query_cost import estimate_query_cost
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import WIDE_QUESTION, missing_tables
from kumihimo.app.upkeep.status import read_status
from kumihimo.server import responses, uploads
from kumihimo.server.access import BUILD_PLAN, FACTS, SPENT, Access, Allowed, read_route
from kumihimo.server.api.parameters import Body, Name, PathText, Question, QuestionBody
from kumihimo.server.problems import require_row

router = APIRouter(tags=["state"])
indexes_router = APIRouter(tags=["indexes"])
Part = Annotated[str, Query(max_length=200, description="Only this folder or time: `minutes`, `2024`.")]
_FOR_EDITORS = ("folder", "sources", "removed", "spent", "cache", "bytes", "waiting")
_LEFT_OUT = ("levels", "modularity")  # they take long to compute
_MAX_LISTED = 1000  # failures, documents read in part, and fields


@dataclass(frozen=True, kw_only=True)
class PlanBody(QuestionBody):
    """A question to estimate, or without one a build."""

    question: Question = ""
    paths: Annotated[list[PathText], Field(max_length=20)] = field(default_factory=list)
    methods: Annotated[list[Name], Field(max_length=50)] = field(default_factory=list)


@read_route(router, "/methods")
def list_methods(snapshot: Snapshot) -> Json:
    """List the methods with their settings.

    `needs_model`: it asks a chat model. `built`: its tables are there; others are built by the first question, if that
    costs nothing.
    """
    return {"methods": describe_methods(snapshot)}


def describe_methods(snapshot: Snapshot) -> list[Json]:
    """Return the methods with their settings and their state."""
    defaults = (snapshot.default_method(), snapshot.answering_method(WIDE_QUESTION))
    methods = []
    for name, method in snapshot.catalogue.methods.items():
        needs_model = "llm" in method.ports and "llm" not in method.optional_ports
        state = {
            "default": name in defaults,
            "needs_model": needs_model,
            "has_model": snapshot.models.chat(name) is not None,
            "built": not missing_tables(snapshot.db, snapshot.catalogue, name),
        }
        methods.append({"name": name, **method_json(name, method), **state})
    return methods


@read_route(router, "/overview")
def get_overview(snapshot: Snapshot, part: Part = "") -> Json:
    """Return what the documents are: kinds, languages, dates, sizes, and their topics."""
    return overview_json(snapshot, require_row(browse_overview(snapshot, part.strip()), "folder or year", part))


@router.post("/plan")
async def plan(request: Request, access: Allowed, body: Body[PlanBody]) -> Response:
    """Estimate the model calls and cost of a question or build."""
    if body.question:
        search = body.question, body.method, body.filter, body.settings
        return await access.respond(lambda snapshot: plain(estimate_query_cost(snapshot, *search, is_remote=True)))
    access.grant.require(BUILD_PLAN)
    paths = [uploads.allowed_path(path, request.app.state.settings.roots) for path in body.paths]
    found = await access.questions.run(lambda kumi: kumi.plan(*paths, methods=body.methods))
    return await responses.json_response(lambda: plain(found))


@router.get("/usage")
async def get_usage(access: Allowed) -> Response:
    """Return what was spent on models.

    `key` has what the key of this request has spent today. Editors without a filter also see `entries`: what was
    spent, and saved by the cache, by step, method and role.
    """
    body: Json = {"key": _key_usage(access)}
    if access.grant.allows(SPENT):
        body["entries"] = await access.questions.run(lambda kumi: plain(kumi.spent()))
    return await responses.json_response(lambda: body)


def _key_usage(access: Access) -> Json | None:
    """Return the usage and limit of the key for today, if any."""
    budget = access.grant.new_budget()
    if budget is None:
        return None
    return {"id": access.grant.key, "spent": plain(budget.total), "tokens": budget.caps.tokens}


@router.get("/status")
async def get_status(access: Allowed) -> Response:
    """Return the contents of the index that the sender sees."""

    def read(kumi: Kumihimo) -> Json:
        status = plain(read_status(kumi.opened, levels=False, rights=access.rights, modularity=False))
        for name in ("failed", "partial"):
            status[name] = status[name][:_MAX_LISTED]
        status["fields"] = dict(islice(status["fields"].items(), _MAX_LISTED))
        left_out = _LEFT_OUT if access.grant.allows(FACTS) else (*_LEFT_OUT, *_FOR_EDITORS)
        return {name: value for name, value in status.items() if name not in left_out}

    return responses.JsonResponse(await access.questions.run(lambda kumi: responses.write_json(read(kumi))))


@indexes_router.get("/indexes")
async def list_indexes(request: Request) -> Response:
    """List the indexes that the sender may use.

    The first one has the short addresses.
    """
    grants = request.state.caller.grants.items()
    indexes = [{"name": name, "role": grant.role, "address": f"/api/v1/indexes/{name}"} for name, grant in grants]
    return JSONResponse({"indexes": indexes})
