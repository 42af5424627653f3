"""addresses, questions and a seed -> clients of a server, each with one request after the other, and their times."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from time import perf_counter
from typing import Any

import httpx2

TIMEOUT = 120.0  # seconds: longer than any answer may take
LEAVES_AFTER = 0.05  # seconds, of a client that does not wait for a whole answer
PLAIN, ANSWERED = "plain", "answered"  # the names of the indexes: without a model, and with one that answers
MAX_QUESTION = 80  # characters
Request = Callable[["Client"], Awaitable[None]]


@dataclass(slots=True)
class Record:
    """What all clients saw: seconds by kind of request, errors, and how many left before the answer."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: Counter[str] = field(default_factory=Counter)
    left: int = 0
    is_over: bool = False

    @property
    def requests(self) -> int:
        return self.left + sum(map(len, self.seconds.values()))


@dataclass(slots=True)
class Client:
    """One client: its connection, its random numbers and the questions that it draws from."""

    http: httpx2.AsyncClient
    rng: Random
    questions: Sequence[str]
    methods: Sequence[str]
    record: Record

    def body(self, method: str, **more: Any) -> dict[str, Any]:
        """Return a question that no client has asked before, so that no cache answers it."""
        text = self.rng.choice(self.questions)[:MAX_QUESTION]
        return {"question": f"{text} {self.rng.randrange(10**9)}?", "method": method, **more}

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Return a response. Raise ValueError for one that is no success."""
        response = await self.http.request(method, path, **options)
        if response.status_code not in (200, 202):
            raise ValueError(f"{method} {path.partition('?')[0]}: {response.status_code} {response.text[:200]}")
        return response

    async def read_events(self, index: str, body: Mapping[str, Any]) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events of a streamed answer."""
        path = f"/api/v1/indexes/{index}/ask"
        async with self.http.stream("POST", path, json={**body, "stream": True}) as response:
            if response.status_code != 200:
                await response.aread()
                raise ValueError(f"POST {path} (stream): {response.status_code} {response.text[:200]}")
            name = ""
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    name = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield name, json.loads(line.removeprefix("data: "))


def retrieve_by(method: str) -> Request:
    """Return a search by one method."""

    async def retrieve(client: Client) -> None:
        await client.send("POST", f"/api/v1/indexes/{PLAIN}/retrieve", json=client.body(method))

    return retrieve


async def ask_plain(client: Client) -> None:
    method = client.rng.choice(client.methods)
    answer = (await client.send("POST", f"/api/v1/indexes/{PLAIN}/ask", json=client.body(method))).json()
    assert answer["text"], f"no answer by {method} to {answer['question']}"


async def stream_answer(client: Client) -> None:
    """Read the answer of a model to its end; it takes as long as the model does."""
    names = [name async for name, _ in client.read_events(ANSWERED, client.body("bm25"))]
    if names[-1:] != ["answer"] or "token" not in names:
        raise ValueError(f"a stream ended after {', '.join(names)}")


async def list_documents(client: Client) -> None:
    listed = (await client.send("GET", f"/api/v1/indexes/{PLAIN}/documents?limit=50")).json()
    assert listed["documents"]


async def find_entity(client: Client) -> None:
    """List entities, then look at one of them with its neighbours."""
    prefix = f"/api/v1/indexes/{PLAIN}/entities"
    found = (await client.send("GET", f"{prefix}?limit=20")).json()["entities"]
    entity = client.rng.choice(found[:3])["id"]  # a build may take away those with few mentions in between
    await client.send("GET", f"{prefix}/{entity}")
    await client.send("GET", f"{prefix}/{entity}/neighbours")


async def open_page(client: Client) -> None:
    page = await client.send("GET", "/")
    assert "</html>" in page.text


async def list_models(client: Client) -> None:
    assert (await client.send("GET", "/v1/models")).json()["data"]


async def leave_stream(client: Client) -> None:
    """Leave while the model writes."""
    async for name, _ in client.read_events(ANSWERED, client.body("bm25")):
        if name in ("evidence", "token"):
            client.record.left += 1
            return
    raise ValueError("a stream ended before its evidence")


async def leave_answer(client: Client) -> None:
    """Close the connection before the answer."""
    request = client.send("POST", f"/api/v1/indexes/{PLAIN}/ask", json=client.body("braid"))
    with suppress(TimeoutError):
        await asyncio.wait_for(request, client.rng.random() * LEAVES_AFTER)
    client.record.left += 1


LEAVING = (leave_stream, leave_answer)


def requests_of(methods: Sequence[str]) -> dict[str, tuple[int, Request]]:
    """Return the kinds of requests with their weights."""
    return {
        **{f"retrieve {method}": (3, retrieve_by(method)) for method in methods},
        "ask": (6, ask_plain),
        "ask, streamed, model of 1 s": (8, stream_answer),
        "documents": (3, list_documents),
        "entity (3 requests)": (3, find_entity),
        "page": (3, open_page),
        "v1/models": (1, list_models),
        "leaves a stream": (2, leave_stream),
        "leaves an answer": (2, leave_answer),
    }


async def run_client(pause: float, client: Client) -> None:
    """Send requests until the time is over; `pause` is the mean of the seconds between two."""
    kinds = requests_of(client.methods)
    names, weights = [*kinds], [weight for weight, _ in kinds.values()]
    await asyncio.sleep(client.rng.random() * pause)
    while not client.record.is_over:
        (name,) = client.rng.choices(names, weights)
        request, start = kinds[name][1], perf_counter()
        try:
            await request(client)
        except (httpx2.HTTPError, ValueError, AssertionError, KeyError) as error:
            client.record.errors[f"{name}: {type(error).__name__}: {error}"] += 1
        else:
            if request not in LEAVING:
                client.record.seconds[name].append(perf_counter() - start)
        await asyncio.sleep(client.rng.expovariate(1 / pause) if pause else 0)


async def run_clients(
    address: str, count: int, pause: float, questions: Sequence[str], methods: Sequence[str], record: Record
) -> None:
    """Run so many clients until `record.is_over`."""

    async def run(number: int) -> None:
        async with httpx2.AsyncClient(base_url=address, timeout=TIMEOUT) as http:
            await run_client(pause, Client(http, Random(number), questions, methods, record))

    await asyncio.gather(*map(run, range(count)))
