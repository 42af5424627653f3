"""HTTP requests -> responses of an OpenAI server, or its faults: a separate process, for tests."""

import json
import re
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from threading import Lock, Thread
from typing import Any

from kumihimo.core.digests import hash_parts
from tests import fake_replies
from tests.fake_batches import FakeBatches
from tests.fake_replies import Behaviour, FakeRefusal, Json, error_response, http_response

_ROUTE = re.compile(
    r"(?:/v1|/openai/deployments/([^/]+))/(chat(?=/completions$)|embeddings$)(?:/completions)?|(?:/v[12])?/(rerank)"
)
_TOKENS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_SUMS = ("requests", "answered", "chats", "embeddings", "rerankings", "texts", *_TOKENS)
_GAUGES = ("most_at_once", "distinct", "repeats", "first_at", "last_at")


@dataclass(frozen=True, slots=True)
class FakeServer:
    """A fake server in another process."""

    url: str
    process: subprocess.Popen[str]

    def configure(self, **behaviour: Any) -> None:
        """Change its behaviour from now on; other settings stay."""
        self._request("/control", behaviour)

    def counts(self) -> dict[str, Any]:
        return self._request("/counts")

    def reset(self) -> None:
        """Forget all requests, and count from zero."""
        self._request("/reset", {})

    def stop(self) -> None:
        with self.process:
            self.process.kill()

    def _request(self, path: str, body: object = None) -> dict[str, Any]:
        with closing(HTTPConnection(self.url.split("/")[2], timeout=60)) as connection:
            connection.request("GET" if body is None else "POST", path, json.dumps(body))
            reply: dict[str, Any] = json.loads(connection.getresponse().read())
        if "error" in reply:
            raise ValueError(reply["error"]["message"])
        return reply


@contextmanager
def run_fake_server(**behaviour: Any) -> Iterator[FakeServer]:
    """Run a fake server with this behaviour; stop it at the end."""
    command = [sys.executable, "-m", "tests.fake_server"]
    home = Path(__file__).parents[1]  # where `tests` is importable from
    process = subprocess.Popen(command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server = FakeServer(process.stdout.readline().strip() if process.stdout else "", process)
    try:
        server.configure(**behaviour)
        yield server
    finally:
        server.stop()


def main() -> None:
    """Serve at a free port, printed to stdout, until stdin closes."""
    server = _FakeHttpServer(("127.0.0.1", 0), _RequestHandler)
    server.reset()
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        sys.stdin.read()


class _FakeHttpServer(ThreadingTCPServer):
    """A thread for each connection, and the counts of requests and responses."""

    daemon_threads = True
    request_queue_size = 128
    behaviour = Behaviour()
    batches = FakeBatches()
    lock = Lock()
    lost = 0  # answers to the creation of a batch that were not sent
    in_flight = 0

    def reset(self) -> None:
        self.sums: Json = dict.fromkeys(_SUMS + _GAUGES, 0)
        self.counters = {"statuses": Counter[str](), "faults": Counter[str]()}
        self.request_counts, self.answered = Counter[str](), set[str]()

    @contextmanager
    def track_request(self) -> Iterator[list[str]]:
        """Count a request while it is handled.

        Names put into the list were answered completely and without a fault.
        """
        completed: list[str] = []
        with self.lock:
            self.in_flight += 1
            self.sums["requests"] += 1
            self.sums["first_at"] = self.sums["first_at"] or time.monotonic()
            self.sums["most_at_once"] = max(self.sums["most_at_once"], self.in_flight)
        try:
            yield completed
        finally:
            with self.lock:
                self.in_flight -= 1
                self.sums["last_at"] = time.monotonic()
                for name in completed:
                    self.sums["repeats" if name in self.answered else "distinct"] += 1
                    self.answered.add(name)

    def draw_fault(self, behaviour: Behaviour, param: str, name: str) -> str:
        """Return the fault for this name, this time."""
        with self.lock:
            self.request_counts[name] += 1
            draw = int(hash_parts(str(behaviour.seed), name, str(self.request_counts[name]))[:13], 16) / 16**13
        for fault, share in sorted(behaviour.faults.items()):
            draw -= share
            if draw < 0:
                return "" if param != "messages" and fault in fake_replies.CHAT_FAULTS else fault
        return ""

    def record_response(self, status: str, fault: str, cost: dict[str, int]) -> None:
        with self.lock:
            self.sums |= {name: self.sums[name] + n for name, n in cost.items()}
            self.counters["faults"].update([fault] if fault else [])
            self.counters["statuses"].update([status] if fault != "never" else [])


class _RequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _FakeHttpServer

    def log_message(self, *_: object) -> None: ...

    def handle(self) -> None:
        with suppress(OSError):  # either side closed the connection
            super().handle()

    def do_GET(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path in ("/control", "/counts", "/reset"):
            self.connection.sendall(self._control(path, raw))
        elif path.startswith(("/v1/files", "/v1/batches")):
            self.connection.sendall(self._handle_batches(self.server.behaviour, path, raw))
        elif self.command == "POST" and (route := _ROUTE.fullmatch(path)):
            self._answer(self.server.behaviour, route, raw)
        else:
            self.connection.sendall(self._list_models(self.server.behaviour, path))

    def do_POST(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def _control(self, path: str, raw: bytes) -> bytes:
        with self.server.lock:
            if path == "/reset":
                self.server.reset()
                self.server.batches, self.server.lost = FakeBatches(), 0
            if path != "/control":
                return http_response(self.server.sums | self.server.counters)
            try:
                self.server.behaviour = self.server.behaviour.with_changes(json.loads(raw))
            except (AttributeError, TypeError, ValueError) as error:
                return error_response(400, str(error))
            return http_response(asdict(self.server.behaviour))

    def _answer(self, behaviour: Behaviour, route: re.Match[str], raw_request: bytes) -> None:
        with self.server.track_request() as completed:
            response, fault, names = self._make_response(behaviour, route, raw_request)
            *pieces, last = fake_replies.response_pieces(response, fault) if fault else [response]
            for piece in pieces:
                self.connection.sendall(piece)
                if self._client_left(600 if fault == "never" else behaviour.drip / len(pieces)):
                    raise ConnectionAbortedError
            completed += names if fault in ("", "slow", "think") and not self._client_left() else []
        self.connection.sendall(last)  # only now, since the client may read the counts once it has the whole response
        self.close_connection |= fault in ("half", "never")

    def _make_response(
        self, behaviour: Behaviour, route: re.Match[str], raw_request: bytes
    ) -> tuple[bytes, str, list[str]]:
        """Return the response, its fault, and the digests of answered inputs."""
        fault, cost, names = "", dict[str, int](), list[str]()
        param = "documents" if route[3] else "messages" if route[2] == "chat" else "input"
        try:
            self._check_key(behaviour)
            body, texts = fake_replies.parse_request(behaviour, route[1], param, raw_request)
            contents = [body["query"], body[param]] if route[3] else body[param]
            name = hash_parts(param, json.dumps(contents, sort_keys=True))
            fault = self.server.draw_fault(behaviour, param, name)
            if fault.isdigit():
                raise FakeRefusal(int(fault), f"{HTTPStatus(int(fault)).phrase}: a made-up fault")
            create = {
                "messages": fake_replies.chat_response,
                "input": fake_replies.embedding_response,
                "documents": fake_replies.rerank_response,
            }[param]
            response, cost = create(behaviour, body, texts, fault)
            names = [hash_parts(text) for text in texts] if param == "input" else [name]
        except FakeRefusal as refusal:
            response = error_response(*refusal.args, retry_after=behaviour.retry_after)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            response, fault = error_response(400, f"This is no proper request: {error!r}"), ""
        self.server.record_response(response[9:12].decode(), fault, cost)
        return response, fault, names

    def _handle_batches(self, behaviour: Behaviour, path: str, raw: bytes) -> bytes:
        try:
            self._check_key(behaviour)
            content_type = self.headers.get("Content-Type", "")
            response = self.server.batches.handle(behaviour, self.command, path, raw, content_type, self._answer_line)
        except FakeRefusal as refusal:
            return error_response(*refusal.args)
        with self.server.lock:
            if (self.command, path) == ("POST", "/v1/batches") and self.server.lost < behaviour.batch_lost:
                self.server.lost += 1
                raise ConnectionAbortedError
        return response

    def _answer_line(self, behaviour: Behaviour, line: bytes) -> tuple[int, Json]:
        """Return the status and the body for one request of a batch; it counts as a request."""
        body = json.loads(line)
        route = _ROUTE.fullmatch(body["url"])
        assert route
        with self.server.track_request() as completed:
            response, fault, names = self._make_response(behaviour, route, json.dumps(body["body"]).encode())
            completed += names if not fault else []
        head, _, content = response.partition(b"\r\n\r\n")
        return int(head[9:12]), json.loads(content)

    def _list_models(self, behaviour: Behaviour, path: str) -> bytes:
        try:
            self._check_key(behaviour)
        except FakeRefusal as refusal:
            return error_response(*refusal.args)
        if path != "/v1/models":
            return error_response(404, f"There is no {self.command} {path}")
        models = [{"id": model, "object": "model", "created": 0, "owned_by": "fake"} for model in behaviour.models]
        return http_response({"object": "list", "data": models})

    def _check_key(self, behaviour: Behaviour) -> None:
        """Wait for the latency, then check the key."""
        time.sleep(0 if behaviour.down else behaviour.latency)
        if self.server.behaviour.down:
            raise ConnectionAbortedError
        authorization = self.headers.get("Authorization") or f"Bearer {self.headers.get('api-key')}"
        if behaviour.key and authorization != f"Bearer {behaviour.key}":
            raise FakeRefusal(401, "Incorrect API key provided.", "invalid_api_key")

    def _client_left(self, seconds: float = 0) -> bool:
        """Return whether the client disconnects within so many seconds."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)


if __name__ == "__main__":
    main()
