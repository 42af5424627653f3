"""a study as it stands + models that answer from nothing -> Foreseen: what each of its stages would ask, and cost.

The stages themselves are run, on a sample, by models that nobody asks; what is remembered costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kumihimo.app.cost import Tally
from kumihimo.app.estimate_query_cost import StandIn, any_question, between
from kumihimo.app.results import Estimate, Plan
from kumihimo.app.snapshot import Reading
from kumihimo.core.errors import ItemFailed
from kumihimo.evaluate.claims import claims
from kumihimo.evaluate.claims.stages import PAPER, Votes
from kumihimo.evaluate.claims.voting import majority
from kumihimo.evaluate.cost_estimates import Models, row, scaled, spread
from kumihimo.evaluate.judging.calls import calls, some
from kumihimo.evaluate.judging.protocols import DEBIASED, Protocol
from kumihimo.evaluate.judging.ratings import ratings, shown
from kumihimo.evaluate.judging.verdicts import verdicts
from kumihimo.evaluate.question_generation import sensemaking
from kumihimo.evaluate.records import Answered, Question
from kumihimo.evaluate.run_systems import answered
from kumihimo.evaluate.scoring import MEASURES
from kumihimo.evaluate.scoring.run_scores import paired, scored
from kumihimo.evaluate.study import Study
from kumihimo.evaluate.systems import System
from kumihimo.llm.budget import Purse

STAGES = ("questions", "run", "judge", "claims", "score")
USUAL = 125  # questions: of five users, five tasks of each, five of each task
_FIVE = 5
_AGAIN = 3  # times a list of questions is asked for at most
_ASKED, _JUDGED, _READ = 3, 40, 8  # questions of a system, calls of a judge, answers: those that are looked at
_DESCRIBED = 1600  # characters of a description that nobody has written yet


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be done. count: of questions, if the study has none. second: percent of the calls, for the second
    judge. measures: names of scores."""

    stages: Sequence[str] = STAGES
    protocol: Protocol = DEBIASED
    count: int = 0
    criteria: Sequence[str] = ()
    replicates: int = 0
    against: str = ""
    second: float = 10
    generations: int = 1
    votes: Votes = PAPER
    measures: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Foreseen:
    """A row for each stage and each system asked. questions: how many; assumed: of which there are none yet."""

    plan: Plan
    questions: int
    assumed: bool
    systems: tuple[str, ...]


Answers = dict[str, dict[str, Answered]]  # by system, by question: those that are there, or else made up at full length


def foreseen(study: Study, models: Models, systems: Sequence[System | str], wanted: Wanted) -> Foreseen:
    """What the stages would ask, those that are not done yet. systems: names are of those that nobody can ask."""
    held: list[Question] = study.rows_if("questions")
    questions = held[: wanted.count or None] or _assumed(models.reading, wanted.count or USUAL)
    found: list[Estimate] = []
    if "questions" in wanted.stages and not held:
        found += _questions(study, models)
    first: Answers = {}
    again: Answers = {}
    for one in systems:
        found += _system(study, models, one, questions, wanted, first, again)
    if "judge" in wanted.stages:
        judge = _rated if wanted.protocol.name == "mk" else _judged
        found += judge(models, questions, first, again, wanted)
    found += _claims(models, questions, first, wanted.votes) if "claims" in wanted.stages else []
    found += _scores(models, questions, first, wanted.measures) if "score" in wanted.stages else []
    names = tuple(one if isinstance(one, str) else one.name for one in systems)
    return Foreseen(Plan(tuple(found)), len(questions), not held, names)


def _assumed(reading: Reading | None, count: int) -> list[Question]:
    text = any_question(reading) if reading else "What are the main themes?"
    return [Question(f"assumed-{n}", f"{n}. {text}") for n in range(1, count + 1)]


# -- the stages


def _questions(study: Study, models: Models) -> list[Estimate]:
    """A call for the users, for the tasks of each, for the questions of each task; up to three where they are alike."""
    from kumihimo.evaluate.corpus_description import described, pieces

    tally = Tally(models.real, models.ruler)
    ask, description, drafted = tally.asking("questioner"), study.text("description.md"), 0
    if not description and models.reading:
        shown = pieces(models.reading)
        try:
            description = described(shown, ask)
        except ItemFailed:
            description, drafted = "\n".join(shown)[:_DESCRIBED], 1
    sensemaking(description, ask, personas=_FIVE, tasks=_FIVE, questions=_FIVE)
    of = tally.asked["questioner"]
    usual = of.calls + of.further
    made = [_more(e, usual, _AGAIN * (usual - drafted) + drafted) for e in models.of(tally.asked).estimates]
    return row("questions", made)


def _more(e: Estimate, least: float, most: float) -> Estimate:
    """As many calls, each as large as the largest of them on average."""
    low, high = (scaled(e, n / e.calls[1]) for n in (least, most))
    return replace(between(Plan((low,)), Plan((high,))).estimates[0], calls=(least, most), exact=False)


def _system(
    study: Study,
    models: Models,
    one: System | str,
    questions: Sequence[Question],
    wanted: Wanted,
    first: Answers,
    again: Answers,
) -> list[Estimate]:
    """What asking it costs; and its answers for the stages to come, in `first` and `again`."""
    name = one if isinstance(one, str) else one.name
    found: list[Estimate] = []
    for n in range(max(wanted.generations, min(study.generations(name), 2))):
        there = _there(study, name, n)
        made: list[Answered] = []
        for group in ([q for q in questions if q.id not in there], [q for q in questions if q.id in there]):
            if isinstance(one, System) and group and models.reading:
                sample = spread(group, _ASKED)
                parts = models.both(partial(_asked, models.reading, one, sample, n, made))
                found += [scaled(part, len(group) / len(sample)) for part in parts]
        if n < 2:
            (again if n else first)[name] = _filled(name, questions, there, made, n)
    return row(f"run {name}", found) if "run" in wanted.stages else []


def _asked(
    reading: Reading,
    one: System,
    sample: Sequence[Question],
    generation: int,
    made: list[Answered],
    models: StandIn,
    full: bool,
) -> None:
    asked = replace(reading, models=models, lines={}, held={})
    rows = answered(asked, one, sample, Purse(), generation=generation)
    made += rows if full else []


def _there(study: Study, name: str, generation: int) -> dict[str, Answered]:
    rows = study.answers(name, generation) if generation < study.generations(name) else ()
    return {row.question: row for row in rows if not row.failed}


def _filled(
    name: str, questions: Sequence[Question], there: Mapping[str, Answered], like: Sequence[Answered], generation: int
) -> dict[str, Answered]:
    """Those that are there, the others like what was made up."""
    like = [row for row in like if row.text] or [Answered(name, "", "no")]
    made = (replace(like[i % len(like)], question=q.id, generation=generation) for i, q in enumerate(questions))
    return {row.question: there.get(row.question, row) for row in made}


def _judged(
    models: Models, questions: Sequence[Question], first: Answers, again: Answers, wanted: Wanted
) -> list[Estimate]:
    """The calls are counted one by one, what they hold is measured on some of them."""
    protocol = wanted.protocol
    listed = calls(
        protocol,
        questions,
        first,
        again=again,
        criteria=wanted.criteria,
        replicates=wanted.replicates,
        against=wanted.against,
    )
    roles = {"judge": 100.0}
    if models.real.settings.get("second_judge", {}).get("model") and wanted.second:
        roles["second_judge"] = wanted.second
    each = len(listed[0].criteria) if listed else 1
    stage, found = partial(verdicts, protocol), list[Estimate]()
    for role, percent in roles.items():
        its = some(listed, percent) if percent < 100 else listed
        found += _counted(f"{role.replace('_', ' ')} {protocol.name}", role, models, its, stage, each)
    return found


def _rated(
    models: Models, questions: Sequence[Question], first: Answers, _again: Answers, wanted: Wanted
) -> list[Estimate]:
    listed = shown(questions, first, replicates=wanted.replicates or 1)
    stage = partial(ratings, wanted.protocol, ruler=models.ruler)
    rows = len(first) * len(wanted.protocol.criteria)
    return _counted(f"judge {wanted.protocol.name}", "judge", models, listed, stage, rows)


def _counted(name: str, role: str, models: Models, listed: Sequence[Any], stage: Any, rows: int) -> list[Estimate]:
    """A row with the number of calls that are left. rows: that the stage makes of a call."""
    left = models.left(role, listed, stage, rows)
    sample = spread(left, _JUDGED)

    def by(stand_in: StandIn, _: bool) -> None:
        list(stage(sample, stand_in.asking(role, Purse())))

    made = [scaled(e, len(left) / len(sample)) for e in models.both(by)] if sample else []
    n = float(len(left))
    return [replace(e, calls=(n, n), exact=True) for e in row(name, made)]


def _claims(models: Models, questions: Sequence[Question], first: Answers, votes: Votes) -> list[Estimate]:
    """Claims alone, not what they are checked against."""
    answers = _listed(first)

    def by(stand_in: StandIn, _: bool) -> None:
        claims(questions, spread(answers, _READ), stand_in.asking("claimer", Purse()), votes)

    agreed = sum(map(majority, votes[:2])) + votes[2]
    return _of_answers("claims", models.both(by, sum(votes) / agreed), len(answers))


def _scores(models: Models, questions: Sequence[Question], first: Answers, measures: Sequence[str]) -> list[Estimate]:
    paid, answers = [name for name in measures if MEASURES[name].paid], _listed(first)

    def by(stand_in: StandIn, _: bool) -> None:
        cases = list(paired(questions, spread(answers, _READ)))
        list(scored(cases, paid, stand_in.asking("scorer", Purse()), stand_in.embedder(Purse())))

    return _of_answers("score", models.both(by), len(answers)) if paid else []


def _listed(answers: Answers) -> list[Answered]:
    return [answer for mine in answers.values() for answer in mine.values() if not answer.failed]


def _of_answers(name: str, found: Sequence[Estimate], count: int) -> list[Estimate]:
    return row(name, [scaled(e, count / min(count, _READ)) for e in found])
