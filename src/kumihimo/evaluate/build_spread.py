"""Scores of several builds of an index -> how much of their spread comes from the builds."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from kumihimo.evaluate.records import EvalQuestion, Score
from kumihimo.evaluate.statistics import standard_error

_BUILD = re.compile(r"(.+)#([2-9]|[1-9]\d+)")  # naive#2: naive, asked about the second build


def name_of_build(system: str, build: int) -> str:
    """Return the name of a system about one build.

    The first build keeps the name.

    >>> name_of_build("local", 1), name_of_build("local", 3)
    ('local', 'local#3')
    """
    return system if build == 1 else f"{system}#{build}"


def split_build(name: str) -> tuple[str, int]:
    """Return the system of a name, and its build.

    >>> split_build("local#3"), split_build("local:x=a#b")
    (('local', 3), ('local:x=a#b', 1))
    """
    found = _BUILD.fullmatch(name)
    return (found[1], int(found[2])) if found else (name, 1)


@dataclass(frozen=True, slots=True)
class BuildSpread:
    """A measure of one system over several builds of the index.

    means: of each build. between: their standard deviation. questions_error: the standard error of the mean that the
    choice of questions brings. low, high: the 95 % interval of the mean, for other questions and other builds. n: the
    questions with a value in every build.
    """

    measure: str
    system: str
    means: Sequence[float]
    between: float
    questions_error: float
    value: float
    low: float
    high: float
    n: int


def spread_over_builds(scores: Iterable[Score], questions: Iterable[EvalQuestion]) -> list[BuildSpread]:
    """Return the spread of each measure and system with several builds."""
    clusters = {question.id: question.cluster for question in questions}
    values: defaultdict[tuple[str, str], defaultdict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for score in scores:
        system, build = split_build(score.system)
        if score.value is not None and score.question in clusters:
            values[score.name, system][build][score.question] = score.value
    return [
        spread
        for (measure, system), by_build in values.items()
        if len(by_build) > 1 and (spread := _measure_spread(measure, system, [*by_build.values()], clusters))
    ]


def _measure_spread(
    measure: str, system: str, builds: Sequence[Mapping[str, float]], clusters: Mapping[str, str]
) -> BuildSpread | None:
    """Return the spread of one measure.

    None with fewer than two common questions. The degrees of freedom of the interval are Welch and Satterthwaite's.
    """
    common = [question for question in builds[0] if all(question in build for build in builds)]
    if len(common) < 2:
        return None
    from scipy.stats import t  # takes half a second

    means = [fmean(build[question] for question in common) for build in builds]
    by_question = [fmean(build[question] for build in builds) for question in common]
    error, between = standard_error(by_question, [clusters[question] for question in common]), stdev(means)
    parts = ((error**2, len(common) - 1), (between**2 / len(means), len(means) - 1))
    variance = sum(part for part, _ in parts)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in parts) if variance else 1.0
    half, mean = float(t.ppf(0.975, freedom)) * sqrt(variance), fmean(means)
    return BuildSpread(measure, system, means, between, error, mean, mean - half, mean + half, len(common))
