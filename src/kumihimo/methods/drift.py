"""question -> points: a first answer from reports, then local searches on follow-up questions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import (
    Chunk,
    Claim,
    Community,
    Entity,
    KeyPoint,
    Member,
    Mention,
    Relation,
    RelationMention,
    Report,
)
from kumihimo.core.table import Table
from kumihimo.llm.concurrency import map_concurrent
from kumihimo.llm.prompts import render_prompt
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.llm.structured import require_text
from kumihimo.methods.local import local
from kumihimo.methods.shared.hybrid_search import question_signature
from kumihimo.methods.shared.map_step import cited_references, format_sources, make_point, rank_points
from kumihimo.search.protocols import KeywordSearch, VectorSearch

PROMPT = Path(__file__).with_suffix(".md")
GUESS_PROMPT = Path(__file__).with_name("drift_guess.md")
_DEFAULT_SOURCES = 5  # first rows, which are the sources of an answer that cites none


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
    k: int = 20,
    folds: int = 5,
    depth: int = 2,
    width: int = 5,
    calls: int = 20,
    budget: int = 6000,
    window: int = 8000,
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
    parts = [Context(nearest[part::count]).fit(window, tokenizer).evidence for part in range(count)]
    answered = _run_steps(question, [(question, part) for part in parts], llm)
    search = partial(local, chunks=chunks, mentions=mentions, ties=ties, entities=entities, relations=relations)
    search = partial(search, claims=claims, communities=communities, members=members, reports=reports)
    signatures = {question_signature(question)} if answered else set()
    search = partial(
        search,
        keyword_search=keyword_search,
        vector_search=vector_search,
        tokenizer=tokenizer,
        rerank=rerank,
        budget=budget,
    )
    for _ in range(depth):
        leads = _select_leads(answered, signatures) if signatures else [question]
        leads = leads[: max(0, min(width, calls - 1 - len(answered)))]
        signatures |= {question_signature(lead) for lead in leads}
        searches = [(lead, search(lead).evidence) for lead in leads]
        answered += _run_steps(question, searches, llm)
    return rerank(question, rank_points(_collect_points(answered, tokenizer)), reranker).fit(window, tokenizer)


def _run_steps(main_question: str, questions: Iterable[SubQuestion], llm: LLM) -> list[AnsweredStep]:
    """Answer each question from its rows, concurrently; skip questions without rows."""

    def answer_one(pair: SubQuestion) -> AnsweredStep:
        question, rows = pair
        return llm(
            render_prompt(PROMPT, sources=format_sources(rows), main_question=main_question, question=question),
            schema=Step,
        ), rows

    return list(map_concurrent(answer_one, [pair for pair in questions if pair[1]], llm.workers))


def _select_leads(answered: Iterable[AnsweredStep], signatures: Container[str]) -> list[str]:
    """Return new follow-up questions, the most promising first.

    Promise: the score of the answer times the confidence in the question.
    """
    ranked: dict[str, tuple[int, str]] = {}  # by signature: negative promise, and the text
    for step, _ in answered:
        for lead in step.questions:
            signature = question_signature(lead.question)
            rank = -min(step.score, 100) * min(lead.confidence, 100), lead.question.strip()
            if signature and signature not in signatures:
                ranked[signature] = min(rank, ranked.get(signature, rank))
    return [question for _, question in sorted(ranked.values())]


def _collect_points(answered: Iterable[AnsweredStep], tokenizer: Tokenizer) -> Iterator[tuple[float, KeyPoint]]:
    """Yield the useful answers as points, with the rows they cite.

    An answer that cites no row gets its first rows as sources.
    """
    for step, rows in answered:
        if step.score > 0 and step.answer.strip():
            sources = cited_references(step.sources, rows) or tuple(row.reference for row in rows[:_DEFAULT_SOURCES])
            yield float(min(step.score, 100)), make_point(step.answer, sources, tokenizer)
