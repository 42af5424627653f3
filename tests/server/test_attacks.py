"""Requests that no honest client sends get a problem with a remedy, and no route sees them."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from kumihimo.app.upkeep.keys import create_key, revoke_key, token_digest
from kumihimo.server.app import create_app
from kumihimo.server.limits import RateLimits, limited_protocol
from kumihimo.server.sessions import COOKIE
from kumihimo.server.workspace import Workspace, open_workspace
from tests.server.clients import ADDRESS, GUARDED, LOCAL, Open, bearer
from tests.server.running import running

ASK = "/api/v1/ask"


# -- keys


NEED_A_KEY = ["/api/v1/documents", "/v1/models", "/mcp", "/metrics", "/openapi.json", "/nothing", "/graph", "/"]


@pytest.mark.parametrize("path", NEED_A_KEY)
def test_without_a_key_nothing_answers(open_client: Open, path: str) -> None:
    client = open_client(GUARDED)
    response = client.post(path, json={}) if path == "/mcp" else client.get(path, headers={"Accept": "*/*"})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert "harbour" not in response.text


@pytest.mark.parametrize("path", NEED_A_KEY)
def test_a_browser_without_a_key_signs_in(open_client: Open, path: str) -> None:
    response = open_client(GUARDED).get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    is_page = not path.startswith(("/api/", "/v1/", "/mcp"))
    assert (response.status_code, response.headers.get("location")) == ((303, "/login") if is_page else (401, None))


def test_a_wrong_key_opens_nothing_and_many_of_them_are_slowed(open_client: Open, token: str) -> None:
    client = open_client(GUARDED)
    statuses = [client.get("/api/v1/documents", headers=bearer(f"{token}{i}")).status_code for i in range(25)]
    assert statuses[:20] == [401] * 20
    assert statuses[20:] == [429] * 5
    assert client.get("/api/v1/documents", headers=bearer(token)).status_code == 200  # of another program there


def test_wrong_keys_in_the_form_are_slowed_too(open_client: Open, token: str) -> None:
    client = open_client(GUARDED)
    csrf = client.app.state.sessions.csrf_token()  # type: ignore[attr-defined]
    statuses = [client.post("/login", data={"key": f"{i}", "csrf": csrf}).status_code for i in range(22)]
    assert statuses == [401] * 20 + [429] * 2
    assert client.post("/login", data={"key": token, "csrf": csrf}).status_code == 303


def test_keys_of_another_file_count_as_soon_as_it_is_there(open_client: Open, tmp_path: Path, folder: Path) -> None:
    before = folder / "keys.db"
    _, old = create_key([folder], "reader")
    client = open_client(GUARDED)
    assert client.get("/api/v1/methods", headers=bearer(old)).status_code == 200
    kept = before.rename(tmp_path / "kept.db")
    try:
        assert client.get("/api/v1/methods", headers=bearer(old)).status_code == 401
        _, new = create_key([folder], "reader")
        assert client.get("/api/v1/methods", headers=bearer(new)).status_code == 200
        assert client.get("/api/v1/methods", headers=bearer(old)).status_code == 401
    finally:
        kept.replace(before)
    assert client.get("/api/v1/methods", headers=bearer(old)).status_code == 200


def test_a_revoked_key_fails_at_the_next_request(open_client: Open, folder: Path) -> None:
    id, token = create_key([folder], "reader")
    client = open_client(GUARDED)
    assert client.get("/api/v1/documents", headers=bearer(token)).status_code == 200
    assert revoke_key(folder, id)
    assert client.get("/api/v1/documents", headers=bearer(token)).status_code == 401


def test_a_session_ends_with_its_key(open_client: Open, folder: Path) -> None:
    id, token = create_key([folder], "reader")
    client = open_client(GUARDED)
    session = client.app.state.sessions.start(token_digest(token))  # type: ignore[attr-defined]
    client.cookies.set(COOKIE, session)
    assert client.get("/api/v1/documents").status_code == 200
    revoke_key(folder, id)
    assert client.get("/api/v1/documents").status_code == 401
    assert client.get("/login", headers={"Accept": "text/html"}).status_code == 200  # and not on and on to itself


@pytest.mark.parametrize(("role", "status"), [("reader", 403), ("editor", 202), ("admin", 202)])
def test_a_reader_changes_nothing(folder: Path, role: str, status: int) -> None:
    headers = bearer(create_key([folder], role)[1])
    with TestClient(create_app(open_workspace([folder]), GUARDED), base_url=ADDRESS) as client:  # ends the build
        response = client.post("/api/v1/builds", json={}, headers=headers)
    assert response.status_code == status


def test_the_hash_of_a_key_is_stored_and_not_the_key(folder: Path) -> None:
    _, token = create_key([folder], "reader", name="for the harbour office")
    files = [path for path in folder.iterdir() if path.is_file()]
    assert any(b"for the harbour office" in path.read_bytes() for path in files)
    assert not any(token.encode() in path.read_bytes() for path in files)
    assert (folder / "keys.db").stat().st_mode & 0o077 == 0


def test_requests_of_a_key_are_limited(open_client: Open, folder: Path) -> None:
    _, token = create_key([folder], "reader", requests_per_minute=3)
    client = open_client(GUARDED)
    responses = [client.get("/api/v1/methods", headers=bearer(token)) for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    assert int(responses[-1].headers["retry-after"]) > 0
    assert client.get("/static/x/en/style.css", headers=bearer(token)).status_code == 200  # part of one page


def test_a_bucket_fills_evenly() -> None:
    now = 0.0
    limits = RateLimits(lambda: now)
    for _ in range(60):
        limits.take("a", 60)
    with pytest.raises(Exception, match="more than 60 requests a minute"):
        limits.take("a", 60)
    now = 1.0
    limits.take("a", 60)
    with pytest.raises(Exception, match="more than 60"):
        limits.take("a", 60)
    limits.take("b", 60)


# -- pages of other sites


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8460",
        "",
        "[",
        "me@localhost",
        "localhost/x",
        "localhost:x",
        "localhost.",
    ],
)
def test_a_foreign_host_is_refused(open_client: Open, host: str) -> None:
    response = open_client(LOCAL).get("/api/v1/documents", headers={"Host": host})
    assert response.status_code == 421
    assert response.json()["remedy"]


@pytest.mark.parametrize("host", ["localhost:8460", "127.0.0.1", "[::1]:8460", "LOCALHOST"])
@pytest.mark.parametrize("bound_to", ["127.0.0.1", "0.0.0.0", "192.0.2.4"])
def test_names_of_this_machine_are_taken(open_client: Open, host: str, bound_to: str) -> None:
    assert open_client(replace(LOCAL, host=bound_to)).get("/health", headers={"Host": host}).status_code == 200


def test_a_name_behind_a_proxy_has_to_be_allowed(open_client: Open) -> None:
    host = {"Host": "docs.example.org"}
    assert open_client(LOCAL).get("/health", headers=host).status_code == 421
    assert open_client(replace(LOCAL, hosts=("docs.example.org",))).get("/health", headers=host).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:9999"},  # another program on this machine
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("path", [ASK, "/v1/chat/completions", "/mcp", "/"])
def test_a_page_of_another_site_cannot_send_requests(open_client: Open, path: str, headers: dict[str, str]) -> None:
    response = open_client(LOCAL).post(path, json={"question": "What?"}, headers=headers)
    assert response.status_code == 403


def test_a_link_from_another_site_opens_the_page(open_client: Open) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert open_client(LOCAL).get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_a_form_can_send_is_no_json(open_client: Open, kind: str) -> None:
    body = json.dumps({"question": "When does the ferry leave?"})
    response = open_client(LOCAL).post(ASK, content=body, headers={"Content-Type": kind})
    assert response.status_code == 415


def test_a_session_needs_its_token_for_changes(open_client: Open, folder: Path) -> None:
    client = open_client(GUARDED)
    _, token = create_key([folder], "admin")
    session = client.app.state.sessions.start(token_digest(token))  # type: ignore[attr-defined]
    client.cookies.set(COOKIE, session)
    ask = {"question": "When does the ferry leave?"}
    assert client.post(ASK, json=ask).status_code == 403
    assert client.post(ASK, json=ask, headers={"X-CSRF-Token": "guess"}).status_code == 403
    csrf = client.app.state.sessions.csrf_token(session)  # type: ignore[attr-defined]
    assert client.post(ASK, json=ask, headers={"X-CSRF-Token": csrf}).status_code == 200


def test_a_form_of_the_page_needs_its_token(open_client: Open) -> None:
    client = open_client(LOCAL)
    form = {"question": "When does the ferry leave?"}
    assert client.post("/", data=form).status_code == 403
    csrf = client.app.state.sessions.csrf_token()  # type: ignore[attr-defined]
    assert client.post("/", data={**form, "csrf": csrf}).status_code == 200


def test_no_script_of_another_origin_may_run(open_client: Open) -> None:
    headers = open_client(LOCAL).get("/").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"


# -- too much of everything


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"question": "x" * 10_001}, 400),
        ({"question": "x", "filter": "(" * 500 + "a" + ")" * 500}, 400),
        ({"question": "x", "filter": "a = 1 and " * 5000 + "a = 1"}, 400),
        ({"question": "x", "settings": {str(i): i for i in range(1000)}}, 400),
        ({"question": "x", "history": [{"question": "x", "answer": "x"}] * 1000}, 400),
        ({"question": "x" * (3 * 2**20)}, 413),
    ],
)
def test_what_is_too_large_is_refused_with_a_remedy(open_client: Open, body: object, status: int) -> None:
    response = open_client(LOCAL).post(ASK, json=body)
    assert response.status_code == status
    assert response.json()["remedy"]


def test_json_of_endless_depth_is_refused(open_client: Open) -> None:
    body = '{"question": ' + "[" * 200_000 + "]" * 200_000 + "}"
    response = open_client(LOCAL).post(ASK, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 400


def test_a_long_address_is_refused(open_client: Open) -> None:
    assert open_client(LOCAL).get("/api/v1/entities", params={"q": "x" * 9000}).status_code == 413


# -- connections


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


@pytest.fixture(scope="module")
def address(workspace: Workspace) -> Iterator[tuple[str, int]]:
    """A server that waits for nobody, and takes five connections."""
    settings = replace(LOCAL, header_seconds=0.2, body_seconds=0.2, max_connections=5)
    app = create_app(Workspace(workspace.indexes), settings)
    with running(app, lifespan="off", http=limited_protocol(settings.max_connections, settings.header_seconds)) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        yield host, int(port)


def test_a_silent_client_is_cut_off(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        assert read_all(connection) == b""


def test_headers_that_never_end_are_cut_off(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert read_all(connection) == b""


def test_a_body_that_never_ends_is_cut_off(address: tuple[str, int]) -> None:
    head = b"POST /api/v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(address) as connection:
        connection.sendall(head + b'Content-Length: 1000\r\nConnection: close\r\n\r\n{"question": "')
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_more_silent_connections_than_places_keep_nobody_out(address: tuple[str, int]) -> None:
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(12)]
        with socket.create_connection(address) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert read_all(connection).startswith(b"HTTP/1.1 200")
        assert {read_all(each) for each in silent} == {b""}
