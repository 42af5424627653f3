"""A reply -> who hears it: piece by piece while it comes, whole where it is remembered, without its thoughts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.llm.cached_llm import CachedLLM
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

Heard = Callable[[str], tuple[str, list[str]]]


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


@pytest.fixture
def heard(memo: ResponseCache) -> Heard:
    """What a model that repeats its prompt is said to have said, and what is heard of it."""

    def ask(prompt: str) -> tuple[str, list[str]]:
        pieces: list[str] = []
        said = CachedLLM(FakeChat(str), memo)(prompt, on_token=pieces.append)
        return said, [piece for piece in pieces if piece]

    return ask


def test_a_reply_is_heard_as_it_comes_and_whole_when_it_is_remembered(heard: Heard) -> None:
    assert heard("The ferry leaves.") == ("The ferry leaves.", ["The ", "ferry ", "leaves."])
    assert heard("The ferry leaves.") == ("The ferry leaves.", ["The ferry leaves."])


def test_hearing_makes_it_no_other_question(memo: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    assert CachedLLM(chat, memo)("When?") == CachedLLM(chat, memo)("When?", on_token=print)
    assert chat.prompt_counts == {"When?": 1}


def test_thoughts_are_not_heard(heard: Heard) -> None:
    thought = "<think> Nine, or ten? </think> At ten."
    assert heard(thought) == ("At ten.", ["At ", "ten."])
    assert heard(thought) == ("At ten.", ["At ten."])


def test_what_may_be_the_beginning_of_a_thought_is_heard_at_its_end(heard: Heard) -> None:
    assert heard("<b") == ("<b", ["<b"])
    assert heard("<b> is bold") == ("<b> is bold", ["<b> ", "is ", "bold"])


def test_nothing_is_heard_where_nothing_is_said(memo: ResponseCache) -> None:
    pieces: list[str] = []
    with pytest.raises(ItemFailed, match="The reply is empty"):
        CachedLLM(FakeChat(lambda prompt: "<think> Hm </think>"), memo)("When?", on_token=pieces.append)
    assert "".join(pieces) == ""
