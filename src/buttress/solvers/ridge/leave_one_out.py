"""Weighted kernel ridge regression with its exact leave-one-out residuals, from one factorisation.

    minimise over f   sum_i u_i (y_i - f(x_i))^2 + alpha ||f||^2,      0 <= u_i

A row that is fitted pulls f towards itself and hides; left out it cannot. The residual of row i under the fit
without it, weights of the others unchanged, is (y_i - f(x_i)) / (1 - h_i), h_i the i-th diagonal entry of the matrix
that maps y to f (Allen 1974; for kernels Cawley & Talbot 2003). Rows of weight 0 are left out already: h_i = 0.
Read as a Gaussian process of noise variance s^2 = alpha, that residual has variance s^2 c_i^2 with
c_i^2 = 1 + v_i / (1 - u_i v_i), v_i = h_i / u_i: a row far from all others may miss by more. c is the ``spread``.

A row that repeats another still affects its own prediction through the copy, so rows of one ``group`` (equal x) are
left out together: with e the residuals, f and v common to the group S and U = sum_S u_j, row i is missed by
e_i + v / (1 - v U) (sum_S u_j y_j - U f).

Forms of the same solution: :class:`FeatureRidge` on short feature vectors, O(n m^2) a solve; :class:`GramRidge` on a
Gram matrix, O(n^3); ``landmarks.LandmarkRidge`` for many rows. All take several targets at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, blas, cho_factor, cho_solve, lapack

from buttress._checks import Array
from buttress._threads import slices
from buttress.solvers.ridge.tuning import ROUNDING_OF_RIDGE


class TooRoundedError(ValueError):
    """Rounding has made a matrix indefinite."""


def factorised(A: Array) -> tuple[Array, bool]:
    """Return the Cholesky factor of symmetric A, overwritten, for scipy's ``cho_solve``.

    Raises TooRoundedError where rounding has made A indefinite.
    """
    try:
        factor: tuple[Array, bool] = cho_factor(A.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise TooRoundedError("Rows or columns of X differ too much in scale for float64: rounding of the largest "
                              "hides the others. Remove entries that are far out, scale the columns, or raise alpha."
                              ) from None
    return factor


def lengths_in(factor: Array, Z: Array) -> Array:
    """Return |L^-1 z|^2 of each row z of Z (k, m), shape (k,), L the lower triangle of ``factor``."""
    if len(Z) < len(factor):
        V = blas.dtrsm(1.0, factor, Z.T, lower=1)
    else:  # products are faster than solutions
        V = blas.dtrmm(1.0, lapack.dtrtri(factor, lower=1)[0], Z.T, lower=1)
    return lengths_of_columns(V)


def lengths_of_columns(V: Array) -> Array:
    """Return the squared length of each column of V, shape (k,)."""
    return np.asarray(np.einsum("ij,ij->j", V, V))


@dataclass(frozen=True)
class Fit:
    """Coefficients, values at the training rows, residuals of each row left out, their spread, and the weights used."""

    coef: Array
    values: Array
    loo: Array
    spread: Array
    weight: Array


class Ridge(Protocol):
    """Weighted ridge regression on n fixed rows, with leave-one-out residuals."""

    @property
    def missed(self) -> Array | None:
        """What the features leave out of k(x_i, x_i), shape (n,), in units of an ordinary one; None where nothing."""

    def __len__(self) -> int:
        """Return n."""

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,)."""

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> Iterable[Fit]:
        """Return the fits for each alpha, u fixed, seen at ``rows``."""


@dataclass(eq=False)
class FeatureRidge:
    """f(x) = coef'z(x): the rows of Z (n, m) are the features of the training rows.

    ``missed`` (n,) is what the features leave out of k(x_i, x_i), in units of an ordinary one; None where nothing.
    """

    Z: Array
    groups: NDArray[np.intp] | None = None
    missed: Array | None = None

    def __len__(self) -> int:
        return len(self.Z)

    def gram(self, u: Array) -> Array:
        """Return Z'UZ for row weights u (n,)."""
        scaled = np.sqrt(u)[:, None] * self.Z
        return np.asarray(scaled.T @ scaled)

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,)."""
        A = self.gram(u)
        A.flat[:: len(A) + 1] += alpha
        factor = factorised(A)
        coef = cho_solve(factor, self.Z.T @ (y.T * u).T, check_finite=False)
        variances = np.concatenate([lengths_in(factor[0], self.Z[part]) for part in slices(*self.Z.shape)])
        return fit_of(coef, self.Z @ coef, y, variances, u, *together(self.groups, y, u))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> list[Fit]:
        """Return the fits (seen at ``rows``) for each alpha, u fixed, from one eigendecomposition."""
        values, vectors = np.linalg.eigh(self.gram(u))
        b = vectors.T @ (self.Z.T @ (y.T * u).T)
        own, aimed = together(self.groups, y, u)
        return feature_path(self.Z[rows] @ vectors, values, b, y[rows], u[rows], alphas, own[rows], aimed[rows])


def feature_path(
    T: Array, values: Array, b: Array, y: Array, u: Array, alphas: Array, own: Array, aimed: Array
) -> list[Fit]:
    """Return the fits for each alpha at rows of features T in the eigenvectors of Z'UZ, b its moments Z'Uy there.

    ``own`` and ``aimed`` are the group sums of :func:`together`.
    """
    squared = T * T
    out = []
    for alpha in alphas:
        inverse = 1 / (np.maximum(values, 0) + alpha)
        out.append(fit_of(b, T @ (b.T * inverse).T, y, squared @ inverse, u, own, aimed))
    return out


@dataclass(eq=False)
class GramRidge:
    """f(x) = sum_i coef_i k(x_i, x): K (n, n) is the Gram matrix of the training rows.

    A row of weight below 1e-6 has the weight 1e-6 and the target 0: an outlier at 1e9 must not move the fit.
    """

    K: Array
    groups: NDArray[np.intp] | None = None

    missed = None

    def __len__(self) -> int:
        return len(self.K)

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,).

        With A = U^(1/2) K U^(1/2) + alpha I, coef = U^(1/2) A^-1 U^(1/2) y and 1 - h_i = alpha (A^-1)_ii.
        """
        used, aim = _floored(u, y)
        root = np.sqrt(used)
        factor = self._factor(root, alpha)
        coef = (cho_solve(factor, (aim.T * root).T, check_finite=False).T * root).T
        inverse, _ = lapack.dtrtri(factor[0], lower=1, overwrite_c=1)
        variance = (1 - alpha * lengths_of_columns(np.tril(inverse))) / used
        return fit_of(coef, self.K @ coef, y, variance, u, *together(self.groups, y, u))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> list[Fit]:
        """Return the fits (seen at ``rows``) for each alpha, u fixed, from one eigendecomposition."""
        used, aim = _floored(u, y)
        root = np.sqrt(used)
        values, vectors = np.linalg.eigh(root[:, None] * self.K * root)
        b = vectors.T @ (aim.T * root).T
        back = vectors[rows] * values / root[rows, None]
        own, aimed = together(self.groups, y, u)
        squared = vectors[rows] ** 2
        out = []
        for alpha in alphas:
            inverse = 1 / (np.maximum(values, 0) + alpha)
            variance = (1 - alpha * (squared @ inverse)) / used[rows]
            out.append(fit_of(b, back @ (b.T * inverse).T, y[rows], variance, u[rows], own[rows], aimed[rows]))
        return out

    def without(self, y: Array, u: Array, alpha: float, fold: NDArray[np.intp]) -> tuple[Array, Array]:
        """Return the coefficients, a column a fit without each fold of rows (n,), and the values (n,) at its rows.

        With P = A^-1 and c = P U^(1/2) y those without the rows B are c - P_B (P_BB)^-1 c_B.
        """
        used, aim = _floored(u, y)
        root = np.sqrt(used)
        inverse, _ = lapack.dpotri(self._factor(root, alpha)[0], lower=1, overwrite_c=1)
        P = np.tril(inverse) + np.tril(inverse, -1).T
        coef = np.tile((P @ (aim * root))[:, None], fold.max() + 1)
        for k, column in enumerate(coef.T):
            out = np.flatnonzero(fold == k)
            column -= P[:, out] @ cho_solve(factorised(P[np.ix_(out, out)]), column[out], check_finite=False)
            column[out] = 0.0
        coef *= root[:, None]
        return coef, (self.K @ coef)[np.arange(len(y)), fold]

    def _factor(self, root: Array, alpha: float) -> tuple[Array, bool]:
        """Return the Cholesky factor of A."""
        A = root[:, None] * self.K * root
        A.flat[:: len(A) + 1] += alpha
        return factorised(A)


class SpectralRidge:
    """The fits of a solver on features or on a Gram matrix, fits with equal weights by its eigenvectors.

    With Z Z' = V diag(s) V' and T = V diag(s)^(1/2), the features T have the Gram matrix T'T = diag(s). A fit with all
    weights 1 then takes O(n r) for each target, whatever the ridge, and its leave-one-out residuals O(n r).
    """

    missed = None

    def __init__(self, ridge: FeatureRidge | GramRidge):
        self.ridge = ridge
        self.groups = ridge.groups

    def __len__(self) -> int:
        return len(self.ridge)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, Array]:
        """Return T (n, r), s (r,), and the matrix B of which B c are the solver's coefficients, c those of T."""
        if isinstance(self.ridge, GramRidge):
            values, vectors = _positive(self.ridge.K)
            T = vectors * np.sqrt(values)
            return T, values, T / values
        values, vectors = _positive(self.ridge.Z.T @ self.ridge.Z)
        return self.ridge.Z @ vectors, values, vectors

    def solve(self, y: Array, u: Array, alpha: float) -> Fit:
        """Return the fit to y, (n,) or (n, k), with row weights u (n,)."""
        if not np.all(u == 1):
            return self.ridge.solve(y, u, alpha)
        T, values, back = self._spectrum
        inverse = 1 / (values + alpha)
        coef = ((T.T @ y).T * inverse).T
        return fit_of(back @ coef, T @ coef, y, (T * T) @ inverse, u, *together(self.groups, y, u))

    def path(self, y: Array, u: Array, alphas: Array, rows: NDArray[np.intp]) -> Iterable[Fit]:
        """Return the fits for each alpha, u fixed, seen at ``rows``."""
        if not np.all(u == 1):
            return self.ridge.path(y, u, alphas, rows)
        T, values, _ = self._spectrum
        own, aimed = together(self.groups, y, u)
        return feature_path(T[rows], values, T.T @ y, y[rows], u[rows], alphas, own[rows], aimed[rows])


def fits_without(ridge: Ridge, y: Array, u: Array, alpha: float, fold: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the coefficients, a column a fit without each fold of rows (n,), and the values (n,) at its rows."""
    if isinstance(ridge, GramRidge):
        return ridge.without(y, u, alpha, fold)
    fits = [ridge.solve(y, u * (fold != k), alpha) for k in range(fold.max() + 1)]
    values = np.column_stack([fit.values for fit in fits])
    return np.column_stack([fit.coef for fit in fits]), values[np.arange(len(y)), fold]


def _positive(A: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of symmetric A above rounding, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(A)
    above = values > ROUNDING_OF_RIDGE.rank**1.5 * values[-1]
    return values[above], np.ascontiguousarray(vectors[:, above])


def spectral(ridge: Ridge) -> Ridge:
    """Return an exact solver as one for fits with equal weights; any other as it is."""
    return SpectralRidge(ridge) if isinstance(ridge, FeatureRidge | GramRidge) else ridge


def _floored(u: Array, y: Array) -> tuple[Array, Array]:
    least = ROUNDING_OF_RIDGE.least_weight
    return np.maximum(u, least), np.where(u < least, 0.0, y.T).T


def together(groups: NDArray[np.intp] | None, y: Array, u: Array) -> tuple[Array, Array]:
    """Return for each row the sums over its group of u (n,) and of u y, y (n,) or (n, k)."""
    aimed = (y.T * u).T
    if groups is None:
        return u, aimed
    columns = [group_sums(groups, column) for column in np.atleast_2d(aimed.T)]
    return group_sums(groups, u), np.array(columns).T.reshape(y.shape)


def group_sums(groups: NDArray[np.intp] | None, x: Array) -> Array:
    """Return for each row the sum of x (n,) over its group; x itself where no two rows are in one."""
    return x if groups is None else np.bincount(groups, x).astype(np.float64)[groups]


def fit_of(coef: Array, values: Array, y: Array, variance: Array, u: Array, own: Array, aimed: Array) -> Fit:
    """Return the fit with its leave-one-out residuals, from values like y, v = ``variance`` (n,) and group sums."""
    variance = np.maximum(variance, 0)
    pulled = aimed.T - own * values.T
    free = np.maximum(1 - own * variance, ROUNDING_OF_RIDGE.least_free)  # 1 - h may round to 0
    return Fit(coef, values, (y.T - values.T + variance / free * pulled).T, np.sqrt(1 + variance / free), u)


def pivoted_cholesky(K: Array, tol: float | None = None) -> tuple[Array, NDArray[np.intp], Array]:
    """Return (Z, pivots, L) with Z Z' = K up to ``tol`` times the largest diagonal entry, 1e-8 by default.

    K is overwritten.

    Z is (n, r); the features of any x are L^-1 k(x, pivots), L (r, r) lower triangular. Works for symmetric positive
    semi-definite K; for any other the residual of Z Z' is large.
    """
    n = len(K)
    largest = float(np.diagonal(K).max(initial=0.0))
    share = ROUNDING_OF_RIDGE.rank if tol is None else tol
    C, pivots, rank, _ = lapack.dpstrf(K, tol=share * largest, lower=1, overwrite_a=1)
    rank = max(int(rank), 1)
    L = np.tril(C)[:, :rank]
    Z = np.empty((n, rank))
    Z[pivots - 1] = L
    return Z, (pivots[:rank] - 1).astype(np.intp), L[:rank]
