"""request -> response of an OpenAI server, or one of its faults: the contents of the fake server."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from http import HTTPStatus
from itertools import cycle
from typing import Any

from kumihimo.testing.fake_models import FakeEmbedder

# The fault of a request is drawn by its digest and the number of times it was sent, so that the order of requests does
# not matter. A number: that status; empty: no content, vectors or scores; garbage: a page of HTML; half: half of the
# body; never: no response; malformed: broken text, a vector less, an unknown document; slow: the head, then the body
# over `drip` seconds; wrong: JSON, but no answer; length: half of the reply, and its finish reason; think: reasoning
# before the reply.
FAULTS = ("408", "409", "429", "500", "503", "empty", "garbage", "half", "malformed", "never", "slow", "wrong")
CHAT_FAULTS = ("length", "think")
_TAG = re.compile(r"^</?[a-z_]+(?:-\d+)?(?: [^>\n]*)?>$", re.M)  # around a text of a prompt
Json = dict[str, Any]
FakeResponse = tuple[bytes, dict[str, int]]  # a response, and its counts


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Behaviour of the fake server."""

    latency: float = 0.0  # seconds before each answer
    key: str = ""  # the valid key; empty: any
    models: list[str] = field(default_factory=list)  # empty: any
    refuses: list[str] = field(default_factory=list)  # request parameters; "json_schema": that response_format only
    window: int = 0  # characters of a prompt, or of one text to embed or rerank; 0: no limit
    usage: bool = True  # report usage
    cached: float = 0.0  # share of prompt tokens to report as cached
    retry_after: float = 0.0  # seconds, a header of 429 and 503; 0: no header
    faults: dict[str, float] = field(default_factory=dict)  # probabilities
    drip: float = 1.0  # seconds
    down: bool = False  # close every connection without a response
    replies: list[tuple[str, str]] = field(
        default_factory=list
    )  # (part of the last message, reply): the first match counts
    seed: int = 0
    dimensions: int = 32
    reads_graph: bool = False  # reply as `fake_graph_reader` does
    batches: bool = True  # offer /files and /batches
    batch_polls: int = 0  # how often a batch is not done yet when it is looked at
    batch_end: str = "completed"  # the last state of a batch: also failed, expired (half of it is done)
    batch_files_stay: bool = False  # refuse to delete them
    batch_changes: dict[str, Any] = field(default_factory=dict)  # of each batch that is shown
    batch_lost: int = 0  # how many times a batch is created, and the connection is closed without an answer

    def with_changes(self, changes: dict[str, Any]) -> "Behaviour":
        """Return a changed copy. Raise ValueError for an unknown name."""
        names = (*asdict(self), *FAULTS, *CHAT_FAULTS)
        if unknown := [name for name in (*changes, *changes.get("faults", ())) if name not in names]:
            raise ValueError(f"there is no {unknown[0]!r}; there are {', '.join(names)}")
        return replace(self, **changes)


class FakeRefusal(Exception):
    """An error response: status, message, code, param."""


def error_response(status: int, message: str, code: str = "", param: str = "", *, retry_after: float = 0) -> bytes:
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    retry_header = f"\r\nRetry-After: {retry_after:g}" if retry_after and status in (429, 503) else ""
    error = {"message": message, "type": kind, "param": param or None, "code": code or None}
    return http_response({"error": error}, status, "Content-Type: application/json" + retry_header)


def http_response(body: object, status: int = 200, headers: str = "Content-Type: application/json") -> bytes:
    if not isinstance(body, bytes):  # half a surrogate pair, which UTF-8 cannot hold, becomes JSON's escape for it
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    length_header = "" if "chunked" in headers else f"\r\nContent-Length: {len(body)}"
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n{headers}{length_header}\r\n\r\n".encode() + body


def parse_request(behaviour: Behaviour, deployment: str | None, param: str, raw: bytes) -> tuple[Json, list[str]]:
    """Return the request, if this server accepts it, and its texts.

    Its texts are the contents of the messages, or the texts to embed or to rerank.
    """
    body = json.loads(raw)
    model = body["model"] = deployment or body["model"]
    if behaviour.models and model not in behaviour.models:
        raise FakeRefusal(404, f"The model '{model}' does not exist.", "model_not_found", "model")
    parameters = {name: name for name, value in body.items() if value is not None}
    parameters[(body.get("response_format") or {}).get("type", "")] = "response_format"
    for name in behaviour.refuses:
        if name in parameters:
            raise FakeRefusal(400, f"Not supported: '{name}'", "unsupported_parameter", parameters[name])
    items = body[param] if isinstance(body[param], list) else [body[param]]
    contents = [message.get("content") or "" for message in items] if param == "messages" else items
    chats = param == "messages"
    texts = ["".join(p.get("text", "") for p in c) if chats and not isinstance(c, str) else c for c in contents]
    size = sum(map(len, texts)) if chats else max(map(len, texts))
    if 0 < behaviour.window < size:
        raise FakeRefusal(400, f"At most {behaviour.window} characters, not {size}", "context_length_exceeded", param)
    return body, texts


def chat_response(behaviour: Behaviour, body: Json, texts: list[str], fault: str) -> FakeResponse:
    text = _reply_text(behaviour, body, texts[-1])
    half = text[: len(text) // 2]
    thinking = f"<think>some thoughts\n</think>\n\n{text}"
    by_fault = {"empty": "", "malformed": '{"' + half, "length": half, "think": thinking}
    text = by_fault.get(fault, text)
    prompt = max(1, sum(len(content.split()) for content in texts))
    cost = {"prompt_tokens": prompt, "completion_tokens": len(text.split())}
    cached = int(prompt * behaviour.cached + 1e-9)
    usage = {**cost, "total_tokens": sum(cost.values()), "prompt_tokens_details": {"cached_tokens": cached}}
    completion = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 0, "model": body["model"]}
    choice = {"message": {"role": "assistant", "content": None if fault == "empty" else text}, "index": 0}
    choice["finish_reason"] = "length" if fault == "length" else "stop"
    completion |= {"choices": [choice]} | ({"usage": usage} if behaviour.usage else {})
    if body.get("stream"):
        raw = _stream_response(completion, body.get("stream_options") or {})
    else:
        raw = http_response(completion)
    return raw, {"answered": 1, "chats": 1, "cached_tokens": cached, **cost}


def _stream_response(completion: Json, options: Json) -> bytes:
    """Return a completion as a stream of events."""
    finish_reason, text = completion["choices"][0]["finish_reason"], completion["choices"][0]["message"]["content"]
    pieces = [text[i : i + 16] for i in range(0, len(text), 16)] if text else [text]
    choices = [{"index": 0, "delta": {"role": "assistant", "content": p}, "finish_reason": None} for p in pieces]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish_reason})
    chunks: list[Json] = [{"choices": [choice], "usage": None} for choice in choices]
    if "usage" in completion and options.get("include_usage"):
        chunks.append({"choices": [], "usage": completion["usage"]})
    chunks = [completion | {"object": "chat.completion.chunk"} | chunk for chunk in chunks]
    events = [f"data: {event}\n\n".encode() for event in (*map(json.dumps, chunks), "[DONE]")]
    raw = b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
    return http_response(raw, headers="Content-Type: text/event-stream\r\nTransfer-Encoding: chunked")


def _reply_text(behaviour: Behaviour, body: Json, prompt: str) -> str:
    for fragment, reply in behaviour.replies:
        if fragment in prompt:
            return reply
    if behaviour.reads_graph:
        from tests.fake_graph_reader import answer

        return answer("\n\n".join(message["content"] for message in body["messages"]))
    words = _TAG.sub("", prompt).rstrip().rpartition("\n")[2].split()
    sentence = " ".join([*words[:12], "[1]."])
    form = body.get("response_format") or {}
    if form.get("type") == "json_schema":
        schema = form["json_schema"]["schema"]
        return json.dumps(_minimal_instance(schema, schema, cycle(prompt.split() or ["text"])), ensure_ascii=False)
    return json.dumps({"text": sentence}, ensure_ascii=False) if form.get("type") == "json_object" else sentence


def _minimal_instance(schema: Json, root: Json, words: Iterator[str], depth: int = 0) -> Any:
    """Return the smallest value that satisfies a schema.

    depth: how many references led here, since schemas may refer to themselves.
    """
    if options := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return _minimal_instance(options[0 if depth < 6 else -1], root, words, depth)
    if "$ref" in schema:
        target = reduce(lambda node, name: node[name], schema["$ref"].split("/")[1:], root)
        return _minimal_instance(target, root, words, depth + 1)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        parts: Json = schema.get("properties", {})
        return {
            name: _minimal_instance(parts.get(name, {}), root, words, depth) for name in schema.get("required", parts)
        }
    if kind == "array":
        items = range(max(schema.get("minItems", 0), depth < 6))
        return [_minimal_instance(schema.get("items", {}), root, words, depth) for _ in items]
    return (
        " ".join(next(words) for _ in range(5))
        if kind == "string"
        else {"integer": 1, "number": 1, "boolean": True}.get(kind)
    )


def embedding_response(behaviour: Behaviour, body: Json, texts: list[str], fault: str) -> FakeResponse:
    embeddings = FakeEmbedder(body.get("dimensions") or behaviour.dimensions)(texts)
    returned = {"empty": embeddings[:0], "malformed": embeddings[:-1]}.get(fault, embeddings)
    is_base64 = body.get("encoding_format") == "base64"
    values = [b64encode(v.astype("<f4").tobytes()).decode() if is_base64 else v.tolist() for v in returned]
    data = [{"object": "embedding", "index": i, "embedding": value} for i, value in enumerate(values)]
    tokens = sum(len(text.split()) for text in texts)
    usage = {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}} if behaviour.usage else {}
    raw = http_response({"object": "list", "model": body["model"], "data": data} | usage)
    return raw, {"answered": 1, "embeddings": 1, "texts": len(texts), "prompt_tokens": tokens}


def rerank_response(behaviour: Behaviour, body: Json, texts: list[str], fault: str) -> FakeResponse:
    """Return a rerank response as Cohere and Jina write it, best first.

    A document scores the share of the query's words that it has.
    """
    query_words = set(body["query"].casefold().split())
    shares = [len(query_words & set(text.casefold().split())) / max(len(query_words), 1) for text in texts]
    order = sorted(range(len(texts)), key=lambda n: (-shares[n], n))[: body.get("top_n")]
    results = [{"index": n, "relevance_score": shares[n]} for n in order]
    if fault == "malformed":
        results[-1]["index"] = len(texts)
    tokens = sum(len(text.split()) for text in (body["query"], *texts))
    usage = {"usage": {"total_tokens": tokens}} if behaviour.usage else {}
    raw = http_response({"model": body["model"], "results": [] if fault == "empty" else results} | usage)
    return raw, {"answered": 1, "rerankings": 1, "prompt_tokens": tokens}


def response_pieces(raw: bytes, fault: str) -> list[bytes]:
    """Return the writes that replace a response under a fault."""
    head, gap, body = raw.partition(b"\r\n\r\n")
    step = len(body) // 20 + 1
    return {
        "garbage": [
            http_response(b"<html><body>Welcome to the proxy</body></html>", headers="Content-Type: text/html")
        ],
        "half": [head + gap + body[: len(body) // 2]],
        "never": [b"", b""],
        "slow": [head + gap, *(body[i : i + step] for i in range(0, len(body), step))],
        "wrong": [http_response({"ok": True})],
    }.get(fault, [raw])
