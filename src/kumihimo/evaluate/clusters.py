"""Claims of one answer -> number of distinct claims: complete-linkage clusters on 1 - ROUGE-L."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kumihimo.evaluate.rouge import TokenKind, rouge_distances

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

THRESHOLDS = (0.5, 0.6, 0.7, 0.8)
MergeRule = Literal["<", "<="]  # clusters merge below the threshold, or at it too


def count_clusters(
    texts: Sequence[str],
    thresholds: Sequence[float] = THRESHOLDS,
    *,
    token_kind: TokenKind = "unicode",
    merge_rule: MergeRule = "<",
) -> list[int]:
    """Return the number of clusters at each threshold (GraphRAG, section 4.2).

    No texts give 0, one text gives 1. merge_rule: the paper merges clusters whose farthest members are at most as far
    apart as the threshold ("<="); its library, scikit-learn, merges only below the threshold ("<"), and so does this
    function by default.

    >>> boats = ["The ferry left at nine.", "The ferry left at ten.", "Roake mended the breakwater."]
    >>> count_clusters(boats), count_clusters(boats, [0.2])  # two are .2 apart: 4 of 5 words
    ([2, 2, 2, 1], [3])
    >>> count_clusters(boats, [0.2], merge_rule="<=")
    [2]
    """
    if len(texts) < 2:
        return [len(texts)] * len(thresholds)
    return count_clusters_by_distance(rouge_distances(texts, token_kind), thresholds, merge_rule)


def count_clusters_by_distance(
    distance_matrix: NDArray[np.float64], thresholds: Sequence[float], merge_rule: MergeRule = "<"
) -> list[int]:
    """Return the number of clusters at each threshold from a distance matrix."""
    from scipy.cluster.hierarchy import linkage
    from scipy.spatial.distance import squareform

    if len(distance_matrix) < 2:
        return [len(distance_matrix)] * len(thresholds)
    heights = linkage(squareform(distance_matrix, checks=False), "complete")[:, 2]
    return [1 + int((heights >= t if merge_rule == "<" else heights > t).sum()) for t in thresholds]
