"""question -> chunks near it, and near a model's rewording of it, its parts, and what else it may mean."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kumihimo.core.context import Context, Evidence, Ruler
from kumihimo.core.errors import SettingsError, Unreadable
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.llm.prompts import prompt
from kumihimo.llm.protocols import Ask, Messages, Rank, Rerank
from kumihimo.methods.shared.hybrid_search import best, others, plain
from kumihimo.search.protocols import Match, Near

PROMPT = Path(__file__).with_suffix(".md")
AGAIN = Path(__file__).with_name("rq_again.md")
_FURTHER = 0.9  # what a model's question counts beside the one that was asked
log = logging.getLogger("kumihimo")


@dataclass(frozen=True, slots=True)
class Refined:
    """Questions to search for beside the one that was asked; of each kind none where there is no need of it."""

    rewrite: str
    decompose: list[str]
    disambiguate: list[str]


def rq(
    question: str,
    chunks: Table[Chunk],
    ask: Ask,
    match: Match,
    near: Near,
    ruler: Ruler,
    rank: Rank,
    *,
    depth: int = 1,
    queries: int = 5,
    k: int = 20,
    pool: int = 100,
    meaning: float = 0.5,
    shown: int = 2000,
    budget: int = 8000,
    rerank: Rerank = "none",
) -> Context:
    """Chunks near the question or near its rewording, parts or meanings (RQ-RAG, Chan et al., 2024, arXiv:2404.00610).

    One call gives them; the question and they, at most `queries`, are searched as `naive` searches, and a chunk counts
    by the best of its ranks. Each `depth` more is a call that is shown the best `shown` tokens and refines once more.
    But: prompted, not trained: the paper tunes a model of 7B to emit these kinds one at a time, and picks the best of
    several courses; here one reply holds all kinds, and all that they find is put together.
    """
    if depth < 1 or queries < 1:
        raise SettingsError(f"rq.depth = {depth}, rq.queries = {queries}: both have to be 1 or more")
    search = partial(plain, rows=chunks, match=match, near=near, pool=pool, meaning=meaning)
    refined = _refined(prompt(PROMPT, question=question), ask) if queries > 1 else []
    asked = [question, *others(refined, [question])][:queries]
    found = search(asked)
    for _ in range(depth - 1):
        passages = _best(found).top(k).fit(shown, ruler)
        more = others(_refined(_told(question, asked, passages), ask), asked)[:queries] if passages else []
        if not more:
            break
        asked += more
        found += search(more)
    context = rank(question, _best(found), rerank).top(k).fit(budget, ruler)
    return replace(context, searched=tuple(asked[1:]))


def _refined(told: Messages, ask: Ask) -> list[str]:
    """What a model would search for; nothing where its replies cannot be read, for the question is searched anyway."""
    try:
        said = ask(told, into=Refined)
    except Unreadable as error:
        log.warning("rq searches for no further questions: %s", error)
        return []
    return [said.rewrite, *said.decompose, *said.disambiguate]


def _told(question: str, asked: Iterable[str], passages: Iterable[Evidence]) -> Messages:
    texts = "\n\n---\n\n".join(item.told for item in passages)
    return prompt(AGAIN, passages=texts, searched="\n".join(f"- {one}" for one in asked), question=question)


def _best(rankings: Iterable[Context]) -> Context:
    """One ranking of several, the first of them that of the question."""
    return best(Context.fuse([one], weights=[_FURTHER if n else 1.0]) for n, one in enumerate(rankings))
