"""question -> passages, and queries by a model for what these leave open -> chunks for all of them."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from kumihimo.core import errors, records, table
from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.settings import Bounds, Results, Tokens, Weight
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.llm.prompts import number_sources, render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.shared.map_step import FORM_TOKENS, SOURCE_TOKENS
from kumihimo.methods.shared.ranking import hybrid_search, merge_best, new_questions
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text import scripts, tokens
from kumihimo.text.question import ParsedQuestion

PROMPT = Path(__file__).with_suffix(".md")
_MAX_PASSAGES = 8  # in a prompt
_QUERY_WEIGHT = 0.9  # of a model's query; the question itself has 1
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Next:
    """What the passages say so far, and the queries for what they leave open."""

    known: str
    queries: list[str]


def rq_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return one call for each depth."""
    depth, most = settings["depth"], settings["queries"]
    prompt = sizes.prompt_tokens(PROMPT)
    maximum = prompt + FORM_TOKENS + settings["shown"] + SOURCE_TOKENS * (_MAX_PASSAGES + most * depth)
    return QueryCost.for_calls((min(1, sizes.rows("chunks")), depth), (prompt, maximum), (1, 1 + most * depth))


@declare(best_for="a question with several parts or steps", calls=rq_cost)
def rq(
    question: str,
    chunks: table.Table[records.Chunk],
    llm: LLM,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    rerank: Reranker,
    *,
    depth: Annotated[int, Bounds(1, 20, asked=(1, 5))] = 1,
    queries: Annotated[int, Bounds(1, 50, asked=(1, 20))] = 4,
    k: Results = 20,
    pool: Results = 100,
    meaning: Weight = 0.5,
    shown: Annotated[int, Bounds(1, 1_000_000, asked=(1, 20_000))] = 2000,
    budget: Tokens = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Search the question, then for what its passages leave open.

    (After RQ-RAG, Chan et al., 2024, arXiv:2404.00610.) The question is searched as `naive` does. Each `depth` is one
    call: it sees the best `shown` tokens of passages and gives at most `queries` further queries, which are searched in
    the same way. The best rank of a chunk counts. A query with a name that stands in neither the question nor the
    passages is left out.
    But: prompted, not trained: the paper tunes a 7B model that rewrites, decomposes or disambiguates the question
    before any search, and selects among trajectories; here a call sees what was found, and all results are merged.
    """

    def search(texts: Sequence[str]) -> list[Context]:
        return hybrid_search(texts, chunks, keyword_search, vector_search, pool=pool, meaning=meaning)

    searched = [question]
    rankings = search(searched)
    for _ in range(depth):
        passages = _merge_rankings(rankings).top(_MAX_PASSAGES).fit(shown, tokenizer).evidence
        proposed = _next_queries(question, searched, passages, llm) if passages else []
        if not (added := new_questions(proposed, searched)[:queries]):
            break
        searched += added
        rankings += search(added)
    context = rerank(question, _merge_rankings(rankings), reranker).top(k).fit(budget, tokenizer)
    return replace(context, queries=tuple(searched[1:]))


def _next_queries(question: str, searched: Sequence[str], passages: Sequence[Evidence], llm: LLM) -> list[str]:
    """Return the model's queries; empty if its reply is unusable.

    Those with a name that the model has put in are left out.
    """
    texts = [item.prompt_text for item in passages]
    queries = "\n".join(f"- {query}" for query in searched)
    prompt = render_prompt(PROMPT, passages=number_sources(texts), queries=queries, question=question)
    try:
        proposed = llm(prompt, schema=Next).queries
    except errors.UnparsableReply as error:
        log.warning("rq searches for the question alone: %s", error)
        return []
    known = {token for token, *_ in tokens.locate_words(scripts.fold_text("\n".join((*searched, *texts))))}
    return [query for query in proposed if all(name.token in known for name in ParsedQuestion(query).names)]


def _merge_rankings(rankings: Iterable[Context]) -> Context:
    """Merge the rankings; the first one belongs to the question."""
    scaled = (Context.fuse([ranking], weights=[_QUERY_WEIGHT if n else 1.0]) for n, ranking in enumerate(rankings))
    return merge_best(scaled)
