"""an answer, its evidence, the reference -> the catalogue of measures: formula, needs, undefined cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kumihimo.evaluate.scoring import claims
from kumihimo.evaluate.scoring.assertions import assertions_met
from kumihimo.evaluate.scoring.case import Case, ScoreResult, Tools
from kumihimo.evaluate.scoring.correctness import answer_correctness
from kumihimo.evaluate.scoring.faithfulness import faithfulness
from kumihimo.evaluate.scoring.precision import context_precision
from kumihimo.evaluate.scoring.recall import context_recall
from kumihimo.evaluate.scoring.relevance_graded import context_relevance_graded
from kumihimo.evaluate.scoring.relevance_sentences import context_relevance_sentences
from kumihimo.evaluate.scoring.word_overlap import exact_match, token_f1

MeasureGroup = Literal["words", "ragas", "assertions", "claims"]
MeasureFunction = Callable[[Case, Tools], ScoreResult]


@dataclass(frozen=True, slots=True)
class ScoreMeasure:
    """A measure of the catalogue.

    needs: inputs besides the answer. undefined: the case without a value, apart from missing inputs. better: whether
    `more` or `less` is better.
    """

    function: MeasureFunction
    group: MeasureGroup
    formula: str
    needs: tuple[str, ...]
    undefined: str
    better: Literal["more", "less"] = "more"

    @property
    def needs_model(self) -> bool:
        """Return whether the measure calls an LLM."""
        return "model" in self.needs


_REFERENCE, _NO_STATEMENT = "reference answer", "the answer makes no statement"


def _claim_measure(
    share: Callable[[claims.ClaimMatrices], float | None], formula: str, undefined: str = _NO_STATEMENT
) -> ScoreMeasure:
    """Return the measure of a share of claims."""
    needs = ("model", _REFERENCE, "evidence")
    return ScoreMeasure(claims.make_claim_measure(share, undefined), "claims", formula, needs, undefined)


def _lower_is_better(measure: ScoreMeasure) -> ScoreMeasure:
    """Return the measure with lower values as better."""
    return replace(measure, better="less")


SCORE_MEASURES: Mapping[str, ScoreMeasure] = {
    "exact_match": ScoreMeasure(
        exact_match,
        "words",
        "1 if the words equal those of a reference, else 0",
        (_REFERENCE,),
        "the reference answer has no words",
    ),
    "token_f1": ScoreMeasure(
        token_f1,
        "words",
        "2PR / (P + R) of words shared with a reference",
        (_REFERENCE,),
        "the reference answer has no words",
    ),
    "faithfulness": ScoreMeasure(
        faithfulness, "ragas", "supported statements / statements of the answer", ("model", "evidence"), _NO_STATEMENT
    ),
    "answer_correctness": ScoreMeasure(
        answer_correctness,
        "ragas",
        ".75 F1 of statements + .25 cosine",
        ("model", "embedder", _REFERENCE),
        "the reference answer states nothing",
    ),
    "context_relevance_sentences": ScoreMeasure(
        context_relevance_sentences,
        "ragas",
        "needed sentences / sentences of the evidence",
        ("model", "evidence"),
        "there is no evidence",
    ),
    "context_relevance_graded": ScoreMeasure(
        context_relevance_graded,
        "ragas",
        "mean of two ratings of 0, 1, 2 / 2",
        ("model", "evidence"),
        "there is no evidence",
    ),
    "context_recall": ScoreMeasure(
        context_recall,
        "ragas",
        "supported sentences / sentences of the reference",
        ("model", _REFERENCE, "evidence"),
        "the reference answer has no sentence",
    ),
    "context_precision": ScoreMeasure(
        context_precision,
        "ragas",
        "sum of P@k v_k / sum of v_k",
        ("model", _REFERENCE, "evidence"),
        "there is no evidence, or no piece is useful",
    ),
    "assertions": ScoreMeasure(
        assertions_met, "assertions", "assertions met / assertions", ("model", "assertions"), "the question has none"
    ),
    "claim_precision": _claim_measure(claims.claim_precision, "right claims / claims of the answer"),
    "claim_recall": _claim_measure(
        claims.claim_recall,
        "reference claims in a chunk / reference claims",
        "the reference answer states nothing",
    ),
    "chunk_precision": _claim_measure(
        claims.chunk_precision, "chunks with a reference claim / chunks", "there is no evidence"
    ),
    "context_utilisation": _claim_measure(
        claims.context_utilisation,
        "reference claims in a chunk and the answer / reference claims in a chunk",
        "no chunk supports a claim of the reference",
    ),
    "noise_in_relevant": _lower_is_better(
        _claim_measure(claims.noise_in_relevant, "wrong claims in a relevant chunk / claims of the answer")
    ),
    "noise_in_irrelevant": _lower_is_better(
        _claim_measure(claims.noise_in_irrelevant, "wrong claims in irrelevant chunks only / claims of the answer")
    ),
    "hallucination": _lower_is_better(
        _claim_measure(claims.hallucination, "wrong claims in no chunk / claims of the answer")
    ),
    "self_knowledge": _claim_measure(claims.self_knowledge, "right claims in no chunk / claims of the answer"),
}
MEASURE_GROUPS: tuple[MeasureGroup, ...] = ("words", "ragas", "assertions", "claims")
# without `claims`: these need two calls per chunk
DEFAULT_MEASURES: tuple[str, ...] = tuple(name for name, m in SCORE_MEASURES.items() if m.group != "claims")
