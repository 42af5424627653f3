"""shares of wins + a gap -> what the share would be without the gap, by logistic regression, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAX_STEPS = 50
_MAX_COEFFICIENT = 12.0  # an intercept or slope beyond which there is none that is finite
_Z = 1.959964  # of 95 %


class UndefinedEstimate(Exception):
    """There is no such number, and why."""


def share_without_gap(
    shares: Sequence[float], gaps: Sequence[float], clusters: Sequence[str]
) -> tuple[float, tuple[float, float]]:
    """The share where the gap is 0, and its 95 % interval, by errors that are robust to clusters. Raises Undefined.

    The gap enters by its hyperbolic tangent in standard deviations, so that a few huge ones do not decide (as in
    length-controlled AlpacaEval, 2024).

    >>> shares, gaps = [1, 1, 1, 0, 0, 0, 1, 0], [2, 2, 2, 2, -2, -2, -2, -2]  # 3 of 4 where longer, else 1 of 4
    >>> round(at_no_gap(shares, gaps, list("abcdefgh"))[0], 3)
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
    found, inverse = _fit(x, y)
    error = _intercept_error(x, y, found, inverse, clusters)
    low, high = (float(_logistic(found[0] + side * _Z * error)) for side in (-1, 1))
    return float(_logistic(found[0])), (low, high)


def _fit(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Newton's method: the coefficients, and the inverse of the information. Raises Undefined where it runs away."""
    import numpy as np

    found = np.asarray(np.zeros(2))
    for _ in range(_MAX_STEPS):
        p = _logistic(x @ found)
        information = x.T @ (x * (p * (1 - p))[:, None])
        if np.linalg.cond(information) > 1e10 or np.abs(found).max() > _MAX_COEFFICIENT:
            break
        inverse = np.asarray(np.linalg.inv(information), dtype=np.float64)
        step = inverse @ (x.T @ (y - p))
        found = found + step
        if np.abs(step).max() < 1e-9:
            return found, inverse
    raise UndefinedEstimate("length alone tells the winners apart")


def _intercept_error(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    found: NDArray[np.float64],
    inverse: NDArray[np.float64],
    clusters: Sequence[str],
) -> float:
    """The standard error of the intercept (a sandwich over clusters)."""
    import numpy as np

    off = x * (y - _logistic(x @ found))[:, None]
    of = {name: i for i, name in enumerate(dict.fromkeys(clusters))}
    sums = np.zeros((len(of), 2))
    np.add.at(sums, [of[name] for name in clusters], off)
    spread = inverse @ (sums.T @ sums) @ inverse * len(of) / max(len(of) - 1, 1)
    return float(np.sqrt(spread[0, 0]))


def _logistic(value: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.asarray(1 / (1 + np.exp(-np.clip(value, -500, 500))))
