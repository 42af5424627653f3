"""work + jobs -> results of this process and others, here or on other machines: a fleet of workers.

Workers connect to this process. It gives each a few jobs, answers their lookups, does jobs itself when it has nothing
else to do, and yields the results in the order of the jobs. The jobs of a worker that is lost go to another one. Only
this process reads and writes the index.
"""

from __future__ import annotations

import pickle
import secrets
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from threading import Lock, Thread
from time import perf_counter
from typing import Any, Protocol, TypeVar

from kumihimo.core.cancel import CancelToken, check_cancelled
from kumihimo.core.errors import StepError
from kumihimo.core.task import Work

A = TypeVar("A")
B = TypeVar("B")
Address = tuple[str, int] | str

THIS_MACHINE: Address | None = None if hasattr(socket, "AF_UNIX") else ("localhost", 0)  # None: a file of the system
_JOBS_AHEAD = 6  # jobs that a worker has: it goes on while this process writes rows
_WINDOW = 8  # jobs for each worker that may be done before the oldest one is
_MAX_LOSSES = 3  # workers that the same job may lose, and workers in a row that may end before they connect
_SERVE_SECONDS = 0.0005  # between two looks at messages, while this process does a job
_POLL_SECONDS = 0.1  # between two looks at cancellation, and at workers that connect or end


class Recruit(Protocol):
    """A worker that was started."""

    def has_ended(self) -> bool: ...
    def kill(self) -> None: ...


class Recruiter(Protocol):
    """Starts workers. listens_on: the address for their connections."""

    listens_on: Address | None

    def wanted(self) -> int:
        """Return how many workers there should be now; it may change."""
        ...

    def recruit(self, invitation: Invitation) -> Recruit:
        """Start a worker that calls `serve_jobs` with this invitation."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Invitation:
    """An address and a key for one worker. name: its number in the fleet."""

    address: Address
    key: bytes = field(repr=False)
    name: int

    def accept(self) -> Connection:
        connection = Client(self.address, authkey=self.key)
        connection.send(self.name)
        return connection


@dataclass(slots=True, eq=False)
class _Member:
    """A worker in the fleet. connection: None until it connects. jobs: not answered yet."""

    recruit: Recruit
    connection: Connection | None = None
    jobs: dict[tuple[int, int], Any] = field(default_factory=dict)
    runs: set[int] = field(default_factory=set)  # whose work it has


class Fleet:
    """Workers for one build. It starts none before `start`, and belongs to one thread."""

    def __init__(self, recruiter: Recruiter, cancel: CancelToken | None = None) -> None:
        self._recruiter, self._cancel = recruiter, cancel
        self._members: dict[int, _Member] = {}
        self._arrived = deque[tuple[int, Connection]]()  # filled by the thread that listens
        self._lock = Lock()
        self._recruited = self._failed_starts = self._last_run = 0
        self._next_served = 0.0
        self._runs: dict[int, _Run] = {}  # one may begin while another waits for its caller
        self._listener: Listener | None = None
        self._key = secrets.token_bytes(32)
        self._selector = selectors.DefaultSelector()

    # -- members

    def start(self) -> None:
        """Start the workers, without waiting for them."""
        if self._listener is None:
            self._listener = Listener(self._recruiter.listens_on, backlog=64, authkey=self._key)
            self._selector.close()
            self._selector = selectors.DefaultSelector()
            Thread(target=self._accept, args=[self._listener], name="kumihimo-fleet", daemon=True).start()
            self._recruit()

    def is_ready(self) -> bool:
        """Return whether a worker has connected."""
        if self._listener is None:
            return False
        self._admit()
        return bool(self._selector.get_map())

    @property
    def pids(self) -> list[int]:
        """Return the ids of the processes of this machine."""
        return [pid for member in self._members.values() if (pid := getattr(member.recruit, "pid", 0))]

    def close(self) -> None:
        """End all workers."""
        listener, self._listener = self._listener, None
        if listener:
            _wake(listener)
            listener.close()
        with self._lock:
            for _, connection in self._arrived:
                connection.close()
            self._arrived.clear()
        for name, member in [*self._members.items()]:
            member.jobs.clear()  # they run no more
            self._dismiss(name)
        self._selector.close()
        self._recruiter.close()

    def _accept(self, listener: Listener) -> None:
        """Accept connections until the listener is closed."""
        while self._listener is listener:
            try:
                connection = listener.accept()
                arrived = int(connection.recv()), connection
            except (AuthenticationError, EOFError, OSError, ValueError):
                continue  # not one of ours, or it has ended
            with self._lock:
                self._arrived.append(arrived)

    def _recruit(self) -> None:
        """Start the workers that are missing."""
        for _ in range(self._recruiter.wanted() - len(self._members)):
            assert self._listener
            self._recruited += 1
            invitation = Invitation(self._listener.address, self._key, self._recruited)
            self._members[self._recruited] = _Member(self._recruiter.recruit(invitation))

    def _admit(self) -> None:
        """Give new connections to their members.

        Members that ended before they connected are dismissed.
        """
        with self._lock:
            arrived, self._arrived = self._arrived, deque()
        for name, connection in arrived:
            if member := self._members.get(name):
                member.connection, self._failed_starts = connection, 0
                self._selector.register(connection, selectors.EVENT_READ, name)
            else:
                connection.close()
        for name, member in [*self._members.items()]:
            if member.connection is None and member.recruit.has_ended():
                self._failed_starts += 1
                self._dismiss(name)
        if self._failed_starts >= _MAX_LOSSES:
            raise StepError(
                "the processes that help with a build end before they begin; their last lines say why. "
                "Or build without them: `kumi index --executor inline`"
            )

    def _dismiss(self, name: int) -> None:
        """End a member; its jobs run again."""
        member = self._members.pop(name)
        if member.connection:
            self._selector.unregister(member.connection)
            member.connection.close()
        member.recruit.kill()
        for place, ((number, job_number), job) in enumerate(member.jobs.items()):
            if run := self._runs.get(number):
                run.put_back(job_number, job, was_oldest=place == 0)

    # -- jobs

    def run(self, work: Work[A, B], jobs: Iterable[A], is_shared: Callable[[], bool] = lambda: True) -> Iterator[B]:
        """Yield the result of each job, in the order of the jobs.

        is_shared: tells whether members get jobs; the answer may change. If the caller stops early, or anything fails,
        all workers end. Raises what the work raises, and StepError for a job that ends one worker after another.
        """
        self._last_run += 1
        run = self._runs[self._last_run] = _Run(
            self._last_run, work, enumerate(jobs), pickle.dumps(work.spec), is_shared
        )
        own = work.with_rows(lambda table: ObservedRows(work.rows(table), lambda: self._serve_now_and_then(run)))
        try:
            while not run.is_done():
                check_cancelled(self._cancel)
                if run.next in run.results:
                    yield run.pop()
                    continue
                self._admit()
                self._recruit()
                if not self._serve(run):
                    self._help(run, own)
            for member in self._members.values():
                if member.connection and run.id in member.runs:
                    member.connection.send(("forget", run.id))
        except BaseException:
            self.close()
            raise
        finally:
            del self._runs[run.id]

    def _serve(self, run: _Run, seconds: float = 0) -> bool:
        """Hand out jobs, and handle the messages of members.

        Return whether there were any. seconds: how long to wait for one.
        """
        self._hand_out(run)
        if not self._selector.get_map():
            return False
        ready = self._selector.select(seconds)
        for key, _ in ready:
            name, connection = key.data, key.fileobj
            assert isinstance(connection, Connection)
            try:
                self._handle(self._members[name], connection.recv())
            except (EOFError, OSError):
                self._dismiss(name)
        return bool(ready)

    def _serve_now_and_then(self, run: _Run) -> None:
        """Serve, unless that was a moment ago."""
        if perf_counter() >= self._next_served:
            self._serve(run)
            self._next_served = perf_counter() + _SERVE_SECONDS

    def _help(self, run: _Run, own: Callable[[Any], Any]) -> None:
        """Do a job in this process, or wait for a message."""
        job = run.take(_WINDOW * (len(self._members) + 1)) or self._take_back(run)
        if job:
            run.results[job[0]] = own(job[1])
        elif not run.is_done() and run.next not in run.results:
            self._serve(run, _POLL_SECONDS)

    def _take_back(self, run: _Run) -> tuple[int, Any] | None:
        """Return a job that waits at a busy member.

        If the member has begun it, its result is ignored.
        """
        for member in self._members.values():
            place = next(reversed(member.jobs), None)
            if place and len(member.jobs) > 1 and place[0] == run.id and member.connection:
                with suppress(OSError):
                    member.connection.send(("drop", *place))
                return place[1], member.jobs.pop(place)
        return None

    def _hand_out(self, run: _Run) -> None:
        """Give each member the jobs that it lacks."""
        window = _WINDOW * (len(self._members) + 1)
        for name, member in [*self._members.items()]:
            while member.connection and len(member.jobs) < _JOBS_AHEAD:
                job = run.take(window) if run.is_shared() else None
                if job is None and not member.jobs:
                    job = self._take_back(run)
                if job is None:
                    break
                member.jobs[run.id, job[0]] = job[1]
                try:
                    if run.id not in member.runs:
                        member.connection.send(("work", run.id, run.spec))
                        member.runs.add(run.id)
                    member.connection.send(("job", run.id, *job))
                except OSError:
                    self._dismiss(name)
                    break

    def _handle(self, member: _Member, message: tuple[Any, ...]) -> None:
        """Answer lookups, store a result, or raise an error."""
        assert member.connection
        match message:
            case "rows", run_id, _ if run_id not in self._runs:
                member.connection.send(("rows", None))  # a job that was taken back
            case "rows", run_id, lookups:
                rows_of = self._runs[run_id].work.rows
                answers = (getattr(rows_of(table), method)(*arguments) for table, method, arguments in lookups)
                member.connection.send(("rows", [[*rows] if isinstance(rows, Iterator) else rows for rows in answers]))
            case "done", run_id, number, result:
                if (run_id, number) in member.jobs:  # it was not taken back
                    del member.jobs[run_id, number]
                    self._runs[run_id].results[number] = result
            case "error", error:
                raise error


def _wake(listener: Listener) -> None:
    """End the wait of a thread for a connection."""
    family = socket.AF_INET if isinstance(listener.address, tuple) else socket.AF_UNIX
    with suppress(OSError), socket.socket(family) as client:
        client.connect(listener.address)


class _Run:
    """The jobs of one call of `Fleet.run`. next: the number of the job whose result comes next."""

    def __init__(
        self, id: int, work: Any, jobs: Iterator[tuple[int, Any]], spec: bytes, is_shared: Callable[[], bool]
    ) -> None:
        self.id, self.work, self.spec, self._jobs, self.is_shared = id, work, spec, jobs, is_shared
        self.results: dict[int, Any] = {}
        self.next = self._taken = 0
        self._ahead = deque[tuple[int, Any]]()  # new jobs
        self._returned = deque[tuple[int, Any]]()  # jobs of lost workers
        self._losses: dict[int, int] = {}

    def is_done(self) -> bool:
        return self.next == self._taken and not self._returned and not self._look_ahead(1)

    def pop(self) -> Any:
        self.next += 1
        return self.results.pop(self.next - 1)

    def take(self, window: int) -> tuple[int, Any] | None:
        """Return a job, if there is one.

        None too while more than `window` jobs wait for the oldest one.
        """
        if self._returned:
            return self._returned.popleft()
        if self._taken - self.next >= window or not self._look_ahead(1):
            return None
        self._taken += 1
        return self._ahead.popleft()

    def _look_ahead(self, number: int) -> int:
        """Return how many new jobs wait, up to a number."""
        self._ahead.extend(islice(self._jobs, max(number - len(self._ahead), 0)))
        return len(self._ahead)

    def put_back(self, number: int, job: Any, *, was_oldest: bool) -> None:
        """Let a job of a lost worker run again.

        Raises StepError if it was the oldest job of several that were lost.
        """
        self._losses[number] = self._losses.get(number, 0) + was_oldest
        if self._losses[number] >= _MAX_LOSSES:
            raise StepError(
                f"{_MAX_LOSSES} processes have ended in the same part of a build ({describe_work(self.work)}): "
                "they may need more memory, or `kumi index --executor inline` shows why"
            )
        self._returned.append((number, job))


def describe_work(work: Work[Any, Any]) -> str:
    """Return the name of the step, or of the kind of work."""
    return str(getattr(work.spec, "step", type(work.spec).__name__))


class ObservedRows:
    """The rows of a table; `before` is called before each lookup."""

    def __init__(self, rows: Any, before: Callable[[], object]) -> None:
        self._rows, self._before = rows, before

    def __getattr__(self, method: str) -> Any:
        self._before()
        return getattr(self._rows, method)
