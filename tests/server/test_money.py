"""Whatever a key asks for, however it ends: the key pays for what the model server was asked, and not more than it may.

A law over ways of spending and ways of ending.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.upkeep.keys import IndexKeys, create_key, revoke_key, token_digest
from kumihimo.core.errors import Cancelled
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account
from kumihimo.llm.protocols import Prices
from tests.counters import wait_until
from tests.fake_server import FakeServer
from tests.server.running import build_index, leaving_client, serving

TEXTS = {f"{n}.txt": f"Ana Reyes of the Harbour Office repaired gate {n} with Bo Lund in May." for n in range(6)}
SLOW = 30.0  # seconds that a request hangs, unless its sender leaves
KEYLESS = Account("answer", "m", Prices())


@dataclass
class Served:
    """A server whose chat model and embedding model count what they are asked."""

    address: str
    folder: Path
    models: FakeServer
    key: str
    keys: IndexKeys

    def __post_init__(self) -> None:
        self.headers = {"Authorization": f"Bearer {self.key}"}

    def request(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
        """Send a request with the key; return the status and the whole body."""
        headers = {**self.headers, "Content-Type": "application/json", **headers}
        with closing(HTTPConnection(self.address.partition("//")[2], timeout=60)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read().decode()

    def json(self, method: str, path: str, body: object = None) -> Any:
        status, text = self.request(method, path, body)
        assert status in (200, 202), text
        return json.loads(text)

    @property
    def model(self) -> str:
        return str(self.json("GET", "/v1/models")["data"][0]["id"])

    def charged(self) -> Usage:
        key = self.keys.find(token_digest(self.key))
        assert key
        return self.keys.store.usage(key.id, self.keys.today())

    def reported(self) -> int:
        """The tokens that the model server has reported."""
        counts = self.models.counts()
        return int(counts["prompt_tokens"] + counts["completion_tokens"])

    def wait_for_requests(self, count: int = 1) -> None:
        wait_until(lambda: self.models.counts()["requests"] >= count)

    def build(self, **options: object) -> str:
        return str(self.json("POST", "/api/v1/builds", {"methods": ["light"], "consent": True, **options})["id"])

    def remove(self) -> str:
        document = self.json("GET", "/api/v1/documents")["documents"][0]
        return str(self.json("DELETE", f"/api/v1/documents/{document['id']}")["build"]["id"])

    def wait_for_build(self, id: str) -> str:
        self.request("GET", f"/api/v1/builds/{id}/events")  # until it has ended
        return str(self.json("GET", f"/api/v1/builds/{id}")["state"])


@contextmanager
def served(folder: Path, models: FakeServer, daily_tokens: int | None = None) -> Iterator[Served]:
    index = folder / ".kumi" if (folder / ".kumi").exists() else build_index(folder, TEXTS)
    key = create_key([index], "editor", daily_tokens=daily_tokens, requests_per_minute=10_000)[1]
    with serving(index) as server:
        keys = IndexKeys.of(server.kumi.opened)
        served = Served(server.address, index, models, key, keys)
        try:
            yield served
        finally:
            keys.close()


@pytest.fixture
def models(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    """A model server; the environment names it, also for the process of a build."""
    server.configure(reads_graph=True)
    monkeypatch.setenv("KUMI_CHAT_MODEL", "fake")
    monkeypatch.setenv("KUMI_CHAT_BASE_URL", server.url)
    monkeypatch.setenv("KUMI_CHAT_RETRIES", "0")
    monkeypatch.setenv("KUMI_ENTITIES_DESCRIPTION_TOKENS", "5")  # longer ones are written again by the model
    return server


QUESTION = {"question": "Who repaired gate 3?", "method": "naive"}
MESSAGES = {"messages": [{"role": "user", "content": "Who repaired gate 3?"}]}
ASKING: dict[str, Callable[[Served], object]] = {
    "ask": lambda s: s.request("POST", "/api/v1/ask", QUESTION),
    "streamed": lambda s: s.request("POST", "/api/v1/ask", QUESTION, Accept="text/event-stream"),
    "retrieve": lambda s: s.request("POST", "/api/v1/retrieve", {**QUESTION, "method": "hyde"}),
    "completion": lambda s: s.request("POST", "/v1/chat/completions", {"model": s.model, **MESSAGES}),
    "build": lambda s: s.wait_for_build(s.build()),
}


@pytest.mark.parametrize("name", ASKING)
def test_what_is_done_is_charged(tmp_path: Path, models: FakeServer, name: str) -> None:
    with served(tmp_path, models) as server:
        ASKING[name](server)
        assert server.charged().tokens == server.reported() > 0


@pytest.mark.parametrize("name", ASKING)
def test_what_fails_is_charged(tmp_path: Path, models: FakeServer, name: str) -> None:
    models.configure(faults={"length": 1.0})  # each reply is paid, and of no use
    with served(tmp_path, models) as server:
        ASKING[name](server)
        assert server.charged().tokens >= server.reported() > 0


@pytest.mark.parametrize("name", ["/api/v1/ask", "/api/v1/retrieve", "/v1/chat/completions", "build"])
def test_what_is_left_is_charged(tmp_path: Path, models: FakeServer, name: str) -> None:
    models.configure(latency=SLOW)
    with served(tmp_path, models) as server:
        if name == "build":
            id = server.build()
            server.wait_for_requests()
            assert server.charged().tokens > 0, "it is reserved before it is sent"
            server.json("POST", f"/api/v1/builds/{id}/cancel")
            assert server.wait_for_build(id) == "cancelled"
        else:
            body = {**QUESTION, "method": "hyde"} if name.startswith("/api") else {"model": server.model, **MESSAGES}
            with leaving_client(server.address, body, name, headers=server.headers):
                server.wait_for_requests()
                assert server.charged().tokens > 0, "it is reserved before it is sent"
        assert server.charged().calls >= 1


def test_a_removal_is_charged_and_capped(tmp_path: Path, models: FakeServer) -> None:
    with served(tmp_path, models) as server:
        server.wait_for_build(server.build())
    models.reset()
    with served(tmp_path, models) as server:
        server.wait_for_build(server.remove())
        assert server.charged().tokens == server.reported() > 0
    models.reset()
    with served(tmp_path, models, daily_tokens=1) as server:
        server.wait_for_build(server.remove())
        assert server.charged().tokens == server.reported() == 0


def test_a_budget_holds_for_all_that_is_asked_at_once_of_two_servers(tmp_path: Path, models: FakeServer) -> None:
    models.configure(latency=0.01)
    cap = 4000
    with served(tmp_path, models, daily_tokens=cap) as first, serving(first.folder) as second:
        ids = [first.build() for _ in range(2)]

        def ask(number: int) -> int:
            server = replace(first, address=(first.address, second.address)[number % 2])
            return server.request("POST", "/api/v1/ask", {**QUESTION, "question": f"Who repaired gate {number}?"})[0]

        with ThreadPoolExecutor(12) as pool:
            statuses = [*pool.map(ask, range(40))]
        for id in ids:
            first.wait_for_build(id)
        assert {*statuses} <= {200, 429}
        assert 429 in statuses
        assert 0 < server_total(models) == first.charged().tokens <= cap


def server_total(models: FakeServer) -> int:
    counts = models.counts()
    return int(counts["prompt_tokens"] + counts["completion_tokens"])


def test_a_reservation_that_a_killed_process_left_stays_charged(tmp_path: Path, models: FakeServer) -> None:
    with served(tmp_path, models, daily_tokens=5000) as server:
        key = server.keys.find(token_digest(server.key))
        assert key
        killed = IndexKeys(server.keys.index, server.keys.store)
        request = killed.budget(key).reserve(KEYLESS, 4000)
        request.__enter__()  # and nobody leaves it
        left = server.charged()
        assert left.tokens >= 1600
        again = IndexKeys(server.keys.index, server.keys.store)
        assert again.budget(key).total == left
        with again.budget(key).reserve(KEYLESS, 40) as charges:
            charges.append(Usage(1, 10, 0, 5))
        assert server.charged().tokens == left.tokens + 15


def test_a_revoked_key_asks_nothing_more(tmp_path: Path, models: FakeServer) -> None:
    with served(tmp_path, models) as server:
        key = server.keys.find(token_digest(server.key))
        assert key
        budget = server.keys.budget(key)
        with budget.reserve(KEYLESS, 40):
            revoke_key(server.folder, key.id)
        with pytest.raises(Cancelled, match="revoked"), budget.reserve(KEYLESS, 40):
            raise AssertionError("asked")
