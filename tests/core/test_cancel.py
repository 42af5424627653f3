"""A token stops a command once, wakes its waits, and runs its callbacks."""

from threading import Thread

import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import Cancelled


def test_a_cancelled_token_raises_with_its_reason() -> None:
    token = CancelToken()
    token.check()
    token.cancel("the client has left")
    with pytest.raises(Cancelled, match="the client has left"):
        token.check()


def test_a_wait_ends_at_once_when_another_thread_cancels() -> None:
    token = CancelToken()
    thread = Thread(target=token.cancel)
    thread.start()
    assert token.wait(60)
    thread.join()


def test_a_deadline_cancels_and_names_the_remedy() -> None:
    token = CancelToken(0)
    assert token.wait(60)
    with pytest.raises(Cancelled, match="raise the time limit"):
        token.check()


def test_callbacks_run_once_and_can_be_taken_back() -> None:
    token, calls = CancelToken(), list[str]()
    token.on_cancel(lambda: calls.append("kept"))
    token.on_cancel(lambda: calls.append("taken back"))()
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: calls.append("late"))
    assert calls == ["kept", "late"]
