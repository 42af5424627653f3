"""claims of one answer -> how many different things they say: clusters by complete linkage on 1 - ROUGE-L."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kumihimo.evaluate.rouge import Tokens, distances

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
Merges = Literal["<", "<="]  # at which distances two clusters become one


def clusters(
    texts: Sequence[str],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    tokens: Tokens = "unicode",
    merges: Merges = "<",
) -> list[int]:
    """The number of clusters at each threshold (GraphRAG, section 4.2). None of no texts, one of one.

    merges: the paper says that clusters become one where their farthest members are at most as far as the threshold;
    the library it used, scikit-learn, has them nearer than that, and so have we.

    >>> boats = ["The ferry left at nine.", "The ferry left at ten.", "Roake mended the breakwater."]
    >>> clusters(boats), clusters(boats, [0.2]), clusters(boats, [0.2], merges="<=")  # two are .2 apart: 4 of 5 words
    ([2, 2, 2, 1], [3], [2])
    """
    if len(texts) < 2:
        return [len(texts)] * len(thresholds)
    return counted(distances(texts, tokens), thresholds, merges)


def counted(apart: NDArray[np.float64], thresholds: Sequence[float], merges: Merges = "<") -> list[int]:
    """The same from the distance of each with each."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    if len(apart) < 2:
        return [len(apart)] * len(thresholds)
    heights = linkage(squareform(apart, checks=False), "complete")[:, 2]
    return [1 + int((heights >= t if merges == "<" else heights > t).sum()) for t in thresholds]
