"""An embedder + the memo -> an embedder that is paid for each text once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kumihimo.core.errors import ItemFailed
from kumihimo.llm.cached_llm import CachedEmbedder
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeEmbedder


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


class Counting:
    """An embedder that writes down what it is given."""

    batch, workers = 7, 3

    def __init__(self, fingerprint: str = "counting") -> None:
        self.fingerprint = fingerprint
        self.given: list[list[str]] = []

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.given.append(list(texts))
        return FakeEmbedder()(texts)


def test_a_text_is_embedded_once(memo: ResponseCache) -> None:
    counting = Counting()
    embed = CachedEmbedder(counting, memo)
    expected = FakeEmbedder()(["sea", "sky", "sea"])
    assert np.array_equal(embed(["sea", "sky", "sea"]), expected)
    assert np.array_equal(embed(["sky", "sun"]), FakeEmbedder()(["sky", "sun"]))
    assert counting.given == [["sea", "sky"], ["sun"]]
    assert embed(["sea"]).dtype == np.float32
    assert (embed.fingerprint, embed.batch, embed.workers) == ("counting", 7, 3)


def test_another_embedder_embeds_again(memo: ResponseCache) -> None:
    one, two = Counting("one"), Counting("two")
    CachedEmbedder(one, memo)(["sea"])
    CachedEmbedder(two, memo)(["sea"])
    assert one.given == two.given == [["sea"]]


def test_vectors_that_are_remembered_can_be_written_to(memo: ResponseCache) -> None:
    embed = CachedEmbedder(Counting(), memo)
    embed(["sea"])
    vectors = embed(["sea"])
    vectors *= 2
    assert np.array_equal(embed(["sea"]) * 2, vectors)


def test_no_texts_have_no_vectors(memo: ResponseCache) -> None:
    assert len(CachedEmbedder(Counting(), memo)([])) == 0


def test_texts_that_were_not_embedded_are_not_remembered(memo: ResponseCache) -> None:
    class Failing(Counting):
        def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
            raise ItemFailed("too busy")

    with pytest.raises(ItemFailed, match="too busy"):
        CachedEmbedder(Failing(), memo)(["sea"])
    counting = Counting()
    CachedEmbedder(counting, memo)(["sea"])
    assert counting.given == [["sea"]]
