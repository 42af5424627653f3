"""A pilot study, or an assumed spread, and a difference -> how many questions show it."""

from collections.abc import Iterator
from dataclasses import dataclass

from kumihimo.evaluate.report.summary_data import load_study_results
from kumihimo.evaluate.study import Study

LARGEST_DEVIATION = 50.0  # of points from 0 to 100: every question is won or lost
SMALLEST_DIFFERENCE = 0.01  # in points
SMALL_PILOT = 30  # questions; the spread of fewer is uncertain
_UNITS = {"scores": 100.0, "retrieval": 100.0, "ratings": 1.0}  # points of a value, by group


@dataclass(frozen=True, slots=True)
class QuestionsNeeded:
    """The number of questions that show a difference, by one metric of a pair.

    In 80 % of studies, at .05 divided by `family`. pilot: the questions that the spread is estimated from; 0: assumed.
    questions: None if the pilot has no spread.
    """

    metric: str
    a: str
    b: str
    pilot: int
    family: int
    questions: int | None


def find_questions_needed(study: Study, difference: float) -> Iterator[QuestionsNeeded]:
    """Yield the number of questions by each pair of a pilot.

    difference: in points, of 100: 5 is a win rate of 55 %, or .05 of a score from 0 to 1. Precision is left out: its
    largest value depends on k and on how much gold a question has.
    """
    results = load_study_results(study, study.folder.name)
    pairs = [(pair, 1.0) for criterion in results.criteria for pair in criterion.comparisons]
    for measure in results.measures:
        if (
            measure.group in _UNITS
            and not measure.name.endswith(("tokens", "chunks"))
            and "precision@" not in measure.name
        ):
            pairs += [(pair, _UNITS[measure.group]) for pair in measure.comparisons]
    for pair, unit in pairs:
        questions = pair.questions_needed(difference / unit)
        yield QuestionsNeeded(pair.metric, pair.a, pair.b, pair.n, pair.family, questions)
