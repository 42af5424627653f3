"""requests -> their keys in the response cache, pinned: a new version has to find the replies of the older one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from kumihimo.core.settings import resolve_settings
from kumihimo.core.usage import Usage
from kumihimo.llm.budget import Budget
from kumihimo.llm.protocols import Reply
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.storage.response_cache import ResponseCache

NOWHERE = "http://127.0.0.1:1/v1"
YES_NO: Any = Literal["yes", "no"]


@dataclass(frozen=True)
class Person:
    name: str
    age: int


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def create_models(cache: ResponseCache) -> ModelRegistry:
    """Return models on a server that does not exist."""
    chat = {"model": "m", "base_url": NOWHERE, "max_tokens": 200, "extra": '{"seed": 1}', "structured": "json"}
    embedding = {"model": "e", "base_url": NOWHERE, "dimensions": 8}
    settings: dict[str, Any] = {"chat": chat, "embedding": embedding, "reranking": {"model": "r", "base_url": NOWHERE}}
    return ModelRegistry(resolve_settings(MODEL_SETTINGS, settings), lambda: cache)


def store(cache: ResponseCache, key: str, *values: bytes) -> None:
    cache.put_many([(bytes.fromhex(key), value) for value in values])


def test_the_key_of_a_prompt(cache: ResponseCache) -> None:
    store(cache, "3a7c4b1d14456f04f3af6f4d41ced6fa", Reply("At ten.").to_bytes())
    assert create_models(cache).llm("answer", Budget())("When leaves the 港 ferry?") == "At ten."


def test_the_keys_of_a_choice_in_a_later_run_and_of_its_second_attempt(cache: ResponseCache) -> None:
    store(cache, "5622b2a6e9e3726778cdcac0743e2e33", Reply("maybe").to_bytes())
    store(cache, "52a17c45a5a561d6a0cf195be971a008", Reply("yes").to_bytes())
    conversation = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "So?"}]
    llm = create_models(cache).llm("answer", Budget(), generation=3)
    assert llm(conversation, schema=YES_NO, sample=2, temperature=0.7, followups=4) == "yes"


def test_the_key_of_a_dataclass(cache: ResponseCache) -> None:
    store(cache, "0e552d229abfe03ccd0b0426fbc53c3e", Reply('{"name": "Ada", "age": 36}').to_bytes())
    assert create_models(cache).llm("other", Budget())("Who?", schema=Person) == Person("Ada", 36)


def test_the_keys_of_vectors(cache: ResponseCache) -> None:
    store(cache, "9250233a9c6c6e1617cec97e258d71d3", b"2")
    sea, harbour = np.array([[1, 0], [0, 1]], dtype=np.float32)
    store(cache, "ae3f012184936ff750feda7eeb57488c", sea.tobytes())
    store(cache, "ec2bbba3e652fc70a69ca0df60706817", harbour.tobytes())
    assert create_models(cache).embedder(Budget())(["sea", "港"]).tolist() == [[1, 0], [0, 1]]


def test_the_key_of_scores(cache: ResponseCache) -> None:
    store(cache, "72a89d592f202afef48c8055e0b52668", b"[0.5, 1.0]")
    assert create_models(cache).endpoint_scorer(Budget())("which?", ["a", "港"]) == [0.5, 1.0]


def test_the_bytes_of_a_reply() -> None:
    reply = Reply("a港", "length", Usage(1, 10, 4, 2, 0.5, 1.23456))
    assert reply.to_bytes() == '["a港","length",[10,4,2,0.5,1.235]]'.encode()
    assert Reply.from_bytes(reply.to_bytes()).usage == Usage(1, 10, 4, 2, 0.5, 1.235)
