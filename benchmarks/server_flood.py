"""an address -> thousands of connections of attackers, which open again when the server closes them.

It runs in a process of its own, since it needs as many files as the server: `python -m benchmarks.server_flood HOST
PORT COUNT SECONDS`. A fourth each is silent, sends its headers a byte a second, sends a body a byte a second, and is
silent after one request. At the end it prints what became of the connections as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

_HOME = Path(__file__).parents[1]
_PAUSE = 1.0  # seconds before an attacker opens a connection again
_SLOW = (
    b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{"
)
FIRST_BYTES = {
    "silent": b"",
    "slow headers": b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
    "slow body": _SLOW,
    "silent after a request": b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@dataclass(slots=True)
class Flood:
    """All attackers: where they connect to, and what the server did. most_open: connections at once."""

    host: str
    port: int
    outcomes: Counter[str] = field(default_factory=Counter)
    open: int = 0
    most_open: int = 0


@dataclass(slots=True, eq=False)
class Attacker(asyncio.Protocol):
    """One attacker, and its present connection."""

    flood: Flood
    kind: str
    transport: asyncio.Transport | None = None
    answer: bytes = b""
    task: asyncio.Task[None] | None = None  # that opens the next connection

    async def connect(self) -> None:
        loop, self.answer = asyncio.get_running_loop(), b""
        try:
            await loop.create_connection(lambda: self, self.flood.host, self.flood.port)
        except OSError as error:
            self.flood.outcomes[f"no connection: {error.strerror}"] += 1
            loop.call_later(_PAUSE, self._connect_again)

    def _connect_again(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self.connect())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.flood.open += 1
        self.flood.most_open = max(self.flood.open, self.flood.most_open)
        self.transport.write(FIRST_BYTES[self.kind])
        if self.kind.startswith("slow"):
            asyncio.get_running_loop().call_later(1, self._send_byte, self.transport)

    def _send_byte(self, transport: asyncio.Transport) -> None:
        if not transport.is_closing():
            transport.write(b"x")
            asyncio.get_running_loop().call_later(1, self._send_byte, transport)

    def data_received(self, data: bytes) -> None:
        self.answer = self.answer or data[:12]

    def connection_lost(self, _: Exception | None) -> None:
        self.flood.open -= 1
        self.flood.outcomes[f"{self.kind}: {self.answer[9:].decode() or 'closed'}"] += 1
        asyncio.get_running_loop().call_later(_PAUSE, self._connect_again)


async def attack(flood: Flood, count: int, seconds: float) -> None:
    """Attack with so many connections for so long, print what became of them, and end the process."""
    kinds = [*FIRST_BYTES]
    attackers = [Attacker(flood, kinds[n % len(kinds)]) for n in range(count)]
    for start in range(0, count, 200):  # else the queue of the listening socket overflows
        await asyncio.gather(*(each.connect() for each in attackers[start : start + 200]))
    await asyncio.sleep(seconds)
    print(json.dumps({"most_open": flood.most_open, "open": flood.open, "outcomes": flood.outcomes}), flush=True)
    os._exit(0)  # thousands of connections need not be closed one by one


def main(host: str, port: str, count: str, seconds: str) -> None:
    _, highest = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, highest))
    asyncio.run(attack(Flood(host, int(port)), min(int(count), highest - 100), float(seconds)))


@contextmanager
def flooding(host: str, port: int, count: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Attack in another process meanwhile; the dictionary holds what became of it at the end."""
    command = [sys.executable, "-m", "benchmarks.server_flood", host, str(port), str(count), str(seconds)]
    outcome: dict[str, Any] = {}
    with subprocess.Popen(command, cwd=_HOME, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield outcome
            outcome |= json.loads(process.communicate()[0])
        finally:
            process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
