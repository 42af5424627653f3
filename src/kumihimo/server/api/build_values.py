"""a build -> what its sender may see of it; options -> a queued build."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget, Caps
from kumihimo.server.access import Access
from kumihimo.server.builds import BuildJob
from kumihimo.server.events import ServerEvent
from kumihimo.server.json_values import Json, plain

_OPEN_FIELDS = ("id", "kind", "state", "created", "started", "ended")


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
    request: Request,
    access: Access,
    paths: Sequence[str] = (),
    *,
    methods: Sequence[str] = (),
    refresh: bool = False,
    caps: Caps | None = None,
    consent: bool = False,
) -> BuildJob:
    """Queue a build, or return one with the same options that waits.

    The budget of the key limits what it spends, and is charged at its end.
    """
    builds = access.served.builds
    caps = _cap(caps or Caps(), access.grant.new_budget())
    wanted = {"methods": [*methods], "refresh": refresh, "caps": plain(caps), "consent": consent}
    for job in builds.jobs:
        if job.state == "queued" and job.kind == "index" and _includes(job.options, wanted, paths):
            return job
    queued = builds.index(paths, methods=methods, refresh=refresh, caps=caps, consent=consent)
    charges: set[asyncio.Task[None]] = request.app.state.charges
    charge = asyncio.create_task(_charge(access, queued.id))
    charges.add(charge)  # the loop alone would forget it
    charge.add_done_callback(charges.discard)
    return queued


def _includes(options: Mapping[str, Any], wanted: Mapping[str, object], paths: Sequence[str]) -> bool:
    """Return whether a build does what is wanted, for these paths too."""
    has_paths = {*paths} <= {*options["paths"]} and bool(paths) == bool(options["paths"])
    return has_paths and all(options[name] == value for name, value in wanted.items())


def queue_remove(access: Access, target: str) -> BuildJob:
    """Queue the removal of a document or a file."""
    return access.served.builds.remove(target)


def _cap(caps: Caps, budget: Budget | None) -> Caps:
    """Return the caps, with what is left of a budget."""
    if budget is None or budget.caps.tokens is None:
        return caps
    left = max(0, budget.caps.tokens - budget.total.tokens)
    return Caps(caps.calls, left if caps.tokens is None else min(caps.tokens, left), caps.cost)


async def _charge(access: Access, id: str) -> None:
    """Charge the key of the sender once a build has ended."""
    budget = access.grant.new_budget()
    if budget is None:
        return
    job = await access.served.builds.wait(id)
    for scope, usage in ((job.result or {}).get("spent") or {}).items():
        budget.record_spent(scope, "", Usage(**usage))
