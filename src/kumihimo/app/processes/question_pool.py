"""questions that need no model -> processes that answer them."""

from threading import Condition
from typing import Any, Literal

from kumihimo.app.ask.query import Query
from kumihimo.app.opened import catalogue, open_index
from kumihimo.app.processes.fair_places import FairPlaces
from kumihimo.app.processes.question_process import HANDLER, pack, unpack
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled
from kumihimo.text.translation import message_language
from kumihimo.workers import ONE_THREAD, Worker, WorkerStopped

_CLOSED = "the index was closed"
_REMEDY = "ask it again; if that happens each time, ask it with `workers=0`, and report it"


def needs_no_model(index: open_index.OpenIndex, query: Query, *, is_answer: bool) -> bool:
    """Return whether a query calls no chat model and no server.

    query: with its method. is_answer: an answer is written, not only evidence found.
    """
    signature, models = index.catalogue.methods.get(query.method), index.models
    if signature is None:
        return False  # the question names the error
    reranker = query.settings.get("reranker", index.settings.get(query.method, {}).get("reranker", "none"))
    if catalogue.uses_llm(models, signature) or (is_answer and models.chat("answer")) or reranker != "none":
        return False
    return "vector_search" not in signature.ports or models.paid_embedder is None


class QuestionPool:
    """Processes that answer questions about one index, each one at a time.

    Each starts with the first question for which the others have no time, and one more if a caller without one asks
    then. They map the same vector files, and have no keys in their environment. Call `run` from threads. A question
    that is cancelled ends with its process.
    """

    def __init__(self, address: open_index.IndexAddress, workers: int) -> None:
        self._places = FairPlaces(workers)
        self._address = pack(address)
        self._processes = [Worker(HANDLER, memory=0, max_file=0, variables=ONE_THREAD) for _ in range(workers + 1)]
        self._idle = self._processes[::-1]  # the last one was used last: its memory is warm
        self._change = Condition()
        self._is_closed = False

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes that have started."""
        return [process.pid for process in self._processes if process.pid]

    def run(self, kind: Literal["answer", "search"], query: Query, key: str = "") -> Any:
        """Return what the facade returns for a query, and raise its errors.

        key: of the caller. Raises WorkerStopped if the process ends.
        """
        cancel = query.cancel or CancelToken()
        process = self._borrow(key, cancel)
        try:
            succeeded, value = self._ask(process, pack((kind, query.without_listeners(), message_language())), cancel)
        finally:
            self._give_back(key, process)
        if not succeeded:
            raise value
        return value

    def _ask(self, process: Worker, question: str, cancel: CancelToken) -> tuple[bool, Any]:
        """Return whether a question succeeded, and its result or error."""
        process.start()
        forget = cancel.on_cancel(process.kill)
        try:
            (reply,) = process.ask([self._address, question])
        except WorkerStopped as stop:
            cancel.check()
            message = f"the process that answered this question has ended ({stop}): {_REMEDY}"
            raise WorkerStopped(stop.reason, message) from stop
        finally:
            forget()
            if cancel.is_cancelled:  # the next question needs a process that nobody is about to kill
                process.close()
        result: tuple[bool, Any] = unpack(reply)
        return result

    def kill(self) -> None:
        """End the processes at once, from any thread."""
        for process in self._processes:
            process.kill()

    def close(self) -> None:
        """End the processes; questions in progress raise Cancelled."""
        with self._change:
            self._is_closed = True
            self._change.notify_all()
            idle, self._idle = self._idle, []
        self.kill()
        for process in idle:
            process.close()

    def _borrow(self, key: str, cancel: CancelToken) -> Worker:
        """Wait for a process that is idle."""
        borrowed: list[Worker] = []

        def begin() -> None:
            borrowed.append(self._idle.pop())

        forget = cancel.on_cancel(self._wake)
        try:
            with self._change:
                if self._is_closed:
                    raise Cancelled(_CLOSED)
                self._places.ask(key, begin)
                while not (borrowed or self._is_closed or cancel.is_cancelled):
                    self._change.wait()
                if borrowed:
                    return borrowed[0]
                self._places.withdraw(key, begin)
        finally:
            forget()
        cancel.check()
        raise Cancelled(_CLOSED)

    def _give_back(self, key: str, process: Worker) -> None:
        with self._change:
            if not self._is_closed:
                self._idle.append(process)
                self._places.leave(key)
                self._change.notify_all()
                return
        process.close()

    def _wake(self) -> None:
        with self._change:
            self._change.notify_all()
