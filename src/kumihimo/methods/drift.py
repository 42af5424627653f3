"""question -> points: a first answer from reports, then local searches for what it leaves open, best leads first."""

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
_DEFAULT_SOURCES = 5  # rows that an answer is taken to rest on which names none


@dataclass(frozen=True, slots=True)
class Lead:
    """A further question, and how sure the model is that its answer will help, 0 to 100."""

    question: str
    confidence: int


@dataclass(frozen=True, slots=True)
class Step:
    """An intermediate answer, how much it helps, what it rests on, and what to ask next."""

    answer: str
    score: int
    sources: list[int]
    questions: list[Lead]


SubQuestion = tuple[str, Sequence[Evidence]]  # a question, and what it is answered from
AnsweredStep = tuple[Step, Sequence[Evidence]]  # what was said to it


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
    """Intermediate answers, those that help most first: from reports, then by local searches (GraphRAG, DRIFT).

    A made-up report finds the `k` reports nearest to it, which are read in `folds`; each gives an answer and questions
    that lead on. Of those the best `width` are searched, `depth` times over, by `local` with that `budget`. calls: how
    often a model is asked at most, but for reranking and the answer itself.
    But: the made-up report has one form, not that of a report at random; questions are ranked by how much the answer
    they came from helps and how sure the model is of them, not drawn; each is asked once; the points have a window.
    """
    made_up = llm(render_prompt(GUESS_PROMPT, question=question), parse=require_text)
    near_it = vector_search(reports, made_up, k=k).evidence
    count = min(folds, len(near_it), calls - 1)
    parts = [Context(near_it[part::count]).fit(window, tokenizer).evidence for part in range(count)]
    taken = _run_steps(question, [(question, part) for part in parts], llm)
    search = partial(local, chunks=chunks, mentions=mentions, ties=ties, entities=entities, relations=relations)
    search = partial(search, claims=claims, communities=communities, members=members, reports=reports)
    asked = {question_signature(question)} if taken else set()
    search = partial(
        search,
        keyword_search=keyword_search,
        vector_search=vector_search,
        tokenizer=tokenizer,
        rerank=rerank,
        budget=budget,
    )
    for _ in range(depth):
        leads = _select_leads(taken, asked) if asked else [question]
        leads = leads[: max(0, min(width, calls - 1 - len(taken)))]
        asked |= {question_signature(lead) for lead in leads}
        found = [(lead, search(lead).evidence) for lead in leads]
        taken += _run_steps(question, found, llm)
    return rerank(question, rank_points(_collect_points(taken, tokenizer)), reranker).fit(window, tokenizer)


def _run_steps(whole: str, asked: Iterable[SubQuestion], llm: LLM) -> list[AnsweredStep]:
    """What is said to each question, side by side; those that nothing was found for are not asked."""

    def step(each: SubQuestion) -> AnsweredStep:
        question, rows = each
        return llm(
            render_prompt(PROMPT, sources=format_sources(rows), whole=whole, question=question), schema=Step
        ), rows

    return list(map_concurrent(step, [each for each in asked if each[1]], llm.workers))


def _select_leads(taken: Iterable[AnsweredStep], asked: Container[str]) -> list[str]:
    """The questions not asked yet; first those that the most helpful answers led to, and that the model is sure of."""
    promise: dict[str, tuple[int, str]] = {}  # by what it says: less the score, and the words it was first put in
    for step, _ in taken:
        for lead in step.questions:
            means = question_signature(lead.question)
            rank = -min(step.score, 100) * min(lead.confidence, 100), lead.question.strip()
            if means and means not in asked:
                promise[means] = min(rank, promise.get(means, rank))
    return [question for _, question in sorted(promise.values())]


def _collect_points(taken: Iterable[AnsweredStep], tokenizer: Tokenizer) -> Iterator[tuple[float, KeyPoint]]:
    """The answers that help, each with the rows that it names, or else with the first that it was given."""
    for step, rows in taken:
        if step.score > 0 and step.answer.strip():
            sources = cited_references(step.sources, rows) or tuple(row.reference for row in rows[:_DEFAULT_SOURCES])
            yield float(min(step.score, 100)), make_point(step.answer, sources, tokenizer)
