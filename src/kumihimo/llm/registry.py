"""settings -> the model of each step, method and role: one for all, or one for each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from kumihimo.core import digests, signature
from kumihimo.core.cancel import CancelToken
from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, SettingValues
from kumihimo.core.usage import Usage
from kumihimo.llm import openai, rerank, transport
from kumihimo.llm.budget import Account, Budget, CacheLedger, Caps
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, CachedEmbedder, Chat, StructuredLLM, connect_model, create_llm
from kumihimo.llm.functions import ModelFunction, missing_function
from kumihimo.llm.local_embedder import LOCAL_PREFIX, LocalEmbedder, create_local_embedder, is_local_model
from kumihimo.llm.protocols import FUNCTION_PREFIX, ChatRequest, Embedder, Prices, Reply, RerankerName, TextsReply
from kumihimo.llm.recorded import RECORDED_PREFIX, RecordedChat
from kumihimo.storage.request_times import RequestTimes
from kumihimo.storage.response_cache import ResponseCache

CHAT = "chat"
RULES = "rules"  # the model setting of a step that uses rules instead
_SERVER_SETTINGS = (  # equal ones share one rate limiter
    "model",
    "base_url",
    "key",
    "api_version",
    "timeout",
    "retries",
    "patience",
    "workers",
    "requests_per_minute",
    "tokens_per_minute",
)
MODEL_SETTINGS: Mapping[str, Mapping[str, Setting]] = {
    CHAT: signature.settings_of(openai.OpenAIChat),
    EMBEDDING: signature.settings_of(openai.OpenAIEmbedder),
    RERANKING: signature.settings_of(rerank.RerankClient),
}
_NON_CHAT_SCOPES = (EMBEDDING, RERANKING)
_LOCAL_TABLES = ("chunks",)  # of a model inside this process, if none are set: it needs much time

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
    server: None = None

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"gone": self.fingerprint, **parameters}

    def __call__(self, _: ChatRequest) -> Reply:
        remedy = f'{SET_MODEL_HINT}; set `model = "rules"` there to go on without one'
        raise SettingsError(f"{self.scope} was made by {self.fingerprint}, and no model is set now: {remedy}")


def scope_chat_settings(own_settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the `[chat]` settings a scope may override; all default to None."""
    return {setting.name: setting for setting in _unset_chat_settings() if setting.name not in own_settings}


@cache
def _unset_chat_settings() -> tuple[Setting, ...]:
    return tuple(replace(setting, type=setting.type | None, default=None) for setting in MODEL_SETTINGS[CHAT].values())


@dataclass
class ModelRegistry:
    """The models of the settings, connected at their first request.

    settings: of the scopes `chat`, `embedding` and `reranking`, and of each scope that overrides them. base: the
    folder that the paths of recorded models are relative to. functions: in place of a server, by kind of model.
    """

    settings: SettingValues
    cache: Callable[[], ResponseCache]
    base: Path = Path()
    functions: Mapping[str, ModelFunction] = field(default_factory=dict)
    _chats: dict[str, Chat] = field(default_factory=dict)
    _servers: dict[str, transport.ModelServer] = field(default_factory=dict)  # equal connections share one rate limiter

    def budget(
        self, caps: Caps | None = None, parent: Budget | None = None, cancel: CancelToken | None = None
    ) -> Budget:
        """Return a budget for one command or one question.

        The response cache records its usage.
        parent: the budget of a command whose questions have one each. cancel: stops the command.
        """
        if caps and caps.cost is not None and (unpriced := self._scopes_without_prices()):
            raise SettingsError(f"a cap on cost needs prices: set {' and '.join(unpriced)}, 0 for a free model")
        return Budget(caps, None if parent else CacheLedger(self.cache), parent, cancel=cancel)

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
            self._chats[model_key] = self._connect(merged)
        return self._chats[model_key]

    def _connect(self, values: Mapping[str, Any]) -> Chat:
        """Return the model with these settings."""
        prefix, is_recorded, path = values["model"].partition(RECORDED_PREFIX)
        if is_recorded and not prefix:
            return RecordedChat(self.base / path, values["workers"])
        chat = openai.OpenAIChat(**values)
        key = repr([values[name] for name in _SERVER_SETTINGS])
        chat.server = self._servers.setdefault(key, self._equip(chat.server, CHAT, values))
        return chat

    def _equip(self, server: transport.ModelServer, kind: str, values: Mapping[str, Any]) -> transport.ModelServer:
        """Return the server with its function, and limits that all processes share."""
        if values["model"].startswith(FUNCTION_PREFIX):
            server.function = self.functions.get(kind)
            if server.function is None or server.function.name != values["model"]:
                raise missing_function(kind, values["model"])
        if server.limiter.has_limits:
            account = digests.hash_parts(values["model"], values["base_url"], values["key"])
            server.limiter.times = RequestTimes(lambda: self.cache().database, account)
        return server

    def servers(self) -> dict[str, transport.ModelServer]:
        """Return the server of each chat model by its address."""
        chats = [self.chat(scope) for scope in self.settings if scope not in _NON_CHAT_SCOPES]
        return {chat.server.display_url: chat.server for chat in chats if chat and chat.server}

    def uses_rules(self, scope: str) -> bool:
        """Return whether the scope is set to `model = "rules"`."""
        return (self.settings.get(scope, {}).get("model") or self.settings[CHAT]["model"]) == RULES

    @property
    def workers(self) -> int:
        """Return how many requests of a build may be in flight together.

        Each server has a limit of its own too.
        """
        chats = [values for scope, values in self.settings.items() if scope not in _NON_CHAT_SCOPES]
        return max(int(str(values.get("workers") or 1)) for values in chats)

    def required_chat(self, scope: str, previous_model: str = "") -> Chat:
        """Return the chat model of a scope. Raise SettingsError without one.

        previous_model: the fingerprint of the model that made its table, if there is one: then the error comes with
        the first uncached request.
        """
        if chat := self.chat(scope):
            return chat
        if previous_model:
            return MissingChat(previous_model, scope)
        raise SettingsError(f"{scope} needs a chat model: {SET_MODEL_HINT}")

    def llm(self, scope: str, budget: Budget, previous_model: str = "", generation: int = 0) -> StructuredLLM:
        """Return the LLM of a scope, as `required_chat` its model."""
        return create_llm(self.required_chat(scope, previous_model), self.cache(), budget, scope, generation)

    @cached_property
    def paid_embedder(self) -> openai.OpenAIEmbedder | None:
        """Return the embedding model of a server, if one is set."""
        settings: dict[str, Any] = dict(self.settings[EMBEDDING])
        is_server = settings["model"] and not settings["model"].startswith(LOCAL_PREFIX)
        if not is_server:
            return None
        embedder = openai.OpenAIEmbedder(**settings)
        self._equip(embedder.server, EMBEDDING, settings)
        return embedder

    @cached_property
    def local_embedder(self) -> Embedder | None:
        """Return the embedding model inside this process, if one is set."""
        name = str(self.settings[EMBEDDING]["model"])
        return create_local_embedder(name) if name.startswith(LOCAL_PREFIX) else None

    @property
    def embedding_tables(self) -> tuple[str, ...]:
        """Return the tables that the embedding model embeds; empty: all.

        The built-in one embeds the others.
        """
        tables: Any = self.settings[EMBEDDING]["tables"]
        return tuple(tables) or (_LOCAL_TABLES if self.local_embedder else ())

    def _embeds(self, table: str) -> bool:
        return not self.embedding_tables or table in self.embedding_tables

    def embedder(self, budget: Budget, table: str = "chunks") -> Embedder:
        """Return the embedder for the rows of a table."""
        if self._embeds(table) and (local := self.local_embedder):
            limits = local.batch, local.workers
            return CachedEmbedder(
                lambda r: TextsReply(local(r.texts), Usage()), local.fingerprint, *limits, self.cache()
            )
        if self._embeds(table) and (server := self.paid_embedder):
            return self._server_embedder(server, server.passage_prefix, budget)
        return LocalEmbedder()

    def query_embedder(self, budget: Budget, table: str, stored: str) -> Embedder:
        """Return the embedder for questions to a table.

        stored: the fingerprint of the model that embedded its rows; the settings may have changed since then.
        """
        if is_local_model(stored):
            return create_local_embedder(stored, is_query=True)
        if self._embeds(table) and (server := self.paid_embedder):
            return self._server_embedder(server, server.query_prefix, budget)
        return self.embedder(budget, table)

    def _server_embedder(self, model: openai.OpenAIEmbedder, prefix: str, budget: Budget) -> CachedEmbedder:
        account = Account(EMBEDDING, model.fingerprint, model.prices, reply=0)
        send, limits = connect_model(model, model.server, budget, account), (model.batch, model.workers)
        return CachedEmbedder(send, model.fingerprint, *limits, self.cache(), prefix, cancel=budget.cancel)

    @cached_property
    def _rerank_client(self) -> rerank.RerankClient:
        """Return the client of the reranking server, set or not."""
        settings: dict[str, Any] = dict(self.settings[RERANKING])
        client = rerank.RerankClient(**settings)
        self._equip(client.server, RERANKING, settings)
        return client

    @property
    def paid_reranker(self) -> rerank.RerankClient | None:
        """Return the client of the reranking server, if one is set."""
        client = self._rerank_client
        return client if client.model and (client.base_url or client.server.function) else None

    def endpoint_scorer(self, budget: Budget) -> rerank.RelevanceScorer:
        """Return the scorer of the reranking server. Raise SettingsError without one."""
        client = self.paid_reranker
        if client is None:
            raise SettingsError(
                'reranker = "endpoint" needs a reranking server: set `model` and `base_url` under [reranking] in '
                'kumi.toml, or KUMI_RERANKING_MODEL and KUMI_RERANKING_BASE_URL; reranker = "model" asks the chat model'
            )
        account = Account(RERANKING, client.fingerprint, client.prices, reply=0)
        send = connect_model(client, client.server, budget, account)
        return rerank.cached_scorer(send, client.fingerprint, self.cache(), budget.cancel)

    def candidate_reranker(self, scope: str, budget: Budget, generation: int = 0) -> rerank.CandidateReranker:
        """Return the reranker of a method."""

        def llm_scorer() -> rerank.RelevanceScorer:
            if self.chat(scope) is None:  # the method itself may need no chat model
                raise SettingsError(f'{scope}.reranker = "model" needs a chat model: {SET_MODEL_HINT}')
            return rerank.listwise_scorer(self.llm(scope, budget, generation=generation))

        scorers: dict[RerankerName, Callable[[], rerank.RelevanceScorer]] = {
            "model": llm_scorer,
            "endpoint": lambda: self.endpoint_scorer(budget),
        }
        return rerank.CandidateReranker(scorers, self._rerank_client.candidates)
