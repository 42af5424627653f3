"""`kumi key` makes, lists and revokes keys; `kumi serve` begins only where it is safe and possible."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from kumihimo.app.upkeep.keys import list_keys, revoke_key
from tests.cli_runner import kumi


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with two index folders that have no documents yet."""
    for name in (".kumi", "b.kumi"):
        (tmp_path / name).mkdir()
    return tmp_path


def new_key(home: Path, *words: str) -> dict[str, str]:
    ran = kumi(home, "key", "new", "--role", "reader", "--json", *words)
    assert ran.returncode == 0, ran.stderr
    made: dict[str, str] = json.loads(ran.stdout)
    return made


def test_a_key_is_shown_once(home: Path) -> None:
    ran = kumi(home, "key", "new", "--role", "editor", "--name", "Ana", "--budget", "9000", "--rate", "30")
    note, token = ran.stdout.splitlines()
    assert note == "Keep this key: it is not shown again."
    assert re.fullmatch(r"kumi_[\w-]{43}", token)
    (key,) = list_keys(home / ".kumi")
    assert (key.name, key.role, key.daily_tokens, key.requests_per_minute) == ("Ana", "editor", 9000, 30)
    listed = kumi(home, "key", "list").stdout
    assert "Ana" in listed
    assert token not in listed


def test_a_key_opens_several_indexes_and_is_listed_in_each(home: Path) -> None:
    both = ("--index", ".kumi", "--index", "b.kumi")
    made = new_key(home, *both, "--filter", 'author = "Ana"')
    assert set(made) == {"id", "key", "role", "filter"}
    listed = json.loads(kumi(home, "key", "list", "--json", *both).stdout)
    assert {folder: [key["id"] for key in keys] for folder, keys in listed.items()} == {
        ".kumi": [made["id"]],
        "b.kumi": [made["id"]],
    }
    assert listed[".kumi"][0]["rights"] == 'author = "Ana"'
    assert made["key"] not in json.dumps(listed)


def test_a_key_is_revoked_in_the_indexes_that_are_named(home: Path) -> None:
    both = ("--index", ".kumi", "--index", "b.kumi")
    id = new_key(home, *both)["id"]
    assert kumi(home, "key", "revoke", id).stdout == f"Revoked {id}.\n"
    assert [bool(list_keys(home / name)[0].revoked) for name in (".kumi", "b.kumi")] == [True, False]
    assert json.loads(kumi(home, "key", "revoke", id, "--json", *both).stdout) == {"id": id, "indexes": [*both[1::2]]}
    assert list_keys(home / "b.kumi")[0].revoked


def test_the_language_of_messages_is_that_of_the_reader(home: Path) -> None:
    ran = kumi(home, "key", "new", "--role", "reader", KUMI_LANG="ja")
    assert "Keep this key" not in ran.stdout
    assert re.search("[぀-ヿ]", ran.stdout)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("new", "--role", "owner"), "no role 'owner'. Known: admin, editor, reader"),
        (("new",), "Missing option '--role'"),
        (("new", "--role", "reader", "--filter", "author ="), "the filter ends too early"),
        (("new", "--role", "reader", "--budget", "0"), "Input should be greater than or equal to 1"),
        (("new", "--role", "reader", "--rate", "0"), "Input should be greater than or equal to 1"),
        (("revoke", "4f376d63"), "no key has the id '4f376d63': `kumi key list` shows the ids"),
    ],
)
def test_a_wrong_key_command_names_the_remedy(home: Path, words: tuple[str, ...], message: str) -> None:
    ran = kumi(home, "key", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in " ".join(ran.stderr.split())
    assert not (home / ".kumi" / "keys.db").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines, and no index has a key"),
        (("--allow-host", "docs.example.org"), "docs.example.org can be reached from other machines"),
        (("--require-key",), "no index has a key: make one with `kumi key new --role admin`, or omit --require-key"),
        (("--host", "host.invalid"), "host.invalid can be reached from other machines"),
        (("--index", ".kumi", "--index", "elsewhere/.kumi", "--index", "./.kumi"), "two indexes are called"),
    ],
)
def test_a_server_does_not_begin_where_that_is_unsafe(home: Path, words: tuple[str, ...], message: str) -> None:
    ran = kumi(home, "serve", "--no-browser", "--port", "0", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert message in ran.stderr


def test_a_revoked_key_opens_no_server(home: Path) -> None:
    assert revoke_key(home / ".kumi", new_key(home)["id"])
    assert "no index has a key" in kumi(home, "serve", "--no-browser", "--port", "0", "--require-key").stderr


def test_a_port_that_is_taken_is_named(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = kumi(home, "serve", "--no-browser", "--port", port)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"cannot listen on 127.0.0.1, port {port} (" in ran.stderr
    assert "choose another with --port or --host" in ran.stderr


def test_an_audit_log_that_cannot_be_written_is_named(home: Path) -> None:
    ran = kumi(home, "serve", "--no-browser", "--port", "0", "--audit", str(home))
    assert ran.returncode == 2
    assert f"the audit log {home} cannot be written" in ran.stderr
