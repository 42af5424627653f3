"""Questions over HTTP: whole, as events, wrong ones, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from kumihimo.app.ask.query import Query
from kumihimo.app.processes.async_facade import AsyncKumihimo
from kumihimo.core.answer import Answer, Part
from kumihimo.core.context import Context
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.core.task import ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.methods import METHODS
from kumihimo.server.api import ask as server_ask
from kumihimo.server.responses import event_response
from tests.server.api.town import Api, Visitor, parse_events

MENDED = {"question": "Who mended the breakwater?"}
PLACE = ("document", "chunk", "title", "uri", "place", "location", "start", "end")
BARE = ["rank", "score", *PLACE, "table", "id", "text", "metadata", "duplicates", "feature_scores"]


def stream(api: Api, **body: Any) -> list[dict[str, Any]]:
    response = api.client.post("/api/v1/ask", json={**MENDED, "stream": True, **body})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    return parse_events(response.text)


def read(api: Api, place: dict[str, Any]) -> str:
    """The text of a place in its document."""
    text: str = api.get(f"/documents/{place['document']}/text", start=place["start"], end=place["end"])["text"]
    return text


def without_time(answer: dict[str, Any]) -> dict[str, Any]:
    answer["usage"].pop("seconds")
    return answer


@pytest.mark.parametrize("path", ["/ask", "/retrieve"])
def test_null_may_be_asked(api: Api, path: str) -> None:
    for broken in ("\0", "a\0b"):
        found = api.post(path, {"question": f"{MENDED['question']} {broken}", "filter": f'title != "{broken}"'})
        assert "Ada Holm" in json.dumps(found)


@pytest.mark.parametrize("path", ["/ask", "/retrieve"])
def test_half_of_a_surrogate_pair_may_be_asked(api: Api, path: str) -> None:
    """JSON may have one, which no text has."""
    body = r'{"question": "Who mended the \ud83d gates?", "filter": "title != \"\udc00\""}'
    response = api.client.post(f"/api/v1{path}", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 200, response.text


def test_a_whole_answer(api: Api) -> None:
    answer = api.post("/ask", MENDED)
    assert (answer["method"], answer["model"], answer["status"]) == ("braid", "", "answered")
    (citation,) = answer["citations"]
    assert answer["text"].startswith("Ada Holm mended the breakwater")
    assert (read(api, citation), citation["uri"]) == (citation["text"], "town/harbour.md")
    assert citation["metadata"] == {"access": "open", "kind": "text", "language": "en"}
    end = len(answer["text"])
    (part,) = answer["parts"]
    assert part.pop("markers") == [{"start": end, "end": end, "n": [1]}]  # the text has no number of its own
    assert (part["kind"], part["text"], part["citations"]) == ("passage", answer["text"], [1])
    assert (part["headings"], part["marks"]) == (["The harbour"], [[0, 46]])
    assert (answer["approach"], answer["truncated"]) == ("passages", False)
    first = answer["evidence"][0]
    assert first["reason"] == "says “mended the breakwater”"
    assert [first["snippet"][start:end] for start, end in first["marks"]] == ["mended", "breakwater"]
    assert first["spans"][0]["location"] == "town/harbour.md, line 5"


def test_what_nothing_answers_has_a_status_and_no_passage(api: Api) -> None:
    answer = api.post("/ask", {"question": "Which bananas grow on Jupiter?"})
    assert (answer["status"], answer["text"]) == ("nothing", "No document mentions “bananas”, “Jupiter”.")
    assert ([part["kind"] for part in answer["parts"]], answer["citations"]) == (["note"], [])


def test_evidence(api: Api) -> None:
    found = api.post("/retrieve", {**MENDED, "method": "bm25", "settings": {"k": 1}})
    (item,) = found["evidence"]
    assert (found["question"], item["rank"], item["table"]) == (MENDED["question"], 1, "chunks")
    filtered = api.post("/retrieve", {**MENDED, "filter": 'access = "secret"'})
    assert {item["spans"][0]["uri"] for item in filtered["evidence"]} == {"town/vault.md", "town/deep/plan.md"}


def test_evidence_stands_somewhere_and_its_snippet_within(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kumihimo.app.evidence.explanations._MAX_SNIPPET", 60)
    body = {**MENDED, "method": "bm25", "settings": {"k": 1}}
    (bare,), (item,) = (api.post("/retrieve", {**body, "reasons": reasons})["evidence"] for reasons in (False, True))
    assert {name: item[name] for name in BARE} == bare
    assert (read(api, item), item["uri"], item["place"]) == (item["text"], "town/harbour.md", "line 5")
    assert (item["location"], item["title"]) == ("town/harbour.md, line 5", "The harbour")
    assert item["metadata"] == {"access": "open", "kind": "text", "language": "en"}
    (part,) = item["spans"]
    assert item["start"] < part["start"] < part["end"] < item["end"]
    assert (part["uri"], part["place"], part["location"]) == ("town/harbour.md", "line 7", "town/harbour.md, line 7")
    assert " ".join(read(api, part).split()) == item["snippet"].strip("…")


def test_events_come_in_order_and_end_with_the_whole_answer(api: Api) -> None:
    events = stream(api)
    names = [event["event"] for event in events]
    assert list(dict.fromkeys(names)) == ["progress", "evidence", "token", "citations", "answer"]
    by_name = {event["event"]: event["data"] for event in events}
    whole = without_time(api.post("/ask", MENDED))
    assert without_time(by_name["answer"]) == whole
    assert by_name["citations"] == {"citations": whole["citations"]}
    assert by_name["evidence"]["evidence"] == whole["evidence"]
    assert "".join(event["data"]["text"] for event in events if event["event"] == "token") == whole["text"]
    assert by_name["progress"] == {"step": "search", "text": "searching", "model": ""}


def test_a_conversation(api: Api) -> None:
    history = [{"question": "Who is Joss Kerrow?", "answer": "He keeps the tide tables."}]
    body = {"question": "What does he steer?", "history": history}
    answer = api.post("/ask", body)
    assert "Joss Kerrow" in answer["question"]
    assert without_time(stream(api, **body)[-1]["data"]) == without_time(answer)


def test_reasons_are_left_out_on_request(api: Api) -> None:
    reasons = ["snippet", "marks", "spans", "reason", "words", "via"]
    for path in ("/ask", "/retrieve"):
        assert list(api.post(path, {**MENDED, "reasons": False})["evidence"][0]) == BARE
        assert list(api.post(path, MENDED)["evidence"][0]) == [*BARE, *reasons]
    assert list(stream(api, reasons=False)[-1]["data"]["evidence"][0]) == BARE


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"question": " "}, "the question is empty"),
        ({"method": "bm52"}, "did you mean 'bm25'"),
        ({"method": "bm25", "settings": {"kk": 1}}, "bm25 has no setting 'kk'; did you mean 'k'"),
        ({"method": "bm25", "settings": {"k": "many"}}, "bm25.k is a whole number"),
        ({"settings": {"rights": ""}}, "braid has no setting 'rights'"),
        ({"settings": {"question": "x"}}, "braid has no setting 'question'"),
        ({"settings": {"budget": None}}, "braid.budget is a whole number"),
        ({"filter": "access ="}, "filter"),
        ({"filter": 'colour = "red"'}, "no field 'colour'"),
    ],
)
def test_a_wrong_question_is_answered_at_once(
    api: Api, wrong: dict[str, Any], message: str, *, is_stream: bool
) -> None:
    assert message in api.problem("/ask", 400, {**MENDED, "stream": is_stream, **wrong})
    if not is_stream:
        assert message in api.problem("/retrieve", 400, {**MENDED, **wrong})


def test_a_text_or_list_without_sense_is_refused(api: Api) -> None:
    texts = [(name, s) for name, method in METHODS.items() for s in method.settings.values() if s.size]
    assert {setting.name for _, setting in texts} == {"value", "plain_weights", "first_weights", "second_weights"}
    for name, setting in texts:
        for value in ("x\x1b[2J", "x" * 5000, ["a", "a"], [1e19], [0] * 21, {"a": 1}, True):
            detail = api.problem("/plan", 400, {**MENDED, "method": name, "settings": {setting.name: value}})
            assert f"settings.{setting.name}" in detail or detail.startswith(f"{name}.{setting.name}")


def test_every_setting_of_a_question_has_bounds(api: Api) -> None:
    for name, method in METHODS.items():
        for setting in method.settings.values():
            if not setting.bounds:
                continue
            body = {**MENDED, "method": name}
            least, most = setting.bounds.asked or (setting.bounds.least, setting.bounds.most)
            for value in (least - 1, most + 1):
                detail = api.problem("/plan", 400, {**body, "settings": {setting.name: value}})
                assert f"settings.{setting.name}" in detail or detail.startswith(f"{name}.{setting.name} is ")
            for value in (least, most):
                reply = api.client.post("/api/v1/plan", json={**body, "settings": {setting.name: value}})
                assert f"{name}.{setting.name} is " not in reply.json().get("detail", "")


@pytest.mark.parametrize("path", ["/ask", "/retrieve", "/plan"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('{"k": 0}', "bm25.k is a whole number from 1 to 10,000, not 0 (default: 20)"),
        ('{"k": 1001}', "bm25.k is from 1 to 1,000 in a question over the network, not 1001: choose a number between"),
        ('{"k": 10000000000000000000}', "settings.k"),
        ('{"k": NaN}', "settings.k"),
    ],
)
def test_a_number_out_of_bounds_is_refused(api: Api, path: str, settings: str, message: str) -> None:
    body = f'{{"question": "Who?", "method": "bm25", "settings": {settings}}}'
    for role in ("reader", "admin"):
        with api.acting(role):
            response = api.client.post(f"/api/v1{path}", content=body, headers={"content-type": "application/json"})
            assert response.status_code == 400
            assert message in response.json()["detail"]


def test_a_method_without_its_model_names_the_remedy(api: Api) -> None:
    assert "chat model" in api.problem("/ask", 400, {**MENDED, "method": "hyde"})
    assert "chat model" in api.problem("/ask", 400, {**MENDED, "method": "hyde", "stream": True})


def test_a_stream_that_waits_begins_without_its_first_event(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun = asyncio.Event()

    async def fail_late(*_: Any) -> AsyncGenerator[Any, None]:
        await has_begun.wait()
        raise SettingsError("no place")
        yield

    def begin(events: Any) -> Any:
        has_begun.set()
        return event_response(events)

    monkeypatch.setattr(server_ask, "_FIRST_EVENT_SECONDS", 0)
    monkeypatch.setattr(server_ask, "event_response", begin)
    monkeypatch.setattr(AsyncKumihimo, "answer_events", fail_late)
    (error,) = stream(api)
    assert (error["event"], error["data"]["detail"]) == ("error", "no place")


def test_a_question_takes_one_read_transaction(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    store, opened = api.served.kumi.store, list[object]()
    read = store.read_transaction

    def count(*args: Any) -> Any:
        opened.append(args)
        return read(*args)

    monkeypatch.setattr(store, "read_transaction", count)
    for path in ("/ask", "/retrieve"):
        assert api.post(path, MENDED)["evidence"][0]["reason"]
    assert stream(api)[-1]["event"] == "answer"
    assert len(opened) == 3


Played = Callable[..., AsyncGenerator[Any, None]]


class Calls:
    """Questions that a test plays."""

    def __init__(self, play: Played) -> None:
        self._play, self.query, self.has_ended = play, Query.of("?"), asyncio.Event()

    async def events(self, query: Query) -> AsyncGenerator[Any, None]:
        self.query = query
        try:
            async for event in self._play():
                yield event
        finally:
            self.has_ended.set()

    async def answer(self, query: Query) -> Answer:
        answers = [event async for event in self.events(query)]
        return answers[-1]  # type: ignore[no-any-return]


def play(api: Api, monkeypatch: pytest.MonkeyPatch, events: Played) -> Calls:
    calls = Calls(events)
    monkeypatch.setattr(AsyncKumihimo, "answer_events", lambda _, query: calls.events(query))
    monkeypatch.setattr(AsyncKumihimo, "answer", lambda _, query: calls.answer(query))
    monkeypatch.setattr(AsyncKumihimo, "search", lambda _, query: calls.answer(query))
    return calls


def test_all_options_reach_the_question(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer() -> AsyncGenerator[Any, None]:
        yield ProgressEvent("answer", model="gemma")
        yield "Ada"
        yield Answer("Who?", "bm25", (Part("sentence", "Ada"),), Context(), Usage(calls=1), model="gemma")

    calls = play(api, monkeypatch, answer)
    with api.acting("reader", rights='access = "open"'):
        body = {"method": "bm25", "filter": 'title = "Tides"', "length": "brief", "settings": {"k": 3}}
        events = stream(api, **body)
    assert [event["data"] for event in events[:2]] == [
        {"step": "answer", "text": "asking gemma", "model": "gemma"},
        {"text": "Ada"},
    ]
    expected = Query.of(MENDED["question"], "bm25", k=3, length="brief", history=[], explain=True, is_remote=True)
    assert calls.query == replace(expected, filter='title = "Tides"', rights='access = "open"')


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (BudgetExceeded("capped: tokens 5"), 429, "capped: tokens 5"),
        (ZeroDivisionError("secret detail"), 500, "the server has made a mistake"),
    ],
)
def test_an_error_in_the_middle_is_the_last_event(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, shown: str
) -> None:
    async def fail() -> AsyncGenerator[Any, None]:
        yield "Ada"
        raise error

    play(api, monkeypatch, fail)
    first, last = stream(api)
    assert (first["event"], last["event"], last["data"]["status"]) == ("token", "error", status)
    assert shown in last["data"]["detail"]
    assert "secret" not in last["data"]["detail"]


def run(api: Api, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run in the event loop of the server."""
    assert api.client.portal
    api.client.portal.call(work)


@pytest.mark.parametrize(("path", "is_stream"), [("/ask", False), ("/ask", True), ("/retrieve", False)])
def test_a_client_that_leaves_ends_its_question(
    api: Api, monkeypatch: pytest.MonkeyPatch, path: str, *, is_stream: bool
) -> None:
    started = asyncio.Event()

    async def wait_for_ever() -> AsyncGenerator[Any, None]:
        yield "Ada"
        started.set()
        await asyncio.Event().wait()

    calls = play(api, monkeypatch, wait_for_ever)
    body = {**MENDED, **({"stream": True} if is_stream else {})}
    visitor = Visitor(api.app, "POST", f"/api/v1{path}", json.dumps(body).encode())

    async def leave() -> None:
        request = asyncio.create_task(visitor.run())
        await started.wait()
        assert not calls.has_ended.is_set()
        visitor.left.set()
        await request
        assert calls.has_ended.is_set()

    run(api, leave)
    assert (b"event: token" in visitor.received) is is_stream


def test_a_read_ends_for_a_client_that_leaves(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()

    async def never(*_: object, **__: object) -> Awaitable[None]:
        asked.set()
        return await asyncio.Future()

    monkeypatch.setattr(AsyncKumihimo, "read", never)
    visitor = Visitor(api.app, "GET", "/api/v1/documents")

    async def leave() -> None:
        request = asyncio.create_task(visitor.run())
        await asked.wait()
        visitor.left.set()
        await request

    run(api, leave)
    assert (visitor.status, visitor.received) == (0, b"")
