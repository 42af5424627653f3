"""the builds of an index -> what a page shows of them."""

from typing import Any

from kumihimo.app.browse.json_values import Json
from kumihimo.app.build.progress import describe_event
from kumihimo.core.task import ProgressEvent
from kumihimo.server.api.build_values import build_json
from kumihimo.server.pages.rendering import Visit

_MAX_SHOWN = 10


def list_jobs(visit: Visit, *, running: bool = False) -> list[Json]:
    """Return the latest builds, newest first; for readers none.

    running: only those that wait or run, and the last one that has ended.
    """
    if not visit.access.may("editor"):
        return []
    jobs = visit.access.served.builds.jobs
    ended = [job for job in jobs if job.has_ended]
    shown = [job for job in jobs if not job.has_ended or job in ended[:1]] if running else jobs[:_MAX_SHOWN]
    return [{**build_json(visit.access, job), "doing": describe_progress(visit, job.progress)} for job in shown]


def describe_progress(visit: Visit, progress: Any) -> str:
    """Return what a build does, in words; empty: nothing yet."""
    return describe_event(ProgressEvent(progress["step"]), visit.language) if progress else ""
