"""answers of model servers that lie -> a reply or a clear error for each, and one request.

Each lie is the answer to one request: to a chat, a stream, texts to embed, texts to score, or about a batch job.
Another value stands in a place of the answer, or nothing; it is nested deeper than the stack; lengths, encodings and
headers are wrong; bodies, headers and events have no end.
"""

from __future__ import annotations

import json
import signal
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, repeat
from threading import Event, Thread
from time import perf_counter
from types import FrameType
from typing import Any

from benchmarks.meter import check_at_most
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.core.errors import KumiError
from kumihimo.llm.batch import BatchServer
from kumihimo.llm.openai import OpenAIChat, OpenAIEmbedder
from kumihimo.llm.protocols import ChatRequest, Prices, TextsRequest
from kumihimo.llm.rerank import RerankClient
from kumihimo.llm.retry import retrying

Lie = Iterable[bytes]  # the pieces of an answer
MAX_SECONDS = 10
VALUES: list[Any] = [
    None,
    7,
    -1,
    1e400,
    float("nan"),
    10**400,
    True,
    "",
    "a\x00b",
    "\ud800",
    [],
    {},
    ["a"],
    [None],
    [[["a"]]],
]
VALUES += [{"text": "x"}, [{"text": 7}], {"data": "x"}, {"data": [None]}]
JSON_TYPE = "Content-Type: application/json"
DONE = b"data: [DONE]\n\n"
JOB: dict[str, Any] = {"id": "batch_1", "status": "completed", "output_file_id": "file-2", "input_file_id": "file-1"}
JOB |= {"request_counts": {"total": 1, "completed": 1, "failed": 0}, "metadata": {"kumihimo": "one"}}


def answer(body: object, status: str = "200 OK", headers: str = JSON_TYPE) -> bytes:
    """Return an HTTP answer that ends with its connection."""
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\n{headers}\r\nConnection: close\r\n\r\n".encode() + encoded


def wire_lies() -> dict[str, Lie]:
    """Return answers that break HTTP or JSON, or have no end."""
    deep = {
        f"{n:,} times {pair}": (pair[0] * n + pair[1] * n).encode() for n in (470, 100_000) for pair in ("[]", "{}")
    }
    lies: dict[str, Lie] = {name: [answer(body)] for name, body in deep.items()}
    lies |= {f"error, {name}": [answer(b'{"error":' + body + b"}", "400 Bad")] for name, body in deep.items()}
    lies |= {f"error {value!r:.20}": [answer({"error": {"message": value, "code": value}})] for value in VALUES}
    lies |= {
        f"400 {value!r:.20}": [answer({"error": {"message": value, "code": value}}, "400 Bad")] for value in VALUES
    }
    bodies = (b"", b"<html>", b"null", b"5", b"[]", b"{", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"NaN", b"9" * 5000)
    lies |= {repr(body[:9]): [answer(body)] for body in bodies}
    lies |= {
        status: [answer(b"{}", status)]
        for status in ("000 ?", "101 Switch", "204 No", "206 Part", "302 Found", "999 ?")
    }
    waits = ("nan", "inf", "-5", "1e308", "(" * 5000, "Fri, 31 Dec 9999 23:59:59 GMT")
    lies |= {f"wait {wait[:9]}": [answer(b"{}", "429 Slow", f"Retry-After: {wait}")] for wait in waits}
    headers = ["Content-Encoding: gzip", "Content-Length: 5", "Content-Length: -5", "Content-Length: 9999"]
    headers += ["Content-Length: 1\r\nContent-Length: 2", "Transfer-Encoding: chunked", "Location: http://[::1"]
    lies |= {header: [answer({"choices": []}, headers=header)] for header in headers}
    lies |= {"no HTTP": [b"hello\r\n\r\n"], "nothing": [], "half a head": [b"HTTP/1.1 200 OK\r\nContent-"]}
    for status in ("200 OK", "400 Bad", "500 Down"):
        lies[f"endless {status}"] = chain([answer(b'{"a": "', status)], repeat(b"a" * 65_536))
    lies["endless headers"] = chain([b"HTTP/1.1 200 OK\r\n"], repeat(b"X-A: " + b"a" * 1000 + b"\r\n"))
    for name, event in (("pings", b": ping\n\n"), ("tokens", b'data: {"choices":[{"delta":{"content":"a "}}]}\n\n')):
        lies[f"endless {name}"] = chain([answer(b"", headers="Content-Type: text/event-stream")], repeat(event * 500))
    return lies


def object_lies(name: str, whole: Any) -> Iterator[tuple[str, Lie]]:
    """Yield answers with another value in each place of an object, or without it."""
    for place, changed in _changed(whole):
        yield f"{name} {place}", [answer(changed)]


def _changed(whole: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    keys = whole if isinstance(whole, dict) else range(len(whole)) if isinstance(whole, list) else ()
    for key in keys:
        inner: dict[Any, Any] | list[Any] = {**whole} if isinstance(whole, dict) else [*whole]
        for value in VALUES:
            inner[key] = value
            yield f"{path}.{key} = {value!r:.20}", inner
        for place, value in _changed(whole[key], f"{path}.{key}"):
            inner[key] = value
            yield place, inner
    if isinstance(whole, dict):
        yield from ((f"{path} without {key}", {k: v for k, v in whole.items() if k != key}) for key in keys)


def stream_lies(lies: Iterable[tuple[str, Lie]]) -> Iterator[tuple[str, Lie]]:
    """Yield the same answers as the second event of a stream."""
    begin = b'data: {"choices":[{"index":0,"delta":{"content":"Ni"}}]}\n\n'
    for name, pieces in lies:
        body = b"".join(pieces).partition(b"\r\n\r\n")[2]
        event = body.replace(b'"message"', b'"delta"')
        yield name, [answer(begin + b"data: " + event + b"\n\n" + DONE, headers="Content-Type: text/event-stream")]


@contextmanager
def serve(pieces: Lie) -> Iterator[tuple[str, list[int]]]:
    """Run a server that gives this answer; yield its address and the number of requests."""
    stopped, asked = Event(), [0]

    def respond(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head, _, body = _read_head(connection).partition(b"\r\n\r\n")
            sizes = [int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
            while len(body) < sum(sizes):
                body += connection.recv(65_536)
            asked[0] += 1
            for piece in pieces:
                if stopped.is_set():
                    return
                connection.sendall(piece)

    def accept() -> None:
        with suppress(OSError):
            while True:
                Thread(target=respond, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", asked
        stopped.set()
        listener.shutdown(socket.SHUT_RDWR)


def _read_head(connection: socket.socket) -> bytes:
    request = b""
    while b"\r\n\r\n" not in request:
        request += connection.recv(65_536) or b"\r\n\r\n"
    return request


def ask_chat(url: str) -> None:
    chat = OpenAIChat(model="m", base_url=url, retries=0, timeout=3.0, max_tokens=100)
    retrying(chat, chat.server)(ChatRequest([{"role": "user", "content": "When?"}]))


def ask_stream(url: str) -> None:
    chat = OpenAIChat(model="m", base_url=url, retries=0, timeout=3.0, max_tokens=100)
    retrying(chat, chat.server)(ChatRequest([{"role": "user", "content": "When?"}], on_token=lambda _: None))


def ask_embedder(url: str) -> None:
    embedder = OpenAIEmbedder(model="m", base_url=url, retries=0, timeout=3.0)
    retrying(embedder, embedder.server)(TextsRequest(("tide",)))


def ask_reranker(url: str) -> None:
    reranker = RerankClient(model="m", base_url=url, retries=0, timeout=3.0)
    retrying(reranker, reranker.server)(TextsRequest(("tide",), question="When?"))


def ask_batch(url: str) -> None:
    """Look for a job, and collect it; each answer may be the lie."""
    batches, errors = BatchServer(OpenAIChat(model="m", base_url=url, retries=0, timeout=3.0).server), list[KumiError]()
    acts: list[Callable[[], object]] = [partial(batches.find, "one"), partial(_collect, batches)]
    acts += [partial(batches.submit, "other", [b"{}"])]
    for act in acts:
        try:
            act()
        except KumiError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def _collect(batches: BatchServer) -> None:
    job = batches.job("batch_1")
    batches.results(job, {b"\1": 1}, Prices())
    batches.delete_files(job)


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Nine.", "refusal": None}, "finish_reason": "stop"}
USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
LINE = {"custom_id": "01", "response": {"status_code": 200, "body": {"choices": [CHOICE]}}, "error": {"message": "no"}}


def all_lies() -> dict[str, tuple[Callable[[str], None], dict[str, Lie]]]:
    """Return the door and the lies of each kind of request."""
    chat = dict(object_lies("chat", {"choices": [CHOICE], "usage": USAGE, "error": None}))
    vectors = {"data": [{"index": 0, "embedding": [1.0, 0.5]}], "usage": {"prompt_tokens": 1}, "error": None}
    scores = {
        "results": [{"index": 0, "relevance_score": 0.5}],
        "meta": {"billed_units": {"search_units": 1}},
        "error": None,
    }
    jobs = {
        **dict(object_lies("job", JOB | {"errors": {"data": [{"message": "no"}]}})),
        **dict(object_lies("result", LINE)),
    }
    jobs |= dict(object_lies("list", {"data": [JOB], "has_more": True}))
    return {
        "chat": (ask_chat, chat),
        "stream": (ask_stream, dict(stream_lies(chat.items()))),
        "embeddings": (ask_embedder, dict(object_lies("vectors", vectors))),
        "rerank": (ask_reranker, dict(object_lies("scores", scores))),
        "batch": (ask_batch, jobs),
    }


def _end(_: int, __: FrameType | None) -> None:
    raise TimeoutError(f"it does not end within {MAX_SECONDS} s")


def tell(ask: Callable[[str], None], name: str, pieces: Lie) -> str:
    """Return what comes of a lie: read, an error, or a fault."""
    started = perf_counter()
    with serve(pieces) as (url, asked):
        signal.alarm(MAX_SECONDS)
        try:
            ask(url)
            outcome = "read"
        except KumiError as error:
            outcome = "a clear error" if str(error) and "Traceback" not in str(error) else "an empty error"
        except Exception as error:  # noqa: BLE001 (a user would see a traceback)
            outcome = f"fault: {type(error).__name__}: {str(error)[:100]}"
        finally:
            signal.alarm(0)
    if outcome not in ("read", "a clear error"):
        print(f"  {name}: {outcome}, {asked[0]} requests, {perf_counter() - started:.1f} s")
    if ask is not ask_batch and asked[0] > 1:
        print(f"  {name}: {asked[0]} requests")
        return "asked twice"
    return outcome.partition(":")[0]


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--every", type=int, default=1, help="try only one of so many lies")
    options = read_options(parser, argv, every=60)
    signal.signal(signal.SIGALRM, _end)
    for kind, (ask, lies) in all_lies().items():
        outcomes: Counter[str] = Counter()
        chosen = [*({**lies} if options.quick else {**lies, **wire_lies()}).items()][:: options.every]
        for name, pieces in chosen:
            outcomes[tell(ask, f"{kind}, {name}", pieces)] += 1
        print(f"{kind}: {len(chosen):,} lies: {dict(outcomes)}")
        check_at_most(f"faults of {kind}", len(chosen) - outcomes["read"] - outcomes["a clear error"], 0)


if __name__ == "__main__":
    run_benchmark(main)
