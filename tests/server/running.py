"""an application, or index folders -> a server on a port of its own, in a thread; a chat model that answers there."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from kumihimo import Kumihimo
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.server.app import create_app
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace
from kumihimo.testing.fake_models import FakeChat


class _Server(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        options = {"port": 0, "log_level": "warning", "lifespan": "on", "timeout_graceful_shutdown": 1, **options}
        super().__init__(uvicorn.Config(app, **options))
        self.listens = Event()

    async def startup(self, sockets: object = None) -> None:
        await super().startup()
        self.listens.set()

    @property
    def port(self) -> int:
        port: int = self.servers[0].sockets[0].getsockname()[1]
        return port


@contextmanager
def running(app: ASGIApp, **options: Any) -> Iterator[str]:
    """The address of an application that runs meanwhile. options: of uvicorn."""
    server = _Server(app, **options)
    thread = Thread(target=asyncio.run, args=[server.serve()])
    thread.start()
    try:
        assert server.listens.wait(30)
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.should_exit = True
        thread.join()


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs, with what it serves."""

    address: str
    workspace: Workspace

    @property
    def kumi(self) -> Kumihimo:
        """The first index."""
        return next(iter(self.workspace.indexes.values())).kumi


@contextmanager
def serving(*folders: Path, settings: ServerSettings | None = None) -> Iterator[Serving]:
    """A server of these indexes."""
    settings = settings or ServerSettings()
    workspace = open_workspace(folders, settings)
    with running(create_app(workspace, settings)) as address:
        yield Serving(address, workspace)


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
def serving_one(folder: Path, answering: Answering) -> Iterator[str]:
    """The address of a server that answers one question at a time, by this model."""
    with serving(folder, settings=ServerSettings(questions=1)) as server, answered_by(server.kumi, answering.chat):
        yield server.address


@contextmanager
def leaving_client(
    address: str, body: object, path: str = "/v1/chat/completions", headers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """A request whose sender closes the connection at the end."""
    data, host = json.dumps(body).encode(), address.removeprefix("http://")
    fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(len(data)), **headers}
    head = f"POST {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
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
