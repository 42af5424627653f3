"""settings -> the model of each step, method and role: one for all, or one for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.signature import settings_of
from kumihimo.llm import openai
from kumihimo.llm.budget import Budget, Caps
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, CachedEmbedder, CachedLLM
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import Chat, Embedder, Messages, Prices, RerankerName
from kumihimo.llm.rerank import CandidateReranker, RelevanceScorer, listwise_scorer
from kumihimo.llm.rerank_client import CachedScorer, RerankClient, create_rerank_client
from kumihimo.llm.structured import Reply
from kumihimo.llm.transport import ModelServer
from kumihimo.storage.sqlite.response_cache import ResponseCache

CHAT = "chat"
RULES = "rules"  # the model setting of a step that uses rules instead
CONNECTION_SETTINGS = ("model", "base_url", "key", "api_version", "timeout", "retries", "workers")
RATE_LIMIT_SETTINGS = ("requests_per_minute", "tokens_per_minute")
MODEL_SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    CHAT: settings_of(openai.create_chat),
    EMBEDDING: settings_of(openai.create_embedder),
    RERANKING: settings_of(create_rerank_client),
}
_NON_CHAT_SCOPES = (EMBEDDING, RERANKING)

SET_MODEL_HINT = 'set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'


@dataclass(frozen=True, slots=True)
class MissingChat:
    """The chat model of an earlier build, when none is set now.

    Cached replies stay usable; a new request raises SettingsError.
    """

    fingerprint: str
    scope: str
    workers: int = 1
    prices: Prices = field(default_factory=Prices)

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"gone": self.fingerprint, **parameters}

    def __call__(self, messages: Messages, **_: Any) -> Reply:  # noqa: ARG002
        rules_hint = '; set `model = "rules"` there to go on without one'
        raise SettingsError(
            f"{self.scope} was made by {self.fingerprint}, and no model is set now: {SET_MODEL_HINT}{rules_hint}"
        )


def scope_chat_settings(own_settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the `[chat]` settings a scope may override; all default to None."""
    settings = MODEL_SETTINGS[CHAT].values()
    return {s.name: Setting(s.name, s.type | None, None) for s in settings if s.name not in own_settings}


@dataclass
class ModelRegistry:
    """The models of the settings, connected at their first request.

    settings: of the scopes `chat`, `embedding` and `reranking`, and of each scope that overrides them.
    """

    settings: SettingValues
    cache: Callable[[], ResponseCache]
    _chats: dict[str, openai.OpenAIChat] = field(default_factory=dict)
    _servers: dict[str, ModelServer] = field(default_factory=dict)  # equal connections share one rate limiter

    def budget(self, caps: Caps | None = None, parent: Budget | None = None) -> Budget:
        """Return a budget for one command or one question.

        The response cache records its usage. Servers that were given up get another chance.
        parent: the budget of a command whose questions have one each.
        """
        for server in () if parent else self._servers.values():
            server.reset_circuit()
        if caps and caps.cost is not None and (unpriced := self._scopes_without_prices()):
            raise SettingsError(f"a cap on cost needs prices: set {' and '.join(unpriced)}, 0 for a free model")

        def record_usage(*entry: Any) -> None:
            self.cache().record_usage(*entry)

        return Budget(caps, None if parent else record_usage, parent)

    def _scopes_without_prices(self) -> list[str]:
        """Return the names of the price settings that are missing."""
        chats = {scope: self.chat(scope) for scope in self.settings if scope not in _NON_CHAT_SCOPES}
        missing = [f"{scope}.prompt_price" for scope, chat in chats.items() if chat and not chat.prices.is_set]
        paid = {f"{EMBEDDING}.price": self.paid_embedder, f"{RERANKING}.price": self.paid_reranker}
        return missing[:1] + [name for name, model in paid.items() if model and not model.prices.is_set]

    def chat(self, scope: str) -> Chat | None:
        """Return the chat model of a step, method or role, if set."""
        overrides = {name: value for name, value in self.settings.get(scope, {}).items() if value is not None}
        merged: dict[str, Any] = {**self.settings[CHAT], **overrides}
        if "model" in overrides:  # another model has other prices
            merged |= {name: overrides.get(name) for name in merged if name.endswith("_price")}
        if "base_url" in overrides:  # another server does not get our key
            merged["key"] = overrides.get("key", "")
        if merged["model"] in ("", RULES):
            return None
        model_key = repr(sorted(merged.items()))
        if model_key not in self._chats:
            chat = openai.create_chat(**merged)
            server_key = repr([merged[name] for name in (*CONNECTION_SETTINGS, *RATE_LIMIT_SETTINGS)])
            self._chats[model_key] = replace(chat, server=self._servers.setdefault(server_key, chat.server))
        return self._chats[model_key]

    def uses_rules(self, scope: str) -> bool:
        """Return whether the scope is set to `model = "rules"`."""
        return (self.settings.get(scope, {}).get("model") or self.settings[CHAT]["model"]) == RULES

    @property
    def workers(self) -> int:
        """Return how many requests of a build may be in flight together.

        Each server has a limit of its own too.
        """
        return max(
            int(str(values.get("workers") or 1))
            for scope, values in self.settings.items()
            if scope not in _NON_CHAT_SCOPES
        )

    def llm(self, scope: str, budget: Budget, previous_model: str = "", generation: int = 0) -> CachedLLM:
        """Return the LLM of a scope. Raise SettingsError without a model.

        previous_model: the fingerprint of the model that made its table, if there is one: then the error comes with
        the first uncached request.
        """
        chat = self.chat(scope) or (MissingChat(previous_model, scope) if previous_model else None)
        if chat is None:
            raise SettingsError(f"{scope} needs a chat model: {SET_MODEL_HINT}")
        return CachedLLM(chat, self.cache(), budget, scope, generation)

    @cached_property
    def paid_embedder(self) -> openai.OpenAIEmbedder | None:
        """Return the embedding model, if one is set."""
        settings: dict[str, Any] = dict(self.settings[EMBEDDING])
        if not settings["model"]:
            return None
        embedder = openai.create_embedder(**settings)
        self._servers[EMBEDDING] = embedder.server
        return embedder

    def embedder(self, budget: Budget) -> Embedder:
        """Return the embedding model of the settings, or the local one."""
        model = self.paid_embedder
        if model is None:
            return LocalEmbedder()
        reserve = budget.reserve(EMBEDDING, model.fingerprint, model.prices, reply=0)
        return CachedEmbedder(replace(model, reserve=reserve), self.cache())

    @cached_property
    def paid_reranker(self) -> RerankClient | None:
        """Return the client of the reranking server, if one is set."""
        settings: dict[str, Any] = dict(self.settings[RERANKING])
        if not (settings["model"] and settings["base_url"]):
            return None
        client = create_rerank_client(**settings)
        self._servers[RERANKING] = client.server
        return client

    def endpoint_scorer(self, budget: Budget) -> RelevanceScorer:
        """Return the scorer of the reranking server. Raise SettingsError without one."""
        client = self.paid_reranker
        if client is None:
            raise SettingsError(
                'reranker = "endpoint" needs a reranking server: set `model` and `base_url` under [reranking] in '
                'kumi.toml, or KUMI_RERANKING_MODEL and KUMI_RERANKING_BASE_URL; reranker = "model" asks the chat model'
            )
        reserve = budget.reserve(RERANKING, client.fingerprint, client.prices, reply=0)
        return CachedScorer(replace(client, reserve=reserve), self.cache())

    def candidate_reranker(self, scope: str, budget: Budget, generation: int = 0) -> CandidateReranker:
        """Return the reranker of a method."""

        def llm_scorer() -> RelevanceScorer:
            if self.chat(scope) is None:  # the method itself may need no chat model
                raise SettingsError(f'{scope}.reranker = "model" needs a chat model: {SET_MODEL_HINT}')
            return listwise_scorer(self.llm(scope, budget, generation=generation))

        settings: dict[str, Any] = dict(self.settings[RERANKING])
        scorers: dict[RerankerName, Callable[[], RelevanceScorer]] = {
            "model": llm_scorer,
            "endpoint": lambda: self.endpoint_scorer(budget),
        }
        return CandidateReranker(scorers, create_rerank_client(**settings).candidates)
