"""Win shares and gaps -> the share at gap 0 by logistic regression, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_STEPS = 50
_MAX_COEFFICIENT = 12.0  # a larger intercept or slope counts as infinite
_Z = 1.959964  # normal quantile of a 95 % interval


class UndefinedEstimate(Exception):
    """The estimate does not exist; the message says why."""


def share_without_gap(
    shares: Sequence[float], gaps: Sequence[float], clusters: Sequence[str]
) -> tuple[float, tuple[float, float]]:
    """Estimate the share at gap 0 with its cluster-robust 95 % interval.

    The gap enters as the hyperbolic tangent of its standardised value, so that a few large gaps do not dominate (as in
    length-controlled AlpacaEval, 2024). Raises UndefinedEstimate.

    >>> shares, gaps = [1, 1, 1, 0, 0, 0, 1, 0], [2, 2, 2, 2, -2, -2, -2, -2]  # 3 of 4 where longer, else 1 of 4
    >>> round(share_without_gap(shares, gaps, list("abcdefgh"))[0], 3)
    0.5
    """
    import numpy as np

    y, gap = np.asarray(shares, dtype=float), np.asarray(gaps, dtype=float)
    spread = float(np.sqrt((gap**2).mean())) if len(gap) else 0.0
    if len(y) < 5:
        raise UndefinedEstimate("fewer than 5 questions")
    if np.ptp(gap) <= 1e-9 * max(spread, 1.0):
        raise UndefinedEstimate("the difference in length is always the same")
    if np.ptp(y) == 0 and y[0] in (0.0, 1.0):
        raise UndefinedEstimate("one of the two always wins")
    x = np.column_stack([np.ones(len(y)), np.tanh(gap / spread)])
    coefficients, inverse = _fit(x, y)
    error = _intercept_error(x, y, coefficients, inverse, clusters)
    low, high = (float(_logistic(coefficients[0] + side * _Z * error)) for side in (-1, 1))
    return float(_logistic(coefficients[0])), (low, high)


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return coefficients and inverse information by Newton's method.

    Raises UndefinedEstimate if it diverges.
    """
    import numpy as np

    coefficients = np.asarray(np.zeros(2))
    for _ in range(_MAX_STEPS):
        p = _logistic(x @ coefficients)
        information = x.T @ (x * (p * (1 - p))[:, None])
        if np.linalg.cond(information) > 1e10 or np.abs(coefficients).max() > _MAX_COEFFICIENT:
            break
        inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
        step = inverse @ (x.T @ (y - p))
        coefficients = coefficients + step
        if np.abs(step).max() < 1e-9:
            return coefficients, inverse
    raise UndefinedEstimate("length alone tells the winners apart")


def _intercept_error(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    coefficients: NDArray[np.float64],
    inverse: NDArray[np.float64],
    clusters: Sequence[str],
) -> float:
    """Return the standard error of the intercept by a cluster sandwich estimator."""
    import numpy as np

    scores = x * (y - _logistic(x @ coefficients))[:, None]
    cluster_index = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    sums = np.zeros((len(cluster_index), 2))
    np.add.at(sums, [cluster_index[name] for name in clusters], scores)
    spread = inverse @ (sums.T @ sums) @ inverse * len(cluster_index) / max(len(cluster_index) - 1, 1)
    return float(np.sqrt(spread[0, 0]))


def _logistic(value: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-np.clip(value, -500, 500))))
