"""Weighted ridge regression on the Nystroem features of many rows, with leave-one-out residuals.

The solution of ``leave_one_out`` for far more rows n than features m, in few passes over the rows:

- The Gram matrix and the moments are updated by the rows whose weight changed, in one pass over these. Weights are
  rounded to quarters, so that few do.
- The leverages v_i = |L^-1 z_i|^2, L L' the matrix factorised, would cost as much as a Gram matrix each time. They are
  the lengths of n vectors, which random projections keep (Johnson & Lindenstrauss 1984): |S'L^-1 z_i|^2 with S (m, k)
  of signs / sqrt(k), computed in the same pass as the values. Rows that pull strongly are computed exactly.
- Features are kept, or made again where the Gram matrix needs them (``features.stored``).
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, cho_solve

from buttress._checks import Array
from buttress._threads import slices
from buttress.features.stored import FeaturesOfRows, StoredFeatures
from buttress.solvers.ridge.leave_one_out import (
    Fit,
    factorised,
    feature_path,
    fit_of,
    lengths_in,
    together,
)
from buttress.solvers.ridge.tuning import LEVERAGES


class WeightedSums:
    """Z'UZ and Z'UY side by side, (m, m + k), for changing row weights u (n,) and targets Y (n, k).

    Only rows whose weight moved are touched, once for both, while the targets are those of the last call.
    """

    def __init__(self, features: FeaturesOfRows):
        self.features = features
        n, m = features.shape
        self._last = np.zeros(n), np.empty((n, 0)), np.zeros((m, m))  # u, Y and the sums

    def __call__(self, u: Array, targets: Array) -> Array:
        """Return the sums, not to be changed in place."""
        used, known, sums = self._last
        moved = np.flatnonzero(u != used)
        anew = 2 * len(moved) > np.count_nonzero(u) or not np.array_equal(known, targets)
        if anew or _drowned(u, used, targets):
            used = np.zeros_like(used)
            sums = np.zeros((len(sums), len(sums) + targets.shape[1]))
            moved = np.flatnonzero(u)
        change = u[moved] - used[moved]
        for sign in (1.0, -1.0):
            which = sign * change > 0
            if which.any():
                sums = sums + sign * self.features.weighted_gram(moved[which], np.abs(change[which]), targets)
        self._last = u.copy(), targets.copy(), sums  # at the end: an interrupt must not leave half of the rows counted
        return sums


def _drowned(u: Array, used: Array, targets: Array) -> bool:
    """Say whether rows lose so much weight times target that their rounding would outweigh digits of what stays."""
    size = np.abs(targets).max(axis=1, initial=0.0)
    # sums that lose more are made anew, as ten of their sixteen digits would be rounding
    return bool((np.maximum(used - u, 0) * size).max() > 1e6 * (u * size).max())


class LandmarkRidge:
    """f(x) = coef'z(x) fitted to rows of :class:`FeaturesOfRows`; rows of one group are left out together."""

    def __init__(self, features: FeaturesOfRows, groups: NDArray[np.intp] | None = None):
        self.features, self.groups = features, groups
        self.missed = features.missed
        self.few = len(features.missed) <= LEVERAGES.few_rows * features.shape[1]
        self.sums = WeightedSums(features)

    def __len__(self) -> int:
        return len(self.missed)

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,) in [0, 1], rounded to quarters."""
        return next(self._fits(y, rounded(u), [alpha], np.arange(len(u)), self.features.times))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> Iterator[Fit]:
        """Yield the fits, seen at ``rows``, for each alpha, u fixed.

        With few rows a landmark all come from one eigendecomposition, their leverages exact; with many, a factorisation
        for each alpha that is asked for is cheaper.
        """
        u = rounded(u)
        if not self.few:
            yield from self._fits(y, u, alphas, rows, StoredFeatures(self.features[rows]).times)
            return
        gram, moments = self._of(y, u)
        values, vectors = np.linalg.eigh(gram)
        b = vectors.T @ moments
        b = b if y.ndim == 2 else b[:, 0]
        own, aimed = together(self.groups, y, u)
        yield from feature_path(self.features[rows] @ vectors, values, b, y[rows], u[rows], alphas, own[rows],
                                aimed[rows])

    def _fits(
        self, y: Array, u: Array, alphas: Iterable[float], rows: NDArray[np.intp], times: Callable[[Array], Array]
    ) -> Iterator[Fit]:
        """Yield the fits for each alpha, seen at ``rows``; ``times`` returns Z C for the features Z of those."""
        gram, moments = self._of(y, u)
        own, aimed = (of[rows] for of in together(self.groups, y, u))
        for alpha in alphas:
            A = gram.copy()
            A.flat[:: len(A) + 1] += alpha
            factor = factorised(A)[0]
            coef = cho_solve((factor, True), moments, check_finite=False)
            seen = times(np.hstack([coef, directions(factor, len(self))]))
            values = seen[:, : coef.shape[1]]
            variance = np.sum(seen[:, coef.shape[1] :] ** 2, axis=1)
            strong = np.maximum(own, 1) * variance > LEVERAGES.exact_from  # far rows, whatever their weight
            sharpen(variance, strong, factor, lambda some: self.features[rows[some]])
            if y.ndim == 1:
                coef = coef[:, 0]
                values = values[:, 0]
            yield fit_of(coef, values, y[rows], variance, u[rows], own, aimed)

    def _of(self, y: Array, u: Array) -> tuple[Array, Array]:
        """Return Z'UZ and Z'Uy as (m, 1) or (m, k), fresh arrays.

        The former is lifted by what rounding to float32 may have taken off its least eigenvalues.
        """
        sums = self.sums(u, y if y.ndim == 2 else y[:, None])
        m = len(sums)
        A = sums[:, :m].copy()
        A.flat[:: m + 1] += self.features.eps * np.diagonal(A).max()
        return A, sums[:, m:].copy()


def rounded(u: Array) -> Array:
    """Return the weights u in quarters, so that few of them move from one fit to the next."""
    return np.round(LEVERAGES.weight_steps * u) / LEVERAGES.weight_steps


def directions(factor: Array, n: int) -> Array:
    """Return L'^-1 S, shape (m, k): |z'L'^-1 S|^2 is the projected leverage of a row z, one of n.

    Its standard error is sqrt(2 / k) of it. With few rows a landmark leverages are larger, and k grows so that the
    error of an ordinary one, m / n at most, does not.
    """
    m = len(factor)
    k = int(np.ceil(LEVERAGES.directions * max(LEVERAGES.few_rows * min(m / n, LEVERAGES.exact_from), 1) ** 2))
    signs = np.sign(np.random.default_rng(0).random((m, k)) - 0.5) / np.sqrt(k)
    return np.asarray(blas.dtrsm(1.0, factor, signs, lower=1, trans_a=1))


def sharpen(
    leverage: Array, strong: NDArray[np.bool_], factor: Array, take: Callable[[NDArray[np.intp]], Array]
) -> None:
    """Put exact leverages in place of those of the rows that are ``strong``; ``take`` returns the features of rows."""
    rows = np.flatnonzero(strong)
    for part in slices(len(rows), len(factor)):
        leverage[rows[part]] = lengths_in(factor, take(rows[part]))
