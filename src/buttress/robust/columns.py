"""Columns of a linear fit in robust units, and coefficients back in the units given."""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.robust.tuning import LINEAR
from buttress.solvers.contamination.residual_law import MAD


def robust_columns(X: Array, intercept: bool) -> tuple[Array, Array, Array]:
    """Return (Z, centre, width): columns less their median over the median size of what is not at it, plus ones.

    Neither is a moment: in a column that is not mostly one value no minority of rows moves them beyond bounds. Entries
    beyond 1e8 widths become that: squared, they would leave nothing of the other rows' digits.
    """
    n, d = X.shape
    centre = np.zeros(d)
    width = np.full(d, MAD)
    for j in range(d):
        column = np.ascontiguousarray(X[:, j])  # medians of contiguous numbers take a third of the time
        centre[j] = np.median(column) if intercept else 0.0
        off = np.abs(column - centre[j])
        if off.any():
            width[j] *= np.median(off[off > 0])
    Z = np.ones((n, d + intercept))
    np.divide(np.subtract(X, centre, out=Z[:, :d]), width, out=Z[:, :d])
    return np.clip(Z, -LINEAR.far, LINEAR.far, out=Z), centre, width


@dataclass(frozen=True)
class ColumnUnits:
    """Units a fit was made in: columns less ``centre`` over ``width``, targets over ``unit``, a constant or not."""

    centre: Array
    width: Array
    unit: float
    intercept: bool

    def original(self, coef: Array) -> tuple[Array, Array]:
        """Return slopes (d, ...) and constants (...) in the units given, from coefficients there, (d or d + 1, ...)."""
        slope = coef[:-1] if self.intercept else coef
        slope = (slope.T * (self.unit / self.width)).T
        constant = self.unit * coef[-1] if self.intercept else np.zeros(coef.shape[1:])
        return slope, constant - self.centre @ slope
