"""The certificate of the program of ``smo.py`` with sum(b) = 0: a primal and a dual value around the optimum.

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
from buttress.solvers.qp.smo import QP, violation

MARGIN = 1e-2  # rows further than this outside the margin in float32 are outside it in float64


@dataclass
class Certificate:
    """Both objectives, f = Kb (right where it matters: see ``certify``) and the KKT violation, all in float64."""

    primal: float
    dual: float
    violation: float
    f: Array
    rounding: float  # what rounding alone may add to the gap

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def certify(qp: QP) -> Certificate:
    """Return the certificate of ``qp.b``.

    f is computed from float64 entries of the kernel. Where the stored rows are float32, the rows without a
    coefficient that they put at least 0.01 beyond the reach of any loss are left at their float32 value, far more
    than float32 can err by: f of the others is compared to make sure.
    """
    single = qp.rows.real == np.float32
    rough = _stored(qp) if single else None
    near = None if rough is None else contested(qp, rough)
    f = qp.rows.exact_times(qp.b, near)
    if rough is not None and near is not None:
        seen = np.union1d(near, np.flatnonzero(qp.b))
        if np.abs(f - rough)[seen].max(initial=0.0) > MARGIN / 10:
            f = qp.rows.exact_times(qp.b)
        else:
            far = np.setdiff1d(np.arange(len(f)), seen, assume_unique=True)
            f[far] = rough[far]
    primal, dual, _ = objectives(f, qp.b, qp.p, qp.lo, qp.hi, qp.l1)
    rounding = 4 * np.finfo(float).eps * float((qp.hi - qp.lo) @ np.abs(qp.p))
    return Certificate(primal, dual, violation(f - qp.p, qp.b, qp.lo, qp.hi, qp.l1), f, rounding)


def _stored(qp: QP) -> Array:
    """Return K b from the stored rows, which the run that found b already knows."""
    if qp.reached is not None and qp.reached[0] is qp.b:
        return qp.reached[1]
    return qp.rows.times(qp.b)


def contested(qp: QP, f: Array) -> Index:
    """Return the rows whose loss is positive, or nearly so, at the best intercept for f."""
    _, _, b0 = objectives(f, qp.b, qp.p, qp.lo, qp.hi, qp.l1)
    r = qp.p - f - b0
    return np.flatnonzero(((r - qp.l1 > -MARGIN) & (qp.hi > 0)) | ((-r - qp.l1 > -MARGIN) & (qp.lo < 0)))


def objectives(f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array | float) -> tuple[float, float, float]:
    """Return the primal value at its best intercept, the dual value, and that intercept."""
    dual = float(p @ b - np.sum(l1 * np.abs(b))) - 0.5 * float(b @ f)
    b0 = best_intercept(p - f, lo, hi, l1)
    r = p - f - b0
    # primal - dual row by row, where rounding cannot make it negative
    gaps = hi * np.maximum(0, r - l1) - lo * np.maximum(0, -r - l1) + l1 * np.abs(b) - b * r
    return dual + float(np.maximum(gaps, 0).sum()), dual, b0
