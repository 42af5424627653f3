"""questions with gold -> the weights by which `braid` finds it best, and what they are worth on other questions."""

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

_PENALTY = 1 / 0.3  # on squared weights of features of variance 1
FOLDS = 5
TOP_K = 5

BraidWeights = Mapping[str, Scores]  # of both passes


@dataclass(frozen=True)
class FittingExample:
    """A question, its first pass, and the passages that it needs. chunks: from which the second pass reads.

    anchors, pool: as `braid` takes them, for the second pass.
    """

    id: str
    first_pass: Pass
    gold: tuple[GoldPassage, ...]
    layout: IndexLayout
    chunks: Table[Chunk]
    anchors: int = DEFAULT_ANCHORS
    pool: int = DEFAULT_POOL

    def is_relevant(self, id: str) -> bool:
        """Whether a chunk holds some of what is needed."""
        return any(self.overlaps(id, one) for one in self.gold)

    def second_pass(self, weights: Scores) -> Pass:
        """The second pass, after a first with these weights."""
        before = score_candidates(self.first_pass.features, weights)
        return run_second_pass(self.first_pass, before, self.chunks, anchors=self.anchors, pool=self.pool)

    def recall(self, weights: BraidWeights, k: int = TOP_K) -> float:
        """Share of the passages needed that are among the first k chunks."""
        scores = score_candidates(self.second_pass(weights["first"]).features, weights["second"])
        top = top_ids(scores, k)
        return fmean(any(self.overlaps(id, one) for id in top) for one in self.gold)

    def overlaps(self, id: str, one: GoldPassage) -> bool:
        """Whether a chunk holds some of a passage."""
        return any(place.overlaps(self.layout.chunks[id]) for place in one.places)


def build_examples(
    snapshot: Snapshot,
    questions: Sequence[EvalQuestion],
    budget: Budget | None = None,
    progress: Progress | None = None,
    *,
    anchors: int = DEFAULT_ANCHORS,
    pool: int = DEFAULT_POOL,
) -> list[FittingExample]:
    """The first passes of the questions that have gold. They read from that index as long as they are used.

    anchors, pool: as `braid` takes them.
    """
    there = read_index_layout(snapshot)
    needed = resolve_gold(snapshot, there, questions)
    chunks, mentions = snapshot.table("chunks"), snapshot.table("mentions")
    match, near = snapshot.keyword_search(), snapshot.vector_search(budget or Budget())
    asked = [question for question in questions if question.id in needed]
    found = []
    for done, question in enumerate(asked, 1):
        before = run_first_pass(question.text, chunks, mentions, match, near, pool=pool)
        found.append(FittingExample(question.id, before, needed[question.id], there, chunks, anchors, pool))
        if progress:
            progress("questions", done, len(asked))
    return found


def learn_weights(
    examples: Sequence[FittingExample],
    *,
    drop: Iterable[str] = (),
    question_weight: Callable[[str], float] | None = None,
) -> BraidWeights:
    """The weights of both passes, by logistic regression: a candidate that is needed against one that is not.

    drop: features that are not to count. weigh: how much the question of that id counts, 1 if nobody says.
    """
    left = set(drop)
    names = (
        [name for name in FIRST_FEATURES if name not in left],
        [name for name in SECOND_FEATURES if name not in left],
    )
    share = [question_weight(example.id) if question_weight else 1.0 for example in examples]
    one = _fit_logistic(
        [(e.first_pass.features, e.is_relevant, w) for e, w in zip(examples, share, strict=True)], names[0]
    )
    two = _fit_logistic(
        [(e.second_pass(one).features, e.is_relevant, w) for e, w in zip(examples, share, strict=True)], names[1]
    )
    return {"first": one, "second": two}


def cross_validate_recall(examples: Sequence[FittingExample]) -> dict[str, float]:
    """By question its recall under weights learned on the other folds; folds by the digests of the ids."""
    order = sorted(examples, key=lambda example: hash_parts(example.id))
    found: dict[str, float] = {}
    for fold in range(FOLDS):
        weights = learn_weights([example for i, example in enumerate(order) if i % FOLDS != fold])
        found |= {example.id: example.recall(weights) for example in order[fold::FOLDS]}
    return found


def _fit_logistic(
    passes: Sequence[tuple[Mapping[str, Features], Callable[[str], bool], float]], names: Sequence[str]
) -> dict[str, float]:
    """Logistic regression on standardised features, L2; the weights are of the features as they are.

    Nothing speaks against a passage: of few questions such a weight is mostly chance, and others fare worse by it.
    """
    import numpy as np
    from scipy.optimize import minimize

    rows = [[f.get(name, 0.0) for name in names] for told, _, _ in passes for f in told.values()]
    signs = np.array([1.0 if right(id) else -1.0 for told, right, _ in passes for id in told])
    shares = np.array([share for told, _, share in passes for _ in told])
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
