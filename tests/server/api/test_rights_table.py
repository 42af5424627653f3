"""Every route x every kind of key: the status and the effect that the table says; no route without a row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from shutil import copytree
from typing import Any, cast

import pytest
from fastapi.routing import iter_route_contexts
from starlette.testclient import TestClient

from kumihimo.app.upkeep.keys import ROLES, Role, create_key, revoke_key
from kumihimo.core.digests import hash_parts
from kumihimo.server.access import BUILD_DETAILS, BUILD_PLAN, FACTS, RIGHTS, SPENT, WHOLE_FILE
from kumihimo.server.app import create_app
from kumihimo.server.mcp.tools import TOOLS
from kumihimo.server.workspace import open_workspace
from tests.server.api.test_api_rights import HIDDEN
from tests.server.api.town import OPEN, SECRET_WORDS
from tests.server.clients import ADDRESS, GUARDED, LOCAL, bearer

DOCS = Path(__file__).parents[3] / "docs" / "server.md"
KINDS: dict[str, tuple[Role, str]] = {  # of valid keys: role and filter
    **{role: (role, "") for role in ROLES},
    **{f"{role} with a filter": (role, OPEN) for role in ROLES},
}
LEFT_OUT = {BUILD_DETAILS: '"options"', FACTS: '"folder"', SPENT: '"entries"'}  # part of a reply -> a field of it
PARTS = (*LEFT_OUT, BUILD_PLAN, WHOLE_FILE)
MCP_CLIENT = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "x", "version": "1"}, "clientCapabilities": {}}


def allows(row: str, kind: str) -> bool:
    """Return whether the table gives a right to a kind of key."""
    if kind in KINDS:
        role, rights = KINDS[kind]
        right = RIGHTS[row]
        return ROLES.index(role) >= ROLES.index(right.role or "reader") and not (
            rights and right.with_filter == "refused"
        )
    return kind.startswith("local") or (kind == "none" and not RIGHTS[row].role)


class Idle:
    """A worker that builds nothing, so that each request finds the same index."""

    def __init__(self, *_: object, **__: object) -> None: ...
    def __enter__(self) -> Idle:
        return self

    def __exit__(self, *_: object) -> None: ...
    def stop(self) -> None: ...
    def ask(self, _: object) -> Iterator[dict[str, Any]]:
        yield {"result": {"rows": {}, "failed": []}}


@dataclass(frozen=True)
class Ids:
    """What an address names: a document, an entity, a community with its report, and a build."""

    document: str
    entity: str
    community: str
    job: str


@dataclass(frozen=True)
class Example:
    """A request for a route, and the status of its reply to one who may send it."""

    method: str
    path: str
    status: int = 200
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Town:
    """A server with keys and one without, over the same index."""

    guarded: TestClient
    local: TestClient
    headers: Mapping[str, dict[str, str]]  # by kind of key
    key_ids: Mapping[str, str]
    folder: Path

    def send(self, kind: str, example: Example) -> Any:
        client = self.local if kind.startswith("local") else self.guarded
        client.cookies.clear()
        options = {**example.options}
        if "data" in options:
            options["data"] = {"csrf": cast(Any, client.app).state.sessions.csrf_token(), **options["data"]}
        headers = {**self.headers.get(kind, {}), **options.pop("headers", {})}
        return client.request(example.method, example.path, headers=headers, **options)


FILES = {"file": ("open.md", b"---\naccess: open\n---\nA note.")}
EDIT = "type: Ada Holm = sailor"
UPLOAD = Example("POST", "/api/v1/documents", 202, {"files": FILES})


def call_mcp(method: str, name: str = "", arguments: object = None, **parameters: str) -> Example:
    """Return a call by MCP."""
    named = {"name": name, "arguments": arguments} if name else parameters
    client = {f"io.modelcontextprotocol/{key}": value for key, value in MCP_CLIENT.items()}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    headers |= {"Mcp-Method": method} | ({"Mcp-Name": name or parameters.get("uri", "")} if named else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**named, "_meta": client}}
    return Example("POST", "/mcp", options={"json": body, "headers": headers})


def examples(ids: Ids) -> dict[str, Example]:
    """Return a request for each row of the table."""
    question = {"question": "Who is Ada Holm?", "method": "bm25"}
    messages = {"model": "kumi/bm25", "messages": [{"role": "user", "content": "Who is Ada Holm?"}]}
    posts: dict[str, tuple[int, dict[str, Any]]] = {
        "POST /login": (401, {"data": {"key": "kumi_x"}}),
        "POST /preferences": (303, {"data": {}}),
        "POST /logout": (303, {"data": {}}),
        "POST /": (200, {"data": {"question": "Who is Ada Holm?", "method": "bm25"}}),
        "POST /v1/embeddings": (200, {"json": {"model": "kumi", "input": "Ada Holm"}}),
        "POST /v1/chat/completions": (200, {"json": messages}),
        "POST /v1/responses": (200, {"json": {"model": messages["model"], "input": messages["messages"]}}),
        "POST /api/v1/retrieve": (200, {"json": question}),
        "POST /api/v1/ask": (200, {"json": question}),
        "POST /api/v1/plan": (200, {"json": question}),
        "POST /api/v1/documents": (202, {"files": FILES}),
        "POST /api/v1/documents/paths": (202, {"json": {"path": "harbour.md"}}),
        "POST /api/v1/builds": (202, {"json": {}}),
        "POST /api/v1/builds/{id}/cancel": (200, {"json": {}}),
        "POST /api/v1/edits": (202, {"json": {"line": EDIT}}),
        "POST /edits": (303, {"data": {"line": EDIT}}),
        "POST /documents": (303, {"data": {}, "files": FILES}),
        "POST /documents/{id}/delete": (303, {"data": {}}),
        "POST /builds": (303, {"data": {}}),
        "POST /builds/{id}/cancel": (303, {"data": {}}),
        "DELETE /api/v1/documents/{id}": (202, {}),
        "DELETE /mcp": (400, {"headers": {"MCP-Protocol-Version": "2025-06-18"}}),  # without a session
        WHOLE_FILE: (202, {"params": {"whole_file": True}}),
        BUILD_PLAN: (200, {"json": {}}),
    }
    found = {
        "POST /mcp": call_mcp("tools/list"),
        "MCP tools/list": call_mcp("tools/list"),
        "MCP resources/list": call_mcp("resources/list"),
        "MCP resources/templates/list": call_mcp("resources/templates/list"),
        "MCP resources/read": call_mcp("resources/read", uri=f"kumi://town/documents/{ids.document}"),
        "MCP tools/call search": call_mcp("tools/call", "search", {"question": "Who is Ada Holm?", "method": "bm25"}),
        "MCP tools/call ask": call_mcp("tools/call", "ask", {"question": "Who is Ada Holm?", "method": "bm25"}),
        "MCP tools/call open_citation": call_mcp("tools/call", "open_citation", {"id": ids.document}),
        "MCP tools/call list_documents": call_mcp("tools/call", "list_documents", {}),
        "MCP tools/call entity": call_mcp("tools/call", "entity", {"name": ids.entity}),
        "MCP tools/call report": call_mcp("tools/call", "report", {"topic": ids.community}),
    }
    values = {"documents": ids.document, "entities": ids.entity, "builds": ids.job}
    values |= dict.fromkeys(("communities", "reports"), ids.community)
    for row in RIGHTS.keys() - found.keys():
        method, path = row.partition(":")[0].split() if row in PARTS else row.split()
        path = path.replace("{table}/{id:path}", f"entities/{ids.entity}").replace("{name:path}", "kumi/bm25")
        path = path.replace("{version}/{language}/{name}", "x/en/style.css")
        path = re.sub(r"(\w+)/\{id\}", lambda match: f"{match[1]}/{values[match[1]]}", path)
        path += f"?from=Ada Holm&to={ids.entity}" if row == "GET /api/v1/path" else ""
        found[row] = Example(method, path, *posts.get(row, (200, {})))
    return found


@pytest.fixture(scope="module")
def server(town: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("table") / "town"
    copytree(town, folder)
    keys = {
        kind: create_key([folder / ".kumi"], role, rights=rights, requests_per_minute=10**6)
        for kind, (role, rights) in {**KINDS, "revoked": ("admin", "")}.items()
    }
    revoke_key(folder / ".kumi", keys["revoked"][0])
    headers = {kind: bearer(token) for kind, (_, token) in keys.items()}
    headers |= {"unknown": bearer("kumi_x"), "local with any key": bearer("kumi_x")}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setattr("kumihimo.server.builds.Worker", Idle)
        patch.setattr("kumihimo.server.limits._FAILED_KEYS_PER_MINUTE", 10**6)
        clients = []
        for settings in (GUARDED, LOCAL):
            settings = replace(settings, roots=(folder / "town",))
            app = create_app(open_workspace([folder / ".kumi"], settings), settings)
            clients.append(stack.enter_context(TestClient(app, base_url=ADDRESS, follow_redirects=False)))
        guarded, local = clients
        yield Town(guarded, local, headers, {kind: id for kind, (id, _) in keys.items()}, folder)


@dataclass(frozen=True)
class Found:
    """What addresses name: of an open document, and of a secret one."""

    open: Ids
    secret: Ids


@pytest.fixture(scope="module")
def found(server: Town) -> Found:
    build = server.send("admin", UPLOAD).json()["build"]["id"]

    def ids_of(name: str, uri: str) -> Ids:
        entity = server.send("admin", Example("GET", f"/api/v1/entities/{name}")).json()
        return Ids(hash_parts(uri), entity["id"], entity["communities"][0]["id"], build)

    return Found(ids_of("Ada Holm", "town/harbour.md"), ids_of("Zebulon Quarry", "town/vault.md"))


def may_use(server: Town, ids: Ids, kind: str) -> Ids:
    """Return the ids, with a build of this key if it may have one."""
    if not allows("POST /api/v1/documents", kind):
        return ids
    return replace(ids, job=server.send(kind, UPLOAD).json()["build"]["id"])


def routes_of(server: Town) -> set[str]:
    contexts = [*iter_route_contexts(cast(Any, server.guarded.app).routes)]
    routes = {(method, context.path) for context in contexts for method in context.methods or ("POST", "DELETE")}
    return {f"{method} {path}" for method, path in routes if method != "HEAD"}


def test_every_route_has_a_row_and_every_row_a_route(server: Town) -> None:
    named = {route.replace("/indexes/{index_name}", "") for route in routes_of(server)}
    tools = {f"MCP tools/call {name}" for name in TOOLS}
    others = {f"MCP {name}" for name in ("tools/list", "resources/list", "resources/read", "resources/templates/list")}
    assert named | tools | others | {*LEFT_OUT, BUILD_PLAN, WHOLE_FILE} == RIGHTS.keys()


def of_index(row: str, example: Example, routes: set[str]) -> Iterator[Example]:
    """Yield a request, and the same for an index that the address names."""
    yield example
    base = "/api/v1" if example.path.startswith("/api/v1") else ""
    method, path = row.partition(":")[0].split(" ", 1) if row in PARTS else row.split(" ", 1)
    if f"{method} {base}/indexes/{{index_name}}{path.removeprefix(base)}" in routes:
        yield replace(example, path=f"{base}/indexes/town{example.path.removeprefix(base)}")


@pytest.mark.parametrize("kind", [*KINDS, "none", "revoked", "unknown", "local without a key", "local with any key"])
def test_each_kind_of_key_may_do_what_the_table_says(server: Town, found: Found, kind: str) -> None:
    wrong, routes = {}, routes_of(server)
    for row, example in examples(may_use(server, found.open, kind)).items():
        requests = of_index(row, example, routes) if kind in ("none", "reader", "editor with a filter") else [example]
        for request in () if row in LEFT_OUT else requests:
            reply = server.send(kind, request)
            status = example.status if allows(row, kind) else 403 if kind in KINDS else 401
            if row.endswith("/reports/{id}") and "filter" in kind:
                status = 404  # it rests on hidden documents too
            if reply.status_code != status:
                wrong[row, request.path] = (reply.status_code, status, reply.text[:200])
            if status == 403 and allows(row, kind.partition(" ")[0]):
                assert "no filter" in reply.text
    assert wrong == {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", LEFT_OUT)
def test_a_part_that_is_not_allowed_is_left_out(server: Town, found: Found, row: str, kind: str) -> None:
    may_use(server, found.open, kind)
    reply = server.send(kind, examples(found.open)[row])
    assert (LEFT_OUT[row] in reply.text) == allows(row, kind)


def secrets_in(text: str, asked: object = "") -> list[str]:
    words = [word for word in (*SECRET_WORDS, *HIDDEN) if word in text.lower()]
    return [word for word in words if word not in f"{asked}".lower()]


def test_without_a_filter_all_documents_show(server: Town, found: Found) -> None:
    requests = {row: example for row, example in examples(found.secret).items() if "builds" not in row}
    shown = {row for row, example in requests.items() if secrets_in(server.send("reader", example).text, example)}
    assert len(shown) > 30


@pytest.mark.parametrize("role", ROLES)
def test_a_key_with_a_filter_sees_only_documents_that_match(server: Town, found: Found, role: Role) -> None:
    for ids in (found.open, found.secret):
        for row, example in examples(may_use(server, ids, f"{role} with a filter")).items():
            if RIGHTS[row].with_filter == "visible" and example.method != "DELETE":
                assert secrets_in(server.send(f"{role} with a filter", example).text, example) == [], row


@pytest.mark.parametrize("role", ROLES)
def test_what_is_hidden_is_as_if_it_did_not_exist(server: Town, found: Found, role: Role) -> None:
    kind, nothing = f"{role} with a filter", Ids(*["f" * 20] * 4)
    for row, example in examples(nothing).items():
        if "{id" in row and "communities" not in row and "reports" not in row and "builds" not in row:
            secret = replace(found.secret, job=nothing.job)
            ours, theirs = server.send(kind, examples(secret)[row]), server.send(kind, example)
            texts = [
                re.sub(f"{secret.document}|{secret.entity}|{nothing.job}", "ID", each.text) for each in (ours, theirs)
            ]
            assert (ours.status_code, texts[0]) == (theirs.status_code, texts[1]), row
            assert ours.status_code in (403, 404)


@pytest.mark.parametrize("role", ROLES)
def test_where_nothing_comes_from_documents_a_filter_changes_nothing(server: Town, found: Found, role: Role) -> None:
    for row, example in examples(found.open).items():
        if RIGHTS[row].with_filter == "whole":
            with_filter, without = (server.send(kind, example) for kind in (f"{role} with a filter", role))
            texts = [
                with_filter.text.replace(server.key_ids[f"{role} with a filter"], server.key_ids[role]),
                without.text,
            ]
            texts = [re.sub(r'\b[0-9a-f]{64}\b|,"entries":\[.*?\]', "", text) for text in texts]
            assert texts[0] == texts[1], row


NEEDS: dict[str, str] = {"": "no key", **{role: f"`{role}`" for role in ROLES}}
GETS = {"visible": "what matches alone", "whole": "the same", "refused": "refused"}


def write_table() -> str:
    """Return the table as the documentation shows it."""
    rows = [("needs", "a key with a filter gets", "routes"), ("---",) * 3]
    for right, routes in groupby(RIGHTS, key=RIGHTS.__getitem__):
        names = [f"`{route}`" for route in routes]
        rows.append((NEEDS[right.role], GETS[right.with_filter], ", ".join(names)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def test_the_documentation_shows_the_table() -> None:
    assert write_table() in DOCS.read_text(encoding="utf-8"), write_table()
