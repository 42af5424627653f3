"""question -> passages near it, those that hang on them by discourse relations, and those with its 5W1H."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Literal

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError, UnparsableReply
from kumihimo.core.records import DiscourseRelation, Passage, SlotFiller, SlotValue
from kumihimo.core.table import Table
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.discourse_expand import Fallback, expand_by_discourse
from kumihimo.methods.shared.discourse_senses import infer_senses
from kumihimo.methods.shared.graph_context import scale_scores
from kumihimo.methods.shared.hybrid_search import hybrid_search
from kumihimo.methods.shared.slot_search import rank_by_slots
from kumihimo.search.protocols import KeywordSearch, VectorSearch

log = logging.getLogger("kumihimo")
_VALUE_POOL = 50  # values that are looked at for one of the question's, where it is enough that they are near


def discourse(
    question: str,
    passages: Table[Passage],
    frames: Table[SlotFiller],
    values: Table[SlotValue],
    links: Table[DiscourseRelation],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM | None,
    rerank: Reranker,
    *,
    k: int = 1,
    pool: int = 100,
    meaning: float = 0.5,
    words: bool = True,
    fallback: Fallback = "parent",
    min_confidence: float = 0.0,
    framed: int = 10,
    alike: float = 1.0,
    weights: Literal["count", "rare"] = "count",
    top_up: bool = True,
    budget: int = 8000,
    reranker: RerankerName = "none",
    paper: bool = False,
) -> Context:
    """Passages near a question, those tied to them by relations it needs, those with its 5W1H (江上・福田, 3.2, 3.3).

    L_v: the `k` nearest; directly after each its L_d: what is tied to it by a sense that a chain of thought says the
    question needs (Listing 1); then L_w: `framed` passages, by the number of slots in which they say what the question
    says (Listing 2). Without a model: senses by what the question asks with, its 5W1H by rule.
    But: L_v by words, too (`words`), and filled up with the next of L_v (`top_up`); where a sense ties nothing, what it
    is a kind of may (`fallback`). alike: the least cosine of a value with the question's; 1: the same only. weights:
    by `rare`, what few passages say counts more. paper: none of these, k = 1, and nothing is put in order anew.
    """
    if k < 1 or framed < 0:
        raise SettingsError(
            f"discourse.k = {k}, discourse.framed = {framed}: the first is 1 or more, the other 0 or more"
        )
    if paper:
        k, words, fallback, min_confidence, alike = 1, False, "none", 0.0, 1.0
        weights, top_up, reranker = "count", False, "none"
    if words:
        [found] = hybrid_search([question], passages, keyword_search, vector_search, pool=pool, meaning=meaning)
    else:
        found = vector_search(passages, question, k=max(k, pool, rerank.candidates))
    found = rerank(question, found, reranker)
    wanted = infer_senses(question, llm)
    order: list[Passage] = []
    for item in found.top(k):
        if isinstance(item.record, Passage):
            tied = expand_by_discourse(
                item.record, wanted, links, passages, fallback=fallback, min_confidence=min_confidence
            )
            order += [item.record, *tied]
    asked = _expand_slots(_question_slots(question, llm), values, vector_search, alike)
    sharing = rank_by_slots(asked, frames, weights=weights)[:framed]
    order += passages.get_many(id for id, _ in sharing).values()
    ordered = Context(tuple(_score_by_position(order)))
    return (ordered + scale_scores(found) if top_up else ordered).fit(budget, tokenizer)


def _question_slots(question: str, llm: LLM | None) -> list[tuple[str, str]]:
    """The slots of the question, each with a name, as frames have them: also as those have that keep to the paper."""
    from kumihimo.index.five_w1h import normalise_slots

    said = _extract_slots(question, llm)
    named = (one for paper in (False, True) for one in normalise_slots(said, paper=paper))
    return list(dict.fromkeys((one.slot, one.name) for one in named))


def _extract_slots(question: str, llm: LLM | None) -> list[tuple[str, str]]:
    """The same in words of the question; by rule without a model, or where its replies cannot be read."""
    if llm:
        from kumihimo.index.five_w1h import parse_slots_reply, slot_messages

        try:
            return llm(slot_messages(question), parse=parse_slots_reply)
        except UnparsableReply as error:
            log.warning("discourse reads who, when, where of the question by rule: %s", error)
    from kumihimo.index.rules import srl

    return list(srl.find_slots(question))


def _expand_slots(
    asked: Iterable[tuple[str, str]], values: Table[SlotValue], vector_search: VectorSearch, least: float
) -> Iterator[tuple[str, str]]:
    """What is asked, and what passages say in its stead: values of the slot whose cosine with it is `least` or more."""
    pairs = list(asked)
    yield from pairs
    if least >= 1 or not pairs:
        return
    for (slot, _), found in zip(
        pairs, vector_search.search_many(values, [name for _, name in pairs], k=_VALUE_POOL), strict=True
    ):
        for item in found:
            if isinstance(item.record, SlotValue) and item.record.slot == slot and item.score >= least:
                yield slot, item.record.text


def _score_by_position(passages: Iterable[Passage]) -> Iterator[Evidence]:
    """Each with a score that tells its place, since what finds them does not compare: from 2 down, above the rest."""
    once = list({passage.id: passage for passage in passages}.values())
    for n, passage in enumerate(once):
        yield Evidence("passages", passage, 2 - n / len(once))
