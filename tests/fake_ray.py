"""A module that stands for Ray in tests: it runs each task in a thread, with pickled arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class RayError(Exception): ...


class WorkerCrashedError(RayError): ...


class RayTaskError(RayError):
    """An error of the work. cause: what it raised."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(f"traceback of {cause}")
        self.cause = cause


class FakeRay:
    """What the build uses of the module `ray`. tasks: how many there were. crashes: whether each ends its process."""

    exceptions: Any

    def __init__(self) -> None:
        self.tasks = self.starts = 0
        self.asked: list[str | None] = []
        self.crashes, self.waits = False, False
        self.exceptions = type("exceptions", (), {"RayError": RayError, "RayTaskError": RayTaskError})
        self._threads: ThreadPoolExecutor | None = None

    def is_initialized(self) -> bool:
        return self._threads is not None

    def init(self, address: str | None = None, **_: Any) -> None:
        self.asked.append(address)
        if "nowhere" in (address or ""):
            raise TimeoutError("nobody answers")
        self.starts += 1
        self._threads = ThreadPoolExecutor(2)

    def shutdown(self) -> None:
        assert self._threads
        self._threads.shutdown()
        self._threads = None

    def remote(self, function: Callable[..., Any]) -> Any:
        return type("remote", (), {"remote": lambda _, *arguments: self._start(function, arguments)})()

    def _start(self, function: Callable[..., Any], arguments: Any) -> Any:
        assert self._threads
        self.tasks += 1
        future: Future[Any] = Future()
        if not self.waits:
            future = self._threads.submit(self._run, pickle.dumps((function, arguments)))
        return type("ObjectRef", (), {"future": lambda _: future})()

    def _run(self, task: bytes) -> Any:
        if self.crashes:
            raise WorkerCrashedError("the worker died")
        function, arguments = pickle.loads(task)
        try:
            return pickle.loads(pickle.dumps(function(*arguments)))
        except Exception as error:
            raise RayTaskError(error) from error
