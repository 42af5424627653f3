"""A case -> the result of each measure by a model: ragas, assertions, claims (RAGChecker)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any, Literal

from kumihimo.evaluate.scoring import case as cases
from kumihimo.evaluate.scoring.case import NO_REFERENCE, Case, ScoreResult, Tools, check_support, describe_checks
from kumihimo.llm.prompts import number_sources

_NO_EVIDENCE = "there is no evidence"
_NO_ASSERTIONS = "the question has no assertions"
_PROMPT_NAMES = ("assertions", "needed", "useful", "grade", "grade_again")
MET_PROMPT, NEEDED_PROMPT, USEFUL_PROMPT, *GRADE_PROMPTS = (
    Path(__file__).with_name(f"scoring_{name}.md") for name in _PROMPT_NAMES
)
FACTS_WEIGHT, COSINE_WEIGHT = 0.75, 0.25  # as in ragas


# -- ragas


@dataclass(frozen=True, slots=True)
class NeededItems:
    """The numbers of the needed sentences."""

    numbers: list[int]


@dataclass(frozen=True, slots=True)
class Grade:
    """A grade with the reason before it."""

    reason: str
    grade: Literal[0, 1, 2]


def faithfulness(case: Case, tools: Tools) -> ScoreResult:
    """Score the supported statements / statements of the answer (ragas, arXiv:2309.15217, 3).

    Four statements, three of them supported by the evidence: .75. Undefined if the answer makes no statement; 0 if it
    makes some without any evidence.
    But: one call extracts the statements of the whole answer, instead of one call per sentence.
    """
    if not (claims := cases.answer_statements(case, tools)):
        return ScoreResult(None, "the answer makes no statement", {"statements": []})
    return _share_in_evidence(case, tools, "statements", claims)


def context_recall(case: Case, tools: Tools) -> ScoreResult:
    """Score the supported sentences / sentences of the reference (ragas).

    One of two: .5. Undefined without a reference answer; 0 without evidence.
    """
    expected = list(cases.split_into_sentences(case.question.reference))
    return _share_in_evidence(case, tools, "sentences", expected) if expected else ScoreResult(None, NO_REFERENCE)


def _share_in_evidence(case: Case, tools: Tools, name: str, items: Sequence[str]) -> ScoreResult:
    """Return the share of supported items; name: of the detail."""
    checks = check_support(tools, case.question.text, items, case.contexts)
    reason = "" if case.contexts else _NO_EVIDENCE
    return ScoreResult(fraction_true([c.holds for c in checks]), reason, {name: describe_checks(items, checks)})


def answer_correctness(case: Case, tools: Tools) -> ScoreResult:
    """Score .75 F1 + .25 cosine (ragas), against the reference answer.

    F1 = TP / (TP + (FP + FN) / 2). TP: statements of the answer that the reference supports. FP: those it does not
    support. FN: statements of the reference that the answer does not support. The cosine compares the vectors of the
    whole texts and is at least 0. TP 2, FP 1, FN 1 and a cosine of .8: .75 * 2/3 + .25 * .8 = .7.
    0 if the answer states nothing. Undefined without a reference, or with a reference that states nothing.
    But: ragas gives an F1 of 1.0 if either list is empty, and sorts TP, FP and FN in one call. Here each side is
    checked against the other.
    """
    reference = case.question.reference
    if not reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    answer_claims, reference_claims = cases.answer_statements(case, tools), cases.reference_statements(case, tools)
    statements = {"answer": answer_claims, "reference": reference_claims}
    if not reference_claims:
        subject = "the reference answer states nothing"
        reason = subject if answer_claims else "neither the answer nor the reference states anything"
        return ScoreResult(None, reason, statements)
    if not answer_claims:
        return ScoreResult(0.0, "the answer states nothing", statements)
    precision_checks = check_support(tools, case.question.text, answer_claims, [reference])
    recall_checks = check_support(tools, case.question.text, reference_claims, [case.answer_text])
    tp, fn = sum(check.holds for check in precision_checks), sum(not check.holds for check in recall_checks)
    facts, cosine = f1(tp, len(answer_claims) - tp, fn), tools.cosine(case.answer_text, reference)
    detail = {
        "f1": facts,
        "cosine": cosine,
        "answer": describe_checks(answer_claims, precision_checks),
        "reference": describe_checks(reference_claims, recall_checks),
    }
    return ScoreResult(FACTS_WEIGHT * facts + COSINE_WEIGHT * cosine, detail=detail)


def f1(tp: int, fp: int, fn: int) -> float:
    """Return the F1 score of these counts.

    >>> f1(2, 1, 1), f1(0, 3, 0)
    (0.6666666666666666, 0.0)
    """
    return tp / (tp + (fp + fn) / 2) if tp else 0.0


def context_relevance_sentences(case: Case, tools: Tools) -> ScoreResult:
    """Score the needed sentences / sentences of the evidence (arXiv:2309.15217, section 3).

    Two needed of eight: .25. Undefined without evidence or without sentences in it; 0 if none is needed.
    But: the model returns the numbers of the sentences instead of copying them, so it cannot change them. Unknown
    numbers are ignored and kept in the detail.
    """
    sentences = [sentence for text in case.contexts for sentence in cases.split_into_sentences(text)]
    if not sentences:
        return ScoreResult(None, _NO_EVIDENCE if not case.contexts else "the evidence has no sentences")
    items = cases.render_numbered_list(sentences)
    numbers = sorted(set(tools.ask(NEEDED_PROMPT, NeededItems, question=case.question.text, items=items).numbers))
    needed = [sentences[n - 1] for n in numbers if 1 <= n <= len(sentences)]
    unknown = [n for n in numbers if not 1 <= n <= len(sentences)]
    detail = {"sentences": len(sentences), "needed": needed, "beyond": unknown}
    return ScoreResult(len(needed) / len(sentences), detail=detail)


def context_relevance_graded(case: Case, tools: Tools) -> ScoreResult:
    """Score the mean of two grades / 2 (ragas, from Nvidia).

    Grades: 0 for nothing, 1 for a part, 2 for everything the question needs. Grades of 2 and 1: .75. Undefined without
    evidence.
    But: the two prompts are our own, because the original ones contradict themselves. If one grade is missing there is
    no value; ragas uses the other grade alone.
    """
    if not case.contexts:
        return ScoreResult(None, _NO_EVIDENCE)
    question, texts = case.question.text, number_sources(case.contexts)
    grades = [tools.ask(path, Grade, question=question, texts=texts) for path in GRADE_PROMPTS]
    detail = {"ratings": [{"grade": grade.grade, "reason": grade.reason} for grade in grades]}
    return ScoreResult(sum(grade.grade for grade in grades) / (2 * len(grades)), detail=detail)


def context_precision(case: Case, tools: Tools) -> ScoreResult:
    """Score the sum of P@k v_k / sum of v_k (ragas).

    v_k: whether piece k of the evidence is useful for the reference answer. P@k: the share of useful pieces among the
    first k. Undefined without a reference answer, without evidence, or without a useful piece: the sum is 0 / 0.
    But: one call shows all pieces in order, where ragas uses a call per piece. Without a useful piece ragas gives 0.
    """
    if not case.question.reference.strip():
        return ScoreResult(None, NO_REFERENCE)
    if not case.contexts:
        return ScoreResult(None, _NO_EVIDENCE)
    values = {"question": case.question.text, "reference": case.question.reference}
    verdicts = cases.ask_by_item(tools, USEFUL_PROMPT, case.contexts, cases.Checked, **values)
    value = average_useful_precision([verdict.holds for verdict in verdicts])
    reason = "" if value is not None else "no piece of the evidence is useful"
    return ScoreResult(value, reason, {"contexts": describe_checks(case.contexts, verdicts)})


def average_useful_precision(useful: Sequence[bool]) -> float | None:
    """Return the mean precision at the useful positions.

    >>> average_useful_precision([True, False, True])  # (1 + 2/3) / 2
    0.8333333333333333
    >>> average_useful_precision([False, True]), average_useful_precision([False])
    (0.5, None)
    """
    precisions = [sum(useful[: k + 1]) / (k + 1) for k, is_useful in enumerate(useful) if is_useful]
    return sum(precisions) / len(precisions) if precisions else None


# -- assertions


def assertions_met(case: Case, tools: Tools) -> ScoreResult:
    """Score the assertions that the answer meets / all assertions (BenchmarkQED).

    Three of four met: .75. Undefined without assertions; 0 for an empty answer.
    """
    if not (expected := [text for text in case.question.assertions if text.strip()]):
        return ScoreResult(None, _NO_ASSERTIONS)
    reason = "" if case.answer_text else "the answer is empty"
    checks = [cases.Checked(n, reason, False) for n, _ in enumerate(expected, 1)]
    if case.answer_text:
        values = {"question": case.question.text, "text": case.answer_text}
        checks = cases.ask_by_item(tools, MET_PROMPT, expected, cases.Checked, **values)
    detail = {"assertions": describe_checks(expected, checks)}
    return ScoreResult(fraction_true([check.holds for check in checks]), reason, detail)


def context_assertions(case: Case, tools: Tools) -> ScoreResult:
    """Score the assertions of the question supported by the evidence.

    As in BenchmarkQED, per chunk. Two of four: .5. Undefined without assertions; 0 without evidence.
    But: one call checks an assertion against all pieces together, so several pieces may support it jointly.
    """
    expected = [text for text in case.question.assertions if text.strip()]
    if not expected:
        return ScoreResult(None, _NO_ASSERTIONS)
    return _share_in_evidence(case, tools, "assertions", expected)


# -- claims


ChunkFlags = Sequence[Sequence[bool]]  # by claim, by chunk


def claim_flags(
    correct: Sequence[bool], covered: Sequence[bool], reference_in_chunks: ChunkFlags, answer_in_chunks: ChunkFlags
) -> dict[str, list[bool]]:
    """Return the flags behind each measure (RAGChecker, arXiv:2408.08067, 3.3).

    The value of a measure is the share of true ones.

    A claim is a statement of the answer or of the reference; a chunk is a piece of evidence. correct: per answer
    claim, whether the reference supports it. covered: per reference claim, whether the answer supports it.
    reference_in_chunks: per reference claim, the chunks that support it. answer_in_chunks: the same per answer claim.
    A relevant chunk supports a claim of the reference. The paper calls chunk_precision context precision.
    """
    retrieved = [any(row) for row in reference_in_chunks]
    relevant = [any(column) for column in zip(*reference_in_chunks, strict=True)]
    # per claim of the answer: it is right, some chunk supports it, a relevant chunk supports it
    claims = [
        (right, any(row), any(compress(row, relevant))) for right, row in zip(correct, answer_in_chunks, strict=True)
    ]
    return {
        "claim_precision": list(correct),
        "claim_recall": retrieved,
        "chunk_precision": relevant,
        "context_utilisation": list(compress(covered, retrieved)),
        "noise_in_relevant": [not right and in_relevant for right, _, in_relevant in claims],
        "noise_in_irrelevant": [not right and in_any and not in_relevant for right, in_any, in_relevant in claims],
        "hallucination": [not right and not in_any for right, in_any, _ in claims],
        "self_knowledge": [right and not in_any for right, in_any, _ in claims],
    }


def fraction_true(values: Sequence[bool]) -> float | None:
    """Return the share of true values, None without values.

    The released code of RAGChecker returns 0 then.
    """
    return sum(values) / len(values) if values else None


def build_claim_measure(name: str, undefined_reason: str) -> Callable[[Case, Tools], ScoreResult]:
    """Build a measure from the flags of the matrices.

    undefined_reason: the reason if the share is of nothing. The claims are the statements of faithfulness and
    answer_correctness, extracted once. Each chunk needs one call for the answer claims and one for the reference
    claims.
    But: the paper uses triples of subject, relation and object, and a model trained to check them.
    """

    def measure(case: Case, tools: Tools) -> ScoreResult:
        """Score one case."""
        if not case.question.reference.strip():
            return ScoreResult(None, NO_REFERENCE)
        answer_claims, reference_claims = cases.answer_statements(case, tools), cases.reference_statements(case, tools)
        if not reference_claims:
            return ScoreResult(None, "the reference answer states nothing")
        checks = _check_claims(case, tools, answer_claims, reference_claims)
        value = fraction_true(claim_flags(*checks.values())[name])
        detail = {"answer": answer_claims, "reference": reference_claims, **checks}
        return ScoreResult(value, undefined_reason if value is None else "", detail)

    return measure


def _check_claims(
    case: Case, tools: Tools, answer_claims: Sequence[str], reference_claims: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of `claim_flags`, checked by an LLM.

    The keys are their names in the detail of a score.
    """

    def support(claims: Sequence[str], text: str) -> list[bool]:
        """Return per claim whether the text supports it."""
        return [verdict.holds for verdict in check_support(tools, case.question.text, claims, [text])]

    def by_chunks(claims: Sequence[str]) -> list[list[bool]]:
        """Return per claim the chunks that support it."""
        columns = [support(claims, text) for text in case.contexts]
        return [[column[i] for column in columns] for i, _ in enumerate(claims)]

    correct, covered = support(answer_claims, case.question.reference), support(reference_claims, case.answer_text)
    return {"right": correct, "met": covered, "found": by_chunks(reference_claims), "drawn": by_chunks(answer_claims)}
