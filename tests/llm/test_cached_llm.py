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

from kumihimo.core.errors import Capped, ItemFailed, Malformed, Unreadable
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Caps, Purse
from kumihimo.llm.cached_llm import Asking
from kumihimo.llm.protocols import Prices
from kumihimo.llm.structured import Reply, any_text
from kumihimo.storage.sqlite.response_cache import Memo
from kumihimo.testing.fake_models import FakeChat


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[Memo]:
    memo = Memo(tmp_path / "memo.db")
    yield memo
    memo.close()


@dataclass
class Scripted:
    """A model that says these replies, one after the other, and writes down what it was given."""

    replies: list[Reply]
    given: list[tuple[Any, Any, dict[str, Any]]] = field(default_factory=list)  # messages, schema, parameters
    mark: str = "scripted"
    prices: Prices = field(default_factory=Prices)
    workers: int = 1

    def determined_by(self, parameters: Any, *, structured: bool) -> dict[str, Any]:
        return {"model": self.mark, **parameters}

    def __call__(self, messages: Any, *, allow: Any, schema: Any = None, hear: Any = None, **parameters: Any) -> Reply:
        self.given.append((list(messages), schema, parameters))
        reply = self.replies.pop(0)
        with allow(1) as bill:
            bill(reply.usage)
        return reply


def scripted(*raw: str) -> Scripted:
    return Scripted([Reply(text, usage=Usage(1, 10, 0, 1)) for text in raw])


def test_the_same_prompt_is_asked_once(memo: Memo) -> None:
    chat = FakeChat(str.upper)
    ask = Asking(chat, memo)
    assert [ask("港 sea"), ask("港 sea"), ask([{"role": "user", "content": "港 sea"}])] == ["港 SEA"] * 3
    assert chat.asked == {"港 sea": 1}


def test_another_model_sample_parameter_or_message_is_another_question(memo: Memo) -> None:
    chat = FakeChat(str.upper)
    ask = Asking(chat, memo)
    ask("sea")
    ask("sea", sample=1)
    ask("sea", temperature=0.5)
    ask([{"role": "system", "content": "be brief"}, {"role": "user", "content": "sea"}])
    assert chat.asked == {"sea": 4}
    other = FakeChat(str.title, mark="other")
    assert Asking(other, memo)("sea") == "Sea"
    assert Asking(other, memo).mark == "other"


def test_who_asks_makes_no_difference(memo: Memo) -> None:
    chat = FakeChat(str.upper)
    assert [Asking(chat, memo, Purse(), scope)("sea") for scope in ("gists", "answer")] == ["SEA", "SEA"]
    assert chat.asked == {"sea": 1}


def test_the_sample_is_no_parameter_of_the_model(memo: Memo) -> None:
    chat = scripted("ok")
    assert Asking(chat, memo)("sea", sample=2, temperature=0.5) == "ok"
    assert chat.given == [([{"role": "user", "content": "sea"}], None, {"temperature": 0.5})]


def test_how_many_turns_may_follow_makes_no_difference(memo: Memo) -> None:
    chat = scripted("ok")
    ask = Asking(chat, memo)
    assert [ask("sea"), ask("sea", further=3), ask("sea", further=1)] == ["ok"] * 3
    assert [parameters for _, _, parameters in chat.given] == [{}]


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


def test_several_samples_of_one_prompt(memo: Memo) -> None:
    chat = scripted("a", "b", "c", "d")
    ask = Asking(chat, memo)
    assert ask.samples("sea", 3, temperature=0.7) == ["a", "b", "c"]
    assert ask.samples("sea", 2, temperature=0.7) == ["a", "b"]
    assert ask("sea", sample=1, temperature=0.7) == "b"
    assert ask.samples("sea", 4, temperature=0.7) == ["a", "b", "c", "d"]
    assert ask.samples("sea", 0) == []


def test_equal_prompts_in_flight_are_paid_once(memo: Memo) -> None:
    def slow(prompt: str) -> str:
        time.sleep(0.05)
        return prompt

    chat, purse, said = FakeChat(slow), Purse(), list[str]()
    threads = [Thread(target=lambda: said.append(Asking(chat, memo, purse, "s")("sea"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (said, chat.asked) == (["sea"] * 8, {"sea": 1})
    assert (purse.total.calls, purse.saved["s"].calls) == (1, 7)


def test_what_the_memo_knows_is_saved_and_under_no_cap(memo: Memo) -> None:
    purse = Purse(Caps(calls=1))
    ask = Asking(FakeChat(str.upper), memo, purse, "gists")
    for _ in range(3):
        assert ask("the sea") == "THE SEA"
    paid = Usage(1, 2, 0, 2)
    assert (purse.spent, purse.saved) == ({"gists": paid}, {"gists": paid + paid})
    with pytest.raises(Capped, match="--max-calls 1 was reached"):
        ask("the sky")


# -- reading

YES_NO: Any = Literal["yes", "no"]


@dataclass(frozen=True)
class Person:
    name: str
    age: int


def test_a_reply_into_a_dataclass(memo: Memo) -> None:
    chat = scripted('{"name": "Ada", "age": 36}')
    ask = Asking(chat, memo)
    conversation = [{"role": "system", "content": "Read."}, {"role": "user", "content": "Who?"}]
    assert ask(conversation, into=Person) == ask(conversation, into=Person) == Person("Ada", 36)
    ((messages, schema, _),) = chat.given
    assert messages[0] == conversation[0]
    assert messages[1]["content"].startswith("Who?\n\nReply with one JSON object and nothing else.")
    assert schema["required"] == ["name", "age"]
    assert conversation[1] == {"role": "user", "content": "Who?"}


def test_a_reply_into_something_else_is_another_question(memo: Memo) -> None:
    chat = scripted("yes", '[{"name": "Ada", "age": 36}]', "yes")
    ask = Asking(chat, memo)
    assert ask("Who?", into=YES_NO) == "yes"
    assert ask("Who?", into=list[Person]) == [Person("Ada", 36)]
    assert ask("Who?") == "yes"


def test_a_reply_read_by_whoever_asked(memo: Memo) -> None:
    ask = Asking(scripted("<think>7</think>42"), memo)
    assert ask("How many?", read=lambda reply: int(reply.text)) == 42
    assert ask("How many?", read=lambda reply: reply.raw) == "<think>7</think>42"
    assert ask("How many?") == "42"


def test_what_cannot_be_read_is_asked_again_with_what_was_wrong(memo: Memo) -> None:
    chat, purse = scripted("Ada, 36.", '{"name": "Ada"}', '{"name": "Ada", "age": 36}'), Purse()
    ask = Asking(chat, memo, purse, "s")
    assert ask("Who?", into=Person) == Person("Ada", 36)
    first, second, third = (messages for messages, _, _ in chat.given)
    assert second == [
        *first,
        {"role": "assistant", "content": "Ada, 36."},
        {"role": "user", "content": "The reply holds no JSON. Reply again, in full."},
    ]
    assert third[:-1] == [*first, {"role": "assistant", "content": '{"name": "Ada"}'}]
    assert "age: Field required" in third[-1]["content"]
    assert memo.size()[0] == purse.total.calls == 3
    assert ask("Who?", into=Person) == Person("Ada", 36)  # all three replies are remembered
    assert (len(chat.given), purse.saved["s"].calls) == (3, 3)


def test_after_three_the_item_has_failed_until_it_is_asked_for_again(memo: Memo) -> None:
    chat, purse = scripted(*["maybe"] * 5, "yes"), Purse()
    ask = Asking(chat, memo, purse, "s")
    with pytest.raises(Unreadable) as failed:
        ask("So?", into=YES_NO)
    assert (
        str(failed.value)
        == "scripted gave 3 replies that cannot be read; of the last: The reply has to be one of yes, no."
    )
    assert (len(chat.given), memo.size()[0]) == (3, 3)
    assert ask("So?", into=YES_NO) == "yes"
    assert (len(chat.given), memo.size()[0], purse.saved["s"].calls) == (6, 6, 3)
    assert ask("So?", into=YES_NO) == "yes"
    assert len(chat.given) == 6


def test_a_better_reader_needs_no_new_call(memo: Memo) -> None:
    def strict(reply: Reply) -> str:
        raise Malformed("No.")

    chat = scripted("a", "b", "c")
    ask = Asking(chat, memo)
    with pytest.raises(ItemFailed, match=r"of the last: No\.$"):
        ask("So?", read=strict)
    assert ask("So?") == "a"
    assert len(chat.given) == 3


def test_a_reply_that_breaks_off_is_asked_for_again(memo: Memo) -> None:
    chat = Scripted([Reply("The ferry", "length"), Reply("At ten.")])
    ask = Asking(chat, memo)
    assert ask("When?") == "At ten."
    assert chat.given[1][0][2]["content"].startswith("The reply was cut off before its end")
    assert ask("When?", read=any_text) == "The ferry"


def test_an_empty_reply_is_asked_again(memo: Memo) -> None:
    chat = scripted("<think>Hm", "At ten.")
    assert Asking(chat, memo)("When?") == "At ten."
    assert chat.given[1][0][1:] == [
        {"role": "assistant", "content": "(nothing)"},
        {"role": "user", "content": "The reply is empty. Reply again, in full."},
    ]


def test_a_cap_stops_what_would_be_asked_again(memo: Memo) -> None:
    with pytest.raises(Capped):
        Asking(scripted("maybe", "yes"), memo, Purse(Caps(calls=1)))("So?", into=YES_NO)


def test_halves_of_characters_are_remembered_as_what_can_be(memo: Memo) -> None:
    ask = Asking(scripted("港 \ud83d!"), memo)
    assert ask("\ud800") == ask("\ud800") == "港 \ufffd!"


def test_prompts_and_replies_are_shown_to_whoever_wants_to_see(memo: Memo, caplog: pytest.LogCaptureFixture) -> None:
    ask = Asking(scripted("<think>Hm</think>At ten."), memo, scope="answer")
    with caplog.at_level(logging.DEBUG, "kumihimo.prompts"):
        ask("When?")
        ask("When?")
    shown = "--- answer, scripted, {}\nuser: When?\n\nreply: <think>Hm</think>At ten.\n"
    assert caplog.messages == [shown.format("asked"), shown.format("remembered")]
