"""requests of the OpenAI protocol -> replies at once, and counts by library: a process of its own.

The first part of the path names the library: `/lightrag/v1/chat/completions`. `GET /lightrag/counts` returns its counts
and forgets them. `GET /lightrag/prompts` returns the conversations that asked for an answer, and forgets them. Tokens
are counted by the built-in tokenizer, and the built-in embedder makes the vectors.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64encode
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from typing import Any

from benchmarks.instant import InstantRegistry, count_tokens
from benchmarks.peers.answers import Replier
from benchmarks.peers.extraction import Extractor, read_recorded
from kumihimo import Kumihimo
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.text import lazy_numpy as np

ROOT = Path(__file__).parents[2]
DIMENSIONS = 256
MODEL = "gpt-4o-mini"  # a name that the tokenizers of all libraries know
EMBEDDER = "text-embedding-3-small"
Json = dict[str, Any]


@dataclass(slots=True)
class Ledger:
    """What one library has asked for since it was last read."""

    counts: Counter[str] = field(default_factory=Counter)
    prompts: list[str] = field(default_factory=list)  # of answers


@dataclass(slots=True)
class Answerer:
    """A path and a body -> a body; the counts by library."""

    replier: Replier
    ledgers: defaultdict[str, Ledger] = field(default_factory=lambda: defaultdict(Ledger))
    lock: Lock = field(default_factory=Lock)

    def get(self, path: str) -> Json:
        library, _, what = path.strip("/").partition("/")
        with self.lock:
            ledger = self.ledgers[library]
            if what == "counts":
                counts, ledger.counts = ledger.counts, Counter()
                return dict(counts)
            prompts, ledger.prompts = ledger.prompts, []
            return {"prompts": prompts}

    def post(self, path: str, body: Json) -> Json:
        library = path.strip("/").partition("/")[0]
        return self._embed(library, body) if path.endswith("/embeddings") else self._chat(library, body)

    def _chat(self, library: str, body: Json) -> Json:
        kind, text = self.replier.reply(body["messages"])
        contents = [message.get("content") or "" for message in body["messages"]]
        prompt = "\n\n".join(text if isinstance(text, str) else json.dumps(text) for text in contents)
        tokens = {"prompt_tokens": count_tokens(prompt), "completion_tokens": count_tokens(text)}
        with self.lock:
            ledger = self.ledgers[library]
            ledger.counts.update({"calls": 1, f"calls: {kind}": 1, **tokens})
            ledger.counts["prompt_bytes"] += len(prompt.encode())
            if kind == "answer":
                ledger.prompts.append(prompt)
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        usage = tokens | {"total_tokens": sum(tokens.values())}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": body["model"]}
        return head | {"choices": [choice], "usage": usage}

    def _embed(self, library: str, body: Json) -> Json:
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = LocalEmbedder()(texts)
        values: list[Any] = list(vectors.tolist())
        if body.get("encoding_format") == "base64":
            values = [b64encode(np.asarray(vector, "<f4").tobytes()).decode() for vector in vectors]
        tokens = sum(map(count_tokens, texts))
        with self.lock:
            self.ledgers[library].counts.update({"embedding_calls": 1, "embedded": len(texts)})
            self.ledgers[library].counts["embedded_tokens"] += tokens
        data = [{"object": "embedding", "index": n, "embedding": value} for n, value in enumerate(values)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "model": body["model"], "data": data, "usage": usage}


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128
    answerer: Answerer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, *_: object) -> None: ...

    def handle(self) -> None:
        with suppress(OSError):  # the client closed the connection
            super().handle()

    def do_GET(self) -> None:
        self._send(200, self.server.answerer.get(self.path))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            reply = self.server.answerer.post(self.path, body)
            self._stream(reply) if body.get("stream") else self._send(200, reply)
        except (LookupError, StopIteration, TypeError, ValueError) as error:
            message = f"no reply to this: {error!r}: {json.dumps(body)[:2000]}"
            print(message, file=sys.stderr, flush=True)
            self._send(400, {"error": {"message": message, "type": "invalid_request_error"}})

    def _stream(self, reply: Json) -> None:
        """Send a chat completion word by word."""
        text = reply["choices"][0]["message"]["content"]
        head = {name: reply[name] for name in ("id", "created", "model")}
        head["object"] = "chat.completion.chunk"
        deltas: list[Json] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": word} for word in re.findall(r"\S+\s*|\s+", text)]
        chunks: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(f"data: {json.dumps(head | {'choices': [chunk]})}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def _send(self, status: int, body: Json) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def create_answerer(recorded: Path, folder: Path) -> Answerer:
    """Return the model.

    recorded: a file of extractions, if it exists. folder: of an index that stays empty.
    """
    extractor = Extractor(read_recorded(recorded) if recorded.exists() else {})
    models = Kumihimo.open(folder / ".kumi").models
    return Answerer(Replier(extractor, InstantRegistry(models.settings, models.cache)))


@contextmanager
def serve(answerer: Answerer) -> Iterator[str]:
    """Serve at a free port; give the address."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.answerer = answerer
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def main() -> None:
    """Serve until stdin closes; print the address."""
    LocalEmbedder()(["loaded before the first request"])
    with TemporaryDirectory() as folder, serve(create_answerer(Path(sys.argv[1]), Path(folder))) as url:
        print(url, flush=True)
        with suppress(KeyboardInterrupt):
            sys.stdin.read()


@dataclass(frozen=True, slots=True)
class PeerServer:
    """The server in another process."""

    url: str

    def counts(self, library: str) -> dict[str, int]:
        """Return the counts since the last call."""
        return self._get(f"/{library}/counts")

    def prompts(self, library: str) -> list[str]:
        """Return the prompts for answers since the last call."""
        prompts: list[str] = self._get(f"/{library}/prompts")["prompts"]
        return prompts

    def _get(self, path: str) -> Json:
        with closing(HTTPConnection(self.url.split("/")[2], timeout=60)) as connection:
            connection.request("GET", path)
            reply: Json = json.loads(connection.getresponse().read())
            return reply


@contextmanager
def run_peer_server(recorded: Path) -> Iterator[PeerServer]:
    """Run the server; stop it at the end."""
    command = [sys.executable, "-m", "benchmarks.peers.server", str(recorded)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield PeerServer(process.stdout.readline().strip() if process.stdout else "")
        finally:
            process.kill()


if __name__ == "__main__":
    main()
