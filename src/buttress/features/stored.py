"""The Nystroem features of many rows, stored or computed again when needed.

Features are stored up to ``FEATURE_BYTES`` bytes, in float32 if there are many. With more, they are computed again
where a Gram matrix needs them. Values then need kernel columns only, because Z c = K (root c).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import for_each, slices, total
from buttress.features.nystroem import NystroemMap
from buttress.features.thin import thin_product

FEATURE_BYTES = 5_000_000_000  # most bytes of features held in memory
SINGLE = 20_000_000  # with more entries, features are in float32
FAINT = 1e-6  # of `unit`: if the squared length of a row's features is smaller, no landmark is near the row
PANEL_ENTRIES = 500_000  # entries of a kernel panel that stays in the cache


class LandmarkFeatures:
    """Rows z(x_i) = (features of x_i, sqrt(unit)) for the rows of X (n, d), stored or computed when needed.

    Without ``constant`` the last entry, sqrt(unit), is left out. ``lengths`` (n,) are the squared lengths of the
    features. ``missed`` (n,) is (k(x_i, x_i) - lengths) / unit: the share of a row that the landmarks cannot represent.
    """

    def __init__(self, feature_map: NystroemMap, X: Array, unit: float, *, constant: bool = True):
        self.feature_map = feature_map
        self.X = X
        self.constant = float(np.sqrt(unit)) if constant else None
        self.width = feature_map.root.shape[1]
        self.shape = (X.shape[0], self.width + constant)
        single = self.shape[0] * self.shape[1] > SINGLE
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
        self.eps = float(np.finfo(np.float32 if single else np.float64).eps)
        self.root = feature_map.root.astype(self.dtype)
        self.lengths = np.empty(self.shape[0])
        self.missed = np.empty(self.shape[0])
        fits = self.shape[0] * self.shape[1] * self.dtype.itemsize <= FEATURE_BYTES
        self.stored = np.empty(self.shape, dtype=self.dtype) if fits else None
        for_each(lambda part: self._measure(part, unit), slices(*self.shape))
        self.faint = self.lengths < FAINT * unit

    def _measure(self, part: slice, unit: float) -> None:
        """Compute the features of these rows, store them if all fit in memory, and set ``lengths`` and ``missed``."""
        block = self._made(self.X[part], None if self.stored is None else self.stored[part])
        self.lengths[part] = np.einsum("ij,ij->i", block[:, : self.width], block[:, : self.width])
        whole = self.feature_map.kernel.diagonal(_double(self.X[part]))
        self.missed[part] = np.maximum(whole - self.lengths[part], 0) / unit

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        """Return a fresh array of the features of the numbered rows, shape (k, m)."""
        return self._made(self.X[rows]) if self.stored is None else self.stored[rows]

    def times(self, C: Array) -> Array:
        """Return Z C, shape (n,) or (n, k), for C of shape (m,) or (m, k)."""
        values = np.empty((self.shape[0], *C.shape[1:]))
        stored = self.stored
        inner = self.feature_map.root @ C[: self.width]
        added = 0.0 if self.constant is None else self.constant * C[-1]

        def multiply(part: slice) -> None:
            values[part] = (self._panel(self.X[part]) @ inner + added if stored is None else
                            thin_product(stored[part], C))

        for_each(multiply, self._parts())
        return values

    def transposed_times(self, A: Array) -> Array:
        """Return Z'A, shape (m,) or (m, k), for A of shape (n,) or (n, k)."""
        stored = self.stored
        if stored is not None:
            single = A.astype(self.dtype)
            return total(lambda part: stored[part].T @ single[part], self._parts(), (self.shape[1], *A.shape[1:]))
        inner = total(lambda part: self._panel(self.X[part]).T @ A[part], self._parts(),
                      (len(self.root), *A.shape[1:]))
        products = self.feature_map.root.T @ inner
        return products if self.constant is None else np.concatenate([products, self.constant * A.sum(axis=0)[None]])

    def _parts(self) -> list[slice]:
        """Return the rows to work on at a time; features that are computed again come in parts that fit the cache."""
        return slices(*self.shape) if self.stored is not None else slices(*self.shape, PANEL_ENTRIES)

    def _panel(self, X: Array) -> Array:
        return self.feature_map.kernel(_double(X), self.feature_map.landmarks)

    def _made(self, X: Array, out: Array | None = None) -> Array:
        block = np.empty((X.shape[0], self.shape[1]), dtype=self.dtype) if out is None else out
        for part in slices(X.shape[0], self.shape[1], PANEL_ENTRIES):
            block[part, : self.width] = self._panel(X[part]).astype(self.dtype, copy=False) @ self.root
        if self.constant is not None:
            block[:, self.width] = self.constant
        return block


def _double(X: Array) -> Any:
    return X.astype(np.float64, copy=False)
