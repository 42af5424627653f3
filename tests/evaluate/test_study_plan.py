"""a study as it stands -> what its stages would ask: as many calls as they do ask, less what is remembered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.evaluate.claims import extract_answer_claims
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES
from kumihimo.evaluate.cost_estimates import EstimationContext
from kumihimo.evaluate.judging.calls import plan_judge_calls
from kumihimo.evaluate.judging.protocols import GRAPHRAG, MK_RAG
from kumihimo.evaluate.judging.verdicts import judge_pairs
from kumihimo.evaluate.question_generation import generate_global_questions
from kumihimo.evaluate.records import SystemAnswer
from kumihimo.evaluate.run_systems import answer_questions
from kumihimo.evaluate.scoring.run_scores import build_cases, score_cases
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.study_plan import StudyEstimate, StudyRequest, estimate_stages
from kumihimo.evaluate.systems import System, parse_systems
from kumihimo.llm.budget import Budget
from kumihimo.llm.protocols import Chat, Prices
from kumihimo.storage.sqlite.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.evaluate.factories_harbour import QUESTIONS, Scripted

SIX = parse_systems("bm25,bm25:k=3,naive,naive:k=3,naive:words=false,naive:k=2")


class Everyone(Scripted):
    """A model for everybody: a judge who likes the first, a claimer who finds one claim in each sentence."""

    def chat(self, scope: str) -> Chat | None:
        if not hasattr(self, "made"):
            self.made = FakeChat(self._said, workers=2, prices=Prices(1, 0, 1), join_messages=True)
        return self.made

    def _said(self, told: str) -> str:
        for part, reply in {
            "winner": {"winner": 1, "reasoning": "More."},
            '"unresolvable"': {"reasoning": "", "verdict": "clear", "sentence": ""},
            '"part"': {"reasoning": "", "verdict": "all", "sentence": ""},
            '"statements"': {"statements": ["A statement."]},
            '"holds"': {"answer": [{"number": 1, "reason": "", "holds": True}]},
            '{"items": {"type": "string"}': {"answer": ["A claim."]},
        }.items():
            if part in told:
                return json.dumps(reply)
        return "It is so [1]. And it was so."


@pytest.fixture
def memo(tmp_path: Path) -> Iterator[ResponseCache]:
    memo = ResponseCache(tmp_path / "cache.db")
    yield memo
    memo.close()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "eval")


@contextmanager
def models(harbour: Kumihimo, memo: ResponseCache) -> Iterator[EstimationContext]:
    real = Everyone(harbour.models.settings, lambda: memo)
    with harbour.snapshot() as reading:
        yield EstimationContext(real, reading.tokenizer, memo.usage(), replace(reading, models=real))


def rows(found: StudyEstimate) -> dict[str, tuple[float, float]]:
    return {e.step: e.calls for e in found.plan.estimates}


def test_calls_of_a_judge_are_those_of_the_paper(study: Study, harbour: Kumihimo, memo: ResponseCache) -> None:
    with models(harbour, memo) as given:
        found = estimate_stages(study, given, SIX, StudyRequest(("judge",), GRAPHRAG))
    (row,) = found.plan.estimates
    assert (row.step, row.calls, row.exact) == ("judge graphrag", (37_500, 37_500), True)
    assert (found.questions, found.questions_assumed, len(found.systems)) == (125, True, 6)
    assert row.cost
    assert row.prompt_tokens[0] > 100 * 37_500
    assert memo.size() == (0, 0)  # nobody was asked


def test_what_is_planned_is_what_is_asked(study: Study, harbour: Kumihimo, memo: ResponseCache) -> None:
    """Each stage asks as often as was said; what it has asked is planned no more."""
    study.write("questions", QUESTIONS)
    naive, hyde = parse_systems("naive,hyde")
    wanted = StudyRequest(("run", "judge", "claims", "score"), GRAPHRAG, votes=ECONOMY_VOTES, measures=["faithfulness"])

    def plan(*chosen: System | str, stages: Sequence[str] = ("run", "judge")) -> StudyEstimate:
        with models(harbour, memo) as given:
            return estimate_stages(study, given, chosen, replace(wanted, stages=stages))

    before = rows(plan(naive, hyde))
    assert before["run naive"] == (4, 4)
    assert before["run hyde"] == (8, 8)  # a hypothesis each
    assert before["judge graphrag"] == (4 * 4 * 5, 4 * 4 * 5)
    with models(harbour, memo) as given:
        assert given.snapshot
        asking = given.registry.llm
        for one in (naive, hyde):
            study.write_answers(one.name, 0, answer_questions(given.snapshot, one, QUESTIONS, given.registry.budget()))
        after = rows(plan(naive, hyde, stages=wanted.stages))
        assert not {"run naive", "run hyde"} & {*after}
        held = {name: {a.question: a for a in study.answers(name)} for name in study.systems()}
        listed = plan_judge_calls(GRAPHRAG, QUESTIONS, held)
        list(judge_pairs(GRAPHRAG, listed[:30], asking("judge", given.registry.budget())))
        assert rows(plan(naive, hyde))["judge graphrag"] == (50, 50)
        list(judge_pairs(GRAPHRAG, listed, asking("judge", given.registry.budget())))
        all_of_them = [answer for mine in held.values() for answer in mine.values()]
        purse = given.registry.budget()
        extract_answer_claims(QUESTIONS, all_of_them, asking("claimer", purse), ECONOMY_VOTES)
        assert after["claims"][0] <= purse.total.calls <= after["claims"][1]
        purse = given.registry.budget()
        list(score_cases(list(build_cases(QUESTIONS, all_of_them)), ["faithfulness"], asking("scorer", purse)))
        assert after["score"][0] <= purse.total.calls
    assert rows(plan("naive", "hyde", stages=wanted.stages)) == {}


def test_questions_that_are_not_there_are_planned_too(study: Study, harbour: Kumihimo, memo: ResponseCache) -> None:
    with models(harbour, memo) as given:
        found = estimate_stages(study, given, [], StudyRequest(("questions",)))
        assert rows(found) == {"questions": (32, 94)}  # a draft, and 31 lists
        study.write_text("description.md", "Notes on a pier.")
        assert rows(estimate_stages(study, given, [], StudyRequest(("questions",)))) == {"questions": (31, 93)}
        generate_global_questions("Notes on a pier.", given.registry.llm("questioner", Budget()), personas=5)
        study.write("questions", QUESTIONS)
        found = estimate_stages(study, given, SIX[:2], StudyRequest(("questions", "judge"), GRAPHRAG, count=3))
        assert (found.questions, found.questions_assumed, rows(found)) == (3, False, {"judge graphrag": (60, 60)})


def test_a_second_judge_and_other_generations_are_planned(study: Study, harbour: Kumihimo, memo: ResponseCache) -> None:
    study.write("questions", QUESTIONS)
    for n in range(2):
        study.write_answers("theirs", n, [SystemAnswer("theirs", q.id, f"So {n}.", generation=n) for q in QUESTIONS])
    with models(harbour, memo) as given:
        second = {**given.registry.settings, "second_judge": {"model": "n"}}
        given.registry.settings = second
        found = rows(
            estimate_stages(study, given, ["theirs", SIX[0]], StudyRequest(("judge",), GRAPHRAG, second_percent=50))
        )
        alone = rows(
            estimate_stages(
                study, given, ["theirs", SIX[0]], StudyRequest(("judge",), GRAPHRAG, second_percent=0, generations=2)
            )
        )
        mk = rows(estimate_stages(study, given, ["theirs", SIX[0]], StudyRequest(("judge",), MK_RAG, replicates=2)))
    assert mk == {"judge mk": (8, 8)}
    assert found["judge graphrag"] == (2 * 80, 2 * 80)
    assert 50 < found["second judge graphrag"][0] < 110
    assert alone == {"judge graphrag": (3 * 80, 3 * 80)}  # a pair, and each with itself
