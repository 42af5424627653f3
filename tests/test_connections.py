"""addresses -> one error for wrong ones at every door, connections only where KUMI_OFFLINE and trust allow them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import httpx2
import psycopg
import pytest
from hypothesis import example, given, strategies as st

from kumihimo import Kumihimo
from kumihimo.app.opened.catalogue import installed_catalogue
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.app.settings.trust import TrustRequired, requested_grants
from kumihimo.connections import connect_postgres, join_ray
from kumihimo.core import redaction
from kumihimo.core.errors import IndexUnavailable, SettingsError, SourceError
from kumihimo.core.network import MODEL, KeyVariable, is_local
from kumihimo.core.redaction import hide_secrets
from kumihimo.core.signature import settings_of
from kumihimo.storage.place import IndexPlace
from tests.cli_runner import kumi
from tests.fake_ray import FakeRay
from tests.stores import NEEDS_POSTGRES

ROOT = Path(__file__).parents[1]
SETTINGS = SettingsRegistry(installed_catalogue()).all

# -- wrong addresses

WRONG = [
    "SCHEME://user:hunter2@[::1/x",
    "SCHEME://user:hunter2@h:99999/x",
    "SCHEME://user:hunter2@h:port/x",
    "SCHEME://user:hunter2@h\n/x",
    "SCHEME://user:hunter2@h/x\ny",
    "SCHEME://user:hunter2@a b/x",
    "SCHEME://user:hunt/er2@h/x",
    "SCHEME://user:hunter2",
    "SCHEME:user:hunter2@h/x",
    "SCHEME//user:hunter2@h/x",
    "user:hunter2@h/x",
    "ftp://user:hunter2@h/x",
    "SCHEME://user:℀hunter2@h/x",
]
DOORS: dict[str, tuple[str, Callable[[Path, str], object]]] = {
    "an index in Python": ("postgresql", lambda _, text: IndexPlace.at(text)),
    "an index that is opened": ("postgresql", lambda _, text: Kumihimo.open(text)),
    "a setting in Python": ("http", lambda path, text: opened(path, {"chat": {"base_url": text}})),
    "a setting of one method": ("http", lambda path, text: opened(path, {"hyde": {"base_url": text}})),
    "an executor": ("ray", lambda path, text: opened(path, {"building": {"executor": text}})),
    "kumi.toml": ("http", lambda path, text: opened(path, {}, toml=f"[embedding]\nbase_url = {json.dumps(text)}")),
    "a page": ("https", lambda path, text: Kumihimo(path / ".kumi").index(text)),
}
COMMANDS: dict[str, tuple[str, Callable[[Path, str], Any]]] = {
    "--index": ("postgresql", lambda path, text: kumi(path, "status", "--index", text)),
    "--index of a server": ("postgresql", lambda path, text: kumi(path, "serve", "--index", text)),
    "a copy": ("postgresql", lambda path, text: kumi(path, "copy", ".kumi", text)),
    "KUMI_INDEX": ("postgresql", lambda path, text: kumi(path, "status", KUMI_INDEX=text)),
    "a variable": ("http", lambda path, text: kumi(path, "status", KUMI_RERANKING_BASE_URL=text)),
    "--set": ("http", lambda path, text: kumi(path, "plan", ".", "--set", f"chat.base_url={text}")),
    "--executor": ("ray", lambda path, text: kumi(path, "index", ".", "--executor", text)),
}


def opened(path: Path, settings: Any, toml: str = "") -> None:
    (path / "kumi.toml").write_text(toml, "utf-8")
    Kumihimo.open(path / ".kumi", settings=settings).close()


def is_path(door: str, text: str) -> bool:
    """A web page is told from a folder by its `://`, and a folder may have any name."""
    return door == "a page" and "://" not in text


@pytest.mark.parametrize("text", WRONG)
@pytest.mark.parametrize("door", DOORS)
def test_a_wrong_address_is_one_error_without_its_password(door: str, text: str, tmp_path: Path) -> None:
    scheme, enter = DOORS[door]
    text = text.replace("SCHEME", scheme)
    if is_path(door, text):
        return
    with pytest.raises(SourceError if door == "a page" else SettingsError) as error:
        enter(tmp_path, text)
    assert re.search("is no address: write it like|no store is known by ftp|a password is not", str(error.value))
    assert not re.search("hunt|er2", str(error.value))


@pytest.mark.parametrize("text", [WRONG[0], WRONG[3], "SCHEME:user:hunter2@h/x", "ftp://user:hunter2@h/x"])
@pytest.mark.parametrize("door", COMMANDS)
def test_a_wrong_address_of_a_command_is_one_line(door: str, text: str, tmp_path: Path) -> None:
    scheme, run = COMMANDS[door]
    ran = run(tmp_path, text.replace("SCHEME", scheme))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.fullmatch(r"kumi: .*is no address: write it like .*\n", ran.stderr)
    assert "hunt" not in ran.stderr


HOST_PARTS = "@ : / ? # \\ , . - [ ] ::1 %2f %00 é １ ① ß localhost 127.0.0.1 evil.example 80"


@given(st.lists(st.sampled_from(HOST_PARTS.split())))
@example(["localhost", "\\", "@", "evil.example"])
def test_all_programs_read_a_host_in_the_same_way(parts: list[str]) -> None:
    text = "http://" + "".join(parts)
    try:
        address = MODEL.parse_address(text)
    except SettingsError:
        return
    try:
        hosts = {*address.hosts, httpx2.URL(text).host, httpx2.URL(text).raw_host.decode()}
    except (httpx2.InvalidURL, UnicodeError):  # then it is not asked
        return
    assert len({*map(is_local, hosts)}) == 1, hosts


# -- KUMI_OFFLINE


@NEEDS_POSTGRES
@pytest.mark.parametrize(
    ("address", "variables", "is_here"),
    [
        ("postgresql:///notes", {}, True),
        ("postgresql://localhost:5433/notes", {}, True),
        ("postgresql://127.0.0.1,[::1]:5433/notes", {}, True),
        ("postgresql:///notes?host=/run/postgresql", {}, True),
        ("postgresql://%2Frun%2Fpostgresql/notes", {}, True),
        ("postgresql://db.example/notes", {}, False),
        ("postgresql://me:hunter2@localhost@db.example/notes", {}, False),
        ("postgresql://localhost,db.example/notes", {}, False),
        ("postgresql://localhost/notes?hostaddr=192.0.2.7", {}, False),
        ("postgresql:///notes?host=db.example", {}, False),
        ("postgresql:///notes?service=far", {}, False),
        ("postgresql:///notes", {"PGHOST": "db.example"}, False),
        ("postgresql://localhost/notes", {"PGHOSTADDR": "192.0.2.7"}, False),
        ("postgresql://localhost/notes", {"PGHOST": "db.example"}, True),
    ],
)
def test_a_database_on_another_machine_is_not_asked_offline(
    address: str, variables: dict[str, str], is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(psycopg, "connect", lambda address, **_: asked.append(address))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if is_here:
        connect_postgres(address, "it")
        assert asked == [address]
        return
    with pytest.raises(IndexUnavailable, match=r"KUMI_OFFLINE is set, so postgresql://.* is not asked") as error:
        Kumihimo.open(address).retrieve("tide", "bm25")
    assert (asked, "hunter2" in str(error.value)) == ([], False)
    monkeypatch.setenv("KUMI_OFFLINE", "0")
    connect_postgres(address, "it")
    assert asked == [address]


@pytest.mark.parametrize(
    ("cluster", "offline", "joined"),
    [
        ("ray://localhost:10001", "1", ["ray://localhost:10001"]),
        ("ray://head.example:10001", "0", ["ray://head.example:10001"]),
        ("ray://head.example:10001", "1", []),
        ("", "1", ["local"]),
        ("", "0", [None]),
    ],
)
def test_a_cluster_on_another_machine_is_not_joined_offline(
    cluster: str, offline: str, joined: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUMI_OFFLINE", offline)
    monkeypatch.setitem(sys.modules, "ray", ray := FakeRay())
    if joined:
        join_ray(cluster)
    else:
        with pytest.raises(SettingsError, match=f"KUMI_OFFLINE is set, so {cluster} is not asked"):
            join_ray(cluster)
    assert ray.asked == joined


# -- trust


def test_a_cluster_that_a_settings_file_names_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    (tmp_path / "kumi.toml").write_text('[building]\nexecutor = "ray://me:hunter2@head.example:10001"', "utf-8")
    grant = "runs parts of builds at ray://head.example:10001, which can run programs on this machine"
    with pytest.raises(TrustRequired, match=grant):
        Kumihimo.open(tmp_path / ".kumi")
    assert kumi(tmp_path, "trust", APPDATA=str(tmp_path / "home")).returncode == 0
    Kumihimo.open(tmp_path / ".kumi").close()
    for executor in ("inline", "ray", "ray://localhost:10001"):
        assert requested_grants({"building": {"executor": executor}}, SETTINGS) == []


SPEAKS_OF_ONE = re.compile(
    r"\b(address|cluster|command|endpoint|executable|file|folder|host|module|path|program|proxy|server|uri|url)\b", re.I
)
NAMES_NONE = {"reranking.model", "embedding.tables", "fetching.user_agent"}  # their help speaks of a server


def test_every_setting_that_names_a_server_or_a_program_has_a_mark() -> None:
    """Then a kumi.toml that sets it needs trust."""
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    help_texts = dict(re.findall(r"^\| `(\w+\.\w+)` \|[^|]*\| (.*) \|$", page, re.M))
    texts = {f"{scope}.{n}": s for scope, each in SETTINGS.items() for n, s in each.items() if "str" in str(s.type)}
    assert {name for name, setting in texts.items() if setting.default is not None} <= help_texts.keys()
    found = {name for name in texts if SPEAKS_OF_ONE.search(f"{name.replace('_', ' ')} {help_texts.get(name, '')}")}
    assert {name for name in found if texts[name].mark is None} == NAMES_NONE
    assert {"chat.base_url", "judge.base_url", "building.executor"} <= found


def test_an_extension_marks_its_settings() -> None:
    def step(text: str, *, url: Annotated[str, MODEL] = "", token: Annotated[str, KeyVariable()] = "") -> None:
        """Ask a server."""

    scopes = {**SETTINGS, "step": settings_of(step)}
    assert requested_grants({"step": {"url": "https://far.example/x"}}, scopes) == [("https://far.example", "")]
    both = {"step": {"url": "https://far.example/x", "token": "X"}}
    assert requested_grants(both, scopes) == [("https://far.example", "X")]


# -- secrets


def test_keys_and_passwords_of_an_open_index_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", ())
    monkeypatch.setenv("MY_KEY", "a1B2c3D4e5F6")
    Kumihimo(tmp_path, {"chat": {"base_url": "http://me:hunter2-3@localhost/v1"}, "judge": {"key": "MY_KEY"}}).close()
    assert hide_secrets("a1B2c3D4e5F6 hunter2-3") == "[hidden] [hidden]"


def test_a_key_in_a_document_stays_there_and_is_not_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", ())
    monkeypatch.setenv("MY_KEY", key := "a1B2c3D4e5F6")
    (tmp_path / "notes.txt").write_text(f"The key of the harbour is {key}.", "utf-8")
    settings = {"judge": {"key": "MY_KEY"}}
    with Kumihimo(tmp_path / ".kumi", settings) as index:
        index.index(tmp_path / "notes.txt", methods=["bm25"])
        assert key in index.ask("What is the key?", "bm25").text
    (tmp_path / "kumi.toml").write_text('judge.key = "MY_KEY"', "utf-8")
    for option in ([], ["--json"]):
        ran = kumi(tmp_path, "ask", "What is the key?", "--method", "bm25", *option, KUMI_TRUST="1")
        assert (ran.returncode, key in ran.stdout, "is [hidden]" in ran.stdout) == (0, False, True)


WITHOUT_A_MODEL = """
import sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        raise SystemExit(f"{event} {arguments}")

sys.addaudithook(refuse)
from kumihimo.cli.main import main

for line in ("index notes", "ask harbour --method bm25", "export graphml"):
    sys.argv = ["kumi", *line.split()]
    try:
        main()
    except SystemExit as stop:
        if stop.code:
            raise
"""


def test_without_a_model_nothing_is_sent_and_no_document_changes(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    for name in ("a.txt", "b.html"):
        (tmp_path / "notes" / name).write_text("<p>Ada Byron keeps the harbour of Sallow. See http://a.b/c", "utf-8")
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "notes").iterdir()}
    command = [sys.executable, "-c", WITHOUT_A_MODEL]
    online = {**os.environ, "KUMI_OFFLINE": "0"}
    ran = subprocess.run(command, cwd=tmp_path, env=online, capture_output=True, text=True, check=False)
    assert (ran.returncode, "harbour" in ran.stdout) == (0, True), ran.stderr
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "notes").iterdir()}


@pytest.mark.parametrize("text", ["notes", "./a:b@c", "/tmp/a:b@c", "..", "C:\\notes", "me@home", "a b/c.kumi"])
def test_what_is_a_folder(text: str) -> None:
    assert IndexPlace.at(text).folder == Path(text)


def test_the_password_of_a_database_is_in_no_log() -> None:
    place = IndexPlace.at("postgresql://ada:hunter2@db/notes")
    assert "hunter2" not in f"{place} {place!r}"


# -- the fence

OPENING = """
import ray
import socket
import requests
import fsspec
from urllib.request import urlopen
import httpx2; httpx2.Client()
from httpx2 import get
import psycopg; psycopg.connect("")
from psycopg import Connection; Connection.connect("")
from openai import OpenAI
"""


def test_no_other_module_may_open_a_connection() -> None:
    def find(name: str) -> int:
        words = ["ruff", "check", "--select", "TID251", "--output-format", "concise", "--stdin-filename", name, "-"]
        ran = subprocess.run([sys.executable, "-m", *words], input=OPENING, cwd=ROOT, capture_output=True, text=True)
        return ran.stdout.count(" TID251 ")

    assert find("src/kumihimo/readers/text.py") == OPENING.strip().count("\n") + 1
    assert find("src/kumihimo/connections.py") == 0
