"""Work ends with the one who wanted it: a client that leaves, a time limit, a key that is revoked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from shutil import copytree
from socket import create_connection
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest

from kumihimo.app.upkeep.keys import create_key, revoke_key
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.registry import ModelRegistry
from kumihimo.server import builds, security
from kumihimo.server.settings import ServerSettings
from tests.counters import has_ended, wait_until
from tests.fake_server import FakeServer
from tests.server.clients import bearer
from tests.server.running import Serving, serving

QUESTION = "Who drew the tide gates?"


@pytest.fixture(scope="module")
def folder(harbour_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copytree(harbour_folder, tmp_path_factory.mktemp("left") / "harbour" / ".kumi")


@contextmanager
def asking(folder: Path, server: FakeServer, **settings: Any) -> Iterator[Serving]:
    """A server whose model sends the head of a reply, and then nothing for ten minutes."""
    server.configure(faults={"slow": 1.0}, drip=1e6)
    chat = OpenAIChat(model="m", base_url=server.url)
    with serving(folder, settings=ServerSettings(**settings)) as served:
        models = served.kumi.models
        served.kumi.models = ModelRegistry(models.settings, models.cache)
        served.kumi.models.chat = lambda scope: chat  # type: ignore[method-assign]
        yield served


def is_asked(server: FakeServer) -> bool:
    return bool(server.counts()["requests"])


def check_end(server: FakeServer) -> None:
    """Wait until the model is free again. Fail if it was asked once more."""
    wait_until(lambda: server.counts()["last_at"] > 0)
    wait_until(lambda: not any(thread.name == "kumihimo-request" for thread in threading.enumerate()))
    assert server.counts()["requests"] == 1


@contextmanager
def sent(address: str, path: str, body: str, **headers: str) -> Iterator[None]:
    """A request whose sender leaves at the end."""
    host, _, port = address.removeprefix("http://").partition(":")
    headers = {"Host": host, "Content-Length": str(len(body)), "Content-Type": "application/json", **headers}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", body]
    with closing(create_connection((host, int(port)))) as connection:
        connection.sendall("\r\n".join(lines).encode())
        yield


QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("/api/v1/ask", {"question": QUESTION, "method": "bm25"}),
    ("/api/v1/retrieve", {"question": QUESTION, "method": "hyde", "settings": {"passages": 1}}),
    ("/v1/chat/completions", {"model": "kumi/bm25", "messages": [{"role": "user", "content": QUESTION}]}),
    ("/", {"question": QUESTION, "method": "bm25"}),
]


@pytest.mark.parametrize(("path", "body"), QUESTIONS)
def test_a_client_that_leaves_stops_the_model(
    path: str, body: dict[str, Any], folder: Path, server: FakeServer
) -> None:
    with asking(folder, server) as served:
        content, headers = json.dumps(body), dict[str, str]()
        if path == "/":
            page = httpx2.get(f"{served.address}/").text
            csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
            content, headers = urlencode({**body, "csrf": csrf}), {"Content-Type": "application/x-www-form-urlencoded"}
        with sent(served.address, path, content, **headers):
            wait_until(lambda: is_asked(server))
        check_end(server)


def test_a_question_beyond_its_time_stops_the_model(folder: Path, server: FakeServer) -> None:
    with asking(folder, server, seconds=1.0) as served:
        response = httpx2.post(f"{served.address}/api/v1/ask", json={"question": QUESTION, "method": "bm25"})
        assert (response.status_code, "longer than 1 s" in response.text) == (504, True)
        check_end(server)


@pytest.mark.parametrize("stream", [False, True])
def test_a_key_that_is_revoked_stops_its_question(
    stream: bool, folder: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(security, "_SECONDS_BETWEEN_LOOKS", 0.01)
    id, token = create_key([folder], "reader")
    _, other = create_key([folder], "reader")
    body = {"question": QUESTION, "method": "bm25", "stream": stream}
    with asking(folder, server, require_keys=True) as served, httpx2.Client(base_url=served.address) as client:

        def revoke_when_asked() -> None:
            wait_until(lambda: is_asked(server))
            revoke_key(folder, id)

        revoking = threading.Thread(target=revoke_when_asked)
        revoking.start()
        response = client.post("/api/v1/ask", json=body, headers=bearer(token), timeout=60)
        revoking.join()
        if stream:
            assert response.status_code == 200
            assert "event: progress" in response.text
            assert "event: answer" not in response.text
        else:
            assert (response.status_code, "was revoked" in response.text) == (401, True)
        assert client.get("/api/v1/methods", headers=bearer(other)).status_code == 200
        check_end(server)


def test_a_key_that_is_revoked_stops_its_build_and_its_events(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_SECONDS_BETWEEN_LOOKS", 0.01)
    monkeypatch.setattr(builds, "HANDLER", "tests.server.build_handlers:hang")
    id, token = create_key([folder], "editor")
    with serving(folder, settings=ServerSettings(require_keys=True)) as served:
        with httpx2.Client(base_url=f"{served.address}/api/v1", headers=bearer(token), timeout=60) as client:
            job = client.post("/builds", json={}).json()
            with client.stream("GET", f"/builds/{job['id']}/events") as response:
                for line in response.iter_lines():
                    if line.startswith("data: {") and '"step"' in line and '"state"' not in line:
                        process = json.loads(line.removeprefix("data: "))["done"]
                        revoke_key(folder, id)
        (index,) = served.workspace.indexes.values()
        wait_until(lambda: index.builds.jobs[0].state == "cancelled")
        wait_until(lambda: has_ended(process))


# -- and keeps nobody out


@pytest.mark.parametrize(("path", "body"), QUESTIONS[:-1])
def test_the_questions_of_one_key_leave_a_place_for_another(
    path: str, body: dict[str, Any], folder: Path, server: FakeServer
) -> None:
    many, one = (bearer(create_key([folder], "reader")[1]) for _ in range(2))
    with asking(folder, server, require_keys=True, questions=1) as served, ExitStack() as stack:
        (index,) = served.workspace.indexes.values()
        for _ in range(3):
            stack.enter_context(sent(served.address, path, json.dumps(body), **many))
        wait_until(lambda: index.questions.waiting == 2)
        wait_until(lambda: server.counts()["requests"] == 1)
        stack.enter_context(sent(served.address, path, json.dumps(body).replace("gates", "doors"), **one))
        wait_until(lambda: server.counts()["requests"] == 2)
        assert (index.questions.running, index.questions.waiting) == (2, 2)
