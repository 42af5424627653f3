"""builds of one index -> one child process after the other: a queue with progress, results and cancel."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex
from typing import Any, Literal

from kumihimo.app.facade import Kumihimo
from kumihimo.app.processes.build_process import HANDLER
from kumihimo.app.processes.fair_places import FairPlaces
from kumihimo.core.errors import IndexBusy, KumiError, SettingsError
from kumihimo.llm.budget import Caps
from kumihimo.server import problems, responses
from kumihimo.workers import Worker, WorkerStopped

JobState = Literal["queued", "running", "done", "failed", "cancelled"]
JobKind = Literal["index", "remove"]
_MAX_WAITING = 20
_MAX_KEPT = 50


@dataclass(frozen=True, slots=True)
class BuildError:
    """Why a build failed: the name of the error, and its message with the remedy."""

    name: str
    message: str


@dataclass(frozen=True, slots=True)
class BuildJob:
    """A build that waits, runs or has ended.

    options: as submitted. created, started, ended: times in UTC, in ISO format; empty: not yet. progress: the fields of
    the last ProgressEvent. result: the fields of Built; long lists are cut, and `listed` has their lengths.
    """

    id: str
    kind: JobKind
    options: Mapping[str, Any]
    state: JobState
    created: str
    started: str = ""
    ended: str = ""
    progress: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    error: BuildError | None = None

    @property
    def has_ended(self) -> bool:
        return self.state not in ("queued", "running")


@dataclass(slots=True, eq=False)
class _Entry:
    job: BuildJob
    key: str  # of who started it
    log: responses.EventLog = field(default_factory=responses.EventLog)
    begin: Callable[[], None] = lambda: None

    def set_state(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)
        self.log.append("state", asdict(self.job))


class BuildQueue:
    """The builds of one index, for one event loop.

    One build runs at a time, in a process of its own: it takes nothing from the speed of questions, and its memory is
    free again at its end. Then the keys that wait take turns. A build that is cancelled at any moment leaves the index
    as it was, and the replies that it paid for stay in the cache. Call all methods from the event loop.

    waiting: builds that may wait, and one more of a key that has none there. kept: jobs that are remembered after their
    end.
    """

    def __init__(self, kumi: Kumihimo, *, waiting: int = _MAX_WAITING, kept: int = _MAX_KEPT) -> None:
        if kumi.opened.has_functions:
            raise SettingsError(
                "builds run in a process of their own, which cannot have the functions that were passed to "
                "Kumihimo.open: install them as a plug-in, and connect models over HTTP"
            )
        self.address = kumi.opened.address
        self._max_waiting, self._max_kept = waiting, kept
        self._entries: dict[str, _Entry] = {}  # oldest first
        self._places = FairPlaces(1, spare=0)
        self._running: tuple[_Entry, Worker] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kumihimo-build")
        self._runner: asyncio.Task[None] | None = None

    # -- submitting

    def index(
        self,
        paths: Sequence[str] = (),
        *,
        methods: Sequence[str] = (),
        refresh: bool = False,
        caps: Caps | None = None,
        consent: bool = False,
        key: str = "",
    ) -> BuildJob:
        """Queue `Kumihimo.index` with these options, and return the job.

        A build with the same options that waits is returned instead, if it has the same key. key: the id of the key
        that pays. Raises IndexBusy if too many builds wait.
        """
        wanted = {"methods": [*methods], "refresh": refresh, "caps": asdict(caps or Caps()), "consent": consent}
        for job in self._waiting(key):
            if job.kind == "index" and _includes(job.options, wanted, paths):
                return job
        return self._submit("index", {"paths": [*paths], **wanted}, key)

    def remove(self, target: str, *, forget: bool = False, key: str = "") -> BuildJob:
        """Queue `Kumihimo.remove` with these options, and return the job.

        key: the id of the key that pays. Raises IndexBusy if too many builds wait.
        """
        return self._submit("remove", {"target": target, "forget": forget}, key)

    def _submit(self, kind: JobKind, options: Mapping[str, Any], key: str) -> BuildJob:
        if self._places.waiting >= self._max_waiting + (not self._waiting(key)):
            raise IndexBusy(f"{self._places.waiting:,} builds wait already: cancel one, or wait until one has ended")
        job = BuildJob(token_hex(6), kind, options, "queued", _now())
        entry = self._entries[job.id] = _Entry(job, key)
        entry.set_state()
        entry.begin = partial(self._begin, entry)
        self._places.ask(key, entry.begin)
        return job

    # -- reading

    @property
    def jobs(self) -> list[BuildJob]:
        """Return the jobs, newest first."""
        return [entry.job for entry in [*self._entries.values()][::-1]]  # another thread may look at them

    def _waiting(self, key: str) -> list[BuildJob]:
        """Return the jobs of a key that wait, the oldest first."""
        return [entry.job for entry in self._entries.values() if entry.key == key and entry.job.state == "queued"]

    @property
    def keys(self) -> set[str]:
        """Return the keys of the jobs that have not ended."""
        return {entry.key for entry in self._entries.values() if not entry.job.has_ended}

    def jobs_of(self, key: str) -> list[BuildJob]:
        """Return the jobs of a key, newest first."""
        return [entry.job for entry in reversed(self._entries.values()) if entry.key == key]

    def events(self, id: str, after: int = 0) -> AsyncGenerator[responses.ServerEvent, None]:
        """Yield the events of a job after this event id.

        It ends with the job. `state`: the fields of the job; `progress`: those of a ProgressEvent.
        """
        return self._entry(id).log.subscribe(after)

    def _entry(self, id: str) -> _Entry:
        return problems.require_row(self._entries.get(id), "build", id)

    # -- stopping

    def cancel(self, id: str) -> BuildJob:
        """Stop a job unless it has ended, and return it."""
        entry = self._entry(id)
        if self._running and self._running[0] is entry:
            self._running[1].stop()
        elif not entry.job.has_ended:
            self._places.withdraw(entry.key, entry.begin)
        self._finish(entry, "cancelled")
        return entry.job

    def kill(self) -> None:
        """End the process of a build at once, from any thread."""
        if running := self._running:
            running[1].stop()

    def cancel_all(self, keys: Collection[str] | None = None) -> None:
        """Stop all jobs that have not ended.

        keys: only those of these keys.
        """
        for id, entry in [*self._entries.items()]:
            if keys is None or entry.key in keys:
                self.cancel(id)

    async def close(self) -> None:
        """Cancel all jobs, and end the process."""
        self.cancel_all()
        if self._runner:
            await self._runner
        self._thread.shutdown()

    # -- running

    def _begin(self, entry: _Entry) -> None:
        entry.set_state(state="running", started=_now())
        self._running = entry, Worker(HANDLER, memory=0, max_file=0, with_secrets=True)
        self._runner = asyncio.get_running_loop().create_task(self._run(*self._running))

    async def _run(self, entry: _Entry, worker: Worker) -> None:
        """Run a job in its process, then let the next one begin."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._build, loop, entry, worker)
        except WorkerStopped as stop:
            self._finish(entry, "failed", error=BuildError(type(stop).__name__, _describe_stop(stop)))
        except (KumiError, OSError) as error:  # the process cannot be started
            self._finish(entry, "failed", error=BuildError(type(error).__name__, str(error)))
        finally:
            self._running = None
            self._places.leave(entry.key)

    def _build(self, loop: asyncio.AbstractEventLoop, entry: _Entry, worker: Worker) -> None:
        """Hand the replies of the process to the event loop."""
        job = entry.job
        request = {"index": asdict(self.address), "kind": job.kind, "options": job.options, "key": entry.key}
        with worker:
            for reply in worker.ask(request):
                loop.call_soon_threadsafe(self._handle, entry, reply)

    def _handle(self, entry: _Entry, reply: Mapping[str, Any]) -> None:
        if entry.job.has_ended:
            return
        if progress := reply.get("progress"):
            entry.job = replace(entry.job, progress=progress)
            entry.log.append("progress", progress)
        elif result := reply.get("result"):
            self._finish(entry, "done", result=result)
        else:
            self._finish(entry, "failed", error=BuildError(reply["error"], reply["message"]))

    def _finish(self, entry: _Entry, state: JobState, **outcome: Any) -> None:
        """Record the end of a job; forget the oldest ended ones."""
        if entry.job.has_ended:
            return
        entry.set_state(state=state, ended=_now(), **outcome)
        entry.log.close()
        ended = [each.job.id for each in self._entries.values() if each.job.has_ended]
        for old in ended[: -self._max_kept]:
            del self._entries[old]


def _includes(options: Mapping[str, Any], wanted: Mapping[str, object], paths: Sequence[str]) -> bool:
    """Return whether a build has these options, and includes these paths."""
    has_paths = {*paths} <= {*options["paths"]} and bool(paths) == bool(options["paths"])
    return has_paths and all(options[name] == value for name, value in wanted.items())


def _describe_stop(stop: WorkerStopped) -> str:
    """Return why the process of a build ended, with a remedy."""
    if stop.reason == "memory":
        return "the build needs more memory than there is: index fewer files at a time, or give it more memory"
    return f"the process of the build has ended ({stop}): start the build again, and it goes on with what is cached"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
