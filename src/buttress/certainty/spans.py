"""Scores of the rows of a solved program under the fits without each of them, from the one fit.

A row whose coefficient is 0 leaves the solution as it is: its score is exact. Leaving out a row with coefficient b_i
moves its score by -b_i S_i^2, as long as the same variables stay on their bounds: S_i is the distance in feature space
from phi(x_i) to the affine hull of the other free support vectors (Chapelle, Vapnik, Bousquet & Mukherjee, Choosing
multiple parameters for support vector machines, Machine Learning 46, 2002, section 4.2; without an intercept, to their
span). With H the Gram matrix of the free ones, bordered by ones, and k_i = (k(x_i, free), 1),

    S_i^2 = 1 / (H^-1)_ii  for a free i,        S_i^2 = k(x_i, x_i) - k_i' H^-1 k_i  for one on its bound.

Where a variable would reach a bound on the way the score is approximate.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from buttress._checks import Array
from buttress._types import Mask, Rows

Real = type[np.floating[Any]]
Panel = Callable[[Rows, Rows, Real], Array]  # k of the numbered rows with others, in a precision
MOST_FREE = 2500  # free rows of the system, to cost a part of the fit: fewer than all make the distances larger
SINGLE_FROM = 300  # free rows from which float32 saves more time than it may cost
RIDGES: dict[Real, float] = {np.float32: 1e-6, np.float64: 1e-10}  # of the mean diagonal: makes K regular
NEAR_SINGULAR = 1e-3  # of the mean diagonal: distances below this are not left to float32
SKETCHED = 400  # free rows to whose hull most distances are, where there are twice as many and more
SAMPLED = 400  # rows on their bounds whose exact distances say how the others follow from those
BLOCK = 2000  # rows on their bounds whose distances are computed at once
# Cholesky factor, inverse of a triangle, and product with one: looked up once, as few rows take little more time
POTRF, TRTRI, TRMM = ({real: (*get_lapack_funcs(("potrf", "trtri"), dtype=real),
                              *get_blas_funcs(("trmm",), dtype=real))[k] for real in RIDGES} for k in range(3))


def squared_spans(panel: Panel, diagonal: Array, free: Mask, *, intercept: bool = True) -> Array:
    """Return S_i^2 of each support vector, shape (s,), from their kernel values and which of them are free.

    ``panel(i, j, real)`` returns the kernel of the numbered support vectors, ``diagonal`` (s,) holds k(x_i, x_i). Where
    none is free nothing makes up for the row, and S_i^2 is k(x_i, x_i).
    """
    inner = np.flatnonzero(free)
    inner = _spread(inner, MOST_FREE)
    if len(inner) == 0:
        return np.array(diagonal, dtype=np.float64)
    if len(inner) > SINGLE_FROM:
        out = _spans(panel, diagonal, inner, np.float32, intercept)
        if out is not None and out.min() > NEAR_SINGULAR * np.abs(diagonal).mean():
            return out
    out = _spans(panel, diagonal, inner, np.float64, intercept)
    return np.array(diagonal, dtype=np.float64) if out is None else out


def _spans(panel: Panel, diagonal: Array, inner: Rows, real: Real, intercept: bool) -> Array | None:
    """Return the squared distances with all products in one precision, None where it cannot factor the system."""
    hull = _hull(panel, diagonal, inner, real, intercept)
    if hull is None:
        return None
    out = np.array(diagonal, dtype=np.float64)
    outer = np.ones(len(out), dtype=bool)
    outer[inner] = False
    others = np.flatnonzero(outer)
    part = None
    if len(inner) >= 2 * SKETCHED and len(others) >= 2 * SAMPLED:
        part = _hull(panel, diagonal, _spread(inner, SKETCHED), real, intercept)
    out[others] = hull.outer(others) if part is None else _regressed(hull, part, others)
    out[inner] = hull.own()
    return np.maximum(out, 0.0)


def _spread(rows: Rows, most: int) -> Rows:
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


def _regressed(hull: "_Hull", part: "_Hull", others: Rows) -> Array:
    """Return the distances of ``others`` to the hull from those to a part of it, by a line through exact ones of some.

    A part is farther away than the whole.
    """
    near = part.outer(others)
    sample = _spread(np.arange(len(others)), SAMPLED)
    exact = hull.outer(others[sample])
    about = near[sample] - near[sample].mean()
    slope = float(about @ exact) / max(float(about @ about), np.finfo(float).tiny)
    line = exact.mean() + slope * (near - near[sample].mean())
    found = np.minimum(np.maximum(line, exact.min()), near)
    found[sample] = exact
    return found


@dataclass(frozen=True)
class _Hull:
    """The affine hull of some rows, or their span: the inverse of the Cholesky factor of their Gram matrix K.

    Products with the inverse take half the time that solving with the factor takes. ``ones`` is K^-1 1.
    """

    panel: Panel
    diagonal: Array
    inner: Rows
    real: Real
    intercept: bool
    ridge: float
    inverse: NDArray[Any]  # lower triangular
    ones: NDArray[Any]

    def outer(self, rows: Rows) -> Array:
        """Return the squared distances of other rows."""
        total = self.ones.sum()
        out = np.array(self.diagonal[rows], dtype=np.float64)
        for start in range(0, len(rows), BLOCK):
            block = slice(start, start + BLOCK)
            k: NDArray[Any] = self.panel(rows[block], self.inner, self.real).astype(self.real, copy=False).T
            shift = self.ones @ k - 1
            v = TRMM[self.real](1.0, self.inverse, k, lower=1, overwrite_b=1)
            out[block] -= np.einsum("ij,ij->j", v, v) - self.intercept * shift**2 / total
        return out

    def own(self) -> Array:
        """Return that of each of its rows to the hull of the others."""
        inverse = np.einsum("ij,ij->j", self.inverse, self.inverse)  # the diagonal of K^-1
        mine = np.asarray(self.diagonal[self.inner], dtype=np.float64)
        if len(mine) == 1:  # nothing makes up for it
            return mine
        free = inverse - self.intercept * self.ones**2 / self.ones.sum()
        farthest = 4 * float(np.abs(mine).max())  # (|phi(x)| + |phi(z)|)^2, for any z of the hull
        return np.asarray(1 / np.maximum(free, 1 / (farthest + self.ridge)) - self.ridge, dtype=np.float64)


def _hull(panel: Panel, diagonal: Array, inner: Rows, real: Real, intercept: bool) -> _Hull | None:
    """Return the hull of the numbered rows, None where rounding leaves it without a factor."""
    K: NDArray[Any] = panel(inner, inner, real).astype(real)
    ridge = RIDGES[real] * float(np.abs(diagonal[inner]).mean())
    K.flat[:: len(K) + 1] = diagonal[inner] + ridge
    factor, failed = POTRF[real](K.T, lower=1, overwrite_a=1)
    if failed:
        return None
    inverse, _ = TRTRI[real](factor, lower=1, overwrite_c=1)
    ones = inverse.T @ inverse.sum(axis=1)
    return _Hull(panel, diagonal, inner, real, intercept, ridge, inverse, ones)
