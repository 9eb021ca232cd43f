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
from buttress.solvers.linear.intercept import best_intercept
from buttress.solvers.qp.compiled import gap_and_dual
from buttress.solvers.qp.program import QP, Point, violation

# In the units of p, which for a classifier are those of the margin. Float32 rows have errors of about 1e-5 of the
# largest entry. A row whose loss is 0 by this much in float32 has loss 0 in float64 too, and likewise one with a loss.
CLEAR = 1e-2
SUSPECT = CLEAR / 10  # if f from float32 rows is wrong by more than this, none of it is used
CHECKED = 256  # rows on their bounds whose float32 values are checked, evenly chosen; the others count as alike
DOUBT = 1e-5  # of the dual value: if float32 values may move it by more than this, none of them is used


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

    f is computed from float64 entries of the kernel, except for rows whose term of the gap is 0 whatever f is nearby,
    where the stored rows are float32 (see :func:`_mostly_exact`).
    """
    b = at.b
    if qp.rows.real != np.float32:
        return whole_certificate(qp, b, qp.rows.exact_times(b, None))
    f, doubt = _mostly_exact(qp, at)
    return whole_certificate(qp, b, f, doubt)


def whole_certificate(qp: QP, b: Array, f: Array, doubt: float = 0.0) -> Certificate:
    """Return the certificate of b, for f = K b in float64; ``doubt`` is how far b'f / 2 may be off."""
    primal, dual, _ = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    rounding = 4 * np.finfo(float).eps * float((qp.hi - qp.lo) @ np.abs(qp.p))
    found = violation(f - qp.p, b, qp.lo, qp.hi, qp.l1)
    return Certificate(primal + doubt, dual - doubt, found, f, rounding)


def _mostly_exact(qp: QP, at: Point) -> tuple[Array, float]:
    """Return K b, partly from float32 rows, and a bound on the error of b'K b / 2.

    The gap is a sum over rows. The term of a row is 0 if b_i is 0 and the row clear of any loss, and if b_i is on a
    bound and the row clear in the loss. Such rows keep their float32 value. The error of that value is taken to be at
    most the largest one of all other rows, and of some of these, for which it is measured. It moves both objectives
    and not their difference, and is counted against both.
    """
    b = at.b
    rough = qp.rows.times(b) if at.stored is None else at.stored
    clear = clear_rows(qp, b, rough)
    on_bounds = np.flatnonzero(clear & (b != 0))
    clear[on_bounds[:: max(1, len(on_bounds) // CHECKED)]] = False
    wanted = np.flatnonzero(~clear)
    f = qp.rows.exact_times(b, wanted)
    error = float(np.abs(f - rough)[wanted].max(initial=0.0))
    f[clear] = rough[clear]
    doubt = 0.5 * error * float(np.abs(b[clear]).sum())
    dual = float(b @ (qp.p - 0.5 * f) - qp.l1 @ np.abs(b))
    if error > SUSPECT or doubt > DOUBT * abs(dual):
        return qp.rows.exact_times(b), 0.0
    return f, doubt


def clear_rows(qp: QP, b: Array, f: Array) -> Mask:
    """Return which rows have a term of the gap that is 0 at the best intercept for f and anywhere near it."""
    _, _, b0 = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    r = qp.p - f - b0
    above = (r - qp.l1 > -CLEAR) & (qp.hi > 0)
    below = (-r - qp.l1 > -CLEAR) & (qp.lo < 0)
    high = (b == qp.hi) & (r - qp.l1 > CLEAR)
    low = (b == qp.lo) & (-r - qp.l1 > CLEAR)
    found: Mask = ((b == 0) & ~above & ~below) | ((b != 0) & (high | low))
    return found


def objectives(f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array) -> tuple[float, float, float]:
    """Return the primal value at its best intercept, the dual value, and that intercept."""
    b0 = best_intercept(p - f, lo, hi, l1)
    gap, dual = gap_and_dual(f, b, p, lo, hi, l1, b0)
    return dual + gap, dual, b0
