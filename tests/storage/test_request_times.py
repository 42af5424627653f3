"""Processes that share a response cache keep the limits of a server together, in a file and in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.llm.rate_limit import OwnTimes, RateLimiter
from kumihimo.storage.place import IndexPlace
from kumihimo.storage.request_times import RequestTimes
from kumihimo.storage.response_cache import ResponseCache
from tests.stores import NEEDS_POSTGRES, postgres_place


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=NEEDS_POSTGRES)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> IndexPlace:
    return postgres_place(tmp_path) if request.param == "postgres" else IndexPlace(tmp_path)


@pytest.fixture
def processes(place: IndexPlace) -> Iterator[list[RequestTimes]]:
    """Return the times of one server as four processes see them."""
    with ExitStack() as stack:
        caches = [ResponseCache(place.open_cache()) for _ in range(4)]
        for cache in caches:
            stack.callback(cache.close)
        yield [RequestTimes(lambda cache=cache: cache.database, "server") for cache in caches]  # type: ignore[misc]


def test_requests_of_all_processes_are_evenly_spaced(processes: list[RequestTimes]) -> None:
    with ThreadPoolExecutor(4) as threads:
        times = sorted(send_at for send_at, _ in threads.map(lambda n: processes[n % 4].reserve(10, 0), range(20)))
    assert all(after - before == pytest.approx(10, abs=1e-3) for before, after in pairwise(times))


def test_a_pause_and_a_correction_hold_for_all(processes: list[RequestTimes]) -> None:
    first, second, *_ = processes
    send_at, now = first.reserve(0, 5)
    assert send_at == now
    second.move(0, 20)
    assert first.reserve(0, 0)[0] == pytest.approx(send_at + 25, abs=1e-3)
    second.pause(100)
    first.pause(1)  # a shorter one does not end it
    assert first.paused_until() == pytest.approx(now + 100, abs=60)
    send_at, now = first.reserve(0, 0)
    assert send_at == first.paused_until()


def test_a_time_of_a_wrong_clock_is_no_wait(processes: list[RequestTimes]) -> None:
    processes[0].move(1e9, 1e9)
    processes[0].pause(1e9)
    send_at, now = processes[1].reserve(1, 1)
    assert send_at == now
    assert processes[1].paused_until() == pytest.approx(now, abs=60)


def test_servers_and_accounts_have_times_of_their_own(processes: list[RequestTimes]) -> None:
    processes[0].reserve(100, 0)
    send_at, now = RequestTimes(processes[0].database, "another").reserve(1, 1)
    assert send_at == now


@pytest.mark.parametrize(("limit", "kind"), [(60, RequestTimes), (0, OwnTimes)])
def test_a_model_with_limits_shares_them(limit: int, kind: type, tmp_path: Path) -> None:
    chat = {"model": "small", "base_url": "http://localhost:9/v1", "requests_per_minute": limit}
    with Kumihimo.open(tmp_path, settings={"chat": chat}) as kumi:
        model = kumi.models.chat("answer")
        assert model
        assert model.server
        assert isinstance(model.server.limiter, RateLimiter)
        assert isinstance(model.server.limiter.times, kind)
