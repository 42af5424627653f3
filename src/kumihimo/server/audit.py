"""each request -> the audit log and the metrics: who used which route of which index, with which result."""

import json
import logging
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.types import Scope

from kumihimo.core.errors import SettingsError
from kumihimo.server.metrics import Metrics
from kumihimo.server.settings import MEGABYTE, ServerSettings

_MAX_FILE = 20 * MEGABYTE
_MAX_FILES = 5  # older ones, beside the file itself
# What ends a line or acts on a terminal, and JSON leaves as it is: DEL, C1, separators, marks of direction.
_CONTROLS = re.compile(r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
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
        route, caller = route_of(scope), scope["state"]["caller"]
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
            line["question"] = caller.notes.question
        text = json.dumps(line, ensure_ascii=False)
        self._file.append(_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def route_of(scope: Scope) -> str:
    """Return the path of a route, with names for variable parts."""
    # a route of FastAPI has its prefix apart since 0.16x; one of Starlette is not in the scope
    route = scope.get("fastapi", {}).get("effective_route_context") or scope.get("route")
    is_fixed = "endpoint" in scope and not scope.get("path_params")
    return str(getattr(route, "path", scope["path"] if is_fixed else "none"))


class AuditFile:
    """A file of lines that only its owner may read.

    It is opened for each line, so that another program may move it away. A large one gets the ending `.1`, the one
    before it `.2`, and so on.
    """

    def __init__(self, path: Path, max_bytes: int = _MAX_FILE) -> None:
        self.path, self._max_bytes = path, max_bytes

    def create(self) -> None:
        """Create the file. Raise SettingsError if it cannot be written."""
        try:
            self._append(b"")
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise SettingsError(
                f"the audit log {self.path} cannot be written ({reason}): choose another file"
            ) from error

    def append(self, line: str) -> None:
        """Add a line; a failure goes to the log of the server."""
        try:
            self._append(f"{line}\n".encode(errors="replace"))
        except OSError as error:
            log.warning("the audit log %s cannot be written: %s", self.path, error)

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            os.write(descriptor, line)
            is_full = os.fstat(descriptor).st_size >= self._max_bytes
        finally:
            os.close(descriptor)
        if is_full:
            self._rotate()

    def _rotate(self) -> None:
        """Move the file, and those before it, one number up."""
        names = [self.path, *(self.path.with_name(f"{self.path.name}.{n}") for n in range(1, _MAX_FILES + 1))]
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)
