"""error responses of known servers -> the reason that they name, a remedy, or the request in another form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, RequestRefused
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.openai import OpenAIChat, OpenAIEmbedder
from kumihimo.llm.protocols import ChatRequest, TextsRequest
from tests.fake_clock import FakeClock, clock as clock
from tests.fake_replies import http_response
from tests.raw_server import RawServer, completion, run_raw_server

CLOSE = "Content-Type: application/json\r\nConnection: close"
SHORTER = "lower budget under \\[answer\\] or the method, size under \\[chunks\\]"
TOO_LONG = [  # OpenAI, llama.cpp, LM Studio, Ollama, OpenRouter, vLLM
    (400, {"error": {"message": "Too many tokens.", "code": "context_length_exceeded"}}),
    (400, {"error": {"message": "request (6024 tokens) exceeds the available context size (2048 tokens)"}}),
    (400, {"error": "Trying to keep the first 9 tokens when context the overflows. The context length is only 4"}),
    (400, {"error": "Cannot truncate prompt with n_keep (9) >= n_ctx (4)"}),
    (400, {"error": {"message": "the input length exceeds the context length"}}),
    (400, {"error": {"message": "This endpoint's maximum context length is 4 tokens. Use the middle-out transform"}}),
    (400, {"error": {"message": "This model's maximum context length is 4 tokens and max_tokens is 2"}}),
]


@pytest.fixture
def raw() -> Iterator[RawServer]:
    with run_raw_server(b"") as server:
        yield server


def ask(server: RawServer, schema: dict[str, Any] | None = None, *, stream: bool = False, **settings: Any) -> str:
    """Ask the chat model of a server, with retries."""
    chat = OpenAIChat(model="m", base_url=server.url, retries=2, **settings)
    send = connect_model(chat, chat.server, Budget(), Account("", "m", chat.prices))
    message = {"role": "user", "content": "When?"}
    return send(ChatRequest([message], schema, {"max_tokens": 5}, print if stream else None)).text


@pytest.mark.parametrize(("status", "body"), TOO_LONG)
def test_a_prompt_that_is_too_long_names_the_remedy(raw: RawServer, status: int, body: dict[str, Any]) -> None:
    raw.response = [http_response(body, status, CLOSE)]
    with pytest.raises(RequestRefused, match=SHORTER):
        ask(raw)
    assert len(raw.requests) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("body", [body for _, body in TOO_LONG[1:]])
def test_a_prompt_that_is_too_long_for_an_answer_that_has_begun(
    raw: RawServer, body: dict[str, Any], stream: bool
) -> None:
    raw.response = [http_response(f"data: {json.dumps(body)}\n\n".encode() if stream else body, 200, CLOSE)]
    with pytest.raises(RequestRefused, match=SHORTER):
        ask(raw, stream=stream)
    assert len(raw.requests) == 1


@pytest.mark.parametrize("body", [{"error": "the port is closed"}, {"error": {"message": "the port\nis closed"}}])
def test_the_reason_may_stand_anywhere(raw: RawServer, body: dict[str, Any]) -> None:
    raw.response = [http_response(body, 422, CLOSE)]
    with pytest.raises(RequestRefused, match=r"says: the port is closed \(422\)$"):
        ask(raw)


def test_a_page_is_no_reason(raw: RawServer) -> None:
    raw.response = [http_response(b"<html>no</html>", 422, CLOSE)]
    with pytest.raises(RequestRefused, match=r"says: Unprocessable \w+ \(422\)$"):
        ask(raw)


def test_an_error_in_place_of_an_answer_is_shown_and_tried_again(raw: RawServer, clock: FakeClock) -> None:
    raw.response = [http_response({"error": {"code": 502, "message": "the provider is down"}}, 200, CLOSE)]
    with pytest.raises(ItemFailed, match="the answer broke off: the provider is down, 3 times"):
        ask(raw)
    assert len(raw.requests) == 3


def test_a_stream_without_an_event_points_to_the_window(raw: RawServer, clock: FakeClock) -> None:
    """As of llama-cpp-python, for a prompt that is too long."""
    raw.response = [http_response(b"", 200, CLOSE)]
    with pytest.raises(ItemFailed, match=r"broke off before its first word: .*; the prompt may exceed its window"):
        ask(raw, stream=True)


def test_a_text_that_is_too_long_for_a_batch_is_refused_at_once(raw: RawServer) -> None:
    """Then the batch is split, until only this text fails."""
    message = "input (702 tokens) is too large to process. increase the physical batch size (current batch size: 512)"
    raw.response = [http_response({"error": {"code": 500, "message": message}}, 500, CLOSE)]
    embedder = OpenAIEmbedder(model="m", base_url=raw.url)
    send = connect_model(embedder, embedder.server, Budget(), Account("", "m", embedder.prices))
    with pytest.raises(RequestRefused, match=SHORTER):
        send(TextsRequest(["a long text", "a short one"]))
    assert len(raw.requests) == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "'response_format.type' must be 'json_schema' or 'text'"),
        (400, "Invalid schema for response_format 'reply': In context=(), 'x' is required"),
        (500, "1 validation error: {'loc': ('body', 'response_format', 'type'), 'msg': 'Input should be text'}"),
    ],
)
def test_a_refused_form_of_the_reply_is_not_asked_for_again(raw: RawServer, status: int, message: str) -> None:
    bodies: list[dict[str, Any]] = []

    class Responses(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            bodies.append(json.loads(raw.requests[-1].partition(b"\r\n\r\n")[2]))
            refused = "response_format" in bodies[-1]
            yield http_response({"error": message}, status, CLOSE) if refused else completion("{}")

    raw.response = Responses([b""])
    assert ask(raw, {"type": "object"}) == "{}"
    assert [body.get("response_format", {}).get("type") for body in bodies] == ["json_schema", "json_object", None]


def test_a_wrong_value_of_a_parameter_does_not_remove_it(raw: RawServer) -> None:
    raw.response = [http_response({"error": {"message": "max_tokens must be at least 16"}}, 400, CLOSE)]
    with pytest.raises(RequestRefused, match=r"max_tokens must be at least 16 \(400\)$"):
        ask(raw)
    assert len(raw.requests) == 1


# -- the circuit


def test_a_server_that_was_given_up_is_tried_once_after_each_pause(raw: RawServer, clock: FakeClock) -> None:
    chat = OpenAIChat(model="m", base_url=raw.url, retries=0, workers=1, patience=60.0)
    send = connect_model(chat, chat.server, Budget(), Account("", "m", chat.prices))
    request = ChatRequest([{"role": "user", "content": "When?"}])

    def count_requests(tries: int) -> int:
        """Return how many of these tries reach the server."""
        before = len(raw.requests)
        for _ in range(tries):
            with pytest.raises(ItemFailed):
                send(request)
        return len(raw.requests) - before

    raw.response = [http_response({"error": {"message": "Out of order."}}, 503, CLOSE)]
    assert count_requests(20) == chat.server.failure_limit == 8
    clock.now = 59.0
    assert count_requests(3) == 0
    clock.now = 60.0
    assert count_requests(3) == 1
    clock.now = 119.0
    assert count_requests(3) == 0
    clock.now, raw.response = 120.0, [completion("At ten.")]
    assert [send(request).text for _ in range(3)] == ["At ten."] * 3
    assert not clock.stopped  # requests wait for the rate limit again


def test_while_a_server_is_tried_others_do_not_ask(raw: RawServer, clock: FakeClock) -> None:
    server = OpenAIChat(model="m", base_url=raw.url, workers=1, patience=60.0).server
    server.count_failure(8)
    clock.now, raw.response = 60.0, [completion("At ten.")]
    with server.post("/chat/completions", {}) as response:
        with pytest.raises(ItemFailed, match="not asked"), server.post("/chat/completions", {}):
            pass
        assert "At ten." in response.read().decode()
    with server.post("/chat/completions", {}) as response:
        response.read()
    assert len(raw.requests) == 2
