"""Warming up asks what costs nothing, and fails for nobody."""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from pathlib import Path

import pytest

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.server import run
from kumihimo.server.settings import ServerSettings
from kumihimo.server.workspace import Workspace, open_workspace
from kumihimo.testing.fake_models import FakeChat
from tests.server.running import answered_by


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a snapshot was asked for: `answer`, `search`."""
    calls: list[str] = []
    for name in ("answer", "search"):
        whole = getattr(Snapshot, name)

        def record(*args: object, _name: str = name, _whole: object = whole, **options: object) -> object:
            calls.append(_name)
            return _whole(*args, **options)  # type: ignore[operator]

        monkeypatch.setattr(Snapshot, name, record)
    return calls


def test_a_question_is_asked_where_no_model_answers(harbour: Workspace, asked: list[str]) -> None:
    run.warm_up(harbour)
    assert asked == ["answer"]


def test_a_process_is_asked_where_there_are_some(harbour_folder: Path, asked: list[str]) -> None:
    workspace = open_workspace([harbour_folder], ServerSettings(workers=2))
    run.warm_up(workspace)
    (served,) = workspace.indexes.values()
    assert (asked, len(served.questions.pids)) == ([], 1)
    asyncio.run(workspace.aclose())


def test_a_model_is_not_asked(harbour: Workspace, asked: list[str]) -> None:
    model = FakeChat(lambda _: "No.")
    with answered_by(next(iter(harbour.indexes.values())).kumi, model):
        run.warm_up(harbour)
    assert asked == ["search"]
    assert not model.prompt_counts


def test_an_index_that_cannot_be_read_keeps_no_other_waiting(
    harbour_folder: Path, tmp_path: Path, asked: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    empty, broken, whole = (tmp_path / name / ".kumi" for name in ("empty", "broken", "whole"))
    broken.mkdir(parents=True)
    (broken / "index.db").write_bytes(b"no index" * 1000)
    shutil.copytree(harbour_folder, whole)
    with caplog.at_level(logging.INFO, "kumihimo"):
        run.warm_up(open_workspace([empty, broken, whole]))
    assert asked == ["answer"]
    assert {record.getMessage().split(" is ")[0] for record in caplog.records} == {"the index broken"}
    assert not empty.exists()


def test_no_part_of_a_response_waits_for_the_client() -> None:
    with run._listen(ServerSettings(port=0)) as listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
