"""questions with gold -> the weights by which `braid` finds it best, and what they are worth on other questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from kumihimo.app.snapshot import Reading
from kumihimo.core.digests import digest
from kumihimo.core.records import Chunk
from kumihimo.core.table import Table
from kumihimo.core.task import Progress
from kumihimo.evaluate.gold import Layout, Wanted, layout, wanted
from kumihimo.evaluate.records import Question
from kumihimo.llm.budget import Purse
from kumihimo.methods.braid.features import Features, scored
from kumihimo.methods.braid.ppr import Scores, best
from kumihimo.methods.braid.two_pass import ANCHORS, FIRST, POOL, SECOND, Pass, first, second

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PENALTY = 1 / 0.3  # on squared weights of features of variance 1
FOLDS = 5
K = 5

Weights = Mapping[str, Scores]  # of both passes


@dataclass(frozen=True)
class Example:
    """A question, its first pass, and the passages that it needs. chunks: from which the second pass reads.

    anchors, pool: as `braid` takes them, for the second pass.
    """

    id: str
    before: Pass
    gold: tuple[Wanted, ...]
    there: Layout
    chunks: Table[Chunk]
    anchors: int = ANCHORS
    pool: int = POOL

    def right(self, id: str) -> bool:
        """Whether a chunk holds some of what is needed."""
        return any(self.holds(id, one) for one in self.gold)

    def after(self, weights: Scores) -> Pass:
        """The second pass, after a first with these weights."""
        before = scored(self.before.told, weights)
        return second(self.before, before, self.chunks, anchors=self.anchors, pool=self.pool)

    def recall(self, weights: Weights, k: int = K) -> float:
        """Share of the passages needed that are among the first k chunks."""
        scores = scored(self.after(weights["first"]).told, weights["second"])
        top = best(scores, k)
        return fmean(any(self.holds(id, one) for id in top) for one in self.gold)

    def holds(self, id: str, one: Wanted) -> bool:
        """Whether a chunk holds some of a passage."""
        return any(place.touches(self.there.chunks[id]) for place in one.places)


def examples(
    reading: Reading,
    questions: Sequence[Question],
    purse: Purse | None = None,
    progress: Progress | None = None,
    *,
    anchors: int = ANCHORS,
    pool: int = POOL,
) -> list[Example]:
    """The first passes of the questions that have gold. They read from that index as long as they are used.

    anchors, pool: as `braid` takes them.
    """
    there = layout(reading)
    needed = wanted(reading, there, questions)
    chunks, mentions = reading.table("chunks"), reading.table("mentions")
    match, near = reading.match(), reading.near(purse or Purse())
    asked = [question for question in questions if question.id in needed]
    found = []
    for done, question in enumerate(asked, 1):
        before = first(question.text, chunks, mentions, match, near, pool=pool)
        found.append(Example(question.id, before, needed[question.id], there, chunks, anchors, pool))
        if progress:
            progress("questions", done, len(asked))
    return found


def learned(of: Sequence[Example], *, drop: Iterable[str] = (), weigh: Callable[[str], float] | None = None) -> Weights:
    """The weights of both passes, by logistic regression: a candidate that is needed against one that is not.

    drop: features that are not to count. weigh: how much the question of that id counts, 1 if nobody says.
    """
    left = set(drop)
    names = [name for name in FIRST if name not in left], [name for name in SECOND if name not in left]
    share = [weigh(example.id) if weigh else 1.0 for example in of]
    one = _fitted([(e.before.told, e.right, w) for e, w in zip(of, share, strict=True)], names[0])
    two = _fitted([(e.after(one).told, e.right, w) for e, w in zip(of, share, strict=True)], names[1])
    return {"first": one, "second": two}


def crossed(of: Sequence[Example]) -> dict[str, float]:
    """By question its recall under weights learned on the other folds; folds by the digests of the ids."""
    order = sorted(of, key=lambda example: digest(example.id))
    found: dict[str, float] = {}
    for fold in range(FOLDS):
        weights = learned([example for i, example in enumerate(order) if i % FOLDS != fold])
        found |= {example.id: example.recall(weights) for example in order[fold::FOLDS]}
    return found


def _fitted(
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
