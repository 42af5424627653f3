"""queries -> rows by keyword and vector search, one ranking each; and which queries are the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from kumihimo.core.context import Context
from kumihimo.core.records import Record
from kumihimo.core.table import Table
from kumihimo.search.protocols import KeywordSearch, VectorSearch
from kumihimo.text.tokens import content_tokens

R = TypeVar("R", bound=Record)


def hybrid_search(
    questions: Sequence[str],
    rows: Table[R],
    keyword_search: KeywordSearch,
    vector_search: VectorSearch,
    *,
    pool: int,
    meaning: float,
) -> list[Context]:
    """Return a fused keyword and vector ranking for each query.

    Each search gives its best `pool`; vector scores count times `meaning`. All queries are embedded together.
    """
    vector_hits = vector_search.search_many(rows, questions, k=pool)
    keyword_hits = [keyword_search(rows, question, k=pool) for question in questions]
    return [Context.fuse(hits, weights=[1.0, meaning]) for hits in zip(keyword_hits, vector_hits, strict=True)]


def question_signature(question: str) -> str:
    """Return a key that ignores word order and case.

    >>> question_signature("Who mended the breakwater?") == question_signature("The breakwater: who has mended it?")
    True
    """
    return " ".join(sorted(content_tokens(question)))


def new_questions(questions: Iterable[str], earlier: Iterable[str]) -> list[str]:
    """Return the queries that repeat no earlier one.

    >>> queries = ["The ferry: when?", "  ", "Is the pier deep?", "Deep the pier is."]
    >>> new_questions(queries, earlier=["When is the ferry?"])
    ['Is the pier deep?']
    """
    signatures = {"", *map(question_signature, earlier)}
    distinct: list[str] = []
    for question in questions:
        if question_signature(question) not in signatures:
            signatures.add(question_signature(question))
            distinct.append(question.strip())
    return distinct


def merge_best(rankings: Iterable[Context]) -> Context:
    """Merge rankings; each row keeps its best score.

    Scores are not added: each part of a question has a passage of its own, which the other parts do not match
    (measured).
    """
    hits = [item for ranking in rankings for item in ranking]
    return Context(tuple(sorted(hits, key=lambda item: (-item.score, item.reference))))
