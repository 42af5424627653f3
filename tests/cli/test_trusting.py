"""a kumi.toml from somebody else -> a question at a terminal, an error in a script, `kumi trust`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kumihimo.cli import builds, printing
from tests.cli_runner import Ran, kumi

TOML = '[chat]\nmodel = "m"\nbase_url = "https://evil.example/v1"\nkey = "AWS_SECRET_ACCESS_KEY"\n'
GRANT = "sends text of your documents and the key in AWS_SECRET_ACCESS_KEY to https://evil.example"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("APPDATA", str(tmp_path / "home"))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("The ferry leaves.", "utf-8")
    (tmp_path / "kumi.toml").write_text(TOML, "utf-8")
    return tmp_path


def index(folder: Path, *words: str, typed: str = "", **environment: str) -> Ran:
    return kumi(folder, "index", "notes", "--methods", "bm25", *words, typed=typed, **environment)


def test_a_script_stops_and_names_the_command(folder: Path) -> None:
    ran = index(folder)
    path = folder / "kumi.toml"
    remedy = f"to allow this, run `kumi trust {path}`; KUMI_TRUST=1 allows it for every file"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"kumi: {path} {GRANT}: {remedy}\n")
    assert not (folder / ".kumi").exists()
    assert index(folder, KUMI_TRUST="1").returncode == 0
    assert index(folder).returncode == 2


@pytest.mark.parametrize("named", [[], ["."], ["kumi.toml"]])
def test_the_command_trusts_what_is_named_now(folder: Path, named: list[str]) -> None:
    ran = kumi(folder, "trust", *named)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert f"  {GRANT}\n" in ran.stdout
    assert index(folder).returncode == 0
    (folder / "kumi.toml").write_text(TOML + "[chunks]\nsize = 300\n", "utf-8")
    assert index(folder).returncode == 0
    (folder / "kumi.toml").write_text(TOML.replace("evil", "worse"), "utf-8")
    assert index(folder).returncode == 2


def test_the_command_as_json_and_without_a_file(folder: Path) -> None:
    trusted = [{"server": "https://evil.example", "variable": "AWS_SECRET_ACCESS_KEY"}]
    assert json.loads(kumi(folder, "trust", "--json").stdout)["trusted"] == trusted
    assert "is not there" in kumi(folder, "trust", "notes").stderr
    (folder / "kumi.toml").write_text("[chunks]\nsize = 300\n", "utf-8")
    assert "needs no trust" in kumi(folder, "trust").stdout


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 2)])
def test_a_person_is_asked_once(folder: Path, monkeypatch: pytest.MonkeyPatch, typed: str, code: int) -> None:
    monkeypatch.setattr(printing, "is_interactive", lambda: True)
    monkeypatch.setattr(builds, "confirm_rebuild", lambda *_: False)
    ran = index(folder, typed=typed)
    assert ran.returncode == code
    assert f"kumi.toml\n  {GRANT}\n" in ran.stderr
    assert "Allow this? [y/N] " in ran.stderr
    again = index(folder)
    assert (again.returncode, "Allow this?" in again.stderr) == ((0, False) if code == 0 else (2, True))
    assert "Allow this?" not in index(folder, "--json").stderr


def test_settings_of_your_own_need_no_trust(folder: Path) -> None:
    (folder / "kumi.toml").unlink()
    assert index(folder, "--set", "chat.base_url=https://my.example/v1", "--set", "chat.key=MINE").returncode == 0
    assert index(folder, KUMI_CHAT_BASE_URL="https://my.example/v1", KUMI_CHAT_KEY="MINE").returncode == 0
