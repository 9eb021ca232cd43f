"""Consistent robust regression: alternate least squares with hard thresholding of the residuals.

    minimise over w and b with at most k entries   1/2 |y - b - X w|^2

With P the projection on the columns of X this is 1/2 |(I - P)(y - b)|^2 as a function of b only. The iteration is
b <- HT_k(P b + (I - P) y), where HT_k keeps the k largest entries and sets the others to 0. It is projected gradient
descent with step 1, so it never raises the objective. At a fixed point the residuals on the support of b are 0, so w is
least squares on the other rows.
Source: Bhatia, Jain, Kamalaruban & Kar (2017), algorithm 1.
"""

import numpy as np

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

LEAST_SINGULAR = 1e-10  # share of the largest singular value; smaller ones are rounding


def crr(basis: Array, y: Array, k: int) -> Steps:
    """Yield b, shape (n,), for an orthonormal ``basis`` (n, r) of the columns; the change is that of |b| / |y - b|."""
    b = np.zeros_like(y)
    last = np.full_like(y, np.inf)
    while True:
        rest = y - b
        residual = rest - basis @ (basis.T @ rest)
        # of y - b and not of y: a corrupt target of 1e9 in y would hide any change
        size = max(float(np.linalg.norm(rest)), np.finfo(float).tiny)
        yield Step(b, change=float(np.linalg.norm(b - last)) / size, objective=0.5 * float(residual @ residual))
        last = b
        b = hard_threshold(b + residual, k)


def hard_threshold(v: Array, k: int) -> Array:
    """Return v with all but its k largest entries, in size, set to 0."""
    kept = np.zeros_like(v)
    largest = np.argsort(-np.abs(v), kind="stable")[:k]
    kept[largest] = v[largest]
    return kept


def column_basis(X: Array) -> Array:
    """Return an orthonormal basis (n, r) of the columns of X, singular values below 1e-10 of the largest left out."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return U[:, s > LEAST_SINGULAR * s[0]] if len(s) and s[0] > 0 else U[:, :0]
