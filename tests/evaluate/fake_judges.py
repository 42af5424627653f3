"""Factories: a fake judge, and questions and answers to judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kumihimo.evaluate.judging.protocols import Best, Bests, ComparisonReply, DifferentialChoice, ReasonedChoice
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.llm.protocols import Messages
from tests.fenced_texts import fenced_texts

Decision = Callable[[str, str, str, int], int]  # one, other, criterion, sample -> 1, 2 or 0


def split_pair_prompt(messages: Messages) -> tuple[str, str, str]:
    """Return the first answer, the second answer and the rest of a judge prompt."""
    text = messages[-1]["content"]
    one, other = fenced_texts(text, "answer")
    return one, other, text.rpartition("</answer 2>")[2]


@dataclass(slots=True)
class FakeJudge:
    """An LLM that picks winners by a function and passes on its exceptions."""

    decide: Decision
    fingerprint: str = "judge temperature=0.0"
    workers: int = 1
    prompts: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, prompt: Any, *, schema: Any = None, sample: int = 0, **_: Any) -> Any:
        self.prompts.append(("\n\n".join(message["content"] for message in prompt), sample))
        one, other, criterion = split_pair_prompt(prompt)
        winner = self.decide(one, other, criterion, sample)
        if schema is ReasonedChoice:
            return ReasonedChoice("since it is", ("tie", "first", "second")[winner])
        if schema is ComparisonReply:
            return ComparisonReply(winner, "since it is")  # type: ignore[arg-type]
        if schema is DifferentialChoice:
            return DifferentialChoice("both", "one", "other", "since it is", ("tie", "first", "second")[winner])
        best = Best("Answer 1" if winner == 1 else "Answer 2", "since it is")
        return Bests(best, best, best, best)

    def samples(self, prompt: Any, count: int, **_: Any) -> list[str]:
        raise NotImplementedError


def make_questions(count: int, tasks: int = 25) -> list[EvalQuestion]:
    """Return questions q0, q1 and so on, spread over tasks."""
    return [EvalQuestion(f"q{i}", f"Why {i}?", task=f"t{i % tasks}") for i in range(count)]


def make_answers(system: str, texts: Iterable[str], generation: int = 0) -> Mapping[str, SystemAnswer]:
    """Return answers to q0, q1 and so on."""
    evidence = (AnswerSource(1, f"{system} found this."),)
    return {
        f"q{i}": SystemAnswer(system, f"q{i}", text, evidence, model="m temperature=0.0", generation=generation)
        for i, text in enumerate(texts)
    }
