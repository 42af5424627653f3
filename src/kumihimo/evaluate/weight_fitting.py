"""Questions with gold -> weights for `braid`, and their recall on unseen questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from kumihimo.app.snapshot import Snapshot
from kumihimo.core.digests import hash_parts
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.core.task import Progress
from kumihimo.evaluate.gold import GoldPassage, IndexLayout, read_index_layout, resolve_gold
from kumihimo.evaluate.records import EvalQuestion
from kumihimo.llm.budget import Budget
from kumihimo.methods.braid.features import Features, score_candidates
from kumihimo.methods.braid.ppr import Scores, top_ids
from kumihimo.methods.braid.two_pass import (
    DEFAULT_ANCHORS,
    DEFAULT_POOL,
    FIRST_FEATURES,
    SECOND_FEATURES,
    Pass,
    run_first_pass,
    run_second_pass,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PENALTY = 1 / 0.3  # on the squared weights of standardised features
FOLDS = 5
TOP_K = 5

BraidWeights = Mapping[str, Scores]  # by pass: first, second


@dataclass(frozen=True)
class FittingExample:
    """A question with its first pass and its gold passages.

    chunks: the table for the second pass. anchors, pool: settings of `braid` for the second pass.
    """

    id: str
    first_pass: Pass
    gold: tuple[GoldPassage, ...]
    layout: IndexLayout
    chunks: Table[Chunk]
    anchors: int = DEFAULT_ANCHORS
    pool: int = DEFAULT_POOL

    def is_relevant(self, id: str) -> bool:
        """Return whether a chunk overlaps any gold passage."""
        return any(self.overlaps(id, passage) for passage in self.gold)

    def second_pass(self, weights: Scores) -> Pass:
        """Return the second pass that follows a first pass with these weights."""
        first_scores = score_candidates(self.first_pass.features, weights)
        return run_second_pass(self.first_pass, first_scores, self.chunks, anchors=self.anchors, pool=self.pool)

    def recall(self, weights: BraidWeights, k: int = TOP_K) -> float:
        """Return the share of gold passages among the first k chunks."""
        scores = score_candidates(self.second_pass(weights["first"]).features, weights["second"])
        top = top_ids(scores, k)
        return fmean(any(self.overlaps(id, passage) for id in top) for passage in self.gold)

    def overlaps(self, id: str, passage: GoldPassage) -> bool:
        """Return whether a chunk overlaps a gold passage."""
        return any(place.overlaps(self.layout.chunks[id]) for place in passage.places)


def build_examples(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    anchors: int = DEFAULT_ANCHORS,
    pool: int = DEFAULT_POOL,
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
        first_pass = run_first_pass(question.text, chunks, mentions, keyword_search, vector_search, pool=pool)
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
    features = (
        [name for name in FIRST_FEATURES if name not in dropped],
        [name for name in SECOND_FEATURES if name not in dropped],
    )
    shares = [question_weight(example.id) if question_weight else 1.0 for example in examples]
    first_weights = _fit_logistic(
        [(e.first_pass.features, e.is_relevant, w) for e, w in zip(examples, shares, strict=True)], features[0]
    )
    second_weights = _fit_logistic(
        [(e.second_pass(first_weights).features, e.is_relevant, w) for e, w in zip(examples, shares, strict=True)],
        features[1],
    )
    return {"first": first_weights, "second": second_weights}


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
    import numpy as np
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
