"""an embedder + the response cache -> an embedder that is paid once for each text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.core.usage import Usage
from kumihimo.llm.cached_llm import CachedEmbedder
from kumihimo.llm.protocols import TextsReply, TextsRequest
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeEmbedder


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


class CountingEmbedder:
    """An embedding model that records its texts."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def __call__(self, request: TextsRequest) -> TextsReply:
        self.batches.append(list(request.texts))
        return TextsReply(FakeEmbedder()(request.texts), Usage())


def cached_embedder(model: CountingEmbedder, cache: ResponseCache, fingerprint: str = "counting") -> CachedEmbedder:
    return CachedEmbedder(model, fingerprint, 7, 3, cache)


def test_a_text_is_embedded_once(cache: ResponseCache) -> None:
    counting = CountingEmbedder()
    embed = cached_embedder(counting, cache)
    expected = FakeEmbedder()(["sea", "sky", "sea"])
    assert np.array_equal(embed(["sea", "sky", "sea"]), expected)
    assert np.array_equal(embed(["sky", "sun"]), FakeEmbedder()(["sky", "sun"]))
    assert counting.batches == [["sea", "sky"], ["sun"]]
    assert embed(["sea"]).dtype == np.float32
    assert (embed.fingerprint, embed.batch, embed.workers) == ("counting", 7, 3)


def test_another_embedder_embeds_again(cache: ResponseCache) -> None:
    first, second = CountingEmbedder(), CountingEmbedder()
    cached_embedder(first, cache, "one")(["sea"])
    cached_embedder(second, cache, "two")(["sea"])
    assert first.batches == second.batches == [["sea"]]


def test_cached_vectors_can_be_written_to(cache: ResponseCache) -> None:
    embed = cached_embedder(CountingEmbedder(), cache)
    embed(["sea"])
    vectors = embed(["sea"])
    vectors *= 2
    assert np.array_equal(embed(["sea"]) * 2, vectors)


def test_no_texts_have_no_vectors(cache: ResponseCache) -> None:
    assert len(cached_embedder(CountingEmbedder(), cache)([])) == 0


def test_failed_texts_are_not_cached(cache: ResponseCache) -> None:
    class Failing(CountingEmbedder):
        def __call__(self, request: TextsRequest) -> TextsReply:
            raise ItemFailed("too busy")

    with pytest.raises(ItemFailed, match="too busy"):
        cached_embedder(Failing(), cache)(["sea"])
    counting = CountingEmbedder()
    cached_embedder(counting, cache)(["sea"])
    assert counting.batches == [["sea"]]
