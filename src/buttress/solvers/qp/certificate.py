"""The certificate of the program of ``program.py`` with sum(b) = 0: a primal and a dual value around the optimum.

Its Lagrange dual in the intercept b0 is, with f = Kb and the residuals r = p - f - b0,

    primal(b0) = 1/2 b'f + sum_i hi_i max(0, r_i - l1_i) + (-lo_i) max(0, -r_i - l1_i)
    dual       = p'b - l1'|b| - 1/2 b'f

for lo <= 0 <= hi: the hinge losses of a classifier (p = y, one bound 0) and the epsilon-insensitive losses of a
regressor (l1 = epsilon). primal(b0) >= dual for every b0 and every feasible b, with equality at the optimum only.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.gram.rows import Index
from buttress.solvers.linear.intercept import best_intercept
from buttress.solvers.qp.compiled import gap_and_dual
from buttress.solvers.qp.program import QP, Point, violation

# In the units of p, which for a classifier are those of the margin. Float32 rows have errors of about 1e-5 of the
# largest entry. A row whose loss is 0 by this much in float32 has loss 0 in float64 too.
CLEAR_OF_LOSS = 1e-2
SUSPECT = CLEAR_OF_LOSS / 10  # if f from float32 rows is wrong by more than this, none of it is used


@dataclass
class Certificate:
    """Both objectives, f = Kb (see ``certify`` for its precision) and the KKT violation, all in float64."""

    primal: float
    dual: float
    violation: float
    f: Array
    rounding: float  # what rounding alone may add to the gap

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def certify(qp: QP, at: Point) -> Certificate:
    """Return the certificate of the point.

    f is computed from float64 entries of the kernel, with one exception. If the stored rows are float32, a row keeps
    its float32 value when its coefficient is 0 and that value lies at least 0.01 beyond where a loss begins. Float32
    errors are far smaller. To make sure, float32 and float64 values are compared on all other rows.
    """
    b = at.b
    f = _mostly_exact(qp, at) if qp.rows.real == np.float32 else qp.rows.exact_times(b, None)
    return whole_certificate(qp, b, f)


def whole_certificate(qp: QP, b: Array, f: Array) -> Certificate:
    """Return the certificate of b, for f = K b in float64."""
    primal, dual, _ = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    rounding = 4 * np.finfo(float).eps * float((qp.hi - qp.lo) @ np.abs(qp.p))
    return Certificate(primal, dual, violation(f - qp.p, b, qp.lo, qp.hi, qp.l1), f, rounding)


def _mostly_exact(qp: QP, at: Point) -> Array:
    """Return K b: from float64 entries for rows with a loss or close to one, from the float32 rows for the others."""
    rough = qp.rows.times(at.b) if at.stored is None else at.stored
    near = contested(qp, at.b, rough)
    f = qp.rows.exact_times(at.b, near)
    seen = np.union1d(near, np.flatnonzero(at.b))
    if np.abs(f - rough)[seen].max(initial=0.0) > SUSPECT:
        return qp.rows.exact_times(at.b)
    far = np.setdiff1d(np.arange(len(f)), seen, assume_unique=True)
    f[far] = rough[far]
    return f


def contested(qp: QP, b: Array, f: Array) -> Index:
    """Return the rows whose loss is positive, or nearly so, at the best intercept for f."""
    _, _, b0 = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    r = qp.p - f - b0
    above = (r - qp.l1 > -CLEAR_OF_LOSS) & (qp.hi > 0)
    below = (-r - qp.l1 > -CLEAR_OF_LOSS) & (qp.lo < 0)
    return np.flatnonzero(above | below)


def objectives(f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array) -> tuple[float, float, float]:
    """Return the primal value at its best intercept, the dual value, and that intercept."""
    b0 = best_intercept(p - f, lo, hi, l1)
    gap, dual = gap_and_dual(f, b, p, lo, hi, l1, b0)
    return dual + gap, dual, b0
