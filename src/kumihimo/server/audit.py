"""each request -> the audit log and the metrics: who used which route of which index, with which result."""

import json
import logging
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from typing import Any

from starlette.types import Scope

from kumihimo.server.metrics import Metrics
from kumihimo.server.settings import MEGABYTE, ServerSettings

_MAX_FILE = 20 * MEGABYTE
_MAX_FILES = 5


class RequestLog:
    """The audit log: one JSON object a line; nothing without a file."""

    def __init__(self, settings: ServerSettings) -> None:
        self._with_questions = settings.audit_questions
        self._handler: RotatingFileHandler | None = None
        if settings.audit:
            self._handler = RotatingFileHandler(
                settings.audit, maxBytes=_MAX_FILE, backupCount=_MAX_FILES, encoding="utf-8", delay=True
            )

    def write(self, scope: Scope, status: int, seconds: float) -> None:
        """Record a request that has ended."""
        route, state = getattr(scope.get("route"), "path", ""), scope["state"]
        metrics: Metrics | None = getattr(scope["app"].state, "metrics", None) if "app" in scope else None
        if metrics:
            metrics.record_request(scope["method"], route or "none", status, seconds)
        if self._handler is None:
            return
        line: dict[str, Any] = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "key": state["caller"].key,
            "address": scope["client"][0] if scope.get("client") else "",
            "method": scope["method"],
            "route": route or "none",
            "index": scope.get("path_params", {}).get("index_name", ""),
            "status": status,
            "milliseconds": round(seconds * 1000),
        }
        if self._with_questions and "question" in state:
            line["question"] = state["question"]
        text = json.dumps(line, ensure_ascii=False)
        self._handler.emit(logging.LogRecord("kumihimo.audit", logging.INFO, "", 0, text, None, None))

    def close(self) -> None:
        if self._handler:
            self._handler.close()
