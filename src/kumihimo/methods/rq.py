"""question -> rewritten, decomposed and disambiguated queries by a model -> chunks for all of them."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.errors import UnparsableReply
from kumihimo.core.records import Chunk
from kumihimo.core.settings import Bounds, Results, Tokens, Weight
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm.prompts import number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Messages, Reranker, RerankerName
from kumihimo.methods.shared.map_step import FORM_TOKENS, SOURCE_TOKENS
from kumihimo.methods.shared.ranking import hybrid_search, merge_best, new_questions
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


def rq_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call for each depth."""
    depth, queries, first = settings["depth"], settings["queries"], int(settings["queries"] > 1)
    prompt = sizes.prompt_tokens(FOLLOWUP_PROMPT) + FORM_TOKENS + settings["shown"]
    prompt += SOURCE_TOKENS * (settings["k"] + queries * depth)
    return QueryCost.for_calls((first, first + depth - 1), (sizes.prompt_tokens(PROMPT), prompt), (1, queries * depth))


@declare(best_for="a question with several parts, or several meanings", calls=rq_cost)
def rq(
    question: str,
    chunks: Table[Chunk],
    llm: LLM,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    depth: Annotated[int, Bounds(1, 20, asked=(1, 5))] = 1,
    queries: Annotated[int, Bounds(1, 50, asked=(1, 20))] = 5,
    k: Results = 20,
    pool: Results = 100,
    meaning: Weight = 0.5,
    shown: Annotated[int, Bounds(1, 1_000_000, asked=(1, 20_000))] = 2000,
    budget: Tokens = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Search the question and its rewritten, decomposed and disambiguated queries (RQ-RAG, arXiv:2404.00610).

    One call gives the queries; the question and they, at most `queries`, are searched as `naive` does, and the best
    rank of a chunk counts. Each further `depth` is a call that sees the best `shown` tokens and refines again (Chan et
    al., 2024).
    But: prompted, not trained: the paper tunes a 7B model that emits one kind of query at a time and selects among
    trajectories; here one reply holds all kinds, and all results are merged.
    """

    def search(texts: Sequence[str]) -> list[Context]:
        return hybrid_search(texts, chunks, keyword_search, vector_search, pool=pool, meaning=meaning)

    refinements = _refine(render_prompt(PROMPT, question=question), llm) if queries > 1 else []
    searched = [question, *new_questions(refinements, [question])][:queries]
    rankings = search(searched)
    for _ in range(depth - 1):
        passages = _merge_rankings(rankings).top(k).fit(shown, tokenizer)
        refinements = _refine(_followup_prompt(question, searched, passages), llm) if passages else []
        added = new_questions(refinements, searched)[:queries]
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
    texts = number_sources(item.prompt_text for item in passages)
    queries = "\n".join(f"- {query}" for query in searched)
    return render_prompt(FOLLOWUP_PROMPT, passages=texts, queries=queries, question=question)


def _merge_rankings(rankings: Iterable[Context]) -> Context:
    """Merge the rankings; the first one belongs to the question."""
    scaled = (Context.fuse([ranking], weights=[_QUERY_WEIGHT if n else 1.0]) for n, ranking in enumerate(rankings))
    return merge_best(scaled)
