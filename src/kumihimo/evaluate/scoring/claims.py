"""claims of an answer and of its reference, and what supports them -> where an answer's faults come from.

RAGChecker (arXiv:2408.08067), section 3.3: boolean matrices, and shares of them. Undefined, None, where the share would
be of nothing; the released code gives 0 there.
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
    """What says what. A claim is a statement of the answer or of the reference; a chunk a piece of the evidence.

    right: of each claim of the answer whether the reference says it. met: of each claim of the reference whether the
    answer says it. found: of each claim of the reference, which chunks say it. drawn: the same of those of the answer.
    """

    correct: Flags
    covered: Flags
    reference_in_chunks: tuple[Flags, ...]
    answer_in_chunks: tuple[Flags, ...]

    @property
    def relevant_chunks(self) -> Flags:
        """Of each chunk whether it says any claim of the reference."""
        return tuple(any(column) for column in zip(*self.reference_in_chunks, strict=True))


def claim_precision(m: ClaimMatrices) -> float | None:
    """Claims of the answer that the reference says / claims of the answer."""
    return _fraction(m.correct)


def claim_recall(m: ClaimMatrices) -> float | None:
    """Claims of the reference that some chunk says / claims of the reference: what retrieval made possible."""
    return _fraction([any(row) for row in m.reference_in_chunks])


def chunk_precision(m: ClaimMatrices) -> float | None:
    """Chunks that say a claim of the reference / chunks (the paper's context precision)."""
    return _fraction(m.relevant_chunks)


def context_utilisation(m: ClaimMatrices) -> float | None:
    """Claims of the reference that some chunk and the answer say / those that some chunk says."""
    return _fraction([met for met, row in zip(m.covered, m.reference_in_chunks, strict=True) if any(row)])


def noise_in_relevant(m: ClaimMatrices) -> float | None:
    """Wrong claims of the answer that a relevant chunk says / claims of the answer."""
    return _fraction(
        [not right and said for right, said in zip(m.correct, _supported_by(m, m.relevant_chunks), strict=True)]
    )


def noise_in_irrelevant(m: ClaimMatrices) -> float | None:
    """Wrong claims of the answer that only irrelevant chunks say / claims of the answer."""
    good, bad = _supported_by(m, m.relevant_chunks), _supported_by(m, [not each for each in m.relevant_chunks])
    return _fraction([not right and b and not g for right, g, b in zip(m.correct, good, bad, strict=True)])


def hallucination(m: ClaimMatrices) -> float | None:
    """Wrong claims of the answer that no chunk says / claims of the answer."""
    return _fraction([not right and not any(row) for right, row in zip(m.correct, m.answer_in_chunks, strict=True)])


def self_knowledge(m: ClaimMatrices) -> float | None:
    """Right claims of the answer that no chunk says / claims of the answer."""
    return _fraction([right and not any(row) for right, row in zip(m.correct, m.answer_in_chunks, strict=True)])


def _supported_by(m: ClaimMatrices, chunks: Sequence[bool]) -> list[bool]:
    """Of each claim of the answer whether one of these chunks says it."""
    return [any(said and chosen for said, chosen in zip(row, chunks, strict=True)) for row in m.answer_in_chunks]


def _fraction(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


# -- filled by a model


def make_claim_measure(
    share: Callable[[ClaimMatrices], float | None], undefined_reason: str
) -> Callable[[Case, Tools], ScoreResult]:
    """The measure of a case. nothing: why it is undefined where the share would be of nothing.

    Claims are the statements that faithfulness and answer_correctness are about, and those are asked for once. Each
    chunk is a call for the claims of the answer, and one for those of the reference.
    But: the paper's claims are triples of subject, relation and object, its checker a model made for that.
    """

    def measure(case: Case, tools: Tools) -> ScoreResult:
        if not case.question.reference.strip():
            return ScoreResult(None, NO_REFERENCE)
        made, wanted = answer_statements(case, tools), reference_statements(case, tools)
        if not wanted:
            return ScoreResult(None, "the reference answer states nothing")
        filled = _fill_matrices(case, tools, made, wanted)
        value = share(filled)
        detail = {"answer": made, "reference": wanted, "right": filled.correct, "met": filled.covered}
        return ScoreResult(
            value,
            undefined_reason if value is None else "",
            {**detail, "found": filled.reference_in_chunks, "drawn": filled.answer_in_chunks},
        )

    measure.__doc__ = share.__doc__
    return measure


def _fill_matrices(case: Case, tools: Tools, made: Sequence[str], wanted: Sequence[str]) -> ClaimMatrices:
    def said(claims: Sequence[str], text: str) -> Flags:
        return tuple(verdict.holds for verdict in check_support(tools, case.question.text, claims, text))

    def by_chunks(claims: Sequence[str]) -> tuple[Flags, ...]:
        columns = [said(claims, text) for text in case.contexts]
        return tuple(tuple(column[i] for column in columns) for i, _ in enumerate(claims))

    right, met = said(made, case.question.reference), said(wanted, case.answer_text)
    return ClaimMatrices(right, met, by_chunks(wanted), by_chunks(made))
