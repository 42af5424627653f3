"""Who is believed: proxies, cookies, senders of keys; and what is written down about each request."""

from __future__ import annotations

import json
import logging
import re
import socket
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from kumihimo.server import sessions
from kumihimo.server.app import create_app
from kumihimo.server.limits import RateLimits
from kumihimo.server.monitoring import AuditFile
from kumihimo.server.run import server_config
from kumihimo.server.sessions import COOKIE, Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace
from tests.server.clients import ADDRESS, GUARDED, LOCAL, Open, bearer
from tests.server.running import serving

DOCUMENTS = "/api/v1/documents"
QUESTION = "When does the ferry leave?"
SAFE_COOKIE = f"__Host-{COOKIE}"
PROXY = "192.0.2.1"
Connect = Callable[[str, ServerSettings], TestClient]


@pytest.fixture
def connect(workspace: Workspace) -> Connect:
    """Clients at an address, of an application as uvicorn runs it."""

    def connect_one(address: str, settings: ServerSettings) -> TestClient:
        config = server_config(create_app(Workspace(workspace.indexes), settings), settings)
        config.load()
        return TestClient(config.loaded_app, base_url=ADDRESS, follow_redirects=False, client=(address, 50000))

    return connect_one


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# -- proxies


def connect_to(address: str) -> socket.socket:
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.mark.parametrize(("peer", "shown"), [(PROXY, "203.0.113.9"), ("198.51.100.1", "198.51.100.1")])
def test_a_trusted_proxy_alone_names_the_client(connect: Connect, tmp_path: Path, peer: str, shown: str) -> None:
    settings = replace(GUARDED, proxies=(f"{PROXY}/32",), audit=tmp_path / "audit.jsonl")
    client = connect(peer, settings)
    client.get(DOCUMENTS, headers={"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"})
    assert [line["address"] for line in read_lines(tmp_path / "audit.jsonl")] == [shown]


def test_clients_of_one_proxy_are_slowed_one_by_one(connect: Connect) -> None:
    client = connect(PROXY, replace(GUARDED, proxies=(f"{PROXY}/32",)))

    def try_key(address: str) -> int:
        return client.get(DOCUMENTS, headers={**bearer("wrong"), "X-Forwarded-For": address}).status_code

    assert [try_key("203.0.113.9") for _ in range(21)] == [401] * 20 + [429]
    assert try_key("203.0.113.10") == 401


OF_PROXIES = (
    *("Forwarded", "X-Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Server"),
    *("X-Forwarded-Port", "X-Forwarded-Prefix", "X-Forwarded-User", "X-Real-IP", "Via", "X-Client-IP", "Client-IP"),
    *("True-Client-IP", "X-Cluster-Client-IP", "X-ProxyUser-Ip", "X-Remote-Addr", "Remote-User", "X-Original-URI"),
    *("X-Original-Forwarded-For", "X-Originating-IP", "X-Rewrite-URL", "X-Scheme", "X-Url-Scheme", "Front-End-Https"),
    *("CF-Connecting-IP", "CF-Ray", "Cf-Access-Jwt-Assertion", "CDN-Loop", "CloudFront-Viewer-Address", "X-Amz-Cf-Id"),
    *("X-Amzn-Trace-Id", "X-Azure-ClientIP", "X-ARR-SSL", "X-AppGW-Trace-Id", "X-FD-HealthProbe", "X-Goog-IAP-JWT"),
    *("X-Cloud-Trace-Context", "X-AppEngine-User-IP", "X-Envoy-External-Address", "X-Varnish", "Fastly-Client-IP"),
    *("Fly-Client-IP", "Tailscale-User-Login", "Ngrok-Trace-Id", "X-Auth-Request-Email", "X-authentik-username"),
    *("X-Pomerium-Claim-Email", "Akamai-Origin-Hop", "SSL-Client-Cert", "X-SSL-Client-Verify", "WL-Proxy-Client-IP"),
    *("Proxy-Connection", "Surrogate-Capability", "X-Request-Start", "X-NginX-Proxy", "X-Host", "Max-Forwards"),
    *("X-Forward-For", "X-IMForwards", "X-BlueCoat-Via", "DO-Connecting-IP", "X-Sucuri-ClientIP", "Incap-Client-IP"),
    *("Ali-CDN-Real-IP", "X-Vercel-Id", "X-NF-Client-Connection-IP", "X-MS-Client-Principal", "X-WebAuth-User"),
    *("X-Tunnel-Authorization",),
)
OF_CLIENTS = (
    *("User-Agent", "Accept-Language", "Accept-Encoding", "Referer", "DNT", "Priority", "Cache-Control", "Pragma"),
    *("Sec-Fetch-Dest", "Sec-CH-UA", "X-Requested-With", "X-CSRF-Token", "Last-Event-ID", "Mcp-Session-Id", "Range"),
    *("X-Stainless-Lang", "X-OpenWebUI-User-Name", "X-Request-ID", "Idempotency-Key", "Traceparent", "From", "Viaduct"),
)


def test_what_a_proxy_passes_on_to_this_machine_needs_a_key(open_client: Open, token: str) -> None:
    """Without it, a proxy in front of a server on loopback would open it to everyone."""
    client = open_client(LOCAL)
    assert [name for name in OF_PROXIES if client.get(DOCUMENTS, headers={name: "x"}).status_code != 401] == []
    passed_on = {"X-Forwarded-For": "203.0.113.9"}
    assert client.get(DOCUMENTS, headers={**passed_on, **bearer("wrong")}).status_code == 401
    assert client.get(DOCUMENTS, headers={**passed_on, **bearer(token)}).status_code == 200
    assert client.get("/health", headers=passed_on).status_code == 200


def test_what_a_client_of_this_machine_sends_needs_no_key(open_client: Open) -> None:
    client = open_client(LOCAL)
    assert [name for name in OF_CLIENTS if client.get(DOCUMENTS, headers={name: "x"}).status_code != 200] == []


@pytest.mark.parametrize(("version", "status"), [("1.0", 401), ("1.1", 200)])
def test_a_request_of_http_1_0_is_that_of_a_proxy(harbour_folder: Path, version: str, status: int) -> None:
    """So speaks the `proxy_pass` of nginx, without any header, unless it is told otherwise."""
    with serving(harbour_folder) as server, closing(connect_to(server.address)) as connection:
        head = f"GET {DOCUMENTS} HTTP/{version}\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode())
        assert int(connection.recv(100).split()[1]) == status


@pytest.mark.parametrize("public", [{"hosts": ("docs.example.org",)}, {"proxies": (PROXY,)}, {"host": "0.0.0.0"}])
def test_a_server_that_others_reach_needs_keys(open_client: Open, public: dict[str, Any]) -> None:
    assert open_client(replace(LOCAL, **public)).get(DOCUMENTS).status_code == 401


# -- sessions


def sign_in(client: TestClient, key: str, **headers: str) -> str:
    """Sign in by the form; return the header that sets the cookie."""
    page = client.get("/login", headers={"Accept": "text/html"})
    csrf = re.findall(r'name="csrf" value="(\w+)"', page.text)[0]
    response = client.post("/login", data={"key": key, "csrf": csrf}, headers=headers)
    assert response.status_code == 303
    client.cookies.clear()
    return str(response.headers["set-cookie"])


def session_of(set_cookie: str) -> str:
    return set_cookie.partition("=")[2].partition(";")[0]


HTTPS = {"X-Forwarded-Proto": "https"}
BEHIND_PROXY = replace(GUARDED, proxies=(f"{PROXY}/32",))


def test_the_cookie_of_a_session_is_bound_to_this_host_where_there_is_tls(connect: Connect, token: str) -> None:
    name, *attributes = sign_in(connect(PROXY, BEHIND_PROXY), token, **HTTPS).split("; ")
    assert name.startswith(f"{SAFE_COOKIE}=")
    assert {each.lower() for each in attributes} == {"httponly", "samesite=strict", "secure", "path=/"}


def test_only_a_trusted_proxy_says_that_there_is_tls(connect: Connect, token: str) -> None:
    assert sign_in(connect("198.51.100.1", BEHIND_PROXY), token, **HTTPS).startswith(f"{COOKIE}=")


def test_a_cookie_that_another_host_of_the_domain_can_set_is_not_taken(connect: Connect, token: str) -> None:
    client = connect(PROXY, BEHIND_PROXY)
    session = session_of(sign_in(client, token, **HTTPS))
    statuses = [
        client.get(DOCUMENTS, headers={**HTTPS, "Cookie": f"{name}={session}"}).status_code
        for name in (COOKIE, SAFE_COOKIE)
    ]
    assert statuses == [401, 200]


def test_signing_in_begins_a_session_and_ends_the_one_before(open_client: Open, token: str) -> None:
    client = open_client(GUARDED)
    first = session_of(sign_in(client, token))
    client.cookies.set(COOKIE, first)
    second = session_of(sign_in(client, token))
    assert second != first
    statuses = [client.get(DOCUMENTS, headers={"Cookie": f"{COOKIE}={each}"}).status_code for each in (first, second)]
    assert statuses == [401, 200]


def test_signing_out_ends_the_session(open_client: Open, token: str) -> None:
    client = open_client(GUARDED)
    session = session_of(sign_in(client, token))
    cookie = {"Cookie": f"{COOKIE}={session}"}
    kept: Sessions = client.app.state.sessions  # type: ignore[attr-defined]
    assert client.post("/logout", data={"csrf": kept.csrf_token(session)}, headers=cookie).status_code == 303
    assert client.get(DOCUMENTS, headers=cookie).status_code == 401


@pytest.mark.parametrize(
    "back", ["//evil.example", "https://evil.example", "/\\evil.example", "/\r\nX: y", "javascript:1"]
)
def test_no_form_leads_to_another_site(open_client: Open, back: str) -> None:
    client = open_client(LOCAL)
    csrf = client.app.state.sessions.csrf_token()  # type: ignore[attr-defined]
    response = client.post("/preferences", data={"csrf": csrf, "back": back})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "evil" not in client.get(f"/login?{urlencode({'next': back})}").headers.get("location", "")


def test_memory_for_senders_and_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.server.limits._MAX_TRACKED", 5)
    monkeypatch.setattr(sessions, "_MAX_SESSIONS", 5)
    limits, kept = RateLimits(), Sessions()
    for i in range(50):
        limits.take(str(i), 60)
        kept.start(b"x" * i)
    assert (len(limits._buckets), len(kept._hashes)) == (5, 5)


def test_all_addresses_of_a_sender_count_together(connect: Connect) -> None:
    app: Any = connect("2001:db8::1", GUARDED).app
    clients = [TestClient(app, base_url=ADDRESS, client=(f"2001:db8::{i:x}", 1)) for i in range(21)]
    statuses = [client.get(DOCUMENTS, headers=bearer("wrong")).status_code for client in clients]
    assert statuses == [401] * 20 + [429]


# -- paths


@pytest.mark.parametrize(
    "path",
    [
        "//api/v1/documents",
        "/static/../api/v1/documents",
        "/static/%2e%2e/api/v1/documents",
        "/login/../api/v1/documents",
        "/health/../metrics",
        "/health%2f..%2fmetrics",
        "/api%2fv1%2fdocuments",
        "/./metrics",
        "/METRICS",
        "/metrics/",
        "/health;/metrics",
        "/health%00/metrics",
    ],
)
def test_no_way_of_writing_a_path_passes_by_the_key(open_client: Open, token: str, path: str) -> None:
    client = open_client(GUARDED)
    request = client.build_request("GET", ADDRESS)
    request.url = request.url.copy_with(raw_path=path.encode())
    response = client.send(request)
    assert response.status_code in (401, 404)
    assert "ferry" not in response.text


@pytest.mark.parametrize("path", ["/static/x/en/..%2f..%2fapp.py", "/static/x/en/%2e%2e%2fapp.py", "/static/x/../en"])
def test_no_other_file_is_sent(open_client: Open, path: str) -> None:
    assert open_client(LOCAL).get(path).status_code == 404


@pytest.mark.parametrize("method", ["OPTIONS", "POST"])
def test_another_site_is_not_allowed_to_ask(open_client: Open, method: str) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    response = open_client(LOCAL).request(method, "/api/v1/ask", headers=headers)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control")]


# -- failures


@pytest.fixture
def failing(open_client: Open, tmp_path: Path) -> TestClient:
    """A client of an application with a route that fails in an unforeseen way."""
    client = open_client(replace(LOCAL, audit=tmp_path / "audit.jsonl"))
    app: Any = client.app

    def fail(name: str) -> None:
        raise RuntimeError(f"the secret of {name}")

    app.get("/api/v1/fail/{name}")(fail)
    return client


def test_an_unforeseen_failure_shows_nothing_and_is_recorded(
    failing: TestClient, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("kumihimo"), "propagate", True)
    response = failing.get("/api/v1/fail/a%0Akumi: all is well%1b[2J")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert "secret" not in response.text
    assert [line["status"] for line in read_lines(tmp_path / "audit.jsonl")] == [500]
    (record,) = caplog.records
    assert record.getMessage() == "GET /api/v1/fail/a%0Akumi%3A%20all%20is%20well%1B%5B2J failed"
    assert record.exc_info


# -- the audit log


@pytest.fixture
def audited(open_client: Open, tmp_path: Path) -> TestClient:
    return open_client(replace(LOCAL, audit=tmp_path / "audit.jsonl", audit_questions=True))


def ask_all_ways(client: TestClient) -> None:
    """Ask the question by each interface."""
    csrf = client.app.state.sessions.csrf_token()  # type: ignore[attr-defined]
    client.post("/", data={"question": QUESTION, "csrf": csrf})
    client.post("/api/v1/ask", json={"question": QUESTION})
    client.post("/api/v1/ask", json={"question": QUESTION, "stream": True})
    client.post("/api/v1/indexes/harbour/retrieve", json={"question": QUESTION})
    message = {"role": "user", "content": QUESTION}
    client.post("/v1/chat/completions", json={"model": "harbour/bm25", "messages": [message]})


def test_questions_are_written_down_if_that_is_asked_for(audited: TestClient, tmp_path: Path) -> None:
    ask_all_ways(audited)
    audited.get("/api/v1/documents")
    lines = read_lines(tmp_path / "audit.jsonl")
    assert [line.get("question") for line in lines] == [QUESTION] * 5 + [None]
    assert [line["index"] for line in lines] == ["harbour"] * 6
    assert [line["route"] for line in lines] == [
        "/",
        "/api/v1/ask",
        "/api/v1/ask",
        "/api/v1/indexes/{index_name}/retrieve",
        "/v1/chat/completions",
        "/api/v1/documents",
    ]


def test_else_no_question_is_written_down(open_client: Open, tmp_path: Path) -> None:
    ask_all_ways(open_client(replace(LOCAL, audit=tmp_path / "audit.jsonl")))
    assert len(read_lines(tmp_path / "audit.jsonl")) == 5
    assert "ferry" not in (tmp_path / "audit.jsonl").read_text(encoding="utf-8")


def test_calls_of_mcp_are_recorded_like_others(folder: Path, tmp_path: Path) -> None:
    settings = replace(LOCAL, audit=tmp_path / "audit.jsonl", audit_questions=True)
    call = {"name": "search", "arguments": {"question": QUESTION}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with TestClient(create_app(open_workspace([folder]), settings), base_url=ADDRESS) as client:
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        started = client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}, headers=headers
        )
        session = {"Mcp-Session-Id": started.headers["mcp-session-id"]}
        assert "ferry" in client.post("/mcp", json=body, headers={**headers, **session}).text
    line = read_lines(tmp_path / "audit.jsonl")[-1]
    assert (line["route"], line["index"], line.get("question")) == ("/mcp", "harbour", QUESTION)


def test_a_line_of_the_audit_log_is_one_line(audited: TestClient, tmp_path: Path) -> None:
    text = 'ferry?\n{"status": 200}\r\u2028\x9b\u202e"'
    audited.post("/api/v1/ask", json={"question": text})
    (line,) = read_lines(tmp_path / "audit.jsonl")
    assert line["question"] == text


def test_the_audit_log_is_for_its_owner_and_may_be_moved_away(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit.jsonl", max_bytes=30)
    log.append("first")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    log.path.rename(tmp_path / "moved.jsonl")
    log.append("second")
    assert (tmp_path / "moved.jsonl").read_text(encoding="utf-8") == "first\n"
    assert log.path.read_text(encoding="utf-8") == "second\n"
    for i in range(20):
        log.append(f"{i:029}")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["audit.jsonl.1", "audit.jsonl.2", "audit.jsonl.3", "audit.jsonl.4", "audit.jsonl.5", "moved.jsonl"]
    assert (tmp_path / "audit.jsonl.1").read_text(encoding="utf-8") == f"{19:029}\n"
