"""questions -> rows by words and meaning, a ranking for each; and which questions ask for the same."""

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
    """What words and meaning find for each question: the best `pool` of both, fused, those of meaning times `meaning`.

    The questions are embedded together.
    """
    near_them = vector_search.search_many(rows, questions, k=pool)
    by_words = [keyword_search(rows, question, k=pool) for question in questions]
    return [Context.fuse(pair, weights=[1.0, meaning]) for pair in zip(by_words, near_them, strict=True)]


def question_signature(question: str) -> str:
    """What two questions have in common that ask for the same.

    >>> said("Who mended the breakwater?") == said("The breakwater: who has mended it?")
    True
    """
    return " ".join(sorted(content_tokens(question)))


def new_questions(questions: Iterable[str], earlier: Iterable[str]) -> list[str]:
    """The questions that ask for something else than what is known, and than those before them.

    >>> others(["The ferry: when?", "  ", "Is the pier deep?", "Deep the pier is."], known=["When is the ferry?"])
    ['Is the pier deep?']
    """
    there = {"", *map(question_signature, earlier)}
    found: list[str] = []
    for question in questions:
        if question_signature(question) not in there:
            there.add(question_signature(question))
            found.append(question.strip())
    return found


def merge_best(rankings: Iterable[Context]) -> Context:
    """One ranking of several: a row has the best of its scores in any.

    They are not added: a part of a question has a passage of its own, which the others say nothing of (measured).
    """
    found = [item for ranking in rankings for item in ranking]
    return Context(tuple(sorted(found, key=lambda item: (-item.score, item.reference))))
