"""claims -> numbers of each answer and each system: how many there are, how many different things they say."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kumihimo.evaluate.clusters import THRESHOLDS, MergeRule, count_clusters
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion
from kumihimo.evaluate.rouge import TokenKind

AnswerKey = tuple[str, str]  # a system and a question's id
ValuesByMeasure = dict[str, dict[str, float | None]]  # by name of the measure, by question


def count_claims_per_answer(claims: Iterable[AnswerClaim]) -> Counter[AnswerKey]:
    """How many claims each answer makes that makes any: comprehensiveness (GraphRAG, section 4.2)."""
    return Counter((claim.system, claim.question) for claim in claims)


def count_clusters_per_answer(
    claims: Iterable[AnswerClaim],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    tokens: TokenKind = "unicode",
    merges: MergeRule = "<",
) -> dict[AnswerKey, list[int]]:
    """Into how many clusters they fall, at each threshold: diversity."""
    said: defaultdict[AnswerKey, list[str]] = defaultdict(list)
    for claim in claims:
        said[claim.system, claim.question].append(claim.text)
    return {
        answer: count_clusters(texts, thresholds, token_kind=tokens, merge_rule=merges)
        for answer, texts in said.items()
    }


def measure_claims(
    claims: Iterable[AnswerClaim],
    questions: Iterable[EvalQuestion],
    system: str,
    sentences: Iterable[AnswerSentence] | None = None,
    *,
    tokens: TokenKind = "unicode",
    merges: MergeRule = "<",
) -> ValuesByMeasure:
    """`claims` and `clusters@0.5` ... of a system's answer to each question.

    sentences: what became of them. An answer without claims counts 0; one that is not there, or failed, or of which a
    sentence failed so that nobody knows what it claims, is None. Without sentences nobody can tell: all count.
    """
    mine = [claim for claim in claims if claim.system == system]
    count, groups = count_claims_per_answer(mine), count_clusters_per_answer(mine, tokens=tokens, merges=merges)
    known = None if sentences is None else find_complete_answers(sentences, system)
    found: ValuesByMeasure = {name: {} for name in ("claims", *map(cluster_measure_name, THRESHOLDS))}
    for question in questions:
        there = known is None or question.id in known
        split = groups.get((system, question.id), [0] * len(THRESHOLDS))
        found["claims"][question.id] = float(count[system, question.id]) if there else None
        for threshold, size in zip(THRESHOLDS, split, strict=True):
            found[cluster_measure_name(threshold)][question.id] = float(size) if there else None
    return found


def cluster_measure_name(threshold: float) -> str:
    """The name of the measure.

    >>> at(0.5)
    'clusters@0.5'
    """
    return f"clusters@{threshold:g}"


def find_complete_answers(sentences: Iterable[AnswerSentence], system: str) -> set[str]:
    """The questions whose answers were read from beginning to end."""
    read: set[str] = set()
    not_read: set[str] = set()
    for sentence in sentences:
        if sentence.system == system:
            (not_read if sentence.outcome in ("failed", "no answer") else read).add(sentence.question)
    return read - not_read


def mean_and_count(found: Mapping[str, float | None]) -> tuple[float | None, int]:
    """Of the numbers that there are, and how many they are; None of none."""
    there = [value for value in found.values() if value is not None]
    return (sum(there) / len(there) if there else None), len(there)


def count_outcomes(sentences: Iterable[AnswerSentence], system: str) -> dict[str, int]:
    """How many of its sentences became what, the most frequent first; and answers that have none."""
    found = Counter(sentence.outcome for sentence in sentences if sentence.system == system)
    return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))
