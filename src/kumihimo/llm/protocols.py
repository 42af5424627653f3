"""model servers -> Chat, Embedder, Ask, Near, Match, Rank: what may be asked of the world, and the only threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, overload

from kumihimo.core.context import Context
from kumihimo.core.usage import Usage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kumihimo.llm.structured import Reply

A = TypeVar("A")
B = TypeVar("B")

Messages = Sequence[Mapping[str, str]]  # {"role": ..., "content": ...}, oldest first
Charge = Callable[[Usage], None]  # says what a request cost; of one that no server charges for nothing is said
Reserve = Callable[[int], AbstractContextManager[Charge]]  # bytes of a prompt -> leave to send it; raises Capped
TokenCallback = Callable[[str], None]  # is told a reply piece by piece, as it comes
RerankerName = Literal[
    "none", "model", "endpoint"
]  # who puts candidates in order: nobody, a chat model, a server for that


@dataclass(frozen=True, slots=True)
class Prices:
    """What a model's server charges, for a million tokens each, in whatever currency; None: nobody has said."""

    prompt: float | None = None
    cached: float | None = None  # prompt tokens that the server had in its cache; None: as much as the others
    completion: float | None = None
    search: float | None = None  # for a thousand searches, of servers that count those

    def cost(self, prompt: int, cached: int, completion: int, searches: int = 1) -> float:
        """
        >>> Prices(prompt=2.0, cached=0.5, completion=8.0).cost(1_000_000, 400_000, 100_000)
        2.2
        >>> Prices(search=2.0).cost(9000, 0, 0, searches=3)
        0.006
        """
        fresh = self.prompt or 0.0
        kept = fresh if self.cached is None else self.cached
        tokens = (prompt - cached) * fresh + cached * kept + completion * (self.completion or 0.0)
        return round(tokens / 1e6 + searches * (self.search or 0.0) / 1e3, 12)

    @property
    def is_set(self) -> bool:
        """Whether anything was said of them."""
        return any(price is not None for price in (self.prompt, self.completion, self.search))


@contextmanager
def reserve_nothing(_: int) -> Iterator[Charge]:
    """Leave to send whatever is asked, which nobody counts."""
    yield lambda _: None


class Chat(Protocol):
    """A chat model: messages -> its reply, each request sent by leave of `allow`.

    determined_by: all that decides a reply, beside the messages and the schema.
    schema: the JSON schema of the reply that is wanted; parameters: of the model, such as temperature; hear: is told
    the reply while it comes.
    Raises ItemFailed when this one has failed for good, ModelError when every one would.
    """

    @property
    def fingerprint(self) -> str: ...  # the model's name, and whatever else decides what it says
    def determined_by(self, parameters: Mapping[str, Any], *, structured: bool) -> Mapping[str, Any]: ...
    @property
    def prices(self) -> Prices: ...
    @property
    def workers(self) -> int: ...  # how many requests may be under way together
    def __call__(
        self,
        messages: Messages,
        *,
        reserve: Reserve,
        schema: Mapping[str, Any] | None = None,
        on_token: TokenCallback | None = None,
        **parameters: Any,
    ) -> Reply: ...


class Embedder(Protocol):
    """Texts -> vectors of length 1, shape (texts, dimensions), float32: each row depends on its own text only."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def batch(self) -> int: ...  # how many texts to give it together
    @property
    def workers(self) -> int: ...
    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class LLM(Protocol):
    """The paid verb: a chat model's reply to a prompt, or to a conversation, as a text or as what it says.

    into: a frozen dataclass, a Literal, a list of such: the model is asked for JSON of that form. read: reply -> value;
    raises Malformed, whose text is told to the model when it is asked again; beside `into` it reads that form. sample:
    which of several replies to the same prompt is meant. hear: is told the reply while it comes. further: how many
    turns of the conversation may follow this one, for whoever has to say before what it costs. Raises ItemFailed where
    no reply could be had, or none that can be read.
    """

    @property
    def fingerprint(self) -> str: ...
    @property
    def workers(self) -> int: ...  # how many may be asked side by side
    @overload
    def __call__(
        self,
        prompt: str | Messages,
        *,
        schema: type[B],
        parse: Callable[[Reply], A],
        sample: int = 0,
        followups: int = 0,
        **parameters: Any,
    ) -> A: ...
    @overload
    def __call__(
        self, prompt: str | Messages, *, schema: type[A], sample: int = 0, followups: int = 0, **parameters: Any
    ) -> A: ...
    @overload
    def __call__(
        self,
        prompt: str | Messages,
        *,
        parse: Callable[[Reply], A],
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
    ) -> A: ...
    @overload
    def __call__(
        self,
        prompt: str | Messages,
        *,
        sample: int = 0,
        on_token: TokenCallback | None = None,
        followups: int = 0,
        **parameters: Any,
    ) -> str: ...
    def samples(self, prompt: str | Messages, count: int, **parameters: Any) -> list[str]: ...


class Reranker(Protocol):
    """Put in order what was found for a question: first what speaks to it most.

    by: whom the first `candidates` are judged by; by nobody, all stay as they are. Those judged score from 1 to 2,
    equal ones as they stood; the others follow below 1. Raises ItemFailed where no judgement could be had.
    """

    @property
    def candidates(self) -> int: ...
    def __call__(self, question: str, context: Context, reranker: RerankerName) -> Context: ...
