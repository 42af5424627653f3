"""question + method -> Plan: what it would cost to ask, found by asking models that answer from nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import count, islice
from threading import Lock
from typing import TYPE_CHECKING, Any

from kumihimo.app.cost import Asked, estimated, history
from kumihimo.app.results import Estimate, Plan, Range
from kumihimo.app.snapshot import Reading
from kumihimo.core.context import Ruler
from kumihimo.core.errors import ItemFailed, Malformed
from kumihimo.core.wiring import ROOT
from kumihimo.llm.budget import Caps, Purse
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING, Asking, Remembered
from kumihimo.llm.protocols import Chat, Embedder, Messages
from kumihimo.llm.registry import Connections
from kumihimo.llm.rerank import Judge
from kumihimo.llm.rerank_client import RememberedScores
from kumihimo.llm.structured import Reply
from kumihimo.storage.sqlite.response_cache import Memo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_QUOTED = 80  # characters of a document, so that a question that nobody has asked finds something
_ITEMS = 8  # of a list, where replies are as full as may be; with _SIZE about 500 tokens
_SIZE = 200  # bytes of a text within a reply
_LENGTH = 1600  # bytes of a reply that is a text
_DEEP = 6  # schemas may hold themselves
_HIGHEST = 100  # of a number without a maximum: as scores go
Schema = Mapping[str, Any]


def rehearsed(reading: Reading, question: str, name: str, *, where: str = "", **settings: Any) -> Plan:
    """What `reading.ask` would ask of models, from the least to the most; nobody is asked, nothing is kept.

    The method itself is run, twice: once on replies that say as little as may be, no, nothing, 0, and once on such
    as say as much as may be. What is remembered answers as it did, and costs nothing.
    """
    question, options = question or any_question(reading), {"where": where, **settings}
    least, most = (_estimated(reading, question, name, options, full=full) for full in (False, True))
    return between(least, most)


def between(least: Plan, most: Plan) -> Plan:
    """Of each step from one to the other."""
    there = {e.step: e for e in least.estimates}
    estimates = [_between(there.pop(e.step, None), e) for e in most.estimates]
    estimates += [_between(None, e) for e in there.values()]
    return Plan(tuple(estimates), tuple(dict.fromkeys(least.unknown + most.unknown)))


def any_question(reading: Reading) -> str:
    """One of no matter what, in words that the documents use."""
    documents = reading.table(ROOT)
    first = [documents[id] for (id,) in islice(documents.columns("id"), 1)]
    said = " ".join(text for document in first for text in document.text[document.body :][:_QUOTED].split())
    return f"What are the main themes of these documents, and what has this to do with them: {said}"


def _estimated(reading: Reading, question: str, name: str, options: Mapping[str, Any], *, full: bool) -> Plan:
    asked: dict[str, Asked] = {}
    stand_in = StandIn.of(reading.models, reading.ruler, asked, full=full, like=reading)
    unknown: tuple[str, ...] = ()
    try:
        replace(reading, models=stand_in, lines={}, held={}).ask(question, name, **options)
    except ItemFailed:  # it made nothing of replies that say nothing: how it goes on is not known
        unknown = (name or reading.usual(),)
    spent = reading.models.memo().usage() if asked else []
    return replace(estimated(asked, {}, history(spent, asked), spent), unknown=unknown)


def _between(least: Estimate | None, most: Estimate) -> Estimate:
    """From one to the other; which of them is more is not said, for a no may lead further than a yes."""
    if least is None:
        least = replace(most, calls=(0, 0), prompt_tokens=(0, 0), completion_tokens=(0, 0))
        least = replace(least, cost=most.cost and (0, 0), seconds=most.seconds and (0, 0))
    calls = _both(least.calls, most.calls)
    return replace(
        most,
        exact=calls[0] == calls[1],
        calls=calls,
        prompt_tokens=_both(least.prompt_tokens, most.prompt_tokens),
        completion_tokens=_both(least.completion_tokens, most.completion_tokens),
        cost=_both(least.cost, most.cost) if least.cost and most.cost else None,
        seconds=_both(least.seconds, most.seconds) if least.seconds and most.seconds else None,
    )


def _both(one: Range, other: Range) -> Range:
    return (min(one[0], other[0]), max(one[1], other[1]))


# -- models that answer from nothing


@dataclass
class StandIn(Connections):
    """Those that the settings name, by name only. length: of the vectors that texts would have."""

    asked: dict[str, Asked] = field(kw_only=True)  # by scope
    real: Connections = field(kw_only=True)
    ruler: Ruler = field(kw_only=True)
    full: bool = field(kw_only=True)
    length: int = field(default=1, kw_only=True)
    made_up: dict[bytes, bytes] = field(default_factory=dict, kw_only=True)  # replies so far

    def __post_init__(self) -> None:
        self.kept = _Kept(self.memo, self.made_up)

    @classmethod
    def of(
        cls,
        real: Connections,
        ruler: Ruler,
        asked: dict[str, Asked],
        *,
        full: bool,
        made_up: dict[bytes, bytes] | None = None,
        like: Reading | None = None,
    ) -> StandIn:
        """In place of those. like: an index, which has vectors of theirs."""
        length = next((matrix.shape[1] for matrix in like.matrices.values()), 1) if like else 1
        held = {} if made_up is None else made_up
        return cls(
            real.settings, real.memo, asked=asked, real=real, ruler=ruler, full=full, length=length, made_up=held
        )

    def chat(self, scope: str) -> Chat | None:
        return self.real.chat(scope)

    def purse(self, _: Caps | None = None, within: Purse | None = None) -> Purse:  # noqa: ARG002
        return Purse()

    def asking(self, scope: str, purse: Purse, before: str = "", generation: int = 0) -> Asking:
        real = self.real.asking(scope, purse, before, generation)
        asked = self.asked.setdefault(scope, Asked(real.mark, real.chat.prices, real.chat.workers))
        memo: Any = self.kept
        return _Asking(real.chat, memo, purse, scope, generation, asked=asked, ruler=self.ruler, full=self.full)

    def embedder(self, purse: Purse) -> Embedder:
        paid = self.real.paid_embedder
        if paid is None:
            return self.real.embedder(purse)
        asked = self.asked.setdefault(EMBEDDING, Asked(paid.mark, paid.prices, paid.workers))
        memo: Any = self.kept
        return _Embedding(paid, memo, asked=asked, ruler=self.ruler, length=self.length)

    def reranker(self, purse: Purse) -> Judge:
        paid = self.real.paid_reranker
        if paid is None:
            return super().reranker(purse)
        asked = self.asked.setdefault(RERANKING, Asked(paid.mark, paid.prices, paid.workers))
        memo: Any = self.kept
        return _Reranking(paid, memo, asked=asked, ruler=self.ruler)


@dataclass(slots=True)
class _Kept:
    """A memo that answers, and adds nothing to the one that is kept. Equal requests are one."""

    real: Callable[[], Memo]
    made_up: dict[bytes, bytes] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def reply(self, key: bytes, ask: Callable[[], bytes]) -> bytes:
        with self.lock:
            found = self.made_up.get(key) or self.real().known([key]).get(key)
            if found is None:
                found = self.made_up[key] = ask()
            return found

    def known(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted = list(keys)
        return self.real().known(wanted) | {key: self.made_up[key] for key in wanted if key in self.made_up}

    def keep(self, replies: Iterable[tuple[bytes, bytes]]) -> None:
        self.made_up |= dict(replies)


@dataclass(frozen=True, slots=True)
class _Asking(Asking):
    """Replies of the wanted form are made up; requests are counted."""

    asked: Asked = field(kw_only=True)
    ruler: Ruler = field(kw_only=True)
    full: bool = field(kw_only=True)

    def __call__(self, prompt: str | Messages, *, read: Callable[[Reply], Any] | None = None, **options: Any) -> Any:
        """As ever; where a form of its own is read, whatever of a few replies can be read is the reply."""
        tried = ("10", "yes", "[]", "{}") if self.full else ("0", "no", "[]", "{}")

        def readable(reply: Reply) -> Any:
            assert read
            for text in (reply.raw, *tried):
                with suppress(Malformed):
                    return read(replace(reply, raw=text))
            return read(reply)

        # the explicit form: `super()` does not reach out of a class with slots
        return Asking.__call__(self, prompt, read=readable if read else None, **options)

    def _pay(self, asked: bytes, messages: Messages, schema: Any, _hear: Any, _given: Any, further: int) -> Reply:
        told = [message["content"] for message in messages]
        self.asked.note(told, self.ruler, further)
        texts = _texts(told[-1], int.from_bytes(asked[:4], "big"), full=self.full)
        if schema is None:
            return Reply(next(texts) if not self.full else " ".join(next(texts) for _ in range(_LENGTH // _SIZE)))
        return Reply(json.dumps(_made_up(schema, schema, texts, full=self.full), ensure_ascii=False))


@dataclass(frozen=True, slots=True)
class _Embedding(Remembered):
    """Vectors that point nowhere in particular; texts are counted."""

    asked: Asked = field(kw_only=True)
    ruler: Ruler = field(kw_only=True)
    length: int = field(kw_only=True)

    def _pay(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        self.asked.note(texts, self.ruler)
        return np.full((len(texts), self.length), self.length**-0.5, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _Reranking(RememberedScores):
    """Judgements that leave all as it is; texts are counted."""

    asked: Asked = field(kw_only=True)
    ruler: Ruler = field(kw_only=True)

    def _pay(self, question: str, texts: Sequence[str]) -> bytes:
        self.asked.note([question, *texts], self.ruler)
        return json.dumps([0.0] * len(texts)).encode()


def _texts(prompt: str, start: int, *, full: bool) -> Iterator[str]:
    """Texts in the prompt's own words, each another: a single "no", or some stretch of it."""
    size = max(_SIZE * len(prompt) // max(len(prompt.encode()), 1), 1)
    for n in count():
        at = (start + n * size) % max(len(prompt), 1)
        yield f"{n + 1}. {prompt[at : at + size] or prompt[:size]}" if full else "no"


def _made_up(schema: Schema, root: Schema, texts: Iterator[str], depth: int = 0, *, full: bool) -> Any:
    """The least that fits a schema; or, where `full`, the most that may be expected."""
    full = full and depth < _DEEP

    def made(part: Schema) -> Any:
        return _made_up(part, root, texts, depth + 1, full=full)

    if arms := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return made(min(arms, key=lambda arm: (arm.get("type") == "null") == full))
    if "$ref" in schema:
        return made(reduce(lambda held, name: held[name], schema["$ref"].split("/")[1:], root))
    if "enum" in schema or "const" in schema:
        return _chosen(schema.get("enum", [schema.get("const")]), full=full)
    kind = schema.get("type", "object")
    if kind == "object":
        return {name: made(part) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return _listed(schema, made, full=full)
    if kind == "string":
        return next(texts)
    return {"boolean": full, "null": None}.get(kind, _number(schema, full=full))


def _chosen(choices: Sequence[Any], *, full: bool) -> Any:
    """No and yes, where one may say so; or else the first and the last."""
    wanted, place = ("yes", -1) if full else ("no", 0)
    return next((choice for choice in choices if str(choice).casefold() == wanted), choices[place])


def _listed(schema: Schema, made: Callable[[Schema], Any], *, full: bool) -> list[Any]:
    if "prefixItems" in schema:
        return [made(part) for part in schema["prefixItems"]]
    size = max(schema.get("minItems", 0), min(schema.get("maxItems", _ITEMS), _ITEMS) if full else 0)
    item: Schema = schema.get("items", {})
    if item.get("type") in ("integer", "number"):  # they name sources, one each
        return [*range(1, size + 1)]
    return [made(item) for _ in range(size)]


def _number(schema: Schema, *, full: bool) -> int:
    return int(schema.get("maximum", _HIGHEST) if full else max(schema.get("minimum", 0), 0))
