"""a name -> a judge protocol: criteria, presentation orders, number of replicates, reply form.

The criteria are those of the papers, in our words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kumihimo.evaluate.judging.forms import Bests, Chosen, Compared
from kumihimo.evaluate.judging.plain_text import StripMode

PresentationOrder = Literal["fixed", "alternate", "both", "square"]  # square: Latin square
Judgements = Sequence[tuple[int, str]]  # per criterion: winner by position, 1 or 2, 0 for a tie; reason

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
    by a Latin square over several answers. strip: the
    markup to remove from answers. parse: a reply -> one judgement per criterion of its call.
    """

    name: str
    summary: str
    criteria: Mapping[str, str]
    order: PresentationOrder
    replicates: int
    prompt: Path
    one_call: bool = False
    strip: StripMode = "none"
    schema: Any = None
    parse: Callable[[Any], Judgements] | None = None


def _parse_compared(reply: Compared) -> Judgements:
    """Return the judgement of a GraphRAG reply."""
    return [(reply.winner, reply.reasoning)]


def _parse_chosen(reply: Chosen) -> Judgements:
    """Return the judgement of a debiased reply."""
    return [({"first": 1, "second": 2, "tie": 0}[reply.choice], reply.reasoning)]


def _parse_bests(reply: Bests) -> Judgements:
    """Return the judgements of a LightRAG reply, by criterion."""
    judgements = (reply.Comprehensiveness, reply.Diversity, reply.Empowerment, reply.Overall)
    return [(1 if best.Winner == "Answer 1" else 2, best.Explanation) for best in judgements]


def _prompt_path(name: str) -> Path:
    """Return the path of a protocol's prompt."""
    return Path(__file__).with_name(f"judge_{name}.md")


DEBIASED = JudgeProtocol(
    "debiased",
    "One criterion per call, neutral labels, reasons before the choice, ties, each replicate in both orders.",
    GRAPHRAG_CRITERIA,
    "both",
    3,
    _prompt_path("debiased"),
    strip="all",
    schema=Chosen,
    parse=_parse_chosen,
)
GRAPHRAG = JudgeProtocol(
    "graphrag",
    "GraphRAG, section 3.3 and appendix F: one criterion per call, winner 1, 2 or 0, five times.",
    GRAPHRAG_CRITERIA,
    "fixed",  # the paper does not say
    5,
    _prompt_path("graphrag"),
    schema=Compared,
    parse=_parse_compared,
)
LIGHTRAG = JudgeProtocol(
    "lightrag",
    "LightRAG, section 4.1 and figure 7: three criteria and overall in one call, no ties, answers swapped.",
    LIGHTRAG_CRITERIA,
    "both",
    1,
    _prompt_path("lightrag"),
    one_call=True,
    schema=Bests,
    parse=_parse_bests,
)
MK_RAG = JudgeProtocol(
    "mk",
    "MK-RAG, section 4: six scores from 0 to 100 for all systems in one call, in rotating places.",
    MK_CRITERIA,
    "square",
    1,
    _prompt_path("mk"),
    one_call=True,
)
PROTOCOLS: Mapping[str, JudgeProtocol] = {p.name: p for p in (DEBIASED, GRAPHRAG, LIGHTRAG, MK_RAG)}
