"""Questions with gold -> weights for `braid`, and the gain in recall on unseen questions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, cast

import numpy as np

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.errors import SettingsError
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.core.task import Progress
from kumihimo.evaluate.gold import GoldPassage, IndexLayout, found_share, read_index_layout, resolve_gold
from kumihimo.evaluate.question_generation import question_text_key
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.evaluate.statistics import Floats, bootstrap_interval, signed_rank
from kumihimo.llm.budget import Budget
from kumihimo.methods.braid import published_weights, two_pass, weights_from_settings
from kumihimo.methods.braid.features import Features, score_candidates
from kumihimo.methods.braid.ppr import Scores, top_ids

_PENALTY = 1 / 0.3  # on the squared weights of standardised features
MIN_QUESTIONS = 20  # with fewer the interval is too wide
_SIGNIFICANCE = 0.05
FOLDS = 5
TOP_K = 5

BraidWeights = Mapping[str, Scores]  # by pass: first, second


@dataclass(frozen=True)
class FittingExample:
    """A question with its first pass and its gold passages.

    chunks: the table for the second pass. anchors, pool: settings of `braid` for the second pass.
    """

    id: str
    first_pass: two_pass.Pass
    gold: tuple[GoldPassage, ...]
    layout: IndexLayout
    chunks: Table[Chunk]
    anchors: int = two_pass.DEFAULT_ANCHORS
    pool: int = two_pass.DEFAULT_POOL

    def is_relevant(self, id: str) -> bool:
        """Return whether a chunk overlaps any gold passage."""
        return any(self.overlaps(id, passage) for passage in self.gold)

    def second_pass(self, weights: Scores) -> two_pass.Pass:
        """Return the second pass that follows a first pass with these weights."""
        scores = score_candidates(self.first_pass.features, weights)
        return two_pass.run_second_pass(self.first_pass, scores, self.chunks, anchors=self.anchors, pool=self.pool)

    def recall(self, weights: BraidWeights, k: int = TOP_K) -> float:
        """Return the share of gold passages among the first k chunks."""
        scores = score_candidates(self.second_pass(weights["first"]).features, weights["second"])
        return found_share([self.layout.chunks[id] for id in top_ids(scores, len(scores))], self.gold, k)

    def overlaps(self, id: str, passage: GoldPassage) -> bool:
        """Return whether a chunk overlaps a gold passage."""
        return any(place.overlaps(self.layout.chunks[id]) for place in passage.places)


def build_examples(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    anchors: int = two_pass.DEFAULT_ANCHORS,
    pool: int = two_pass.DEFAULT_POOL,
) -> list[FittingExample]:
    """Build an example for each question with gold.

    The examples read from the snapshot as long as they are used. anchors, pool: settings of `braid`.
    """
    layout = read_index_layout(snapshot)
    gold = resolve_gold(snapshot, layout, questions)
    chunks, mentions = snapshot.table("chunks"), snapshot.table("mentions")
    keyword_search, vector_search = snapshot.keyword_search(), snapshot.vector_search(budget or Budget())
    with_gold = [question for question in questions if question.id in gold]
    built = []
    for done, question in enumerate(with_gold, 1):
        first_pass = two_pass.run_first_pass(question.text, chunks, mentions, keyword_search, vector_search, pool=pool)
        built.append(FittingExample(question.id, first_pass, gold[question.id], layout, chunks, anchors, pool))
        if progress:
            progress("questions", done, len(with_gold))
    return built


def learn_weights(
    examples: Sequence[FittingExample],
    *,
    drop: Iterable[str] = (),
    question_weight: Callable[[str], float] | None = None,
) -> BraidWeights:
    """Learn the weights of both passes by logistic regression.

    The regression separates relevant candidates from irrelevant ones. drop: features to ignore. question_weight: the
    weight of a question by id, 1 by default.
    """
    dropped = set(drop)
    shares = [question_weight(example.id) if question_weight else 1.0 for example in examples]

    def fit(passes: Iterable[two_pass.Pass], names: Iterable[str]) -> dict[str, float]:
        rows = [(p.features, e.is_relevant, w) for p, e, w in zip(passes, examples, shares, strict=True)]
        return _fit_logistic(rows, [name for name in names if name not in dropped])

    first = fit((example.first_pass for example in examples), two_pass.FIRST_FEATURES)
    second = fit((example.second_pass(first) for example in examples), two_pass.SECOND_FEATURES)
    return {"first": first, "second": second}


def cross_validate_recall(examples: Sequence[FittingExample]) -> dict[str, float]:
    """Return each question's recall under weights from the other folds.

    The digest of the question id decides the fold.
    """
    order = sorted(examples, key=lambda example: hash_parts(example.id))
    recalls: dict[str, float] = {}
    for fold in range(FOLDS):
        weights = learn_weights([example for i, example in enumerate(order) if i % FOLDS != fold])
        recalls |= {example.id: example.recall(weights) for example in order[fold::FOLDS]}
    return recalls


def _fit_logistic(
    passes: Sequence[tuple[Mapping[str, Features], Callable[[str], bool], float]], names: Sequence[str]
) -> dict[str, float]:
    """Fit logistic regression with L2 on standardised features.

    The returned weights apply to the raw features. Weights are never negative: with few questions a negative weight is
    mostly chance and hurts other questions.
    """
    from scipy.optimize import minimize

    rows = [[f.get(name, 0.0) for name in names] for candidates, _, _ in passes for f in candidates.values()]
    signs = np.array([1.0 if is_relevant(id) else -1.0 for candidates, is_relevant, _ in passes for id in candidates])
    shares = np.array([share for candidates, _, share in passes for _ in candidates])
    x: Floats = np.array(rows)
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    z = np.hstack([(x - x.mean(axis=0)) / spread, np.ones((len(x), 1))])

    def loss(w: Floats) -> tuple[float, Floats]:
        margin = signs * (z @ w)
        slope = -(shares * signs / (1 + np.exp(np.clip(margin, -500, 500)))) @ z
        slope[:-1] += _PENALTY * w[:-1]
        return float((shares * np.logaddexp(0, -margin)).sum() + _PENALTY * (w[:-1] ** 2).sum() / 2), slope

    bounds = [*[(0, None)] * len(names), (None, None)]
    fit = minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds)
    return {name: round(float(w), 4) for name, w in zip(names, fit.x[:-1] / spread, strict=True)}


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
        features = {"first": two_pass.FIRST_FEATURES, "second": two_pass.SECOND_FEATURES}
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
    if len({question.id for question in by_key.values()}) < len(by_key):
        raise SettingsError("two questions have one id: give each its own, or none")
    return list(by_key.values())
