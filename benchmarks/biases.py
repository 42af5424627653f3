"""A judge with a liking for places and lengths, systems that are alike -> how often each protocol finds a difference.

Studies of 125 questions, 30 % ties, Wilcoxon at .05; verdicts by the designs of the protocols, points as in earnest.
No model, no data.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.meter import bound, least, measured
from benchmarks.options import bench_parser, read_options
from kumihimo.evaluate.bias import adjust_for_length, compare_with_self, measure_length_bias
from kumihimo.evaluate.bias_measures import JudgedPoints
from kumihimo.evaluate.judging.calls import plan_presentations
from kumihimo.evaluate.judging.protocols import DEBIASED, GRAPHRAG, PresentationOrder
from kumihimo.evaluate.points import CriterionPair, points_by_pair
from kumihimo.evaluate.records import Verdict, Winner
from kumihimo.evaluate.statistics import signed_rank

QUESTIONS = 125
TASKS = 25
ALPHA = 0.05
PAIR = CriterionPair("some", "some", "x", "y")
First = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Judge:
    """Of verdicts that are no ties: position: by how many points the answer shown first wins more often than the other,
    so that 20 are 60 against 40 %. length: the same of the longer answer. taste: the spread of what it thinks of the
    two answers to one question, whoever wrote them: systems that are alike do not say the same.
    """

    position: float = 0.0
    length: float = 0.0
    ties: float = 0.3
    taste: float = 55.0

    def __call__(self, first: First, liking: float, longer: int, draw: float) -> Winner:
        """liking: for a's answer. longer: 1 where a's is longer, -1 where b's is. draw: from 0 to 1."""
        if draw < self.ties:
            return "tie"
        place = self.position if first == "a" else -self.position
        a = (100 + place + self.length * longer + self.taste * liking) / 200
        return "a" if draw - self.ties < (1 - self.ties) * a else "b"


@dataclass(frozen=True, slots=True)
class Design:
    name: str
    order: PresentationOrder
    replicates: int


DESIGNS = (
    Design("graphrag, fixed order", GRAPHRAG.order, GRAPHRAG.replicates),
    Design("graphrag, alternating", "alternate", GRAPHRAG.replicates),
    Design("debiased", DEBIASED.order, DEBIASED.replicates),
)
DEBIASED_DESIGN = DESIGNS[-1]
QUESTION_IDS = [f"q{i}" for i in range(QUESTIONS)]
CLUSTERS = {question: f"task {i % TASKS}" for i, question in enumerate(QUESTION_IDS)}


def study(judge: Judge, design: Design, rng: random.Random, longer: Sequence[int] = (), b: str = "y") -> list[Verdict]:
    """The verdicts on two systems, by the design of a protocol. longer: by question, as a judge is told."""
    shown, draw = plan_presentations(design.order, design.replicates), rng.random
    made: list[Verdict] = []
    for i, question in enumerate(QUESTION_IDS):
        liking, more = rng.gauss(0, 1), longer[i] if longer else 0
        for first, n in shown:
            made.append(Verdict("some", "some", question, "x", b, first, n, judge(first, liking, more, draw())))
    return made


def found(verdicts: Sequence[Verdict]) -> bool:
    """Whether the test says that there is a difference."""
    (scores,) = points_by_pair(verdicts).values()
    return signed_rank([value - 50 for value in scores.values()]).p < ALPHA


def false_positives(judge: Judge, design: Design, studies: int, seed: int = 0) -> float:
    """The percentage of studies of two systems that are alike in which a difference is found."""
    rng = random.Random(seed)
    return 100 * sum(found(study(judge, design, rng)) for _ in range(studies)) / studies


def alarm(judge: Judge, design: Design, studies: int, seed: int = 0) -> float:
    """The percentage of studies of a system against itself in which the A/A alarm rings."""
    rng = random.Random(seed)
    panels = (
        compare_with_self(points_by_pair(study(judge, design, rng, b="x"), self_pairs=True), CLUSTERS)
        for _ in range(studies)
    )
    return 100 * sum(bool(panel[0].alarm) for panel in panels) / studies


def sized(rng: random.Random, share: float) -> tuple[dict[str, dict[str, int]], list[int]]:
    """Lengths of the answers of x and y: x's are half as long again in that share of the questions, else alike."""
    sizes = {name: {q: 200 + rng.randrange(21) for q in QUESTION_IDS} for name in "xy"}
    sizes["x"] |= {q: 300 + rng.randrange(21) for q in QUESTION_IDS if rng.random() < share}
    return sizes, [1 if sizes["x"][q] >= 300 else 0 for q in QUESTION_IDS]


def lengthy(judge: Judge, studies: int, seed: int = 0) -> dict[str, float]:
    """Of studies in which x writes longer answers to half of the questions: percentages of alarms, and mean rates."""
    rng = random.Random(seed)
    told = {"found": 0.0, "length alarm": 0.0, "matched alarm": 0.0, "raw": 0.0, "matched": 0.0, "adjusted": 0.0}
    for _ in range(studies):
        sizes, longer = sized(rng, 0.5)
        rows = study(judge, DEBIASED_DESIGN, rng, longer)
        judged = JudgedPoints(points_by_pair(rows), CLUSTERS, sizes)
        (panel,), (rate,) = measure_length_bias(judged), adjust_for_length(judged)
        told["found"] += 100 * found(rows) / studies
        told["length alarm"] += 100 * bool(panel.alarm) / studies
        told["matched alarm"] += 100 * bool(rate.alarm) / studies
        for name, value in (("raw", rate.raw), ("matched", rate.matched), ("adjusted", rate.adjusted)):
            told[name] += (value.value or 0.0) / studies
    return told


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    studies = read_options(parser, argv, studies=20).studies
    print(f"{studies:,} studies of {QUESTIONS} questions, two systems that are alike: differences found, in percent")
    print(f"  {'position bias':>15}" + "".join(f"{design.name:>26}" for design in DESIGNS))
    with measured() as cost:
        for position in (0, 10, 20, 30):
            rates = [false_positives(Judge(position), design, studies) for design in DESIGNS]
            print(f"  {position:>15}" + "".join(f"{rate:>26.1f}" for rate in rates), flush=True)
            if position == 20:
                fixed, _, even = rates
    print(f"  {cost}")
    bound("debiased at a bias of 20 points", even, 6.5, " %")
    least("graphrag as published at a bias of 20 points", fixed, 70)
    print("the A/A alarm rings, in percent of studies of a system against itself")
    for position in (0, 20):
        rung = [alarm(Judge(position), design, studies // 4) for design in DESIGNS]
        print(f"  {position:>15}" + "".join(f"{rate:>26.1f}" for rate in rung), flush=True)
    least("A/A of graphrag as published at a bias of 20 points", rung[0], 60)
    bound("A/A of debiased at a bias of 20 points", rung[2], 12, " %")
    print("one writes half as much again to half of the questions, and is no better; debiased")
    for length in (0, 15, 30):
        told = ", ".join(f"{name} {value:.1f}" for name, value in lengthy(Judge(length=length), studies // 10).items())
        print(f"  length bias {length}: {told}", flush=True)


if __name__ == "__main__":
    main()
