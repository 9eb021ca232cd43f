"""Ridge regression in which most fits weight all rows alike: one eigendecomposition serves them all.

With Z Z' = V diag(s) V' and T = V diag(s)^(1/2), the features T have the Gram matrix T'T = diag(s). A fit with all
weights 1 then takes O(n r) for each target, whatever the ridge, and its leave-one-out residuals O(n r).
"""

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit, GramRidge, Ridge, feature_path, fit_of, together
from buttress.solvers.ridge.tuning import ROUNDING_OF_RIDGE


class SpectralRidge:
    """The fits of a solver on features or on a Gram matrix, fits with equal weights by its eigenvectors."""

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


def _positive(A: Array) -> tuple[Array, Array]:
    """Return the eigenvalues of symmetric A above rounding, and their eigenvectors as columns."""
    values, vectors = np.linalg.eigh(A)
    above = values > ROUNDING_OF_RIDGE.rank**1.5 * values[-1]
    return values[above], np.ascontiguousarray(vectors[:, above])


def spectral(ridge: Ridge) -> Ridge:
    """Return an exact solver as one for fits with equal weights; any other as it is."""
    return SpectralRidge(ridge) if isinstance(ridge, FeatureRidge | GramRidge) else ridge
