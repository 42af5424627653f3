"""prompt -> the reply of a judge that is made up, for tests; answers to be judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kumihimo.evaluate.judging.forms import Best, Bests, Chosen, Compared
from kumihimo.evaluate.records import AnswerSource, EvalQuestion, SystemAnswer
from kumihimo.llm.protocols import Messages

Decide = Callable[[str, str, str, int], int]  # one, other, criterion, sample -> 1, 2 or 0


def shown(messages: Messages) -> tuple[str, str, str]:
    """The two answers of a prompt that compares, and what follows them."""
    told = messages[-1]["content"].replace("=== First answer ===", "--- Answer 1 ---")
    told = told.replace("=== Second answer ===", "--- Answer 2 ---").replace("=== End of", "--- End of")
    _, _, rest = told.partition("--- Answer 1 ---")
    one, _, rest = rest.partition("--- Answer 2 ---")
    other, _, criterion = rest.partition("--- End of the answers")
    return one.strip(), other.strip(), criterion


@dataclass(slots=True)
class Judge:
    """An `Ask` that decides by a function; what that raises is raised."""

    decide: Decide
    fingerprint: str = "judge temperature=0.0"
    workers: int = 1
    asked: list[tuple[str, int]] = field(default_factory=list)

    def __call__(self, prompt: Any, *, schema: Any = None, sample: int = 0, **_: Any) -> Any:
        self.asked.append(("\n\n".join(message["content"] for message in prompt), sample))
        one, other, criterion = shown(prompt)
        better = self.decide(one, other, criterion, sample)
        if schema is Chosen:
            return Chosen("since it is", ("tie", "first", "second")[better])
        if schema is Compared:
            return Compared(better, "since it is")  # type: ignore[arg-type]
        best = Best("Answer 1" if better == 1 else "Answer 2", "since it is")
        return Bests(best, best, best, best)

    def samples(self, prompt: Any, count: int, **_: Any) -> list[str]:
        raise NotImplementedError


def questions(count: int, tasks: int = 25) -> list[EvalQuestion]:
    return [EvalQuestion(f"q{i}", f"Why {i}?", task=f"t{i % tasks}") for i in range(count)]


def answered(system: str, texts: Iterable[str], generation: int = 0) -> Mapping[str, SystemAnswer]:
    """Answers to q0, q1 and so on."""
    found = (AnswerSource(1, f"{system} found this."),)
    return {
        f"q{i}": SystemAnswer(system, f"q{i}", text, found, model="m temperature=0.0", generation=generation)
        for i, text in enumerate(texts)
    }
