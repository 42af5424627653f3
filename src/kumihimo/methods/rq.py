"""question -> chunks near it, and near a model's rewording of it, its parts, and what else it may mean."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import SettingsError, UnparsableReply
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Messages, Reranker, RerankerName
from kumihimo.methods.shared.hybrid_search import hybrid_search, merge_best, new_questions
from kumihimo.search.protocols import KeywordSearch, VectorSearch

PROMPT = Path(__file__).with_suffix(".md")
FOLLOWUP_PROMPT = Path(__file__).with_name("rq_again.md")
_QUERY_WEIGHT = 0.9  # what a model's question counts beside the one that was asked
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Refined:
    """Questions to search for beside the one that was asked; of each kind none where there is no need of it."""

    rewrite: str
    decompose: list[str]
    disambiguate: list[str]


def rq(
    question: str,
    chunks: Table[Chunk],
    llm: LLM,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    depth: int = 1,
    queries: int = 5,
    k: int = 20,
    pool: int = 100,
    meaning: float = 0.5,
    shown: int = 2000,
    budget: int = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Chunks near the question or near its rewording, parts or meanings (RQ-RAG, Chan et al., 2024, arXiv:2404.00610).

    One call gives them; the question and they, at most `queries`, are searched as `naive` searches, and a chunk counts
    by the best of its ranks. Each `depth` more is a call that is shown the best `shown` tokens and refines once more.
    But: prompted, not trained: the paper tunes a model of 7B to emit these kinds one at a time, and picks the best of
    several courses; here one reply holds all kinds, and all that they find is put together.
    """
    if depth < 1 or queries < 1:
        raise SettingsError(f"rq.depth = {depth}, rq.queries = {queries}: both have to be 1 or more")
    search = partial(
        hybrid_search,
        rows=chunks,
        keyword_search=keyword_search,
        vector_search=vector_search,
        pool=pool,
        meaning=meaning,
    )
    refined = _refine(render_prompt(PROMPT, question=question), llm) if queries > 1 else []
    asked = [question, *new_questions(refined, [question])][:queries]
    found = search(asked)
    for _ in range(depth - 1):
        passages = _merge_rankings(found).top(k).fit(shown, tokenizer)
        more = (
            new_questions(_refine(_followup_prompt(question, asked, passages), llm), asked)[:queries]
            if passages
            else []
        )
        if not more:
            break
        asked += more
        found += search(more)
    context = rerank(question, _merge_rankings(found), reranker).top(k).fit(budget, tokenizer)
    return replace(context, queries=tuple(asked[1:]))


def _refine(told: Messages, llm: LLM) -> list[str]:
    """What a model would search for; nothing where its replies cannot be read, for the question is searched anyway."""
    try:
        said = llm(told, schema=Refined)
    except UnparsableReply as error:
        log.warning("rq searches for no further questions: %s", error)
        return []
    return [said.rewrite, *said.decompose, *said.disambiguate]


def _followup_prompt(question: str, asked: Iterable[str], passages: Iterable[Evidence]) -> Messages:
    texts = "\n\n---\n\n".join(item.prompt_text for item in passages)
    return render_prompt(
        FOLLOWUP_PROMPT, passages=texts, searched="\n".join(f"- {one}" for one in asked), question=question
    )


def _merge_rankings(rankings: Iterable[Context]) -> Context:
    """One ranking of several, the first of them that of the question."""
    return merge_best(Context.fuse([one], weights=[_QUERY_WEIGHT if n else 1.0]) for n, one in enumerate(rankings))
