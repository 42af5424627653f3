"""HTTP requests -> responses of an OpenAI server, or its faults."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected
from typing import Any

import httpx2
import numpy as np
import openai
import pytest

from kumihimo.testing.fake_models import FakeEmbedder
from tests.counters import wait_until
from tests.fake_replies import Behaviour
from tests.fake_server import FakeServer, run_fake_server

PROMPT = "Answer in one sentence.\nThe sea is wide and the boat is small, so row on now, sailor\n"
REPLY = "The sea is wide and the boat is small, so row on [1]."


@pytest.fixture(scope="module")
def running_server() -> Iterator[FakeServer]:
    with run_fake_server() as server:
        yield server


@pytest.fixture
def server(running_server: FakeServer) -> FakeServer:
    running_server.configure(**asdict(Behaviour()))
    running_server.reset()
    return running_server


@pytest.fixture
def client(server: FakeServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server.url, api_key="k", max_retries=0, timeout=60) as client:
        yield client


def send(
    server: FakeServer, path: str, body: object = None, timeout: float = 60, headers: Any = None
) -> tuple[int, Any, str]:
    """Return the status, the headers, and the body as text."""
    with closing(HTTPConnection(server.url.split("/")[2], timeout=timeout)) as connection:
        method = "GET" if body is None else "POST"
        connection.request(method, path, None if body is None else json.dumps(body), headers or {})
        response = connection.getresponse()
        return response.status, response.headers, response.read().decode()


def start_request(server: FakeServer) -> HTTPConnection:
    """Send a request without reading the response."""
    connection = HTTPConnection(server.url.split("/")[2], timeout=60)
    connection.request("POST", "/v1/embeddings", json.dumps({"model": "m", "input": "hi"}))
    return connection


def wait_for_last_request(server: FakeServer) -> None:
    """Wait until the server has handled a request to its end."""
    wait_until(lambda: server.counts()["last_at"] > 0)


def chat(server: FakeServer, content: Any = PROMPT, **more: Any) -> Any:
    """Return the response to a prompt, or its error."""
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    answer = json.loads(send(server, "/v1/chat/completions", body)[2])
    return answer.get("error", answer)


def embed(server: FakeServer, *texts: str, **more: Any) -> Any:
    answer = json.loads(send(server, "/v1/embeddings", {"model": "m", "input": texts, **more})[2])
    return answer.get("error", answer)


def reply(server: FakeServer, content: Any = PROMPT, **more: Any) -> Any:
    return chat(server, content, **more)["choices"][0]["message"]["content"]


def stream_events(server: FakeServer, **more: Any) -> list[dict[str, Any]]:
    body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}], "stream": True, **more}
    *lines, done, end = send(server, "/v1/chat/completions", body)[2].split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def schema(**properties: Any) -> dict[str, Any]:
    definition = {"type": "object", "properties": properties, "$defs": {"Port": {"enum": ["Lisbon", "Kobe"]}}}
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": definition}}


# -- regular responses


def test_the_reply_is_the_beginning_of_the_last_line(server: FakeServer) -> None:
    answer = chat(server)
    assert answer["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": REPLY}, "finish_reason": "stop"}
    ]
    assert answer["usage"] == {
        "prompt_tokens": 18,
        "completion_tokens": 13,
        "total_tokens": 31,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert reply(server, "") == "[1]."
    assert reply(server, [{"type": "text", "text": "港の"}, {"type": "text", "text": "犬"}]) == "港の犬 [1]."


def test_a_stream_has_the_same_content(server: FakeServer) -> None:
    *chunks, last = stream_events(server)
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == REPLY
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    options = {"stream_options": {"include_usage": True}}
    assert stream_events(server, **options)[-1]["usage"]["total_tokens"] == 31
    server.configure(usage=False)
    assert len(stream_events(server, **options)) == len(chunks) + 1
    assert "usage" not in chat(server)


def test_the_first_matching_rule_answers(server: FakeServer) -> None:
    server.configure(replies=[("sea", "salt"), ("boat", "oak")])
    assert [reply(server, prompt) for prompt in ("a boat", "a boat at sea", "a bird")] == ["oak", "salt", "a bird [1]."]


def test_json_is_filled_with_the_words_of_the_prompt(server: FakeServer) -> None:
    port = {"$ref": "#/$defs/Port"}
    form = schema(
        who={"type": "string"},
        ports={"type": "array", "items": port},
        age={"anyOf": [{"type": "integer"}, {"type": "null"}]},
        at={"type": "object", "properties": {"x": {"type": "number"}, "y": {}}, "required": ["y"]},
        safe={"type": ["boolean", "null"]},
        none={"type": "null"},
    )
    assert json.loads(reply(server, "Fill in:\nred boat", response_format=form)) == {
        "who": "Fill in: red boat Fill",
        "ports": ["Lisbon"],
        "age": 1,
        "at": {"y": "in: red boat Fill in:"},
        "safe": True,
        "none": None,
    }
    assert json.loads(reply(server, "red boat", response_format={"type": "json_object"})) == {"text": "red boat [1]."}


def test_a_recursive_schema_ends(server: FakeServer) -> None:
    root = {"$ref": "#"}
    form = schema(kids={"type": "array", "items": root}, twin={"anyOf": [root, {"type": "null"}]})
    assert json.loads(reply(server, response_format=form))["twin"]["twin"]["kids"]


def test_vectors_are_those_of_the_fake_embedder(server: FakeServer) -> None:
    answer = embed(server, "the sea", "港")
    assert np.allclose([row["embedding"] for row in answer["data"]], FakeEmbedder()(["the sea", "港"]))
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 3}
    coded = embed(server, "the sea", encoding_format="base64", dimensions=8)["data"][0]["embedding"]
    assert np.array_equal(np.frombuffer(b64decode(coded), dtype="<f4"), FakeEmbedder(8)(["the sea"])[0])
    server.configure(dimensions=5)
    assert len(embed(server, "the sea")["data"][0]["embedding"]) == 5


def test_azure_paths_name_the_model(server: FakeServer) -> None:
    server.configure(key="k", models=["deployed"])
    body = {"messages": [{"role": "user", "content": "hi"}], "input": "hi"}
    for end in ("chat/completions", "embeddings"):
        path = f"/openai/deployments/deployed/{end}?api-version=2024-10-21"
        status, _, text = send(server, path, body, headers={"api-key": "k"})
        assert (status, json.loads(text)["model"]) == (200, "deployed")


def test_models_are_listed(server: FakeServer) -> None:
    server.configure(models=["a", "b"], key="k")
    assert send(server, "/v1/models")[0] == 401
    assert send(server, "/v1/models", headers={"Authorization": "k"})[0] == 401
    _, _, text = send(server, "/v1/models", headers={"Authorization": "Bearer k"})
    assert [model["id"] for model in json.loads(text)["data"]] == ["a", "b"]
    assert server.counts()["requests"] == 0


# -- refusals


@pytest.mark.parametrize(
    ("behaviour", "options", "status", "code", "param"),
    [
        ({"key": "other"}, {}, 401, "invalid_api_key", None),
        ({"models": ["other"]}, {}, 404, "model_not_found", "model"),
        ({"refuses": ["seed", "temperature"]}, {"temperature": 0}, 400, "unsupported_parameter", "temperature"),
        ({"refuses": ["json_schema"]}, {"response_format": schema()}, 400, "unsupported_parameter", "response_format"),
        ({"window": 5}, {}, 400, "context_length_exceeded", "messages"),
        ({}, {"messages": "hi"}, 400, None, None),
    ],
)
def test_a_refusal_names_its_reason(
    client: openai.OpenAI,
    server: FakeServer,
    behaviour: Any,
    options: Any,
    status: int,
    code: str | None,
    param: str | None,
) -> None:
    server.configure(**behaviour)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**{"model": "m", "messages": [{"role": "user", "content": PROMPT}], **options})
    assert (caught.value.status_code, caught.value.code, caught.value.param) == (status, code, param)
    counts = server.counts()
    assert (counts["requests"], counts["answered"], counts["statuses"]) == (1, 0, {str(status): 1})


def test_other_requests_are_not_refused(server: FakeServer) -> None:
    server.configure(refuses=["json_schema", "temperature"], window=5)
    assert json.loads(reply(server, "hi", response_format={"type": "json_object"}))
    assert reply(server, "hi", temperature=None) == "hi [1]."
    assert embed(server, "short", "words")["data"]
    assert embed(server, "short", "longer")["param"] == "input"


def test_unknown_settings_are_refused(server: FakeServer) -> None:
    with pytest.raises(ValueError, match="no 'lag'; there are latency"):
        server.configure(lag=1)
    with pytest.raises(ValueError, match="no '418'"):
        server.configure(faults={"418": 1})
    with pytest.raises(ValueError, match="no 'lag'"), run_fake_server(lag=1):
        pass
    assert send(server, "/v1/nothing", {})[0] == 404


@pytest.mark.parametrize(
    "body", [None, [], {}, {"model": "m"}, {"model": "m", "input": []}, {"model": "m", "input": [7]}]
)
def test_invalid_requests_are_refused(server: FakeServer, body: Any) -> None:
    status, _, text = send(server, "/v1/embeddings", body if body is not None else "{")
    assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error")


# -- faults


@pytest.mark.parametrize("fault", ["408", "409", "429", "500", "503"])
def test_a_status_comes_with_an_error(server: FakeServer, fault: str) -> None:
    server.configure(faults={fault: 1}, retry_after=0.25)
    status, headers, text = send(server, "/v1/embeddings", {"model": "m", "input": "hi"})
    assert (str(status), set(json.loads(text)["error"])) == (fault, {"message", "type", "param", "code"})
    assert headers["Retry-After"] == ("0.25" if fault in ("429", "503") else None)
    assert server.counts()["answered"] == 0


@pytest.mark.parametrize(
    ("fault", "content", "end"),
    [
        ("empty", None, "stop"),
        ("malformed", '{"The sea is wide and the bo', "stop"),
        ("length", "The sea is wide and the bo", "length"),
        ("think", f"<think>some thoughts\n</think>\n\n{REPLY}", "stop"),
    ],
)
def test_a_fault_changes_the_reply(server: FakeServer, fault: str, content: str | None, end: str) -> None:
    server.configure(faults={fault: 1})
    choice = chat(server)["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == (content, end)
    *chunks, last = stream_events(server)
    assert "".join(chunk["choices"][0]["delta"]["content"] or "" for chunk in chunks) == (content or "")
    assert last["choices"][0]["finish_reason"] == end
    counts = server.counts()
    assert (counts["chats"], counts["distinct"], counts["repeats"]) == (2, *((1, 1) if fault == "think" else (0, 0)))
    vectors = {"empty": 0, "malformed": 1}.get(fault, 2)
    assert len(embed(server, "a", "b")["data"]) == vectors


def test_a_fault_replaces_the_body(server: FakeServer) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}]}
    for fault, kind, start in (("garbage", "text/html", "<html>"), ("wrong", "application/json", '{"ok":true}')):
        server.configure(faults={fault: 1})
        for stream in (False, True):
            status, headers, text = send(server, "/v1/chat/completions", body | {"stream": stream})
            assert (status, headers["Content-Type"], text[: len(start)]) == (200, kind, start)
    assert (server.counts()["answered"], server.counts()["prompt_tokens"]) == (4, 72)


def test_a_fault_sends_half_of_the_body(server: FakeServer) -> None:
    server.configure(faults={"half": 1})
    with pytest.raises(IncompleteRead):
        chat(server)
    with pytest.raises(IncompleteRead):
        stream_events(server)
    counts = server.counts()
    assert (counts["answered"], counts["statuses"], counts["distinct"]) == (2, {"200": 2}, 0)


def test_a_slow_answer_arrives_in_pieces(server: FakeServer) -> None:
    server.configure(faults={"slow": 1}, drip=0.2)
    assert reply(server) == REPLY
    counts = server.counts()
    assert counts["distinct"] == 1
    assert counts["last_at"] - counts["first_at"] > 0.19  # it waits itself, however busy the machine is
    server.configure(drip=600)
    with pytest.raises(TimeoutError):
        send(server, "/v1/embeddings", {"model": "m", "input": "hi"}, timeout=0.1)


def test_never_waits_until_the_client_disconnects(server: FakeServer) -> None:
    server.configure(faults={"never": 1})
    with pytest.raises(TimeoutError):
        send(server, "/v1/embeddings", {"model": "m", "input": "hi"}, timeout=0.1)
    wait_for_last_request(server)
    server.configure(faults={})
    embed(server, "hi")
    counts = server.counts()
    assert (counts["answered"], counts["statuses"], counts["faults"]) == (2, {"200": 1}, {"never": 1})
    assert (counts["most_at_once"], counts["texts"], counts["distinct"]) == (1, 2, 1)


def test_a_server_that_is_down_answers_no_request(server: FakeServer) -> None:
    server.configure(down=True, latency=5)
    for path, body in (("/v1/models", None), ("/v1/embeddings", {"model": "m", "input": "hi"})):
        with pytest.raises(RemoteDisconnected):
            send(server, path, body)
    server.configure(down=False, latency=0)
    assert embed(server, "hi")["data"]
    assert (server.counts()["requests"], server.counts()["statuses"]) == (2, {"200": 1})


def statuses_of(server: FakeServer, prompts: list[str]) -> dict[str, str]:
    bodies = {p: {"model": "m", "messages": [{"role": "user", "content": p}]} for p in prompts}
    return {p: str(send(server, "/v1/chat/completions", body)[0]) for p, body in bodies.items()}


def test_faults_depend_on_the_request_and_its_repetition(server: FakeServer) -> None:
    prompts = [f"question {i}" for i in range(100)]
    server.configure(faults={"429": 0.25, "500": 0.25})
    first, again = statuses_of(server, prompts), statuses_of(server, prompts)
    assert 10 < sum(status == "429" for status in first.values()) < 40
    assert 10 < sum(status == "500" for status in first.values()) < 40
    assert first != again
    server.reset()
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda i: statuses_of(server, prompts[::-1][i::4]), range(4)))
    assert {p: status for part in parts for p, status in part.items()} == first
    server.reset()
    server.configure(seed=1)
    assert statuses_of(server, prompts) != first


def test_an_answer_waits_for_the_latency(server: FakeServer) -> None:
    server.configure(latency=0.2)
    assert reply(server) == REPLY
    counts = server.counts()
    assert counts["last_at"] - counts["first_at"] > 0.19


# -- counts


def test_charges_are_counted(server: FakeServer) -> None:
    server.configure(cached=0.5)
    chat(server, "one two three")
    chat(server, "one two three")
    assert chat(server, "four")["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    embed(server, "a b", "c", "c")
    counts = server.counts()
    assert 0 < counts.pop("first_at") <= counts.pop("last_at")
    assert counts == {
        "requests": 4,
        "answered": 4,
        "chats": 3,
        "rerankings": 0,
        "embeddings": 1,
        "texts": 3,
        "prompt_tokens": 3 + 3 + 1 + 4,
        "completion_tokens": 4 + 4 + 2,
        "cached_tokens": 2,
        "statuses": {"200": 4},
        "faults": {},
        "most_at_once": 1,
        "distinct": 4,
        "repeats": 2,
    }
    server.reset()
    assert server.counts() == dict.fromkeys(counts | {"first_at": 0, "last_at": 0}, 0) | {"statuses": {}, "faults": {}}


def test_requests_run_concurrently(server: FakeServer) -> None:
    server.configure(faults={"never": 1})  # it holds each request
    connections = [start_request(server) for _ in range(20)]
    wait_until(lambda: server.counts()["most_at_once"] == 20)
    for connection in connections:
        connection.close()
    server.configure(faults={})
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda i: chat(server, f"question {i}"), range(20)))
    assert server.counts()["distinct"] == 20


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signal")
def test_a_client_that_disconnects_is_charged_but_not_answered(server: FakeServer) -> None:
    server.process.send_signal(signal.SIGSTOP)
    start_request(server).close()
    server.process.send_signal(signal.SIGCONT)
    wait_for_last_request(server)
    counts = server.counts()
    assert (counts["answered"], counts["distinct"]) == (1, 0)


def test_connections_are_reused(server: FakeServer) -> None:
    with httpx2.Client(base_url=server.url, limits=httpx2.Limits(max_connections=1)) as client:
        streams = []
        for text in ("a", "b", "\ud800"):
            response = client.post("/embeddings", content=json.dumps({"model": text, "input": text}))
            streams.append(response.extensions["network_stream"])
            assert response.json()["model"] == text
        assert len({id(stream) for stream in streams}) == 1


# -- the process


def test_it_ends_when_stdin_does() -> None:
    command = [sys.executable, "-m", "tests.fake_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline().startswith("http://127.0.0.1:")
        process.stdin.close()
        assert process.wait(60) == 0


def test_it_ends_with_its_context() -> None:
    with run_fake_server(dimensions=3) as server:
        assert len(embed(server, "hi")["data"][0]["embedding"]) == 3
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        server.counts()


# -- the openai SDK, as of 3.54


def test_the_sdk_understands_it(client: openai.OpenAI, server: FakeServer) -> None:
    messages: Any = [{"role": "user", "content": PROMPT}]
    assert client.chat.completions.create(model="m", messages=messages).choices[0].message.content == REPLY
    chunks = list(client.chat.completions.create(model="m", messages=messages, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == REPLY
    assert np.allclose(client.embeddings.create(model="m", input="hi").data[0].embedding, FakeEmbedder()(["hi"])[0])
    with openai.AzureOpenAI(azure_endpoint=server.url[:-3], api_key="k", api_version="2024-10-21") as azure:
        assert azure.embeddings.create(model="deployed", input="hi").model == "deployed"


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("408", openai.APIStatusError),
        ("409", openai.ConflictError),
        ("429", openai.RateLimitError),
        ("500", openai.InternalServerError),
        ("503", openai.InternalServerError),
        ("half", openai.APIConnectionError),
        ("never", openai.APITimeoutError),
    ],
)
def test_the_sdk_raises(client: openai.OpenAI, server: FakeServer, fault: str, error: type[Exception]) -> None:
    server.configure(faults={fault: 1})
    messages: Any = [{"role": "user", "content": PROMPT}]
    timeout = 0.1 if fault == "never" else 60
    for stream in (False, True):
        with pytest.raises(error):
            list(client.chat.completions.create(model="m", messages=messages, stream=stream, timeout=timeout))
