"""address, key -> HTTP client: whom a request reaches, and whom never; what an error shows."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed, KumiError, ModelError, RequestRefused, SettingsError
from kumihimo.core.network import MODEL, is_local
from kumihimo.llm import http_client, openai, rerank
from kumihimo.llm.budget import Account, Budget, Caps
from kumihimo.llm.cached_llm import connect_model
from kumihimo.llm.protocols import ChatRequest, TextsRequest
from tests.fake_clock import FakeClock, clock as clock
from tests.fake_replies import http_response
from tests.raw_server import RawServer, completion, refusal, run_raw_server

SECRET = "The recipe is secret."
KEY = "a1B2c3D4e5F6g7H8"


def ask(url: str, budget: Budget | None = None, **settings: Any) -> str:
    """Ask the chat model of a server, with retries."""
    chat = openai.OpenAIChat(model="m", base_url=url, **{"timeout": 60.0, **settings})
    send = connect_model(chat, chat.server, budget or Budget(), Account("", "m", chat.prices))
    return send(ChatRequest([{"role": "user", "content": SECRET}])).text


def embed(url: str) -> None:
    embedder = openai.OpenAIEmbedder(model="m", base_url=url, timeout=60.0)
    connect_model(embedder, embedder.server, Budget(), Account("", "m", embedder.prices))(TextsRequest([SECRET]))


def score(url: str) -> None:
    client = rerank.RerankClient(model="m", base_url=url, timeout=60.0)
    connect_model(client, client.server, Budget(), Account("", "m", client.prices))(TextsRequest([SECRET], "?"))


# -- addresses


@pytest.mark.parametrize(
    ("end", "target"),
    [
        ("/", b"/v1/chat/completions"),
        ("?tenant=a", b"/v1/chat/completions?tenant=a"),
        ("/a%2Fb/?tenant=a/b", b"/v1/a%2Fb/chat/completions?tenant=a/b"),
    ],
)
def test_the_route_comes_before_the_query_of_an_address(end: str, target: bytes) -> None:
    with run_raw_server(completion("Thanks.")) as server:
        assert ask(server.url + end) == "Thanks."
        assert server.requests[0].startswith(b"POST " + target + b" ")


# -- redirects


@pytest.mark.parametrize(
    ("send", "status"), [(ask, 301), (ask, 302), (ask, 303), (ask, 307), (ask, 308), (embed, 307), (score, 307)]
)
def test_a_redirect_is_not_followed(send: Any, status: int) -> None:
    with run_raw_server(completion("Thanks."), host="127.0.0.2") as other:
        target = f"http://me:pw@{other.address}/v1/x?token=t0ken"
        with (
            run_raw_server(refusal(status, "moved", f"Location: {target}")) as server,
            pytest.raises(ModelError) as error,
        ):
            send(server.url)
        assert other.requests == []
    shown = f"http://{other.address}/v1/x?token=[hidden]"
    assert f"{server.url} sends requests on to {shown} ({status}), which is not asked" in str(error.value)
    assert "set base_url to its part before /" in str(error.value)


# -- proxies and other machines


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a proxy that the environment names."""
    with run_raw_server(completion("from the proxy")) as server:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://{server.address}")
        monkeypatch.setenv("no_proxy", "")
        monkeypatch.setenv("NO_PROXY", "")
        yield server


@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_local_server_is_asked_without_a_proxy(
    proxy: RawServer, offline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", offline)
    with run_raw_server(completion("from here")) as server:
        assert ask(server.url) == "from here"
    assert proxy.requests == []


def test_another_machine_is_asked_by_the_proxy_unless_offline(
    proxy: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://models.invalid/v1"
    for send in (ask, embed, score):
        with pytest.raises(ModelError, match=r"KUMI_OFFLINE is set, so http://models\.invalid/v1 is not asked: unset"):
            send(url)
    assert proxy.requests == []
    monkeypatch.setenv("KUMI_OFFLINE", "0")
    assert ask(url) == "from the proxy"
    assert proxy.requests[0].startswith(b"POST http://models.invalid/v1/chat/completions ")


@pytest.mark.parametrize("address", ["socks5://127.0.0.1:1", "what://127.0.0.1", "http://me:pw@127.0.0.1:port"])
def test_a_useless_proxy_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", "0")
    monkeypatch.setenv("ALL_PROXY", address)
    with pytest.raises(
        SettingsError, match=r"a proxy or certificate that cannot be used .*: correct or unset HTTP_PROXY"
    ):
        ask("http://useless-proxy.invalid/v1")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("localhost", "127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1")),
        *((host, False) for host in ("127.0.0.1.evil.com", "localhost.evil", "evil.localhost.com", "example.com")),
        *(
            (host, False)
            for host in ("10.0.0.1", "128.0.0.1", "::2", "::ffff:10.0.0.1", "fe80::1", "127.1", "2130706433")
        ),
    ],
)
def test_what_is_this_machine(host: str, expected: bool) -> None:
    assert is_local(host) is expected
    url = f"http://[{host}]:1/v1" if ":" in host else f"http://{host}:1/v1"
    with pytest.raises(ModelError, match="cannot be reached" if expected else "KUMI_OFFLINE is set"):
        ask(url, retries=0)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000@models.invalid/v1", "http://localhost@models.invalid", "HTTP://A.B"]
)
def test_the_host_is_the_one_that_is_connected(url: str) -> None:
    with pytest.raises(ModelError, match="KUMI_OFFLINE is set"):
        ask(url)


# -- what an error shows


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 429, 500])
def test_a_key_that_a_server_repeats_is_hidden(
    status: int, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    message = f"Incorrect API key provided: {KEY}, or a1B2****g7H8. {'x' * 200} Bearer {KEY}, at the end {KEY}"
    with run_raw_server(refusal(status, message)) as server:
        url = server.url.replace("http://", "http://me:my-pass-w0rd@")
        with pytest.raises((ModelError, ItemFailed)) as error:
            ask(url, key="MY_KEY")
    shown = f"{error.value} {caplog.text}"
    assert "Incorrect API key provided: [hidden], or [hidden]." in shown
    assert not [part for part in (KEY, KEY[:8], "a1B2", "pass-w0rd") if part in shown]
    assert error.value.__cause__ is None or KEY not in str(error.value.__cause__)


def test_a_key_in_the_middle_of_a_stream_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    event = f'data: {{"error": {{"message": "no such key: {KEY}"}}}}\n\n'.encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    with run_raw_server(head + event) as server:
        chat = openai.OpenAIChat(model="m", base_url=server.url, key="MY_KEY", retries=0)
        send = connect_model(chat, chat.server, Budget(), Account("", "m", chat.prices))
        with pytest.raises(ItemFailed, match=r"no such key: \[hidden\]"):
            send(ChatRequest([{"role": "user", "content": "?"}], on_token=print))


@pytest.mark.parametrize("host", ["é_é", "１", "a..b", "a" * 64 + ".test"])
def test_a_host_that_no_name_can_be_is_named(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", "0")
    with pytest.raises(SettingsError, match=f"no valid request to http://{host}/v1: check base_url"):
        ask(f"http://{host}/v1")


def test_the_body_of_an_error_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_MAX_ERROR_BYTES", 1000)
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    sent: list[int] = []

    class Endless(list[bytes]):
        def __iter__(self) -> Any:
            yield head
            while True:
                sent.append(1)
                yield b"x" * 65536

    with run_raw_server() as server:
        server.response = Endless([b""])
        with pytest.raises(RequestRefused, match=r"Bad Request \(400\)"):
            ask(server.url)
    assert len(sent) < 1000  # what the buffers of the system take


# -- requests that may have reached the server


ODD_ERRORS = {
    "charset of Python alone": (b'{"error": "no"}', "Content-Type: text/html; charset=hex"),
    "charset that refuses all": (b'{"error": "no"}', "Content-Type: text/html; charset=undefined"),
    "half a character": (b'{"error": {"message": "\\ud800"}}', "Content-Type: application/json"),
    "far date": (b"{}", "Retry-After: Mon, 01 Jan 2031 00:00:00 +99999999999999"),
    "packed": (gzip.compress(b'{"error": "packed"}'), "Content-Encoding: gzip"),
    "packed, broken": (b"no", "Content-Encoding: gzip"),
    "packed twice": (gzip.compress(gzip.compress(b"no")), "Content-Encoding: gzip, gzip"),
    "unknown packing": (b"no", "Content-Encoding: gzip\r\nContent-Encoding: br"),
}


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("name", ODD_ERRORS)
def test_an_odd_error_is_an_error_of_ours(name: str, status: int, clock: FakeClock) -> None:
    body, header = ODD_ERRORS[name]
    with (
        run_raw_server(http_response(body, status, f"{header}\r\nConnection: close")) as server,
        pytest.raises(KumiError) as error,
    ):
        ask(server.url, retries=0)
    str(error.value).encode()
    assert ("packed" in str(error.value)) == (name == "packed")


def test_the_body_of_an_error_is_not_unpacked_to_its_end(clock: FakeClock) -> None:
    bomb, headers = gzip.compress(gzip.compress(b" " * (64 << 20))), "Content-Encoding: gzip, gzip\r\nConnection: close"
    tracemalloc.start()
    with run_raw_server(http_response(bomb, 500, headers)) as server, pytest.raises(KumiError):
        ask(server.url, retries=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32 << 20


@pytest.mark.parametrize(
    "response", [[], [b""], [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"], [b"what?\r\n\r\n"]]
)
def test_a_request_that_is_cut_off_counts_as_a_call(response: list[bytes], clock: FakeClock) -> None:
    with run_raw_server(*response) as server:
        budget = Budget(Caps(calls=2))
        with pytest.raises((ItemFailed, ModelError)):
            ask(server.url, budget)
    assert budget.total.calls == len(server.requests) == 2


def test_a_server_that_is_not_there_costs_nothing(clock: FakeClock) -> None:
    with run_raw_server() as server:
        url = server.url
    budget = Budget(Caps(calls=1))
    with pytest.raises(ModelError, match="cannot be reached"):
        ask(url, budget)
    assert budget.total.calls == 0


def test_certificates_of_the_environment_are_used_for_this_machine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    with pytest.raises(SettingsError, match="SSL_CERT_FILE"):
        ask("https://127.0.0.1:1/certificates")


# -- requests


def test_a_request_names_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with run_raw_server(completion("Thanks.")) as server:
        assert ask(server.url, key="MY_KEY", extra='{"user": "\\ud800"}') == "Thanks."
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert first == "POST /v1/chat/completions HTTP/1.1"
    assert {line.partition(":")[0].lower() for line in headers} == {
        *("host", "accept", "accept-encoding", "authorization", "connection", "content-length", "content-type"),
        "user-agent",
    }
    assert f"Authorization: Bearer {KEY}" in headers
    assert b'"user":"\\ud800"' in body


@pytest.mark.parametrize(("host", "names"), [("api.openai.com", True), ("api.openai.com.example", False)])
def test_only_openai_learns_the_account(host: str, names: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-a")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "")
    url = f"https://{host}/v1"
    client = http_client.shared_client(url, MODEL.parse_address(url), KEY, "", 60.0)
    assert (client.headers.get("OpenAI-Organization") == "org-a", "OpenAI-Project" in client.headers) == (names, False)


def test_a_deployment_of_azure_is_part_of_the_address() -> None:
    with run_raw_server(completion("Thanks.")) as server:
        assert ask(f"http://{server.address}/", api_version="2024-10-21") == "Thanks."
    first, *headers = server.requests[0].decode().split("\r\n")
    assert first == "POST /openai/deployments/m/chat/completions?api-version=2024-10-21 HTTP/1.1"
    assert "api-key: none" in headers
    assert not [line for line in headers if line.startswith("Authorization")]
