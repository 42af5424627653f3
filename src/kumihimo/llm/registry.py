"""settings -> the model of each step, method and role: one for all, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, Values
from kumihimo.core.signature import settings_of
from kumihimo.llm import openai
from kumihimo.llm.budget import Caps, Purse
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, Asking, Remembered
from kumihimo.llm.local_embedder import LocalEmbedder
from kumihimo.llm.protocols import Chat, Embedder, Messages, Prices, Rerank
from kumihimo.llm.rerank import Judge, Ranking, listwise
from kumihimo.llm.rerank_client import Endpoint, RememberedScores, reranking
from kumihimo.llm.structured import Reply
from kumihimo.llm.transport import Server
from kumihimo.storage.sqlite.response_cache import Memo

CHAT = "chat"
RULES = "rules"  # the model of a step that is to do without one
CONNECTION = ("model", "base_url", "key", "api_version", "timeout", "retries", "workers")
LIMITS = ("requests_per_minute", "tokens_per_minute")
MODELS: Mapping[str, Mapping[str, Setting]] = {
    CHAT: settings_of(openai.chat),
    EMBEDDING: settings_of(openai.embedding),
    RERANKING: settings_of(reranking),
}
_OTHERS = (EMBEDDING, RERANKING)  # models that are no chat models

SET = 'set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'


@dataclass(frozen=True, slots=True)
class Gone:
    """A chat model that a table was made by, and that is not set any more: nothing is made anew before it is asked."""

    mark: str
    scope: str
    workers: int = 1
    prices: Prices = field(default_factory=Prices)

    def determined_by(self, parameters: Mapping[str, Any], **_: bool) -> dict[str, Any]:
        return {"gone": self.mark, **parameters}

    def __call__(self, messages: Messages, **_: Any) -> Reply:  # noqa: ARG002
        given_up = '; `model = "rules"` there goes on without one'
        raise SettingsError(f"{self.scope} was made by {self.mark}, and no model is set now: {SET}{given_up}")


def borrowed(own: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings of `[chat]` that whoever asks may have of its own: none, unless they are set there."""
    given = MODELS[CHAT].values()
    return {s.name: Setting(s.name, s.type | None, None) for s in given if s.name not in own}


@dataclass
class Connections:
    """The models that the settings name. Nothing is connected to until it is asked.

    settings: of the scopes `chat`, `embedding` and `reranking`, and of each scope that asks what it has of its own.
    """

    settings: Values
    memo: Callable[[], Memo]
    _made: dict[str, openai.OpenAIChat] = field(default_factory=dict)
    _servers: dict[str, Server] = field(default_factory=dict)  # those who ask one model in one place share its pace

    def purse(self, caps: Caps | None = None, within: Purse | None = None) -> Purse:
        """For one command or one question; what is spent is noted in the memo. Servers given up get another chance.

        within: the purse of a command whose questions have one each.
        """
        for server in () if within else self._servers.values():
            server.hope()
        if caps and caps.cost is not None and (dear := self._without_prices()):
            raise SettingsError(f"a cap on cost needs prices: set {' and '.join(dear)}, 0 for what is free")

        def record(*spent: Any) -> None:
            self.memo().note(*spent)

        return Purse(caps, None if within else record, within)

    def _without_prices(self) -> list[str]:
        """The settings that would say what the models cost, where nobody has said."""
        chats = {scope: self.chat(scope) for scope in self.settings if scope not in _OTHERS}
        missing = [f"{scope}.prompt_price" for scope, chat in chats.items() if chat and not chat.prices.known]
        paid = {f"{EMBEDDING}.price": self.paid_embedder, f"{RERANKING}.price": self.paid_reranker}
        return missing[:1] + [name for name, model in paid.items() if model and not model.prices.known]

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
        if wanted not in self._made:
            chat = openai.chat(**given)
            connection = repr([given[name] for name in (*CONNECTION, *LIMITS)])
            self._made[wanted] = replace(chat, server=self._servers.setdefault(connection, chat.server))
        return self._made[wanted]

    def by_rule(self, scope: str) -> bool:
        """Whether that scope is told to do without a model, not only without one that is set."""
        return (self.settings.get(scope, {}).get("model") or self.settings[CHAT]["model"]) == RULES

    @property
    def workers(self) -> int:
        """How many requests of a build may be under way together; each server has its own limit besides."""
        return max(int(str(own.get("workers") or 1)) for scope, own in self.settings.items() if scope not in _OTHERS)

    def asking(self, scope: str, purse: Purse, before: str = "", generation: int = 0) -> Asking:
        """`Ask` for that scope. before: the mark of the model that its table was made by, if it was.

        Raises SettingsError where no model is set, or none any more; then not before it is asked.
        """
        chat = self.chat(scope) or (Gone(before, scope) if before else None)
        if chat is None:
            raise SettingsError(f"{scope} needs a chat model: {SET}")
        return Asking(chat, self.memo(), purse, scope, generation)

    @cached_property
    def paid_embedder(self) -> openai.OpenAIEmbedder | None:
        """The embedding model, if one is set."""
        given: dict[str, Any] = dict(self.settings[EMBEDDING])
        if not given["model"]:
            return None
        made = openai.embedding(**given)
        self._servers[EMBEDDING] = made.server
        return made

    def embedder(self, purse: Purse) -> Embedder:
        """The embedding model that is set, or the one inside this process."""
        paid = self.paid_embedder
        if paid is None:
            return LocalEmbedder()
        allow = purse.allow(EMBEDDING, paid.mark, paid.prices, reply=0)
        return Remembered(replace(paid, allow=allow), self.memo())

    @cached_property
    def paid_reranker(self) -> Endpoint | None:
        """The server that reranks, if one is set."""
        given: dict[str, Any] = dict(self.settings[RERANKING])
        if not (given["model"] and given["base_url"]):
            return None
        made = reranking(**given)
        self._servers[RERANKING] = made.server
        return made

    def reranker(self, purse: Purse) -> Judge:
        """The server that reranks. Raises SettingsError where none is set."""
        paid = self.paid_reranker
        if paid is None:
            raise SettingsError(
                'rerank = "endpoint" needs a server that reranks: set `model` and `base_url` under [reranking] in '
                'kumi.toml, or KUMI_RERANKING_MODEL and KUMI_RERANKING_BASE_URL; rerank = "model" asks the chat model'
            )
        allow = purse.allow(RERANKING, paid.mark, paid.prices, reply=0)
        return RememberedScores(replace(paid, allow=allow), self.memo())

    def ranking(self, scope: str, purse: Purse, generation: int = 0) -> Ranking:
        """`Rank` for that method."""

        def model() -> Judge:
            if self.chat(scope) is None:  # the method may need none itself
                raise SettingsError(f'{scope}.rerank = "model" needs a chat model: {SET}')
            return listwise(self.asking(scope, purse, generation=generation))

        given: dict[str, Any] = dict(self.settings[RERANKING])
        judges: dict[Rerank, Callable[[], Judge]] = {"model": model, "endpoint": lambda: self.reranker(purse)}
        return Ranking(judges, reranking(**given).candidates)
