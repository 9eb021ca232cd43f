"""Stagewise-truncated iterative reweighting: least squares with weights 1/|r|, truncated at a level that grows.

Each stage minimises sum_i h_M(r_i), where h_M(r) = |r| above 1/M and M r^2 / 2 + 1 / (2M) below. It uses reweighted
least squares with weights min(1/|r_i|, M). Then M grows. Each reweighted problem is an upper bound of the objective,
and h_M decreases with M, so the objective never rises. The limit is least absolute deviations.
Source: Mukhoty, Gopakumar, Jain & Kar (2019), algorithm 1.
"""

from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from buttress._checks import Array
from buttress.checkpoints.memory import Memory
from buttress.solvers.run import Step, Steps, restartable

SMALL_TRUNCATION = 100  # times 1/M: if the median residual is larger than this, the truncation no longer matters
EXACT_FIT = 1e-9  # share of the norm of y: a median residual this small means that half of the rows are fitted exactly
RIDGE = 1e-12  # of columns scaled to norm 1: keeps the normal equations solvable if columns depend on each other


@restartable
def stir(X: Array, y: Array, *, truncation: float, growth: float, memory: Memory | None = None) -> Steps:
    """Yield w, shape (d,), starting at w = 0 and M = ``truncation``; the change is that of the fitted values, relative.

    A stage ends when the fitted values move by at most 2 / (growth M), root mean square. The change is reported as
    infinite until 1/M is a hundredth of the median residual, because the truncation still affects the fit.
    """
    w = np.zeros(X.shape[1])
    M = truncation
    size = max(float(np.linalg.norm(y)), np.finfo(float).tiny)
    change = np.inf
    if memory is not None:
        w, M, change = memory["at"]
    while True:
        r = np.abs(y - X @ w)
        yield Step(w, change=change, objective=float(np.where(r > 1 / M, r, M * r**2 / 2 + 1 / (2 * M)).sum()),
                   memory=partial(dict, at=[w, M, change]))
        new = weighted_least_squares(X, y, np.minimum(1 / np.maximum(r, 1 / M), M))
        moved = float(np.linalg.norm(X @ (new - w)))
        middle = float(np.median(r))
        change = moved / size if M * middle >= SMALL_TRUNCATION or middle <= EXACT_FIT * size else np.inf
        if moved <= 2 / (growth * M) * np.sqrt(len(y)):
            M *= growth
        w = new


def weighted_least_squares(X: Array, y: Array, weight: Array) -> Array:
    """Return argmin_w sum_i weight_i (y_i - x_i'w)^2, with a ridge of 1e-12 so that columns may be dependent."""
    scale = np.sqrt(np.maximum(weight @ X**2, np.finfo(float).tiny))
    Z = X / scale
    A = (Z * weight[:, None]).T @ Z
    A[np.diag_indices_from(A)] += RIDGE
    return cho_solve(cho_factor(A, overwrite_a=True), Z.T @ (weight * y)) / scale
