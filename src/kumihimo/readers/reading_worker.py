"""a request about a file -> the replies of a child process with the limits of reading, or an error that names it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from kumihimo.core.errors import LimitExceeded, SourceError
from kumihimo.readers.documents import unreadable_error
from kumihimo.readers.limits import ReadingLimits
from kumihimo.workers import Worker, WorkerStopped

T = TypeVar("T")
_CLOCK_FACTOR = 4  # seconds of the clock for a second of processor time


class ReadingWorker(Worker):
    """A child process that reads files which nobody trusts, within limits.

    handler: as for `Worker`. It gets the limits in its requests, and its replies come from `reply_errors`.
    """

    def __init__(self, handler: str, limits: ReadingLimits) -> None:
        super().__init__(handler, memory=limits.memory << 20)
        self.limits = limits

    def read(
        self, request: Mapping[str, Any], name: str, decode: Callable[[Any], T], size: int | None = None
    ) -> list[T]:
        """Return the decoded replies to a request about a file.

        size: its bytes, if they are known. Raise LimitExceeded if it is over a limit, SourceError if it cannot be read.
        """
        limits = self.limits if size is None else self.limits.for_size(size)
        request = {**request, "limits": asdict(limits)}
        while True:
            is_fresh = not self.requests
            try:
                return self._read(request, decode, limits)
            except WorkerStopped as stop:
                # Earlier files use some of the memory of a process, so a fresh one decides.
                if is_fresh or stop.reason not in ("memory", "crash"):
                    raise _describe_stop(name, stop, limits) from stop

    def _read(self, request: Mapping[str, Any], decode: Callable[[Any], T], limits: ReadingLimits) -> list[T]:
        results, error, seconds, memory = list[T](), None, limits.seconds, limits.memory << 20
        for reply in self.ask(request, seconds=seconds * _CLOCK_FACTOR, cpu_seconds=seconds, memory=memory):
            if isinstance(reply, dict):
                error = (LimitExceeded if reply["is_limit"] else SourceError)(reply["error"])
            else:
                results.append(decode(reply))
        if error:
            raise error
        return results


def _describe_stop(name: str, stop: WorkerStopped, limits: ReadingLimits) -> SourceError:
    """Return the error for a file that ended its process.

    A crash and the clock may have other causes, so such a file is read again by the next build.
    """
    if stop.reason in ("memory", "time"):
        return limits.error(name, "memory" if stop.reason == "memory" else "seconds")
    if stop.reason == "clock":
        seconds = limits.seconds * _CLOCK_FACTOR
        return SourceError(f"{name}: it was not read within {seconds:,} seconds (four times reading.seconds)")
    if stop.reason == "error":
        return unreadable_error(name, str(stop))
    return SourceError(
        f"{name}: its reader crashed ({stop}); the file is damaged, or needs more than "
        f"{limits.memory:,} MB of memory (reading.memory)"
    )


def reply_errors(replies: Iterable[Any]) -> Iterator[Any]:
    """Yield the replies, and a SourceError as the last one.

    It runs in the child process.
    """
    try:
        yield from replies
    except SourceError as error:
        yield {"error": str(error), "is_limit": isinstance(error, LimitExceeded)}
