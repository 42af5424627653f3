"""settings -> the model of each step, method and role: one for all, or one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Union

from kumihimo.core.errors import SettingsError
from kumihimo.core.settings import Setting, Values
from kumihimo.core.signature import settings_of
from kumihimo.ports import openai
from kumihimo.ports.asking import EMBEDDING, Asking, Remembered
from kumihimo.ports.local import LocalEmbedder
from kumihimo.ports.memo import Memo
from kumihimo.ports.models import Chat, Embedder
from kumihimo.ports.purse import Caps, Purse

CHAT = "chat"
MODELS: Mapping[str, Mapping[str, Setting]] = {
    CHAT: settings_of(openai.chat),
    EMBEDDING: settings_of(openai.embedding),
}


def borrowed(own: Mapping[str, Setting]) -> dict[str, Setting]:
    """Settings of `[chat]` that whoever asks may have of its own: none, unless they are set there."""
    given = MODELS[CHAT].values()
    return {s.name: Setting(s.name, Union[s.type, None], None) for s in given if s.name not in own}  # noqa: UP007


@dataclass
class Connections:
    """The models that the settings name. Nothing is connected to until it is asked.

    settings: of the scopes `chat` and `embedding`, and of each scope that asks what it has of its own.
    """

    settings: Values
    memo: Callable[[], Memo]
    _made: dict[str, openai.OpenAIChat] = field(default_factory=dict)

    def purse(self, caps: Caps | None = None) -> Purse:
        """For one command or one question; what is spent is noted in the memo. Servers given up get another chance."""
        servers = [chat.server for chat in self._made.values()]
        if caps and caps.cost is not None and not any(self._prices()):
            raise SettingsError(
                "a cap on cost needs prices: prompt_price and completion_price under [chat], price under [embedding]"
            )
        for server in [*servers, *([self.paid_embedder.server] if self.paid_embedder else [])]:
            server.hope()

        def record(*spent: Any) -> None:
            self.memo().note(*spent)

        return Purse(caps, record)

    def _prices(self) -> list[object]:
        """Every price that is set anywhere."""
        return [v for scope in self.settings.values() for name, v in scope.items() if name.endswith("price") and v]

    def chat(self, scope: str) -> Chat | None:
        """The chat model of a step, method or role, if one is set."""
        own = {name: value for name, value in self.settings.get(scope, {}).items() if value is not None}
        given: dict[str, Any] = {**self.settings[CHAT], **own}
        if not given["model"]:
            return None
        wanted = repr(sorted(given.items()))
        if wanted not in self._made:  # scopes that ask alike share one server's pace
            self._made[wanted] = openai.chat(**given)
        return self._made[wanted]

    @property
    def workers(self) -> int:
        """How many requests of a build may be under way together."""
        return int(str(self.settings[CHAT]["workers"]))

    def asking(self, scope: str, purse: Purse) -> Asking:
        """`Ask` for that scope. Raises SettingsError where no model is set."""
        chat = self.chat(scope)
        if chat is None:
            raise SettingsError(
                f'{scope} needs a chat model: set `model = "..."` under [chat] in kumi.toml, or KUMI_CHAT_MODEL'
            )
        return Asking(chat, self.memo(), purse, scope)

    @cached_property
    def paid_embedder(self) -> openai.OpenAIEmbedder | None:
        """The embedding model, if one is set."""
        given: dict[str, Any] = dict(self.settings[EMBEDDING])
        return openai.embedding(**given) if given["model"] else None

    def embedder(self, purse: Purse) -> Embedder:
        """The embedding model that is set, or the one inside this process."""
        paid = self.paid_embedder
        if paid is None:
            return LocalEmbedder()
        allow = purse.allow(EMBEDDING, paid.mark, paid.prices, reply=0)
        return Remembered(replace(paid, allow=allow), self.memo(), purse)
