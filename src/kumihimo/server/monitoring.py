"""requests and indexes -> the audit log, /metrics, /health and /ready, for those who run the server."""

import asyncio
import json
import logging
import os
import re
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from kumihimo.app.facade import Kumihimo
from kumihimo.core.errors import KumiError, SettingsError
from kumihimo.core.redaction import redact
from kumihimo.server import access, problems
from kumihimo.server.settings import MEGABYTE, ServerSettings
from kumihimo.server.workspace import ServedIndex, Workspace

_MAX_FILE = 20 * MEGABYTE
_MAX_FILES = 5  # older ones, beside the file itself
_LINE_BEGIN = b'{"time": "", "key": "'  # of each line, without its time
# What ends a line or acts on a terminal, and JSON leaves as it is: DEL, C1, separators, marks of direction.
_CONTROLS = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
_METHODS = ("GET", "POST", "DELETE", "HEAD", "OPTIONS")  # a sender may invent others: each would stay in memory
_GAUGES = {
    "bytes": ("kumihimo_index_bytes", "Bytes of each file of the index.", ("index", "file")),
    "builds": ("kumihimo_builds", "Builds by state.", ("index", "state")),
    "running": ("kumihimo_questions_running", "Questions that run.", ("index",)),
    "waiting": ("kumihimo_questions_waiting", "Questions that wait for a place.", ("index",)),
    "calls": ("kumihimo_model_calls", "Calls by step and method.", ("index", "scope")),
    "tokens": ("kumihimo_model_tokens", "Tokens by step and method.", ("index", "scope")),
}
router = APIRouter(tags=["server"])
log = logging.getLogger("kumihimo")


class RequestLog:
    """The audit log: one JSON object a line; nothing without a file."""

    def __init__(self, settings: ServerSettings) -> None:
        self._with_questions = settings.audit_questions
        self._file = AuditFile(settings.audit) if settings.audit else None
        if self._file:
            self._file.create()

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        """Record a request that has ended."""
        route, caller = access.route_of(scope), scope["state"]["caller"]
        metrics: Metrics | None = getattr(scope["app"].state, "metrics", None) if "app" in scope else None
        if metrics:
            metrics.record_request(scope["method"], route, status, seconds)
        if self._file is None:
            return
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "key": caller.key,
            "address": scope["client"][0] if scope.get("client") else "",
            "method": scope["method"],
            "route": route,
            "index": ",".join(caller.notes.indexes),
            "status": status,
            "milliseconds": round(seconds * 1000),
        }
        if self._with_questions and caller.notes.question:
            line["question"] = redact(caller.notes.question)
        text = json.dumps(line, ensure_ascii=False)
        self._file.append(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


class AuditFile:
    """A file of lines that only its owner may read.

    It is opened for each line, so that another program may move it away. A large one gets the ending `.1`, the one
    before it `.2`, and so on.
    """

    def __init__(self, path: Path, max_bytes: int = _MAX_FILE) -> None:
        self.path, self._max_bytes = path, max_bytes
        self._paths = [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, _MAX_FILES + 1))]

    def create(self) -> None:
        """Create the file.

        Raise SettingsError if it cannot be written, or if it, or one that it would be moved to, is no audit log.
        """
        try:
            for path in filter(Path.is_file, self._paths):
                with path.open("rb") as file:
                    begin = re.sub(rb'^(\{"time": ")[\w:.+-]*', rb"\1", file.readline(200).rstrip(b"\n"))
                if not _LINE_BEGIN.startswith(begin[: len(_LINE_BEGIN)]):  # a torn line may be shorter
                    raise SettingsError(f"{path} is there, and is no audit log: choose another file")
            self._append(b"")
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise SettingsError(f"the audit log {self.path} cannot be written ({why}): choose another file") from error

    def append(self, line: str) -> None:
        """Add a line; a failure goes to the log of the server."""
        try:
            self._append(f"{line}\n".encode(errors="replace"))
        except OSError as error:
            log.warning("the audit log %s cannot be written: %s", self.path, error)

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if os.fstat(descriptor).st_size and line:
                os.lseek(descriptor, -1, os.SEEK_END)
                line = line if os.read(descriptor, 1) == b"\n" else b"\n" + line  # a crash has left half a line
            os.write(descriptor, line)
            is_full = os.fstat(descriptor).st_size >= self._max_bytes
        finally:
            os.close(descriptor)
        older_and_newer = zip(self._paths[:0:-1], self._paths[-2::-1], strict=True) if is_full else ()
        for older, newer in older_and_newer:  # the file, and those before it, move one number up
            if newer.exists():
                newer.replace(older)


class Metrics:
    """The metrics of one server."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._registry = workspace, CollectorRegistry()
        self._requests = Counter(
            "kumihimo_requests", "Requests by route and status.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "kumihimo_request_seconds",
            "Seconds until the end of the response.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._questions = Histogram(
            "kumihimo_question_seconds",
            "Seconds of answered questions by method, without those of waiting for a place.",
            ("index", "method"),
            buckets=_SECONDS,
            registry=None,
        )
        for name, served in workspace.indexes.items():
            served.questions.on_answered = partial(self._record_question, name)

    def _record_question(self, index: str, method: str, seconds: float) -> None:
        self._questions.labels(index, method).observe(seconds)

    def record_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that has ended."""
        self._requests.labels(method if method in _METHODS else "other", route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def render(self, names: Collection[str]) -> bytes:
        """Return the metrics of these indexes in the text format of Prometheus.

        Those of the whole server are there only if these are all indexes.
        """
        registry = CollectorRegistry()
        registry.register(_IndexCollector(self._workspace, names, self._questions))
        is_all = all(name in names for name in self._workspace.indexes)
        return (generate_latest(self._registry) if is_all else b"") + generate_latest(registry)


class _IndexCollector:
    """The state of some indexes, read when Prometheus asks."""

    def __init__(self, workspace: Workspace, names: Collection[str], questions: Histogram) -> None:
        self._indexes = {name: served for name, served in workspace.indexes.items() if name in names}
        self._questions = questions

    def collect(self) -> Iterator[Metric]:
        gauges = {key: GaugeMetricFamily(name, text, labels=labels) for key, (name, text, labels) in _GAUGES.items()}
        for name, served in self._indexes.items():
            for key, *labels, value in _read_values(served):
                gauges[str(key)].add_metric((name, *map(str, labels)), float(value))
        yield from gauges.values()
        for metric in self._questions.collect():
            metric.samples = [sample for sample in metric.samples if sample.labels["index"] in self._indexes]
            yield metric


def _read_values(served: ServedIndex) -> Iterator[tuple[str | float, ...]]:
    """Yield the gauges of an index: key, further labels, value."""
    if served.kumi.place.database:
        yield "bytes", "database", served.kumi.store.size()
    for file in () if served.kumi.place.database else ("index.db", "index.db-wal", "cache.db"):
        path = served.kumi.folder / file
        yield "bytes", file, path.stat().st_size if path.exists() else 0
    for state in ("queued", "running", "done", "failed", "cancelled"):
        yield "builds", state, sum(job.state == state for job in served.builds.jobs)
    yield "running", served.questions.running
    yield "waiting", served.questions.waiting
    for entry in served.kumi.spent():
        if entry.kind == "spent":
            yield "calls", entry.scope, entry.usage.calls
            yield "tokens", entry.scope, entry.usage.tokens


@router.get("/health")
async def health() -> dict[str, str]:
    """Return at once: the process is alive."""
    return {"status": "ok", "version": version("kumihimo")}


@router.get("/ready")
async def ready(request: Request) -> Response:
    """Return 200 if each index can be read, else 503.

    It needs no key, and names no index: the log does. However many ask, the indexes are read once at a time.
    """
    state, workspace = request.app.state, request.app.state.workspace
    if state.reading is None or state.reading.done():
        state.reading = asyncio.create_task(_read_all(workspace, state.unreadable))
    failures, count = await asyncio.shield(state.reading), len(workspace.indexes)
    if failures:
        return problems.problem_response(
            503, "Not ready", f"{failures} of {count} indexes cannot be read", "Look at the log of the server."
        )
    return JSONResponse({"status": "ready", "indexes": count})


async def _read_all(workspace: Workspace, unreadable: dict[str, str]) -> int:
    """Return how many indexes cannot be read.

    unreadable: name -> reason, as it was before; what is new goes to the log.
    """
    before = dict(unreadable)
    unreadable.clear()
    for served in workspace.indexes.values():
        if reason := await _read_state(served):
            unreadable[served.name] = reason
            if before.get(served.name) != reason:
                log.warning("the index %s cannot be read: %s", served.name, reason)
    return len(unreadable)


async def _read_state(served: ServedIndex) -> str:
    """Return why an index cannot be read; empty if it can."""
    if not served.kumi.store.exists():
        return ""
    try:
        await served.questions.run(_read_anything)
    except KumiError as error:
        return str(error)
    return ""


def _read_anything(kumi: Kumihimo) -> bool:
    """Open a snapshot. Raise IndexUnavailable if there is none."""
    with kumi.snapshot() as snapshot:
        return bool(snapshot.table("documents"))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the metrics in the text format of Prometheus.

    They are of the indexes that the key may administer without a filter; of the whole server, if these are all.
    """
    grants, route = request.state.caller.grants, access.name_of(request.scope)
    names = [name for name, grant in grants.items() if grant.allows(route)]
    if not names:
        raise access.RIGHTS[route].error()
    text = await run_in_threadpool(request.app.state.metrics.render, names)
    return Response(text, media_type="text/plain; version=0.0.4")
