"""an index -> AsyncKumihimo: questions and builds for programs with asyncio, which cancel them by leaving."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self, TypeVar

from kumihimo.app.ask.query import Query
from kumihimo.app.ask.questions import embed_texts, lacking_method
from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.build.prepare_build import build_method
from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.results import Built, Strings
from kumihimo.app.processes.fair_places import FairPlaces
from kumihimo.app.processes.question_pool import QuestionPool, needs_no_model
from kumihimo.core.answer import Answer
from kumihimo.core.cancel import CancelToken
from kumihimo.core.context import Context
from kumihimo.core.errors import Cancelled, SettingsError
from kumihimo.core.task import Progress, ProgressEvent
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget
from kumihimo.llm.protocols import Vectors

T = TypeVar("T")
QuestionEvent = ProgressEvent | Context | str | Answer  # a str is a token; the Answer is the last event
Emit = Callable[[Any], None]
_THREADS_PER_PLACE = 2  # a cancelled call has given up its place, and may still end in its thread
_READS = 8  # that run together
_END = object()
_Kind = Literal["answer", "search"]


class AsyncKumihimo:
    """An index for one event loop.

    Its methods run `Kumihimo` in threads. Cancel the task that waits, or close the generator: then the search and the
    requests to models stop, and the place is free for the next question at once.

    kumi: stays open at the end, unless `AsyncKumihimo.open` has opened it. workers: processes for questions that no
    model and no server answers, so that they use all processors; each starts when it is needed. 0: threads, which an
    index with functions passed to `Kumihimo.open` has too, since another process cannot have them. questions: how many
    run together, and one more of a caller that has none; others wait, and the callers of `for_caller` take turns.
    seconds: after which a question raises Cancelled; 0: no limit. on_answered: is called in a thread with the method of
    each question, and with its seconds.

    >>> from tempfile import TemporaryDirectory
    >>> async def ask_note() -> str:
    ...     with TemporaryDirectory() as folder:
    ...         note = Path(folder, "note.txt")
    ...         _ = note.write_text("The ferry leaves at nine. The harbour office opens at eight.")
    ...         async with AsyncKumihimo.open(Path(folder, ".kumi")) as kumi:
    ...             await kumi.index(note)
    ...             return (await kumi.ask("When does the ferry leave?")).text
    >>> asyncio.run(ask_note())
    'The ferry leaves at nine. The harbour office opens at eight.'
    """

    def __init__(self, kumi: Kumihimo, *, workers: int = 0, questions: int = 32, seconds: float = 0) -> None:
        self.kumi, self._seconds, self._owns_kumi = kumi, seconds, False
        self._questions, self._reads, self._builds = (
            _ConcurrencyLimit.create(questions),
            _ConcurrencyLimit.create(_READS),
            _ConcurrencyLimit.create(1, 1),
        )
        in_processes = workers and not kumi.opened.has_functions
        self.room = QuestionPool(kumi.opened.address, workers) if in_processes else None
        self._key = ""  # of the caller
        self._tokens: set[CancelToken] = set()  # of all calls in progress
        self.on_answered: Callable[[str, float], object] = lambda _method, _seconds: None
        self._is_closed = False

    @classmethod
    def open(
        cls,
        folder: str | Path = ".kumi",
        *,
        workers: int = 0,
        questions: int = 32,
        seconds: float = 0,
        **options: Any,
    ) -> Self:
        """Open the index in a folder; `aclose` closes it.

        options: as for `Kumihimo.open`.
        """
        opened = cls(Kumihimo.open(folder, **options), workers=workers, questions=questions, seconds=seconds)
        opened._owns_kumi = True
        return opened

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Cancel all calls in progress, and end threads and processes."""
        self._is_closed = True
        for token in [*self._tokens]:
            token.cancel("the index was closed")
        await asyncio.to_thread(self._end)

    def kill(self) -> None:
        """End the processes at once, from any thread."""
        if self.room:
            self.room.kill()

    def _end(self) -> None:
        if self.room:
            self.room.close()
        for lane in (self._questions, self._reads, self._builds):
            lane.threads.shutdown()
        if self._owns_kumi:
            self.kumi.close()

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that have started."""
        return self.room.pids if self.room else []

    @property
    def running(self) -> int:
        """Return how many questions run."""
        return self._questions.places.running

    @property
    def waiting(self) -> int:
        """Return how many questions wait for a place."""
        return self._questions.places.waiting

    def for_caller(self, key: str) -> Self:
        """Return the same places and limits for one of several callers.

        They take turns.
        """
        other = copy(self)
        other._key = key
        return other

    # -- questions

    async def ask(self, question: str, method: str = "", **options: Any) -> Answer:
        """Return the answer with its citations. options: as for `Kumihimo.ask`."""
        return await self.answer(Query.of(question, method, **options))

    async def answer(self, query: Query) -> Answer:
        """Return the answer to a query, as `ask` does."""
        _check_no_listeners(query)
        return await self._last(self._questions, lambda cancel, _: self._ask("answer", query, cancel), self._seconds)

    def events(self, question: str, method: str = "", **options: Any) -> AsyncGenerator[QuestionEvent, None]:
        """Return progress, the evidence, the text as it arrives, the answer.

        A ProgressEvent comes as the search begins, and one as a model is asked; both again if the index changes
        meanwhile. The evidence is a Context. options: as for `ask`. Close the generator to cancel the question: `async
        with aclosing(kumi.events(…)) as events`.
        """
        return self.answer_events(Query.of(question, method, **options))

    def answer_events(self, query: Query) -> AsyncGenerator[QuestionEvent, None]:
        """Return the events of a query, as `events` does."""
        _check_no_listeners(query)
        return self._run(self._questions, lambda cancel, emit: self._ask("answer", query, cancel, emit), self._seconds)

    async def stream(self, question: str, method: str = "", **options: Any) -> AsyncGenerator[str, None]:
        """Yield the answer's text as it arrives.

        options: as for `ask`.
        """
        async with aclosing(self.events(question, method, **options)) as events:
            async for event in events:
                if isinstance(event, str):
                    yield event

    async def retrieve(self, question: str, method: str = "", **options: Any) -> Context:
        """Return the evidence. options: as for `Kumihimo.retrieve`."""
        return await self.search(Query.of_search(question, method, **options))

    async def search(self, query: Query) -> Context:
        """Return the evidence for a query, as `retrieve` does."""
        _check_no_listeners(query)
        return await self._last(self._questions, lambda cancel, _: self._ask("search", query, cancel), self._seconds)

    async def embed(
        self, texts: Sequence[str], *, as_questions: bool = False, budget: Budget | None = None
    ) -> tuple[Vectors, Usage]:
        """Return the vectors of texts, and what they cost.

        as_questions, budget: as for `embed_texts`.
        """
        options: dict[str, Any] = {"as_questions": as_questions, "budget": budget}
        return await self._last(
            self._questions,
            lambda cancel, _: embed_texts(self.kumi.opened, texts, cancel=cancel, **options),
            self._seconds,
        )

    def _ask(self, kind: _Kind, query: Query, cancel: CancelToken, emit: Emit | None = None) -> Any:
        """Return the answer to a query, or its evidence."""
        start, query, is_answer = perf_counter(), replace(query, cancel=cancel), kind == "answer"
        if self.room and needs_no_model(self.kumi.opened, named := self._with_method(query), is_answer=is_answer):
            result: Any = self.room.run(kind, named, self._key)
            if emit:
                for event in (ProgressEvent("search"), result.context, result.text):
                    emit(event)
        else:
            if emit:
                query = replace(query, on_token=emit, on_context=emit, progress=emit)
            result = self.kumi.answer(query) if is_answer else self.kumi.search(query)
        self.on_answered(result.method, perf_counter() - start)
        return result

    def _with_method(self, query: Query) -> Query:
        """Return the query with the name of its method."""
        if query.method:
            return query
        with self.kumi.snapshot() as snapshot:
            return replace(query, method=snapshot.default_method())

    # -- builds and other calls

    async def index(self, *paths: str | Path, progress: Progress | None = None, **options: Any) -> Built:
        """Add or refresh files and folders, as `Kumihimo.index` does.

        progress: is called in the event loop; a function as `consent`, in a thread. Builds run one after the other.
        """

        return await self._build(partial(self.kumi.index, *paths, **options), progress)

    async def index_texts(self, texts: Strings, *, progress: Progress | None = None, **options: Any) -> Built:
        """Add or replace texts, as `Kumihimo.index_texts` does.

        progress: as for `index`.
        """
        return await self._build(partial(self.kumi.index_texts, texts, **options), progress)

    async def _build(self, call: Callable[..., Built], progress: Progress | None) -> Built:
        def build(cancel: CancelToken, emit: Emit) -> Built:
            return call(progress=emit if progress else None, cancel=cancel)

        async with aclosing(self._run(self._builds, build)) as events:
            async for event in events:
                if progress and isinstance(event, ProgressEvent):
                    progress(event)
        built: Built = event
        return built

    async def prepare_method(self, name: str) -> None:
        """Build the tables that a method lacks, if they cost nothing.

        name: as for `Kumihimo.prepare_method`. A build of another process is not waited for.
        """

        def find_lacking(kumi: Kumihimo) -> str:
            with kumi.store.read_transaction() as db:
                return lacking_method(kumi.opened, db, name)

        def build(cancel: CancelToken, _: Emit) -> None:
            build_method(self.kumi.opened, lacking, cancel=cancel, is_needed=False)

        if lacking := await self.run(find_lacking):
            await self._last(self._builds, build)

    async def read(self, call: Callable[[Snapshot], T], *, rights: str = "") -> T:
        """Return what a function reads in a snapshot.

        It runs in a thread. rights: as for `Kumihimo.snapshot`.
        """

        def read(cancel: CancelToken, _: Emit) -> T:
            with self.kumi.snapshot(rights=rights, cancel=cancel) as snapshot:
                return call(snapshot)

        return await self._last(self._reads, read)

    async def run(self, call: Callable[[Kumihimo], T]) -> T:
        """Return the result of another read, such as `lambda kumi: kumi.status()`.

        It runs in a thread. One that is cancelled ends by itself there.
        """
        return await self._last(self._reads, lambda *_: call(self.kumi))

    # -- calls in threads

    async def _last(self, lane: _ConcurrencyLimit, call: Callable[[CancelToken, Emit], T], seconds: float = 0) -> T:
        """Return the result of a call."""
        async with aclosing(self._run(lane, call, seconds)) as events:
            result: T = [event async for event in events][-1]
        return result

    async def _run(
        self, lane: _ConcurrencyLimit, call: Callable[[CancelToken, Emit], object], seconds: float = 0
    ) -> AsyncGenerator[Any, None]:
        """Run a call in a thread; yield its events, then its result.

        At the end of the generator the call is cancelled, unless it has ended.
        """
        async with lane.place(self._key):
            if self._is_closed:
                raise Cancelled("the index was closed: open it again")
            loop, token, events = asyncio.get_running_loop(), CancelToken(), asyncio.Queue[Any]()

            def emit(event: object) -> None:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits
                    loop.call_soon_threadsafe(events.put_nowait, event)

            self._tokens.add(token)
            token.on_cancel(lambda: emit(_END))
            future = lane.threads.submit(copy_context().run, call, token, emit)
            future.add_done_callback(lambda _: emit(_END))
            reason = f"it took longer than {seconds:g} s: ask for less, or raise the time limit"
            timer = loop.call_later(seconds, token.cancel, reason) if seconds else None
            try:
                while (event := await events.get()) is not _END:
                    yield event
                if not future.done():
                    token.check()
                yield future.result()
            finally:
                if timer:
                    timer.cancel()
                self._tokens.discard(token)
                if not future.done():
                    token.cancel("the caller has left")
                    future.cancel()


def _check_no_listeners(query: Query) -> None:
    """Raise SettingsError if a query has listeners or a token."""
    if query.cancel or query.on_token or query.on_context or query.progress:
        raise SettingsError(
            "AsyncKumihimo takes no cancel, on_token, on_context or progress: cancel the task, or use `events`"
        )


@dataclass(slots=True)
class _ConcurrencyLimit:
    """Places for calls of one kind, and the threads that they run in."""

    places: FairPlaces
    threads: ThreadPoolExecutor

    @classmethod
    def create(cls, places: int, threads: int = 0) -> _ConcurrencyLimit:
        executor = ThreadPoolExecutor(threads or _THREADS_PER_PLACE * places, thread_name_prefix="kumihimo")
        return cls(FairPlaces(places), executor)

    @asynccontextmanager
    async def place(self, key: str) -> AsyncGenerator[None, None]:
        """Wait for a place, and hold it."""
        begun = asyncio.Event()
        self.places.ask(key, begun.set)
        try:
            await begun.wait()
            yield
        finally:
            if begun.is_set():
                self.places.leave(key)
            else:
                self.places.withdraw(key, begun.set)
