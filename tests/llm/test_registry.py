"""Settings -> the model of whoever asks: one for all, or one of its own; nothing is connected to before it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kumihimo.app.facade import Kumihimo
from kumihimo.app.settings_registry import ALL_SETTINGS
from kumihimo.core.errors import BudgetExceeded, SettingsError
from kumihimo.core.settings import Setting, SettingValues, resolve_settings
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import EMBEDDING, CachedEmbedder
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.openai import OpenAIChat
from kumihimo.llm.registry import CHAT, MODEL_SETTINGS, ModelRegistry, scope_chat_settings
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_server import FakeServer

OWN = {"temperature": Setting("temperature", float, 0.7), "k": Setting("k", int, 20)}
SCOPES = {
    **MODEL_SETTINGS,
    "hyde": scope_chat_settings(OWN),
    "answer": scope_chat_settings({}),
    "gists": scope_chat_settings({}),
}


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


def never() -> ResponseCache:
    raise AssertionError("nobody needs the memo yet")


def connections(memo: ResponseCache | None = None, **given: dict[str, object]) -> ModelRegistry:
    """With these settings over the defaults."""
    return ModelRegistry(resolve_settings(SCOPES, given), never if memo is None else lambda: memo)


def chat(models: ModelRegistry, scope: str) -> OpenAIChat:
    found = models.chat(scope)
    assert isinstance(found, OpenAIChat)
    return found


def test_one_model_for_all() -> None:
    models = connections(chat={"model": "m", "base_url": "http://localhost:1/v1", "workers": 3, "temperature": 0.2})
    assert chat(models, "hyde") is chat(models, "answer") is chat(models, "whoever")
    assert (chat(models, "hyde").fingerprint, chat(models, "hyde").server.url) == (
        "m temperature=0.2",
        "http://localhost:1/v1",
    )
    assert (models.workers, chat(models, "hyde").workers) == (3, 3)


def test_one_may_have_a_model_of_its_own() -> None:
    models = connections(chat={"model": "m", "timeout": 7.0}, hyde={"model": "small", "max_tokens": 200})
    assert chat(models, "answer").fingerprint == "m temperature=0.0"
    assert chat(models, "hyde").fingerprint == "small max_tokens=200 temperature=0.0"
    assert chat(models, "hyde").server.timeout == chat(models, "answer").server.timeout == 7.0
    assert chat(models, "hyde").server.rate_limiter is not chat(models, "answer").server.rate_limiter


def test_only_one_may_have_a_model() -> None:
    models = connections(hyde={"model": "small"})
    assert chat(models, "hyde").model == "small"
    assert models.chat("answer") is None


def test_those_who_ask_alike_are_one() -> None:
    own: dict[str, object] = {"model": "other", "requests_per_minute": 10}
    models = connections(chat={"model": "m"}, hyde=own, gists=own, answer={"model": "m"})
    assert chat(models, "hyde") is chat(models, "gists") is not chat(models, "answer")
    assert chat(models, "answer") is chat(models, "whoever")


def test_who_asks_without_a_model_is_told_how_to_set_one() -> None:
    with pytest.raises(SettingsError) as refused:
        connections().llm("hyde", Budget())
    assert str(refused.value) == (
        'hyde needs a chat model: set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'
    )


def test_whoever_asks_borrows_the_settings_of_all() -> None:
    lent = scope_chat_settings(OWN)
    assert lent.keys() == MODEL_SETTINGS[CHAT].keys() - {"temperature"}
    assert all(setting.default is None for setting in lent.values())
    assert lent["workers"].parse("hyde", "3") == 3
    assert lent["structured"].parse("hyde", "json") == "json"
    for wrong in ("many", "1.5"):
        with pytest.raises(SettingsError, match=r"hyde\.workers"):
            lent["workers"].parse("hyde", wrong)


def test_the_real_scopes_are_as_those_above(tmp_path: Path) -> None:
    assert {"model", "workers", "k", "temperature"} <= ALL_SETTINGS["hyde"].keys()
    assert {"model", "budget"} <= ALL_SETTINGS["answer"].keys()
    assert "model" in ALL_SETTINGS["bm25"]  # that judges what it found
    assert "model" not in ALL_SETTINGS["chunks"]
    settings: SettingValues = {"chat": {"model": "m"}, "answer": {"model": "large", "budget": 9}}
    with Kumihimo(tmp_path / ".kumi", settings) as kumi:
        assert chat(kumi.models, "answer").model == "large"
        assert chat(kumi.models, "hyde").fingerprint == "m temperature=0.0"
        assert kumi.settings["answer"] == {"budget": 9, "response": ""}
        assert "model" not in kumi.settings["hyde"]
    assert not (tmp_path / ".kumi").exists()


def test_replies_are_remembered_and_told_to_the_purse(server: FakeServer, memo: ResponseCache) -> None:
    models = connections(memo, chat={"model": "m", "base_url": server.url, "prompt_price": 1e6})
    purse = models.budget(Caps(calls=1))
    ask = models.llm("answer", purse)
    said = ask("When does the ferry leave?")
    assert ask("When does the ferry leave?") == said
    assert purse.spent["answer"].calls == 1
    assert purse.spent["answer"].cost == purse.spent["answer"].prompt_tokens > 0
    assert [(s.kind, s.scope, s.usage.calls) for s in memo.usage()] == [("saved", "answer", 1), ("spent", "answer", 1)]
    with pytest.raises(BudgetExceeded):
        ask("And when does it come back?")


# -- embedding


def test_without_an_embedding_model_texts_are_embedded_here() -> None:
    models = connections()
    assert models.paid_embedder is None
    assert isinstance(models.embedder(Budget()), LocalEmbedder)


def test_a_paid_embedder_is_remembered_counted_and_capped(server: FakeServer, memo: ResponseCache) -> None:
    given: dict[str, Any] = {"model": "e", "base_url": server.url, "batch": 5, "workers": 2, "price": 1e6}
    models = connections(memo, embedding=given)
    paid = models.paid_embedder
    assert paid is not None
    assert (paid.fingerprint, paid.batch, paid.workers) == ("e", 5, 2)
    purse = models.budget(Caps(calls=1))
    embed = models.embedder(purse)
    assert isinstance(embed, CachedEmbedder)
    assert (embed.fingerprint, embed.batch, embed.workers) == ("e", 5, 2)
    first = embed(["sea", "sky"])
    assert (embed(["sky", "sea"]) == first[::-1]).all()
    spent = purse.spent[EMBEDDING]
    assert (spent.calls, spent.completion_tokens) == (1, 0)
    assert spent.cost == spent.prompt_tokens > 0
    with pytest.raises(BudgetExceeded):
        embed(["sea", "sun"])
