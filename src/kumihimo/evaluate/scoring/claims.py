"""claims of an answer and of its reference + the chunks that support them -> the causes of an answer's errors.

RAGChecker (arXiv:2408.08067), section 3.3: boolean matrices and shares of them. A share of nothing is undefined
(None); the released code returns 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.statements import answer_statements, reference_statements
from kumihimo.evaluate.scoring.support_check import check_support

Flags = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class ClaimMatrices:
    """The support between claims, texts and chunks.

    A claim is a statement of the answer or of the reference; a chunk is a piece of evidence. correct: per answer
    claim, whether the reference supports it. covered: per reference claim, whether the answer supports it.
    reference_in_chunks: per reference claim, the chunks that support it. answer_in_chunks: the same per answer claim.
    """

    correct: Flags
    covered: Flags
    reference_in_chunks: tuple[Flags, ...]
    answer_in_chunks: tuple[Flags, ...]

    @property
    def relevant_chunks(self) -> Flags:
        """Return per chunk whether it supports any reference claim."""
        return tuple(any(column) for column in zip(*self.reference_in_chunks, strict=True))


def claim_precision(m: ClaimMatrices) -> float | None:
    """Return the answer claims in the reference / answer claims."""
    return _fraction(m.correct)


def claim_recall(m: ClaimMatrices) -> float | None:
    """Return the reference claims in some chunk / reference claims.

    This is the upper bound that retrieval allows.
    """
    return _fraction([any(row) for row in m.reference_in_chunks])


def chunk_precision(m: ClaimMatrices) -> float | None:
    """Return the chunks with a reference claim / chunks.

    The paper calls it context precision.
    """
    return _fraction(m.relevant_chunks)


def context_utilisation(m: ClaimMatrices) -> float | None:
    """Return the share of retrieved reference claims that the answer uses."""
    return _fraction([covered for covered, row in zip(m.covered, m.reference_in_chunks, strict=True) if any(row)])


def noise_in_relevant(m: ClaimMatrices) -> float | None:
    """Return the wrong answer claims in a relevant chunk / answer claims."""
    by_relevant = _supported_by(m, m.relevant_chunks)
    return _fraction([not correct and relevant for correct, relevant in zip(m.correct, by_relevant, strict=True)])


def noise_in_irrelevant(m: ClaimMatrices) -> float | None:
    """Return the wrong claims in irrelevant chunks alone / answer claims."""
    by_relevant = _supported_by(m, m.relevant_chunks)
    by_irrelevant = _supported_by(m, [not relevant for relevant in m.relevant_chunks])
    return _fraction(
        [
            not correct and irrelevant and not relevant
            for correct, relevant, irrelevant in zip(m.correct, by_relevant, by_irrelevant, strict=True)
        ]
    )


def hallucination(m: ClaimMatrices) -> float | None:
    """Return the wrong answer claims in no chunk / answer claims."""
    return _fraction([not correct and not any(row) for correct, row in zip(m.correct, m.answer_in_chunks, strict=True)])


def self_knowledge(m: ClaimMatrices) -> float | None:
    """Return the right answer claims in no chunk / answer claims."""
    return _fraction([correct and not any(row) for correct, row in zip(m.correct, m.answer_in_chunks, strict=True)])


def _supported_by(m: ClaimMatrices, chunks: Sequence[bool]) -> list[bool]:
    """Return per answer claim whether one of these chunks supports it."""
    return [
        any(supported and selected for supported, selected in zip(row, chunks, strict=True))
        for row in m.answer_in_chunks
    ]


def _fraction(values: Sequence[bool]) -> float | None:
    """Return the share of true values, or None without values."""
    return sum(values) / len(values) if values else None


# -- filled by an LLM


def make_claim_measure(
    share: Callable[[ClaimMatrices], float | None], undefined_reason: str
) -> Callable[[Case, Tools], ScoreResult]:
    """Build a measure from a share of the matrices.

    undefined_reason: the reason if the share is of nothing. The claims are the statements of faithfulness and
    answer_correctness, extracted once. Each chunk needs one call for the answer claims and one for the reference
    claims.
    But: the paper uses triples of subject, relation and object, and a model trained to check them.
    """

    def measure(case: Case, tools: Tools) -> ScoreResult:
        """Score one case."""
        if not case.question.reference.strip():
            return ScoreResult(None, NO_REFERENCE)
        answer_claims, reference_claims = answer_statements(case, tools), reference_statements(case, tools)
        if not reference_claims:
            return ScoreResult(None, "the reference answer states nothing")
        matrices = _fill_matrices(case, tools, answer_claims, reference_claims)
        value = share(matrices)
        detail = {
            "answer": answer_claims,
            "reference": reference_claims,
            "right": matrices.correct,
            "met": matrices.covered,
        }
        return ScoreResult(
            value,
            undefined_reason if value is None else "",
            {**detail, "found": matrices.reference_in_chunks, "drawn": matrices.answer_in_chunks},
        )

    measure.__doc__ = share.__doc__
    return measure


def _fill_matrices(
    case: Case, tools: Tools, answer_claims: Sequence[str], reference_claims: Sequence[str]
) -> ClaimMatrices:
    """Fill the matrices by LLM checks."""

    def support(claims: Sequence[str], text: str) -> Flags:
        """Return per claim whether the text supports it."""
        return tuple(verdict.holds for verdict in check_support(tools, case.question.text, claims, text))

    def by_chunks(claims: Sequence[str]) -> tuple[Flags, ...]:
        """Return per claim the chunks that support it."""
        columns = [support(claims, text) for text in case.contexts]
        return tuple(tuple(column[i] for column in columns) for i, _ in enumerate(claims))

    correct, covered = support(answer_claims, case.question.reference), support(reference_claims, case.answer_text)
    return ClaimMatrices(correct, covered, by_chunks(reference_claims), by_chunks(answer_claims))
