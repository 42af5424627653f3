"""HTTP requests -> what an OpenAI server would say, or how it would fail: a process of its own, for tests."""

from __future__ import annotations

import json
import re
import select
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from http import HTTPStatus
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from itertools import cycle
from socketserver import ThreadingTCPServer
from threading import Lock, Thread
from typing import Any

from kumihimo.core.records import digest
from kumihimo.ports.fake import FakeEmbedder

# What befalls a request is drawn by its digest, not by its turn; the same asked again is drawn anew. The numbers: that
# status; empty: no content, no vectors; garbage: a page of HTML; half: half of the body, then the end; never: silence;
# malformed: broken text, a vector fewer; slow: the head, then the body over `drip` seconds; wrong: JSON, but no answer;
# length: half of the reply, and it says so; think: thoughts before the reply.
FAULTS = ("408", "409", "429", "500", "503", "empty", "garbage", "half", "malformed", "never", "slow", "wrong")
FAULTS_OF_CHATS = ("length", "think")
_ROUTE = re.compile(r"(?:/v1|/openai/deployments/([^/]+))/(chat(?=/completions$)|embeddings$)(?:/completions)?")
_SUMS = ("requests", "answered", "chats", "embeddings", "texts", "prompt_tokens", "completion_tokens", "cached_tokens")
_MARKS = ("most_at_once", "distinct", "repeats", "first_at", "last_at")
_Json = dict[str, Any]
_Made = tuple[bytes, dict[str, int]]  # a response, and what it costs


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What the server does."""

    latency: float = 0.0  # seconds before each answer
    key: str = ""  # the one that is let in; empty: anyone is
    models: list[str] = field(default_factory=list)  # empty: any
    refuses: list[str] = field(default_factory=list)  # request parameters; "json_schema": that response_format only
    window: int = 0  # characters of a prompt, or of one text to embed; 0: no limit
    usage: bool = True  # is reported
    cached: float = 0.0  # share of the prompt tokens that are reported as cached
    retry_after: float = 0.0  # seconds, told with 429 and 503; 0: not told
    faults: dict[str, float] = field(default_factory=dict)  # probabilities
    drip: float = 1.0  # seconds
    down: bool = False  # close every connection, answer nobody
    replies: list[tuple[str, str]] = field(default_factory=list)  # (part of the last message, reply): the first counts
    seed: int = 0
    dimensions: int = 32

    def but(self, changes: dict[str, Any]) -> Behaviour:
        """The same with some of it changed; ValueError for what there is not."""
        known = (*asdict(self), *FAULTS, *FAULTS_OF_CHATS)
        if unknown := [name for name in (*changes, *changes.get("faults", ())) if name not in known]:
            raise ValueError(f"there is no {unknown[0]!r}; there are {', '.join(known)}")
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Server:
    """A fake server in another process."""

    url: str
    process: subprocess.Popen[str]

    def set(self, **behaviour: Any) -> None:
        """Change its behaviour from now on; what is not named stays."""
        self._told("/control", behaviour)

    def counts(self) -> dict[str, Any]:
        return self._told("/counts")

    def reset(self) -> None:
        """Forget what was asked, and count from zero."""
        self._told("/reset", {})

    def stop(self) -> None:
        with self.process:
            self.process.kill()

    def _told(self, path: str, body: object = None) -> dict[str, Any]:
        with closing(HTTPConnection(self.url.split("/")[2], timeout=60)) as connection:
            connection.request("GET" if body is None else "POST", path, json.dumps(body))
            told: dict[str, Any] = json.loads(connection.getresponse().read())
        if "error" in told:
            raise ValueError(told["error"]["message"])
        return told


@contextmanager
def serving(**behaviour: Any) -> Iterator[Server]:
    """A fake server of this behaviour, stopped at the end."""
    command = [sys.executable, "-m", "kumihimo.ports.fake_server"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    server = Server(process.stdout.readline().strip() if process.stdout else "", process)
    try:
        server.set(**behaviour)
        yield server
    finally:
        server.stop()


def main() -> None:
    """Serve at a free port, whose address is printed, till stdin closes."""
    server = _Threads(("127.0.0.1", 0), _Connection)
    server.reset()
    Thread(target=server.serve_forever, daemon=True).start()
    sys.stdout.write(f"http://127.0.0.1:{server.server_address[1]}/v1\n")
    sys.stdout.flush()
    with suppress(KeyboardInterrupt):
        sys.stdin.read()


class _Refused(Exception):
    """status, message, code, param: an answer that is an error."""


def _error(status: int, message: str, code: str = "", param: str = "", *, retry_after: float = 0) -> bytes:
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    told = f"\r\nRetry-After: {retry_after:g}" if retry_after and status in (429, 503) else ""
    error = {"message": message, "type": kind, "param": param or None, "code": code or None}
    return _http({"error": error}, status, "Content-Type: application/json" + told)


def _http(body: object, status: int = 200, headers: str = "Content-Type: application/json") -> bytes:
    if not isinstance(body, bytes):  # half a surrogate pair, which UTF-8 cannot hold, becomes JSON's escape for it
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    sized = "" if "chunked" in headers else f"\r\nContent-Length: {len(body)}"
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{headers}{sized}\r\n\r\n".encode() + body


def _understood(behaviour: Behaviour, deployment: str | None, param: str, sent: bytes) -> tuple[_Json, list[str]]:
    """The request, if this server takes it, and its texts: the messages' contents, or what to embed."""
    body = json.loads(sent)
    model = body["model"] = deployment or body["model"]
    if behaviour.models and model not in behaviour.models:
        raise _Refused(404, f"The model '{model}' does not exist.", "model_not_found", "model")
    given = {name: name for name, value in body.items() if value is not None}
    given[(body.get("response_format") or {}).get("type", "")] = "response_format"
    for name in behaviour.refuses:
        if name in given:
            raise _Refused(400, f"Not supported: '{name}'", "unsupported_parameter", given[name])
    listed = body[param] if isinstance(body[param], list) else [body[param]]
    contents = [message.get("content") or "" for message in listed] if param == "messages" else listed
    texts = [c if param == "input" or isinstance(c, str) else "".join(p.get("text", "") for p in c) for c in contents]
    size = sum(map(len, texts)) if param == "messages" else max(map(len, texts))
    if 0 < behaviour.window < size:
        raise _Refused(400, f"At most {behaviour.window} characters, not {size}", "context_length_exceeded", param)
    return body, texts


def _chat(behaviour: Behaviour, body: _Json, texts: list[str], fault: str) -> _Made:
    text = _reply(behaviour, body, texts[-1])
    cut = text[: len(text) // 2]
    said = {"empty": "", "malformed": '{"' + cut, "length": cut, "think": f"<think>some thoughts\n</think>\n\n{text}"}
    text = said.get(fault, text)
    prompt = max(1, sum(len(content.split()) for content in texts))
    cost = {"prompt_tokens": prompt, "completion_tokens": len(text.split())}
    cached = int(prompt * behaviour.cached + 1e-9)
    usage = {**cost, "total_tokens": sum(cost.values()), "prompt_tokens_details": {"cached_tokens": cached}}
    made = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 0, "model": body["model"]}
    choice = {"message": {"role": "assistant", "content": None if fault == "empty" else text}, "index": 0}
    choice["finish_reason"] = "length" if fault == "length" else "stop"
    made |= {"choices": [choice]} | ({"usage": usage} if behaviour.usage else {})
    raw = _streamed(made, body.get("stream_options") or {}) if body.get("stream") else _http(made)
    return raw, {"answered": 1, "chats": 1, "cached_tokens": cached, **cost}


def _streamed(whole: _Json, options: _Json) -> bytes:
    """A completion as a stream of events."""
    end, text = whole["choices"][0]["finish_reason"], whole["choices"][0]["message"]["content"]
    pieces = [text[i : i + 16] for i in range(0, len(text), 16)] if text else [text]
    said = [{"index": 0, "delta": {"role": "assistant", "content": p}, "finish_reason": None} for p in pieces]
    said.append({"index": 0, "delta": {}, "finish_reason": end})
    chunks: list[_Json] = [{"choices": [choice], "usage": None} for choice in said]
    if "usage" in whole and options.get("include_usage"):
        chunks.append({"choices": [], "usage": whole["usage"]})
    chunks = [whole | {"object": "chat.completion.chunk"} | chunk for chunk in chunks]
    events = [f"data: {event}\n\n".encode() for event in (*map(json.dumps, chunks), "[DONE]")]
    sent = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
    return _http(sent, headers="Content-Type: text/event-stream\r\nTransfer-Encoding: chunked")


def _reply(behaviour: Behaviour, body: _Json, prompt: str) -> str:
    for part, reply in behaviour.replies:
        if part in prompt:
            return reply
    words = prompt.rstrip().rpartition("\n")[2].split()
    sentence = " ".join([*words[:12], "[1]."])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        return json.dumps(_instance(schema, schema, cycle(words or ["text"])), ensure_ascii=False)
    return json.dumps({"text": sentence}, ensure_ascii=False) if form.get("type") == "json_object" else sentence


def _instance(schema: _Json, root: _Json, words: Iterator[str], depth: int = 0) -> Any:
    """The least that satisfies a schema; depth: how many references led here, for schemas may hold themselves."""
    if arms := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return _instance(arms[0 if depth < 6 else -1], root, words, depth)
    if "$ref" in schema:
        found = reduce(lambda held, name: held[name], schema["$ref"].split("/")[1:], root)
        return _instance(found, root, words, depth + 1)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        parts: _Json = schema.get("properties", {})
        return {name: _instance(parts.get(name, {}), root, words, depth) for name in schema.get("required", parts)}
    if kind == "array":
        items = range(max(schema.get("minItems", 0), depth < 6))
        return [_instance(schema.get("items", {}), root, words, depth) for _ in items]
    return next(words) if kind == "string" else {"integer": 1, "number": 1, "boolean": True}.get(kind)


def _vectors(behaviour: Behaviour, body: _Json, texts: list[str], fault: str) -> _Made:
    vectors = FakeEmbedder(body.get("dimensions") or behaviour.dimensions)(texts)
    kept = {"empty": vectors[:0], "malformed": vectors[:-1]}.get(fault, vectors)
    coded = body.get("encoding_format") == "base64"
    values = [b64encode(v.astype("<f4").tobytes()).decode() if coded else v.tolist() for v in kept]
    data = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}} if behaviour.usage else {}
    raw = _http({"object": "list", "model": body["model"], "data": data} | usage)
    return raw, {"answered": 1, "embeddings": 1, "texts": len(texts), "prompt_tokens": tokens}


def _sent(raw: bytes, fault: str) -> list[bytes]:
    """What is written in place of a response, one write each."""
    head, gap, body = raw.partition(b"\r\n\r\n")
    step = len(body) // 20 + 1
    return {
        "garbage": [_http(b"<html><body>Welcome to the proxy</body></html>", headers="Content-Type: text/html")],
        "half": [head + gap + body[: len(body) // 2]],
        "never": [b"", b""],
        "slow": [head + gap, *(body[i : i + step] for i in range(0, len(body), step))],
        "wrong": [_http({"ok": True})],
    }.get(fault, [raw])


class _Threads(ThreadingTCPServer):
    """A thread for each connection, and the books of what was asked and answered."""

    daemon_threads = True
    request_queue_size = 128
    behaviour = Behaviour()
    lock = Lock()
    flying = 0

    def reset(self) -> None:
        self.sums: _Json = dict.fromkeys(_SUMS + _MARKS, 0)
        self.counters = {"statuses": Counter[str](), "faults": Counter[str]()}
        self.asked, self.given = Counter[str](), set[str]()

    @contextmanager
    def visit(self) -> Iterator[list[str]]:
        """A request's time here; what is put into the list was answered whole and well."""
        well: list[str] = []
        with self.lock:
            self.flying += 1
            self.sums["requests"] += 1
            self.sums["first_at"] = self.sums["first_at"] or time.monotonic()
            self.sums["most_at_once"] = max(self.sums["most_at_once"], self.flying)
        try:
            yield well
        finally:
            with self.lock:
                self.flying -= 1
                self.sums["last_at"] = time.monotonic()
                for name in well:
                    self.sums["repeats" if name in self.given else "distinct"] += 1
                    self.given.add(name)

    def draw(self, behaviour: Behaviour, param: str, name: str) -> str:
        """The fault that befalls what has this name, this time."""
        with self.lock:
            self.asked[name] += 1
            drawn = int(digest(str(behaviour.seed), name, str(self.asked[name]))[:13], 16) / 16**13
        for fault, share in sorted(behaviour.faults.items()):
            drawn -= share
            if drawn < 0:
                return "" if param == "input" and fault in FAULTS_OF_CHATS else fault
        return ""

    def note(self, status: str, fault: str, cost: dict[str, int]) -> None:
        with self.lock:
            self.sums |= {name: self.sums[name] + n for name, n in cost.items()}
            self.counters["faults"].update([fault] if fault else [])
            self.counters["statuses"].update([status] if fault != "never" else [])


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Threads

    def log_message(self, *_: object) -> None: ...

    def handle(self) -> None:
        with suppress(OSError):  # the client left, or was left
            super().handle()

    def do_GET(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.partition("?")[0]
        if path in ("/control", "/counts", "/reset"):
            self.connection.sendall(self._controlled(path, sent))
        elif self.command == "POST" and (route := _ROUTE.fullmatch(path)):
            self._answer(self.server.behaviour, route, sent)
        else:
            self.connection.sendall(self._listed(self.server.behaviour, path))

    def do_POST(self) -> None:
        self.do_GET()

    def _controlled(self, path: str, sent: bytes) -> bytes:
        with self.server.lock:
            if path == "/reset":
                self.server.reset()
            if path != "/control":
                return _http(self.server.sums | self.server.counters)
            try:
                self.server.behaviour = self.server.behaviour.but(json.loads(sent))
            except (AttributeError, TypeError, ValueError) as error:
                return _error(400, str(error))
            return _http(asdict(self.server.behaviour))

    def _answer(self, behaviour: Behaviour, route: re.Match[str], sent: bytes) -> None:
        with self.server.visit() as well:
            raw, fault, names = self._made(behaviour, route, sent)
            *pieces, last = _sent(raw, fault) if fault else [raw]
            for piece in pieces:
                self.connection.sendall(piece)
                if self._left(600 if fault == "never" else behaviour.drip / len(pieces)):
                    raise ConnectionAbortedError
            well += names if fault in ("", "slow", "think") and not self._left() else []
        self.connection.sendall(last)  # only now: who has all of it may look at the counts, or ask for more
        self.close_connection |= fault in ("half", "never")

    def _made(self, behaviour: Behaviour, route: re.Match[str], sent: bytes) -> tuple[bytes, str, list[str]]:
        """The response, what befalls it, and the digests of what it answers."""
        fault, cost, names = "", dict[str, int](), list[str]()
        param = "messages" if route[2] == "chat" else "input"
        try:
            self._admit(behaviour)
            body, texts = _understood(behaviour, route[1], param, sent)
            name = digest(param, json.dumps(body[param], sort_keys=True))
            fault = self.server.draw(behaviour, param, name)
            if fault.isdigit():
                raise _Refused(int(fault), f"{HTTPStatus(int(fault)).phrase}: a made-up fault")
            raw, cost = (_vectors if param == "input" else _chat)(behaviour, body, texts, fault)
            names = [digest(text) for text in texts] if param == "input" else [name]
        except _Refused as refused:
            raw = _error(*refused.args, retry_after=behaviour.retry_after)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raw, fault = _error(400, f"This is no proper request: {error!r}"), ""
        self.server.note(raw[9:12].decode(), fault, cost)
        return raw, fault, names

    def _listed(self, behaviour: Behaviour, path: str) -> bytes:
        try:
            self._admit(behaviour)
        except _Refused as refused:
            return _error(*refused.args)
        if path != "/v1/models":
            return _error(404, f"There is no {self.command} {path}")
        models = [{"id": model, "object": "model", "created": 0, "owned_by": "fake"} for model in behaviour.models]
        return _http({"object": "list", "data": models})

    def _admit(self, behaviour: Behaviour) -> None:
        """Let in, after a while, who has the key."""
        time.sleep(0 if behaviour.down else behaviour.latency)
        if self.server.behaviour.down:
            raise ConnectionAbortedError
        given = self.headers.get("Authorization") or f"Bearer {self.headers.get('api-key')}"
        if behaviour.key and given != f"Bearer {behaviour.key}":
            raise _Refused(401, "Incorrect API key provided.", "invalid_api_key")

    def _left(self, seconds: float = 0) -> bool:
        """Whether the client goes away within so many seconds."""
        readable, _, _ = select.select([self.connection], [], [], seconds)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)


if __name__ == "__main__":
    main()
