"""a model + the response cache -> LLM: no request is paid twice, and malformed replies are requested again."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import pytest
from grimp import build_graph

from kumihimo.core.errors import BudgetExceeded, ItemFailed, MalformedReply, UnparsableReply
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Account, Budget, CacheLedger, Caps
from kumihimo.llm.cached_llm import StructuredLLM, cached, connect_model, create_llm, request_key
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.prompts import require_text
from kumihimo.llm.protocols import ChatRequest, FailedTry, Prices, Reply
from kumihimo.llm.transport import connect_server
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.cache_files import path_of
from tests.counters import wait_until


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


@dataclass
class Scripted:
    """A model that gives these replies in order, and records its requests."""

    replies: list[Reply]
    requests: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)  # messages, schema, parameters
    fingerprint: str = "scripted"
    prices: Prices = field(default_factory=Prices)
    workers: int = 1
    server: None = None

    def determined_by(self, parameters: Any, *, structured: bool) -> dict[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(self, request: ChatRequest) -> Reply:
        self.requests.append((list(request.messages), request.schema, dict(request.parameters)))
        return self.replies.pop(0)


def test_a_call_goes_through_the_parts_that_the_documentation_names(cache: ResponseCache) -> None:
    """The page shows them in the order in which they call each other."""
    frames: list[str] = []

    def reply(_: str) -> str:
        frames.extend(frame.f_code.co_qualname for frame, *_ in inspect.stack())
        return "ok"

    chat = FakeChat(reply)
    chat.server = connect_server(vars(OpenAIChat()))  # type: ignore[assignment]
    create_llm(chat, cache)("sea")
    page = Path("docs/how-it-works.md").read_text(encoding="utf-8").partition("## The life of a model call")[2]
    documented = re.findall(r"^\d\. `(\w+)` \(`llm/", page, re.M)[:6]
    assert documented == ["StructuredLLM", "cached", "connect_model", "retrying", "rate_limited", "budgeted"]
    called = dict.fromkeys(frame.partition(".")[0] for frame in reversed(frames))
    assert [name for name in called if name in documented] == documented


def scripted(*raw: str) -> Scripted:
    return Scripted([Reply(text, usage=Usage(1, 10, 0, 1)) for text in raw])


def test_the_same_prompt_is_requested_once(cache: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    llm = create_llm(chat, cache)
    assert [llm("港 sea"), llm("港 sea"), llm([{"role": "user", "content": "港 sea"}])] == ["港 SEA"] * 3
    assert chat.prompt_counts == {"港 sea": 1}


def test_another_model_sample_parameter_or_message_is_another_request(cache: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    llm = create_llm(chat, cache)
    llm("sea")
    llm("sea", sample=1)
    llm("sea", temperature=0.5)
    llm([{"role": "system", "content": "be brief"}, {"role": "user", "content": "sea"}])
    assert chat.prompt_counts == {"sea": 4}
    other_chat = FakeChat(str.title, fingerprint="other")
    assert create_llm(other_chat, cache)("sea") == "Sea"
    assert create_llm(other_chat, cache).fingerprint == "other"


def test_the_scope_makes_no_difference(cache: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    assert [create_llm(chat, cache, Budget(), scope)("sea") for scope in ("gists", "answer")] == ["SEA", "SEA"]
    assert chat.prompt_counts == {"sea": 1}


def test_the_sample_is_no_parameter_of_the_model(cache: ResponseCache) -> None:
    chat = scripted("ok")
    assert create_llm(chat, cache)("sea", sample=2, temperature=0.5) == "ok"
    assert chat.requests == [([{"role": "user", "content": "sea"}], None, {"temperature": 0.5})]


def test_the_number_of_followups_makes_no_difference(cache: ResponseCache) -> None:
    chat = scripted("ok")
    llm = create_llm(chat, cache)
    assert [llm("sea"), llm("sea", followups=3), llm("sea", followups=1)] == ["ok"] * 3
    assert [parameters for _, _, parameters in chat.requests] == [{}]


def test_a_failure_is_not_cached(cache: ResponseCache) -> None:
    busy = [True]

    def answer(prompt: str) -> str:
        if busy and busy.pop():
            raise ItemFailed("too busy")
        return "fine"

    llm = create_llm(FakeChat(answer), cache)
    with pytest.raises(ItemFailed, match="too busy"):
        llm("sea")
    assert llm("sea") == "fine"


def test_several_samples_of_one_prompt(cache: ResponseCache) -> None:
    chat = scripted("a", "b", "c", "d")
    llm = create_llm(chat, cache)
    assert llm.samples("sea", 3, temperature=0.7) == ["a", "b", "c"]
    assert llm.samples("sea", 2, temperature=0.7) == ["a", "b"]
    assert llm("sea", sample=1, temperature=0.7) == "b"
    assert llm.samples("sea", 4, temperature=0.7) == ["a", "b", "c", "d"]
    assert llm.samples("sea", 0) == []


def test_equal_prompts_in_flight_are_paid_once(cache: ResponseCache) -> None:
    def answer(prompt: str) -> str:
        wait_until(lambda: cache.hits == 7)  # the others wait for this one
        return prompt

    chat, budget, replies = FakeChat(answer), Budget(), list[str]()
    threads = [Thread(target=lambda: replies.append(create_llm(chat, cache, budget, "s")("sea"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
    assert (replies, chat.prompt_counts) == (["sea"] * 8, {"sea": 1})
    assert (budget.total.calls, budget.saved["s"].calls) == (1, 7)


def test_cached_replies_are_saved_and_under_no_cap(cache: ResponseCache) -> None:
    budget = Budget(Caps(calls=1))
    llm = create_llm(FakeChat(str.upper), cache, budget, "gists")
    for _ in range(3):
        assert llm("the sea") == "THE SEA"
    paid = Usage(1, 2, 0, 2)
    assert (budget.spent, budget.saved) == ({"gists": paid}, {"gists": paid + paid})
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        llm("the sky")


# -- parsing

YES_NO: Any = Literal["yes", "no"]


@dataclass(frozen=True)
class Person:
    name: str
    age: int


def test_a_reply_into_a_dataclass(cache: ResponseCache) -> None:
    chat = scripted('{"name": "Ada", "age": 36}')
    llm = create_llm(chat, cache)
    conversation = [{"role": "system", "content": "Read."}, {"role": "user", "content": "Who?"}]
    assert llm(conversation, schema=Person) == llm(conversation, schema=Person) == Person("Ada", 36)
    ((messages, schema, _),) = chat.requests
    assert messages[0] == conversation[0]
    assert messages[1]["content"].startswith("Who?\n\nReply with one JSON object and nothing else.")
    assert schema["required"] == ["name", "age"]
    assert conversation[1] == {"role": "user", "content": "Who?"}


def test_a_reply_into_something_else_is_another_request(cache: ResponseCache) -> None:
    chat = scripted("yes", '[{"name": "Ada", "age": 36}]', "yes")
    llm = create_llm(chat, cache)
    assert llm("Who?", schema=YES_NO) == "yes"
    assert llm("Who?", schema=list[Person]) == [Person("Ada", 36)]
    assert llm("Who?") == "yes"


def test_a_reply_parsed_by_a_function_of_the_caller(cache: ResponseCache) -> None:
    llm = create_llm(scripted("<think>7</think>42"), cache)
    assert llm("How many?", parse=lambda reply: int(reply.text)) == 42
    assert llm("How many?", parse=lambda reply: reply.raw) == "<think>7</think>42"
    assert llm("How many?") == "42"


def test_a_malformed_reply_is_requested_again_with_the_complaint(cache: ResponseCache) -> None:
    chat, budget = scripted("Ada, 36.", '{"name": "Ada"}', '{"name": "Ada", "age": 36}'), Budget()
    llm = create_llm(chat, cache, budget, "s")
    assert llm("Who?", schema=Person) == Person("Ada", 36)
    first, second, third = (messages for messages, _, _ in chat.requests)
    assert second == [
        *first,
        {"role": "assistant", "content": "Ada, 36."},
        {"role": "user", "content": "The reply holds no JSON. Reply again, in full."},
    ]
    assert third[:-1] == [*first, {"role": "assistant", "content": '{"name": "Ada"}'}]
    assert "age: Field required" in third[-1]["content"]
    assert cache.size()[0] == budget.total.calls == 3
    assert llm("Who?", schema=Person) == Person("Ada", 36)  # all three replies are cached
    assert (len(chat.requests), budget.saved["s"].calls) == (3, 3)


def test_after_three_malformed_replies_the_item_fails_until_the_next_command(cache: ResponseCache) -> None:
    chat, budget = scripted(*["maybe"] * 5, "yes"), Budget()
    llm = create_llm(chat, cache, budget, "s")
    with pytest.raises(UnparsableReply) as failed:
        llm("So?", schema=YES_NO)
    assert (
        str(failed.value)
        == "scripted gave 3 replies that cannot be read; the last: The reply has to be one of yes, no."
    )
    assert (len(chat.requests), cache.size()[0]) == (3, 3)
    with pytest.raises(UnparsableReply, match="3 replies"):
        create_llm(chat, cache, budget, "another step")("So?", schema=YES_NO)
    assert (len(chat.requests), budget.saved["another step"].calls) == (3, 3)
    llm = create_llm(chat, cache, Budget(), "s")
    assert llm("So?", schema=YES_NO) == "yes"
    assert (len(chat.requests), cache.size()[0]) == (6, 6)
    assert llm("So?", schema=YES_NO) == "yes"
    assert len(chat.requests) == 6


def test_a_better_parser_needs_no_new_request(cache: ResponseCache) -> None:
    def strict(reply: Reply) -> str:
        raise MalformedReply("No.")

    chat = scripted("a", "b", "c")
    llm = create_llm(chat, cache)
    with pytest.raises(ItemFailed, match=r"the last: No\.$"):
        llm("So?", parse=strict)
    assert llm("So?") == "a"
    assert len(chat.requests) == 3


def test_a_truncated_reply_is_requested_again(cache: ResponseCache) -> None:
    chat = Scripted([Reply("The ferry", "length"), Reply("At ten.")])
    llm = create_llm(chat, cache)
    assert llm("When?") == "At ten."
    assert chat.requests[1][0][2]["content"].startswith("The reply was cut off before its end")
    assert llm("When?", parse=require_text) == "The ferry"


def test_an_empty_reply_is_requested_again(cache: ResponseCache) -> None:
    chat = scripted("<think>Hm", "At ten.")
    assert create_llm(chat, cache)("When?") == "At ten."
    assert chat.requests[1][0][1:] == [
        {"role": "assistant", "content": "(nothing)"},
        {"role": "user", "content": "The reply is empty. Reply again, in full."},
    ]


def test_a_cap_stops_further_attempts(cache: ResponseCache) -> None:
    with pytest.raises(BudgetExceeded):
        create_llm(scripted("maybe", "yes"), cache, Budget(Caps(calls=1)))("So?", schema=YES_NO)


def test_halves_of_surrogate_pairs_are_replaced_in_the_cache(cache: ResponseCache) -> None:
    llm = create_llm(scripted("港 \ud83d!"), cache)
    assert llm("\ud800") == llm("\ud800") == "港 \ufffd!"


def test_prompts_and_replies_are_logged_for_debugging(cache: ResponseCache, caplog: pytest.LogCaptureFixture) -> None:
    llm = create_llm(scripted("<think>Hm</think>At ten."), cache, scope="answer")
    with caplog.at_level(logging.DEBUG, "kumihimo.prompts"):
        llm("When?")
        llm("When?")
    entry = "--- answer, scripted, {}\nuser: When?\n\nreply: <think>Hm</think>At ten.\n"
    assert caplog.messages == [entry.format("asked"), entry.format("cached")]


# -- each wrapper alone


REQUEST = ChatRequest([{"role": "user", "content": "When?"}])


def test_the_wrapper_of_the_cache_asks_once_and_records_what_it_saves(cache: ResponseCache) -> None:
    chat, budget = scripted("<think>Hm</think>At ten."), Budget()
    send = cached(chat, chat, cache, budget, "answer")
    first, second = send(REQUEST), send(REQUEST)
    assert first == second == Reply("<think>Hm</think>At ten.", usage=Usage(1, 10, 0, 1))
    assert (first.is_cached, second.is_cached) == (False, True)
    assert (len(chat.requests), budget.saved, budget.spent) == (1, {"answer": first.usage}, {})


@pytest.mark.parametrize(
    "damage", [b"", b"[", b'["At ten.","stop",[10,0', b'["At ten.","stop"]', b'{"raw":1}', b"\xff\xfe", b"[" * 100_000]
)
def test_a_damaged_reply_is_asked_for_again(cache: ResponseCache, damage: bytes) -> None:
    key = request_key(scripted(), REQUEST)
    cache.put_many([(key, damage)])
    chat = scripted("At ten.")
    replies = [cached(chat, chat, cache, Budget())(REQUEST) for _ in range(3)]
    assert [(reply.raw, reply.is_cached) for reply in replies] == [("At ten.", n > 0) for n in range(3)]
    assert cache.get_many([key]) == {key: replies[0].to_bytes()}


def test_attempts_samples_and_generations_are_cached_apart(cache: ResponseCache) -> None:
    chat = scripted("a", "b", "c", "d")
    requests = [REQUEST, replace(REQUEST, attempt=1), replace(REQUEST, sample=1), replace(REQUEST, followups=3)]
    assert [cached(chat, chat, cache, Budget())(request).raw for request in requests] == ["a", "b", "c", "a"]
    assert cached(chat, chat, cache, Budget(), generation=1)(REQUEST).raw == "d"


def test_a_request_is_recorded_before_it_is_sent(cache: ResponseCache) -> None:
    """As it is estimated; so it counts, even if the process is killed."""
    other = ResponseCache(path_of(cache))
    while_sent: list[int] = []

    def answer(prompt: str) -> str:
        while_sent.append(sum(entry.usage.calls for entry in other.usage()))
        if prompt == "storm":
            raise ItemFailed("refused")
        return "yes"

    llm = create_llm(FakeChat(answer), cache, Budget(ledger=CacheLedger(lambda: cache)), "answer")
    assert llm("sea") == "yes"
    with pytest.raises(ItemFailed):
        llm("storm")
    assert while_sent == [1, 2]
    (entry,) = cache.usage()
    assert (entry.kind, entry.scope, entry.usage.calls, entry.bytes) == ("spent", "answer", 1, 3)
    other.close()


def test_an_llm_needs_no_cache() -> None:
    chat = scripted("maybe", "yes")
    llm = StructuredLLM(chat, "scripted", 1)
    assert llm("So?", schema=YES_NO, sample=2, temperature=0.5) == "yes"
    assert [schema["properties"] for _, schema, _ in chat.requests] == [
        {"answer": {"enum": ["yes", "no"], "type": "string"}}
    ] * 2


def test_an_innermost_function_takes_the_place_of_the_model(cache: ResponseCache) -> None:
    requests: list[ChatRequest] = []

    def refuse(request: ChatRequest) -> Reply:
        requests.append(request)
        raise ItemFailed("not asked")

    chat, budget = FakeChat(str.upper), Budget(Caps(calls=1))
    create_llm(chat, cache, budget)("sea")
    llm = create_llm(chat, cache, budget, innermost=refuse)
    assert (llm("sea"), llm.fingerprint, llm.workers) == ("SEA", "fake", 4)
    with pytest.raises(ItemFailed, match="not asked"):
        llm("sky", followups=2)
    assert [(request.messages[0]["content"], request.followups) for request in requests] == [("sky", 2)]


def test_each_paid_try_is_charged_and_a_pause_reserves_nothing(cache: ResponseCache) -> None:
    server = connect_server(vars(OpenAIChat(retries=1)))
    budget, in_flight = Budget(Caps(tokens=1000)), list[int]()
    server.limiter.wait = lambda *_: in_flight.append(len(budget._in_flight))  # type: ignore[method-assign]
    server.limiter.stopped.wait = lambda timeout=None: bool(in_flight.append(len(budget._in_flight)))  # type: ignore
    failures = [FailedTry("broke off", paid=True)]

    def send(request: ChatRequest) -> Reply:
        if failures:
            raise failures.pop()
        return Reply("At ten.", usage=Usage(1, 10, 0, 2))

    assert connect_model(send, server, budget, Account("s", "m", Prices()))(REQUEST).raw == "At ten."
    assert (budget.total.calls, budget.total.completion_tokens, in_flight) == (2, 2, [0, 0, 0])


def test_steps_and_methods_reach_no_transport() -> None:
    graph = build_graph("kumihimo", include_external_packages=True, exclude_type_checking_imports=True)
    for module in ("index", "methods", "search", "generation"):
        reached = graph.find_upstream_modules(f"kumihimo.{module}", as_package=True)
        forbidden = {f"kumihimo.llm.{name}" for name in ("transport", "openai", "cached_llm", "budget")}
        assert "kumihimo.llm.protocols" in reached
        assert not reached & {*forbidden, "openai", "httpx2"}
