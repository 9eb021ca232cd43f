"""SEVER: fit, score each row by its gradient along the direction of most variance, drop the worst, and repeat.

The gradient of row i is g_i = sum_c R_ic k(x_i, .) e_c, R_i the derivative of its loss in the scores. Let the centred
gradients be the rows of G and v its first right singular vector. The score is tau_i = (G_i v)^2. It is computed without
features: the Gram matrix of the gradients is (R R') * K, centred on both sides, and tau_i = lmax u_i^2 with u its first
eigenvector. A penalty adds the same term to every gradient, which centring removes.
Source: Diakonikolas, Kamath, Kane, Li, Steinhardt & Stewart (2019), algorithms 1 and 2.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

CHI_SQUARE_MEDIAN = 0.4549364  # of the square of a standard normal number
EIGEN_TOL = 1e-8  # relative error of the top eigenvalue; scores are only compared with one another
FEWEST = 3  # with fewer rows no direction stands out, and the eigenvalue solver needs more than two
Model = TypeVar("Model")
Mask = NDArray[np.bool_]
# scores of some rows -> which of them to keep
Filter = Callable[[Array], Mask]
# multiplication by a kernel matrix
Gram = Callable[[Array], Array]


def sever(
    fit: Callable[[Mask], Model],
    derivatives: Callable[[Model], Array],
    gram: Callable[[NDArray[np.intp]], Gram],
    groups: Sequence[NDArray[np.intp]],
    keep: Filter,
) -> Steps:
    """Yield (kept rows, the model fitted on them); each iteration filters once, within each group of row numbers.

    ``fit`` fits a model on a mask (n,) of rows, ``derivatives`` gives its R (n, C) on all rows, ``gram``
    multiplication by the kernel matrix of the rows with given numbers. Done once nothing is dropped.
    """
    kept = np.zeros(sum(len(rows) for rows in groups), dtype=bool)
    for rows in groups:
        kept[rows] = True
    while True:
        model = fit(kept)
        R = derivatives(model)
        after = kept.copy()
        for rows in groups:
            left = rows[kept[rows]]
            after[left] = keep(scores(R[left], gram(left)))
        yield Step((kept, model), objective=0.0, done=bool(after.sum() >= kept.sum()))
        kept = after


def scores(R: Array, gram: Gram) -> Array:
    """Return tau (n,) from the derivatives R (n, C) and multiplication by the kernel matrix of the same rows."""

    def times(v: Array) -> Array:
        u = v - v.mean()
        u = np.sum(R * gram(R * u[:, None]), axis=1)
        return u - u.mean()

    if len(R) < FEWEST:
        return np.zeros(len(R))
    start = np.random.default_rng(0).normal(size=len(R))  # any vector that is not orthogonal to u
    if not np.any(times(start)):
        return np.zeros(len(R))
    value, u = eigsh(LinearOperator((len(R), len(R)), matvec=lambda v: times(np.ravel(v)), dtype=np.float64), k=1,
                     v0=start, tol=EIGEN_TOL)
    return value[0] * u[:, 0] ** 2


def worst_share(share: float) -> Filter:
    """Return a filter that drops the ``share`` of rows with the highest scores, rounded down (the published code)."""

    def keep(tau: Array) -> Mask:
        mask = np.ones(len(tau), dtype=bool)
        mask[np.argsort(-tau, kind="stable")[: int(share * len(tau))]] = False
        return mask

    return keep


def random_cut(tolerance: float, rng: np.random.RandomState) -> Filter:
    """Return a filter that keeps the rows with scores below a uniform draw from (0, max tau).

    It keeps all rows if the mean score is at most ``tolerance`` sigma^2. sigma^2 is the variance of normal gradients
    with this median score: median / 0.4549, the median of chi^2_1.
    """

    def keep(tau: Array) -> Mask:
        if len(tau) == 0 or tau.mean() <= tolerance * np.median(tau) / CHI_SQUARE_MEDIAN:
            return np.ones(len(tau), dtype=bool)
        return tau < rng.uniform(0, tau.max())

    return keep
