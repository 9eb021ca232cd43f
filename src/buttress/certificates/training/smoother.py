"""Predictions that are linear in the training targets: f(x) = sum_i h_i(x) y_i, h the weights of a fitted model.

Both forms minimise sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2, with an intercept or without:

- :class:`GramSmoother`: h(x) = (K + D)^-1 k(x), D_ii = alpha / w_i;
- :class:`ColumnSmoother`: h(x) = W X (X'WX + alpha I)^-1 x.

An intercept that is not penalised is the mean m'y, m_i = w_i / sum_j w_j, beside a fit to y - m'y, so
h(x) = m + (I - m 1') v(x), with v(x) from the columns, or the kernel, centred by m (a Gaussian process centres y
alone).

**What is proven of h.** With A the matrix that is solved and r = k - A h the residual of the computed solution,
|h - A^-1 k| <= |r| / least eigenvalue of A; r is computed anew, with its own rounding bounded. The kernel values and
the columns are taken as they were computed.

The attack that would make it false: columns that nearly repeat each other with alpha near 0, where h is all rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from buttress._checks import Array

EPS = float(np.finfo(np.float64).eps)


class Smoother(Protocol):
    """The weights with which a fitted model adds up its training targets."""

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return h of each row of X (m, d), shape (m, n), and bounds (m,) of the Euclidean error of each."""


@dataclass(frozen=True)
class Solver:
    """Solutions of A h = k for symmetric A (n, n) with eigenvalues of at least ``least`` > 0."""

    A: Array
    factor: tuple[Array, bool]
    least: float

    @classmethod
    def of(cls, A: Array, penalty: float) -> "Solver":
        """Factorise A = K + D, D >= ``penalty``; ValueError where rounding decides what the solution is."""
        least = _least_eigenvalue(A, penalty)
        if least <= 0:
            raise ValueError("The penalty is so small, or columns repeat each other so nearly, that rounding decides "
                             "what the model predicts. Nothing can be proven; raise alpha or drop columns.")
        return cls(A, cho_factor(A, lower=True), least)

    def __call__(self, K: Array) -> tuple[Array, Array]:
        """Return the solutions for the columns of K (n, m), (n, m), and bounds (m,) of their errors."""
        H = cho_solve(self.factor, K)
        rounding = (len(self.A) + 4) * EPS * (np.linalg.norm(self.A) * np.linalg.norm(H, axis=0)
                                               + np.linalg.norm(K, axis=0))
        return H, (np.linalg.norm(K - self.A @ H, axis=0) + rounding) / self.least


def _least_eigenvalue(A: Array, penalty: float) -> float:
    """Return a lower bound of the least eigenvalue of symmetric A.

    That a Cholesky factor of A - s I can be computed proves it to be above s less (n + 2) eps trace(A) (Rump 2006).
    """
    rounding = 2 * (len(A) + 2) * EPS * float(np.abs(np.diagonal(A)).sum())
    if penalty > 4 * rounding:
        try:
            cho_factor(A - 0.5 * penalty * np.eye(len(A)), lower=True)
        except LinAlgError:
            pass
        else:
            return 0.5 * penalty - rounding
    return float(eigvalsh(A, subset_by_index=[0, 0])[0]) - 2 * rounding


def _with_mean(V: Array, error: Array, mean: Array | None) -> tuple[Array, Array]:
    """Return the weights (m, n) and their errors once the targets are centred by ``mean`` (n,)."""
    if mean is None:
        return V, error
    away = 1 + np.sqrt(len(mean)) * np.linalg.norm(mean)
    rounding = len(mean) * EPS * (1 + away * np.linalg.norm(V, axis=1))
    return mean + V - np.outer(V.sum(axis=1), mean), away * error + rounding


class GramSmoother:
    """Kernel ridge regression and Gaussian processes.

    Parameters
    ----------
    kernel : callable
        Takes rows and returns their kernel values (m, n) with the training rows.
    K : array of shape (n, n)
        Of the training rows themselves; positive semi-definite.
    penalty : array of shape (n,)
        D_ii = alpha / w_i, > 0.
    mean : array of shape (n,) or None
        Weights m with which the targets are centred, if they are.
    centred : bool
        Whether the kernel is centred by m too, as it is for an intercept that is not penalised.
    """

    def __init__(
        self, kernel: Callable[[Array], Array], K: Array, penalty: Array, mean: Array | None = None,
        centred: bool = False,
    ):
        self.kernel = kernel
        self.mean = mean
        self.middle = K @ mean if centred and mean is not None else None
        self.offset = float(mean @ self.middle) if mean is not None and self.middle is not None else 0.0
        A = self._centred(K) if self.middle is not None else K.copy()
        A.flat[:: len(A) + 1] += penalty
        self.solved = Solver.of(A, float(penalty.min()))

    def _centred(self, K: Array) -> Array:
        """Return the kernel values (m, n) between rows less the mean row of the training rows."""
        assert self.mean is not None
        assert self.middle is not None
        return K - (K @ self.mean)[:, None] - self.middle + self.offset

    def __call__(self, X: Array) -> tuple[Array, Array]:
        K = self.kernel(X)
        V, error = self.solved((self._centred(K) if self.middle is not None else K).T)
        return _with_mean(V.T, error, self.mean)


class ColumnSmoother:
    """Ridge regression and least squares on columns.

    Parameters
    ----------
    X : array of shape (n, d)
    alpha : float
        >= 0.
    weight : array of shape (n,)
    intercept : bool
        Whether there is one, not penalised.
    """

    def __init__(self, X: Array, alpha: float, weight: Array, intercept: bool):
        self.mean = weight / weight.sum() if intercept else None
        self.first = X[0] if intercept else np.zeros(X.shape[1])  # columns far from 0 lose nothing to it, as to a mean
        self.middle = self.mean @ (X - self.first) if self.mean is not None else self.first
        centred = X - self.first - self.middle
        self.weighted = weight[:, None] * centred
        A = centred.T @ self.weighted
        A.flat[:: len(A) + 1] += alpha
        self.solved = Solver.of(A, alpha)
        self.size = float(np.linalg.norm(self.weighted))

    def __call__(self, X: Array) -> tuple[Array, Array]:
        G, error = self.solved((X - self.first - self.middle).T)
        rounding = len(G) * EPS * np.linalg.norm(G, axis=0)
        return _with_mean((self.weighted @ G).T, self.size * (error + rounding), self.mean)

    def coefficients(self) -> tuple[Array, Array]:
        """Return the weights of the targets in every coefficient, (d, n), and bounds (d,) of the error of each."""
        G, error = self.solved(np.eye(len(self.middle)))
        mean = np.zeros(len(self.weighted)) if self.mean is None else self.mean
        rounding = len(G) * EPS * np.linalg.norm(G, axis=0)
        V, wider = _with_mean((self.weighted @ G).T, self.size * (error + rounding), mean)
        return V - mean, wider + EPS * (np.linalg.norm(V, axis=1) + np.linalg.norm(mean))
