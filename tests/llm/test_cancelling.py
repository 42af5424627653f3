"""a caller who cancels is free at once; what is in flight is charged and cached, and nothing more is requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import BudgetExceeded, Cancelled
from kumihimo.core.usage import Usage
from kumihimo.llm import openai
from kumihimo.llm.budget import Account, Budget, CacheLedger, Caps
from kumihimo.llm.cached_llm import CachedEmbedder, connect_model, create_llm
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply, TextsReply, TextsRequest
from kumihimo.llm.rate_limit import OwnTimes
from kumihimo.llm.rerank import cached_scorer
from kumihimo.llm.response_body import split_lines
from kumihimo.llm.transport import ModelServer, connect_server
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.cache_files import cache_file
from tests.counters import wait_until
from tests.raw_server import completion, run_raw_server


@dataclass
class Gate:
    """A model that answers only once it is allowed to."""

    begun: Event = field(default_factory=Event)
    allowed: Event = field(default_factory=Event)

    def wait(self) -> None:
        self.begun.set()
        assert self.allowed.wait(60)

    def answer(self, prompt: str) -> str:
        self.wait()
        return prompt.upper()


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def cancelled(running: Future[Any], token: CancelToken) -> None:
    """Cancel a call that is under way."""
    assert not running.done()
    token.cancel("the client has left")
    with pytest.raises(Cancelled, match="the client has left"):
        running.result(60)


def test_a_caller_is_free_while_the_model_is_busy_and_the_reply_is_kept(
    cache: ResponseCache, pool: ThreadPoolExecutor
) -> None:
    gate, token = Gate(), CancelToken()
    chat, budget = FakeChat(gate.answer), Budget(cancel=token)
    running = pool.submit(create_llm(chat, cache, budget, "answer"), "sea")
    assert gate.begun.wait(60)
    cancelled(running, token)
    assert budget.total == Usage()
    gate.allowed.set()
    wait_until(lambda: cache.size()[0] == 1)
    assert budget.total.calls == 1
    assert create_llm(chat, cache, Budget())("sea") == "SEA"
    assert chat.prompt_counts == {"sea": 1}


def test_a_reply_that_arrives_after_the_end_is_kept_too(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    gate, token, path = Gate(), CancelToken(), tmp_path / "cache.db"
    cache, late = ResponseCache(path), ResponseCache(path)
    budget = Budget(ledger=CacheLedger(lambda: cache), cancel=token)
    running = pool.submit(create_llm(FakeChat(gate.answer), cache, budget, "answer"), "sea")
    assert gate.begun.wait(60)
    cancelled(running, token)
    cache.close()
    gate.allowed.set()
    wait_until(lambda: late.size()[0] == 1)
    assert [(entry.scope, entry.usage.calls) for entry in late.usage()] == [("answer", 1)]
    wait_until(lambda: cache_file(cache)._writer is None)
    late.close()


def test_nothing_is_requested_once_the_caller_has_left(cache: ResponseCache) -> None:
    chat, token = FakeChat(str.upper), CancelToken()
    llm = create_llm(chat, cache, Budget(cancel=token))
    assert llm("sea") == "SEA"
    token.cancel()
    for prompt in ("sea", "sky"):
        with pytest.raises(Cancelled):
            llm(prompt)
    with pytest.raises(Cancelled):
        llm.samples("sky", 5)
    assert chat.prompt_counts == {"sea": 1}


def test_a_deadline_frees_the_caller(cache: ResponseCache) -> None:
    gate = Gate()
    llm = create_llm(FakeChat(gate.answer), cache, Budget(cancel=CancelToken(0.01)))
    with pytest.raises(Cancelled, match="raise the time limit"):
        llm("sea")
    gate.allowed.set()


def test_without_a_token_there_is_no_other_thread(cache: ResponseCache) -> None:
    threads: list[int] = []

    def answer(prompt: str) -> str:
        threads.append(threading.get_ident())
        return prompt

    create_llm(FakeChat(answer), cache, Budget())("sea")
    create_llm(FakeChat(answer), cache, Budget(cancel=CancelToken()))("sky")
    assert threads[0] == threading.get_ident() != threads[1]


def test_an_error_reaches_the_caller_through_the_thread(cache: ResponseCache) -> None:
    def answer(prompt: str) -> str:
        raise ZeroDivisionError(prompt)

    with pytest.raises(ZeroDivisionError, match="sea"):
        create_llm(FakeChat(answer), cache, Budget(cancel=CancelToken()))("sea")


# -- waits


def hold_slot(server: ModelServer, budget: Budget) -> None:
    for _ in range(server.workers):
        assert server.limiter.slots.acquire(blocking=False)


def hold_rate(server: ModelServer, budget: Budget) -> None:
    server.limiter.pause(3600)


def hold_budget(server: ModelServer, budget: Budget) -> None:
    """Let another request use up what is left for now."""
    reservation = budget.reserve(Account("s", "m", Prices()), 10)
    reservation.__enter__()
    budget.reservation = reservation  # type: ignore[attr-defined]


@pytest.mark.parametrize("hold", [hold_slot, hold_rate, hold_budget])
@pytest.mark.parametrize("of_parent", [False, True])
def test_a_wait_ends_at_once_and_nothing_is_requested(
    hold: Callable[[ModelServer, Budget], None], of_parent: bool, pool: ThreadPoolExecutor
) -> None:
    server, token, requests = connect_server(vars(OpenAIChat(workers=2))), CancelToken(), list[ChatRequest]()
    parent = Budget(Caps(calls=1))
    budget = Budget(parent=parent, cancel=token) if of_parent else Budget(Caps(calls=1), cancel=token)
    hold(server, parent if of_parent else budget)

    def send(request: ChatRequest) -> Reply:
        requests.append(request)
        return Reply("")

    request = ChatRequest([{"role": "user", "content": "When?"}])
    running = pool.submit(connect_model(send, server, budget, Account("s", "m", Prices())), request)
    cancelled(running, token)
    assert requests == []
    assert budget._in_flight == ([] if hold is not hold_budget or of_parent else budget._in_flight[:1])


def test_a_retry_ends_at_once_and_is_no_failure_of_the_server(pool: ThreadPoolExecutor) -> None:
    server, token, failing = connect_server(vars(OpenAIChat(patience=1e9))), CancelToken(), Event()

    def send(request: ChatRequest) -> Reply:
        failing.set()
        raise FailedTry("busy", wait=3600.0, rate_limited=True)

    budget = Budget(cancel=token)
    request = ChatRequest([{"role": "user", "content": "When?"}])
    running = pool.submit(connect_model(send, server, budget, Account("s", "m", Prices())), request)
    assert failing.wait(60)
    cancelled(running, token)
    assert server.failures == 0


def test_a_request_that_leaves_the_queue_gives_its_time_back() -> None:
    limiter = connect_server(vars(OpenAIChat(requests_per_minute=1, tokens_per_minute=1))).limiter
    times = limiter.times
    assert isinstance(times, OwnTimes)
    limiter.wait(0)
    before = times.times[0]
    token = CancelToken()
    token.cancel()
    with pytest.raises(Cancelled):
        limiter.wait(10, token)
    assert times.times[:2] == pytest.approx([before, before])


# -- two callers, one request


@pytest.mark.parametrize("error", [Cancelled, BudgetExceeded])
def test_a_second_caller_asks_itself_where_the_first_gave_up(
    error: type[Exception], cache: ResponseCache, pool: ThreadPoolExecutor
) -> None:
    begun, allowed, asked = Event(), Event(), list[str]()

    def give_up() -> bytes:
        begun.set()
        assert allowed.wait(60)
        raise error("no more")

    def fetch() -> bytes:
        asked.append("second")
        return b"reply"

    first = pool.submit(cache.get_or_fetch, b"key", give_up)
    assert begun.wait(60)
    second = pool.submit(cache.get_or_fetch, b"key", fetch)
    wait_until(lambda: cache.hits == 1)  # it has joined the first one
    allowed.set()
    with pytest.raises(error):
        first.result(60)
    assert (second.result(60), asked) == (b"reply", ["second"])


# -- other models


def test_an_embedder_and_a_reranker_free_their_caller(cache: ResponseCache, pool: ThreadPoolExecutor) -> None:
    for n, create in enumerate((create_embedder, create_scorer)):
        gate, token = Gate(), CancelToken()
        running = pool.submit(create(gate, cache, token))
        assert gate.begun.wait(60)
        cancelled(running, token)
        gate.allowed.set()
        wait_until(partial(has_replies, cache, (2, 3)[n]))  # the vector and its size; the scores


def has_replies(cache: ResponseCache, count: int) -> bool:
    return cache.size()[0] == count


def create_embedder(gate: Gate, cache: ResponseCache, token: CancelToken) -> Callable[[], object]:
    def send(_: TextsRequest) -> TextsReply:
        gate.wait()
        return TextsReply(np.ones((1, 1), dtype=np.float32), Usage())

    embed = CachedEmbedder(send, "m", 1, 1, cache, cancel=token)
    return lambda: embed(["sea"])


def create_scorer(gate: Gate, cache: ResponseCache, token: CancelToken) -> Callable[[], object]:
    def send(_: TextsRequest) -> TextsReply:
        gate.wait()
        return TextsReply([0.5], Usage())

    score = cached_scorer(send, "m", cache, token)
    return lambda: score("Which?", ["sea"])


# -- a streamed reply


def event(text: str) -> bytes:
    data = b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % text.encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


@pytest.mark.parametrize("listens", [True, False])
def test_a_request_is_closed_at_once_and_what_arrived_is_charged(
    listens: bool, cache: ResponseCache, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    allowed, read, tokens, token = Event(), Event(), list[str](), CancelToken()

    def pieces() -> Iterator[bytes]:
        """Send a few words, then more and more until the client has left."""
        yield head
        yield event("The ferry leaves ")
        assert allowed.wait(60)
        while True:
            yield event("")

    def split_and_note(received: Iterable[bytes]) -> Iterator[str]:
        for line in split_lines(received):
            yield line
            read.set()

    monkeypatch.setattr(openai, "split_lines", split_and_note)
    with run_raw_server() as server:
        server.response = pieces()
        chat = OpenAIChat(model="m", base_url=server.url)
        budget = Budget(cancel=token)
        on_token = tokens.append if listens else None
        running = pool.submit(create_llm(chat, cache, budget, "answer"), "When?", on_token=on_token)
        assert read.wait(60)
        cancelled(running, token)
        wait_until(lambda: budget.total.calls == 1)  # before the server sends another byte
        server.response = [completion("At ten.")]
        allowed.set()
        assert create_llm(chat, cache)("And then?") == "At ten."  # the server has one thread, which is free again
    assert "".join(tokens) == ("The ferry leaves " if listens else "")
    assert budget.total.completion_tokens == len("The ferry leaves ") // 4
    assert cache.size()[0] == 1
    assert (chat.server.failures, chat.server.failing_since) == (0, None)


def test_a_caller_who_leaves_just_before_the_request_pays_nothing() -> None:
    server, token, requests = connect_server(vars(OpenAIChat())), CancelToken(), list[ChatRequest]()
    server.limiter.wait = lambda *_: token.cancel()  # type: ignore[method-assign]
    budget, request = Budget(cancel=token), ChatRequest([{"role": "user", "content": "When?"}])

    def send(request: ChatRequest) -> Reply:
        requests.append(request)
        return Reply("")

    with pytest.raises(Cancelled):
        connect_model(send, server, budget, Account("s", "m", Prices()))(request)
    assert (requests, budget._in_flight, budget.total) == ([], [], Usage())
