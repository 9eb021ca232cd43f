"""Sums of kernel values in logarithms: log sum_i a_i k(x_i, x) keeps the order of rows that are far from all others.

Where k(x, x) is constant, a row is the nearer to the centre of a ball the larger that sum is. Far from the data the
squared distance is flat in floating point, and the sum itself is 0; its logarithm is neither.
"""

from functools import singledispatch

import numpy as np
from scipy.special import logsumexp

from buttress._checks import Array
from buttress._threads import slices
from buttress._types import Rows
from buttress.expansion import KernelExpansion
from buttress.kernels import (
    RBF,
    Cauchy,
    Combination,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    MultiscaleRBF,
    Radial,
    squared_distances,
)


def in_logs(kernel: Kernel) -> bool:
    """Say whether all values of a kernel are positive and k(x, x) is constant: sums of such have logarithms."""
    if isinstance(kernel, Combination):
        return bool(kernel._terms()) and all(in_logs(part) for part, _ in kernel._terms())
    return type(kernel) in (RBF, Laplacian, Cauchy, InverseMultiquadric, MultiscaleRBF)


@singledispatch
def logarithm(kernel: Kernel, r2: Array) -> Array:
    """Return log k of a kernel :func:`in_logs` at squared distances."""
    assert isinstance(kernel, Radial), "a kernel of the distance"
    return np.log(kernel.profile(r2))


@logarithm.register
def _(kernel: RBF, r2: Array) -> Array:
    return -kernel.gamma * r2


@logarithm.register
def _(kernel: Laplacian, r2: Array) -> Array:
    return -kernel.gamma * np.sqrt(r2)


@logarithm.register
def _(kernel: MultiscaleRBF, r2: Array) -> Array:
    return np.asarray(logsumexp([-float(gamma) * r2 for gamma in kernel.gammas], axis=0) - np.log(len(kernel.gammas)))


@logarithm.register
def _(kernel: Combination, r2: Array) -> Array:
    logs = [np.log(weight) + logarithm(part, r2) for part, weight in kernel._terms()]
    return np.asarray(logsumexp(logs, axis=0))


def log_scores(expansion: KernelExpansion, X: Array) -> Array:
    """Return log sum_i a_i k(x_i, x) of each row of X (n, d), for a kernel :func:`in_logs`."""
    sums = expansion(X)[:, 0]
    faint = np.flatnonzero(sums < 1e-30)  # float32 rows have lost digits of such sums
    sums[faint] = 1.0
    logs: Array = np.log(sums)
    logs[faint] = summed_logs(expansion, X[faint])
    return logs


def summed_logs(expansion: KernelExpansion, X: Array, own: Rows | None = None) -> Array:
    """Return the same from the logarithms; of row i without the center of number ``own[i]``."""
    weights = np.log(expansion.coef[:, 0].astype(np.float64))
    out = np.empty(len(X))
    for part in slices(len(X), len(weights)):
        rows = X[part].astype(np.float64, copy=False)
        logs = logarithm(expansion.kernel, squared_distances(rows, expansion.centers)) + weights
        if own is not None:
            logs[np.arange(len(rows)), own[part]] = -np.inf
        out[part] = logsumexp(logs, axis=1)
    return out


def left_out_logs(expansion: KernelExpansion, support: Rows, sums: Array) -> Array:
    """Return the score of each training row (n,) from the others, their coefficients in proportion.

    ``sums`` (n,) are sum_j a_j k(x_j, x_i), and ``support`` the numbers of the rows with a coefficient, in order.
    """
    a = expansion.coef[:, 0].astype(np.float64)
    rest = sums.copy()
    rest[support] -= a * expansion.kernel.diagonal(expansion.centers[:1])
    scores = np.log(np.maximum(rest, np.finfo(float).tiny))
    cancelled = np.flatnonzero(rest[support] < 1e-4 * sums[support])  # the rest keeps its digits only above this share
    with np.errstate(divide="ignore"):
        scores[support[cancelled]] = summed_logs(expansion, expansion.centers[cancelled], cancelled)
        scores[support] -= np.log(1 - a)
    return np.where(np.isnan(scores), -np.inf, scores)  # of a row that is the whole ball
