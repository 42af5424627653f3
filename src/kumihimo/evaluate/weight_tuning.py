"""Your questions with gold -> `braid` weights fitted to them, and the gain in recall."""

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

MIN_QUESTIONS = 20  # with fewer the interval is too wide
_SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class RefitResult:
    """Fitted weights and their benefit.

    present_recall: recall@5 of the present weights. fitted_recall: recall@5 of fitted weights on held-out questions.
    low, high: the 95 % interval of the difference. p: of the signed-rank test. weights: fitted to all questions.
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
        """Return the gain in recall."""
        return self.fitted_recall - self.present_recall

    @property
    def is_improvement(self) -> bool:
        """Return whether the gain is significant."""
        return self.low > 0 and self.p < _SIGNIFICANCE

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the weights as settings for kumi.toml."""
        features = {"first": FIRST_FEATURES, "second": SECOND_FEATURES}
        return {"braid": {f"{n}_weights": tuple(self.weights[n].get(f, 0.0) for f in features[n]) for n in features}}


def refit_weights(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> RefitResult:
    """Fit weights to these questions under the configured `pool` and `anchors`.

    Raises SettingsError if too few questions have gold.
    """
    with_gold = merge_gold(question for question in questions if question.gold)
    if len(with_gold) < MIN_QUESTIONS:
        raise SettingsError(
            f"{len(with_gold):,} questions with gold are too few to tell whether other weights would help: "
            f"use at least {MIN_QUESTIONS}, and 100 to detect a moderate gain"
        )
    snapshot.validate_method("braid")
    braid_settings = cast(Mapping[str, Any], snapshot.settings.get("braid", {}))
    present_weights = published_weights() | weights_from_settings(
        braid_settings.get("first_weights", ()), braid_settings.get("second_weights", ())
    )
    pass_settings = {name: braid_settings[name] for name in ("anchors", "pool") if name in braid_settings}
    built = build_examples(snapshot, with_gold, budget, progress, **pass_settings)
    held_out = cross_validate_recall(built)
    pairs = [(example.recall(present_weights), held_out[example.id]) for example in built]
    differences = [after - before for before, after in pairs]
    cluster = {question.id: question.cluster for question in with_gold}
    low, high = bootstrap_interval(differences, [cluster[example.id] for example in built])
    present, fitted = (fmean(side) for side in zip(*pairs, strict=True))
    return RefitResult(len(built), present, fitted, low, high, signed_rank(differences).p, learn_weights(built))


def merge_gold(questions: Iterable[EvalQuestion]) -> list[EvalQuestion]:
    """Merge the gold of equal questions.

    A click log has one line a click. Raises SettingsError if two questions have the same id.
    """
    by_key: dict[str, EvalQuestion] = {}
    for question in questions:
        earlier = by_key.get(question_text_key(question.text))
        gold = tuple(dict.fromkeys((*earlier.gold, *question.gold))) if earlier else question.gold
        by_key[question_text_key(question.text)] = replace(earlier or question, gold=gold)
    ids = {question.id for question in by_key.values()}
    if len(ids) < len(by_key):
        raise SettingsError("two questions have one id: give each its own, or none")
    return list(by_key.values())
