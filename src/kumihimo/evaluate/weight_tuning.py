"""one's own questions with gold -> weights of `braid` fitted to them, and whether they help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.errors import SettingsError
from kumihimo.core.task import Progress
from kumihimo.evaluate.question_generation import question_text_key
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.statistics import bootstrap_interval, signed_rank
from kumihimo.evaluate.weight_fitting import BraidWeights, build_examples, cross_validate_recall, learn_weights
from kumihimo.llm.budget import Budget
from kumihimo.methods.braid import published_weights, weights_from_settings
from kumihimo.methods.braid.two_pass import FIRST_FEATURES, SECOND_FEATURES

MIN_QUESTIONS = 20  # questions; with fewer an interval says nothing
_SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class RefitResult:
    """Weights, and what they are worth: recall@5 of the present ones, and of fitted ones on questions kept from them.

    low, high: where the difference lies, with 95 %. p: of the signed-rank test. weights: fitted to all questions.
    """

    questions: int
    present_recall: float
    fitted_recall: float
    low: float
    high: float
    p: float
    weights: BraidWeights

    @property
    def difference(self) -> float:
        return self.fitted_recall - self.present_recall

    @property
    def is_improvement(self) -> bool:
        """Whether they are better than the present ones beyond what chance would do."""
        return self.low > 0 and self.p < _SIGNIFICANCE

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """As kumi.toml takes them."""
        said = {"first": FIRST_FEATURES, "second": SECOND_FEATURES}
        return {"braid": {f"{n}_weights": tuple(self.weights[n].get(f, 0.0) for f in said[n]) for n in said}}


def refit_weights(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> RefitResult:
    """Weights fitted to these questions, for the `pool` and `anchors` that are set.

    Raises SettingsError where those with gold are too few to tell anything.
    """
    asked = merge_gold(question for question in questions if question.gold)
    if len(asked) < MIN_QUESTIONS:
        raise SettingsError(
            f"{len(asked):,} questions with gold are too few to tell whether other weights would help: "
            f"it takes {MIN_QUESTIONS} at least, and 100 to see what is not large"
        )
    snapshot.validate_method("braid")
    own = cast(Mapping[str, Any], snapshot.settings.get("braid", {}))
    now = published_weights() | weights_from_settings(own.get("first_weights", ()), own.get("second_weights", ()))
    passes = {name: own[name] for name in ("anchors", "pool") if name in own}
    of = build_examples(snapshot, asked, budget, progress, **passes)
    held = cross_validate_recall(of)
    pairs = [(example.recall(now), held[example.id]) for example in of]
    differences = [other - one for one, other in pairs]
    cluster = {question.id: question.cluster for question in asked}
    low, high = bootstrap_interval(differences, [cluster[example.id] for example in of])
    present, fitted = (fmean(side) for side in zip(*pairs, strict=True))
    return RefitResult(len(of), present, fitted, low, high, signed_rank(differences).p, learn_weights(of))


def merge_gold(questions: Iterable[EvalQuestion]) -> list[EvalQuestion]:
    """Each question once, with the gold of all its lines: a log of clicks has a line for each click.

    Raises SettingsError where two questions have one id.
    """
    found: dict[str, EvalQuestion] = {}
    for question in questions:
        known = found.get(question_text_key(question.text))
        gold = tuple(dict.fromkeys((*known.gold, *question.gold))) if known else question.gold
        found[question_text_key(question.text)] = replace(known or question, gold=gold)
    ids = {question.id for question in found.values()}
    if len(ids) < len(found):
        raise SettingsError("two questions have one id: give each its own, or none")
    return list(found.values())
