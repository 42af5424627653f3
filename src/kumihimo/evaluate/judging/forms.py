"""a protocol -> the reply forms of its judge."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cache
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Compared:
    """A GraphRAG judgement (appendix F.1); winner 0 is a tie."""

    winner: Literal[1, 2, 0]
    reasoning: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """A judgement with the reasoning before the choice."""

    reasoning: str
    choice: Literal["first", "second", "tie"]


@dataclass(frozen=True, slots=True)
class Best:
    """A LightRAG judgement (figure 7): the winner before the explanation."""

    Winner: Literal["Answer 1", "Answer 2"]
    Explanation: str


@dataclass(frozen=True, slots=True)
class Bests:
    """LightRAG judgements by each criterion and overall."""

    Comprehensiveness: Best
    Diversity: Best
    Empowerment: Best
    Overall: Best


@dataclass(frozen=True, slots=True)
class Scored:
    """A justified score. A score outside 0 to 100 raises ValueError, which the judge is shown."""

    justification: str
    score: float

    def __post_init__(self) -> None:
        if not 0 <= self.score <= 100:
            raise ValueError("a score is a number from 0 to 100")


@cache
def build_rating_form(criteria: tuple[str, ...], systems: int) -> type[Any]:
    """Build the form of scores for systems `system_1` ... by each criterion."""
    form = make_dataclass("One", [(name, Scored) for name in criteria], frozen=True)
    return make_dataclass("Rated", [(f"system_{i}", form) for i in range(1, systems + 1)], frozen=True)
