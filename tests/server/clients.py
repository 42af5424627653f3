"""settings -> clients of an application, without a server; keys as headers."""

from __future__ import annotations

from collections.abc import Callable

from starlette.testclient import TestClient

from kumihimo.server.settings import ServerSettings

LOCAL = ServerSettings()
GUARDED = ServerSettings(require_keys=True)
ADDRESS = "http://127.0.0.1:8460"
Open = Callable[[ServerSettings], TestClient]


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
