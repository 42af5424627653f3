"""Processes answer what needs no model, as the facade does, and one that ends takes one question with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextvars import copy_context
from threading import Thread
from typing import Any

import pytest

from kumihimo import Answer, AsyncKumihimo, Context, Kumihimo, ProgressEvent
from kumihimo.app.ask.query import Query
from kumihimo.app.processes import question_process
from kumihimo.app.processes.async_facade import QuestionEvent
from kumihimo.app.processes.question_pool import QuestionPool, needs_no_model
from kumihimo.app.processes.question_process import answer_question, pack, unpack
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled, ItemFailed, SettingsError
from kumihimo.text.translation import choose_language
from kumihimo.workers import Worker, WorkerStopped
from tests.counters import wait_until
from tests.fixtures_index import BUILT, EXAMPLES, QUESTIONS


@pytest.fixture(scope="module")
def kumi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kumihimo]:
    """An index of the examples for all methods that need no model."""
    with Kumihimo.open(tmp_path_factory.mktemp("room") / ".kumi") as kumi:
        kumi.index(EXAMPLES, methods=BUILT)
        yield kumi


@pytest.fixture(scope="module")
def room(kumi: Kumihimo) -> Iterator[QuestionPool]:
    address = kumi.opened.address
    assert address
    room = QuestionPool(address, 2)
    yield room
    room.close()


def has_ended(process: Worker) -> bool:
    return process._process is not None and process._process.poll() is not None


def ask(room: QuestionPool, question: str, method: str = "", **options: Any) -> Any:
    return room.run("answer", Query.of(question, method, **options))


FREE_METHODS = [name for name in BUILT if name not in ("wide", "hyde", "rq", "drift", "mapreduce", "meta")]


@pytest.mark.parametrize("method", FREE_METHODS)
def test_the_answers_are_those_of_the_facade(method: str, kumi: Kumihimo, room: QuestionPool) -> None:
    for question in QUESTIONS[:2]:
        answer, expected = ask(room, question, method), kumi.ask(question, method)
        assert answer.context == expected.context
        assert (answer.text, answer.citations, answer.status) == (expected.text, expected.citations, expected.status)
        assert room.run("search", Query.of(question, method)) == kumi.retrieve(question, method)


def test_options_and_earlier_answers_are_sent_too(kumi: Kumihimo, room: QuestionPool) -> None:
    first = kumi.ask("What did Mr Kerrow promise about the first stone?")
    options: dict[str, Any] = {"history": (first,), "filter": 'file contains "court"'}
    assert ask(room, "And did he keep it?", **options).text == kumi.ask("And did he keep it?", **options).text
    with pytest.raises(SettingsError, match="k is a whole number"):
        ask(room, "?", "bm25", k="x")


def test_reasons_are_in_the_language_of_the_caller(kumi: Kumihimo, room: QuestionPool) -> None:
    query = Query.of("Who drew the tide gates?", "bm25", explain=True)
    english = room.run("search", query)
    context = copy_context()
    context.run(choose_language, "ja")
    japanese = context.run(room.run, "search", query)
    for item, translated in zip(english, japanese, strict=True):
        assert (item.explanation.reason.words, item.uri) == (translated.explanation.reason.words, translated.uri)
        assert item.explanation.reason.text != translated.explanation.reason.text
    assert room.run("search", query) == english


def test_rights_go_with_a_question(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kumi, "search", None)

    async def play(rights: str) -> set[str]:
        async with AsyncKumihimo(kumi, workers=1) as questions:
            found = await questions.retrieve("What did Mr Kerrow promise?", "bm25", rights=rights)
        with kumi.snapshot() as snapshot:
            return {
                span.uri.rpartition("/")[2] for item in found for span in snapshot.trace((item.table, item.record.id))
            }

    assert asyncio.run(play('file contains "court"')) == {"court-minutes.md"}
    assert len(asyncio.run(play(""))) > 1


def test_a_question_of_a_program_goes_to_a_process(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kumi, "answer", None)
    monkeypatch.setattr(kumi, "search", None)

    async def play() -> tuple[list[QuestionEvent], Context]:
        async with AsyncKumihimo(kumi, workers=1) as questions:
            events = [event async for event in questions.events(QUESTIONS[0])]
            return events, await questions.retrieve(QUESTIONS[0], "bm25", k=2)

    (search, context, text, answer), found = asyncio.run(play())
    assert search == ProgressEvent("search")
    assert isinstance(answer, Answer)
    assert (context, text, len(found)) == (answer.context, answer.text, 2)


@pytest.mark.parametrize(
    ("settings", "method", "options", "is_answer", "expected"),
    [
        ({}, "bm25", {}, True, True),
        ({}, "braid", {}, True, True),
        ({}, "no such method", {}, True, False),
        ({}, "hyde", {}, False, False),
        ({}, "bm25", {"reranker": "model"}, False, False),
        ({"bm25": {"reranker": "endpoint"}}, "bm25", {}, False, False),
        ({"bm25": {"reranker": "endpoint"}}, "bm25", {"reranker": "none"}, False, True),
        ({"chat": {"model": "m"}}, "bm25", {}, False, True),
        ({"chat": {"model": "m"}}, "bm25", {}, True, False),
        ({"chat": {"model": "m"}}, "global", {}, False, False),
        ({"chat": {"model": "m"}, "answer": {"model": "rules"}}, "bm25", {}, True, True),
        ({"embedding": {"model": "m", "base_url": "http://localhost:1/v1"}}, "bm25", {}, True, True),
        ({"embedding": {"model": "m", "base_url": "http://localhost:1/v1"}}, "naive", {}, False, False),
    ],
)
def test_what_needs_a_model_stays_in_a_thread(
    settings: dict[str, Any], method: str, options: dict[str, Any], is_answer: bool, expected: bool, kumi: Kumihimo
) -> None:
    with Kumihimo.open(kumi.folder, settings=settings) as other:
        query = Query.of("?", method, **options)
        assert needs_no_model(other.opened, query, is_answer=is_answer) is expected


# -- processes that end


def test_a_killed_process_fails_its_question_and_another_takes_its_place(
    kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = kumi.opened.address
    assert address
    room = QuestionPool(address, 1)
    ask(room, QUESTIONS[0], "bm25")
    (pid,), process = room.pids, room._processes[0]
    ask_process = process.ask

    def kill_and_ask(*arguments: Any) -> Any:
        os.kill(pid, signal.SIGKILL)
        return ask_process(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(process, "ask", kill_and_ask)
        with pytest.raises(WorkerStopped, match=r"\(Killed\): ask it again"):
            ask(room, QUESTIONS[0], "bm25")
    assert len(ask(room, QUESTIONS[0], "bm25").citations)
    assert room.pids != [pid]
    os.kill(room.pids[0], signal.SIGKILL)
    wait_until(lambda: has_ended(process))
    assert len(ask(room, QUESTIONS[0], "bm25").citations), "it had ended while it was idle: no question fails"
    room.close()


def test_a_cancelled_question_ends_with_its_process(kumi: Kumihimo) -> None:
    address = kumi.opened.address
    assert address
    room, token = QuestionPool(address, 1), CancelToken()
    ask(room, QUESTIONS[0], "bm25")
    (pid,) = room.pids
    os.kill(pid, signal.SIGSTOP)

    def cancel_when_busy() -> None:
        wait_until(lambda: bool(token._callbacks) and room._places.running == 1)
        token.cancel("left")

    canceller = Thread(target=cancel_when_busy)
    canceller.start()
    with pytest.raises(Cancelled, match="left"):
        ask(room, QUESTIONS[0], "bm25", cancel=token)
    canceller.join()
    assert len(ask(room, QUESTIONS[0], "bm25").citations)
    room.close()


def test_a_question_that_waits_for_a_process_can_be_cancelled(room: QuestionPool) -> None:
    token = CancelToken()
    busy = [room._borrow("", CancelToken()) for _ in range(2)]
    canceller = Thread(target=token.cancel)
    canceller.start()
    with pytest.raises(Cancelled):
        ask(room, QUESTIONS[0], "bm25", cancel=token)
    canceller.join()
    for process in busy:
        room._give_back("", process)


def test_the_questions_of_one_caller_leave_a_process_for_another(kumi: Kumihimo, room: QuestionPool) -> None:
    busy = [room._borrow("many", CancelToken()) for _ in range(2)]
    answer = room.run("answer", Query.of(QUESTIONS[0], "bm25"), "one")
    assert answer.citations == kumi.ask(QUESTIONS[0], "bm25").citations
    for process in busy:
        room._give_back("many", process)


def test_a_closed_room_answers_nothing(kumi: Kumihimo) -> None:
    address = kumi.opened.address
    assert address
    room = QuestionPool(address, 1)
    assert room.pids == [], "a process starts with its first question"
    ask(room, QUESTIONS[0], "bm25")
    process = room._borrow("", CancelToken())
    room.close()
    room._give_back("", process)
    assert process.pid == 0
    with pytest.raises(Cancelled, match="the index was closed"):
        ask(room, "?")


# -- the other side


@pytest.mark.parametrize(
    "error", [SettingsError("no"), ItemFailed("no", fallback=[]), WorkerStopped("clock", "no"), ValueError("no")]
)
def test_errors_travel_between_processes(error: Exception, monkeypatch: pytest.MonkeyPatch, kumi: Kumihimo) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(kumi, "answer", fail)
    monkeypatch.setattr(question_process, "_open", lambda _: kumi)
    request = "", pack(("answer", Query.of("?"), "en"))
    succeeded, value = unpack(copy_context().run(lambda: next(answer_question(request))))
    assert not succeeded
    assert "no" in str(value)
    assert type(value) is (type(error) if not isinstance(error, ValueError) else RuntimeError)
