"""A study -> estimated calls of its stages: equal to the real calls, less those that the study has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kumihimo import Kumihimo
from kumihimo.app.build.estimate_query_cost import estimate_query_cost
from kumihimo.evaluate.claims.stages import ECONOMY_VOTES
from kumihimo.evaluate.claims.study_claims import extract_answer_claims
from kumihimo.evaluate.judging.protocols import GRAPHRAG, MK_RAG
from kumihimo.evaluate.judging.verdicts import judge_pairs, plan_judge_calls
from kumihimo.evaluate.question_generation import generate_global_questions
from kumihimo.evaluate.records import SystemAnswer
from kumihimo.evaluate.run_systems import answer_questions
from kumihimo.evaluate.scoring.run_scores import build_cases, score_cases
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.study_plan import EstimationContext, StudyEstimate, StudyRequest, estimate_stages
from kumihimo.evaluate.systems import System, parse_systems
from kumihimo.llm.budget import Budget
from kumihimo.llm.cached_llm import Chat
from kumihimo.llm.protocols import Prices
from kumihimo.storage.response_cache import ResponseCache
from kumihimo.testing.fake_models import FakeChat
from tests.evaluate.factories_harbour import QUESTIONS, Scripted

SIX = parse_systems("bm25,bm25:k=3,naive,naive:k=3,naive:words=false,naive:k=2")


class Everyone(Scripted):
    """A model for all roles: a judge who prefers the first answer, one claim a sentence."""

    def chat(self, scope: str) -> Chat | None:
        if not hasattr(self, "fake_chat"):
            self.fake_chat = FakeChat(self._fake_reply, workers=2, prices=Prices(1, 0, 1), join_messages=True)
        return self.fake_chat

    def _fake_reply(self, prompt: str) -> str:
        for part, reply in {
            "winner": {"winner": 1, "reasoning": "More."},
            '"unresolvable"': {"reasoning": "", "verdict": "clear", "sentence": ""},
            '"part"': {"reasoning": "", "verdict": "all", "sentence": ""},
            '"statements"': {"statements": ["A statement."]},
            '"holds"': {"answer": [{"number": 1, "reason": "", "holds": True}]},
            '{"items": {"type": "string"}': {"answer": ["A claim."]},
        }.items():
            if part in prompt:
                return json.dumps(reply)
        return "It is so [1]. And it was so."


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ResponseCache]:
    cache = ResponseCache(tmp_path / "cache.db")
    yield cache
    cache.close()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "eval")


@contextmanager
def estimation_context(harbour: Kumihimo, cache: ResponseCache) -> Iterator[EstimationContext]:
    real = Everyone(harbour.models.settings, lambda: cache)
    with harbour.snapshot() as snapshot:
        yield EstimationContext(real, snapshot.tokenizer, cache.usage(), replace(snapshot, models=real))


def rows(estimate: StudyEstimate) -> dict[str, tuple[float, float]]:
    return {e.step: e.calls for e in estimate.plan.estimates}


def test_calls_of_a_judge_are_those_of_the_paper(study: Study, harbour: Kumihimo, cache: ResponseCache) -> None:
    with estimation_context(harbour, cache) as context:
        estimate = estimate_stages(study, context, SIX, StudyRequest(("judge",), GRAPHRAG))
    (row,) = estimate.plan.estimates
    assert (row.step, row.calls, row.exact) == ("judge graphrag", (37_500, 37_500), True)
    assert (estimate.questions, estimate.questions_assumed, len(estimate.systems)) == (125, True, 6)
    assert row.cost
    assert row.prompt_tokens[0] > 100 * 37_500
    assert cache.size() == (0, 0)  # no call was made


def test_the_estimate_equals_the_real_calls(study: Study, harbour: Kumihimo, cache: ResponseCache) -> None:
    """Each stage makes as many calls as estimated; finished calls are estimated no more."""
    study.write("questions", QUESTIONS)
    naive, hyde = parse_systems("naive,hyde")
    request = StudyRequest(
        ("run", "judge", "claims", "score"), GRAPHRAG, votes=ECONOMY_VOTES, measures=["faithfulness"]
    )

    def plan(*selected: System | str, stages: Sequence[str] = ("run", "judge")) -> StudyEstimate:
        with estimation_context(harbour, cache) as context:
            return estimate_stages(study, context, selected, replace(request, stages=stages))

    earlier = rows(plan(naive, hyde))
    with harbour.snapshot() as snapshot:
        models = Everyone(harbour.models.settings, lambda: cache)
        one_question = estimate_query_cost(replace(snapshot, models=models), QUESTIONS[0].text, "hyde")
    assert earlier["run naive"] == (4, 12)  # two rounds of searches at most
    assert earlier["run hyde"] == (4 * one_question.calls[0], 4 * one_question.calls[1])
    assert earlier["judge graphrag"] == (4 * 4 * 5, 4 * 4 * 5)
    with estimation_context(harbour, cache) as context:
        assert context.snapshot
        make_llm = context.registry.llm
        for system in (naive, hyde):
            study.write_answers(
                system.name, 0, answer_questions(context.snapshot, system, QUESTIONS, context.registry.budget())
            )
        later = rows(plan(naive, hyde, stages=request.stages))
        assert not {"run naive", "run hyde"} & {*later}
        answers = {name: {a.question: a for a in study.answers(name)} for name in ("naive", "hyde")}
        judge_calls = plan_judge_calls(GRAPHRAG, QUESTIONS, answers)
        study.write("verdicts", judge_pairs(GRAPHRAG, judge_calls[:30], make_llm("judge", context.registry.budget())))
        assert rows(plan(naive, hyde))["judge graphrag"] == (50, 50)
        study.write("verdicts", judge_pairs(GRAPHRAG, judge_calls, make_llm("judge", context.registry.budget())))
        all_answers = [answer for by_question in answers.values() for answer in by_question.values()]
        budget = context.registry.budget()
        _, sentences = extract_answer_claims(QUESTIONS, all_answers, make_llm("claimer", budget), ECONOMY_VOTES)
        study.write("sentences", sentences)
        assert later["claims"][0] <= budget.total.calls <= later["claims"][1]
        budget = context.registry.budget()
        cases = list(build_cases(QUESTIONS, all_answers))
        study.write("scores", score_cases(cases, ["faithfulness"], make_llm("scorer", budget)))
        assert later["score"][0] <= budget.total.calls <= later["score"][1]
    assert rows(plan("naive", "hyde", stages=request.stages)) == {}


def test_missing_questions_are_estimated_too(study: Study, harbour: Kumihimo, cache: ResponseCache) -> None:
    with estimation_context(harbour, cache) as context:
        estimate = estimate_stages(study, context, [], StudyRequest(("questions",)))
        assert rows(estimate) == {"questions": (32, 94)}  # a draft, and 31 lists
        study.write_text("description.md", "Notes on a pier.")
        assert rows(estimate_stages(study, context, [], StudyRequest(("questions",)))) == {"questions": (31, 93)}
        generate_global_questions("Notes on a pier.", context.registry.llm("questioner", Budget()), personas=5)
        study.write("questions", QUESTIONS)
        estimate = estimate_stages(study, context, SIX[:2], StudyRequest(("questions", "judge"), GRAPHRAG, count=3))
        assert (estimate.questions, estimate.questions_assumed, rows(estimate)) == (
            3,
            False,
            {"judge graphrag": (60, 60)},
        )


def test_a_second_judge_and_other_generations_are_estimated(
    study: Study, harbour: Kumihimo, cache: ResponseCache
) -> None:
    study.write("questions", QUESTIONS)
    for n in range(2):
        study.write_answers("theirs", n, [SystemAnswer("theirs", q.id, f"So {n}.", generation=n) for q in QUESTIONS])
    with estimation_context(harbour, cache) as context:
        settings = {**context.registry.settings, "second_judge": {"model": "n"}}
        context.registry.settings = settings
        with_second = rows(
            estimate_stages(study, context, ["theirs", SIX[0]], StudyRequest(("judge",), GRAPHRAG, second_percent=50))
        )
        without_second = rows(
            estimate_stages(
                study, context, ["theirs", SIX[0]], StudyRequest(("judge",), GRAPHRAG, second_percent=0, generations=2)
            )
        )
        mk = rows(estimate_stages(study, context, ["theirs", SIX[0]], StudyRequest(("judge",), MK_RAG, replicates=2)))
    assert mk == {"judge mk": (8, 8)}
    assert with_second["judge graphrag"] == (2 * 80, 2 * 80)
    assert 50 < with_second["second judge graphrag"][0] < 110
    assert without_second == {"judge graphrag": (3 * 80, 3 * 80)}  # a pair, and each with itself
