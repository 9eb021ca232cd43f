"""Predictions that are linear in the training targets: f(x) = sum_i h_i(x) y_i, h the weights of a fitted model.

Both forms minimise sum_i w_i (y_i - f(x_i))^2 + alpha |f|^2, with an intercept or without:

- :class:`GramSmoother`: h(x) = (K + D)^-1 k(x), D_ii = alpha / w_i;
- :class:`ColumnSmoother`: h(x) = W X (X'WX + alpha I)^-1 x.

An intercept that is not penalised is the mean m'y, m_i = w_i / sum_j w_j, beside a fit to y - m'y, so
h(x) = m + (I - m 1') v(x), with v(x) from the columns, or the kernel, centred by m (a Gaussian process centres y
alone).

**What is proven of h.** With A and k as they are computed, A* and k* as they should be, and a solution h computed of
A (n, n), norms Euclidean (of A Frobenius) and eps = 2^-52,

    |h - A*^-1 k*| <= (|k - A h| + (n + 4) eps (|A| |h| + |k|) + |A - A*| |h| + |k - k*|) / least eigenvalue of A*,

where the second term is the rounding of the first. The kernel values and the columns are taken as they are given; what
their sums and their centring lose is in |A - A*| and |k - k*|, by Higham's gamma_m = m u (Accuracy and Stability of
Numerical Algorithms, 3.1), u = eps / 2:

- kernel values k of a row with n training rows, of which K are those of the training rows, centred: with a = 1 +
  sqrt(n) |m|, a^2 (n + 8) eps (|k| + |m| |K|). (k'm is off by n u |k| |m|, K m by n u |K| |m|, m'K m by twice that
  times |m|; three sums follow.) So is each row of A.
- columns X of n rows: with F = X less their mean, in units of powers of 2 near their lengths, s^2 = sum_i w_i |F_i|^2
  and W = sum_i w_i, (n + 8) eps s^2 of A, and eps ((n + 4) s / sqrt(W) + |x - mean|) of x. (A sum of n products and
  three roundings of each; the error of the mean, n u s / sqrt(W), enters A only squared.)

The attacks that would make it false: columns that nearly repeat each other with alpha near 0, where h is all rounding;
sums of so many equal terms that their roundings have one sign.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigvalsh

from buttress._checks import Array
from buttress._proof import UNIT


class Smoother(Protocol):
    """The weights with which a fitted model adds up its training targets."""

    def __call__(self, X: Array) -> tuple[Array, Array]:
        """Return h of each row of X (m, d), shape (m, n), and bounds (m,) of the Euclidean error of each."""


@dataclass(frozen=True)
class Solver:
    """Solutions of A h = k for symmetric A (n, n), right to ``away``, with eigenvalues of at least ``least`` > 0."""

    A: Array
    factor: tuple[Array, bool]
    away: float
    least: float

    @classmethod
    def of(cls, A: Array, penalty: float, away: float = 0.0) -> "Solver":
        """Factorise A = K + D, D >= ``penalty``; ValueError where rounding decides what the solution is."""
        least = _least_eigenvalue(A, penalty) - away
        if least <= 0:
            raise ValueError("The penalty is so small, or columns repeat each other so nearly, that rounding decides "
                             "what the model predicts. Nothing can be proven; raise alpha or drop columns.")
        return cls(A, cho_factor(A, lower=True), away, least)

    def __call__(self, K: Array, away: Array | float = 0.0) -> tuple[Array, Array]:
        """Return the solutions for the columns of K (n, m), right to ``away``, (n, m), and bounds (m,) of their errors.
        """
        H = cho_solve(self.factor, K)
        length = np.linalg.norm(H, axis=0)
        rounding = (len(self.A) + 4) * UNIT * (np.linalg.norm(self.A) * length + np.linalg.norm(K, axis=0))
        return H, (np.linalg.norm(K - self.A @ H, axis=0) + rounding + self.away * length + away) / self.least


def _least_eigenvalue(A: Array, penalty: float) -> float:
    """Return a lower bound of the least eigenvalue of symmetric A; half of ``penalty`` is good enough.

    That a Cholesky factor of A - s I can be computed proves it to be above s less (n + 2) eps trace(A) (Rump 2006).
    """
    rounding = (len(A) + 2) * UNIT * float(np.abs(np.diagonal(A)).sum())
    half = 0.5 * penalty
    if half > rounding and _factors(A, half):
        return half - rounding
    near = float(eigvalsh(A, subset_by_index=[0, 0]).item()) - rounding
    return near - rounding if _factors(A, near) else -np.inf


def _factors(A: Array, shift: float) -> bool:
    try:
        cho_factor(A - shift * np.eye(len(A)), lower=True)
    except LinAlgError:
        return False
    return True


def _with_mean(V: Array, error: Array, mean: Array | None) -> tuple[Array, Array]:
    """Return the weights (m, n) and their errors once the targets are centred by ``mean`` (n,)."""
    if mean is None:
        return V, error
    V, error = _less_mean(V, error, mean)
    return mean + V, error + (len(mean) + 2) * UNIT


def _less_mean(V: Array, error: Array, mean: Array | None) -> tuple[Array, Array]:
    """Return V (I - 1 m') and its errors: a sum of n terms, twice, for the mean is one too, and two roundings."""
    if mean is None:
        return V, error
    rounding = (len(mean) + 2) * UNIT * np.linalg.norm(V, axis=1)
    return V - np.outer(V.sum(axis=1), mean), _stretch(mean) * (error + rounding)


def _stretch(mean: Array) -> float:
    """Return a bound of the norm of I - m 1'."""
    return float(1 + np.sqrt(len(mean)) * np.linalg.norm(mean))


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
        self.size = float(np.linalg.norm(K))
        A, away = self._centred(K)
        A.flat[:: len(A) + 1] += penalty
        self.solved = Solver.of(A, float(penalty.min()), float(np.linalg.norm(away)))

    def _centred(self, K: Array) -> tuple[Array, Array]:
        """Return kernel values (m, n) as they are, or between rows less the mean row, and what rounding adds (m,)."""
        if self.mean is None or self.middle is None:
            return K.copy(), np.zeros(len(K))
        share = (len(self.mean) + 8) * UNIT * _stretch(self.mean) ** 2
        away = share * (np.linalg.norm(K, axis=1) + np.linalg.norm(self.mean) * self.size)
        return K - (K @ self.mean)[:, None] - self.middle + self.mean @ self.middle, away

    def __call__(self, X: Array) -> tuple[Array, Array]:
        K, away = self._centred(self.kernel(X))
        V, error = self.solved(K.T, away)
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
        self.first = np.zeros(X.shape[1]) if self.mean is None else self.mean @ X
        far = X - self.first
        square = np.maximum(weight @ far**2 + alpha, np.finfo(np.float64).tiny)
        self.scale = np.exp2(-np.round(0.5 * np.log2(square)))
        far *= self.scale
        self.middle = self.first if self.mean is None else self.mean @ far  # the mean of columns far from 0 is rounded
        centred = far - self.middle
        self.weighted = weight[:, None] * centred
        A = centred.T @ self.weighted
        A.flat[:: len(A) + 1] += alpha * self.scale**2
        spread = float(np.linalg.norm(np.sqrt(weight)[:, None] * far))
        self.lost = (len(X) + 4) * UNIT * spread / float(np.sqrt(weight.sum()))
        self.solved = Solver.of(A, alpha * float(self.scale.min()) ** 2, (len(X) + 8) * UNIT * spread**2)
        self.size = float(np.linalg.norm(weight[:, None] * (np.abs(far) + np.abs(self.middle))))

    def __call__(self, X: Array) -> tuple[Array, Array]:
        far = self.scale * (X - self.first)
        G, error = self.solved((far - self.middle).T, self.lost + UNIT * np.linalg.norm(far, axis=1))
        return _with_mean(*self._weights(G, error), self.mean)

    def _weights(self, G: Array, error: Array) -> tuple[Array, Array]:
        rounding = (len(G) + 2) * UNIT * np.linalg.norm(G, axis=0)
        return (self.weighted @ G).T, self.size * (error + rounding)

    def coefficients(self) -> tuple[Array, Array]:
        """Return the weights of the targets in every coefficient, (d, n), and bounds (d,) of the error of each."""
        return _less_mean(*self._weights(*self.solved(np.diag(self.scale))), self.mean)
