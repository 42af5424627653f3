"""A build in a child process yields its progress, then its result or its error."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.app.opened.results import Built
from kumihimo.app.processes.build_process import _build, answer_build, describe_built
from kumihimo.core.errors import KumiError
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.wiring import reads
from tests.fake_server import FakeServer
from tests.fixtures_index import fill, texts

INDEX = {"methods": ["bm25"], "refresh": False, "batch": False, "caps": {}, "consent": False}


def build(kumi: Kumihimo, kind: str, **options: Any) -> list[dict[str, Any]]:
    """The replies to a request that came as JSON."""
    address = kumi.opened.address
    assert address
    request = {"index": asdict(address), "kind": kind, "options": options, "key": ""}
    return [json.loads(json.dumps(reply)) for reply in answer_build(json.loads(json.dumps(request)))]


@pytest.fixture
def notes(tmp_path: Path) -> str:
    return str(fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine.", "b.txt": "The gate leaks."}))


def test_the_result_comes_after_the_progress(tmp_path: Path, notes: str) -> None:
    with Kumihimo.open(tmp_path / ".kumi", settings={"chunks": {"size": 300}}) as kumi:
        *progress, last = build(kumi, "index", paths=[notes], **INDEX)
        assert progress
        assert progress[-1]["progress"]["share"] == 1
        assert (last["result"]["new"], last["result"]["rows"]["documents"], last["result"]["failed"]) == (2, 2, [])
        assert kumi.status().settings == {"chunks.size": 300}
        *_, last = build(kumi, "remove", target="notes/b.txt", forget=False)
        assert last["result"]["rows"]["documents"] == 1
        assert [*texts(kumi).values()] == ["The ferry leaves at nine."]


def test_an_error_comes_with_its_name_and_remedy(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        (reply,) = build(kumi, "index", paths=[str(tmp_path / "missing")], **INDEX)
    assert reply["error"] == "SourceError"
    assert "missing" in reply["message"]


def test_a_build_that_would_pay_again_asks_for_consent(tmp_path: Path, notes: str, server: FakeServer) -> None:
    def settings(model: str) -> dict[str, dict[str, object]]:
        return {"embedding": {"model": model, "base_url": server.url}}

    options = {**INDEX, "methods": ["naive"]}
    with Kumihimo.open(tmp_path / ".kumi", settings=settings("one")) as kumi:
        assert "result" in build(kumi, "index", paths=[notes], **options)[-1]
    with Kumihimo.open(tmp_path / ".kumi", settings=settings("two")) as kumi:
        reply = build(kumi, "index", paths=[], **options)[-1]
        assert reply["error"] == "ConsentRequired"
        assert reply["message"].endswith("Or start this build again with consent")
        assert "result" in build(kumi, "index", paths=[], **{**options, "consent": True})[-1]


def test_of_many_events_the_latest_is_shown() -> None:
    def fail(progress: Progress) -> Built:
        for done in range(100):
            progress(ProgressEvent("documents", done))
        raise KumiError("it ends")

    replies = _build(fail)
    assert next(replies)["progress"]["done"] == 99
    with pytest.raises(KumiError, match="it ends"):
        next(replies)


def test_long_lists_of_a_result_are_cut(tmp_path: Path, notes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.app.processes.build_process._MAX_LISTED", 1)
    fill(Path(notes), {"x.xyz": "?", "y.xyz": "?", "z.xyz": "?"})
    with Kumihimo.open(tmp_path / ".kumi") as kumi:
        described = describe_built(kumi.index(notes, methods=["bm25"]))
    assert (len(described["skipped"]), described["listed"]["skipped"]) == (1, 3)


@reads(".boat", media_type="text/plain")
def boats(content: bytes, name: str) -> list[Any]:
    raise NotImplementedError(content, name)


def test_functions_of_this_process_cannot_be_had_by_another(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi", readers=[boats]) as kumi:
        assert kumi.opened.has_functions
