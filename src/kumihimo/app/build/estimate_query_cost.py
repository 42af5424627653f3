"""method + settings + sizes of an index -> Plan: bounds on the model calls of one question."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kumihimo.app.ask.snapshot import Snapshot
from kumihimo.app.browse.community_tree import index_levels
from kumihimo.app.build.cost import call_seconds, price_estimate
from kumihimo.app.opened.catalogue import AUTO, WIDE_METHOD, WIDE_QUESTION, searching_method
from kumihimo.app.opened.results import Estimate, Plan, Range
from kumihimo.core.errors import SettingsError
from kumihimo.core.signature import QueryCost, Signature
from kumihimo.core.usage import Usage
from kumihimo.generation.answer import LENGTHS, PROMPT
from kumihimo.generation.search_again import MAX_QUERIES, OFFER_OF_MANY
from kumihimo.llm.cached_llm import EMBEDDING, RERANKING
from kumihimo.llm.prompts import prompt_frame
from kumihimo.llm.protocols import Prices
from kumihimo.text.question import ParsedQuestion

_TYPICAL_QUESTION_TOKENS = 30
_PASSAGE_TOKENS = 600  # of a candidate for a reranker, at most
_HEAD_TOKENS = 60  # tags, number and place of a source in a prompt
_UNDECLARED = QueryCost.for_calls((0, 10), (20, 8000))  # the built-in methods make 1 to 9 small calls, or declare more
_TOKENIZER_SPREAD: Range = (0.5, 1.2)  # tokens of a server, relative to those of the built-in tokenizer
_UNKNOWN_REPLY: Range = (16, 600)  # tokens of a reply, without earlier replies
_REPLY_SPREAD: Range = (0.7, 1.3)  # tokens of a reply, relative to earlier replies of the scope


def estimate_query_cost(
    snapshot: Snapshot,
    question: str,
    name: str,
    filter: str = "",
    settings: Mapping[str, Any] = MappingProxyType({}),
    *,
    is_remote: bool = False,
) -> Plan:
    """Estimate the minimum and maximum cost of `snapshot.ask`.

    The bounds follow from the settings of the method and the sizes of the index. Cached replies are not considered:
    they cost nothing. No model is called. Without a question, a typical length is assumed, and of the default method
    the costlier choice. A method that declares no
    bound is estimated at up to ten calls. is_remote: as for a query.
    """
    if question.strip() and (problem := ParsedQuestion(question).find_problem()):
        raise SettingsError(problem)
    may_widen = name in ("", AUTO) and not settings
    if name in ("", AUTO):
        asked = ParsedQuestion(question) if question.strip() else WIDE_QUESTION
        name = snapshot.default_method() if settings else snapshot.answering_method(asked)
    values = snapshot.settings_with(name, settings, is_remote=is_remote)
    snapshot.validate_method(name, settings, filter=filter)
    snapshot = snapshot.narrowed(filter)
    plan = _QueryEstimator(snapshot, snapshot.method(name), question, values).plan()
    has_rounds = snapshot.settings["answer"]["rounds"] != 0
    if not (may_widen and has_rounds and snapshot.can_read_widely) or name == WIDE_METHOD:
        return plan
    values = snapshot.settings_with(WIDE_METHOD, {})
    wide = _QueryEstimator(snapshot, snapshot.method(WIDE_METHOD), question, values).plan()
    return Plan((*(e for e in wide.estimates if e.step == WIDE_METHOD), *plan.estimates))


@dataclass(frozen=True)
class _QueryEstimator:
    """The estimate for one question by one method."""

    snapshot: Snapshot
    signature: Signature
    question: str
    values: Mapping[str, Any]  # the settings of the method

    def plan(self) -> Plan:
        bound, method = self.signature.declaration.calls, self.signature
        calls_llm = "llm" in method.ports and self.snapshot.models.chat(method.name) is not None
        may_call = calls_llm or "llm" not in method.ports
        cost = bound(self.values, self) if bound and may_call else _UNDECLARED if calls_llm else QueryCost()
        estimates = [
            self._chat_estimate(method.name, self._with_reranking(cost)),
            self._service_estimate(EMBEDDING, self.snapshot.models.paid_embedder, self._embedded_texts(cost)),
            self._reranking_estimate(),
            self._chat_estimate("answer", self._answer_cost()),
        ]
        return Plan(tuple(e for e in estimates if e and e.calls[1]))

    # -- sizes of the index

    def rows(self, table: str) -> int:
        return len(self.snapshot.table(table)) if self.snapshot.db.has(table) else 0

    def tokens(self, table: str) -> int:
        if not self.snapshot.db.has(table):
            return 0
        return sum(tokens for (tokens,) in self.snapshot.table(table).columns("tokens"))

    def level(self, level: int) -> tuple[int, int]:
        levels = index_levels(self.snapshot)[:-1]  # without the source
        if not levels:
            return 0, 0
        size = levels[min(level, len(levels) - 1)]  # leaf communities repeat on deeper levels
        return size.units, size.tokens

    def prompt_tokens(self, prompt: Path) -> int:
        return len(self.snapshot.tokenizer(prompt_frame(prompt)))

    # -- parts of the plan

    @cached_property
    def _question_tokens(self) -> int:
        return len(self.snapshot.tokenizer(self.question)) or _TYPICAL_QUESTION_TOKENS

    def _with_reranking(self, cost: QueryCost) -> QueryCost:
        """Return the cost with the call of a reranking chat model."""
        if self.values.get("reranker") != "model":
            return cost
        size = self._candidates * (_PASSAGE_TOKENS + _HEAD_TOKENS)
        low, high = cost.prompt_tokens
        return QueryCost((cost.calls[0], cost.calls[1] + 1), (low, high + size), cost.texts)

    @property
    def _candidates(self) -> int:
        return int(str(self.snapshot.settings[RERANKING].get("candidates", 0)))

    def _embedded_texts(self, cost: QueryCost) -> Range:
        if self.snapshot.uses_local_embedders():
            return (0, 0)
        least, most = (cost.texts[0], max(cost.texts[1], 1)) if "vector_search" in self.signature.ports else (0, 0)
        if self._searching and "vector_search" in self._searching.ports:
            most += MAX_QUERIES * self._rounds
        return (least, most)

    def _reranking_estimate(self) -> Estimate | None:
        server = self.snapshot.models.paid_reranker if self.values.get("reranker") == "endpoint" else None
        return self._service_estimate(RERANKING, server, (0, 1), self._candidates * _PASSAGE_TOKENS)

    @cached_property
    def _searching(self) -> Signature | None:
        """Return the method with which the answer may search again."""
        snapshot, method = self.snapshot, self.signature
        if method.declaration.answer_prompt or not snapshot.models.chat("answer"):
            return None
        name = searching_method(snapshot.db, snapshot.catalogue, snapshot.models, method.name)
        return snapshot.method(name) if name else None

    @property
    def _rounds(self) -> int:
        """Return how often the answer may search again."""
        return int(str(self.snapshot.settings["answer"]["rounds"])) if self._searching else 0

    def _answer_cost(self) -> QueryCost:
        """Return the cost of the answer: a call, and one a round."""
        settings, calls = self.snapshot.settings["answer"], 1 + self._rounds
        prompt = self.prompt_tokens(self.signature.declaration.answer_prompt or PROMPT)
        sources = [self.values.get(name) for name in ("budget", "window")] + [settings.get("budget")]
        budget = max((size for size in sources if isinstance(size, int)), default=0)
        heads = int(str(settings["sources"])) * _HEAD_TOKENS
        texts = (max(LENGTHS.values(), key=len), str(settings["response"]))
        wishes = sum(len(self.snapshot.tokenizer(text)) for text in texts) + self._question_tokens  # it stands twice
        least = 0 if "llm" in self.signature.ports else 1  # a method that calls a model may find nothing
        wishes += len(self.snapshot.tokenizer(OFFER_OF_MANY)) + 2 * MAX_QUERIES * self._rounds * self._question_tokens
        return QueryCost.for_calls((least, calls), (prompt, prompt + budget + heads + wishes))

    def _chat_estimate(self, scope: str, cost: QueryCost) -> Estimate | None:
        chat = self.snapshot.models.chat(scope)
        if chat is None:
            return None
        (least, most), (low, high) = cost.calls, cost.prompt_tokens
        prompt = (low + least * self._question_tokens, high + most * self._question_tokens)
        reply = self._reply_tokens(scope)
        if limits := self._reply_limits(scope):
            reply = (min(reply[0], *limits), min(limits) if scope == "answer" else min(reply[1], *limits))
        return _estimate(scope, chat.fingerprint, cost.calls, prompt, reply, chat.prices)

    def _reply_limits(self, scope: str) -> list[int]:
        """Return the limits on the tokens of a reply."""
        settings = self.snapshot.settings
        limits = [settings.get(name, {}).get("max_tokens") for name in ("chat", scope)]
        return [limit for limit in limits if isinstance(limit, int)]

    def _reply_tokens(self, scope: str) -> Range:
        """Return the range of tokens of one reply, from earlier ones.

        Rights leave these out: they were about other documents too.
        """
        entries = [e for e in self.snapshot.models.cache().usage() if e.kind == "spent" and e.scope == scope]
        usage = sum((entry.usage for entry in entries), Usage())
        if not usage.calls or self.snapshot.rights:
            return _UNKNOWN_REPLY
        mean = usage.completion_tokens / usage.calls
        return (_REPLY_SPREAD[0] * mean, _REPLY_SPREAD[1] * mean)

    def _service_estimate(self, scope: str, server: Any, texts: Range, tokens: int = 0) -> Estimate | None:
        if server is None:
            return None
        size = (texts[0] * (tokens or self._question_tokens), texts[1] * (tokens or 2 * self._question_tokens))
        return _estimate(scope, server.fingerprint, (min(texts[0], 1), texts[1]), size, (0, 0), server.prices)


def _estimate(scope: str, model: str, calls: Range, prompt: Range, reply: Range, prices: Prices) -> Estimate:
    """Return the estimate of a scope from its bounds."""
    prompt = (round(_TOKENIZER_SPREAD[0] * prompt[0]), round(_TOKENIZER_SPREAD[1] * prompt[1]))
    completion = (round(calls[0] * reply[0]), round(calls[1] * reply[1]))
    exact = calls[0] == calls[1]
    return price_estimate(scope, model, prices, calls, prompt, completion, call_seconds(calls, reply), exact)
