"""Stagewise-truncated iterative reweighting: least squares with weights 1/|r|, truncated at a level that grows.

Each stage minimises sum_i w_i h_M(r_i), where h_M(r) = |r| above 1/M and M r^2 / 2 + 1 / (2M) below. It uses reweighted
least squares with weights w_i min(1/|r_i|, M), where w_i counts the row. Then M grows. Each reweighted problem is an
upper bound of the objective, and h_M decreases with M, so the objective never rises. The limit is least absolute
deviations.
Source: Mukhoty, Gopakumar, Jain & Kar (2019), algorithm 1.
"""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

SMALL_TRUNCATION = 100  # times 1/M: if the median residual is larger than this, the truncation no longer matters
EXACT_FIT = 1e-9  # share of the norm of y: a median residual this small means that half of the rows are fitted exactly
RIDGE = 1e-12  # of columns scaled to norm 1: keeps the normal equations solvable if columns depend on each other


def stir(X: Array, y: Array, *, weight: Array | None = None, truncation: float, growth: float) -> Steps:
    """Yield w, shape (d,), starting at w = 0 and M = ``truncation``; the change is that of the fitted values, relative.

    ``weight`` (n,) counts the rows: a row of weight two is two equal rows. A stage ends when the fitted values move by
    at most 2 / (growth M), root mean square. The change is reported as infinite until 1/M is a hundredth of the median
    residual, because the truncation still affects the fit.
    """
    counted = np.ones(len(y)) if weight is None else weight
    w = np.zeros(X.shape[1])
    M = truncation
    size = max(norm(y, counted), np.finfo(float).tiny)
    change = np.inf
    while True:
        r = np.abs(y - X @ w)
        yield Step(w, change=change, objective=float(counted @ np.where(r > 1 / M, r, M * r**2 / 2 + 1 / (2 * M))))
        new = weighted_least_squares(X, y, counted * np.minimum(1 / np.maximum(r, 1 / M), M))
        moved = norm(X @ (new - w), counted)
        middle = weighted_median(r, counted)
        change = moved / size if M * middle >= SMALL_TRUNCATION or middle <= EXACT_FIT * size else np.inf
        if moved <= 2 / (growth * M) * np.sqrt(counted.sum()):
            M *= growth
        w = new


def norm(v: Array, weight: Array) -> float:
    """Return the root of the weighted sum of squares of v (n,)."""
    return float(np.sqrt(weight @ v**2))


def weighted_median(v: Array, weight: Array) -> float:
    """Return the median of v (n,) with entry i there ``weight[i]`` times, as numpy's the mean of two middle ones."""
    order = np.argsort(v, kind="stable")
    order = order[weight[order] > 0]
    reached = np.cumsum(weight[order])
    half = reached[-1] / 2
    low = order[np.searchsorted(reached, half)]
    high = order[np.searchsorted(reached, half, side="right")]
    return float(v[low] + v[high]) / 2


def weighted_least_squares(X: Array, y: Array, weight: Array) -> Array:
    """Return argmin_w sum_i weight_i (y_i - x_i'w)^2, with a ridge of 1e-12 so that columns may be dependent."""
    scale = np.sqrt(np.maximum(weight @ X**2, np.finfo(float).tiny))
    Z = X / scale
    A = (Z * weight[:, None]).T @ Z
    A[np.diag_indices_from(A)] += RIDGE
    return cho_solve(cho_factor(A, overwrite_a=True), Z.T @ (weight * y)) / scale
