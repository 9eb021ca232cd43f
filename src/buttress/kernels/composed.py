"""Composed kernels: a weighted sum of kernels, one of stretched columns, a Gram matrix, a user's function."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import diags_array, issparse
from sklearn.utils.validation import _num_samples

from buttress._checks import Array, check_number
from buttress._state import Attribute, State
from buttress.kernels.kernel import DotProduct, Kernel, Radial


@dataclass(eq=False, repr=False)
class Combination(Kernel):
    """k(x, z) = sum_p weights[p] * kernels[p](x, z) with weights >= 0 (default: equal, summing to 1)."""

    _state = State(
        Attribute("kernels", "part", "n_kernels", of="Kernel"),
        Attribute("weights", "nonnegative", "n_kernels or none"))

    kernels: Sequence[Kernel]
    weights: Sequence[float] | None = None

    @property
    def definiteness(self) -> str:
        tags = {kernel.definiteness for kernel, _ in self._terms()}
        return next((tag for tag in ("unknown", "indefinite", "cpd") if tag in tags), "pd")

    def _terms(self) -> list[tuple[Kernel, float]]:
        """Return the kernels that have weight, with it."""
        count = len(self.kernels)
        if count == 0:
            raise ValueError("kernels must hold at least one kernel. Got an empty list. Give one, such as RBF().")
        weights = [1 / count] * count if self.weights is None else list(self.weights)
        if len(weights) != count:
            raise ValueError(f"weights must have one entry for each of the {count} kernels. Got {len(weights)}.")
        checked = [check_number(f"weights[{p}]", float(w), 0, closed="left") for p, w in enumerate(weights)]
        return [(kernel, weight) for kernel, weight in zip(self.kernels, checked, strict=True) if weight > 0]

    def __call__(self, X: Array, Z: Array) -> Array:
        return sum((w * k(X, Z) for k, w in self._terms()), np.zeros((X.shape[0], Z.shape[0])))

    def diagonal(self, X: Array) -> Array:
        return sum((w * k.diagonal(X) for k, w in self._terms()), np.zeros(X.shape[0]))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return sum((w * k.gradient(X, Z, V) for k, w in self._terms()), np.zeros_like(X))


@dataclass(eq=False, repr=False)
class Stretched(Kernel):
    """k(x, z) = kernel(s * x, s * z) with a factor s_k = scales[k] >= 0 a column, (d,); at 0 a column does not count.

    The kernel is a function of a distance or of an inner product. In a distance, s_k^2 is the weight of column k:
    r^2 = sum_k s_k^2 (x_k - z_k)^2.
    """

    _state = State(Attribute("kernel", "part", of="Kernel"), Attribute("scales", "nonnegative", "n_columns"))

    kernel: Kernel
    scales: Sequence[float]

    @property
    def definiteness(self) -> str:
        if not isinstance(self.kernel, Radial | DotProduct):
            raise ValueError("Columns are stretched for a kernel of a distance or an inner product. Got "
                             f"{self.kernel!r}. Use RBF, Linear or another such kernel; of a sum stretch each part.")
        for k, scale in enumerate(self.scales):
            check_number(f"scales[{k}]", float(scale), 0, closed="left")
        return self.kernel.definiteness

    def _stretched(self, X: Array) -> Array:
        scales = np.asarray(self.scales, dtype=np.float64)
        if X.shape[1] != len(scales):
            raise ValueError(f"scales must have one entry for each of the {X.shape[1]} columns. Got {len(scales)}.")
        return X @ diags_array(scales, format="csr") if issparse(X) else X * scales

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.kernel(self._stretched(X), self._stretched(Z))

    def toward(self, Z: Array) -> Callable[[Array], Array]:
        inner = self.kernel.toward(self._stretched(Z))
        return lambda X: inner(self._stretched(X))

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(self._stretched(X))

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        return self.kernel.gradient(self._stretched(X), self._stretched(Z), V) * np.asarray(self.scales)


class Precomputed(Kernel):
    """The kernel values themselves: X is (n, n_train) of values against the training rows.

    Z is then an (m, 1) array of training row numbers, see :func:`centers`, and k(X, Z) picks those columns.
    """

    _state = State()

    definiteness = "unknown"

    def __call__(self, X: Array, Z: Array) -> Array:
        return X[:, Z[:, 0].astype(np.intp)]

    def diagonal(self, X: Array) -> Array:
        return np.diagonal(X).copy()


@dataclass(eq=False, repr=False)
class Custom(Kernel):
    """A user's function of two arrays (n, d) and (m, d) that returns (n, m); its gradient is by central differences."""

    function: Callable[[Array, Array], Array]

    definiteness = "unknown"

    def __call__(self, X: Array, Z: Array) -> Array:
        found: Any = self.function(X, Z)
        K = np.asarray(found.toarray() if issparse(found) else found, dtype=np.float64)
        shape = (_num_samples(X), _num_samples(Z))
        if K.shape != shape:
            raise ValueError(f"The kernel function must return shape {shape}. Got {K.shape}.")
        if not np.isfinite(K).all():
            raise ValueError("The kernel function returned NaN or inf. Check it on the rows of X.")
        return K

    def diagonal(self, X: Array) -> Array:
        return np.array([self(row, row)[0, 0] for row in X[:, None, :]])

    def gradient(self, X: Array, Z: Array, V: Array) -> Array:
        # the cube root of the machine epsilon balances the two errors of a central difference
        size = np.maximum(np.abs(X).max(axis=0), np.abs(Z).max(axis=0))
        step = 6e-6 * np.where(size > 0, size, 1.0)
        columns = []
        for j, h in enumerate(step):
            shift = np.zeros(X.shape[1])
            shift[j] = h
            columns.append(np.einsum("ij,ij->i", V, self(X + shift, Z) - self(X - shift, Z)) / (2 * h))
        return np.stack(columns, axis=1)
