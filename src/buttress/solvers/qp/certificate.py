"""The certificate of the program of ``program.py`` with sum(b) = 0: a primal and a dual value around the optimum.

Its Lagrange dual in the intercept b0 is, with f = Kb and the residuals r = p - f - b0,

    primal(b0) = 1/2 b'f + sum_i hi_i max(0, r_i - l1_i) + (-lo_i) max(0, -r_i - l1_i)
    dual       = p'b - l1'|b| - 1/2 b'f

for lo <= 0 <= hi: the hinge losses of a classifier (p = y, one bound 0) and the epsilon-insensitive losses of a
regressor (l1 = epsilon). primal(b0) >= dual for every b0 and every feasible b, with equality at the optimum only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from buttress._checks import Array
from buttress._types import Mask
from buttress.gram.rows import Index
from buttress.solvers.linear.intercept import best_intercept
from buttress.solvers.qp.compiled import measures
from buttress.solvers.qp.program import QP, Point

# In the units of p, which for a classifier are those of the margin. Float32 rows have errors of about 1e-5 of the
# largest entry. A row whose loss is 0 by this much in float32 has loss 0 in float64 too, and likewise one with a loss.
CLEAR = 1e-2
SUSPECT = CLEAR / 10  # if f from float32 rows is wrong by more than this, none of it is used
CHECKED = 256  # rows whose float32 values are checked, evenly chosen; the others count as alike
SPREAD = 2.0  # of a million normal errors the largest is 1.7 times the largest of 256 of them
EPS = float(np.finfo(float).eps)
DOUBT = 1e-5  # of the dual value: if float32 values may move it by more than this, none with a coefficient is used


class Doubt(NamedTuple):
    """How far the primal and the dual value and the KKT violation may be off, through float32 values of f."""

    primal: float
    dual: float
    violation: float


SURE = Doubt(0.0, 0.0, 0.0)


@dataclass
class Certificate:
    """Both objectives, f = Kb (see ``certify`` for its precision) and the KKT violation, all in float64."""

    primal: float
    dual: float
    violation: float
    f: Array
    rounding: float  # what rounding alone may add to the gap
    doubt: float = 0.0  # what the gap holds for rows of f that are right to float32 only

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def certify(qp: QP, at: Point, enough: Callable[[Certificate], bool] | None = None) -> Certificate:
    """Return the certificate of the point.

    f is computed from float64 entries of the kernel. Where the stored rows are float32 there are two shorter ways: a
    sample of the rows, where ``enough`` says that the bounds it gives will do (see :func:`_sampled`), and else all rows
    but those whose term of the gap is 0 whatever f is nearby (see :func:`_mostly_exact`).
    """
    b = at.b
    if qp.rows.real != np.float32:
        return whole_certificate(qp, b, qp.rows.exact_times(b, None))
    rough = qp.rows.times(b) if at.stored is None else at.stored
    if enough is not None:
        proof, error = _sampled(qp, b, rough)
        if error <= SUSPECT and enough(proof):
            return proof
    return _mostly_exact(qp, b, rough)


def whole_certificate(qp: QP, b: Array, f: Array, doubt: Doubt = SURE) -> Certificate:
    """Return the certificate of b, for f = K b in float64 up to the doubt."""
    b0 = best_intercept(qp.p - f, qp.lo, qp.hi, qp.l1)
    gap, dual, found, _ = measures(f, b, qp.p, qp.lo, qp.hi, qp.l1, b0)
    rounding = 4 * EPS * float((qp.hi - qp.lo) @ np.abs(qp.p))
    return Certificate(dual + gap + doubt.primal, dual - doubt.dual, found + doubt.violation, f, rounding,
                       doubt.primal + doubt.dual)


def _sampled(qp: QP, b: Array, rough: Array) -> tuple[Certificate, float]:
    """Return the certificate with f from float32 rows, but for a sample of them, and the largest error taken to be.

    That of row i, e_i, is taken to be at most ``SPREAD`` times the largest one of the sample, both in units of the
    rows' lengths in feature space, to which rounding is proportional. The dual is then off by at most
    sum e_i |b_i| / 2, and the primal by at most sum e_i |b_i / 2 - t_i|, where -t_i is the slope of the loss of row i
    in f_i, or the worse of two next to a kink.
    """
    counting = np.flatnonzero(_worst_shares(qp, b, rough))
    checked = counting[:: max(1, len(counting) // CHECKED)]
    f, errors = _with_exact(qp, b, rough, checked)
    length = _lengths(qp.rows.diagonal)
    error = SPREAD * float((errors / length[checked]).max(initial=0.0)) * length
    shares = _worst_shares(qp, b, f)
    most = float(error.max())
    error[checked] = 0
    return whole_certificate(qp, b, f, Doubt(float(error @ shares), 0.5 * float(error @ np.abs(b)), 2 * most)), most


def _lengths(diagonal: Array) -> Array:
    """Return the rows' lengths in feature space, none below their mean, as multiples of it; 1 where all are 0."""
    length = np.sqrt(np.abs(diagonal))
    mean = float(length.mean())
    return np.maximum(length / mean, 1.0) if mean else np.ones(len(length))


def _worst_shares(qp: QP, b: Array, f: Array) -> Array:
    """Return the largest |b_i / 2 - t_i| for any slope t_i of the loss of row i near f_i, at the best intercept."""
    _, _, b0 = objectives(f, b, qp.p, qp.lo, qp.hi, qp.l1)
    above = qp.p - f - b0 - qp.l1
    below = f + b0 - qp.p - qp.l1
    least = np.where(above > CLEAR, qp.hi, np.where(below > -CLEAR, qp.lo, 0.0))
    most = np.where(below > CLEAR, qp.lo, np.where(above > -CLEAR, qp.hi, 0.0))
    shares: Array = np.maximum(np.abs(0.5 * b - least), np.abs(0.5 * b - most))
    return shares


def _mostly_exact(qp: QP, b: Array, rough: Array) -> Certificate:
    """Return the certificate with f from float32 rows where no error of it can move the gap.

    The gap is a sum over rows. The term of a row is 0 if b_i is 0 and the row clear of any loss, and if b_i is on a
    bound and the row clear in the loss. Such rows keep their float32 value. The error of that value is taken to be at
    most the largest one of all other rows, and of some of these, for which it is measured. It moves both objectives
    and not their difference, and is counted against both.
    """
    kept = clear_rows(qp, b, rough)
    on_bounds = np.flatnonzero(kept & (b != 0))
    kept[on_bounds[:: max(1, len(on_bounds) // CHECKED)]] = False
    f, errors = _with_exact(qp, b, rough, np.flatnonzero(~kept))
    error = float(errors.max(initial=0.0))
    doubt = 0.5 * error * float(np.abs(b[kept]).sum())
    dual = float(b @ (qp.p - 0.5 * f) - qp.l1 @ np.abs(b))
    if error > SUSPECT:
        return whole_certificate(qp, b, qp.rows.exact_times(b))
    if doubt > DOUBT * abs(dual):  # b'f has terms only where b is not 0
        rest = np.flatnonzero(kept & (b != 0))
        f[rest] = qp.rows.exact_times(b, rest)[rest]
        return whole_certificate(qp, b, f)
    return whole_certificate(qp, b, f, Doubt(doubt, doubt, 0.0))


def _with_exact(qp: QP, b: Array, rough: Array, wanted: Index) -> tuple[Array, Array]:
    """Return f with float64 values in the ``wanted`` rows and rough ones elsewhere, and how far off the rough were."""
    exact = qp.rows.exact_times(b, wanted)[wanted]
    f = rough.copy()
    f[wanted] = exact
    return f, np.abs(exact - rough[wanted])


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
    gap, dual, *_ = measures(f, b, p, lo, hi, l1, b0)
    return dual + gap, dual, b0
