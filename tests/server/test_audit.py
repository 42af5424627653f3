"""A line of the audit log names the key, the route and the result; a log that cannot be written stops no request."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from kumihimo.core import redaction
from kumihimo.core.errors import SettingsError
from kumihimo.server.access import Caller, route_of
from kumihimo.server.monitoring import AuditFile, RequestLog
from kumihimo.server.settings import ServerSettings


def request(**scope: Any) -> dict[str, Any]:
    caller = Caller({}, key="4f376d63")
    return {
        "method": "GET",
        "path": "/api/v1/documents",
        "client": ("192.0.2.7", 5),
        "app": Starlette(),
        "state": {"caller": caller},
        **scope,
    }


def write_line(path: Path, scope: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    RequestLog(replace(ServerSettings(audit=path), **settings)).write(dict(scope), 200, 0.0426)
    line: dict[str, Any] = json.loads(path.read_text(encoding="utf-8").splitlines()[-1])
    return line


def test_a_line_names_who_did_what_with_which_result(tmp_path: Path) -> None:
    scope = request()
    scope["state"]["caller"].notes.indexes.update({"notes": None, "reports": None})
    line = write_line(tmp_path / "audit.jsonl", scope)
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "key": "4f376d63",
        "address": "192.0.2.7",
        "method": "GET",
        "route": "none",
        "index": "notes,reports",
        "status": 200,
        "milliseconds": 43,
    }


@pytest.mark.parametrize(("wanted", "question"), [(False, None), (True, "Who is Ana?")])
def test_the_question_is_there_only_if_it_is_wanted(tmp_path: Path, wanted: bool, question: str | None) -> None:
    scope = request(client=None)
    scope["state"]["caller"].notes.question = "Who is Ana?"
    line = write_line(tmp_path / "audit.jsonl", scope, audit_questions=wanted)
    assert (line.get("question"), line["address"]) == (question, "")


def test_no_key_and_no_password_of_a_question_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_secrets", ())
    redaction.register_secret("a1B2c3D4e5F6")
    scope = request()
    scope["state"]["caller"].notes.question = "Is a1B2c3D4e5F6 the key of http://me:hunter2@db/notes?"
    line = write_line(tmp_path / "audit.jsonl", scope, audit_questions=True)
    assert line["question"] == "Is [hidden] the key of http://db/notes?"


def test_a_route_has_names_for_its_parts_and_no_values() -> None:
    assert route_of(request(endpoint=object())) == "/api/v1/documents"
    assert route_of(request(endpoint=object(), path_params={"id": "x"})) == "none"
    assert route_of(request(path="/secret-name")) == "none"


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    RequestLog(ServerSettings()).write(request(), 200, 0.1)
    assert [*tmp_path.iterdir()] == []


def test_a_log_that_can_no_longer_be_written_stops_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = AuditFile(folder / "audit.jsonl")
    log.create()
    log.path.unlink()
    folder.rmdir()
    with caplog.at_level(logging.WARNING, "kumihimo"):
        log.append("a line")
    assert "cannot be written" in caplog.text
    folder.mkdir()
    log.append("another")
    assert log.path.read_text(encoding="utf-8") == "another\n"


@pytest.mark.parametrize("name", ["audit.jsonl", "audit.jsonl.1"])
@pytest.mark.parametrize(
    "content", [b"# Notes\n", b'{"time": 1}\n', b'{"time":"2026-01-01","key":"x"}\n', b"\x00" * 9999]
)
def test_a_file_that_is_no_audit_log_stays_as_it_is(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=rf"{name} is there, and is no audit log: choose another file"):
        RequestLog(ServerSettings(audit=tmp_path / "audit.jsonl"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {name: content}


@pytest.mark.parametrize("length", [0, 1, 9, 10, 20, 45, 50, 70, None])
def test_a_log_goes_on_behind_a_line_that_has_broken_off(tmp_path: Path, length: int | None) -> None:
    path = tmp_path / "audit.jsonl"
    write_line(path, request())
    torn = path.read_bytes()[:length]
    path.write_bytes(torn)
    assert write_line(path, request())["status"] == 200
    assert write_line(path, request())["status"] == 200  # by another server: the first line is ours, if it is not whole
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 + bool(torn)
    path.write_bytes(path.read_bytes() + torn)
    assert write_line(path, request())["status"] == 200


def test_half_a_surrogate_pair_is_written_too(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit.jsonl")
    log.append("\ud83d")
    assert log.path.read_bytes() == b"?\n"


def test_windows_writes_the_line_ends_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, open_file = list[int](), os.open

    def note_flags(path: Path, flags: int, mode: int) -> int:
        opened.append(flags)
        return open_file(path, flags & ~0x8000, mode)

    monkeypatch.setattr(os, "O_BINARY", 0x8000, raising=False)
    monkeypatch.setattr(os, "open", note_flags)
    AuditFile(tmp_path / "audit.jsonl").append("a line")
    assert [bool(flags & 0x8000) for flags in opened] == [True]
