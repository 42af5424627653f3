"""attacks on `kumi serve` -> what came of each: none may get anything, and an honest client gets its answers meanwhile.

Two servers run: one on all addresses, with keys, and one on this machine alone, without. Single requests come first,
each with the statuses that refuse it. Then files that unpack to a thousand times their size are uploaded, while an
honest client goes on. Last come 10,000 connections, which open again a second after the server closes them: first from
another machine (another address of this one, if there is one), then from this one, which stands for many machines. They
are silent, or send headers or a body a byte a second; an honest client opens a new connection for each request.

XSS is tried with real scripts in a real browser by tests/server/test_browser.py. Here the pages are searched for tags
of documents.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import httpx2
from tests.readers.bombs import BOMBS

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from benchmarks.server_flood import flooding
from benchmarks.server_process import ServerProcess, run_server
from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key, revoke_key
from kumihimo.readers.limits import ReadingLimits

SECRET = "Oldacre"  # a name in a document: nobody without a key may get it
TAG = "<img src=x onerror=alert(1)>"
UPLOADS = ("unpacking", "entities", "archive_in_archive", "letter_in_letter", "repeated_chapter", "shared_string")
CHANGES = ("POST", "PUT", "PATCH", "DELETE")
JSON = {"Content-Type": "application/json"}
QUESTION = {"question": f"Who is Maren {SECRET}?"}
MOST_WAIT = 1.0  # seconds of an honest client in a flood from one machine, at most


@dataclass(slots=True)
class Target:
    """The servers that are attacked: `guarded` with keys, `local` without."""

    home: Path
    guarded: ServerProcess
    local: ServerProcess
    reader: str
    revoked: str
    size: int = 1000  # of what is oversize, in thousands
    outcomes: list[tuple[str, str, bool]] = field(default_factory=list)  # attack, what came of it, whether it failed

    def record(self, name: str, statuses: Iterable[int], allowed: Iterable[int], leaked: bool = False) -> None:
        """Record the statuses of an attack; all others than the allowed ones are an effect."""
        counts, safe = Counter(statuses), {*allowed}
        outcome = ", ".join(f"{count} times {status}" for status, count in sorted(counts.items()))
        self.outcomes.append(
            (name, outcome + (", and it had an effect" if leaked else ""), {*counts} <= safe and not leaked)
        )


def client(server: ServerProcess, key: str = "", **headers: str) -> httpx2.Client:
    keys = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.Client(base_url=server.address, headers={**keys, **headers}, timeout=60, follow_redirects=False)


def send_raw(server: ServerProcess, request: bytes) -> tuple[int, bytes]:
    """Return status and all bytes of the response to a request; 0: it was closed."""
    host, _, port = server.address.removeprefix("http://").partition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=60) as connection, suppress(ConnectionError):
        connection.sendall(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
        while part := connection.recv(65536):
            received += part
    return int(received[9:12] or 0), received


def routes(server: ServerProcess, key: str) -> Iterator[tuple[str, str]]:
    """Yield method and path of each route for programs, and of the pages."""
    with client(server, key) as http:
        paths = http.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            yield method.upper(), path.replace("{", "").replace("}", "")
    yield from (("GET", path) for path in ("/", "/documents", "/graph", "/reports", "/status", "/openapi.json"))
    yield from (("POST", path) for path in ("/", "/documents", "/builds", "/mcp"))


# -- keys


def try_without_key(target: Target) -> None:
    responses = []
    with client(target.guarded) as http:
        for method, path in routes(target.guarded, target.reader):
            if path not in ("/health", "/ready"):
                responses.append(http.request(method, path, json=QUESTION if method == "POST" else None))
    leaked = any(SECRET in response.text for response in responses)
    target.record("no key, on each route, MCP too", (each.status_code for each in responses), (401, 303), leaked)


def try_wrong_keys(target: Target) -> None:
    with client(target.guarded) as http:
        tries = [http.get("/api/v1/documents", headers={"Authorization": f"Bearer kumi_{n}"}) for n in range(60)]
        target.record("60 wrong keys", (each.status_code for each in tries), (401, 429))
        honest = http.get("/api/v1/documents", headers={"Authorization": f"Bearer {target.reader}"})
        target.record("then the right key, from the same address", [honest.status_code], [200])
        session = http.get("/api/v1/documents", headers={"Cookie": f"kumi_session={'x' * 43}"})
        target.record("an invented session", [session.status_code], [401])


def try_revoked_key(target: Target) -> None:
    with client(target.guarded, target.revoked) as http:
        target.record("a revoked key", [http.get("/api/v1/documents").status_code], [401])
        target.record("MCP with a revoked key", [http.post("/mcp", json={}).status_code], [401])


def try_changes_as_reader(target: Target) -> None:
    with client(target.guarded, target.reader) as http:
        statuses = [
            http.post("/api/v1/builds", json={}).status_code,
            http.post("/api/v1/documents", files={"file": ("a.txt", b"x")}).status_code,
            http.post("/api/v1/documents/paths", json={"path": "/etc"}).status_code,
            http.delete("/api/v1/documents/x").status_code,
            http.get("/metrics").status_code,
        ]
    target.record("changes and metrics with a reader's key", statuses, [403])


# -- pages of other sites


def try_hosts(target: Target) -> None:
    hosts = ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "[::1]evil", "")
    statuses = [send_raw(target.local, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[0] for host in hosts]
    target.record("a foreign Host", statuses, (400, 421))
    port = target.local.address.rpartition(":")[2]
    rebound = {"Host": f"evil.example:{port}", "Origin": f"http://evil.example:{port}", "Sec-Fetch-Site": "same-origin"}
    with client(target.local, **rebound) as http:
        responses = [http.get("/api/v1/documents"), http.post("/api/v1/ask", json=QUESTION), http.get("/")]
    leaked = any(SECRET in response.text for response in responses)
    target.record("DNS rebinding", (each.status_code for each in responses), [421], leaked)
    forwarded = {"X-Forwarded-Host": "localhost", "X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"}
    with client(target.guarded, **forwarded) as http:
        target.record("an invented proxy", [http.get("/api/v1/documents").status_code], [401])


def try_csrf(target: Target) -> None:
    statuses = []
    for path in ("/", "/api/v1/ask", "/api/v1/builds", "/v1/chat/completions", "/mcp", "/preferences"):
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
            with client(target.local, **headers) as http:
                statuses += [http.post(path, json=QUESTION).status_code, http.post(path, data=QUESTION).status_code]
    target.record("CSRF: requests of a foreign page", statuses, (403, 415))
    kinds = ("text/plain", "application/x-www-form-urlencoded", "")
    with client(target.local) as http:
        plain = [
            http.post(path, content=json.dumps(QUESTION), headers={"Content-Type": kind}).status_code
            for path in ("/api/v1/ask", "/api/v1/builds", "/v1/chat/completions", "/mcp")
            for kind in kinds
        ]
        target.record("CSRF: JSON in a form", plain, [415])
        forms = [http.post(path, data={"csrf": "0" * 64}).status_code for path in ("/", "/builds", "/preferences")]
        target.record("CSRF: a form without its token", forms, [403])


def try_scripts(target: Target) -> None:
    """Search the pages for tags that documents and questions brought."""
    with client(target.local) as http:
        ids = [row["id"] for row in http.get("/api/v1/documents").json()["documents"]]
        paths = ["/", "/documents", "/graph", "/reports", "/status", *(f"/documents/{id}" for id in ids)]
        paths += [f"/?question={TAG}", f"/documents?q={TAG}", f"/graph?q={TAG}", f"/documents/{TAG}", f"/{TAG}"]
        pages = [http.get(path, headers={"Accept": "text/html"}) for path in paths]
    shown = [page for page in pages if page.headers["content-type"].startswith("text/html")]
    bad = [page for page in shown if TAG in page.text or "unsafe" in page.headers["content-security-policy"]]
    statuses = (page.status_code for page in pages)
    target.record("XSS: tags in text, title, metadata, name, address", statuses, (200, 404), leaked=bool(bad))


# -- paths, requests that two readers may read in two ways


def try_paths(target: Target) -> None:
    climbs = ("../" * 8, "..%2f" * 8, "%2e%2e/" * 8, "..%5c" * 8, "....//" * 8, "%252e%252e/" * 8)
    paths = [f"{start}{climb}etc/passwd" for start in ("/static/", "/static/x/en/", "/documents/") for climb in climbs]
    request = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answers = [send_raw(target.local, request.format(path).encode()) for path in paths]
    leaked = any(b"root:" in body for _, body in answers)
    target.record("traversal by addresses", (status for status, _ in answers), (400, 404), leaked)
    (target.home / "root" / "link").symlink_to("/etc")
    added = ("/etc/passwd", "../../etc", "link/passwd", str(target.home / "outside.txt"), "/proc/self/environ", "\0")
    with client(target.local) as http:
        statuses = [http.post("/api/v1/documents/paths", json={"path": path}).status_code for path in added]
        target.record("paths outside the roots", statuses, (400, 403))
        names = ("../../../escaped.txt", "/tmp/escaped.txt", "..\\..\\escaped.txt", ".hidden.txt")
        uploads = [http.post("/api/v1/documents", files={"file": (name, b"x")}).status_code for name in names]
    escaped = [path for path in target.home.rglob("*escaped*") if "uploads" not in path.parts]
    escaped += [path for path in (Path("/tmp/escaped.txt"),) if path.exists()]
    target.record("names of uploads with folders", uploads, (202, 400), bool(escaped))


def try_smuggling(target: Target) -> None:
    second = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    framings = (
        f"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{second}",
        "Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcd",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Content-Length: -1\r\n\r\n",
        "Content-Length: 1_0\r\n\r\n0123456789",
    )
    head = "POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    answers = [send_raw(target.local, (head + framing).encode()) for framing in framings]
    twice = any(body.count(b"HTTP/1.1") > 1 for _, body in answers)
    target.record("smuggling: two lengths of a body", (status for status, _ in answers), (400, 501), twice)


# -- too much of everything


def try_sizes(target: Target) -> None:
    bodies: list[Any] = [
        {"question": "x" * 10_001},
        {"question": "x" * 3_000_000},
        {"question": "x", "filter": "(" * 900 + "a" + ")" * 900},
        {"question": "x", "filter": "a = 1 or " * 50_000 + "a = 1"},
        {"question": "x", "settings": {str(n): n for n in range(10_000)}},
        {"question": "x", "settings": {"k": 10**15}},
        {"question": "x", "history": [{"question": "x", "answer": "x"}] * 10_000},
        {"question": ["x"] * 100_000},
        {str(n): n for n in range(100_000)},
    ]
    deep = '{"question": ' + "[" * 500 * target.size + "]" * 500 * target.size + "}"
    with client(target.local) as http:
        statuses = [http.post("/api/v1/ask", json=body).status_code for body in bodies]
        statuses.append(http.post("/api/v1/ask", content=deep, headers=JSON).status_code)
        target.record("oversize: questions, filters, settings, JSON", statuses, (400, 413))
        statuses = [http.get(f"/api/v1/entities?q={'x' * size}").status_code for size in (300, 9_000, 60_000)]
        statuses += [http.get(f"/api/v1/documents?limit={10**12}").status_code]
        target.record("oversize: addresses and pages", statuses, (400, 413))
        packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        response = http.post("/api/v1/ask", content=gzip.compress(b" " * 10**5 * target.size), headers=packed)
        target.record("a packed body", [response.status_code], [400])
        parts = {f"f{n}": ("a.txt", b"x") for n in range(max(200, 5 * target.size))}
        target.record("a form of too many files", [http.post("/api/v1/documents", files=parts).status_code], (400, 413))
    headers = "".join(f"X-{n}: {'x' * 1000}\r\n" for n in range(200))
    statuses = [send_raw(target.local, f"GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())[0]]
    target.record("200 kB of headers", statuses, (0, 400, 431))
    head = "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\n"
    forms = (("/api/v1/ask", "application/json"), ("/api/v1/documents", "multipart/form-data; boundary=x"))
    length = f"Content-Length: {10**12}\r\n\r\nx"
    announced = [send_raw(target.local, (head.format(*form) + length).encode())[0] for form in forms]
    target.record("a body of 1 TB, announced", announced, [413])
    chunks = "Transfer-Encoding: chunked\r\n\r\n" + f"FFFF\r\n{'x' * 0xFFFF}\r\n" * 40
    endless = send_raw(target.local, (head.format(*forms[0]) + chunks).encode())[0]
    target.record("a body without end, in chunks", [endless], (0, 413))


def try_mcp(target: Target) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    calls: list[Any] = [
        {**call, "params": {"name": "search", "arguments": {"question": "x" * 20_000}}},
        {**call, "params": {"name": "search", "arguments": {"question": "x", "k": 10**9}}},
        {**call, "params": {"name": "open_citation", "arguments": {"id": "../../etc/passwd"}}},
        {**call, "params": {"name": "x" * 100_000, "arguments": {}}},
        {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "file:///etc/passwd"}},
        [call] * 10_000,
        {"jsonrpc": "2.0", "id": "x" * 3_000_000, "method": "ping"},
    ]
    accept = {"Accept": "application/json, text/event-stream"}
    with client(target.local, **accept) as http:
        opened = http.post("/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
        responses = [http.post("/mcp", json=each, headers=session) for each in calls]
    errors = ('"isError":true', '"error"', "too large")
    refused = all(any(each in response.text for each in errors) for response in responses)
    target.record(
        "MCP: calls beyond all limits", (each.status_code for each in responses), (200, 400, 413), not refused
    )


# -- what takes long, while an honest client goes on


@dataclass(slots=True)
class Honest:
    """A client that asks again and again, each time on a new connection: its times, and what went wrong."""

    server: ServerProcess
    key: str
    seconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    async def ask_during(self, seconds: float) -> None:
        ends = perf_counter() + seconds
        while perf_counter() < ends:
            await self.ask()
            await asyncio.sleep(0.1)

    async def ask(self) -> None:
        headers, start = {"Authorization": f"Bearer {self.key}"} if self.key else {}, perf_counter()
        try:
            async with httpx2.AsyncClient(base_url=self.server.address, headers=headers, timeout=60) as http:
                response = await http.get("/api/v1/documents?limit=5")
        except httpx2.HTTPError as error:
            self.errors[type(error).__name__] += 1
            return
        if response.status_code == 200:
            self.seconds.append(perf_counter() - start)
        else:
            self.errors[f"{response.status_code}"] += 1

    def __str__(self) -> str:
        times = sorted(self.seconds) or [float("nan")]
        p50, p95 = (1000 * times[int(share * len(times))] for share in (0.5, 0.95))
        wrong = ", ".join(f"{count} times {error}" for error, count in self.errors.items()) or "no error"
        return f"{len(self.seconds)} answers, p50 {p50:.0f} ms, p95 {p95:.0f} ms, {wrong}"

    @property
    def p95(self) -> float:
        times = sorted(self.seconds) or [float("inf")]
        return times[int(0.95 * len(times))]


async def upload_bombs(target: Target, size: int, names: Sequence[str]) -> None:
    """Upload files that unpack to much more, and a good one; print what became of them."""
    honest, most = Honest(target.local, ""), 0.0
    async with httpx2.AsyncClient(base_url=target.local.address, timeout=120) as http:
        files = [("file", (f"{name}{BOMBS[name][0]}", BOMBS[name][1](size))) for name in names]
        sent = sum(len(content) for _, (_, content) in files) / 1e6
        response = await http.post("/api/v1/documents", files=[*files, ("file", ("good.txt", b"The heron sleeps."))])
        assert response.status_code == 202, response.text
        path = f"/api/v1/builds/{response.json()['build']['id']}"
        while (job := (await http.get(path)).json())["state"] in ("queued", "running"):
            await honest.ask_during(0.3)
            most = max(most, target.local.children_megabytes())
        listed = (await http.get("/api/v1/documents?limit=200")).json()
    uris = [row["uri"] for row in listed["documents"]]
    print(f"  {len(files)} bombs of {sent:.1f} MB: build {job['state']}; {listed['counts']['failed']} files refused")
    print(f"    child processes: at most {most:.0f} MB; honest client: {honest}")
    target.outcomes.append(("bombs, uploaded", f"{honest}", any(uri.endswith("good.txt") for uri in uris)))
    check_at_most("memory of the child processes", most, ReadingLimits().memory * 1.2, " MB")
    check_at_most("p95 of an honest client while bombs are read", honest.p95, MOST_WAIT, " s")


async def flood(target: Target, count: int, seconds: float) -> None:
    """Open thousands of connections; print what an honest client has of the server meanwhile."""
    port = int(target.guarded.address.rpartition(":")[2])
    own = other_address()
    for host, name in ((own, "another machine"), ("127.0.0.1", "many machines")):
        if not host:
            print(f"  {count:,} connections from {name}: left out, since this machine has one address only")
            continue
        honest, cpu = Honest(target.guarded, target.reader), target.guarded.cpu()
        with flooding(host, port, count, seconds) as outcome:
            await asyncio.sleep(min(1, seconds / 10))
            await honest.ask_during(seconds * 0.8)
            descriptors, megabytes = target.guarded.descriptors(), target.guarded.megabytes()
        opened, cpu = sum(outcome["outcomes"].values()) + outcome["open"], target.guarded.cpu() - cpu
        print(f"  {count:,} connections from {name}: {opened:,} were opened in all, {outcome['most_open']:,} at once")
        print(f"    server: {descriptors:,} files open, {megabytes:.0f} MB, {1e6 * cpu / opened:.0f} µs CPU for each")
        print(f"    honest client: {honest}")
        target.outcomes.append((f"{count:,} connections from {name}", f"{honest}", not honest.errors))
        if host == own:
            check_at_most("p95 of an honest client in a flood from one machine", honest.p95, MOST_WAIT, " s")


def other_address() -> str:
    """Return an address of this machine beside loopback; empty without one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return ""


# -- all of it

SINGLE: tuple[Callable[[Target], None], ...] = (
    try_without_key,
    try_revoked_key,
    try_wrong_keys,
    try_changes_as_reader,
    try_hosts,
    try_csrf,
    try_scripts,
    try_paths,
    try_smuggling,
    try_sizes,
    try_mcp,
)


def make_index(home: Path) -> Path:
    """Return an index of a secret, and of tags in every field."""
    home.mkdir()
    (home / "gates.md").write_text(f"# Gates\n\nMaren {SECRET} drew the tide gates in 1983.\n", encoding="utf-8")
    tagged = f"---\ntitle: '{TAG}'\nauthor: '{TAG}'\n---\n# {TAG}\n\nMaren {TAG} Vane <b>spoke</b>. {TAG}\n"
    (home / f"{TAG.replace('/', '')}.md").write_text(tagged, encoding="utf-8")
    with Kumihimo.open(home / ".kumi") as kumi:
        kumi.index(home)
        return kumi.folder


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20, help="of each flood")
    parser.add_argument("--size", type=int, default=100, help="of the bombs; 1,000 is full size")
    o = read_options(parser, argv, connections=20, seconds=0.3, size=1)
    with TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "root").mkdir()
        (home / "outside.txt").write_text(f"Maren {SECRET}", encoding="utf-8")
        guarded, local = make_index(home / "guarded"), make_index(home / "local")
        _, reader = create_key([guarded], "reader", requests_per_minute=100_000)
        id, revoked = create_key([guarded], "admin")
        revoke_key(guarded, id)
        with (
            run_server(guarded, options=("--host", "0.0.0.0")) as guarded_server,
            run_server(local, options=("--root", str(home / "root"))) as local_server,
        ):
            target = Target(home, guarded_server, local_server, reader, revoked, 1 if o.quick else 1000)
            for attack in SINGLE:
                attack(target)
            asyncio.run(upload_bombs(target, o.size, UPLOADS[: 1 if o.quick else None]))
            asyncio.run(flood(target, o.connections, o.seconds))
            with client(local_server) as http:
                target.record("after all: the page", [http.get("/").status_code], [200])
    for name, outcome, failed in target.outcomes:
        print(f"  {'' if failed else 'EFFECT: '}{name}: {outcome}")
    check_at_most("attacks with an effect", sum(not failed for *_, failed in target.outcomes), 0)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run_benchmark(main)
