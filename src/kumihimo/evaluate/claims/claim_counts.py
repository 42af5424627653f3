"""claims -> numbers per answer and system: how many claims, how many distinct ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from kumihimo.evaluate.clusters import THRESHOLDS, MergeRule, count_clusters
from kumihimo.evaluate.records import AnswerClaim, AnswerSentence, EvalQuestion
from kumihimo.evaluate.rouge import TokenKind

AnswerKey = tuple[str, str]  # system, question id
ValuesByMeasure = dict[str, dict[str, float | None]]  # by measure, by question


def count_claims_per_answer(claims: Iterable[AnswerClaim]) -> Counter[AnswerKey]:
    """Count the claims of each answer: comprehensiveness (GraphRAG, section 4.2).

    Answers without claims are missing.
    """
    return Counter((claim.system, claim.question) for claim in claims)


def count_clusters_per_answer(
    claims: Iterable[AnswerClaim],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    token_kind: TokenKind = "unicode",
    merge_rule: MergeRule = "<",
) -> dict[AnswerKey, list[int]]:
    """Count the claim clusters of each answer per threshold: diversity."""
    texts_by_answer: defaultdict[AnswerKey, list[str]] = defaultdict(list)
    for claim in claims:
        texts_by_answer[claim.system, claim.question].append(claim.text)
    return {
        answer: count_clusters(texts, thresholds, token_kind=token_kind, merge_rule=merge_rule)
        for answer, texts in texts_by_answer.items()
    }


def measure_claims(
    claims: Iterable[AnswerClaim],
    questions: Iterable[EvalQuestion],
    system: str,
    sentences: Iterable[AnswerSentence] | None = None,
    *,
    token_kind: TokenKind = "unicode",
    merge_rule: MergeRule = "<",
) -> ValuesByMeasure:
    """Return `claims`, `clusters@0.5` ... of a system's answer to each question.

    sentences: the outcomes of its sentences. An answer without claims has 0. The value is None if the answer is
    missing, has failed, or has a failed sentence, because its claims are then unknown. Without `sentences` every
    answer counts.
    """
    own_claims = [claim for claim in claims if claim.system == system]
    count, clusters = (
        count_claims_per_answer(own_claims),
        count_clusters_per_answer(own_claims, token_kind=token_kind, merge_rule=merge_rule),
    )
    complete = None if sentences is None else find_complete_answers(sentences, system)
    values: ValuesByMeasure = {name: {} for name in ("claims", *map(cluster_measure_name, THRESHOLDS))}
    for question in questions:
        is_known = complete is None or question.id in complete
        sizes = clusters.get((system, question.id), [0] * len(THRESHOLDS))
        values["claims"][question.id] = float(count[system, question.id]) if is_known else None
        for threshold, size in zip(THRESHOLDS, sizes, strict=True):
            values[cluster_measure_name(threshold)][question.id] = float(size) if is_known else None
    return values


def cluster_measure_name(threshold: float) -> str:
    """Return the name of a cluster measure.

    >>> cluster_measure_name(0.5)
    'clusters@0.5'
    """
    return f"clusters@{threshold:g}"


def find_complete_answers(sentences: Iterable[AnswerSentence], system: str) -> set[str]:
    """Return the questions whose answers were processed without failure."""
    processed: set[str] = set()
    failed: set[str] = set()
    for sentence in sentences:
        if sentence.system == system:
            (failed if sentence.outcome in ("failed", "no answer") else processed).add(sentence.question)
    return processed - failed


def mean_and_count(values: Mapping[str, float | None]) -> tuple[float | None, int]:
    """Return the mean and the number of known values.

    The mean is None if no value is known.
    """
    known_values = [value for value in values.values() if value is not None]
    return (sum(known_values) / len(known_values) if known_values else None), len(known_values)


def count_outcomes(sentences: Iterable[AnswerSentence], system: str) -> dict[str, int]:
    """Count a system's sentences by outcome, the most frequent first.

    Failed and empty answers count as one sentence.
    """
    counts = Counter(sentence.outcome for sentence in sentences if sentence.system == system)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
