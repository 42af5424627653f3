"""model servers -> Ask and embedders that remember, and a pool of threads that keeps the order of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Barrier, Event, Lock
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kumihimo.core.errors import ItemFailed
from kumihimo.core.task import Job, Made
from kumihimo.ports.fake import FakeChat, FakeEmbedder
from kumihimo.ports.memo import Memo
from kumihimo.ports.models import Asking, Remembered, threads


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[Memo]:
    memo = Memo(tmp_path / "memo.db")
    yield memo
    memo.close()


def test_the_same_prompt_is_asked_once(memo: Memo) -> None:
    chat = FakeChat(str.upper)
    ask = Asking(chat, memo)
    assert [ask("港 sea"), ask("港 sea"), ask([{"role": "user", "content": "港 sea"}])] == ["港 SEA"] * 3
    assert chat.asked == {"港 sea": 1}


def test_another_model_attempt_parameter_or_message_is_another_question(memo: Memo) -> None:
    chat = FakeChat(str.upper)
    ask = Asking(chat, memo)
    ask("sea")
    ask("sea", attempt=1)
    ask("sea", temperature=0.5)
    ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "sea"}])
    assert chat.asked == {"sea": 4}
    other = FakeChat(str.title, mark="other")
    assert Asking(other, memo)("sea") == "Sea"
    assert Asking(other, memo).mark == "other"


def test_the_attempt_is_no_parameter_of_the_model(memo: Memo) -> None:
    given: list[dict[str, Any]] = []

    class Listening:
        mark = "listening"

        def __call__(self, messages: Any, **parameters: Any) -> str:
            given.append(parameters)
            return "ok"

    Asking(Listening(), memo)("sea", attempt=2, temperature=0.5)
    assert given == [{"temperature": 0.5}]


def test_a_failure_is_not_remembered(memo: Memo) -> None:
    busy = [True]

    def answer(prompt: str) -> str:
        if busy and busy.pop():
            raise ItemFailed("too busy")
        return "fine"

    ask = Asking(FakeChat(answer), memo)
    with pytest.raises(ItemFailed, match="too busy"):
        ask("sea")
    assert ask("sea") == "fine"


class Counting:
    """An embedder that writes down what it is given."""

    def __init__(self, mark: str = "counting") -> None:
        self.mark = mark
        self.given: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.given.append(list(texts))
        return FakeEmbedder()(texts)


def test_a_text_is_embedded_once(memo: Memo) -> None:
    counting = Counting()
    embed = Remembered(counting, memo)
    expected = FakeEmbedder()(["sea", "sky", "sea"])
    assert np.array_equal(embed(["sea", "sky", "sea"]), expected)
    assert np.array_equal(embed(["sky", "sun"]), FakeEmbedder()(["sky", "sun"]))
    assert counting.given == [["sea", "sky"], ["sun"]]
    assert embed(["sea"]).dtype == np.float32
    assert embed.mark == "counting"


def test_another_embedder_embeds_again(memo: Memo) -> None:
    one, two = Counting("one"), Counting("two")
    Remembered(one, memo)(["sea"])
    Remembered(two, memo)(["sea"])
    assert one.given == two.given == [["sea"]]


def test_vectors_that_are_remembered_can_be_written_to(memo: Memo) -> None:
    embed = Remembered(Counting(), memo)
    embed(["sea"])
    vectors = embed(["sea"])
    vectors *= 2
    assert np.array_equal(embed(["sea"]) * 2, vectors)


def test_no_texts_have_no_vectors(memo: Memo) -> None:

    assert len(Remembered(Counting(), memo)([])) == 0


# -- the pool


def made(key: str) -> list[Made]:
    return [Made(key, [], b"", None)]


def jobs(n: int) -> Iterator[Job]:
    for i in range(n):
        yield [(f"{i:03d}", [])]


def test_results_come_in_the_order_of_the_jobs() -> None:
    later = Event()

    def call(job: Job) -> list[Made]:
        key = job[0][0]
        if key == "000":
            assert later.wait(10)
        if key == "005":
            later.set()
        return made(key)

    assert [m.key for ms in threads(2)(call, jobs(20)) for m in ms] == [f"{i:03d}" for i in range(20)]


def test_as_many_run_at_once_as_there_are_workers() -> None:
    meeting = Barrier(4, timeout=10)  # breaks where fewer than four come

    def call(job: Job) -> list[Made]:
        meeting.wait()
        return made(job[0][0])

    assert len(list(threads(4)(call, jobs(8)))) == 8


def test_at_most_four_jobs_a_worker_are_held() -> None:
    drawn: list[int] = []

    def counted() -> Iterator[Job]:
        for i, job in enumerate(jobs(100)):
            drawn.append(i)
            yield job

    results = threads(2)(lambda job: made(job[0][0]), counted())
    next(results)
    assert len(drawn) == 8
    assert len(list(results)) == 99


def test_the_first_failure_ends_it_and_what_waits_is_not_begun() -> None:
    begun: list[str] = []
    lock, held = Lock(), Event()

    def call(job: Job) -> list[Made]:
        with lock:
            begun.append(job[0][0])
        if job[0][0] == "000":
            raise ItemFailed("no answer")
        held.wait(0.2)
        return made(job[0][0])

    with pytest.raises(ItemFailed, match="no answer"):
        list(threads(1)(call, jobs(100)))
    assert len(begun) <= 3


def test_nothing_to_do() -> None:
    assert list(threads(3)(lambda job: made("a"), iter([]))) == []
