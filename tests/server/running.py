"""an application -> the same on a port of its own, in a thread; a caller -> requests that are his."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import uvicorn
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Receive, Scope, Send

from kumihimo import Kumihimo
from kumihimo.app.async_facade import AsyncKumihimo
from kumihimo.llm.protocols import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.server.access import Caller
from kumihimo.server.workspace import Workspace
from kumihimo.testing.fake_models import FakeChat


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(uvicorn.Config(app, port=0, log_level="warning", lifespan="on", timeout_graceful_shutdown=1))
        self.listens = Event()

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        self.listens.set()

    @property
    def port(self) -> int:
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


@contextmanager
def running(app: ASGIApp) -> Iterator[str]:
    """The address of an application that runs meanwhile."""
    server = _Server(app)
    thread = Thread(target=asyncio.run, args=[server.serve()])
    thread.start()
    try:
        assert server.listens.wait(30)
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.should_exit = True
        thread.join()


def with_caller(app: FastAPI, caller: Caller) -> ASGIApp:
    """The application as this caller sees it, whatever key is sent."""
    app.user_middleware.append(Middleware(_AsCaller, caller=caller))
    return app


class _AsCaller:
    def __init__(self, app: ASGIApp, caller: Caller) -> None:
        self.app, self.caller = app, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["state"]["caller"] = self.caller
        await self.app(scope, receive, send)


def build_index(folder: Path, texts: dict[str, str]) -> Path:
    """An index of these files, in the folder."""
    for name, text in texts.items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "files")
    return folder / ".kumi"


class AnswersBy(ModelRegistry):
    """A chat model for answers; the graph is made by rule, and searches ask no model."""

    model: Chat | None = None

    def chat(self, scope: str) -> Chat | None:
        return self.model if scope == "answer" else None


@contextmanager
def answered_by(kumi: Kumihimo, model: Chat) -> Iterator[None]:
    """A chat model writes the answers meanwhile."""
    before = kumi.models
    kumi.models = AnswersBy(before.settings, before.cache)
    kumi.models.model = model
    try:
        yield
    finally:
        kumi.models = before


class Answering:
    """A model that answers `Who waits?` only when it may; name: by which its replies are cached."""

    def __init__(self, name: str) -> None:
        self.began, self.may_end = Event(), Event()
        self.chat = FakeChat(self._answer, fingerprint=name)

    def _answer(self, prompt: str) -> str:
        if "Who waits?" in prompt:
            self.began.set()
            assert self.may_end.wait(60)
        return "Somebody answers at once [1]."


@contextmanager
def one_place(workspace: Workspace) -> Iterator[Workspace]:
    """The same indexes, each for one question at a time."""
    kept = {
        name: replace(served, questions=AsyncKumihimo(served.kumi, questions=1))
        for name, served in workspace.indexes.items()
    }
    yield Workspace(kept)
    for served in kept.values():
        asyncio.run(served.questions.aclose())


@contextmanager
def leaving_client(address: str, body: object, path: str = "/v1/chat/completions") -> Iterator[None]:
    """A request whose sender closes the connection at the end."""
    data, host = json.dumps(body).encode(), address.removeprefix("http://")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    with closing(socket.create_connection((host.partition(":")[0], int(host.partition(":")[2])))) as connection:
        connection.sendall(head.encode() + data)
        yield


HARBOUR = {
    "gates.md": """---
author: Sabine Orrell
date: 2024-05-02
---
# The tide gates

Maren Oldacre drew the tide gates in 1983. She drew greenheart planks on a bronze frame. Joss Kerrow built the frame.
""",
    "ferry.md": """---
author: Joss Kerrow
date: 2023-01-10
---
# The ferry

The ferry leaves the harbour at nine. In winter the ferry leaves at ten. Joss Kerrow is the skipper of the ferry.
""",
    "seeds.md": """---
author: Nell Attery
date: 2022-03-22
---
# The seed library

Nell Attery keeps the seed library. The seed library lends oat seed. Maren Oldacre borrowed oat seed from Nell Attery.
""",
}
