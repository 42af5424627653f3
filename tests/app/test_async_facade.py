"""Questions and builds of asyncio programs: whoever leaves frees the place at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from contextvars import ContextVar
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import pytest

from kumihimo import Answer, AsyncKumihimo, Context, KumiError, Kumihimo, ProgressEvent
from kumihimo.app.ask.query import Query
from kumihimo.app.processes import async_facade
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled, IndexUnavailable
from kumihimo.testing.fake_models import FakeChat
from tests.fixtures_index import MadeUp, fill

ANSWER = Answer.of_text("?", "At nine.")
QUESTION = "When does the ferry leave?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of two notes."""
    folder = tmp_path_factory.mktemp("notes")
    notes = fill(folder / "notes", {"a.txt": "The ferry leaves at nine.", "b.txt": "The gate leaks at noon."})
    with Kumihimo.open(folder / ".kumi") as kumi:
        kumi.index(notes)
    return folder / ".kumi"


@pytest.fixture
def kumi(folder: Path) -> Iterator[Kumihimo]:
    with Kumihimo.open(folder) as kumi:
        yield kumi


class SlowQuestions:
    """A question that ends when it is cancelled, and only after `release`."""

    def __init__(self) -> None:
        self.started, self.cancelled, self.release, self.ended = Event(), Event(), Event(), Event()
        self.reason = ""

    def answer(self, query: Query) -> Answer:
        cancel = query.cancel
        if query.question.text != "slow" or not cancel:
            return ANSWER
        if query.on_token:
            query.on_token("At ")
        self.started.set()
        cancel.wait(600)
        self.cancelled.set()
        self.release.wait(600)
        self.ended.set()
        self.reason = cancel.reason
        raise Cancelled(cancel.reason)


@pytest.fixture
def slow(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowQuestions]:
    slow = SlowQuestions()
    monkeypatch.setattr(kumi, "answer", slow.answer)
    yield slow
    slow.release.set()


async def happens(event: Event) -> None:
    """Wait for an event of another thread."""
    assert await asyncio.to_thread(event.wait, 600)


# -- what comes


def test_the_answers_are_those_of_the_facade(kumi: Kumihimo) -> None:
    async def play() -> tuple[Answer, Context, str]:
        async with AsyncKumihimo(kumi) as questions:
            pieces = [piece async for piece in questions.stream(QUESTION)]
            return await questions.ask(QUESTION), await questions.retrieve(QUESTION, "bm25", k=1), "".join(pieces)

    answer, context, text = asyncio.run(play())
    expected = kumi.ask(QUESTION)
    assert (answer.text, answer.citations, answer.context) == (expected.text, expected.citations, expected.context)
    assert context == kumi.retrieve(QUESTION, "bm25", k=1)
    assert text == expected.text
    assert kumi.status().rows["documents"] == 2, "an index that was open before stays open"


def test_events_come_in_order_and_the_answer_last(kumi: Kumihimo) -> None:
    kumi.models = MadeUp(kumi.models.settings, kumi.models.cache)
    kumi.models.chat = lambda scope: FakeChat(lambda _: "At nine [1].", join_messages=True)  # type: ignore[method-assign]

    async def play() -> list[object]:
        async with AsyncKumihimo(kumi) as questions:
            return [event async for event in questions.events(QUESTION, "bm25")]

    search, asking, context, *tokens, answer = asyncio.run(play())
    assert isinstance(search, ProgressEvent)
    assert isinstance(asking, ProgressEvent)
    assert (search.step, asking.step) == ("search", "answer")
    assert isinstance(context, Context)
    assert isinstance(answer, Answer)
    assert (context, "".join(map(str, tokens))) == (answer.context, "At nine [1].")


def test_errors_are_those_of_the_facade(tmp_path: Path, kumi: Kumihimo) -> None:
    async def ask(questions: AsyncKumihimo, method: str) -> None:
        async with questions:
            await questions.ask(QUESTION, method)

    with pytest.raises(IndexUnavailable, match="kumi index PATH"):
        asyncio.run(ask(AsyncKumihimo.open(tmp_path), ""))
    with pytest.raises(KumiError, match="bm52"):
        asyncio.run(ask(AsyncKumihimo(kumi), "bm52"))


def test_many_questions_run_together(kumi: Kumihimo) -> None:
    async def play() -> list[Context]:
        async with AsyncKumihimo(kumi, questions=8) as questions:
            return await asyncio.gather(*(questions.retrieve(QUESTION, "naive") for _ in range(32)))

    assert set(asyncio.run(play())) == {kumi.retrieve(QUESTION, "naive")}


def test_a_build_reports_its_progress_in_the_event_loop(tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine."})
    events, loops = list[ProgressEvent](), set[object]()

    def record(event: ProgressEvent) -> None:
        events.append(event)
        loops.add(asyncio.get_running_loop())

    async def play() -> int:
        async with AsyncKumihimo.open(tmp_path / ".kumi") as kumi:
            built = await kumi.index(notes, methods=["bm25"], progress=record)
            return built.new + await kumi.run(lambda kumi: kumi.status().rows["documents"])

    assert asyncio.run(play()) == 2
    assert (events[-1].share, len(loops)) == (1, 1)


def test_threads_see_the_context_of_the_task(kumi: Kumihimo) -> None:
    language = ContextVar("language", default="en")

    async def play() -> str:
        async with AsyncKumihimo(kumi) as questions:
            language.set("ja")
            return await questions.run(lambda _: language.get())

    assert asyncio.run(play()) == "ja"


# -- leaving


@pytest.mark.parametrize("form", ["ask", "stream"])
def test_a_task_that_is_cancelled_frees_the_place_while_its_thread_still_ends(
    form: str, kumi: Kumihimo, slow: SlowQuestions
) -> None:
    async def stream(questions: AsyncKumihimo) -> None:
        async for _ in questions.stream("slow"):
            pass

    async def play() -> Answer:
        async with AsyncKumihimo(kumi, questions=1) as questions:
            task = asyncio.create_task(questions.ask("slow") if form == "ask" else stream(questions))
            await happens(slow.started)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await happens(slow.cancelled)
            answer = await questions.ask("next")
            assert not slow.ended.is_set()
            slow.release.set()
            return answer

    assert asyncio.run(play()) is ANSWER
    assert slow.reason == "the caller has left"


def test_a_generator_closed_early_cancels_the_question(kumi: Kumihimo, slow: SlowQuestions) -> None:
    async def play() -> Answer:
        async with AsyncKumihimo(kumi, questions=1) as questions:
            async with aclosing(questions.events("slow")) as events:
                assert await anext(events) == "At "
            await happens(slow.cancelled)
            slow.release.set()
            return await questions.ask("next")

    assert asyncio.run(play()) is ANSWER


def test_a_question_that_waits_can_be_cancelled(kumi: Kumihimo, slow: SlowQuestions) -> None:
    async def play() -> None:
        async with AsyncKumihimo(kumi, questions=1) as questions:
            first = asyncio.create_task(questions.ask("slow"))
            await happens(slow.started)
            second = asyncio.create_task(questions.ask("next"))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            first.cancel()
            slow.release.set()
            assert await questions.ask("next") is ANSWER

    asyncio.run(play())


def test_a_question_beyond_its_time_is_cancelled(kumi: Kumihimo, slow: SlowQuestions) -> None:
    async def play() -> None:
        async with AsyncKumihimo(kumi, seconds=1e-3) as questions:
            with pytest.raises(Cancelled, match=r"longer than 0\.001 s: ask for less"):
                await questions.ask("slow")
            slow.release.set()

    asyncio.run(play())


def test_closing_cancels_what_is_in_progress(kumi: Kumihimo, slow: SlowQuestions) -> None:
    async def play() -> None:
        questions = AsyncKumihimo(kumi)
        task = asyncio.create_task(questions.ask("slow"))
        await happens(slow.started)
        slow.release.set()
        await questions.aclose()
        with pytest.raises(Cancelled, match="the index was closed"):
            await task
        with pytest.raises(Cancelled, match="open it again"):
            await questions.ask("next")

    asyncio.run(play())


def test_a_build_is_cancelled_and_the_next_waits_for_its_end(kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch) -> None:
    started, release, order = Event(), Event(), list[str]()

    def index(name: str, *, cancel: CancelToken, **_: object) -> None:
        order.append(name)
        if name == "first":
            started.set()
            cancel.wait(600)
            release.wait(600)
            order.append("end of first")

    monkeypatch.setattr(kumi, "index", index)

    async def play() -> None:
        async with AsyncKumihimo(kumi) as questions:
            task = asyncio.create_task(questions.index("first"))
            await happens(started)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            second = asyncio.create_task(questions.index("second"))
            await asyncio.sleep(0)
            release.set()
            await second

    asyncio.run(play())
    assert order == ["first", "end of first", "second"]


def test_what_a_thread_reports_after_the_loop_has_ended_is_lost(
    kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch
) -> None:
    emits = list[Callable[[str], None]]()

    def answer(query: Query) -> Answer:
        assert query.on_token
        emits.append(query.on_token)
        return ANSWER

    monkeypatch.setattr(kumi, "answer", answer)

    async def play() -> None:
        async with AsyncKumihimo(kumi) as questions:
            assert [event async for event in questions.events("?")] == [ANSWER]

    asyncio.run(play())
    thread = Thread(target=emits[0], args=["late"])
    thread.start()
    thread.join()
    assert async_facade._THREADS_PER_PLACE > 1, "a thread that ends does not take the place of the next question"


# -- several callers


@pytest.mark.parametrize("kind", ["question", "read"])
def test_the_calls_of_one_caller_leave_a_place_for_another_and_take_turns(
    kind: str, kumi: Kumihimo, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = SimpleQueue[str](), dict[str, Event]()

    def wait(name: str) -> Answer:
        begun.put(name)
        assert may_end[name].wait(600)
        return ANSWER

    monkeypatch.setattr(kumi, "answer", lambda query: wait(query.question.text))
    monkeypatch.setattr(async_facade, "_READS", 2)

    async def next_begun() -> str:
        return await asyncio.to_thread(begun.get, timeout=600)

    async def play() -> list[str]:
        async with AsyncKumihimo(kumi, questions=2) as questions:

            def call(name: str) -> asyncio.Task[Answer]:
                may_end[name], caller = Event(), questions.for_caller(name[0])
                work = caller.ask(name) if kind == "question" else caller.run(lambda _: wait(name))
                return asyncio.create_task(work)

            calls = {name: call(name) for name in ("a1", "a2", "a3", "a4", "a5")}
            first = {await next_begun(), await next_begun()}
            assert first == {"a1", "a2"}, "one caller takes all places"
            calls |= {name: call(name) for name in ("b1", "b2", "c1")}
            assert await next_begun() == "b1", "and one more is for another"
            await asyncio.sleep(0)
            assert begun.empty()
            order = []
            for name in ("a1", "a2", "b1"):
                may_end[name].set()
                await calls[name]
                order.append(await next_begun())
            for event in may_end.values():
                event.set()
            await asyncio.gather(*calls.values())
            return order

    assert asyncio.run(play()) == ["c1", "a3", "b2"], "who has none comes first"


# -- what is counted


def test_questions_that_run_and_wait_are_counted(kumi: Kumihimo, slow: SlowQuestions) -> None:
    async def play() -> list[tuple[int, int]]:
        async with AsyncKumihimo(kumi, questions=1) as questions:
            tasks = [asyncio.create_task(questions.ask("slow")) for _ in range(3)]
            await happens(slow.started)
            counts = [(questions.running, questions.waiting)]
            tasks[-1].cancel()
            await asyncio.wait(tasks[-1:])
            counts.append((questions.running, questions.waiting))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            slow.release.set()
            return [*counts, (questions.running, questions.waiting)]

    assert asyncio.run(play()) == [(1, 2), (1, 1), (0, 0)]


def test_the_time_of_each_question_is_told_with_its_method(kumi: Kumihimo) -> None:
    async def play() -> list[str]:
        told: list[tuple[str, float]] = []
        async with AsyncKumihimo(kumi) as questions:
            questions.on_answered = lambda *answered: told.append(answered)
            await questions.ask(QUESTION)
            await questions.ask(QUESTION, "bm25")
            await questions.retrieve(QUESTION)
            await questions.retrieve(QUESTION, "naive")
            with pytest.raises(KumiError):
                await questions.ask("")
        assert all(seconds > 0 for _, seconds in told)
        return [method for method, _ in told]

    assert asyncio.run(play()) == ["braid", "bm25", "braid", "naive"]
