"""question -> points: a first answer from reports, then local searches for what it leaves open, best leads first."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Point, Relation, Report, Tie
from kumihimo.core.table import Table
from kumihimo.llm.concurrency import side_by_side
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Rank, Rerank
from kumihimo.llm.structured import any_text
from kumihimo.methods.local import local
from kumihimo.methods.shared.hybrid_search import said
from kumihimo.methods.shared.map_step import best, cited, numbered, point
from kumihimo.search.protocols import Match, Near

PROMPT = Path(__file__).with_suffix(".md")
GUESS = Path(__file__).with_name("drift_guess.md")
_FIRST = 5  # rows that an answer is taken to rest on which names none


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


Asked = tuple[str, Sequence[Evidence]]  # a question, and what it is answered from
Taken = tuple[Step, Sequence[Evidence]]  # what was said to it


def drift(
    question: str,
    chunks: Table[Chunk],
    mentions: Table[Mention],
    ties: Table[Tie],
    entities: Table[Entity],
    relations: Table[Relation],
    claims: Table[Claim],
    communities: Table[Community],
    members: Table[Member],
    reports: Table[Report],
    match: Match,
    near: Near,
    ruler: Ruler,
    ask: Ask,
    rank: Rank,
    *,
    k: int = 20,
    folds: int = 5,
    depth: int = 2,
    width: int = 5,
    calls: int = 20,
    budget: int = 6000,
    window: int = 8000,
    rerank: Rerank = "none",
) -> Context:
    """Intermediate answers, those that help most first: from reports, then by local searches (GraphRAG, DRIFT).

    A made-up report finds the `k` reports nearest to it, which are read in `folds`; each gives an answer and questions
    that lead on. Of those the best `width` are searched, `depth` times over, by `local` with that `budget`. calls: how
    often a model is asked at most, but for reranking and the answer itself.
    But: the made-up report has one form, not that of a report at random; questions are ranked by how much the answer
    they came from helps and how sure the model is of them, not drawn; each is asked once; the points have a window.
    """
    made_up = ask(prompt(GUESS, question=question), read=any_text)
    near_it = near(reports, made_up, k=k).evidence
    count = min(folds, len(near_it), calls - 1)
    parts = [Context(near_it[part::count]).fit(window, ruler).evidence for part in range(count)]
    taken = _steps(question, [(question, part) for part in parts], ask)
    search = partial(local, chunks=chunks, mentions=mentions, ties=ties, entities=entities, relations=relations)
    search = partial(search, claims=claims, communities=communities, members=members, reports=reports)
    asked = {said(question)} if taken else set()
    search = partial(search, match=match, near=near, ruler=ruler, rank=rank, budget=budget)
    for _ in range(depth):
        leads = _leads(taken, asked) if asked else [question]
        leads = leads[: max(0, min(width, calls - 1 - len(taken)))]
        asked |= {said(lead) for lead in leads}
        found = [(lead, search(lead).evidence) for lead in leads]
        taken += _steps(question, found, ask)
    return rank(question, best(_points(taken, ruler)), rerank).fit(window, ruler)


def _steps(whole: str, asked: Iterable[Asked], ask: Ask) -> list[Taken]:
    """What is said to each question, side by side; those that nothing was found for are not asked."""

    def step(each: Asked) -> Taken:
        question, rows = each
        return ask(prompt(PROMPT, sources=numbered(rows), whole=whole, question=question), into=Step), rows

    return list(side_by_side(step, [each for each in asked if each[1]], ask.workers))


def _leads(taken: Iterable[Taken], asked: Container[str]) -> list[str]:
    """The questions not asked yet; first those that the most helpful answers led to, and that the model is sure of."""
    promise: dict[str, tuple[int, str]] = {}  # by what it says: less the score, and the words it was first put in
    for step, _ in taken:
        for lead in step.questions:
            means = said(lead.question)
            rank = -min(step.score, 100) * min(lead.confidence, 100), lead.question.strip()
            if means and means not in asked:
                promise[means] = min(rank, promise.get(means, rank))
    return [question for _, question in sorted(promise.values())]


def _points(taken: Iterable[Taken], ruler: Ruler) -> Iterator[tuple[float, Point]]:
    """The answers that help, each with the rows that it names, or else with the first that it was given."""
    for step, rows in taken:
        if step.score > 0 and step.answer.strip():
            sources = cited(step.sources, rows) or tuple(row.reference for row in rows[:_FIRST])
            yield float(min(step.score, 100)), point(step.answer, sources, ruler)
