"""Builds over HTTP: started, listed, followed from any event on, and cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget, Caps
from tests.counters import wait_until
from tests.server.api import town
from tests.server.api.town import Api, parse_events, serve

RESULT = {"read": 1, "rows": {"chunks": 9}, "spent": {"mentions": {"calls": 2, "prompt_tokens": 30}}}


class Played:
    """A worker that does what the methods of a build name, until the test lets it end."""

    def __init__(self, *_: object, **__: object) -> None:
        self._stopped = False

    def __enter__(self) -> Played:
        return self

    def __exit__(self, *_: object) -> None: ...

    def ask(self, request: Any) -> Iterator[dict[str, Any]]:
        requests.append(request)
        yield {"progress": {"step": "names", "done": 3, "total": 9, "share": 0.5, "model": ""}}
        while not self._stopped and not may_end.wait(0.01):
            pass
        if request["options"].get("consent") or must_fail.is_set():
            yield {"error": "SourceError", "message": "town/vault.md cannot be read: allow it"}
        elif not self._stopped:
            yield {"result": RESULT}

    def stop(self) -> None:
        self._stopped = True


may_end, must_fail, requests = Event(), Event(), list[Any]()


@pytest.fixture
def api(own_town: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(town, "BuildHere", Played)
    may_end.clear()
    must_fail.clear()
    requests.clear()
    with serve(own_town) as api:
        yield api
        may_end.set()


def follow(api: Api, id: str, last: str | None = None) -> list[dict[str, Any]]:
    headers = {} if last is None else {"last-event-id": last}
    response = api.client.get(f"/api/v1/builds/{id}/events", headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    return parse_events(response.text)


def wait_for_progress(api: Api, id: str) -> None:
    wait_until(lambda: api.get(f"/builds/{id}")["progress"] is not None)


def test_a_build_is_followed_from_any_event_on(api: Api) -> None:
    job = api.post("/builds", {"methods": ["bm25"], "refresh": True, "max_tokens": 9}, 202)
    assert (job["kind"], job["state"], job["options"]["caps"]) == (
        "index",
        "queued",
        {"calls": None, "tokens": 9, "cost": None},
    )
    wait_for_progress(api, job["id"])
    may_end.set()
    events = follow(api, job["id"])
    assert [(event["id"], event["event"]) for event in events] == [
        ("1", "state"),
        ("2", "state"),
        ("3", "progress"),
        ("4", "state"),
    ]
    assert events[2]["data"]["share"] == 0.5
    assert (events[3]["data"]["state"], events[3]["data"]["result"]) == ("done", RESULT)
    assert follow(api, job["id"], "2") == events[2:]
    assert follow(api, job["id"], "4") == []
    assert follow(api, job["id"], "no number") == events
    assert api.get(f"/builds/{job['id']}") == events[3]["data"]
    assert requests[0]["options"]["methods"] == ["bm25"]


def test_the_same_build_waits_only_once(api: Api) -> None:
    running = api.post("/builds", {}, 202)
    wait_for_progress(api, running["id"])
    waiting = api.post("/builds", {}, 202)
    assert waiting["id"] != running["id"]
    assert api.post("/builds", {}, 202)["id"] == waiting["id"]
    other = api.post("/builds", {"refresh": True}, 202)
    assert [job["id"] for job in api.get("/builds")["builds"]] == [other["id"], waiting["id"], running["id"]]
    assert api.get("/documents")["waiting"] == []
    (api.served.uploads).mkdir()
    (api.served.uploads / "new.md").write_text("New.")
    assert api.get("/documents")["waiting"] == ["new.md"]


def test_a_build_is_cancelled(api: Api) -> None:
    job = api.post("/builds", {}, 202)
    wait_for_progress(api, job["id"])
    assert api.post(f"/builds/{job['id']}/cancel", {})["state"] == "cancelled"
    assert follow(api, job["id"])[-1]["data"]["state"] == "cancelled"
    assert api.post(f"/builds/{job['id']}/cancel", {})["state"] == "cancelled"


def test_what_is_unknown(api: Api) -> None:
    for path in ("/builds/x", "/builds/x/events"):
        assert "no build 'x'" in api.problem(path, 404)
    assert "no build 'x'" in api.problem("/builds/x/cancel", 404, {})
    assert "did you mean 'bm25'" in api.problem("/builds", 400, {"methods": ["bm52"]})
    assert "kumi serve --root" in api.problem("/builds", 403, {"paths": ["/etc"]})


def test_too_many_builds(api: Api) -> None:
    for n in range(21):
        job = api.post("/builds", {"max_calls": n}, 202)
        if n == 0:
            wait_for_progress(api, job["id"])
    assert "20 builds wait already" in api.problem("/builds", 409, {"max_calls": 99})


def test_one_who_sees_only_some_documents_sees_the_states_of_its_own_builds(api: Api) -> None:
    other = api.post("/builds", {"consent": True}, 202)
    wait_for_progress(api, other["id"])
    with api.acting("editor", rights='access = "open"', key="k1"):
        own = api.upload("open.md", "---\naccess: open\n---\nAn open note.")["build"]
        for path in (f"/builds/{other['id']}", f"/builds/{other['id']}/events"):
            assert "no build" in api.problem(path, 404)
        assert "no build" in api.problem(f"/builds/{other['id']}/cancel", 404, {})
        may_end.set()
        events = follow(api, own["id"])
        assert [event["data"]["state"] for event in events] == ["queued", "running", "done"]
        assert [event.keys() for event in events] == [{"event", "data"}] * 3  # an id would count what is between
        assert api.get("/builds")["builds"] == [events[-1]["data"]]
        assert own.keys() == {"id", "kind", "state", "created", "started", "ended", "progress", "error"}
        assert events[-1]["data"]["progress"] is None
    assert "vault.md" in api.get(f"/builds/{other['id']}")["error"]["message"]
    assert own["id"] in [job["id"] for job in api.get("/builds")["builds"]]


def test_a_build_that_fails_names_no_file_to_one_who_sees_only_some(api: Api) -> None:
    must_fail.set()
    may_end.set()
    with api.acting("editor", rights='access = "open"'):
        last = api.built(api.upload("open.md", "An open note."))
        assert last["error"] == {"name": "SourceError", "message": "the build has failed"}


def test_the_key_of_the_sender_pays_for_a_build(api: Api) -> None:
    budget = Budget(Caps(tokens=100))
    budget.total = Usage(prompt_tokens=40)
    with api.acting("editor", key="k1", new_budget=lambda: budget):
        job = api.post("/builds", {"max_tokens": 90, "max_calls": 5}, 202)
        assert job["options"]["caps"] == {"calls": 5, "tokens": 90, "cost": None}
        assert api.get("/usage")["key"] == {"id": "k1", "spent": {**EMPTY, "prompt_tokens": 40}, "tokens": 100}
        wait_for_progress(api, job["id"])
        first, same = (api.post("/builds", {"max_tokens": 90}, 202)["id"] for _ in range(2))
    with api.acting("editor", key="k2"):
        other = api.post("/builds", {"max_tokens": 90}, 202)["id"]
    assert first == same != other, "each key pays for its own"
    may_end.set()
    follow(api, other)
    assert [request["key"] for request in requests] == ["k1", "k1", "k2"]


EMPTY = {"calls": 0, "prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0, "cost": 0.0, "seconds": 0.0}
