"""Rows of a Gram matrix, computed a block at a time by one GEMM and kept in a bounded cache."""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.kernels import Kernel, centers

Index = NDArray[np.intp]


class KernelRows:
    """Rows of the Gram matrix of X, least recently used thrown out first.

    Parameters
    ----------
    kernel : Kernel
    X : array of shape (n, d)
    cache_size : float
        Megabytes to keep. At least two rows are kept whatever it says.
    """

    def __init__(self, kernel: Kernel, X: Array, cache_size: float = 200.0):
        self.kernel = kernel
        self.X = X
        self.Z = centers(kernel, X)
        self.diagonal = kernel.diagonal(X)
        n = len(X)
        self.capacity = int(np.clip(cache_size * 2**20 / (8 * n), 2, n))
        self._store = np.empty((self.capacity, n))
        self._slot = np.full(n, -1)  # where row i lies, -1 if nowhere
        self._owner = np.full(self.capacity, -1)
        self._stamp = np.zeros(self.capacity, dtype=np.int64)
        self._clock = 0
        self.n_computed = 0

    def __len__(self) -> int:
        return len(self.X)

    def fetch(self, index: Index) -> Array:
        """Return the rows of ``index`` (at most ``capacity`` of them), shape (len(index), n)."""
        self._clock += 1
        self._stamp[self._slot[index[self._slot[index] >= 0]]] = self._clock
        missing = index[self._slot[index] < 0]
        if missing.size:
            slots = np.argsort(self._stamp, kind="stable")[: missing.size]
            evicted = self._owner[slots]
            self._slot[evicted[evicted >= 0]] = -1
            self._store[slots] = self._compute(missing)
            self._owner[slots], self._slot[missing], self._stamp[slots] = missing, slots, self._clock
        return self._store[self._slot[index]]

    def _compute(self, index: Index) -> Array:
        self.n_computed += len(index)
        rows = self.kernel(self.X[index], self.Z)
        rows[np.arange(len(index)), index] = self.diagonal[index]  # K_ii and K_ij must round alike
        return rows

    def times(self, b: Array) -> Array:
        """Return K b, computing the rows where b is not 0 in blocks; shape (n,)."""
        total = np.zeros(len(self))
        active = np.flatnonzero(b)
        for start in range(0, len(active), self.capacity):
            part = active[start : start + self.capacity]
            total += b[part] @ self.fetch(part)
        return total
