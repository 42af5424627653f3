"""A worker sends the lookups of several items together, and asks for no row twice."""

from __future__ import annotations

from typing import Any

import pytest

from kumihimo.workers import serve_jobs
from kumihimo.workers.serve_jobs import Lookup, RemoteTables

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


class Clock:
    """A clock that stands still, unless a test sets it forward."""

    def __init__(self) -> None:
        self.seconds = 1.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def build() -> Build:
    return Build()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(serve_jobs, "perf_counter", clock)
    return clock


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


def test_an_item_that_has_worked_long_waits_for_its_answer(build: Build, clock: Clock) -> None:
    begun: list[str] = []

    def work_first(item: str) -> str:
        begun.append(item)
        clock.seconds += 0.01
        return last_of(build, item)

    assert build.tables.run_each(work_first, ["a", "x"]) == ["d", "z"]
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
