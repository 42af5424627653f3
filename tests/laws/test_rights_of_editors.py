"""two servers that hide different things -> an editor with a filter gets the same, and changes nothing of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from starlette.testclient import TestClient

from kumihimo import Kumihimo
from kumihimo.app.upkeep.keys import create_key
from kumihimo.core.digests import hash_parts
from kumihimo.index.sources import load_sources
from kumihimo.server.app import create_app
from kumihimo.server.sessions import Sessions
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import open_workspace
from tests.fixtures_index import fill
from tests.server.api.town import BuildHere
from tests.server.clients import ADDRESS, bearer

RIGHTS = 'access = "open" or to or title = "papers.zip"'  # of letters and the archive, whatever is in them
OPEN, SECRET = (f"---\naccess: {access}\n---\n" for access in ("open", "secret"))
EDITOR = "0ed17000"  # the id of the key, which is a part of addresses
VISIBLE = {
    "harbour.md": f"{OPEN}Ada Holm mended the breakwater at Port Sorrel.",
    "tides.md": f"{OPEN}Joss Kerrow keeps the tide tables of Port Sorrel.",
    "note.md": f"{OPEN}Ada Holm trusts Joss Kerrow.",
}
HIDDEN_WORDS = ("zebulon", "ysolde", "vault", "ledger", "quarry")
PARTS = ("list.md", "plan.md", "torn.json")  # a letter and an archive name them to everyone who may read these
PATHS = ("vault.md", "deep", "deep/ledger.md", "nothing.md", "tides.md", "../outside.md")
HIDDEN = ("vault.md", "deep/ledger.md", "nothing.md", "letter.eml#plan.md", "songs.jsonl#2", "papers.zip#plan.md")
Replies = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Secrets:
    """What a server hides.

    files: beside the visible ones. parts: the texts of parts of a letter and of an archive. rows: of a file that has a
    visible row.
    """

    files: dict[str, str]
    parts: tuple[str, str]
    rows: tuple[str, ...]


MUCH = Secrets(
    {"vault.md": f"{SECRET}Zebulon keeps the gold of the vault.", "deep/ledger.md": f"{SECRET}Ysolde owes Zebulon."},
    (f"{SECRET}Zebulon Quarry and Ysolde rob Port Sorrel.", "{no JSON"),
    ("Zebulon sings.", "Ysolde sings."),
)
NOTHING = Secrets({}, ("", '{"text": "Bo rests.", "access": "secret"}'), ())


def parts_of(secrets: Secrets) -> list[tuple[str, str]]:
    return [*zip(PARTS, (f"{OPEN}A list of nets.", *secrets.parts), strict=True)]


def write_letter(secrets: Secrets) -> bytes:
    """Return a letter with parts: a visible one, a hidden one, and one that may be unreadable."""
    letter = EmailMessage()
    letter["From"], letter["To"], letter["Subject"] = "Ada Holm <ada@example.org>", "joss@example.org", "Papers"
    letter["Date"] = "Mon, 01 Jan 2024 00:00:00 +0000"
    letter.set_content("Here are the papers.")
    for name, text in parts_of(secrets):
        letter.add_attachment(text.encode(), maintype="application", subtype="octet-stream", filename=name)
    return letter.as_bytes()


def write_archive(secrets: Secrets) -> bytes:
    """Return the same parts as an archive."""
    packed = BytesIO()
    with ZipFile(packed, "w") as archive:
        for name, text in parts_of(secrets):
            archive.writestr(name, text)
    return packed.getvalue()


def write_rows(secrets: Secrets) -> str:
    """Return a file with a visible row, and hidden ones."""
    rows = [{"id": "open", "text": "Bo sings.", "access": "open"}]
    rows += [{"text": text, "access": "secret"} for text in secrets.rows]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@dataclass
class Server:
    """A server, and the two who use it: an admin, and an editor with a filter.

    shown: address, hidden word -> the reply to the editor that has it.
    """

    folder: Path
    client: TestClient
    kumi: Kumihimo
    admin: str
    editor: str
    shown: dict[tuple[str, str], str] = field(default_factory=dict)

    def call(self, method: str, path: str, *, by_admin: bool = False, **options: Any) -> Any:
        headers = bearer(self.admin if by_admin else self.editor) | options.pop("headers", {})
        return self.client.request(method, path, headers=headers, **options)

    def reply(self, method: str, path: str, **options: Any) -> str:
        """Return what the editor gets, without what differs each time."""
        response = self.call(method, path, **options)
        text = f"{response.status_code} {sorted(response.headers)} {response.text}"
        asked, words = f"{path} {options}".lower(), (str(self.folder).lower(), *HIDDEN_WORDS)
        self.shown |= {(path, word): text for word in words if word in text.lower() and word not in asked}
        for pattern in (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.+Z]*",
            r"\b([0-9a-f]{12}|[0-9a-f]{64})\b",
            r'"seconds":[\d.e-]+',
        ):
            text = re.sub(pattern, "*", text)
        return text

    def post_form(self, path: str) -> str:
        """Return what the editor gets for a form of the page."""
        sessions: Sessions = self.client.app.state.sessions  # type: ignore[attr-defined]
        return self.reply("POST", path, data={"csrf": sessions.csrf_token()})

    def wait(self, response: Any) -> str:
        """Wait for the end of a build, and return its id."""
        id: str = response.json()["build"]["id"]
        last = self.call("GET", f"/api/v1/builds/{id}/events", by_admin=True).text.rpartition("data: ")[2]
        assert json.loads(last)["state"] == "done", last
        return id

    def hidden(self) -> dict[str, str]:
        """Return the hidden documents with their texts, the rules that keep others out, and all files."""
        with self.kumi.snapshot() as whole, self.kumi.snapshot(rights=RIGHTS) as seen:
            shown = {document.uri for document in seen.table("documents")}
            rules = [rule for source in load_sources(whole.db, self.kumi.base).values() for rule in source.rules]
            texts = {each.uri: each.text for each in whole.table("documents") if each.uri not in shown}
        paths = (path for name in ("town", "uploads") for path in (self.folder / name).rglob("*") if path.is_file())
        return texts | {f"rule {rule}": "" for rule in rules} | {str(path): path.read_bytes().hex() for path in paths}


@contextmanager
def serve_town(folder: Path, secrets: Secrets) -> Iterator[Server]:
    """Run a server of the visible documents and these hidden ones."""
    fill(folder / "town", {**VISIBLE, "songs.jsonl": write_rows(secrets), **secrets.files})
    for name, data in (("letter.eml", write_letter(secrets)), ("papers.zip", write_archive(secrets))):
        (folder / "town" / name).write_bytes(data)
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(folder / "town", methods=["bm25"])
    settings = ServerSettings(require_keys=True, roots=(folder / "town",))
    _, admin = create_key([folder / ".kumi"], "admin", requests_per_minute=10**6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kumihimo.app.upkeep.keys.token_hex", lambda _: EDITOR)
        _, editor = create_key([folder / ".kumi"], "editor", rights=RIGHTS, requests_per_minute=10**6)
    workspace = open_workspace([folder / ".kumi"], settings)
    with TestClient(create_app(workspace, settings), base_url=ADDRESS, follow_redirects=False) as client:
        yield Server(folder, client, workspace.indexes["place"].kumi, admin, editor)


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Server, Server]]:
    """A server that hides much, with the traces of an admin; and one that hides nothing."""
    monkeypatch.setattr("kumihimo.server.builds.Worker", BuildHere)
    with ExitStack() as stack:
        secrets = {"much": MUCH, "nothing": NOTHING}
        much, nothing = (stack.enter_context(serve_town(tmp_path / n / "place", each)) for n, each in secrets.items())
        rows = "".join(f'{{"id": "{id}", "text": "Zebulon, {id}.", "access": "secret"}}\n' for id in "ab")
        files = [("file", ("plan.jsonl", rows)), ("file", ("scan.pdf", b"%PDF-1.4 nothing"))]
        much.wait(much.call("POST", "/api/v1/documents", by_admin=True, files=files))
        for uri in ("place/plan.jsonl#a", "town/vault.md"):
            much.wait(much.call("DELETE", f"/api/v1/documents/{hash_parts(uri)}", by_admin=True))
        yield much, nothing


def document_id(name: str) -> str:
    return hash_parts(f"town/{name}")


def read_everything(server: Server) -> Replies:
    """Yield the name of each request that only reads, and what the editor gets."""
    pages = ("/documents", "/status", "/")
    reads = ("documents", "documents?q=vault", "status", "usage", "builds", "methods", "documents?limit=1")
    for path in (*pages, *(f"/api/v1/{each}" for each in reads)):
        yield path, server.reply("GET", path)
    yield from ask(server)
    for name in (*VISIBLE, "letter.eml", "papers.zip", "letter.eml#list.md", "songs.jsonl#open", *HIDDEN):
        for path in ("/documents/{}", "/api/v1/documents/{}", "/api/v1/documents/{}/text", "/documents/{}/delete"):
            yield f"{path} {name}", server.reply("GET", path.format(document_id(name)))
    for name in HIDDEN:
        yield f"after {name}", server.reply("GET", f"/api/v1/documents?after={document_id(name)}")


def ask(server: Server) -> Replies:
    """Yield each question and call by MCP, and what the editor gets."""
    for filter in ("access = 1", "acess = 1", "nobody = 1", "not_read"):
        body = {"question": "Who mended the breakwater?", "method": "bm25", "filter": filter}
        for route in ("retrieve", "plan", "ask"):
            yield f"{route} {filter}", server.reply("POST", f"/api/v1/{route}", json=body)
    tools: tuple[tuple[str, dict[str, Any]], ...] = (
        ("list_documents", {}),
        ("list_documents", {"text": "vault"}),
        ("open_citation", {"id": document_id("vault.md")}),
        ("open_citation", {"id": "town/vault.md"}),
        ("search", {"question": "Who mended the breakwater?", "filter": "acess = 1"}),
    )
    for tool, arguments in tools:
        yield f"{tool} {arguments}", call_mcp(server, "tools/call", tool, name=tool, arguments=arguments)
    yield "resources", call_mcp(server, "resources/list")
    for name in ("harbour.md", *HIDDEN):
        uri = f"kumi://place/documents/{document_id(name)}"
        yield f"resource {name}", call_mcp(server, "resources/read", uri, uri=uri)


def call_mcp(server: Server, method: str, about: str = "", **named: object) -> str:
    """Return what the editor gets by MCP. about: the tool or resource."""
    client = {f"io.modelcontextprotocol/{key}": value for key, value in MCP_CLIENT.items()}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}
    headers |= {"Mcp-Method": method} | ({"Mcp-Name": about} if about else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**named, "_meta": client}}
    return server.reply("POST", "/mcp", json=body, headers=headers)


MCP_CLIENT = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "x", "version": "1"}, "clientCapabilities": {}}


def reach_for_more(server: Server) -> Replies:
    """Yield each request for a change of what is hidden, and what the editor gets."""
    builds = server.call("GET", "/api/v1/builds", by_admin=True).json()["builds"]
    id = builds[0]["id"] if builds else "0" * 12
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        yield f"build{path}", server.reply(method, f"/api/v1/builds/{id}{path}")
    for path in PATHS:
        for route, body in (
            ("documents/paths", {"path": path}),
            ("builds", {"paths": [path]}),
            ("plan", {"paths": [path]}),
        ):
            yield f"{route} {path}", server.reply("POST", f"/api/v1/{route}", json=body)
    yield "refresh", server.reply("POST", "/api/v1/builds", json={"refresh": True})
    for name in ("letter.eml", "papers.zip", *HIDDEN):
        for query in ("", "?whole_file=true"):
            yield f"delete {name}{query}", server.reply("DELETE", f"/api/v1/documents/{document_id(name)}{query}")
        yield f"delete {name} on the page", server.post_form(f"/documents/{document_id(name)}/delete")
    yield "build on the page", server.post_form("/builds")
    row = document_id("songs.jsonl#open")
    yield "delete all rows", server.reply("DELETE", f"/api/v1/documents/{row}?whole_file=true")


def change_own(server: Server) -> Replies:
    """Yield each change that the editor may make, and what it gets of its build."""
    row = '{"id": "a", "text": "An open row.", "access": "open"}\n'  # files whose names others have taken
    files = [("file", ("plan.jsonl", row)), ("file", ("scan.pdf", b"")), ("file", ("plan.md", f"{OPEN}Mine."))]
    yield "upload", change(server, "POST", "/api/v1/documents", files=files)
    yield "delete", change(server, "DELETE", f"/api/v1/documents/{document_id('tides.md')}")
    yield "delete a row", change(server, "DELETE", f"/api/v1/documents/{document_id('songs.jsonl#open')}")
    yield "delete an upload", change(server, "DELETE", f"/api/v1/documents/{hash_parts(f'place/{EDITOR}/plan.md')}")


def change(server: Server, method: str, path: str, **options: Any) -> str:
    response = server.call(method, path, **options)
    assert response.status_code == 202, response.text
    build = f"/api/v1/builds/{server.wait(response)}"
    return "".join(server.reply("GET", f"{build}{part}") for part in ("", "/events"))


def test_what_is_hidden_neither_shows_nor_changes(servers: tuple[Server, Server]) -> None:
    much, nothing = servers
    hidden, different = much.hidden(), dict[str, tuple[str, str]]()
    assert len(hidden) == 18
    for requests in (reach_for_more, change_own, read_everything):
        for (name, ours), (_, theirs) in zip(requests(much), requests(nothing), strict=True):
            different |= {name: (ours, theirs)} if ours != theirs else {}
            assert requests is not reach_for_more or ours.startswith(("403", "404")), (name, ours)
    assert different == {}
    assert much.shown == {}
    assert {name: much.hidden().get(name) for name in hidden} == hidden
