"""requests without an answer -> a warning after a while, then one each minute, for all of a server together."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Thread, active_count

import pytest

from kumihimo.llm import wait_notes
from kumihimo.llm.wait_notes import WaitNotes
from tests.fake_clock import FakeClock, clock as clock

URL = "http://127.0.0.1:1/v1"


@pytest.fixture
def notes(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> WaitNotes:
    """Return notes without a thread: the tests call what it runs."""
    monkeypatch.setattr(Thread, "start", lambda _: None)
    monkeypatch.setattr(wait_notes, "sleep", clock.wait)
    return WaitNotes()


def stay_silent(notes: WaitNotes, clock: FakeClock, waits: int, *starts: float) -> None:
    """Watch requests that are all answered during this wait."""
    requests = ExitStack()
    for clock.now in starts:
        requests.enter_context(notes.watch(URL))
    clock.waits = []
    clock.on_wait = lambda: requests.close() if len(clock.waits) == waits else None
    notes._note_silence(URL)


def test_silence_is_said_after_ten_seconds_and_then_each_minute(
    notes: WaitNotes, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    stay_silent(notes, clock, 3, 0.0)
    assert clock.waits == [10, 60, 60]
    assert caplog.messages == [f"waiting for {URL}: no answer for {seconds} s" for seconds in (10, 70)]


def test_an_answer_within_ten_seconds_says_nothing(
    notes: WaitNotes, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    stay_silent(notes, clock, 1, 0.0)
    assert caplog.messages == []


def test_many_silent_requests_are_said_once(
    notes: WaitNotes, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    stay_silent(notes, clock, 2, 0.0, 1.0, 2.0, 9.0)
    stay_silent(notes, clock, 1, 30.0, 31.0)
    assert caplog.messages == [f"waiting for {URL}: no answer for 10 s"]


def test_a_forked_process_does_not_wait_for_requests_of_its_parent(
    notes: WaitNotes, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with notes.watch(URL):
        monkeypatch.setattr(wait_notes, "getpid", lambda: -1)
        stay_silent(notes, clock, 1, 30.0)
    assert clock.waits == [10]
    assert caplog.messages == []


def test_a_request_that_begins_later_has_its_own_ten_seconds(
    notes: WaitNotes, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    with notes.watch(URL):
        clock.now = 4.0
        later = notes.watch(URL)
        later.__enter__()
    clock.on_wait = lambda: later.__exit__(None, None, None) if len(clock.waits) == 2 else None
    notes._note_silence(URL)
    assert clock.waits == [10, 60]
    assert caplog.messages == [f"waiting for {URL}: no answer for 10 s"]


def test_many_requests_share_one_thread() -> None:
    threads, notes = active_count(), WaitNotes()
    for _ in range(20):
        with notes.watch(URL):
            assert active_count() <= threads + 1
    with pytest.raises(ValueError, match="broken"), notes.watch(URL):
        raise ValueError("broken")
    assert not notes._silent
