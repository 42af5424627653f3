"""requests without an answer -> a warning after a while, then one each minute, for all of a server together."""

from __future__ import annotations

from threading import Event, active_count
from typing import cast

import pytest

from kumihimo.llm.wait_notes import WaitNotes
from tests.counters import wait_until
from tests.fake_clock import FakeClock, clock as clock

URL = "http://127.0.0.1:1/v1"


def stay_silent(notes: WaitNotes, clock: FakeClock, waits: int) -> None:
    """Watch a request that is answered during this wait."""
    clock.stopped, clock.waits = False, []
    clock.on_wait = lambda: clock.set() if len(clock.waits) == waits else None
    notes._note_silence(URL, cast(Event, clock), clock.now)


def test_silence_is_said_after_ten_seconds_and_then_each_minute(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    stay_silent(WaitNotes(), clock, 3)
    assert clock.waits == [10, 60, 60]
    assert caplog.messages == [f"waiting for {URL}: no answer for {seconds} s" for seconds in (10, 70)]


def test_an_answer_within_ten_seconds_says_nothing(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    stay_silent(WaitNotes(), clock, 1)
    assert caplog.messages == []


def test_many_silent_requests_are_said_once(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    notes = WaitNotes()
    for clock.now in (0.0, 1.0, 2.0, 30.0):
        stay_silent(notes, clock, 2)
    assert caplog.messages == [f"waiting for {URL}: no answer for 10 s"]


def test_a_watch_ends_with_its_request() -> None:
    threads = active_count()
    with pytest.raises(ValueError, match="broken"), WaitNotes().watch(URL):
        raise ValueError("broken")
    wait_until(lambda: active_count() <= threads)
