"""what a judge is asked for -> the forms of its replies."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Compared:
    """By GraphRAG, appendix F.1: 0 is a tie."""

    winner: Literal[1, 2, 0]
    reasoning: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """What it chooses follows from its reasoning, not the other way round."""

    reasoning: str
    choice: Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Best:
    """By LightRAG, figure 7: named before it is explained."""

    Winner: Literal["Answer 1", "Answer 2"]
    Explanation: str


@dataclass(frozen=True, slots=True)
class Bests:
    Comprehensiveness: Best
    Diversity: Best
    Empowerment: Best
    Overall: Best


@dataclass(frozen=True, slots=True)
class Scored:
    """Raises ValueError, which is told to the judge, where the score is none from 0 to 100."""

    justification: str
    score: float

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 100:
            raise ValueError("a score is a number from 0 to 100")


@cache
def build_rating_form(criteria: tuple[str, ...], systems: int) -> type[Any]:
    """The scores of so many systems, system_1 and so on, by each criterion."""
    one = make_dataclass("One", [(name, Scored) for name in criteria], frozen=True)
    return make_dataclass("Rated", [(f"system_{i}", one) for i in range(1, systems + 1)], frozen=True)
