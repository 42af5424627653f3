"""a kumi.toml -> the servers and keys that it names, refused until the user trusts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.opened.catalogue import installed_catalogue
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.app.settings.trust import (
    TrustGrant,
    TrustRequired,
    check_trust,
    requested_grants,
    trust_file_path,
    trust_settings_file,
)
from kumihimo.core.errors import SettingsError

EVIL = "https://evil.example/v1"
SERVER = "https://evil.example"
LOCAL = "http://localhost:11434/v1"
SCOPES = SettingsRegistry(installed_catalogue()).all


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "home"))
    monkeypatch.delenv("KUMI_TRUST", raising=False)
    return tmp_path / "home"


def toml(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "kumi.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("settings", "grants"),
    [
        ({}, []),
        ({"chat": {"model": "m", "temperature": 1}}, []),
        ({"chat": {"base_url": LOCAL}}, []),
        ({"chat": {"base_url": "http://127.0.0.2:80", "key": "GROQ_API_KEY"}}, []),
        ({"chat": {"base_url": "http://[::1]:8000/v1"}, "judge": {"base_url": "http://me:pw@localhost/v1"}}, []),
        ({"chat": {"model": "recorded:replies/mine"}, "judge": {"model": "m/../n"}}, []),
        ({"judge": {"model": "recorded:../replies"}}, [("recorded:../replies", "")]),
        ({"chat": {"model": "recorded://host/share"}}, [("recorded://host/share", "")]),
        ({"chat": {"base_url": EVIL}}, [(SERVER, "OPENAI_API_KEY")]),
        ({"chat": {"base_url": EVIL, "key": ""}}, [(SERVER, "")]),
        ({"chat": {"key": "AWS_SECRET_ACCESS_KEY"}}, [("", "AWS_SECRET_ACCESS_KEY")]),
        ({"chat": {"base_url": LOCAL, "key": "AWS_SECRET_ACCESS_KEY"}}, [("", "AWS_SECRET_ACCESS_KEY")]),
        ({"embedding": {"base_url": EVIL}}, [(SERVER, "OPENAI_API_KEY")]),
        ({"reranking": {"base_url": EVIL}}, [(SERVER, "RERANKING_API_KEY")]),
        ({"mentions": {"base_url": EVIL}}, [(SERVER, "")]),
        ({"hyde": {"key": "X"}}, [("", "X")]),
        ({"judge": {"base_url": EVIL, "key": "X"}}, [(SERVER, "X")]),
        ({"chat": {"base_url": EVIL}, "judge": {"key": "X"}}, [(SERVER, "OPENAI_API_KEY"), (SERVER, "X")]),
        (
            {"chat": {"base_url": "http://me:pw@Evil.example:81/x?api-key=s"}},
            [("http://evil.example:81", "OPENAI_API_KEY")],
        ),
        (
            {"chat": {"base_url": "http://localhost.evil.example"}},
            [("http://localhost.evil.example", "OPENAI_API_KEY")],
        ),
        ({"chat": {"base_url": "http://localhost@evil.example"}}, [("http://evil.example", "OPENAI_API_KEY")]),
        ({"chat": {"base_url": "http://evil.example#@localhost"}}, [("http://evil.example", "OPENAI_API_KEY")]),
        ({"judge": {"base_url": "none", "key": "X"}}, [("", "X")]),
    ],
)
def test_servers_elsewhere_and_unusual_keys_need_trust(settings: Any, grants: list[tuple[str, str]]) -> None:
    assert requested_grants(settings, SCOPES) == grants


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("http://me:pw@Evil.example:81/x?api-key=s", "http://evil.example:81"),
        ("http://localhost.evil.example", "http://localhost.evil.example"),
        ("http://localhost@evil.example", "http://evil.example"),
        ("http://evil.example#@localhost", "http://evil.example"),
        ("http://me:p@ssw0rd1@host/v1", "http://host"),
        ("http://evil.example@x@localhost", ""),
        ("", ""),
    ],
)
def test_an_address_that_only_looks_local_is_elsewhere(url: str, server: str) -> None:
    assert {grant.server for grant in requested_grants({"judge": {"base_url": url}}, SCOPES)} == {server} - {""}


def test_every_scope_with_a_model_is_searched() -> None:
    scopes = [scope for scope, names in SCOPES.items() if {"base_url", "key"} & names.keys()]
    assert {"chat", "embedding", "reranking", "mentions", "hyde", "answer", "judge"} <= {*scopes}
    for scope in scopes:
        assert [grant.server for grant in requested_grants({scope: {"base_url": EVIL}}, SCOPES)] == [SERVER]


def test_a_folder_of_somebody_else_is_not_opened(home: Path, tmp_path: Path) -> None:
    text = f'[chat]\nmodel = "m"\nbase_url = "{EVIL}"\nkey = "AWS_SECRET_ACCESS_KEY"\n'
    path = toml(tmp_path / "a gift", text)
    with pytest.raises(TrustRequired) as refused:
        Kumihimo.open(tmp_path / "a gift" / ".kumi")
    grant = "sends text of your documents and the key in AWS_SECRET_ACCESS_KEY to https://evil.example"
    remedy = f"to allow this, run `kumi trust '{path}'`; KUMI_TRUST=1 allows it for every file"
    assert str(refused.value) == f"{path} {grant}: {remedy}"
    assert isinstance(refused.value, SettingsError)
    trust_settings_file(path, SCOPES, {"XDG_CONFIG_HOME": str(home), "APPDATA": str(home)})
    Kumihimo.open(tmp_path / "a gift" / ".kumi").close()
    Kumihimo.open(tmp_path / "other" / ".kumi", settings={"chat": {"base_url": EVIL, "key": "X"}}).close()


def test_trust_is_of_one_file_and_what_it_named(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"XDG_CONFIG_HOME": str(home), "APPDATA": str(home)}
    path = toml(tmp_path / "a", f'[chat]\nbase_url = "{EVIL}"\n[embedding]\nkey = "X"\n')
    settings: Any = {"chat": {"base_url": EVIL}, "embedding": {"key": "X"}}
    assert trust_settings_file(path, SCOPES, environment) == [TrustGrant("", "X"), TrustGrant(SERVER, "OPENAI_API_KEY")]
    check_trust(path, settings, SCOPES, environment)
    monkeypatch.chdir(path.parent)
    check_trust(Path("kumi.toml"), settings, SCOPES, environment)
    check_trust(path, {"chat": {**settings["chat"], "model": "n"}, "chunks": {"size": 9}}, SCOPES, environment)
    check_trust(path, {"chat": {"base_url": f"{EVIL}/other"}}, SCOPES, environment)
    for changed in ({"chat": {"base_url": EVIL, "key": "X"}}, {"chat": {"base_url": f"{SERVER}:1"}}):
        with pytest.raises(TrustRequired):
            check_trust(path, changed, SCOPES, environment)
    with pytest.raises(TrustRequired):
        check_trust(toml(tmp_path / "b", ""), settings, SCOPES, environment)
    check_trust(tmp_path / "b" / "kumi.toml", settings, SCOPES, {**environment, "KUMI_TRUST": "1"})
    (file,) = home.rglob("*.*")
    assert file == trust_file_path(environment)
    assert file.stat().st_mode & 0o077 == 0
    assert "pw" not in file.read_text("utf-8")


def test_the_file_of_trust_is_never_in_the_folder(tmp_path: Path) -> None:
    assert trust_file_path({"XDG_CONFIG_HOME": "config", "APPDATA": "config"}).is_absolute()
    assert trust_file_path({}) == Path.home() / ".config" / "kumihimo" / "trusted.json"


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": [["x"]]}', "{"])
def test_a_damaged_file_of_trust_is_named(home: Path, tmp_path: Path, text: str) -> None:
    environment = {"XDG_CONFIG_HOME": str(home), "APPDATA": str(home)}
    path = trust_file_path(environment)
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    check_trust(tmp_path / "kumi.toml", {}, SCOPES, environment)
    with pytest.raises(SettingsError, match="delete it, and trust your files again"):
        check_trust(tmp_path / "kumi.toml", {"chat": {"base_url": EVIL}}, SCOPES, environment)


def test_the_file_of_init_names_nothing(tmp_path: Path) -> None:
    from kumihimo.app.settings.config import read_settings_file, render_default_config

    registry = SettingsRegistry(installed_catalogue())
    path = toml(tmp_path, render_default_config(registry.own, registry.summaries))
    assert requested_grants(read_settings_file(path), SCOPES) == []
    assert json.dumps(read_settings_file(path)["chat"]) == "{}"


def test_recorded_replies_outside_the_folder_need_trust(tmp_path: Path, home: Path) -> None:
    toml(tmp_path / "inside", '[chat]\nmodel = "recorded:replies"')
    Kumihimo.open(tmp_path / "inside" / ".kumi").close()
    toml(tmp_path / "outside", '[chat]\nmodel = "recorded:../replies"')
    with pytest.raises(TrustRequired, match=r"reads replies from \.\./replies, outside its folder: to allow this"):
        Kumihimo.open(tmp_path / "outside" / ".kumi")
