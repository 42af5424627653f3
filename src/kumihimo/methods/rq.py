"""question -> chunks near the question and near a model's rewritten queries."""

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
_QUERY_WEIGHT = 0.9  # of a model's query; the question itself has 1
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Refined:
    """Queries to search besides the question; each kind may be empty."""

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
    """Search the question and its rewritten, decomposed and disambiguated queries (RQ-RAG, arXiv:2404.00610).

    One call gives the queries; the question and they, at most `queries`, are searched as `naive` does, and the best
    rank of a chunk counts. Each further `depth` is a call that sees the best `shown` tokens and refines again (Chan et
    al., 2024).
    But: prompted, not trained: the paper tunes a 7B model that emits one kind of query at a time and selects among
    trajectories; here one reply holds all kinds, and all results are merged.
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
    refinements = _refine(render_prompt(PROMPT, question=question), llm) if queries > 1 else []
    searched = [question, *new_questions(refinements, [question])][:queries]
    rankings = search(searched)
    for _ in range(depth - 1):
        passages = _merge_rankings(rankings).top(k).fit(shown, tokenizer)
        added = (
            new_questions(_refine(_followup_prompt(question, searched, passages), llm), searched)[:queries]
            if passages
            else []
        )
        if not added:
            break
        searched += added
        rankings += search(added)
    context = rerank(question, _merge_rankings(rankings), reranker).top(k).fit(budget, tokenizer)
    return replace(context, queries=tuple(searched[1:]))


def _refine(messages: Messages, llm: LLM) -> list[str]:
    """Return the model's queries; empty if its reply is unusable.

    The question is searched in any case.
    """
    try:
        refined = llm(messages, schema=Refined)
    except UnparsableReply as error:
        log.warning("rq searches for the question alone: %s", error)
        return []
    return [refined.rewrite, *refined.decompose, *refined.disambiguate]


def _followup_prompt(question: str, searched: Iterable[str], passages: Iterable[Evidence]) -> Messages:
    texts = "\n\n---\n\n".join(item.prompt_text for item in passages)
    return render_prompt(
        FOLLOWUP_PROMPT, passages=texts, queries="\n".join(f"- {query}" for query in searched), question=question
    )


def _merge_rankings(rankings: Iterable[Context]) -> Context:
    """Merge the rankings; the first one belongs to the question."""
    return merge_best(
        Context.fuse([ranking], weights=[_QUERY_WEIGHT if n else 1.0]) for n, ranking in enumerate(rankings)
    )
