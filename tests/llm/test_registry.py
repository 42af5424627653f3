"""settings -> the model of each scope: one for all, or its own; connected at the first request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.opened.catalogue import BUILT_IN
from kumihimo.app.settings.settings_registry import SettingsRegistry
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.core.settings import Setting, SettingValues, resolve_settings
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import EMBEDDING, CachedEmbedder
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.registry import CHAT, MODEL_SETTINGS, ModelRegistry, scope_chat_settings
from kumihimo.storage.response_cache import ResponseCache
from tests.fake_server import FakeServer

OWN_SETTINGS = {"temperature": Setting("temperature", float, 0.7), "k": Setting("k", int, 20)}
SCOPES = {
    **MODEL_SETTINGS,
    "hyde": scope_chat_settings(OWN_SETTINGS),
    "answer": scope_chat_settings({}),
    "gists": scope_chat_settings({}),
}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


def no_cache() -> ResponseCache:
    raise AssertionError("the cache is not needed yet")


def create_registry(cache: ResponseCache | None = None, **settings: dict[str, object]) -> ModelRegistry:
    """Return a registry with these settings over the defaults."""
    return ModelRegistry(resolve_settings(SCOPES, settings), no_cache if cache is None else lambda: cache)


def chat_of(models: ModelRegistry, scope: str) -> OpenAIChat:
    model = models.chat(scope)
    assert isinstance(model, OpenAIChat)
    return model


def test_one_model_for_all() -> None:
    models = create_registry(chat={"model": "m", "base_url": "http://localhost:1/v1", "workers": 3, "temperature": 0.2})
    assert chat_of(models, "hyde") is chat_of(models, "answer") is chat_of(models, "other")
    assert (chat_of(models, "hyde").fingerprint, chat_of(models, "hyde").server.url) == (
        "m temperature=0.2",
        "http://localhost:1/v1",
    )
    assert (models.workers, chat_of(models, "hyde").workers) == (3, 3)


def test_a_new_command_does_not_ask_a_server_that_was_given_up() -> None:
    models = create_registry(chat={"model": "m", "base_url": "http://localhost:1/v1"})
    server = chat_of(models, "answer").server
    server.count_failure(server.failure_limit)
    models.budget()
    assert server.is_given_up


def test_a_scope_may_have_its_own_model() -> None:
    models = create_registry(chat={"model": "m", "timeout": 7.0}, hyde={"model": "small", "max_tokens": 200})
    assert chat_of(models, "answer").fingerprint == "m temperature=0.0"
    assert chat_of(models, "hyde").fingerprint == "small max_tokens=200 temperature=0.0"
    assert chat_of(models, "hyde").server.timeout == chat_of(models, "answer").server.timeout == 7.0
    assert chat_of(models, "hyde").server.limiter is not chat_of(models, "answer").server.limiter


def test_a_single_scope_may_have_a_model() -> None:
    models = create_registry(hyde={"model": "small"})
    assert chat_of(models, "hyde").model == "small"
    assert models.chat("answer") is None


def test_equal_settings_share_one_model() -> None:
    small: dict[str, object] = {"model": "other", "requests_per_minute": 10}
    models = create_registry(chat={"model": "m"}, hyde=small, gists=small, answer={"model": "m"})
    assert chat_of(models, "hyde") is chat_of(models, "gists") is not chat_of(models, "answer")
    assert chat_of(models, "answer") is chat_of(models, "other")


def test_without_a_model_the_error_names_the_setting() -> None:
    with pytest.raises(SettingsError) as refused:
        create_registry().llm("hyde", Budget())
    assert str(refused.value) == (
        'hyde needs a chat model: set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'
    )


def test_a_scope_inherits_the_chat_settings() -> None:
    settings = scope_chat_settings(OWN_SETTINGS)
    assert settings.keys() == MODEL_SETTINGS[CHAT].keys() - {"temperature"}
    assert all(setting.default is None for setting in settings.values())
    assert settings["workers"].parse("hyde", "3") == 3
    assert settings["structured"].parse("hyde", "json") == "json"
    for value in ("many", "1.5"):
        with pytest.raises(SettingsError, match=r"hyde\.workers"):
            settings["workers"].parse("hyde", value)


def test_the_real_scopes_follow_the_same_rules(tmp_path: Path) -> None:
    assert {"model", "workers", "k", "temperature"} <= SettingsRegistry(BUILT_IN).all["hyde"].keys()
    assert {"model", "budget"} <= SettingsRegistry(BUILT_IN).all["answer"].keys()
    assert "model" in SettingsRegistry(BUILT_IN).all["bm25"]  # for its reranker
    assert "model" not in SettingsRegistry(BUILT_IN).all["chunks"]
    settings: SettingValues = {"chat": {"model": "m"}, "answer": {"model": "large", "budget": 9}}
    with Kumihimo(tmp_path / ".kumi", settings) as kumi:
        assert chat_of(kumi.models, "answer").model == "large"
        assert chat_of(kumi.models, "hyde").fingerprint == "m temperature=0.0"
        own = {"length": "normal", "sources": 25, "score_share": 0.9, "response": "", "max_tokens": 4096, "rounds": 2}
        assert kumi.settings["answer"] == {"budget": 9, **own}
        assert "model" not in kumi.settings["hyde"]
    assert not (tmp_path / ".kumi").exists()


def test_replies_are_cached_and_charged_to_the_budget(server: FakeServer, cache: ResponseCache) -> None:
    models = create_registry(cache, chat={"model": "m", "base_url": server.url, "prompt_price": 1e6})
    budget = models.budget(Caps(calls=1))
    llm = models.llm("answer", budget)
    reply = llm("When does the ferry leave?")
    assert llm("When does the ferry leave?") == reply
    assert budget.spent["answer"].calls == 1
    assert budget.spent["answer"].cost == budget.spent["answer"].prompt_tokens > 0
    assert [(s.kind, s.scope, s.usage.calls) for s in cache.usage()] == [("saved", "answer", 1), ("spent", "answer", 1)]
    with pytest.raises(BudgetExceeded):
        llm("And when does it come back?")


# -- embedding


def test_without_an_embedding_model_the_local_one_embeds() -> None:
    models = create_registry()
    assert models.paid_embedder is None
    assert isinstance(models.embedder(Budget()), LocalEmbedder)


def test_a_paid_embedder_is_cached_counted_and_capped(server: FakeServer, cache: ResponseCache) -> None:
    settings: dict[str, Any] = {"model": "e", "base_url": server.url, "batch": 5, "workers": 2, "price": 1e6}
    models = create_registry(cache, embedding=settings)
    paid = models.paid_embedder
    assert paid is not None
    assert (paid.fingerprint, paid.batch, paid.workers) == ("e", 5, 2)
    budget = models.budget(Caps(calls=1))
    embed = models.embedder(budget)
    assert isinstance(embed, CachedEmbedder)
    assert (embed.fingerprint, embed.batch, embed.workers) == ("e", 5, 2)
    first = embed(["sea", "sky"])
    assert (embed(["sky", "sea"]) == first[::-1]).all()
    spent = budget.spent[EMBEDDING]
    assert (spent.calls, spent.completion_tokens) == (1, 0)
    assert spent.cost == spent.prompt_tokens > 0
    with pytest.raises(BudgetExceeded):
        embed(["sea", "sun"])
