"""claims of an answer and of its reference, and what supports them -> where an answer's faults come from.

RAGChecker (arXiv:2408.08067), section 3.3: boolean matrices, and shares of them. Undefined, None, where the share would
be of nothing; the released code gives 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, Found, Tools
from kumihimo.evaluate.scoring.statements import of_answer, of_reference
from kumihimo.evaluate.scoring.support_check import supported

Row = tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Matrices:
    """What says what. A claim is a statement of the answer or of the reference; a chunk a piece of the evidence.

    right: of each claim of the answer whether the reference says it. met: of each claim of the reference whether the
    answer says it. found: of each claim of the reference, which chunks say it. drawn: the same of those of the answer.
    """

    right: Row
    met: Row
    found: tuple[Row, ...]
    drawn: tuple[Row, ...]

    @property
    def relevant(self) -> Row:
        """Of each chunk whether it says any claim of the reference."""
        return tuple(any(column) for column in zip(*self.found, strict=True))


def claim_precision(m: Matrices) -> float | None:
    """Claims of the answer that the reference says / claims of the answer."""
    return _share(m.right)


def claim_recall(m: Matrices) -> float | None:
    """Claims of the reference that some chunk says / claims of the reference: what retrieval made possible."""
    return _share([any(row) for row in m.found])


def chunk_precision(m: Matrices) -> float | None:
    """Chunks that say a claim of the reference / chunks (the paper's context precision)."""
    return _share(m.relevant)


def context_utilisation(m: Matrices) -> float | None:
    """Claims of the reference that some chunk and the answer say / those that some chunk says."""
    return _share([met for met, row in zip(m.met, m.found, strict=True) if any(row)])


def noise_in_relevant(m: Matrices) -> float | None:
    """Wrong claims of the answer that a relevant chunk says / claims of the answer."""
    return _share([not right and said for right, said in zip(m.right, _by(m, m.relevant), strict=True)])


def noise_in_irrelevant(m: Matrices) -> float | None:
    """Wrong claims of the answer that only irrelevant chunks say / claims of the answer."""
    good, bad = _by(m, m.relevant), _by(m, [not each for each in m.relevant])
    return _share([not right and b and not g for right, g, b in zip(m.right, good, bad, strict=True)])


def hallucination(m: Matrices) -> float | None:
    """Wrong claims of the answer that no chunk says / claims of the answer."""
    return _share([not right and not any(row) for right, row in zip(m.right, m.drawn, strict=True)])


def self_knowledge(m: Matrices) -> float | None:
    """Right claims of the answer that no chunk says / claims of the answer."""
    return _share([right and not any(row) for right, row in zip(m.right, m.drawn, strict=True)])


def _by(m: Matrices, chunks: Sequence[bool]) -> list[bool]:
    """Of each claim of the answer whether one of these chunks says it."""
    return [any(said and chosen for said, chosen in zip(row, chunks, strict=True)) for row in m.drawn]


def _share(held: Sequence[bool]) -> float | None:
    return sum(held) / len(held) if held else None


# -- filled by a model


def measured(share: Callable[[Matrices], float | None], nothing: str) -> Callable[[Case, Tools], Found]:
    """The measure of a case. nothing: why it is undefined where the share would be of nothing.

    Claims are the statements that faithfulness and answer_correctness are about, and those are asked for once. Each
    chunk is a call for the claims of the answer, and one for those of the reference.
    But: the paper's claims are triples of subject, relation and object, its checker a model made for that.
    """

    def measure(case: Case, tools: Tools) -> Found:
        if not case.question.reference.strip():
            return Found(None, NO_REFERENCE)
        made, wanted = of_answer(case, tools), of_reference(case, tools)
        if not wanted:
            return Found(None, "the reference answer states nothing")
        filled = _filled(case, tools, made, wanted)
        value = share(filled)
        detail = {"answer": made, "reference": wanted, "right": filled.right, "met": filled.met}
        return Found(value, nothing if value is None else "", {**detail, "found": filled.found, "drawn": filled.drawn})

    measure.__doc__ = share.__doc__
    return measure


def _filled(case: Case, tools: Tools, made: Sequence[str], wanted: Sequence[str]) -> Matrices:
    def said(claims: Sequence[str], text: str) -> Row:
        return tuple(verdict.holds for verdict in supported(tools, case.question.text, claims, text))

    def by_chunks(claims: Sequence[str]) -> tuple[Row, ...]:
        columns = [said(claims, text) for text in case.contexts]
        return tuple(tuple(column[i] for column in columns) for i, _ in enumerate(claims))

    right, met = said(made, case.question.reference), said(wanted, case.said)
    return Matrices(right, met, by_chunks(wanted), by_chunks(made))
