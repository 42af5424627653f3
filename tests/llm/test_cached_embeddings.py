"""an embedder + the response cache -> an embedder that is paid once for each text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from kumihimo.core.errors import ItemFailed, ModelError, RequestTimedOut
from kumihimo.core.usage import Usage
from kumihimo.llm.cached_llm import CachedEmbedder, is_cached_value
from kumihimo.llm.protocols import Reply, TextsReply, TextsRequest, Vectors
from kumihimo.storage.response_cache import ResponseCache, cache_key
from kumihimo.testing.fake_models import FakeEmbedder
from tests.cache_files import path_of, writer_of


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


class CountingEmbedder:
    """An embedding model that records its texts.

    create: the number of texts -> their vectors, instead of usual ones.
    """

    def __init__(self, create: Callable[[int], Vectors] | None = None) -> None:
        self.batches: list[list[str]] = []
        self.create = create

    def __call__(self, request: TextsRequest) -> TextsReply:
        self.batches.append(list(request.texts))
        vectors = self.create(len(request.texts)) if self.create else FakeEmbedder()(request.texts)
        return TextsReply(vectors, Usage())


def unit_vectors(count: int) -> Vectors:
    return np.array([[1, 0]] * count, dtype=np.float32)


def refuse(count: int) -> Vectors:
    raise ItemFailed("not asked")


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


UNUSABLE = [[0, 0], [np.nan, 1], [np.inf, 0], [3e38, 3e38], [0.5, 0.5], [1, 0, 0]]


@pytest.mark.parametrize("values", UNUSABLE)
def test_a_bad_vector_in_the_cache_is_asked_for_again_and_replaced(cache: ResponseCache, values: list[float]) -> None:
    embed = CachedEmbedder(lambda request: TextsReply(unit_vectors(len(request.texts)), Usage()), "two", 7, 3, cache)
    embed(["sea", "sky"])
    sea_key = cache_key(embedder="two", text="sea")
    writer_of(cache).execute(
        "UPDATE replies SET value = ? WHERE key = ?", (np.array(values, dtype=np.float32).tobytes(), sea_key)
    )
    counting = CountingEmbedder(unit_vectors)
    embed = cached_embedder(counting, cache, "two")
    assert [embed(["sea", "sky"]).tolist() for _ in range(2)] == [[[1, 0], [1, 0]]] * 2
    assert counting.batches == [["sea"]]


@pytest.mark.parametrize("values", UNUSABLE[:5])
def test_a_bad_vector_of_the_model_is_refused_and_the_good_ones_are_cached(
    cache: ResponseCache, values: list[float]
) -> None:
    def with_a_bad_one(count: int) -> Vectors:
        return np.array([[1, 0], values, [0, 1]][:count], dtype=np.float32)

    with pytest.raises(ItemFailed, match=r"^1 of 3 vectors of two are zero, infinite or not numbers: is it an embed"):
        cached_embedder(CountingEmbedder(with_a_bad_one), cache, "two")(["sea", "sky", "sun"])
    counting = CountingEmbedder(unit_vectors)
    assert cached_embedder(counting, cache, "two")(["sea", "sky", "sun"]).tolist() == [[1, 0], [1, 0], [0, 1]]
    assert counting.batches == [["sky"]]


def test_a_model_of_other_dimensions_is_refused(cache: ResponseCache) -> None:
    cached_embedder(CountingEmbedder(), cache)(["sea"])
    with pytest.raises(ModelError, match="gives vectors of 2 dimensions now"):
        cached_embedder(CountingEmbedder(unit_vectors), cache)(["sky"])
    with pytest.raises(ItemFailed):
        cached_embedder(CountingEmbedder(refuse), cache)(["sky"])


def test_damaged_dimensions_cost_nothing(cache: ResponseCache) -> None:
    cached_embedder(CountingEmbedder(), cache)(["sea"])
    dimensions_key = cache_key(embedder="counting")
    writer_of(cache).execute("UPDATE replies SET value = ? WHERE key = ?", (b"3x", dimensions_key))
    counting = CountingEmbedder()
    cached_embedder(counting, cache)(["sea", "sky"])
    assert (counting.batches, cache.get_many([dimensions_key], int)) == ([["sky"]], {dimensions_key: 32})


def test_halves_of_a_slow_batch_are_cached_apart(cache: ResponseCache) -> None:
    def send(request: TextsRequest) -> TextsReply:
        if len(request.texts) > 2:
            raise RequestTimedOut("no answer in 300 s")
        return counting(request)

    counting, texts = CountingEmbedder(), ["sea", "sky", "sun", "sand"]
    embed = CachedEmbedder(send, "counting", 7, 3, cache)
    for batch in (texts, texts[:2], texts[2:], texts, texts[1:]):
        if len(counting.batches) == 0 and len(batch) > 2:
            with pytest.raises(RequestTimedOut):
                embed(batch)
        else:
            assert np.array_equal(embed(batch), FakeEmbedder()(batch))
    assert counting.batches == [["sea", "sky"], ["sun", "sand"]]


def test_a_dry_run_gets_all_missing_texts_at_once_and_caches_nothing(cache: ResponseCache) -> None:
    counting = CountingEmbedder(refuse)
    embed = CachedEmbedder(counting, "counting", 7, 3, cache, dry_run=True)
    with pytest.raises(ItemFailed, match="not asked"):
        embed(["sea", "sky", "sea"])
    assert (counting.batches, path_of(cache).exists()) == ([["sea", "sky"]], False)


def test_each_kind_of_cached_value_is_recognized() -> None:
    vector = FakeEmbedder()(["sea"])[0].tobytes()
    reply = Reply("At ten.", usage=Usage(1, 10, 0, 2, 0.5, 1.5)).to_bytes()
    good = [reply, vector, b"32", b"[0.5, 1]", b"[]"]
    assert [value for value in good if not is_cached_value(value)] == []
    bad = [b"", reply[:-1], b"\xff" + reply, vector[:-1], vector * 2, bytes(128), b"[2]", b"{}", b"null", b"[" * 9999]
    others = ["32", 32, None, reply.decode(), b'["a", "stop", [1, 2]]', b'["a", 1, [10, 4, 2, 0.5, 1.2]]']
    assert [value for value in (*bad, *others) if is_cached_value(value)] == []
