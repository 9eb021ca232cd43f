"""Entries of a Gram matrix, computed panel by panel; work that all panels share is done once, beforehand.

``entries(kernel, X, real)`` returns an object whose call gives k(x_i, x_j) for row numbers i and columns j, in the
precision ``real``. Rows in float32 cost half the time and memory of float64 and have errors of about 1e-6;
``worst_error`` measures the error.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, singledispatch
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.utils.extmath import row_norms

from buttress._arrays import Place, to_numpy
from buttress._checks import Array
from buttress._threads import BLOCK_ENTRIES, own_threads, share
from buttress._types import DenseOrSparse, Mask, Rows, is_csr
from buttress.gram.compiled import rbf_entries, rbf_in_place, rbf_sums
from buttress.gram.rounding import CLOSE, LONG, EntryErrors, distance_errors, product_errors, single_errors
from buttress.gram.sparse import DENSE, Numbers, SparseProducts
from buttress.kernels import RBF, Combination, DotProduct, Kernel, Radial, centers
from buttress.kernels.kernel import clear_rounding, middle, plain, squared_lengths
from buttress.kernels.points import OnDevice, centred

PanelSums = Callable[[Rows], Array]
# One panel of float32 entries is 2 MB, so that it stays in the cache of the processor.
PANEL = 2048  # columns of a panel
HEIGHT = 256  # rows of a panel
TILE = 256  # rows and columns of one tile of an exact product: half a megabyte, which the second cache holds
SUMMED = 512  # rows and columns of a panel of which only sums are kept: 1 MB, which the second cache holds
PROFILE = 20  # multiplications that evaluating a function of one inner product or distance takes, about
PAIRS = 4096  # pairs of sparse rows whose differences are held at a time


class KernelEntries:
    """Entries of any kernel, by calling it; ``panel`` and ``tile`` are rows and columns of what is computed at once."""

    panel = HEIGHT, PANEL
    tile = TILE, TILE

    def __init__(self, kernel: Kernel, X: DenseOrSparse, real: DTypeLike):
        self.kernel = kernel
        self.X = X
        self.Z = centers(kernel, X)
        self.real = real

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        """Return k(x_i, x_j), shape (len(rows), number of columns)."""
        return self.kernel(self.X[rows], self.Z[columns]).astype(self.real, copy=False)

    def among(self, index: Rows, out: Array) -> None:
        """Put the entries among these rows into the first columns of ``out``, one row each."""
        out[:, : len(index)] = self(index, index)

    def write(self, rows: Rows, start: int, stop: int, store: Array, slots: Rows) -> None:
        """Put the columns start to stop of the rows into ``store[slots]``."""

        height, width = self.panel
        corners = [(top, left) for left in range(start, stop, width) for top in range(0, len(rows), height)]

        def work(numbers: Iterator[int]) -> None:
            for top, left in (corners[number] for number in numbers):
                some = slice(top, top + height)
                self.put(rows[some], slice(left, min(left + width, stop)), store, slots[some])

        share(work, range(len(corners)), self.cost(len(rows), stop - start))

    def put(self, rows: Rows, columns: slice, store: Array, slots: Rows) -> None:
        """Put a panel of entries into ``store[slots, columns]``."""
        store[slots, columns] = self(rows, columns)

    def sums(self, columns: Rows, weights: Array) -> PanelSums:
        """Return a function of row numbers i that gives sum_j weights[j] k(x_i, x_columns[j]), summed in float64.

        It takes some ``SUMMED`` rows at a time, for it stores their entries panel by panel only.
        """

        def at(rows: Rows) -> Array:
            total = np.zeros(len(rows))
            for left in range(0, len(columns), SUMMED):
                total += self(rows, columns[left : left + SUMMED]) @ weights[left : left + SUMMED]
            return total

        return at

    def cost(self, height: int, width: int) -> float:
        """Return about how many multiplications this many entries take; 0 if only one thread may compute them.

        A function of a user may not be safe to call from several threads.
        """
        return 0.0

    @cached_property
    def errors(self) -> list[EntryErrors] | None:
        """Return bounds, to be added up, of the errors of float64 entries (``gram/rounding.py``); None if unknown."""
        return None

    def single_errors(self) -> EntryErrors | None:
        """Return bounds of the errors of float32 entries, None where none are known."""
        return None


class InnerProducts:
    """x_i'x_j of prepared rows, dense or CSR, in the given precision.

    With ``centred``, a median is subtracted from dense rows. One row far away does not move a median.
    """

    def __init__(self, X: DenseOrSparse, real: DTypeLike, *, centred: bool):
        if is_csr(X):
            X = X.astype(real) if stays_sparse(X) else X.toarray()
        with np.errstate(over="ignore", invalid="ignore"):  # ``worst_error`` finds values that float32 cannot hold
            if not is_csr(X):
                X = shifted(X, middle(X) if centred else 0.0, real)
            self.X = X
            self.norms = squared_lengths(X).astype(X.dtype, copy=False)
        self.sparse = SparseProducts(X) if is_csr(X) else None

    @property
    def terms(self) -> Array:
        """How many products the squared length of a row is the sum of, and an inner product with it at most, (n,)."""
        return np.diff(self.X.indptr) if is_csr(self.X) else np.full(self.X.shape[0], self.X.shape[1])

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        if self.sparse is not None:
            return self.sparse(rows, columns)
        return self.X[rows] @ self.X[columns].T

    def cost(self, height: int, width: int) -> float:
        """Return about how many multiplications these products and a function of them take."""
        products = float(height) * width * self.X.shape[1] if self.sparse is None else self.sparse.cost(height, width)
        return products + float(height) * width * PROFILE


def stays_sparse(X: DenseOrSparse) -> bool:
    """Say whether products of the rows of X are taken of CSR rows."""
    return is_csr(X) and bool(X.nnz <= DENSE * X.shape[0] * X.shape[1])


class InnerEntries(KernelEntries):
    """Entries of a function of the distance or of the inner product, from inner products of prepared rows."""

    def __init__(self, kernel: Any, X: DenseOrSparse, real: DTypeLike):
        self.kernel: Any = plain(kernel)
        self.inner = InnerProducts(X, real, centred=isinstance(kernel, Radial))
        if self.inner.sparse is not None:  # wide: for each entry of a row the place is looked up where its list begins
            self.panel = 32, 32_768
            self.tile = 64, 4096
        self.real = real
        self.X = X

    def cost(self, height: int, width: int) -> float:
        return self.inner.cost(height, width)


class DistanceEntries(InnerEntries):
    """Entries of a function of the distance."""

    @cached_property
    def errors(self) -> list[EntryErrors] | None:
        return distance_errors(self.kernel, self.inner.norms, self.inner.terms)

    def single_errors(self) -> EntryErrors | None:
        return single_errors(self.kernel, self.inner.norms, self.inner.terms)

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        r2 = self.inner(rows, columns)
        xx = self.inner.norms[rows]
        zz = self.inner.norms[columns]
        r2 *= -2
        r2 += xx[:, None]
        r2 += zz
        if self.real == np.float64:
            self._correct(rows, columns, r2 <= CLOSE * (xx[:, None] + zz), r2, np.positive)
        else:
            clear_rounding(r2, xx, zz)
        return self.kernel.profile(r2).astype(self.real, copy=False)

    def _correct(
        self, rows: Numbers, columns: Numbers, near: Mask, out: Array, profile: Callable[[Array], Array]
    ) -> None:
        """Put profile(|x_i - x_j|^2) from differences of the coordinates into ``out`` (n, m) where ``near`` is True."""
        i, j = np.nonzero(near)
        if i.size == 0:
            return
        if not is_csr(self.X):
            i, j = np.unique(i), np.unique(j)
            out[np.ix_(i, j)] = profile(cdist(self.X[rows][i], self.X[columns][j], "sqeuclidean"))
            return
        left, right = self.X[rows].astype(np.float64), self.X[columns].astype(np.float64)
        for top in range(0, len(i), PAIRS):
            pairs = i[top : top + PAIRS], j[top : top + PAIRS]
            out[pairs] = profile(squared_lengths(left[pairs[0]] - right[pairs[1]]))


class GaussianEntries(DistanceEntries):
    """Entries of the RBF kernel in float64, by one fused pass over each panel of inner products."""

    def __init__(self, kernel: RBF, X: DenseOrSparse, real: DTypeLike):
        super().__init__(kernel, X, real)
        long = float(kernel.gamma) * self.inner.norms > LONG / 2
        self.long: Mask | None = long if long.any() else None

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        panel = self.inner(rows, columns)
        norms = self.inner.norms
        near = self._near_pairs(rows, columns, panel)
        rbf_in_place(panel, norms[rows], norms[columns], float(self.kernel.gamma))
        if near is not None:
            self._correct(rows, columns, near, panel, self.kernel.profile)
        return panel

    def _near_pairs(self, rows: Numbers, columns: Numbers, products: Array) -> Mask | None:
        """Return which pairs are to be computed from differences, by their inner products; None for none."""
        if self.long is None or not (self.long[rows].any() or self.long[columns].any()):
            return None
        both = self.inner.norms[rows][:, None] + self.inner.norms[columns]
        return (both - 2 * products <= CLOSE * both) & (float(self.kernel.gamma) * both > LONG)


class SingleGaussianEntries(DistanceEntries):
    """Entries of the RBF kernel in float32, in the same way, straight to where they are wanted."""

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        panel = self.inner(rows, columns)
        values = np.empty_like(panel)
        self._finish(panel, self.inner.norms[rows], self.inner.norms[columns], values, np.arange(len(panel)), 0)
        return values

    def put(self, rows: Rows, columns: slice, store: Array, slots: Rows) -> None:
        norms = self.inner.norms
        self._finish(self.inner(rows, columns), norms[rows], norms[columns], store, slots, columns.start)

    def _finish(self, panel: Array, xx: Array, zz: Array, store: Array, slots: Rows, start: int) -> None:
        rbf_entries(panel, xx, zz, np.float32(self.kernel.gamma), store, slots, start)


class DenseGaussianEntries(SingleGaussianEntries):
    """Those of dense rows, whose halves are computed once, and whose sums need no panel of entries."""

    def among(self, index: Rows, out: Array) -> None:
        size = len(index)
        rows = self.inner.X[index]
        turned = np.ascontiguousarray(rows.T)
        norms = self.inner.norms[index]
        slots = np.arange(size)

        def work(tops: Iterator[int]) -> None:
            for top in tops:
                stop = min(top + HEIGHT, size)
                panel = rows[top:stop] @ turned[:, top:]
                self._finish(panel, norms[top:stop], norms[top:], out, slots[top:stop], top)
                out[stop:size, top:stop] = out[top:stop, stop:size].T

        return share(work, range(0, size, HEIGHT), self.cost(size, size) / 2)

    def sums(self, columns: Rows, weights: Array) -> PanelSums:
        right = self.inner.X[columns]
        norms = self.inner.norms
        gamma = np.float32(self.kernel.gamma)

        def at(rows: Rows) -> Array:
            left = self.inner.X[rows]
            total = np.zeros(len(rows))
            scratch = np.empty(SUMMED, dtype=np.float32)
            for start in range(0, len(columns), SUMMED):
                part = slice(start, start + SUMMED)
                rbf_sums(left @ right[part].T, norms[rows], norms[columns[part]], gamma, weights[part], scratch, total)
            return total

        return at


class ProductEntries(InnerEntries):
    """Entries of a function of the inner product."""

    @cached_property
    def errors(self) -> list[EntryErrors] | None:
        return product_errors(self.kernel, self.inner.norms, self.inner.terms)

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        return self.kernel.profile(self.inner(rows, columns)).astype(self.real, copy=False)


class SumEntries(KernelEntries):
    """Entries of a weighted sum of kernels."""

    def __init__(self, kernel: Combination, X: DenseOrSparse, real: DTypeLike):
        self.terms = [(float(w), entries(k, X, real)) for k, w in kernel._terms()]
        self.real = real

    def cost(self, height: int, width: int) -> float:
        costs = [term.cost(height, width) for _, term in self.terms]
        return sum(costs) if all(costs) else 0.0

    @cached_property
    def errors(self) -> list[EntryErrors] | None:
        total: list[EntryErrors] = []
        for weight, term in self.terms:
            found = term.errors
            if found is None:
                return None
            total += [errors.times(weight, 2 * len(self.terms) + 1) for errors in found]
        return total

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        total = self.terms[0][0] * self.terms[0][1](rows, columns)
        for weight, term in self.terms[1:]:
            total += weight * term(rows, columns)
        return total


class DeviceEntries(KernelEntries):
    """Entries computed by torch where the rows are kept, on a device, and copied from there."""

    panel = PANEL, BLOCK_ENTRIES // PANEL

    def __init__(self, kernel: OnDevice, X: Array, real: DTypeLike):
        self.kernel = kernel
        self.real = real
        place = Place(kernel.device, np.dtype(real).name)
        with np.errstate(over="ignore"):  # ``worst_error`` finds values that float32 cannot hold
            self.X = place(shifted(X, kernel.centre(X), real))

    def __call__(self, rows: Numbers, columns: Numbers) -> Array:
        return to_numpy(centred(self.kernel.kernel, self.X[columns])(self.X[rows]).values)


@singledispatch
def entries(kernel: Kernel, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    """Return the entries of the Gram matrix of ``kernel`` on X (n, d), dense or CSR, in the precision ``real``."""
    return KernelEntries(kernel, X, real)


@entries.register
def _(kernel: Radial, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    return DistanceEntries(kernel, X, real)


@entries.register
def _(kernel: RBF, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    single = SingleGaussianEntries if stays_sparse(X) else DenseGaussianEntries
    return (single if real == np.float32 else GaussianEntries)(kernel, X, real)


@entries.register
def _(kernel: DotProduct, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    return ProductEntries(kernel, X, real)


@entries.register
def _(kernel: Combination, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    return SumEntries(kernel, X, real)


@entries.register
def _(kernel: OnDevice, X: DenseOrSparse, real: DTypeLike) -> KernelEntries:
    return DeviceEntries(kernel, X, real)


def shifted(X: Array, centre: Array | float, real: DTypeLike) -> Array:
    """Return X (n, d) minus ``centre`` in the precision ``real``, without a second full copy of X."""
    moved = np.empty(X.shape, dtype=real)
    for start in range(0, len(X), PANEL):
        np.subtract(X[start : start + PANEL], centre, out=moved[start : start + PANEL], dtype=np.float64,
                    casting="same_kind")
    return moved


def worst_error(kernel: Kernel, X: DenseOrSparse, single: KernelEntries) -> float:
    """Return the largest error of float32 entries, relative to the largest entry.

    It is measured on 32 rows, one of them the longest, and 512 columns.
    """
    n = X.shape[0]
    evenly = np.unique(np.linspace(0, n - 1, 31, dtype=np.intp))  # and the longest one, below
    rows = np.union1d(evenly, row_norms(X, squared=True).argmax())
    columns = np.unique(np.linspace(0, n - 1, 512, dtype=np.intp))
    exact = entries(kernel, X[np.concatenate([rows, columns])], np.float64)
    exact_values = exact(np.arange(len(rows)), np.arange(len(rows), len(rows) + len(columns)))
    found: NDArray[Any] = np.empty((len(rows), n), dtype=np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        single.write(rows, 0, n, found, np.arange(len(rows)))
        error = np.abs(found[:, columns] - exact_values).max() / np.abs(exact_values).max()
    return float(error) if np.isfinite(error) else np.inf


def threads_of(kernel: Kernel, X: Any) -> AbstractContextManager[None]:
    """Return a block of our own threads for a kernel on X; a user's may not be safe to call from several threads."""
    return own_threads() if entries(kernel, X[:1], np.float64).cost(1, 1) > 0 else nullcontext()
