"""A town of open and secret documents, its index, and the HTTP API over it with a caller of any role and rights."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.types import ASGIApp, Receive, Scope, Send

from kumihimo import Kumihimo
from kumihimo.app.processes.build_process import answer_build
from kumihimo.app.upkeep.keys import Role
from kumihimo.core.errors import KumiError
from kumihimo.server.access import Caller, IndexGrant
from kumihimo.server.api import include_api
from kumihimo.server.limits import Visit
from kumihimo.server.pages.errors import add_error_handlers
from kumihimo.server.problems import error_response
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import ServedIndex, Workspace, serve_index
from tests.fixtures_index import write_reports

OPEN, SECRET = 'access = "open"', 'access = "secret"'
FILES = {
    "harbour.md": """---
title: The harbour
access: open
---
# The harbour

Ada Holm mended the breakwater at Port Sorrel. The ferry Kestrel leaves Port Sorrel at nine in winter. Joss Kerrow
steers the ferry Kestrel for Ada Holm.
""",
    "tides.md": """---
title: Tides
access: open
---
Joss Kerrow keeps the tide tables of Port Sorrel. Ada Holm trusts Joss Kerrow and his tide tables.
""",
    "vault.md": """---
title: The vault
access: secret
---
Zebulon Quarry keeps the ferry Kestrel's gold in the vault of Ada Holm. Zebulon Quarry met Joss Kerrow at the vault.
""",
    "deep/plan.md": """---
title: The plan
access: secret
---
Zebulon Quarry and Ysolde Marchbank plan to rob Port Sorrel. Ysolde Marchbank calls Ada Holm the Heron.
""",
}
SECRET_WORDS = ("zebulon", "quarry", "ysolde", "marchbank", "heron", "vault", "plan.md", "gold", "rob port")


def build_town(folder: Path) -> Path:
    """The folder, with its documents in `town` and its index in `.kumi`."""
    for name, text in FILES.items():
        path = folder / "town" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "town", methods=["braid", "bm25", "naive", "global", "local"])
        write_reports(kumi)
    return folder


@dataclass
class Api:
    """The API over an index; `grant` is that of the caller."""

    client: TestClient
    served: ServedIndex
    app: FastAPI
    grant: IndexGrant

    @contextmanager
    def acting(self, role: Role = "admin", rights: str = "", **more: Any) -> Iterator[None]:
        """Send the requests inside as a caller of this role and these rights."""
        before, self.grant = self.grant, replace(self.grant, role=role, rights=rights, **more)
        try:
            yield
        finally:
            self.grant = before

    def get(self, path: str, **parameters: Any) -> Any:
        return self._json(self.client.get(f"/api/v1{path}", params=parameters), 200)

    def post(self, path: str, body: Mapping[str, Any], status: int = 200) -> Any:
        return self._json(self.client.post(f"/api/v1{path}", json=body), status)

    def delete(self, path: str, **parameters: Any) -> Any:
        return self._json(self.client.delete(f"/api/v1{path}", params=parameters), 202)

    def upload(self, name: str, text: str | bytes) -> Any:
        return self._json(self.client.post("/api/v1/documents", files={"file": (name, text)}), 202)

    def problem(self, path: str, status: int, body: Mapping[str, Any] | None = None, **parameters: Any) -> str:
        """What an address says instead of an answer; with a body, to a POST."""
        address = f"/api/v1{path}"
        response = (
            self.client.get(address, params=parameters or None)
            if body is None
            else self.client.post(address, json=body)
        )
        assert response.headers["content-type"] == "application/problem+json", response.text
        detail: str = self._json(response, status)["detail"]
        return detail

    def built(self, reply: Any) -> Any:
        """The build of a reply, when it has ended."""
        response = self.client.get(f"/api/v1/builds/{reply['build']['id']}/events")
        return parse_events(response.text)[-1]["data"]

    @staticmethod
    def _json(response: Any, status: int) -> Any:
        assert response.status_code == status, response.text
        return response.json()


def parse_events(text: str) -> list[dict[str, Any]]:
    """The events of a stream, as a browser reads them."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":") and line)
        if fields:
            events.append({**fields, "data": json.loads(fields["data"])})
    return events


@contextmanager
def serve(folder: Path, **settings: Any) -> Iterator[Api]:
    """Run the API over the index of a folder, with builds in this process."""
    limits = ServerSettings(**settings)
    served = serve_index("town", Kumihimo.open(folder / ".kumi"), limits)
    served = replace(served, uploads=folder / "uploads")
    api: Api

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await served.aclose()

    app = FastAPI(lifespan=lifespan)
    app.state.workspace, app.state.settings = Workspace({"town": served}), limits
    add_error_handlers(app)
    include_api(app)
    app.add_middleware(_WithCaller, grant=lambda: api.grant, settings=limits)
    with pytest.MonkeyPatch.context() as patch, TestClient(app) as client:
        patch.setattr("kumihimo.server.builds.Worker", BuildHere)
        api = Api(client, served, app, IndexGrant("admin"))
        yield api


class BuildHere:
    """A worker whose builds run in a thread of this process, which takes a tenth of the time."""

    def __init__(self, *_: object, **__: object) -> None: ...
    def __enter__(self) -> BuildHere:
        return self

    def __exit__(self, *_: object) -> None: ...
    def stop(self) -> None: ...
    def ask(self, request: Any) -> Iterator[dict[str, Any]]:
        yield from json.loads(json.dumps([*answer_build(request)]))


@dataclass
class _WithCaller:
    """A middleware that stands for the authentication."""

    app: ASGIApp
    grant: Any
    settings: ServerSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["caller"] = Caller({"town": self.grant()})
        try:
            await Visit(scope, receive, send, self.settings).serve(self.app)
        except KumiError as error:
            await error_response(error, scope["path"])(scope, receive, send)


@dataclass
class Visitor:
    """One request at the level of ASGI, whose client can leave at any moment."""

    app: FastAPI
    method: str
    path: str
    body: bytes = b""

    def __post_init__(self) -> None:
        self.left, self.status, self.received = asyncio.Event(), 0, b""
        self.news = asyncio.Event()
        self._is_sent = False

    async def run(self) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8460),
            "state": {},
        }
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if not self._is_sent:
            self._is_sent = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
        self.received += message.get("body", b"")
        self.news.set()
