"""question -> passages near it, passages linked by discourse relations, and passages with its 5W1H slots."""

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
_VALUE_POOL = 50  # similar values considered for each value of the question


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
    """Rank passages by similarity, discourse relations and 5W1H (江上・福田, 3.2, 3.3).

    L_v: the `k` nearest passages. Each is followed by its L_d: passages linked by a sense that the question needs,
    which a chain of thought names (Listing 1). Then L_w: `framed` passages, ranked by the number of slots that match
    the question (Listing 2). Without a model, rules find senses and slots from the wording of the question.
    But: L_v uses keywords too (`words`), and the rest of L_v fills up the budget (`top_up`); if no link has a needed
    sense, broader senses may count (`fallback`). alike: minimum cosine between a value and one of the question; 1:
    equal values only. weights: `rare` weighs rare values more. paper: none of these changes, k = 1, no reranking.
    """
    if k < 1 or framed < 0:
        raise SettingsError(
            f"discourse.k = {k}, discourse.framed = {framed}: the first is 1 or more, the other 0 or more"
        )
    if paper:
        k, words, fallback, min_confidence, alike = 1, False, "none", 0.0, 1.0
        weights, top_up, reranker = "count", False, "none"
    if words:
        [hits] = hybrid_search([question], passages, keyword_search, vector_search, pool=pool, meaning=meaning)
    else:
        hits = vector_search(passages, question, k=max(k, pool, rerank.candidates))
    hits = rerank(question, hits, reranker)
    needed_senses = infer_senses(question, llm)
    order: list[Passage] = []
    for item in hits.top(k):
        if isinstance(item.record, Passage):
            linked = expand_by_discourse(
                item.record, needed_senses, links, passages, fallback=fallback, min_confidence=min_confidence
            )
            order += [item.record, *linked]
    slots = _expand_slots(_question_slots(question, llm), values, vector_search, alike)
    ranked_slots = rank_by_slots(slots, frames, weights=weights)[:framed]
    order += passages.get_many(id for id, _ in ranked_slots).values()
    ordered = Context(tuple(_score_by_position(order)))
    return (ordered + scale_scores(hits) if top_up else ordered).fit(budget, tokenizer)


def _question_slots(question: str, llm: LLM | None) -> list[tuple[str, str]]:
    """Return the slots of the question, with normalised names.

    Each value is normalised both ways: by our rules and by those of the paper.
    """
    from kumihimo.index.five_w1h import normalise_slots

    extracted = _extract_slots(question, llm)
    normalised_slots = (slot for as_paper in (False, True) for slot in normalise_slots(extracted, paper=as_paper))
    return list(dict.fromkeys((slot.slot, slot.name) for slot in normalised_slots))


def _extract_slots(question: str, llm: LLM | None) -> list[tuple[str, str]]:
    """Return the slots of the question in its own words.

    Rules replace the model if there is none, or if its reply is not usable.
    """
    if llm:
        from kumihimo.index.five_w1h import parse_slots_reply, slot_messages

        try:
            return llm(slot_messages(question), parse=parse_slots_reply)
        except UnparsableReply as error:
            log.warning("discourse finds who, when, where of the question by rule: %s", error)
    from kumihimo.index.rules import srl

    return list(srl.find_slots(question))


def _expand_slots(
    slots: Iterable[tuple[str, str]], values: Table[SlotValue], vector_search: VectorSearch, minimum: float
) -> Iterator[tuple[str, str]]:
    """Yield the slots, and similar values found in passages.

    Similar: of the same slot, with a cosine of `minimum` or more.
    """
    pairs = list(slots)
    yield from pairs
    if minimum >= 1 or not pairs:
        return
    for (slot, _), hits in zip(
        pairs, vector_search.search_many(values, [name for _, name in pairs], k=_VALUE_POOL), strict=True
    ):
        for item in hits:
            if isinstance(item.record, SlotValue) and item.record.slot == slot and item.score >= minimum:
                yield slot, item.record.text


def _score_by_position(passages: Iterable[Passage]) -> Iterator[Evidence]:
    """Yield the passages with scores that fall from 2 to 1.

    Scores of different searches do not compare, so the position decides.
    """
    unique = list({passage.id: passage for passage in passages}.values())
    for n, passage in enumerate(unique):
        yield Evidence("passages", passage, 2 - n / len(unique))
