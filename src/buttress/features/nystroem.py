"""Nystroem features: short vectors whose inner products approximate a kernel.

With landmarks z_1..z_m, phi(x) = K(x, Z) K_ZZ^(-1/2), so that phi(x)'phi(z) = k(x, z) whenever x or z is a landmark.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import issparse

from buttress._arrays import Place
from buttress._checks import Array, check_count, check_option
from buttress._state import Attribute, State
from buttress._threads import BLOCK_ENTRIES
from buttress.expansion import KernelExpansion
from buttress.kernels import Kernel
from buttress.kernels.points import Point, centred

LEAST_EIGENVALUE = 1e-10  # share of the largest: smaller ones are mostly rounding, which an inverse root enlarges
ROUNDED_NEGATIVE = 1e-6  # share of the largest: an eigenvalue further below 0 is not rounding, but indefinite


def landmarks(X: Array, n_landmarks: int, *, rng: np.random.RandomState, method: str = "kmeans++") -> Array:
    """Choose ``n_landmarks`` different rows of X, or all of them if there are fewer.

    ``method`` is ``"kmeans++"`` (spread out, the default) or ``"uniform"``. X is (n, d).
    """
    check_option("method", method, ("kmeans++", "uniform"))
    rows = np.unique(X, axis=0)
    if check_count("n_landmarks", n_landmarks) >= len(rows):
        return rows
    if method == "uniform":
        return rows[rng.choice(len(rows), n_landmarks, replace=False)]
    from sklearn.cluster import kmeans_plusplus  # importing it takes half a second

    chosen: Array = kmeans_plusplus(rows, n_landmarks, random_state=rng)[0]
    return chosen


@dataclass
class NystroemMap:
    """phi(x) = kernel(x, landmarks) @ root, root the pseudo-inverse square root of the landmark Gram matrix."""

    _state = State(
        Attribute("kernel", "part", of="Kernel"),
        Attribute("landmarks", "finite", "n_landmarks, n_features"),
        Attribute("root", "finite", "n_landmarks, n_landmarks"))

    kernel: Kernel
    landmarks: Array
    root: Array

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_at"}

    @cached_property
    def _at(self) -> Any:
        return centred(self.kernel, self.landmarks)

    def at(self, X: Array) -> Point:
        """Return the kernel's values and gradients at the rows of X (n, d), an array on the landmarks' device."""
        point: Point = self._at(X)
        return point

    def __call__(self, X: Array) -> Array:
        """Return the features of X, shape (n, m); X and the landmarks may be CSR."""
        step = max(1, BLOCK_ENTRIES // len(self.root))
        if X.shape[0] <= step or not (isinstance(X, np.ndarray) or issparse(X)):
            return self._values(X) @ self.root
        features = np.empty((X.shape[0], self.root.shape[1]), dtype=self.root.dtype)
        for start in range(0, len(features), step):  # a kernel matrix of all rows at once would double the memory
            part = slice(start, start + step)
            features[part] = self._values(X[part]) @ self.root
        return features

    def _values(self, X: Array) -> Array:
        return self.kernel(X, self.landmarks) if issparse(self.landmarks) or issparse(X) else self.at(X).values

    def moved(self, place: Place) -> "NystroemMap":
        """Return the same map with its arrays on the device of ``place``."""
        return NystroemMap(self.kernel, place(self.landmarks), place(self.root))

    def expansion(self, theta: Array, intercept: Array) -> KernelExpansion:
        """Return theta'phi(x) + intercept as a kernel expansion over the landmarks; theta is (m, k)."""
        return KernelExpansion(self.kernel, self.landmarks, self.root @ theta, intercept)


def nystroem(kernel: Kernel, points: Array) -> NystroemMap:
    """Return the Nystroem map on ``points`` (m, d); eigenvalues below 1e-10 of the largest are left out.

    Raises ValueError for a kernel that is not positive definite, because it has no such features.
    """
    if kernel.definiteness not in ("pd", "unknown"):
        raise ValueError(f"Nystroem features need a positive definite kernel. {kernel!r} is {kernel.definiteness}. "
                         "Use RBF, Laplacian, Cauchy, InverseMultiquadric, Linear or Polynomial.")
    values, vectors = np.linalg.eigh(kernel(points, points))
    if not values[-1] > 0 or values[0] < -ROUNDED_NEGATIVE * values[-1]:
        raise ValueError(f"The Gram matrix of the landmarks has eigenvalues from {values[0]:.3g} to {values[-1]:.3g}, "
                         "so the kernel is not positive definite and has no Nystroem features. Use one that is: RBF.")
    large = values > LEAST_EIGENVALUE * values[-1]
    root = (vectors[:, large] / np.sqrt(values[large])) @ vectors[:, large].T
    return NystroemMap(kernel, points, root)
