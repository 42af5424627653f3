"""one's own questions with gold -> weights of `braid` fitted to them, and whether they help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

from kumihimo.app.snapshot import Reading
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate.question_generation import key
from kumihimo.evaluate.records import Question
from kumihimo.evaluate.statistics import interval, signed_rank
from kumihimo.evaluate.weight_fitting import Weights, crossed, examples, learned
from kumihimo.llm.budget import Purse
from kumihimo.methods.braid import given, published
from kumihimo.methods.braid.two_pass import FIRST, SECOND

FEWEST = 20  # questions; with fewer an interval says nothing
_SURE = 0.05


@dataclass(frozen=True, slots=True)
class Refitted:
    """Weights, and what they are worth: recall@5 of the present ones, and of fitted ones on questions kept from them.

    low, high: where the difference lies, with 95 %. p: of the signed-rank test. weights: fitted to all questions.
    """

    questions: int
    present: float
    fitted: float
    low: float
    high: float
    p: float
    weights: Weights

    @property
    def difference(self) -> float:
        return self.fitted - self.present

    @property
    def helps(self) -> bool:
        """Whether they are better than the present ones beyond what chance would do."""
        return self.low > 0 and self.p < _SURE

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """As kumi.toml takes them."""
        said = {"first": FIRST, "second": SECOND}
        return {"braid": {f"{n}_weights": tuple(self.weights[n].get(f, 0.0) for f in said[n]) for n in said}}


def refitted(
    reading: Reading, questions: Sequence[Question], purse: Purse | None = None, progress: Progress | None = None
) -> Refitted:
    """Weights fitted to these questions, for the `pool` and `anchors` that are set.

    Raises SettingsError where those with gold are too few to tell anything.
    """
    asked = gathered(question for question in questions if question.gold)
    if len(asked) < FEWEST:
        raise SettingsError(
            f"{len(asked):,} questions with gold are too few to tell whether other weights would help: "
            f"it takes {FEWEST} at least, and 100 to see what is not large"
        )
    reading.ready("braid")
    own = cast(Mapping[str, Any], reading.settings.get("braid", {}))
    now = published() | given(own.get("first_weights", ()), own.get("second_weights", ()))
    passes = {name: own[name] for name in ("anchors", "pool") if name in own}
    of = examples(reading, asked, purse, progress, **passes)
    held = crossed(of)
    pairs = [(example.recall(now), held[example.id]) for example in of]
    differences = [other - one for one, other in pairs]
    cluster = {question.id: question.cluster for question in asked}
    low, high = interval(differences, [cluster[example.id] for example in of])
    present, fitted = (fmean(side) for side in zip(*pairs, strict=True))
    return Refitted(len(of), present, fitted, low, high, signed_rank(differences).p, learned(of))


def gathered(questions: Iterable[Question]) -> list[Question]:
    """Each question once, with the gold of all its lines: a log of clicks has a line for each click.

    Raises SettingsError where two questions have one id.
    """
    found: dict[str, Question] = {}
    for question in questions:
        known = found.get(key(question.text))
        gold = tuple(dict.fromkeys((*known.gold, *question.gold))) if known else question.gold
        found[key(question.text)] = replace(known or question, gold=gold)
    ids = {question.id for question in found.values()}
    if len(ids) < len(found):
        raise SettingsError("two questions have one id: give each its own, or none")
    return list(found.values())
