"""a reply -> its token callback: token by token while it arrives, whole from the cache, without its reasoning."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.llm.cached_llm import create_llm
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat

Stream = Callable[[str], tuple[str, list[str]]]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


@pytest.fixture
def stream(cache: ResponseCache) -> Stream:
    """Return a function: prompt -> an echoed reply and its tokens."""

    def request(prompt: str) -> tuple[str, list[str]]:
        tokens: list[str] = []
        reply = create_llm(FakeChat(str), cache)(prompt, on_token=tokens.append)
        return reply, [token for token in tokens if token]

    return request


def test_a_reply_is_streamed_as_it_arrives_and_whole_from_the_cache(stream: Stream) -> None:
    assert stream("The ferry leaves.") == ("The ferry leaves.", ["The ", "ferry ", "leaves."])
    assert stream("The ferry leaves.") == ("The ferry leaves.", ["The ferry leaves."])


def test_streaming_makes_no_other_request(cache: ResponseCache) -> None:
    chat = FakeChat(str.upper)
    assert create_llm(chat, cache)("When?") == create_llm(chat, cache)("When?", on_token=print)
    assert chat.prompt_counts == {"When?": 1}


def test_reasoning_is_not_streamed(stream: Stream) -> None:
    prompt = "<think> Nine, or ten? </think> At ten."
    assert stream(prompt) == ("At ten.", ["At ", "ten."])
    assert stream(prompt) == ("At ten.", ["At ten."])


def test_a_possible_reasoning_tag_is_streamed_at_its_end(stream: Stream) -> None:
    assert stream("<b") == ("<b", ["<b"])
    assert stream("<b> is bold") == ("<b> is bold", ["<b> ", "is ", "bold"])


def test_an_empty_reply_streams_nothing(cache: ResponseCache) -> None:
    tokens: list[str] = []
    with pytest.raises(ItemFailed, match="The reply is empty"):
        create_llm(FakeChat(lambda prompt: "<think> Hm </think>"), cache)("When?", on_token=tokens.append)
    assert "".join(tokens) == ""
