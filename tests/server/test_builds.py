"""Builds of one index run one after the other, in a process that can be ended at any moment."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kumihimo import Kumihimo
from kumihimo.core.errors import IndexBusy, SettingsError
from kumihimo.server import builds
from kumihimo.server.builds import BuildJob, BuildQueue
from kumihimo.server.problems import NotFound
from tests.app.test_build_process import boats
from tests.counters import wait_until
from tests.fixtures_index import fill

Play = Callable[[BuildQueue], Coroutine[Any, Any, None]]


@pytest.fixture
def kumi(tmp_path: Path) -> Kumihimo:
    return Kumihimo.open(tmp_path / ".kumi")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child process that does what the target of a removal names."""
    monkeypatch.setattr(builds, "HANDLER", "tests.server.build_handlers:play")


@asynccontextmanager
async def queue_of(kumi: Kumihimo, **limits: int) -> AsyncIterator[BuildQueue]:
    queue = BuildQueue(kumi, **limits)
    try:
        yield queue
    finally:
        await queue.close()


def find(queue: BuildQueue, id: str) -> BuildJob:
    return next(job for job in queue.jobs if job.id == id)


async def wait(queue: BuildQueue, id: str) -> BuildJob:
    """The job when it has ended."""
    async for _ in queue.events(id):
        pass
    return find(queue, id)


async def running(queue: BuildQueue, job: BuildJob) -> int:
    """The id of the process of a job, as soon as it reports its first progress."""
    async for event in queue.events(job.id):
        if event.name == "progress":
            return int(event.data["done"])
    raise AssertionError(find(queue, job.id))


def has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_build_indexes_and_another_removes(kumi: Kumihimo, tmp_path: Path) -> None:
    notes = fill(tmp_path / "notes", {"a.txt": "The ferry leaves at nine.", "b.txt": "The gate leaks."})

    async def play() -> None:
        async with queue_of(kumi) as queue:
            jobs = [queue.index([str(notes)], methods=["bm25"]), queue.remove("notes/b.txt"), queue.remove("nowhere")]
            assert [job.state for job in jobs] == ["queued"] * 3
            first, second, third = [await wait(queue, job.id) for job in jobs]
            assert (first.state, second.state, third.state) == ("done", "done", "failed")
            assert first.result
            assert first.result["new"] == 2
            assert first.progress
            assert first.progress["share"] == 1
            assert first.created <= first.started <= first.ended <= second.ended
            assert third.error
            assert (third.error.name, "no source or document" in third.error.message) == ("SourceError", True)
            assert [job.id for job in queue.jobs] == [third.id, second.id, first.id]

    asyncio.run(play())
    assert kumi.status().rows["documents"] == 1


@pytest.mark.usefixtures("fake")
def test_one_build_runs_and_the_others_wait(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            first, second = queue.remove("wait"), queue.remove("x")
            pid = await running(queue, first)
            assert [find(queue, job.id).state for job in (first, second)] == ["running", "queued"]
            assert queue.cancel(first.id).state == "cancelled"
            assert (await wait(queue, second.id)).state == "done"
            assert has_ended(pid)
            assert queue.cancel(second.id).state == "done", "what has ended stays as it is"

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_a_build_that_waits_is_cancelled_without_a_process(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            first, second = queue.remove("wait"), queue.remove("x")
            await running(queue, first)
            assert queue.cancel(second.id).started == ""
            assert [event.data["state"] async for event in queue.events(second.id)] == ["queued", "cancelled"]

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_a_build_is_cancelled_before_its_process_is_there(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            first = queue.remove("wait")
            while find(queue, first.id).state == "queued":
                await asyncio.sleep(0)
            assert queue.cancel(first.id).state == "cancelled"
            assert (await wait(queue, queue.remove("x").id)).state == "done"

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
@pytest.mark.parametrize(("target", "name"), [("crash", "WorkerStopped"), ("refuse", "SourceError")])
def test_a_failed_build_says_why_and_the_next_one_runs(kumi: Kumihimo, target: str, name: str) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            failed, done = await wait(queue, queue.remove(target).id), await wait(queue, queue.remove("x").id)
            assert (failed.state, done.state) == ("failed", "done")
            assert failed.error
            assert failed.error.name == name
            assert "start the build again" in failed.error.message or "name a file" in failed.error.message

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_a_client_resumes_the_events(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            job = await wait(queue, queue.remove("x").id)
            events = [event async for event in queue.events(job.id)]
            assert [event.name for event in events] == ["state", "state", "progress", "state"]
            assert [event.id async for event in queue.events(job.id, after=2)] == [3, 4]
            assert events[-1].data["result"] == {"target": "x"}

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_the_queue_and_what_it_remembers_are_bounded(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi, waiting=2, kept=2) as queue:
            first = queue.remove("wait")
            await running(queue, first)
            jobs = [queue.remove("x"), queue.remove("y")]
            with pytest.raises(IndexBusy, match="cancel one, or wait"):
                queue.remove("z")
            queue.cancel(first.id)
            for job in jobs:
                await wait(queue, job.id)
            assert [job.options["target"] for job in queue.jobs] == ["y", "x"]
            with pytest.raises(NotFound, match="list them again"):
                queue.cancel(first.id)

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_keys_take_turns_and_one_cannot_fill_the_queue(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi, waiting=3) as queue:
            first = queue.remove("wait", key="a")
            await running(queue, first)
            jobs = [queue.remove(target, key="a") for target in ("a1", "a2", "a3")]
            with pytest.raises(IndexBusy):
                queue.remove("a4", key="a")
            jobs.append(queue.remove("b1", key="b"))
            with pytest.raises(IndexBusy):
                queue.remove("b2", key="b")
            queue.cancel(first.id)
            order = asyncio.Queue[str]()

            async def note(job: BuildJob) -> None:
                await wait(queue, job.id)
                order.put_nowait(job.options["target"])

            await asyncio.gather(*map(note, jobs))
            assert [order.get_nowait() for _ in jobs] == ["a1", "b1", "a2", "a3"]

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_the_builds_of_one_key_are_cancelled(kumi: Kumihimo) -> None:
    async def play() -> None:
        async with queue_of(kumi) as queue:
            first, second, other = (
                queue.remove(name, key=key) for name, key in (("wait", "a"), ("x", "a"), ("y", "b"))
            )
            pid = await running(queue, first)
            assert queue.keys == {"a", "b"}
            queue.cancel_all({"a"})
            assert (await wait(queue, other.id)).state == "done"
            assert [find(queue, job.id).state for job in (first, second)] == ["cancelled"] * 2
            assert has_ended(pid)
            assert queue.keys == set()

    asyncio.run(play())


@pytest.mark.usefixtures("fake")
def test_closing_cancels_all_and_ends_the_process(kumi: Kumihimo) -> None:
    pids, jobs = list[int](), list[BuildJob]()

    async def play() -> None:
        async with queue_of(kumi) as queue:
            first = queue.remove("wait")
            queue.remove("x")
            pids.append(await running(queue, first))
        jobs.extend(queue.jobs)

    asyncio.run(play())
    assert [job.state for job in jobs] == ["cancelled", "cancelled"]
    wait_until(lambda: has_ended(pids[0]))


def test_an_index_with_functions_of_this_process_has_no_builds(tmp_path: Path) -> None:
    with Kumihimo.open(tmp_path / ".kumi", readers=[boats]) as kumi, pytest.raises(SettingsError, match="plug-in"):
        BuildQueue(kumi)
