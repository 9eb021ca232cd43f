"""Functions of an RKHS as coefficients: dual ones over a Gram matrix, or primal ones over features.

Both have the same methods, so descent is written once. With a Gram matrix K, f = K c and ||f||^2 = c'K c. With
features Z, f = Z c and ||f|| = |c|. The functional gradient of sum_i a_i f(x_i) is sum_i a_i k(x_i, .): its dual
coefficients are a, its primal ones Z'a.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

from buttress._checks import Array
from buttress.features.stored import FeaturesOfRows, StoredFeatures


def top_eigenvalue(times: Callable[[Array], Array], v: Array) -> tuple[float, Array]:
    """Return the largest eigenvalue of ``times`` plus two per cent, and its eigenvector, by power iteration from v.

    Examples
    --------
    >>> A = np.diag([3.0, 1.0])
    >>> round(top_eigenvalue(lambda v: A @ v, np.ones(2))[0], 6)
    3.06
    """
    value = 0.0
    for _ in range(30):  # the value is then within a few per cent, unless many eigenvalues are close
        v = times(v)
        value = float(np.linalg.norm(v))
        if value == 0:
            return 0.0, np.ones_like(v)
        v = v / value
    return 1.02 * value, v  # the value found is always too small: this is safe for step lengths


# A step of up to twice 1 / beta cannot raise the objective either, so the largest eigenvalue need not be exact.
DRIFT = 0.2  # the largest eigenvalue is computed again once the weights, or its bound, changed by more than this
LIFT = 1e-10  # of the trace, added to the diagonal so that a singular matrix can be factorised


@dataclass(frozen=True)
class RkhsPoint:
    """A function: its coefficients c, shape (m,) or (m, C), and its values f at the training rows, (n,) or (n, C)."""

    c: Array
    f: Array

    def __add__(self, other: "RkhsPoint") -> "RkhsPoint":
        return RkhsPoint(self.c + other.c, self.f + other.f)

    def __sub__(self, other: "RkhsPoint") -> "RkhsPoint":
        return RkhsPoint(self.c - other.c, self.f - other.f)

    def __rmul__(self, scale: float) -> "RkhsPoint":
        return RkhsPoint(scale * self.c, scale * self.f)


class Space(ABC):
    """The functions a descent moves among."""

    diagonal: Array  # k(x_i, x_i), shape (n,)
    n_coefs: int

    @abstractmethod
    def point(self, c: Array) -> RkhsPoint:
        """The function of coefficients c."""

    @abstractmethod
    def gradient(self, a: Array) -> Array:
        """The coefficients of sum_i a_i k(x_i, .), a of shape (n,) or (n, C)."""

    @abstractmethod
    def inner(self, c: Array, h: RkhsPoint) -> float:
        """The inner product of the function of coefficients c with h."""

    @abstractmethod
    def largest(self, q: Array) -> float:
        """Return an upper bound of lmax(diag(q)^1/2 K diag(q)^1/2), q >= 0, or a value a few per cent too small."""

    @abstractmethod
    def inverse(self, s: Array, ridge: float) -> Callable[[Array], Array]:
        """The map (sum_i s_i k(x_i, .) k(x_i, .)' + ridge)^-1 on coefficients, s >= 0."""

    def norm(self, h: RkhsPoint) -> float:
        """||h||."""
        return float(np.sqrt(max(self.inner(h.c, h), 0.0)))


class Dual(Space):
    """Functions sum_i c_i k(x_i, .) over a Gram matrix K (n, n); ``share`` (n,) are the rows' shares of the weight."""

    def __init__(self, K: Array, share: Array):
        self.K = K
        self.share = share
        self.diagonal = np.diagonal(K)
        self.times = StoredFeatures(K, self.diagonal).times
        self.n_coefs = len(K)
        self._top: float | None = None

    def point(self, c: Array) -> RkhsPoint:
        return RkhsPoint(c, self.times(c))

    def gradient(self, a: Array) -> Array:
        return a

    def inner(self, c: Array, h: RkhsPoint) -> float:
        return float(np.sum(c * h.f))

    def largest(self, q: Array) -> float:
        """The smaller of the trace and of max(q / share) lmax(share^1/2 K share^1/2)."""
        if self._top is None:
            root = np.sqrt(self.share)
            self._top = top_eigenvalue(lambda v: root * self.times(root * v), root)[0]
        return min(heaviest(q, self.share) * self._top, float(q @ self.diagonal))

    def inverse(self, s: Array, ridge: float) -> Callable[[Array], Array]:
        A = s[:, None] * self.K
        A[np.diag_indices_from(A)] += ridge + LIFT * float(s @ self.diagonal)
        factor = lu_factor(A, overwrite_a=True)
        return lambda g: lu_solve(factor, g)


class Primal(Space):
    """Functions x -> z(x)'c over features (n, m) of the training rows."""

    def __init__(self, features: FeaturesOfRows):
        self.features = features
        self.diagonal = features.lengths
        self.n_coefs = features.shape[1]
        self._weights = np.zeros(features.shape[0])
        self._top = 0.0
        # the start of power iterations: any vector that is not orthogonal to the first eigenvector
        self._vector: Array = np.random.default_rng(0).normal(size=(features.shape[1],))

    def point(self, c: Array) -> RkhsPoint:
        return RkhsPoint(c, self.features.times(c))

    def gradient(self, a: Array) -> Array:
        return self.features.transposed_times(a)

    def inner(self, c: Array, h: RkhsPoint) -> float:
        return float(np.sum(c * h.c))

    def largest(self, q: Array) -> float:
        """The last eigenvalue computed plus Weyl's bound on its growth since; computed again if that is large."""
        gained = float(np.maximum(q - self._weights, 0) @ self.diagonal)
        if gained > DRIFT * self._top or np.abs(q - self._weights).sum() > DRIFT:
            self._top = top_eigenvalue(lambda v: self.gradient(q * self.features.times(v)), self._vector)[0]
            self._weights = q
            gained = 0.0
        return min(self._top + gained, float(q @ self.diagonal))

    def inverse(self, s: Array, ridge: float) -> Callable[[Array], Array]:
        A = self.features.weighted_gram(np.arange(len(s)), s)
        lift = max(LIFT * float(s @ self.diagonal), self.features.eps * float(np.diagonal(A).max()))
        A[np.diag_indices_from(A)] += ridge + lift
        factor = cho_factor(A, overwrite_a=True)
        return lambda g: cho_solve(factor, g)


def heaviest(q: Array, share: Array) -> float:
    """Return the largest weight of a row relative to its share."""
    return float(np.divide(q, share, out=np.zeros_like(q), where=share > 0).max())
