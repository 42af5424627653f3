"""A model + the memo -> Ask: nothing is paid twice, and what cannot be read is asked again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any, Literal

import pytest

from kumihimo.core.errors import BudgetExceeded, ItemFailed, MalformedReply, UnparsableReply
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.llm.protocols import Prices
from kumihimo.llm.structured import Reply, require_text
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


@dataclass
class Scripted:
    """A model that says these replies, one after the other, and writes down what it was given."""

    replies: list[Reply]
    given: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)  # messages, schema, parameters
    fingerprint: str = "scripted"
    prices: Prices = field(default_factory=Prices)
    workers: int = 1

    def determined_by(self, parameters: Any, *, structured: bool) -> dict[str, Any]:
        return {"model": self.fingerprint, **parameters}

    def __call__(
        self, messages: Any, *, reserve: Any, schema: Any = None, on_token: Any = None, **parameters: Any
    ) -> Reply:
        self.given.append((list(messages), schema, parameters))
        reply = self.replies.pop(0)
        with reserve(1) as bill:
            bill(reply.usage)
        return reply


def scripted(*raw: str) -> Scripted:
    return Scripted([Reply(text, usage=Usage(1, 10, 0, 1)) for text in raw])


def test_the_same_prompt_is_asked_once(memo: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    ask = CachedLLM(chat, memo)
    assert [ask("港 sea"), ask("港 sea"), ask([{"role": "user", "content": "港 sea"}])] == ["港 SEA"] * 3
    assert chat.prompt_counts == {"港 sea": 1}


def test_another_model_sample_parameter_or_message_is_another_question(memo: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    ask = CachedLLM(chat, memo)
    ask("sea")
    ask("sea", sample=1)
    ask("sea", temperature=0.5)
    ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "sea"}])
    assert chat.prompt_counts == {"sea": 4}
    other = FakeChat(str.title, fingerprint="other")
    assert CachedLLM(other, memo)("sea") == "Sea"
    assert CachedLLM(other, memo).fingerprint == "other"


def test_who_asks_makes_no_difference(memo: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    assert [CachedLLM(chat, memo, Budget(), scope)("sea") for scope in ("gists", "answer")] == ["SEA", "SEA"]
    assert chat.prompt_counts == {"sea": 1}


def test_the_sample_is_no_parameter_of_the_model(memo: ResponseCache) -> None:
    chat = scripted("ok")
    assert CachedLLM(chat, memo)("sea", sample=2, temperature=0.5) == "ok"
    assert chat.given == [([{"role": "user", "content": "sea"}], None, {"temperature": 0.5})]


def test_how_many_turns_may_follow_makes_no_difference(memo: ResponseCache) -> None:
    chat = scripted("ok")
    ask = CachedLLM(chat, memo)
    assert [ask("sea"), ask("sea", followups=3), ask("sea", followups=1)] == ["ok"] * 3
    assert [parameters for _, _, parameters in chat.given] == [{}]


def test_a_failure_is_not_remembered(memo: ResponseCache) -> None:
    busy = [True]

    def answer(prompt: str) -> str:
        if busy and busy.pop():
            raise ItemFailed("too busy")
        return "fine"

    ask = CachedLLM(FakeChat(answer), memo)
    with pytest.raises(ItemFailed, match="too busy"):
        ask("sea")
    assert ask("sea") == "fine"


def test_several_samples_of_one_prompt(memo: ResponseCache) -> None:
    chat = scripted("a", "b", "c", "d")
    ask = CachedLLM(chat, memo)
    assert ask.samples("sea", 3, temperature=0.7) == ["a", "b", "c"]
    assert ask.samples("sea", 2, temperature=0.7) == ["a", "b"]
    assert ask("sea", sample=1, temperature=0.7) == "b"
    assert ask.samples("sea", 4, temperature=0.7) == ["a", "b", "c", "d"]
    assert ask.samples("sea", 0) == []


def test_equal_prompts_in_flight_are_paid_once(memo: ResponseCache) -> None:
    def slow(prompt: str) -> str:
        time.sleep(0.05)
        return prompt

    chat, purse, said = FakeChat(slow), Budget(), list[str]()
    threads = [Thread(target=lambda: said.append(CachedLLM(chat, memo, purse, "s")("sea"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (said, chat.prompt_counts) == (["sea"] * 8, {"sea": 1})
    assert (purse.total.calls, purse.saved["s"].calls) == (1, 7)


def test_what_the_memo_knows_is_saved_and_under_no_cap(memo: ResponseCache) -> None:
    purse = Budget(Caps(calls=1))
    ask = CachedLLM(FakeChat(str.upper), memo, purse, "gists")
    for _ in range(3):
        assert ask("the sea") == "THE SEA"
    paid = Usage(1, 2, 0, 2)
    assert (purse.spent, purse.saved) == ({"gists": paid}, {"gists": paid + paid})
    with pytest.raises(BudgetExceeded, match="--max-calls 1 was reached"):
        ask("the sky")


# -- reading

YES_NO: Any = Literal["yes", "no"]


@dataclass(frozen=True)
class Person:
    name: str
    age: int


def test_a_reply_into_a_dataclass(memo: ResponseCache) -> None:
    chat = scripted('{"name": "Ada", "age": 36}')
    ask = CachedLLM(chat, memo)
    conversation = [{"role": "system", "content": "Read."}, {"role": "user", "content": "Who?"}]
    assert ask(conversation, schema=Person) == ask(conversation, schema=Person) == Person("Ada", 36)
    ((messages, schema, _),) = chat.given
    assert messages[0] == conversation[0]
    assert messages[1]["content"].startswith("Who?\n\nReply with one JSON object and nothing else.")
    assert schema["required"] == ["name", "age"]
    assert conversation[1] == {"role": "user", "content": "Who?"}


def test_a_reply_into_something_else_is_another_question(memo: ResponseCache) -> None:
    chat = scripted("yes", '[{"name": "Ada", "age": 36}]', "yes")
    ask = CachedLLM(chat, memo)
    assert ask("Who?", schema=YES_NO) == "yes"
    assert ask("Who?", schema=list[Person]) == [Person("Ada", 36)]
    assert ask("Who?") == "yes"


def test_a_reply_read_by_whoever_asked(memo: ResponseCache) -> None:
    ask = CachedLLM(scripted("<think>7</think>42"), memo)
    assert ask("How many?", parse=lambda reply: int(reply.text)) == 42
    assert ask("How many?", parse=lambda reply: reply.raw) == "<think>7</think>42"
    assert ask("How many?") == "42"


def test_what_cannot_be_read_is_asked_again_with_what_was_wrong(memo: ResponseCache) -> None:
    chat, purse = scripted("Ada, 36.", '{"name": "Ada"}', '{"name": "Ada", "age": 36}'), Budget()
    ask = CachedLLM(chat, memo, purse, "s")
    assert ask("Who?", schema=Person) == Person("Ada", 36)
    first, second, third = (messages for messages, _, _ in chat.given)
    assert second == [
        *first,
        {"role": "assistant", "content": "Ada, 36."},
        {"role": "user", "content": "The reply holds no JSON. Reply again, in full."},
    ]
    assert third[:-1] == [*first, {"role": "assistant", "content": '{"name": "Ada"}'}]
    assert "age: Field required" in third[-1]["content"]
    assert memo.size()[0] == purse.total.calls == 3
    assert ask("Who?", schema=Person) == Person("Ada", 36)  # all three replies are remembered
    assert (len(chat.given), purse.saved["s"].calls) == (3, 3)


def test_after_three_the_item_has_failed_until_it_is_asked_for_again(memo: ResponseCache) -> None:
    chat, purse = scripted(*["maybe"] * 5, "yes"), Budget()
    ask = CachedLLM(chat, memo, purse, "s")
    with pytest.raises(UnparsableReply) as failed:
        ask("So?", schema=YES_NO)
    assert (
        str(failed.value)
        == "scripted gave 3 replies that cannot be read; of the last: The reply has to be one of yes, no."
    )
    assert (len(chat.given), memo.size()[0]) == (3, 3)
    assert ask("So?", schema=YES_NO) == "yes"
    assert (len(chat.given), memo.size()[0], purse.saved["s"].calls) == (6, 6, 3)
    assert ask("So?", schema=YES_NO) == "yes"
    assert len(chat.given) == 6


def test_a_better_reader_needs_no_new_call(memo: ResponseCache) -> None:
    def strict(reply: Reply) -> str:
        raise MalformedReply("No.")

    chat = scripted("a", "b", "c")
    ask = CachedLLM(chat, memo)
    with pytest.raises(ItemFailed, match=r"of the last: No\.$"):
        ask("So?", parse=strict)
    assert ask("So?") == "a"
    assert len(chat.given) == 3


def test_a_reply_that_breaks_off_is_asked_for_again(memo: ResponseCache) -> None:
    chat = Scripted([Reply("The ferry", "length"), Reply("At ten.")])
    ask = CachedLLM(chat, memo)
    assert ask("When?") == "At ten."
    assert chat.given[1][0][2]["content"].startswith("The reply was cut off before its end")
    assert ask("When?", parse=require_text) == "The ferry"


def test_an_empty_reply_is_asked_again(memo: ResponseCache) -> None:
    chat = scripted("<think>Hm", "At ten.")
    assert CachedLLM(chat, memo)("When?") == "At ten."
    assert chat.given[1][0][1:] == [
        {"role": "assistant", "content": "(nothing)"},
        {"role": "user", "content": "The reply is empty. Reply again, in full."},
    ]


def test_a_cap_stops_what_would_be_asked_again(memo: ResponseCache) -> None:
    with pytest.raises(BudgetExceeded):
        CachedLLM(scripted("maybe", "yes"), memo, Budget(Caps(calls=1)))("So?", schema=YES_NO)


def test_halves_of_characters_are_remembered_as_what_can_be(memo: ResponseCache) -> None:
    ask = CachedLLM(scripted("港 \ud83d!"), memo)
    assert ask("\ud800") == ask("\ud800") == "港 \ufffd!"


def test_prompts_and_replies_are_shown_to_whoever_wants_to_see(
    memo: ResponseCache, caplog: pytest.LogCaptureFixture
) -> None:
    ask = CachedLLM(scripted("<think>Hm</think>At ten."), memo, scope="answer")
    with caplog.at_level(logging.DEBUG, "kumihimo.prompts"):
        ask("When?")
        ask("When?")
    shown = "--- answer, scripted, {}\nuser: When?\n\nreply: <think>Hm</think>At ten.\n"
    assert caplog.messages == [shown.format("asked"), shown.format("remembered")]
