"""biased stub judge, two equal systems -> how often each protocol reports a difference.

Data: none. Simulates studies of 125 questions with 30 % ties, tested with Wilcoxon at .05. The verdicts follow the
designs of the protocols; the code that counts points is that of `kumi eval`. First table: position bias in percentage
points, then false differences in percent of studies, a column for each design. Second table: the same for A/A alarms.
Last lines: length bias, then percentages of significant studies and alarms, and the mean win rate raw, matched and
adjusted by length.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.meter import check_at_least, check_at_most, measured
from benchmarks.options import bench_parser, read_options, run_benchmark
from kumihimo.evaluate.bias import adjust_for_length, compare_with_self, measure_length_bias
from kumihimo.evaluate.judging.protocols import DEBIASED, GRAPHRAG, PresentationOrder, plan_presentations
from kumihimo.evaluate.points import CriterionPair, JudgedPoints, points_by_pair
from kumihimo.evaluate.records import Verdict, Winner
from kumihimo.evaluate.statistics import signed_rank

QUESTIONS = 125
TASKS = 25
ALPHA = 0.05
PAIR = CriterionPair("some", "some", "x", "y")
First = Literal["a", "b"]


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge with a position bias, a length bias and random taste; the biases concern verdicts without a tie.

    position: percentage points by which the first answer wins more often; 20 means 60 against 40 %. length: the same
    for the longer answer. ties: share of ties. taste: spread of the preference between two answers to one question;
    it is not 0, because equal systems do not write equal answers.
    """

    position: float = 0.0
    length: float = 0.0
    ties: float = 0.3
    taste: float = 55.0

    def __call__(self, first: First, preference: float, longer: int, draw: float) -> Winner:
        """Return the winner of one comparison.

        liking: preference for a's answer. longer: 1 if a's is longer, -1 if b's is. draw: from 0 to 1.
        """
        if draw < self.ties:
            return "tie"
        shift = self.position if first == "a" else -self.position
        a = (100 + shift + self.length * longer + self.taste * preference) / 200
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
    """Return the verdicts on two systems under the design of a protocol.

    longer: for each question, as in `Judge.__call__`.
    """
    presentations, draw = plan_presentations(design.order, design.replicates), rng.random
    verdicts: list[Verdict] = []
    for i, question in enumerate(QUESTION_IDS):
        preference, longer_answer = rng.gauss(0, 1), longer[i] if longer else 0
        for first, n in presentations:
            verdicts.append(
                Verdict("some", "some", question, "x", b, first, n, judge(first, preference, longer_answer, draw()))
            )
    return verdicts


def is_significant(verdicts: Sequence[Verdict]) -> bool:
    """Return whether the signed-rank test reports a difference."""
    (scores,) = points_by_pair(verdicts).values()
    return signed_rank([value - 50 for value in scores.values()]).p < ALPHA


def false_positives(judge: Judge, design: Design, studies: int, seed: int = 0) -> float:
    """Return the percentage of studies that report a false difference."""
    rng = random.Random(seed)
    return 100 * sum(is_significant(study(judge, design, rng)) for _ in range(studies)) / studies


def alarm(judge: Judge, design: Design, studies: int, seed: int = 0) -> float:
    """Return the percentage of studies with an A/A alarm."""
    rng = random.Random(seed)
    panels = (
        compare_with_self(points_by_pair(study(judge, design, rng, b="x"), self_pairs=True), CLUSTERS)
        for _ in range(studies)
    )
    return 100 * sum(bool(panel[0].alarm) for panel in panels) / studies


def sized(rng: random.Random, share: float) -> tuple[dict[str, dict[str, int]], list[int]]:
    """Return answer lengths by system, and length verdicts by question.

    In that share of the questions x's answer is half as long again (1); in the others the lengths are equal (0).
    """
    sizes = {name: {q: 200 + rng.randrange(21) for q in QUESTION_IDS} for name in "xy"}
    sizes["x"] |= {q: 300 + rng.randrange(21) for q in QUESTION_IDS if rng.random() < share}
    return sizes, [1 if sizes["x"][q] >= 300 else 0 for q in QUESTION_IDS]


def simulate_length_bias(judge: Judge, studies: int, seed: int = 0) -> dict[str, float]:
    """Return percentages of alarms and mean win rates, by name.

    x writes longer answers to half of the questions.
    """
    rng = random.Random(seed)
    figures = {
        "significant": 0.0,
        "length alarm": 0.0,
        "matched alarm": 0.0,
        "raw": 0.0,
        "matched": 0.0,
        "adjusted": 0.0,
    }
    for _ in range(studies):
        sizes, longer = sized(rng, 0.5)
        rows = study(judge, DEBIASED_DESIGN, rng, longer)
        judged = JudgedPoints(points_by_pair(rows), CLUSTERS, sizes)
        (panel,), (rate,) = measure_length_bias(judged), adjust_for_length(judged)
        figures["significant"] += 100 * is_significant(rows) / studies
        figures["length alarm"] += 100 * bool(panel.alarm) / studies
        figures["matched alarm"] += 100 * bool(rate.alarm) / studies
        for name, value in (("raw", rate.raw), ("matched", rate.matched), ("adjusted", rate.adjusted)):
            figures[name] += (value.value or 0.0) / studies
    return figures


def main(argv: Sequence[str] | None = None) -> None:
    parser = bench_parser(__doc__)
    parser.add_argument("--studies", type=int, default=1000)
    studies = read_options(parser, argv, studies=20).studies
    print(f"{studies:,} studies of {QUESTIONS} questions, two equal systems: false differences, percent of studies")
    print(f"  {'position bias':>15}" + "".join(f"{design.name:>26}" for design in DESIGNS))
    with measured() as cost:
        for position in (0, 10, 20, 30):
            rates = [false_positives(Judge(position), design, studies) for design in DESIGNS]
            print(f"  {position:>15}" + "".join(f"{rate:>26.1f}" for rate in rates), flush=True)
            if position == 20:
                fixed, _, debiased = rates
    print(f"  {cost}")
    check_at_most("debiased at a bias of 20 points", debiased, 6.5, " %")
    check_at_least("graphrag as published at a bias of 20 points", fixed, 70)
    print("a system against itself: A/A alarms, percent of studies")
    for position in (0, 20):
        alarm_rates = [alarm(Judge(position), design, studies // 4) for design in DESIGNS]
        print(f"  {position:>15}" + "".join(f"{rate:>26.1f}" for rate in alarm_rates), flush=True)
    check_at_least("A/A of graphrag as published at a bias of 20 points", alarm_rates[0], 60)
    check_at_most("A/A of debiased at a bias of 20 points", alarm_rates[2], 12, " %")
    print("x writes 50 % more in half of the answers and is no better; debiased protocol")
    for length in (0, 15, 30):
        figures = ", ".join(
            f"{name} {value:.1f}" for name, value in simulate_length_bias(Judge(length=length), studies // 10).items()
        )
        print(f"  length bias {length}: {figures}", flush=True)


if __name__ == "__main__":
    run_benchmark(main)
