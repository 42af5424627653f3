"""unusual bodies and settings -> a reply, a retry, or an error with its remedy; never anything else."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, ModelError, RequestRefused, SettingsError
from kumihimo.core.usage import Usage
from kumihimo.llm import openai
from kumihimo.llm.openai import _parse_completion, _parse_vectors, _read_stream
from kumihimo.llm.protocols import reserve_nothing
from kumihimo.llm.transport import RetryableError, read_json_body
from kumihimo.testing.fake_server import FakeServer


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
    [{}, {"ok": True}, {"choices": []}, {"choices": [None]}, {"choices": "x"}, body(5), body({"a": 1}), body([1])],
)
def test_a_body_that_is_no_completion_is_requested_again(strange: dict[str, Any]) -> None:
    with pytest.raises(RetryableError, match="not what a model server answers"):
        _parse_completion(strange)


@pytest.mark.parametrize("strange", [b"", b"<html>", b"[1", b"[" * 100_000, b"\xff\xfe"])
def test_a_body_that_is_no_json_is_requested_again(strange: bytes) -> None:
    with pytest.raises(RetryableError):
        read_json_body([strange], 60.0)


@pytest.mark.parametrize(
    "event", ['{"choices": [null]}', '{"choices": [{"delta": "x"}]}', '{"choices": [{"delta": {"content": 5}}]}', "[]"]
)
def test_an_invalid_event_is_requested_again(event: str) -> None:
    with pytest.raises(RetryableError):
        _read_stream([f"data: {event}"], lambda _: None, 60.0)


def test_a_stream_is_passed_on_token_by_token() -> None:
    pieces: list[str] = []
    deltas = [{"delta": {"content": text}, "finish_reason": None} for text in ("At ", "nine\ud800.")]
    events = [{"choices": [delta]} for delta in deltas] + [{"choices": [{"delta": {}, "finish_reason": "stop"}]}]
    lines = [": ping", "", *(f"data: {json.dumps(event)}" for event in events), 'data: {"usage": [1]}', "data: [DONE]"]
    assert _read_stream(lines, pieces.append, 60.0) == ("At nine\ufffd.", "stop", {})
    assert pieces == ["At ", "nine\ufffd."]


@pytest.mark.parametrize("usage", ["x", [1], {"prompt_tokens": "abc"}, {"prompt_tokens": 1e30}, {"prompt_tokens": -5}])
def test_an_impossible_count_is_replaced_by_a_guess(usage: Any) -> None:
    chat = openai.create_chat(model="m")
    _, _, usage_counts = _parse_completion(body("At nine.", usage=usage))
    assert chat._usage(usage_counts, 40, 8, 0.5) == Usage(1, 10, 0, 2, 0.0, 0.5)


@pytest.mark.parametrize(
    "rows", [[], [{"index": 0, "embedding": [float("nan")]}], [{"index": 0}], [{"index": 0, "embedding": "%%%"}], None]
)
def test_an_invalid_vector_is_requested_again(rows: Any) -> None:
    with pytest.raises(RetryableError):
        _parse_vectors({"data": rows}, 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers is at least 1"),
        ({"retries": -1}, "retries is at least 0"),
        ({"timeout": 0.0}, "timeout is more than 0"),
        ({"requests_per_minute": -1}, "requests_per_minute is at least 0"),
        ({"tokens_per_minute": -1}, "tokens_per_minute is at least 0"),
        ({"prompt_price": -1.0}, "a price is at least 0"),
        ({"extra": "[]"}, "chat.extra is a JSON object"),
    ],
)
def test_settings_out_of_bounds(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        openai.create_chat(**settings)


@pytest.mark.parametrize("settings", [{"batch": 0}, {"batch": -1}, {"dimensions": 0}, {"price": -1.0}])
def test_settings_of_an_embedder_out_of_bounds(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="at least"):
        openai.create_embedder(**settings)


@pytest.mark.parametrize("url", ["localhost:11434/v1", "http://[::1", "http://127.0.0.1:port/v1", "ftp://a.b", "x"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(SettingsError, match="is no address: write it like"):
        _ = openai.create_chat(model="m", base_url=url).server.client


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00b"])
def test_an_invalid_key_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "MY_KEY": key})
    with pytest.raises(SettingsError, match="MY_KEY holds no valid key") as error:
        _ = openai.create_chat(model="m", base_url="http://127.0.0.1:1/v1", key="MY_KEY").server.client
    assert key not in str(error.value)


def test_a_password_in_an_address_is_not_shown() -> None:
    chat = openai.create_chat(model="m", base_url="http://me:secret@127.0.0.1:9/v1", retries=0)
    with pytest.raises(ModelError, match="cannot be reached") as error:
        chat([{"role": "user", "content": "hi"}], reserve=reserve_nothing)
    assert "secret" not in str(error.value)


def request_text(server: FakeServer, **settings: Any) -> str:
    chat = openai.create_chat(model="m", base_url=server.url, retries=0, **settings)
    return chat([{"role": "user", "content": "When?"}], reserve=reserve_nothing).text


def test_only_unknown_parameters_are_left_out(server: FakeServer) -> None:
    server.configure(refuses=["temperature"])
    assert request_text(server).startswith("When?")
    server.configure(refuses=[], window=3)
    chat = openai.create_chat(model="m", base_url=server.url, max_tokens=5)
    with pytest.raises(RequestRefused, match="400"):
        chat([{"role": "user", "content": "When?"}], reserve=reserve_nothing)
    assert chat.server.refused_parameters == set()


@pytest.mark.parametrize("refused", [[], ["json_schema"], ["response_format"]])
def test_the_response_format_is_the_best_that_the_server_supports(server: FakeServer, refused: list[str]) -> None:
    server.configure(refuses=refused, replies=[("When?", '{"answer": "nine"}')])
    chat = openai.create_chat(model="m", base_url=server.url)
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    assert (
        chat([{"role": "user", "content": "When?"}], reserve=reserve_nothing, schema=schema).text
        == '{"answer": "nine"}'
    )


def test_a_server_that_refuses_everything_is_given_up(server: FakeServer) -> None:
    server.configure(window=1)
    chat = openai.create_chat(model="m", base_url=server.url, workers=1)
    errors: list[type] = []
    for _ in range(9):
        with pytest.raises((ItemFailed, ModelError)) as error:
            chat([{"role": "user", "content": "When?"}], reserve=reserve_nothing)
        errors.append(error.type)
    assert errors[:7] == [RequestRefused] * 7
    assert ModelError in errors


def test_azure(server: FakeServer) -> None:
    server.configure(key="azure")
    os.environ["AZURE_KEY"] = "azure"
    chat = openai.create_chat(
        model="m", base_url=server.url.removesuffix("/v1"), api_version="2024-10-21", key="AZURE_KEY"
    )
    assert chat([{"role": "user", "content": "When?"}], reserve=reserve_nothing).text == "When? [1]."
    del os.environ["AZURE_KEY"]
