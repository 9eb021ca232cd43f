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
from buttress._types import Mask
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.compiled import measures
from buttress.solvers.qp.program import QP, Point

# In the units of p, which for a classifier are those of the margin. Float32 rows have errors of about 1e-5 of the
# largest entry. A row whose loss is 0 by this much in float32 is taken to have loss 0 in float64 too.
CLEAR = 1e-2
SUSPECT = CLEAR / 10  # if f from float32 rows is wrong by more than this, none of it is used
EPS = float(np.finfo(float).eps)


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
    """Return the certificate of the point, with f from float64 entries of the kernel wherever f can move it.

    Where the stored rows are float32, some rows keep f from them: those with b_i = 0 that are clear of any loss by
    ``CLEAR`` and not far from the others. They enter neither b'f nor a loss. That such a row is as clear in float64 is
    **an assumption**: that float32 errs by less than ``CLEAR`` there. It is checked on the rows that are computed in
    float64: those with a coefficient, next to a loss, or far away, where rounding grows with the squared length. If
    float32 is off by more than ``SUSPECT`` on any that is not far, every row is computed in float64.
    """
    b = at.b
    if qp.rows.real != np.float32:
        return whole_certificate(qp, b, qp.rows.exact_times(b))
    rough = qp.rows.times(b) if at.stored is None else at.stored
    far = qp.rows.cache.far[qp.rows.index]
    exact = np.flatnonzero((b != 0) | far | ~lossless(qp, b, rough))
    f = rough.copy()
    f[exact] = qp.rows.exact_times(b, exact)[exact]
    error = np.abs(f - rough)[~far]
    if error.max(initial=0.0) > SUSPECT:
        f = qp.rows.exact_times(b)
    return whole_certificate(qp, b, f)


def whole_certificate(qp: QP, b: Array, f: Array) -> Certificate:
    """Return the certificate of b, for f = K b in float64."""
    b0 = best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1)
    gap, dual, found, _ = measures(f, b, qp.p, qp.lo, qp.hi, qp.l1, b0)
    rounding = 4 * EPS * float((qp.hi - qp.lo) @ np.abs(qp.p))
    return Certificate(dual + gap, dual, found, f, rounding)


def lossless(qp: QP, b: Array, f: Array) -> Mask:
    """Return which rows have no loss at the best intercept for f, nor anywhere near it."""
    _, _, b0 = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    r = qp.p - f - b0
    above = (r - qp.l1 > -CLEAR) & (qp.hi > 0)
    below = (-r - qp.l1 > -CLEAR) & (qp.lo < 0)
    found: Mask = ~above & ~below
    return found


def objectives(f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array) -> tuple[float, float, float]:
    """Return the primal value at its best intercept, the dual value, and that intercept."""
    b0 = best_intercept(p - f, lo, hi, l1)
    gap, dual, *_ = measures(f, b, p, lo, hi, l1, b0)
    return dual + gap, dual, b0
