"""claims -> which of them the evidence, the documents, other answers support; what could not be said, and why."""

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
from tests.evaluate.factories_claims import scripted, usual

TOLD = ["The ferry left.", "A boat sank.", "Roake wept."]


class Words:
    """A word is a token."""

    fingerprint = "words"

    def __call__(self, text: str) -> Sequence[int]:
        return [i for i, c in enumerate(text) if c != " " and (i == 0 or text[i - 1] == " ")]


def made(*texts: str, question: str = "q1") -> list[AnswerClaim]:
    return [AnswerClaim("naive", question, n, text) for n, text in enumerate(texts)]


def answered(*contexts: str, text: str = "So.", **more: Any) -> SystemAnswer:
    return SystemAnswer("naive", "q1", text, tuple(AnswerSource(n, said) for n, said in enumerate(contexts, 3)), **more)


def verdicts(*rows: tuple[int, str, list[int]]) -> list[dict[str, Any]]:
    return [{"claim": claim, "supported": said, "sources": sources} for claim, said, sources in rows]


def test_by_the_evidence(tmp_path: Path) -> None:
    ask, chat = scripted(tmp_path, lambda *_: verdicts((1, "yes", [4, 9]), (2, "no", []), (7, "yes", [3])))
    found = check_by_context(made(*TOLD), [answered("Ferries.", "It left.")], ask, Words())
    assert [(claim.supported, claim.sources) for claim in found] == [(True, (4,)), (False, ()), (None, ())]
    assert found[2].why == {"supported": "the reply leaves it out"}
    assert "[3] Ferries.\n\n[4] It left." in next(iter(chat.prompt_counts))
    rate = fabrication_rates(found, "naive")["unsupported_by_context"]
    assert (rate.value, rate.n, rate.of, rate.why) == (0.5, 2, 3, {"the reply leaves it out": 1})
    assert fabrication_by_question(found, [EvalQuestion("q1", "?"), EvalQuestion("q2", "?")], "naive")[
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
        first = "left" in about.partition("Claims:")[0]
        return verdicts((1, "yes", [3]), (2, "no", [])) if first else verdicts((1, "yes", [4]))

    ask, chat = scripted(tmp_path, say)
    found = check_by_context(made(*TOLD[:2]), [answered("It left.", "It sank.", "No more.")], ask, Words(), budget=2)
    assert [(claim.supported, claim.sources) for claim in found] == [(True, (3,)), (True, (4,))]
    assert len(chat.prompt_counts) == 2  # the third part is not needed, and the second is shown to one claim
    assert sum("1. A boat sank." in prompt for prompt in chat.prompt_counts) == 1


def test_what_is_not_known_says_why(tmp_path: Path) -> None:
    ask, _ = scripted(tmp_path, lambda *_: "Perhaps.")
    [found] = check_by_context(made(TOLD[0]), [answered("It left.")], ask, Words())
    assert found.supported is None
    assert found.why["supported"].startswith("invalid: fake gave 3 replies")
    [found] = check_by_context(made(TOLD[0]), [answered()], ask, Words())
    assert found.why == {"supported": "there is no evidence"}
    ask, _ = scripted(tmp_path, usual, Caps(calls=0))
    [found] = check_by_context(made(TOLD[1]), [answered("It left.")], ask, Words())
    assert (found.supported, count_failures([found], [])) == (None, {"failed": 1})
    assert fabrication_rates([found], "naive")["unsupported_by_context"].value is None
    assert fabrication_rates(made(*TOLD), "naive") == {}


def test_many_claims_are_asked_in_batches(tmp_path: Path) -> None:
    ask, chat = scripted(tmp_path, usual)
    many = made(*(f"Boat {n} left." for n in range(2 * BATCH_SIZE + 1)))
    assert all(claim.supported for claim in check_by_context(many, [answered("All left.")], ask, Words()))
    assert len(chat.prompt_counts) == 3


def test_by_the_documents(tmp_path: Path) -> None:
    def retrieve(claim: str) -> list[str]:
        if "wept" in claim:
            raise ItemFailed("no vectors")
        return [f"A passage on {claim}"]

    ask, chat = scripted(tmp_path, lambda _, about: verdicts((1, "yes" if "ferry" in about else "no", [1])))
    found = check_by_corpus([*made(*TOLD), *made(TOLD[0], question="q2")], retrieve, ask)
    assert [claim.in_corpus for claim in found] == [True, False, None, True]
    assert found[2].why == {"in_corpus": "failed: no vectors"}
    assert len(chat.prompt_counts) == 2
    assert fabrication_rates(found, "naive")["unsupported_by_corpus"].value == pytest.approx(1 / 3)


def test_by_other_answers(tmp_path: Path) -> None:
    replies = {"Yes.": ["yes", "yes", "no"], "No.": ["no", "unsure", "no"], "Half.": ["no"]}

    def say(_: str, about: str) -> Any:
        found = next((said for text, said in replies.items() if f"Text:\n{text}" in about), None)
        return [{"claim": n, "supported": v} for n, v in enumerate(found, 1)] if found else "Hm."

    ask, _ = scripted(tmp_path, say)
    others = [answered(text=text) for text in ("Yes.", "No.", "Half.")] + [answered(failed="capped")]
    found = check_by_samples(made(*TOLD), {("naive", "q1"): others}, ask)
    assert [claim.doubt for claim in found] == [2 / 3, (0 + 0.5 + 0.5) / 3, (1 + 1 + 0.5) / 3]
    found = check_by_samples(made(*TOLD), {("naive", "q1"): [answered(text="?")]}, ask)
    assert [claim.doubt for claim in found] == [0.5] * 3
    assert count_failures(found, []) == {"invalid": 3}
    [found] = [check_by_samples(made(TOLD[0]), {}, ask)]
    assert (found[0].doubt, found[0].why) == (None, {"doubt": "there is no other answer"})


def test_what_is_said_of_other_answers() -> None:
    first, key = answered("a", text="Left."), ("naive", "q1")
    others = {key: [answered("a", text="Left."), answered("b", text="Sank."), answered(failed="capped")]}
    assert count_samples([first], others) == SampleCounts(2, 1, 1)
    assert "2 other answers, 1 from the same evidence; 1 are the first one word" in describe_samples(
        "naive", SampleCounts(2, 1, 1)
    )
    assert "--generations 5" in describe_samples("naive", count_samples([first], {}))
