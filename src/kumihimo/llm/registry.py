"""settings -> the model of each step, method and role: one for all, or one of its own."""

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
RULES = "rules"  # the model of a step that is to do without one
CONNECTION_SETTINGS = ("model", "base_url", "key", "api_version", "timeout", "retries", "workers")
RATE_LIMIT_SETTINGS = ("requests_per_minute", "tokens_per_minute")
MODEL_SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    CHAT: settings_of(openai.create_chat),
    EMBEDDING: settings_of(openai.create_embedder),
    RERANKING: settings_of(create_rerank_client),
}
_NON_CHAT_SCOPES = (EMBEDDING, RERANKING)  # models that are no chat models

SET_MODEL_HINT = 'set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'


@dataclass(frozen=True, slots=True)
class MissingChat:
    """A chat model that a table was made by, and that is not set any more: nothing is made anew before it is asked."""

    fingerprint: str
    scope: str
    workers: int = 1
    prices: Prices = field(default_factory=Prices)

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"gone": self.fingerprint, **parameters}

    def __call__(self, messages: Messages, **_: Any) -> Reply:  # noqa: ARG002
        given_up = '; `model = "rules"` there goes on without one'
        raise SettingsError(
            f"{self.scope} was made by {self.fingerprint}, and no model is set now: {SET_MODEL_HINT}{given_up}"
        )


def scope_chat_settings(own: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings of `[chat]` that whoever asks may have of its own: none, unless they are set there."""
    given = MODEL_SETTINGS[CHAT].values()
    return {s.name: Setting(s.name, s.type | None, None) for s in given if s.name not in own}


@dataclass
class ModelRegistry:
    """The models that the settings name. Nothing is connected to until it is asked.

    settings: of the scopes `chat`, `embedding` and `reranking`, and of each scope that asks what it has of its own.
    """

    settings: SettingValues
    cache: Callable[[], ResponseCache]
    _chats: dict[str, openai.OpenAIChat] = field(default_factory=dict)
    _servers: dict[str, ModelServer] = field(
        default_factory=dict
    )  # those who ask one model in one place share its pace

    def budget(self, caps: Caps | None = None, parent: Budget | None = None) -> Budget:
        """For one command or one question; what is spent is noted in the memo. Servers given up get another chance.

        within: the purse of a command whose questions have one each.
        """
        for server in () if parent else self._servers.values():
            server.reset_circuit()
        if caps and caps.cost is not None and (dear := self._scopes_without_prices()):
            raise SettingsError(f"a cap on cost needs prices: set {' and '.join(dear)}, 0 for what is free")

        def record(*spent: Any) -> None:
            self.cache().record_usage(*spent)

        return Budget(caps, None if parent else record, parent)

    def _scopes_without_prices(self) -> list[str]:
        """The settings that would say what the models cost, where nobody has said."""
        chats = {scope: self.chat(scope) for scope in self.settings if scope not in _NON_CHAT_SCOPES}
        missing = [f"{scope}.prompt_price" for scope, chat in chats.items() if chat and not chat.prices.is_set]
        paid = {f"{EMBEDDING}.price": self.paid_embedder, f"{RERANKING}.price": self.paid_reranker}
        return missing[:1] + [name for name, model in paid.items() if model and not model.prices.is_set]

    def chat(self, scope: str) -> Chat | None:
        """The chat model of a step, method or role, if one is set."""
        own = {name: value for name, value in self.settings.get(scope, {}).items() if value is not None}
        given: dict[str, Any] = {**self.settings[CHAT], **own}
        if "model" in own:  # another model, another price
            given |= {name: own.get(name) for name in given if name.endswith("_price")}
        if "base_url" in own:  # another server is not told our key
            given["key"] = own.get("key", "")
        if given["model"] in ("", RULES):
            return None
        wanted = repr(sorted(given.items()))
        if wanted not in self._chats:
            chat = openai.create_chat(**given)
            connection = repr([given[name] for name in (*CONNECTION_SETTINGS, *RATE_LIMIT_SETTINGS)])
            self._chats[wanted] = replace(chat, server=self._servers.setdefault(connection, chat.server))
        return self._chats[wanted]

    def uses_rules(self, scope: str) -> bool:
        """Whether that scope is told to do without a model, not only without one that is set."""
        return (self.settings.get(scope, {}).get("model") or self.settings[CHAT]["model"]) == RULES

    @property
    def workers(self) -> int:
        """How many requests of a build may be under way together; each server has its own limit besides."""
        return max(
            int(str(own.get("workers") or 1)) for scope, own in self.settings.items() if scope not in _NON_CHAT_SCOPES
        )

    def llm(self, scope: str, budget: Budget, previous_model: str = "", generation: int = 0) -> CachedLLM:
        """`Ask` for that scope. before: the mark of the model that its table was made by, if it was.

        Raises SettingsError where no model is set, or none any more; then not before it is asked.
        """
        chat = self.chat(scope) or (MissingChat(previous_model, scope) if previous_model else None)
        if chat is None:
            raise SettingsError(f"{scope} needs a chat model: {SET_MODEL_HINT}")
        return CachedLLM(chat, self.cache(), budget, scope, generation)

    @cached_property
    def paid_embedder(self) -> openai.OpenAIEmbedder | None:
        """The embedding model, if one is set."""
        given: dict[str, Any] = dict(self.settings[EMBEDDING])
        if not given["model"]:
            return None
        made = openai.create_embedder(**given)
        self._servers[EMBEDDING] = made.server
        return made

    def embedder(self, budget: Budget) -> Embedder:
        """The embedding model that is set, or the one inside this process."""
        paid = self.paid_embedder
        if paid is None:
            return LocalEmbedder()
        allow = budget.reserve(EMBEDDING, paid.fingerprint, paid.prices, reply=0)
        return CachedEmbedder(replace(paid, reserve=allow), self.cache())

    @cached_property
    def paid_reranker(self) -> RerankClient | None:
        """The server that reranks, if one is set."""
        given: dict[str, Any] = dict(self.settings[RERANKING])
        if not (given["model"] and given["base_url"]):
            return None
        made = create_rerank_client(**given)
        self._servers[RERANKING] = made.server
        return made

    def endpoint_scorer(self, budget: Budget) -> RelevanceScorer:
        """The server that reranks. Raises SettingsError where none is set."""
        paid = self.paid_reranker
        if paid is None:
            raise SettingsError(
                'reranker = "endpoint" needs a server that reranks: set `model` and `base_url` under [reranking] in '
                'kumi.toml, or KUMI_RERANKING_MODEL and KUMI_RERANKING_BASE_URL; reranker = "model" asks the chat model'
            )
        allow = budget.reserve(RERANKING, paid.fingerprint, paid.prices, reply=0)
        return CachedScorer(replace(paid, reserve=allow), self.cache())

    def candidate_reranker(self, scope: str, budget: Budget, generation: int = 0) -> CandidateReranker:
        """`Rank` for that method."""

        def model() -> RelevanceScorer:
            if self.chat(scope) is None:  # the method may need none itself
                raise SettingsError(f'{scope}.reranker = "model" needs a chat model: {SET_MODEL_HINT}')
            return listwise_scorer(self.llm(scope, budget, generation=generation))

        given: dict[str, Any] = dict(self.settings[RERANKING])
        judges: dict[RerankerName, Callable[[], RelevanceScorer]] = {
            "model": model,
            "endpoint": lambda: self.endpoint_scorer(budget),
        }
        return CandidateReranker(judges, create_rerank_client(**given).candidates)
