"""unusual bodies and settings -> a reply, a retry, or an error with its remedy; never anything else."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, SettingsError
from kumihimo.core.settings import resolve_settings
from kumihimo.core.usage import Usage
from kumihimo.llm import openai
from kumihimo.llm.budget import Account, Budget
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.openai import OpenAIChat, _chat_usage, _parse_completion, _parse_vectors, _read_stream
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.llm.rerank import parse_scores
from kumihimo.llm.response_body import read_json_body
from kumihimo.llm.transport import ModelServer
from kumihimo.storage.response_cache import ResponseCache
from tests.fake_clock import FakeClock, clock as clock
from tests.fake_replies import http_response
from tests.fake_server import FakeServer
from tests.raw_server import run_raw_server

NESTED: Any = "x"
for _ in range(480):
    NESTED = [{"text": NESTED}]


def body(content: Any, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}], **more}


@pytest.mark.parametrize(
    ("content", "text"),
    [("At nine.", "At nine."), (None, ""), ([{"type": "text", "text": "At "}, {"text": "nine."}], "At nine.")],
)
def test_a_message_is_a_text_or_texts_in_parts(content: Any, text: str) -> None:
    assert _parse_completion(body(content)) == (text, "stop", {})


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"ok": True},
        {"choices": []},
        {"choices": [None]},
        {"choices": "x"},
        body(5),
        body(0),
        body(False),
        body({}),
        body([{"text": {}}]),
        {"choices": [{"message": {"content": "x"}, "finish_reason": []}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": False}]},
        body({"a": 1}),
        body([1]),
        body(NESTED),
        {"choices": [{"message": {"content": "x"}, "finish_reason": {"why": "stop"}}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": 5}]},
    ],
)
def test_a_body_that_is_no_completion_is_requested_again(strange: dict[str, Any]) -> None:
    with pytest.raises(FailedTry, match="not have the form of a model server"):
        _parse_completion(strange)


def test_a_second_choice_is_not_part_of_the_reply() -> None:
    choices = [{"index": n, "message": {"content": text}, "finish_reason": "stop"} for n, text in ((1, "B"), (0, "A"))]
    assert _parse_completion({"choices": choices})[0] == "A"
    deltas = [{"index": n, "delta": {"content": text}} for n, text in ((0, "A"), (1, "B"), (0, "C"))]
    lines = [f"data: {json.dumps({'choices': [{**delta, 'finish_reason': 'stop'}]})}" for delta in deltas]
    tokens: list[str] = []
    assert _read_stream(lines, lambda _: None, tokens, 60.0)[0] == "stop"
    assert tokens == ["A", "C"]


def test_an_error_of_any_depth_is_reported() -> None:
    with pytest.raises(FailedTry, match="broke off"):
        _parse_completion({"error": NESTED})


@pytest.mark.parametrize("strange", [b"", b"<html>", b"[1", b"[" * 100_000, b"\xff\xfe"])
def test_a_body_that_is_no_json_is_requested_again(strange: bytes) -> None:
    with pytest.raises(FailedTry):
        read_json_body([strange], 60.0)


@pytest.mark.parametrize(
    "event",
    [
        '{"choices": [null]}',
        '{"choices": [{"delta": "x"}]}',
        '{"choices": [{"delta": {"content": 5}}]}',
        "[]",
        '{"choices": [{"delta": {"content": [{"text": [{"text": "x"}]}]}}]}',
        '{"choices": [{"delta": {"content": "x"}, "finish_reason": ["stop"]}]}',
        '{"choices": [{"delta": {"content": "x"}, "finish_reason": 5}]}',
    ],
)
def test_an_invalid_event_is_requested_again(event: str) -> None:
    with pytest.raises(FailedTry, match="not have the form of a model server"):
        _read_stream([f"data: {event}"], lambda _: None, [], 60.0)


def test_a_refusal_in_a_stream_is_one_as_in_a_whole_reply() -> None:
    deltas = [{"delta": {"refusal": "I cannot"}}, {"delta": {}, "finish_reason": "stop"}]
    lines = [f"data: {json.dumps({'choices': [delta]})}" for delta in deltas]
    assert _read_stream(lines, lambda _: None, [], 60.0)[0] == "content_filter"


def test_a_server_that_does_not_stream_sends_its_reply_as_a_line() -> None:
    tokens: list[str] = []
    line = json.dumps(body("At nine.", usage={"completion_tokens": 3}))
    assert _read_stream([line], tokens.append, [], 60.0) == ("stop", {"completion_tokens": 3})
    assert tokens == ["At nine."]


def test_a_server_that_ignores_the_length_limit_is_cut_off() -> None:
    event = f"data: {json.dumps({'choices': [{'delta': {'content': 'tide ' * 10}}]})}"
    pieces: list[str] = []
    lines = (event for _ in range(1000))
    assert _read_stream(lines, pieces.append, [], 60.0, openai._max_chars({"max_tokens": 10})) == ("length", {})
    assert 320 < len("".join(pieces)) < 400
    assert openai._max_chars({}) == float("inf")


def test_a_stream_is_passed_on_token_by_token() -> None:
    pieces: list[str] = []
    deltas = [{"delta": {"content": text}, "finish_reason": None} for text in ("At ", "nine\ud800.")]
    events = [{"choices": [delta]} for delta in deltas] + [{"choices": [{"delta": {}, "finish_reason": "stop\ud800"}]}]
    lines = [": ping", "", *(f"data: {json.dumps(event)}" for event in events), 'data: {"usage": [1]}', "data: [DONE]"]
    tokens: list[str] = []
    assert _read_stream(lines, pieces.append, tokens, 60.0) == ("stop\ufffd", {})
    assert pieces == tokens == ["At ", "nine\ufffd."]


@pytest.mark.parametrize("usage", ["x", [1], {"prompt_tokens": "abc"}, {"prompt_tokens": 1e30}, {"prompt_tokens": -5}])
def test_an_impossible_count_is_replaced_by_a_guess(usage: Any) -> None:
    _, _, usage_counts = _parse_completion(body("At nine.", usage=usage))
    assert _chat_usage(usage_counts, 40, 8, Prices(), 0.5) == Usage(1, 10, 0, 2, 0.0, 0.5)


BAD_VECTORS: list[list[object]] = [
    [],
    [[0.0, 0.0]],
    [[float("nan"), 1.0]],
    [[float("inf"), 1.0]],
    [[1e39, 1.0]],
    [[10**400, 1.0]],
    [[None, 1.0]],
    [["x", 1.0]],
    [[[1.0, 2.0]]],
    [[]],
    [5.0],
    [None],
    [{}],
    ["%%%"],
    ["AAAAAAAAAAA="],  # zeros
    [[1.0, 0.0], [1.0, 0.0]],  # one too many
]


def embeddings(*vectors: object) -> dict[str, Any]:
    return {"data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]}


@pytest.mark.parametrize("vectors", BAD_VECTORS, ids=str)
def test_an_invalid_vector_is_requested_again(vectors: list[object]) -> None:
    with pytest.raises(FailedTry):
        _parse_vectors(embeddings(*vectors), 1)


@pytest.mark.parametrize(
    "rows", [None, [{"index": 0}], [None], "x", [{"index": "a", "embedding": [1.0]}, {"index": 0}]]
)
def test_rows_without_vectors_are_requested_again(rows: object) -> None:
    with pytest.raises(FailedTry):
        _parse_vectors({"data": rows}, 1)


def test_one_invalid_vector_spoils_its_batch() -> None:
    for bad in ([0.0, 0.0], [1.0], [1.0, 2.0, 3.0], [1.0, float("nan")]):
        with pytest.raises(FailedTry):
            _parse_vectors(embeddings([1.0, 2.0], bad), 2)


@pytest.mark.parametrize("indices", [(0, 2), (5, 7), (-1, 0), (1, 1), ("0", "1"), (0.5, 1.5), (float("nan"), 0)])
def test_vectors_whose_place_is_unclear_are_requested_again(indices: tuple[object, object]) -> None:
    rows = [{"index": index, "embedding": [1.0, 0.0]} for index in indices]
    with pytest.raises(FailedTry, match="not have the form of a model server"):
        _parse_vectors({"data": rows}, 2)


def test_vectors_are_ordered_by_their_index_if_there_is_one() -> None:
    for indices, first in (((1, 0), 1.0), ((0, 1), 0.0), ((0, 0), 0.0)):
        rows = [{"index": i, "embedding": v} for i, v in zip(indices, ([0.0, 1.0], [1.0, 0.0]), strict=True)]
        assert _parse_vectors({"data": rows}, 2)[0][0] == first


@pytest.mark.parametrize("values", [{}, embeddings([1.0, 0.0]), {"results": [{"index": 0, "relevance_score": 0.5}]}])
def test_an_error_in_place_of_values_is_reported_and_paid(values: dict[str, Any]) -> None:
    usage = Usage(1, 7, 0, 0, 0.0, 0.1)
    for parse in (_parse_vectors, parse_scores):
        with pytest.raises(FailedTry, match="no more memory") as failed:
            openai.parse_values(parse, {**values, "error": {"message": "no more memory"}}, 1, usage)
        assert failed.value.usage == usage


@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1.0, 1e30, 3e38])
def test_vectors_of_any_length_get_length_1(scale: float) -> None:
    (vector,) = _parse_vectors(embeddings([scale, 0.0, -scale]), 1)
    assert vector.dtype == "float32"
    assert vector.tolist() == pytest.approx([0.5**0.5, 0.0, -(0.5**0.5)], rel=1e-4)


def test_vectors_of_another_size_than_the_setting_name_it() -> None:
    assert _parse_vectors(embeddings([1.0, 0.0]), 1, dimensions=2).shape == (1, 2)
    with pytest.raises(FailedTry, match="vectors of 2 numbers: leave out `dimensions`, or set it to that"):
        _parse_vectors(embeddings([1.0, 0.0]), 1, dimensions=3)


def test_invalid_vectors_are_paid_retried_and_never_cached(tmp_path: Path, clock: FakeClock) -> None:
    bad, good = (http_response(embeddings(v), headers="Connection: close") for v in ([0.0, 0.0], [3.0, 4.0]))
    cache, budget = ResponseCache(tmp_path / "cache.db"), Budget()
    with run_raw_server(bad) as server, closing(cache):
        settings: dict[str, Any] = {"embedding": {"model": "e", "base_url": server.url, "retries": 2}}
        embed = ModelRegistry(resolve_settings(MODEL_SETTINGS, settings), lambda: cache).embedder(budget)
        with pytest.raises(ItemFailed, match=r"a vector of zeros.*, 3 times"):
            embed(["sea"])
        assert budget.total.calls == len(server.requests) == 3
        server.response = [good]
        assert embed(["sea"]).tolist() == [[pytest.approx(0.6), pytest.approx(0.8)]]
        assert embed(["sea"]).shape == (1, 2)
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("settings", "parameters", "sent"),
    [
        ({}, {"max_tokens": 2048}, {"max_tokens": 2048}),
        ({"max_tokens": 100}, {}, {"max_tokens": 100}),
        ({"max_tokens": 100}, {"max_tokens": 2048}, {"max_tokens": 100}),
        ({"max_tokens": 4096}, {"max_tokens": 2048}, {"max_tokens": 2048}),
        ({"extra": '{"max_completion_tokens": 100}'}, {"max_tokens": 2048}, {"max_completion_tokens": 100}),
        ({"extra": '{"max_completion_tokens": 100}'}, {}, {"max_completion_tokens": 100}),
    ],
)
def test_the_smaller_limit_of_a_reply_counts(
    settings: dict[str, Any], parameters: dict[str, Any], sent: dict[str, int]
) -> None:
    chat = openai.OpenAIChat(model="m", **settings)
    limits = ("max_tokens", "max_completion_tokens")
    for values in (
        chat.request_body(ChatRequest([], None, parameters)),
        chat.determined_by(parameters, structured=False),
    ):
        assert {name: value for name, value in values.items() if name in limits} == sent


@pytest.mark.parametrize("url", ["localhost:11434/v1", "http://[::1", "http://127.0.0.1:port/v1", "ftp://a.b", "x"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is no address: write it like"):
        _ = openai.OpenAIChat(model="m", base_url=url).server.client


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00b"])
def test_an_invalid_key_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "MY_KEY": key})
    with pytest.raises(SettingsError, match="MY_KEY holds no valid key") as error:
        _ = openai.OpenAIChat(model="m", base_url="http://127.0.0.1:1/v1", key="MY_KEY").server.client
    assert key not in str(error.value)


def test_a_password_in_an_address_is_not_shown() -> None:
    chat = openai.OpenAIChat(model="m", base_url="http://me:secret@127.0.0.1:9/v1", retries=0)
    with pytest.raises(ModelError, match="cannot be reached") as error:
        ask(chat)
    assert "secret" not in str(error.value)


def ask(chat: OpenAIChat, schema: dict[str, Any] | None = None) -> Reply:
    """Ask a question, with retries."""
    send = connect_model(chat, chat.server, Budget(), Account("", chat.fingerprint, chat.prices))
    return send(ChatRequest([{"role": "user", "content": "When?"}], schema))


def test_only_unknown_parameters_are_left_out(server: FakeServer) -> None:
    server.configure(refuses=["temperature"])
    assert ask(openai.OpenAIChat(model="m", base_url=server.url, retries=0)).text.startswith("When?")
    server.configure(refuses=[], window=3)
    chat = openai.OpenAIChat(model="m", base_url=server.url, max_tokens=5)
    with pytest.raises(RequestRefused, match="400"):
        ask(chat)
    assert chat.server.refused_parameters == set()


@pytest.mark.parametrize("refused", [[], ["json_schema"], ["response_format"]])
def test_the_response_format_is_the_best_that_the_server_supports(server: FakeServer, refused: list[str]) -> None:
    server.configure(refuses=refused, replies=[("When?", '{"answer": "nine"}')])
    chat = openai.OpenAIChat(model="m", base_url=server.url)
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    assert ask(chat, schema).text == '{"answer": "nine"}'


def test_a_server_that_refuses_everything_is_given_up(server: FakeServer) -> None:
    server.configure(window=1)
    chat = openai.OpenAIChat(model="m", base_url=server.url, workers=1)
    errors: list[type] = []
    for _ in range(9):
        with pytest.raises((ItemFailed, ModelError)) as error:
            ask(chat)
        errors.append(error.type)
    assert errors[:7] == [RequestRefused] * 7
    assert ModelError in errors


def test_azure(server: FakeServer) -> None:
    server.configure(key="azure")
    os.environ["AZURE_KEY"] = "azure"
    chat = openai.OpenAIChat(
        model="m", base_url=server.url.removesuffix("/v1"), api_version="2024-10-21", key="AZURE_KEY"
    )
    assert ask(chat).text == "When? [1]."
    del os.environ["AZURE_KEY"]


def test_a_stream_that_breaks_off_is_charged_and_not_requested_again(server: FakeServer) -> None:
    server.configure(faults={"half": 1.0}, replies=[("When?", "The ferry leaves at nine. " * 20)])
    chat, budget, tokens = openai.OpenAIChat(model="m", base_url=server.url), Budget(), list[str]()
    send = connect_model(chat, chat.server, budget, Account("answer", "m", chat.prices))
    with pytest.raises(ItemFailed, match="m broke off in the middle of its answer: ask again"):
        send(ChatRequest([{"role": "user", "content": "When?"}], on_token=tokens.append))
    assert "".join(tokens).startswith("The ferry")
    assert (server.counts()["requests"], budget.total.calls) == (1, 1)


def test_a_reply_that_a_filter_stopped_is_charged_and_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def post(*_: object) -> Iterator[Any]:
        refusal = {"choices": [{"message": {"refusal": "No."}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}
        yield SimpleNamespace(iter_bytes=lambda: [json.dumps(refusal).encode()])

    monkeypatch.setattr(ModelServer, "post", post)
    chat, budget = openai.OpenAIChat(model="m"), Budget()
    with pytest.raises(RequestRefused, match="its provider's filter does not allow it"):
        connect_model(chat, chat.server, budget, Account("answer", "m", chat.prices))(ChatRequest([]))
    assert (budget.total.calls, budget.total.prompt_tokens) == (1, 7)
