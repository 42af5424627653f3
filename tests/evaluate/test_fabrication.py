"""Claims -> support by evidence, documents and other answers; missing values have reasons."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.claims.study_claims import count_failures, describe_samples
from kumihimo.evaluate.fabrication import (
    BATCH_SIZE,
    SampleCounts,
    check_by_context,
    check_by_corpus,
    check_by_samples,
    count_samples,
    fabrication_by_question,
    fabrication_rates,
    split_sources,
)
from kumihimo.evaluate.records import AnswerClaim, AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.llm.budget import Caps
from tests.evaluate.factories_claims import default_reply, scripted_claim_llm

TEXTS = ["The ferry left.", "A boat sank.", "Roake wept."]


class Words:
    """A tokenizer: each word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return [i for i, c in enumerate(text) if c != " " and (i == 0 or text[i - 1] == " ")]


def claims_of(*texts: str, question: str = "q1") -> list[AnswerClaim]:
    return [AnswerClaim("naive", question, n, text) for n, text in enumerate(texts)]


def answer_with(*contexts: str, text: str = "So.", **more: Any) -> SystemAnswer:
    return SystemAnswer(
        "naive", "q1", text, tuple(AnswerSource(n, context) for n, context in enumerate(contexts, 3)), **more
    )


def verdicts(*rows: tuple[int, str, list[int]]) -> list[dict[str, Any]]:
    return [{"claim": claim, "supported": supported, "sources": sources} for claim, supported, sources in rows]


def test_support_by_the_evidence(tmp_path: Path) -> None:
    llm, chat = scripted_claim_llm(tmp_path, lambda *_: verdicts((1, "yes", [4, 9]), (2, "no", []), (7, "yes", [3])))
    claims = check_by_context(claims_of(*TEXTS), [answer_with("Ferries.", "It left.")], llm, Words())
    assert [(claim.supported, claim.sources) for claim in claims] == [(True, (4,)), (False, ()), (None, ())]
    assert claims[2].why == {"supported": "the reply leaves it out"}
    assert "<source 3>\nFerries.\n</source 3>\n\n<source 4>\nIt left.\n" in next(iter(chat.prompt_counts))
    rate = fabrication_rates(claims, "naive")["unsupported_by_context"]
    assert (rate.value, rate.n, rate.of, rate.why) == (0.5, 2, 3, {"the reply leaves it out": 1})
    assert fabrication_by_question(claims, [EvalQuestion("q1", "?"), EvalQuestion("q2", "?")], "naive")[
        "unsupported_by_context"
    ] == {
        "q1": 0.5,
        "q2": None,
    }


def test_long_evidence_is_shown_in_parts(tmp_path: Path) -> None:
    assert split_sources([(1, "a b c"), (2, "d"), (3, "e f"), (4, " ")], Words(), 2) == [
        [(1, "a b ")],
        [(1, "c"), (2, "d")],
        [(3, "e f")],
    ]

    def say(_: str, about: str) -> Any:
        first = "left" in about.partition("<claims>")[0]
        return verdicts((1, "yes", [3]), (2, "no", [])) if first else verdicts((1, "yes", [4]))

    llm, chat = scripted_claim_llm(tmp_path, say)
    claims = check_by_context(
        claims_of(*TEXTS[:2]), [answer_with("It left.", "It sank.", "No more.")], llm, Words(), budget=2
    )
    assert [(claim.supported, claim.sources) for claim in claims] == [(True, (3,)), (True, (4,))]
    assert len(chat.prompt_counts) == 2  # the third part is not needed, and the second is shown to one claim
    assert sum("1. A boat sank." in prompt for prompt in chat.prompt_counts) == 1


def test_missing_values_have_a_reason(tmp_path: Path) -> None:
    llm, _ = scripted_claim_llm(tmp_path, lambda *_: "Perhaps.")
    [checked] = check_by_context(claims_of(TEXTS[0]), [answer_with("It left.")], llm, Words())
    assert checked.supported is None
    assert checked.why["supported"].startswith("invalid: fake gave 3 replies")
    [checked] = check_by_context(claims_of(TEXTS[0]), [answer_with()], llm, Words())
    assert checked.why == {"supported": "there is no evidence"}
    llm, _ = scripted_claim_llm(tmp_path, default_reply, Caps(calls=0))
    [checked] = check_by_context(claims_of(TEXTS[1]), [answer_with("It left.")], llm, Words())
    assert (checked.supported, count_failures([checked], [])) == (None, {"failed": 1})
    assert fabrication_rates([checked], "naive")["unsupported_by_context"].value is None
    assert fabrication_rates(claims_of(*TEXTS), "naive") == {}


def test_many_claims_are_checked_in_batches(tmp_path: Path) -> None:
    llm, chat = scripted_claim_llm(tmp_path, default_reply)
    many = claims_of(*(f"Boat {n} left." for n in range(2 * BATCH_SIZE + 1)))
    assert all(claim.supported for claim in check_by_context(many, [answer_with("All left.")], llm, Words()))
    assert len(chat.prompt_counts) == 3


def test_support_by_the_documents(tmp_path: Path) -> None:
    def retrieve(claim: str) -> list[str]:
        if "wept" in claim:
            raise ItemFailed("no vectors")
        return [f"A passage on {claim}"]

    llm, chat = scripted_claim_llm(tmp_path, lambda _, about: verdicts((1, "yes" if "ferry" in about else "no", [1])))
    claims = check_by_corpus([*claims_of(*TEXTS), *claims_of(TEXTS[0], question="q2")], retrieve, llm)
    assert [claim.in_corpus for claim in claims] == [True, False, None, True]
    assert claims[2].why == {"in_corpus": "failed: no vectors"}
    assert len(chat.prompt_counts) == 2
    assert fabrication_rates(claims, "naive")["unsupported_by_corpus"].value == pytest.approx(1 / 3)


def test_doubt_by_other_answers(tmp_path: Path) -> None:
    replies = {"Yes.": ["yes", "yes", "no"], "No.": ["no", "unsure", "no"], "Half.": ["no"]}

    def say(_: str, about: str) -> Any:
        claims = next((labels for text, labels in replies.items() if f"<text>\n{text}" in about), None)
        return [{"claim": n, "supported": v} for n, v in enumerate(claims, 1)] if claims else "Hm."

    llm, _ = scripted_claim_llm(tmp_path, say)
    samples = [answer_with(text=text) for text in ("Yes.", "No.", "Half.")] + [answer_with(failed="capped")]
    claims = check_by_samples(claims_of(*TEXTS), {("naive", "q1"): samples}, llm)
    assert [claim.doubt for claim in claims] == [2 / 3, (0 + 0.5 + 0.5) / 3, (1 + 1 + 0.5) / 3]
    claims = check_by_samples(claims_of(*TEXTS), {("naive", "q1"): [answer_with(text="?")]}, llm)
    assert [claim.doubt for claim in claims] == [0.5] * 3
    assert count_failures(claims, []) == {"invalid": 3}
    [claims] = [check_by_samples(claims_of(TEXTS[0]), {}, llm)]
    assert (claims[0].doubt, claims[0].why) == (None, {"doubt": "there is no other answer"})


def test_other_answers_are_counted() -> None:
    first, key = answer_with("a", text="Left."), ("naive", "q1")
    samples = {key: [answer_with("a", text="Left."), answer_with("b", text="Sank."), answer_with(failed="capped")]}
    assert count_samples([first], samples) == SampleCounts(2, 1, 1)
    assert "2 other answers, 1 from the same evidence; 1 are identical to the first" in describe_samples(
        "naive", SampleCounts(2, 1, 1)
    )
    assert "--generations 5" in describe_samples("naive", count_samples([first], {}))
