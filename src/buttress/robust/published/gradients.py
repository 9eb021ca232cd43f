"""How far the gradient of each row stands out, for SEVER.

The gradient of row i is g_i = sum_c R_ic k(x_i, .) e_c, R_i the derivative of its loss in the scores. Let the centred
gradients be the rows of G and v its first right singular vector. The score is tau_i = (G_i v)^2. It is computed without
features: the Gram matrix of the gradients is (R R') * K, centred on both sides, and tau_i = lmax u_i^2 with u its first
eigenvector. A penalty adds the same term to every gradient, which centring removes.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import hstack, issparse
from scipy.sparse.linalg import LinearOperator, eigsh

from buttress._checks import Array
from buttress._rows import distinct_rows
from buttress.features import landmarks, nystroem
from buttress.kernels import Kernel, Linear, kernel_takes_sparse
from buttress.robust.published.descent import AUTO_LANDMARKS, GRAM_ROWS

CHI_SQUARE_MEDIAN = 0.4549364  # of the square of a standard normal number
EIGEN_TOL = 1e-8  # relative error of the top eigenvalue; scores are only compared with one another
FEWEST = 3  # with fewer rows no direction stands out, and the eigenvalue solver needs more than two
Mask = NDArray[np.bool_]
Gram = Callable[[Array], Array]  # multiplication by a kernel matrix


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


def without_worst(tau: Array, share: float) -> Mask:
    """Return the rows without the ``share`` of highest scores, rounded down (the published code)."""
    mask = np.ones(len(tau), dtype=bool)
    mask[np.argsort(-tau, kind="stable")[: int(share * len(tau))]] = False
    return mask


def below_random_cut(tau: Array, tolerance: float, rng: np.random.RandomState) -> Mask:
    """Return the rows with scores below a uniform draw from (0, max tau) (the published theory).

    All rows stay if the mean score is at most ``tolerance`` sigma^2. sigma^2 is the variance of normal gradients
    with this median score: median / 0.4549, the median of chi^2_1.
    """
    if len(tau) == 0 or tau.mean() <= tolerance * np.median(tau) / CHI_SQUARE_MEDIAN:
        return np.ones(len(tau), dtype=bool)
    return np.asarray(tau < rng.uniform(0, tau.max()))


def gram_times(kernel: Kernel, X: Array) -> Gram:
    """Return a function that multiplies by the kernel matrix of the rows of X, by features if those are smaller."""
    if isinstance(kernel, Linear) and kernel.definiteness == "pd":
        constant = np.full((X.shape[0], 1), np.sqrt(kernel.coef0))
        Z: Any = hstack([X, constant], format="csr") if issparse(X) else np.hstack([X, constant])
    elif X.shape[0] > GRAM_ROWS and kernel.definiteness == "pd":
        rng = np.random.RandomState(0)
        points = (distinct_rows(X[rng.choice(X.shape[0], AUTO_LANDMARKS, replace=False)]) if issparse(X)
                  else landmarks(X, AUTO_LANDMARKS, rng=rng, method="uniform"))
        Z = nystroem(kernel, points)(X)
    else:
        if issparse(X) and not kernel_takes_sparse(kernel):
            raise ValueError(f"{kernel!r} takes no sparse X. Use X.toarray(), or a kernel by name for the gradients.")
        K = kernel(X, X)
        return lambda v: K @ v
    return lambda v: Z @ (Z.T @ v)
