"""claims -> numbers of each answer and each system: how many there are, how many different things they say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kumihimo.evaluate.clusters import THRESHOLDS, Merges, clusters
from kumihimo.evaluate.records import Claim, Question, Sentence
from kumihimo.evaluate.rouge import Tokens

Answer = tuple[str, str]  # a system and a question's id
Values = dict[str, dict[str, float | None]]  # by name of the measure, by question


def per_answer(claims: Iterable[Claim]) -> Counter[Answer]:
    """How many claims each answer makes that makes any: comprehensiveness (GraphRAG, section 4.2)."""
    return Counter((claim.system, claim.question) for claim in claims)


def clusters_per_answer(
    claims: Iterable[Claim],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    tokens: Tokens = "unicode",
    merges: Merges = "<",
) -> dict[Answer, list[int]]:
    """Into how many clusters they fall, at each threshold: diversity."""
    said: defaultdict[Answer, list[str]] = defaultdict(list)
    for claim in claims:
        said[claim.system, claim.question].append(claim.text)
    return {answer: clusters(texts, thresholds, tokens=tokens, merges=merges) for answer, texts in said.items()}


def values(
    claims: Iterable[Claim],
    questions: Iterable[Question],
    system: str,
    sentences: Iterable[Sentence] | None = None,
    *,
    tokens: Tokens = "unicode",
    merges: Merges = "<",
) -> Values:
    """`claims` and `clusters@0.5` ... of a system's answer to each question.

    sentences: what became of them. An answer without claims counts 0; one that is not there, or failed, or of which a
    sentence failed so that nobody knows what it claims, is None. Without sentences nobody can tell: all count.
    """
    mine = [claim for claim in claims if claim.system == system]
    count, groups = per_answer(mine), clusters_per_answer(mine, tokens=tokens, merges=merges)
    known = None if sentences is None else whole(sentences, system)
    found: Values = {name: {} for name in ("claims", *map(at, THRESHOLDS))}
    for question in questions:
        there = known is None or question.id in known
        split = groups.get((system, question.id), [0] * len(THRESHOLDS))
        found["claims"][question.id] = float(count[system, question.id]) if there else None
        for threshold, size in zip(THRESHOLDS, split, strict=True):
            found[at(threshold)][question.id] = float(size) if there else None
    return found


def at(threshold: float) -> str:
    """The name of the measure.

    >>> at(0.5)
    'clusters@0.5'
    """
    return f"clusters@{threshold:g}"


def whole(sentences: Iterable[Sentence], system: str) -> set[str]:
    """The questions whose answers were read from beginning to end."""
    read: set[str] = set()
    not_read: set[str] = set()
    for sentence in sentences:
        if sentence.system == system:
            (not_read if sentence.outcome in ("failed", "no answer") else read).add(sentence.question)
    return read - not_read


def mean(found: Mapping[str, float | None]) -> tuple[float | None, int]:
    """Of the numbers that there are, and how many they are; None of none."""
    there = [value for value in found.values() if value is not None]
    return (sum(there) / len(there) if there else None), len(there)


def outcomes(sentences: Iterable[Sentence], system: str) -> dict[str, int]:
    """How many of its sentences became what, the most frequent first; and answers that have none."""
    found = Counter(sentence.outcome for sentence in sentences if sentence.system == system)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
