"""the state of an index -> a page: contents, models, methods with settings, usage, builds, and own settings."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.json_values import Json
from kumihimo.app.build.progress import describe_event
from kumihimo.app.facade import Kumihimo
from kumihimo.core.task import ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.server.access import FACTS, SPENT
from kumihimo.server.api import builds, state
from kumihimo.server.pages import context, errors, rendering

router = APIRouter(route_class=errors.PageRoute, include_in_schema=False)
_MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class ScopeUsage:
    """What a step, a method or a role has asked of a model."""

    scope: str
    model: str
    usage: Usage
    saved: Usage


@router.get("/status")
async def show_state(page: context.AllowedPage) -> HTMLResponse:
    """Send the page about the index."""
    access = page.access
    kumi, sees_all = access.served.kumi, access.grant.allows(FACTS)
    facts = await context.read_or(page, {"rows": dict[str, int](), "methods": list[Json](), "failures": 0}, _read_facts)
    spent = await access.questions.run(_group_usage) if access.grant.allows(SPENT) else []
    budget = access.grant.new_budget()
    return await rendering.render(
        page,
        "status.html",
        **facts,
        bytes=kumi.store.size() if sees_all else 0,
        chat=_model_name(kumi.models.chat("answer")),
        embedder=_model_name(kumi.models.paid_embedder),
        sees_all=sees_all,
        spent=spent,
        budget=budget,
        total=sum((row.usage for row in spent), Usage()),
        saved=sum((row.saved for row in spent), Usage()),
        jobs=await run_in_threadpool(list_jobs, page),
        folder=kumi.folder.resolve().parent,
    )


def _read_facts(snapshot: Snapshot) -> dict[str, Any]:
    failures = 0 if snapshot.rights else len(snapshot.db.failures())
    return {"rows": snapshot.row_counts(), "methods": state.describe_methods(snapshot), "failures": failures}


def _model_name(model: Any) -> str:
    """Return the name of a model, without its server; empty: none."""
    return str(model.fingerprint).partition(" ")[0] if model else ""


def _group_usage(kumi: Kumihimo) -> list[ScopeUsage]:
    """Return the usage by scope and model, most tokens first."""
    rows: dict[tuple[str, str], dict[str, Usage]] = {}
    for entry in kumi.spent():
        row = rows.setdefault((entry.scope, entry.model), {"spent": Usage(), "saved": Usage()})
        row[entry.kind] += entry.usage
    spent = [ScopeUsage(scope, model, row["spent"], row["saved"]) for (scope, model), row in rows.items()]
    return sorted(spent, key=lambda row: (-row.usage.tokens, -row.saved.tokens, row.scope, row.model))


def list_jobs(page: context.IndexPage, *, running: bool = False) -> list[Json]:
    """Return the latest builds, newest first; for readers none.

    running: only those that wait or run, and the last one that has ended.
    """
    if not page.access.grant.allows("GET /api/v1/builds"):
        return []
    jobs = builds.visible_jobs(page.access)
    ended = [job for job in jobs if job.has_ended]
    shown = [job for job in jobs if not job.has_ended or job in ended[:1]] if running else jobs[:_MAX_SHOWN]
    return [
        {**(body := builds.build_json(page.access, job)), "doing": _describe(page, body["progress"])} for job in shown
    ]


def _describe(page: context.IndexPage, progress: Any) -> str:
    """Return what a build does, in words; empty: nothing yet."""
    return describe_event(ProgressEvent(progress["step"]), page.language) if progress else ""
