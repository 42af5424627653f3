"""question -> points from reports, then from local searches on follow-up questions."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Relation, RelationMention, Report
from kumihimo.core.settings import Bounds, StartRows, Window
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt, require_text
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.local import local
from kumihimo.methods.shared import ranking
from kumihimo.methods.shared.map_step import FORM_TOKENS, REDUCE_PROMPT, SOURCE_TOKENS, rank_statements, rows_to_sources
from kumihimo.search.protocols import KeywordSearch, VectorSearch

PROMPT = Path(__file__).with_suffix(".md")
GUESS_PROMPT = Path(__file__).with_name("drift_guess.md")


@dataclass(frozen=True, slots=True)
class Lead:
    """A follow-up question with a confidence from 0 to 100.

    The model's confidence that the answer will help.
    """

    question: str
    confidence: int


@dataclass(frozen=True, slots=True)
class Step:
    """An intermediate answer: its usefulness, its sources and follow-up questions."""

    answer: str
    score: int
    sources: list[int]
    questions: list[Lead]


SubQuestion = tuple[str, Sequence[Evidence]]  # a question and its evidence
AnsweredStep = tuple[Step, Sequence[Evidence]]  # an answer and its evidence


def drift_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return the calls for the first guess, the folds and follow-up questions."""
    calls, followups = settings["calls"], settings["depth"] * settings["width"]
    folds = min(settings["folds"], settings["k"], sizes.rows("reports"), calls - 1)
    sources = max(settings["window"], settings["budget"]) * (1 + SOURCE_TOKENS / 100)
    most = sizes.prompt_tokens(PROMPT) + FORM_TOKENS + round(sources)
    maximum = min(calls, 1 + folds + followups)
    return QueryCost.for_calls((1, maximum), (sizes.prompt_tokens(GUESS_PROMPT), most), (1, 1 + followups))


@declare(best_for="a broad question in several steps", answer_prompt=REDUCE_PROMPT, calls=drift_cost)
def drift(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    ties: Table[RelationMention],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    communities: Table[Community],
    members: Table[Member],
    reports: Table[Report],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM,
    rerank: Reranker,
    *,
    k: StartRows = 20,
    folds: Annotated[int, Bounds(0, 100, asked=(0, 20))] = 5,
    depth: Annotated[int, Bounds(0, 20, asked=(0, 5))] = 2,
    width: Annotated[int, Bounds(1, 100, asked=(1, 20))] = 5,
    calls: Annotated[int, Bounds(1, 1000, asked=(1, 50))] = 20,
    budget: Annotated[int, Bounds(1, 1_000_000, asked=(1, 30_000))] = 6000,
    window: Window = 8000,
    reranker: RerankerName = "none",
) -> Context:
    """Answer from reports, then search follow-up questions locally (GraphRAG, DRIFT).

    A hypothetical report finds the `k` nearest reports, read in `folds`. Each fold gives an answer and follow-up
    questions. The best `width` of these are searched by `local` with that `budget`, `depth` times. calls: maximum LLM
    calls, without reranking and the final answer.
    But: the hypothetical report has a fixed form, not that of a random report; follow-ups are ranked by the score of
    their answer and the model's confidence, not sampled; each is asked once; the points have a window.
    """
    hypothetical = llm(render_prompt(GUESS_PROMPT, question=question), parse=require_text)
    nearest = vector_search(reports, hypothetical, k=k).evidence
    count = min(folds, len(nearest), calls - 1)
    folds_read = [(question, Context(nearest[n::count]).fit(window, tokenizer).evidence) for n in range(count)]
    answered = _run_steps(question, folds_read, llm)
    signatures = {ranking.question_signature(question)} if answered else set()
    tables = (chunks, mentions, ties, entities, relations, claims, communities, members, reports)
    ports = (keyword_search, vector_search, tokenizer, rerank)
    for _ in range(depth):
        leads = _select_leads(answered, signatures) if signatures else [question]
        leads = leads[: min(width, calls - 1 - len(answered))]
        signatures |= {ranking.question_signature(lead) for lead in leads}
        searches = [(lead, local(lead, *tables, *ports, budget=budget).evidence) for lead in leads]
        answered += _run_steps(question, searches, llm)
    statements = ((step.answer, step.score, step.sources, rows) for step, rows in answered)
    return rerank(question, rank_statements(statements, tokenizer), reranker).fit(window, tokenizer)


def _run_steps(main_question: str, questions: Iterable[SubQuestion], llm: LLM) -> list[AnsweredStep]:
    """Answer each question from its rows, concurrently; skip questions without rows."""

    def answer_one(pair: SubQuestion) -> AnsweredStep:
        question, rows = pair
        prompt = render_prompt(PROMPT, sources=rows_to_sources(rows), question=main_question, step=question)
        return llm(prompt, schema=Step), rows

    return list(map_concurrent(answer_one, [pair for pair in questions if pair[1]], llm.workers))


def _select_leads(answered: Iterable[AnsweredStep], signatures: Container[str]) -> list[str]:
    """Return new follow-up questions, the most promising first.

    Promise: the score of the answer times the confidence in the question.
    """
    ranked: dict[str, tuple[int, str]] = {}  # by signature: negative promise, and the text
    for step, _ in answered:
        for lead in step.questions:
            signature = ranking.question_signature(lead.question)
            rank = -min(step.score, 100) * min(lead.confidence, 100), lead.question.strip()
            if signature and signature not in signatures:
                ranked[signature] = min(rank, ranked.get(signature, rank))
    return [question for _, question in sorted(ranked.values())]
