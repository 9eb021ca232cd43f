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
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, get_blas_funcs, get_lapack_funcs

from buttress._checks import Array
from buttress._types import Mask, Rows

Real = type[np.floating[Any]]
Panel = Callable[[Rows, Rows, Real], Array]  # k of the numbered rows with others, in a precision
MOST_FREE = 2500  # free rows of the system, to cost a part of the fit: fewer than all make the distances larger
SINGLE_FROM = 300  # free rows from which float32 saves more time than it may cost
RIDGES: dict[Real, float] = {np.float32: 1e-6, np.float64: 1e-10}  # of the mean diagonal: makes K regular
NEAR_SINGULAR = 1e-3  # of the mean diagonal: distances below this are not left to float32
BLOCK = 2000  # rows on their bounds whose distances are computed at once


def squared_spans(panel: Panel, diagonal: Array, free: Mask, *, intercept: bool = True) -> Array:
    """Return S_i^2 of each support vector, shape (s,), from their kernel values and which of them are free.

    ``panel(i, j, real)`` returns the kernel of the numbered support vectors, ``diagonal`` (s,) holds k(x_i, x_i). Where
    none is free nothing makes up for the row, and S_i^2 is k(x_i, x_i).
    """
    inner = np.flatnonzero(free)
    inner = inner[np.linspace(0, len(inner) - 1, min(len(inner), MOST_FREE)).astype(np.intp)]
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
    K: NDArray[Any] = panel(inner, inner, real).astype(real)
    ridge = RIDGES[real] * np.abs(diagonal[inner]).mean()
    K.flat[:: len(K) + 1] = diagonal[inner] + ridge
    try:
        factor = cho_factor(K, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    trsm, = get_blas_funcs(("trsm",), (factor[0],))
    potri, = get_lapack_funcs(("potri",), (factor[0],))
    ones = cho_solve(factor, np.ones(len(inner), dtype=real), check_finite=False)
    total = ones.sum()
    out = np.array(diagonal, dtype=np.float64)
    others = np.setdiff1d(np.arange(len(out)), inner)
    for start in range(0, len(others), BLOCK):
        some = others[start : start + BLOCK]
        k: NDArray[Any] = panel(some, inner, real).astype(real, copy=False).T
        shift = ones @ k - 1
        v = trsm(1.0, factor[0], k, lower=1, overwrite_b=1)
        out[some] -= np.einsum("ij,ij->j", v, v) - intercept * shift**2 / total
    inverse = potri(factor[0], lower=1, overwrite_c=1)[0].diagonal()
    out[inner] = 1 / np.maximum(inverse - intercept * ones**2 / total, np.finfo(real).tiny) - ridge
    return np.maximum(out, 0.0)
