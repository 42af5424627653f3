"""A name -> a judge protocol: criteria, presentation orders, number of replicates, reply form.

The criteria are those of the papers, in our words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from kumihimo.core.errors import SettingsError, describe_unknown
from kumihimo.evaluate.judging.blinding import StripMode

Judgements = Sequence[tuple[int, str]]  # per criterion: winner by position, 1 or 2, 0 for a tie; reason


@dataclass(frozen=True, slots=True)
class ComparisonReply:
    """A GraphRAG judgement (appendix F.1); winner 0 is a tie."""

    winner: Literal[1, 2, 0]
    reasoning: str

    @property
    def judgements(self) -> Judgements:
        return [(self.winner, self.reasoning)]


@dataclass(frozen=True, slots=True)
class ReasonedChoice:
    """A judgement with the reasoning before the choice."""

    reasoning: str
    choice: Literal["first", "second", "tie"]

    @property
    def judgements(self) -> Judgements:
        return [({"first": 1, "second": 2, "tie": 0}[self.choice], self.reasoning)]


@dataclass(frozen=True, slots=True)
class DifferentialChoice:
    """A judgement of what only one of two answers says."""

    shared: str
    only_first: str
    only_second: str
    reasoning: str
    choice: Literal["first", "second", "tie"]

    @property
    def judgements(self) -> Judgements:
        return ReasonedChoice(self.reasoning, self.choice).judgements


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

    @property
    def judgements(self) -> Judgements:
        best_by_criterion = (self.Comprehensiveness, self.Diversity, self.Empowerment, self.Overall)
        return [(1 if best.Winner == "Answer 1" else 2, best.Explanation) for best in best_by_criterion]


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


PresentationOrder = Literal["fixed", "alternate", "both", "square"]  # square: Latin square

GRAPHRAG_CRITERIA = {
    "comprehensiveness": (
        "comprehensiveness. How far does the answer cover all sides and details of the question? A comprehensive "
        "answer is thorough and complete, without repeating itself or straying. Asked for the benefits and drawbacks "
        "of tidal power, for instance, it gives both, with yield, cost, reliability and what happens to the coast; an "
        "incomplete answer gives the benefits alone, a redundant one says the same thing several times over."
    ),
    "diversity": (
        "diversity. How varied and rich are the perspectives and insights that the answer offers on the question? A "
        "diverse answer looks at it from several sides and in several dimensions. Asked why herring stocks fall and "
        "what follows, for instance, it speaks of fishing, warming, nurseries and markets, and rests what it says on "
        "several sources; an answer of one source, or of one opinion, is not diverse."
    ),
    "empowerment": (
        "empowerment. How well does the answer help its reader to understand the topic and to judge soundly, without "
        "being misled or led to false assumptions? Look at how well it explains, reasons, and gives the sources "
        "behind what it claims."
    ),
    "directness": (
        "directness. How specifically and clearly does the answer address the question? A direct answer is plain and "
        "concise. Asked for the capital of Portugal, it says: Lisbon. It holds nothing that does not answer the "
        "question; “The capital of Portugal lies on the Tagus” is an indirect answer."
    ),
}
LIGHTRAG_CRITERIA = {
    "comprehensiveness": "how thoroughly does the answer deal with all sides and details of the question?",
    "diversity": "how varied and rich is the answer in perspectives and insights that bear on the question?",
    "empowerment": "how well does the answer enable its reader to understand the topic and to judge with good reasons?",
    "overall": "which answer is the best by the three measures together?",
}
MK_CRITERIA = {
    "recall": "how much of the important and highly relevant information it covers.",
    "precision": "how much of it is relevant to the question, against what is not.",
    "specificity": "how exactly it keeps to the question, with clear and direct information.",
    "breadth": "how far it covers all relevant aspects and areas, so that one gets the whole picture.",
    "depth": "how thorough an understanding it gives, by detailed analysis and insight.",
    "relevancy": (
        "how well it fits the needs and interests of the audience: what can be used and matters, no details that "
        "contribute nothing to the question."
    ),
}


@dataclass(frozen=True, slots=True)
class JudgeProtocol:
    """The settings of a judge.

    criteria: name -> its text in the prompt. one_call: ask for all criteria in one call, else one call each. order:
    which answer comes first: `fixed` always a; `alternate` by replicate; `both` orders for each replicate; `square`
    by a Latin square over several answers. strip: what to remove from answers.
    """

    name: str
    criteria: Mapping[str, str]
    order: PresentationOrder
    replicates: int
    prompt: Path
    one_call: bool = False
    strip: StripMode = "none"
    schema: Any = None  # of a reply, which has `judgements`

    def resolve_criteria(self, criteria: Sequence[str]) -> list[str]:
        """Return these criteria, or all.

        Raises SettingsError for an unknown name, or if the protocol uses one call for all.
        """
        for name in criteria:
            if name not in self.criteria:
                raise SettingsError(describe_unknown("criterion", name, self.criteria))
        if criteria and self.one_call:
            raise SettingsError(f"{self.name} asks about all criteria in one call: leave out --criteria")
        return list(dict.fromkeys(criteria)) or list(self.criteria)

    def resolve_order(self, order: PresentationOrder | Literal[""]) -> PresentationOrder:
        """Return the given order, or the protocol's own.

        Raises SettingsError if another order would break the protocol.
        """
        if order and order != self.order and self.name in ("debiased", "differential", "mk"):
            raise SettingsError(f"{self.name} has its own order: leave out --order, or judge by another --protocol")
        return order or self.order


def _prompt_path(name: str) -> Path:
    """Return the path of a protocol's prompt."""
    return Path(__file__).with_name(f"judge_{name}.md")


DEBIASED = JudgeProtocol(
    "debiased", GRAPHRAG_CRITERIA, "both", 3, _prompt_path("debiased"), strip="all", schema=ReasonedChoice
)
DIFFERENTIAL = replace(DEBIASED, name="differential", prompt=_prompt_path("differential"), schema=DifferentialChoice)
GRAPHRAG = JudgeProtocol(
    "graphrag",
    GRAPHRAG_CRITERIA,
    "fixed",  # the paper does not say
    5,
    _prompt_path("graphrag"),
    schema=ComparisonReply,
)
LIGHTRAG = JudgeProtocol(
    "lightrag", LIGHTRAG_CRITERIA, "both", 1, _prompt_path("lightrag"), one_call=True, schema=Bests
)
MK_RAG = JudgeProtocol("mk", MK_CRITERIA, "square", 1, _prompt_path("mk"), one_call=True)
PROTOCOLS: Mapping[str, JudgeProtocol] = {p.name: p for p in (DEBIASED, DIFFERENTIAL, GRAPHRAG, LIGHTRAG, MK_RAG)}


def plan_presentations(order: PresentationOrder, replicates: int) -> list[tuple[Literal["a", "b"], int]]:
    """Return the answer shown first and the replicate number of each call.

    >>> plan_presentations("alternate", 3)
    [('a', 0), ('b', 1), ('a', 2)]
    >>> plan_presentations("both", 2)
    [('a', 0), ('a', 1), ('b', 0), ('b', 1)]
    """
    numbers = range(replicates)
    if order == "alternate":
        return [("b" if n % 2 else "a", n) for n in numbers]
    return [("a", n) for n in numbers] + ([("b", n) for n in numbers] if order == "both" else [])
