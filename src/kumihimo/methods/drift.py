"""question -> points from reports, then from local searches on follow-up questions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from kumihimo.core.context import Context, Evidence, Tokenizer
from kumihimo.core.records import Chunk, Claim, Community, Entity, Member, Mention, Relation, RelationMention, Report
from kumihimo.core.settings import Bounds, StartRows, Window
from kumihimo.core.signature import IndexSizes, MethodSettings, QueryCost, declare
from kumihimo.core.table import Table
from kumihimo.index.chunk_background import Description
from kumihimo.llm import concurrency, prompts
from kumihimo.llm.protocols import LLM, Reranker, RerankerName
from kumihimo.methods.local import local
from kumihimo.methods.shared import map_step, ranking
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.question import ParsedQuestion
from kumihimo.text.tokens import content_tokens

PROMPT = Path(__file__).with_suffix(".md")
HYPOTHESIS_PROMPT = Path(__file__).with_name("drift_hypothesis.md")
_MAX_SOURCES = 15  # of a step
_MAX_KNOWN = 2000  # characters of earlier answers in a prompt, and so tokens at most
_OTHER_TERMS = 0.25  # of all terms of two questions that ask for the same


@dataclass(frozen=True, slots=True)
class Lead:
    """A follow-up question with a confidence from 0 to 100.

    The model's confidence that the answer will help.
    """

    question: str
    confidence: int


@dataclass(frozen=True, slots=True)
class DriftStep:
    """An intermediate answer: its usefulness, its sources and follow-up questions."""

    answer: str
    score: int
    sources: list[int]
    questions: list[Lead]


SubQuestion = tuple[str, Context]  # a question, empty for the main one, and its evidence
AnsweredStep = tuple[DriftStep, Sequence[Evidence]]  # an answer and its evidence


def drift_cost(settings: MethodSettings, sizes: IndexSizes) -> QueryCost:
    """Return the calls for the first guess, the folds and follow-up questions."""
    calls, followups = settings["calls"], settings["depth"] * settings["width"]
    folds = min(settings["folds"], settings["k"], sizes.rows("reports"), calls - 1)
    most = (
        sizes.prompt_tokens(PROMPT)
        + map_step.FORM_TOKENS
        + settings["budget"]
        + _MAX_SOURCES * map_step.SOURCE_TOKENS
        + _MAX_KNOWN
    )
    maximum = min(calls, 1 + folds + followups)
    return QueryCost.for_calls((1, maximum), (sizes.prompt_tokens(HYPOTHESIS_PROMPT), most), (1, 1 + followups))


@declare(best_for="a broad question in several steps", answer_prompt=map_step.REDUCE_PROMPT, calls=drift_cost)
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
    descriptions: Table[Description] | None,
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    tokenizer: Tokenizer,
    llm: LLM,
    rerank: Reranker,
    *,
    k: StartRows = 20,
    folds: Annotated[int, Bounds(0, 100, asked=(0, 20))] = 2,
    depth: Annotated[int, Bounds(0, 20, asked=(0, 5))] = 2,
    width: Annotated[int, Bounds(1, 100, asked=(1, 20))] = 3,
    calls: Annotated[int, Bounds(1, 1000, asked=(1, 50))] = 20,
    budget: Annotated[int, Bounds(1, 1_000_000, asked=(1, 30_000))] = 2000,
    window: Window = 4000,
    reranker: RerankerName = "none",
) -> Context:
    """Answer from reports, then search follow-up questions locally (GraphRAG, DRIFT).

    A hypothetical report finds the `k` nearest reports, read in `folds`. Each fold gives an answer and follow-up
    questions. The best `width` of these are searched by `local`, `depth` times, but none that an earlier step has
    asked. budget: tokens of the sources of a call, at most 15. calls: maximum LLM calls, without reranking and the
    final answer. window: tokens of the points.
    But: the hypothetical report has a fixed form, not that of a random report; follow-ups are ranked by the score of
    their answer and the model's confidence, not sampled; each is asked once; the points have a window.
    """
    hypothetical = llm(prompts.render_prompt(HYPOTHESIS_PROMPT, question=question), parse=prompts.require_text)
    nearest = vector_search(reports, hypothetical, k=k).evidence
    count = min(folds, len(nearest), calls - 1)

    take_steps = partial(_take_steps, question, llm, descriptions)
    folds_read = [("", Context(nearest[n::count]).fit(budget, tokenizer)) for n in range(count)]
    answered = take_steps((), folds_read)
    asked = [question] if answered else []
    tables = (chunks, mentions, ties, entities, relations, claims, communities, members, reports)
    ports = (keyword_search, vector_search, tokenizer, rerank)
    for _ in range(depth):
        count = min(width, calls - 1 - len(answered))
        leads = _select_leads(answered, asked, count) if asked else [question][:count]
        asked += leads
        answered += take_steps(answered, [(lead, local(lead, *tables, *ports, budget=budget)) for lead in leads])
    statements = ((step.answer, step.score, step.sources, rows) for step, rows in answered)
    return rerank(question, map_step.rank_statements(statements, tokenizer), reranker).fit(window, tokenizer)


def _take_steps(
    question: str,
    llm: LLM,
    descriptions: Table[Description] | None,
    earlier: Iterable[AnsweredStep],
    searches: Iterable[SubQuestion],
) -> list[AnsweredStep]:
    """Answer each step from its best rows, concurrently, if it has any."""
    known = "\n".join(f"- {step.answer}" for step, _ in earlier if step.answer)[:_MAX_KNOWN]

    def answer_one(search: SubQuestion) -> AnsweredStep:
        rows = search[1].top(_MAX_SOURCES).evidence
        sources = map_step.rows_to_sources(rows, map_step.document_dates(descriptions, rows))
        prompt = prompts.render_prompt(PROMPT, sources=sources, question=question, known=known, step=search[0])
        return llm(prompt, schema=DriftStep), rows

    return list(concurrency.map_concurrent(answer_one, [search for search in searches if search[1]], llm.workers))


def _select_leads(answered: Iterable[AnsweredStep], asked: Iterable[str], count: int) -> list[str]:
    """Return new follow-up questions, the most promising first.

    Promise: the score of the answer times the confidence in the question.
    """
    ranked = sorted(
        (-min(step.score, 100) * min(lead.confidence, 100), lead.question.strip())
        for step, _ in answered
        for lead in step.questions
        if ranking.question_signature(lead.question)
    )
    earlier, selected = [*map(ParsedQuestion, asked)], list[str]()
    for _, text in ranked:
        if len(selected) < count and not any(_is_same(lead := ParsedQuestion(text), other) for other in earlier):
            earlier.append(lead)
            selected.append(text)
    return selected


def _is_same(question: ParsedQuestion, other: ParsedQuestion) -> bool:
    """Return whether two questions have nearly all terms in common.

    >>> texts = ("Why was the old lock at Osk closed?", "Why at Osk was the lock closed?", "Why was the lock closed?")
    >>> [_is_same(ParsedQuestion(texts[0]), ParsedQuestion(text)) for text in texts]
    [True, True, False]
    """
    terms, other_terms = set(content_tokens(question.text)), set(content_tokens(other.text))
    names = {word.token for word in (*question.names, *other.names)}
    different = terms ^ other_terms
    is_near = len(different) <= _OTHER_TERMS * len(terms | other_terms)
    return is_near and not any(term in names or any(map(str.isdigit, term)) for term in different)
