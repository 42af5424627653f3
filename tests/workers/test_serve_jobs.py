"""A worker sends the lookups of several items together, asks for no row twice, and works while it waits."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

import pytest

from kumihimo.workers import serve_jobs
from kumihimo.workers.serve_jobs import Lookup, RemoteTables
from tests.workers import works

ROWS = {"a": "b", "b": "c", "c": "d", "x": "y", "y": "z"}


class Build:
    """The process of the build: it keeps the messages that it gets. A row names the next one."""

    def __init__(self) -> None:
        self.messages: list[list[Lookup]] = []
        self.tables = RemoteTables(self.answer)

    def answer(self, lookups: list[Lookup]) -> list[Any]:
        self.messages.append(lookups)
        return [ROWS.get(arguments[0]) for _, _, arguments in lookups]

    def asked(self) -> list[list[str]]:
        return [[arguments[0] for _, _, arguments in message] for message in self.messages]


@pytest.fixture
def build() -> Build:
    return Build()


def last_of(build: Build, start: str) -> str:
    """Follow the rows from one to the next."""
    rows = build.tables("notes")
    while found := rows.get(start):
        start = found
    return start


def test_lookups_of_several_items_travel_together(build: Build) -> None:
    assert build.tables.run_each(lambda item: last_of(build, item), ["a", "x", "a", "n"]) == ["d", "z", "d", "n"]
    assert build.asked() == [["a", "x", "n"], ["b", "y"], ["c", "z"], ["d"]]


def test_answers_are_kept_for_the_next_items(build: Build) -> None:
    build.tables.run_each(lambda item: last_of(build, item), ["a"])
    build.messages.clear()
    assert build.tables.run_each(lambda item: last_of(build, item), ["b", "x"]) == ["d", "z"]
    assert build.asked() == [["x"], ["y"], ["z"]]


def test_a_full_cache_is_cleared_between_two_jobs_only(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_jobs, "_MAX_FOUND", 1)
    for _ in range(2):
        build.messages.clear()
        assert build.tables.run_each(lambda item: last_of(build, item), ["a"]) == ["d"]
        assert build.asked() == [["a"], ["b"], ["c"], ["d"]]


def test_an_item_goes_on_where_it_waited(build: Build) -> None:
    begun: list[str] = []

    def note(item: str) -> str:
        begun.append(item)
        return last_of(build, item)

    assert build.tables.run_each(note, ["a", "x"]) == ["d", "z"]
    assert begun == ["a", "x"]


def test_an_error_of_an_item_ends_the_job(build: Build) -> None:
    def fail(item: str) -> str:
        if build.tables("notes").get(item) is None:
            raise ValueError(item)
        return item

    with pytest.raises(ValueError, match="n"):
        build.tables.run_each(fail, ["a", "n"])
    build.messages.clear()
    assert build.tables.run_each(lambda item: last_of(build, item), ["x"]) == ["z"], "the next job is not disturbed"


@pytest.fixture
def build_end() -> Iterator[Connection]:
    """Return the end of the build of a connection to a worker, which is a thread here."""
    ours, theirs = Pipe()
    worker = Thread(target=serve_jobs.serve_jobs, args=[theirs, None])
    worker.start()
    ours.send(("work", 1, pickle.dumps(works.Spec("look_up"))))
    yield ours
    ours.close()
    worker.join(60)
    assert not worker.is_alive()


def lookup_of(job: str) -> tuple[Any, ...]:
    return "rows", 1, [("notes", "get_many", ((job,),))]


def receive(connection: Connection) -> Any:
    assert connection.poll(60), "the worker sends nothing"
    return connection.recv()


def test_the_next_job_begins_while_one_waits_for_rows(build_end: Connection) -> None:
    for number, job in enumerate("ab"):
        build_end.send(("job", 1, number, job))
    assert [receive(build_end), receive(build_end)] == [lookup_of("a"), lookup_of("b")]
    for answer in "AB":
        build_end.send(("rows", [[answer]]))
    assert receive(build_end) == ("done", 1, 0, ("there", ["A"]))
    assert receive(build_end) == ("done", 1, 1, ("there", ["B"]))


def test_a_job_that_was_taken_back_sends_no_result(build_end: Connection) -> None:
    for number, job in enumerate("abc"):
        build_end.send(("job", 1, number, job))
    for job in "abc":
        assert receive(build_end) == lookup_of(job)
    build_end.send(("drop", 1, 0))
    build_end.send(("rows", [["A"]]))
    build_end.send(("rows", None))  # its run has ended
    build_end.send(("rows", [["C"]]))
    assert receive(build_end) == ("done", 1, 2, ("there", ["C"]))


def test_a_job_that_was_taken_back_may_be_given_again(build_end: Connection) -> None:
    build_end.send(("job", 1, 0, "a"))
    assert receive(build_end) == lookup_of("a")
    build_end.send(("drop", 1, 0))
    build_end.send(("rows", [["A"]]))
    build_end.send(("job", 1, 0, "b"))
    results = [receive(build_end)]
    if results == [("done", 1, 0, ("there", ["A"]))]:  # the worker had not stopped yet
        results = [receive(build_end)]
    assert results == [lookup_of("b")]
    build_end.send(("rows", [["B"]]))
    assert receive(build_end) == ("done", 1, 0, ("there", ["B"]))
