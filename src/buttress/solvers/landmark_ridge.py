"""Weighted ridge regression on the Nystroem features of many rows, with leave-one-out residuals.

The solution of ``leave_one_out`` for n rows far more than the m features, in as few passes over the rows as can be:

- The Gram matrix is updated by the rows whose weight moved. Weights are rounded to quarters, so that few do.
- The leverages v_i = |L^-1 z_i|^2, L L' the matrix factorised, would cost as much as a Gram matrix each time. They are
  the lengths of n vectors, which random projections keep (Johnson & Lindenstrauss 1984): |S'L^-1 z_i|^2 with S (m, 8)
  of signs / sqrt(8), computed in the same pass as the values. Rows that pull strongly are computed exactly.
- Features are kept in float32 up to ``KEPT`` bytes. Beyond, they are made again where the Gram matrix needs them;
  values then need kernel columns only, since Z c = K (root c).
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve

from buttress._checks import Array
from buttress.features import NystroemMap
from buttress.solvers.leave_one_out import (
    Fit,
    WeightedGram,
    factorised,
    feature_path,
    fit_of,
    lengths_in,
    slices,
    together,
)
from buttress.solvers.thin import thin_product
from buttress.solvers.threads import for_each, total

KEPT = 5_000_000_000  # bytes of features held in memory
SINGLE = 20_000_000  # entries of features above which they are in float32
DIRECTIONS = 8
STRONG = 0.2  # leverage from which it is computed exactly
FEW = 20  # rows a landmark up to which all leverages are
PANEL = 500_000  # entries of a kernel panel that stays in cache


class LandmarkFeatures:
    """Rows z(x_i) = (features of x_i, sqrt(unit)) for the rows of X (n, d), stored or made when asked for.

    Without ``constant`` the rows end before sqrt(unit). ``lengths`` (n,) are the squared ones of the features, and
    ``missed`` (n,) is (k(x_i, x_i) - lengths) / unit: what the landmarks leave unsaid about a row.
    """

    def __init__(self, feature_map: NystroemMap, X: Any, unit: float, *, constant: bool = True):
        self.feature_map, self.X, self.constant = feature_map, X, float(np.sqrt(unit)) if constant else None
        self.width = feature_map.root.shape[1]
        self.shape = (X.shape[0], self.width + constant)
        single = self.shape[0] * self.shape[1] > SINGLE
        self.dtype: np.dtype[Any] = np.dtype(np.float32 if single else np.float64)
        self.eps = float(np.finfo(np.float32 if single else np.float64).eps)
        self.root = feature_map.root.astype(self.dtype)
        self.lengths, self.missed = np.empty(self.shape[0]), np.empty(self.shape[0])
        fits = self.shape[0] * self.shape[1] * self.dtype.itemsize <= KEPT
        self.stored = np.empty(self.shape, dtype=self.dtype) if fits else None
        for_each(lambda part: self._measure(part, unit), slices(*self.shape))
        self.faint = self.lengths < 1e-6 * unit

    def _measure(self, part: slice, unit: float) -> None:
        """Make these rows, store them if all are stored, and note their lengths and what they miss."""
        block = self._made(self.X[part], None if self.stored is None else self.stored[part])
        self.lengths[part] = np.einsum("ij,ij->i", block[:, : self.width], block[:, : self.width])
        whole = self.feature_map.kernel.diagonal(_double(self.X[part]))
        self.missed[part] = np.maximum(whole - self.lengths[part], 0) / unit

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        """Return a fresh array of the features of the numbered rows, shape (k, m)."""
        return self._made(self.X[rows]) if self.stored is None else self.stored[rows]

    def times(self, C: Array) -> Array:
        """Return Z C, shape (n,) or (n, k), for C of shape (m,) or (m, k)."""
        values, stored = np.empty((self.shape[0], *C.shape[1:])), self.stored
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
        """Return the rows to work on at a time: of features that are made again as many as stay in cache."""
        return slices(*self.shape) if self.stored is not None else slices(*self.shape, PANEL)

    def _panel(self, X: Any) -> Array:
        return self.feature_map.kernel(_double(X), self.feature_map.landmarks)

    def _made(self, X: Any, out: Array | None = None) -> Array:
        block = np.empty((X.shape[0], self.shape[1]), dtype=self.dtype) if out is None else out
        for part in slices(X.shape[0], self.shape[1], PANEL):
            block[part, : self.width] = self._panel(X[part]).astype(self.dtype, copy=False) @ self.root
        if self.constant is not None:
            block[:, self.width] = self.constant
        return block


def _double(X: Any) -> Any:
    return X.astype(np.float64, copy=False)


class LandmarkRidge:
    """f(x) = coef'z(x) fitted to rows of :class:`LandmarkFeatures`; rows of one group are left out together."""

    def __init__(self, features: LandmarkFeatures, groups: NDArray[np.intp] | None = None):
        self.features, self.groups = features, groups
        self.missed = features.missed
        self.few = len(features.missed) <= FEW * features.shape[1]
        self.gram = WeightedGram(features.__getitem__, *features.shape)
        self._last: tuple[Array, Array] | None = None  # Uy and Z'Uy

    def __len__(self) -> int:
        return len(self.missed)

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,) in [0, 1], rounded to quarters."""
        return next(self._fits(y, rounded(u), [alpha], np.arange(len(u)), self.features.times))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> Iterator[Fit]:
        """Yield the fits, seen at ``rows``, for each alpha, u fixed.

        Where all leverages are exact they come from one eigendecomposition; where they are projected, a factorisation
        for each alpha that is asked for is cheaper.
        """
        u = rounded(u)
        if not self.few:
            Z = self.features[rows]
            yield from self._fits(y, u, alphas, rows, lambda C: thin_product(Z, C))
            return
        values, vectors = np.linalg.eigh(self._gram_of(u))
        b = vectors.T @ self._moments(y, u)
        b = b if y.ndim == 2 else b[:, 0]
        own, aimed = together(self.groups, y, u)
        yield from feature_path(self.features[rows] @ vectors, values, b, y[rows], u[rows], alphas, own[rows],
                                aimed[rows])

    def _fits(
        self, y: Array, u: Array, alphas: Any, rows: NDArray[np.intp], times: Callable[[Array], Array]
    ) -> Iterator[Fit]:
        """Yield the fits for each alpha, seen at ``rows``; ``times`` returns Z C for the features Z of those."""
        moments = self._moments(y, u)
        own, aimed = (of[rows] for of in together(self.groups, y, u))
        for alpha in alphas:
            A = self._gram_of(u)
            A.flat[:: len(A) + 1] += alpha
            factor = factorised(A)[0]
            coef = cho_solve((factor, True), moments, check_finite=False)
            seen = times(np.hstack([coef, directions(factor)]))
            values, variance = seen[:, : coef.shape[1]], np.sum(seen[:, coef.shape[1] :] ** 2, axis=1)
            sharpen(variance, np.ones(len(rows), bool) if self.few else own * variance > STRONG, factor,
                    lambda some: self.features[rows[some]])
            if y.ndim == 1:
                coef, values = coef[:, 0], values[:, 0]
            yield fit_of(coef, values, y[rows], variance, u[rows], own, aimed)

    def _moments(self, y: Array, u: Array) -> Array:
        """Return Z'Uy as (m, 1) or (m, k); the last is kept."""
        aimed = (y if y.ndim == 2 else y[:, None]) * u[:, None]
        if self._last is not None and np.array_equal(self._last[0], aimed):
            return self._last[1]
        used, features = np.flatnonzero(u), self.features
        if FEW * len(used) < len(u):
            moments = total(lambda part: features[used[part]].T @ aimed[used[part]],
                            slices(len(used), features.shape[1]), (features.shape[1], aimed.shape[1]))
        else:
            moments = features.transposed_times(aimed)
        self._last = aimed, moments
        return moments

    def _gram_of(self, u: Array) -> Array:
        """Return Z'UZ, lifted by what rounding to float32 may have taken off its least eigenvalues."""
        A = self.gram(u).copy()
        A.flat[:: len(A) + 1] += self.features.eps * np.diagonal(A).max()
        return A


def rounded(u: Array) -> Array:
    """Return the weights u in quarters, so that few of them move from one fit to the next."""
    return np.round(4 * u) / 4


def directions(factor: Array) -> Array:
    """Return L'^-1 S, shape (m, 8): |z'L'^-1 S|^2 is the projected leverage of a row z."""
    signs = np.sign(np.random.default_rng(0).random((len(factor), DIRECTIONS)) - 0.5) / np.sqrt(DIRECTIONS)
    return np.asarray(blas.dtrsm(1.0, factor, signs, lower=1, trans_a=1))


def sharpen(
    leverage: Array, strong: NDArray[np.bool_], factor: Array, take: Callable[[NDArray[np.intp]], Array]
) -> None:
    """Put exact leverages in place of those of the rows that are ``strong``; ``take`` returns the features of rows."""
    rows = np.flatnonzero(strong)
    for part in slices(len(rows), len(factor)):
        leverage[rows[part]] = lengths_in(factor, take(rows[part]))
