"""The smallest soft ball: the program of support vector data description (SVDD) and its certificate.

    primal   min_{R2, c}  R2 + 1/(nu n) sum_i w_i max(0, |phi(x_i) - c|^2 - R2)
    dual     max_a        diag(K)'a - a'Ka,   0 <= a_i <= w_i / (nu n),  sum_i a_i = 1

The weights are scaled so that sum_i w_i = n, and c = sum_i a_i phi(x_i). With b = nu n a and p = nu n diag(K) / 2 this
is the program of ``program.py`` with 0 <= b <= w.
For any c the best R2 is a (1 - nu)-quantile of the squared distances d2, so any a gives a certificate:

    gap = sum_i (w_i/(nu n) - a_i) [d2_i - R2]_+ + a_i [R2 - d2_i]_+ >= 0,

which is 2 / (nu n)^2 times that of b (``qp/certificate.py``) at the intercept nu n (R2 - |c|^2) / 2.

Adding u_i + u_j to K_ij changes nothing, so conditionally positive definite kernels are solved exactly too.

Source: Tax & Duin, Support Vector Data Description, Machine Learning 54, 2004.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array
from buttress._proof import U
from buttress._threads import ending
from buttress.gram.rounding import Product
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.active_set import ACTIVE_SET_ROWS, exact_finish
from buttress.solvers.qp.certificate import certificate
from buttress.solvers.qp.program import QP, Point, violation
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.qp.solve import TIGHTEST, Limits, follow, stall_limit
from buttress.solvers.run import Outcome, countdown

# nu n above which the violation is that of squared distances: float32 could not make that of b so small. A quarter more
# or less changes the steps by 1 to 8 per cent, on 4,000 normal rows and on digits, and leaves gaps below 3e-6.
MANY = 200
TIGHTENING = 10.0  # the tolerance is divided by this while the gap is too large
NO_SPREAD = 1e-13  # of the largest k(x, x): a smaller mean squared distance is rounding and is replaced by 1
PATIENCE = 0.25  # seconds after the limit that a certificate may take, as long as one of 5,000 rows; then none is made
SAME_WEIGHT = 1e-12  # relative: cumulative weights this close to the total count as equal to it


@dataclass
class SoftBall:
    """a (summing to 1), |c|^2 = a'Ka, d2, R2 and its possible error, both objectives with their gap, how the run ended.

    Objectives and gap are bounds, proven or as computed (``qp/certificate.py``).
    """

    a: Array
    norm2: float
    distance2: Array
    radius2: float
    slack: float
    primal: float
    dual: float
    gap: float
    proven: bool
    outcome: Outcome
    converged: bool

    def times(self, unit: float) -> "SoftBall":
        """Return the ball of the kernel times ``unit``: same coefficients, all squared distances times ``unit``."""
        return replace(self, norm2=self.norm2 * unit, distance2=self.distance2 * unit, radius2=self.radius2 * unit,
                       slack=self.slack * unit, primal=outward(self.primal * unit), dual=-outward(-self.dual * unit),
                       gap=outward(self.gap * unit))


def solve_ball(
    rows: KernelRows, weight: Array, nu: float, limits: Limits, *, start: Array | None = None,
    exact_rows: int = ACTIVE_SET_ROWS,
) -> SoftBall:
    """Solve the program for positive weights of shape (n,), from the dual point ``start`` if one is given.

    Stops when two conditions hold. The KKT violation of b is at most ``tol`` times the mean squared distance to the
    centre (libsvm's measure for the one-class machine), where nu n is large that of squared distances at most a
    hundredth of it. And the gap is at most ``gap_tol`` times the primal objective.
    If the first holds and the second does not, ``tol`` is lowered. With up to ``exact_rows`` rows the active-set
    method then finishes to rounding. The certificate is always computed in float64. If it is not good enough and the
    stored rows are float32, they are discarded and computed again in float64.
    """
    total = nu * len(weight)
    qp, scale = ball_program(rows, weight, total, start)
    point = Point(qp.start)
    target = limits.tol * scale * max(1.0, total / MANY)
    left = countdown(limits.max_time)
    used = 0
    while True:
        allowed = np.inf if limits.max_iter is None else limits.max_iter - used
        outcome = follow(block_smo(qp, tol=target, start=point), limits, target, left(), allowed,
                         stall_limit(len(rows)), name="SVDD", warn=not limits.inner)
        used += outcome.n_iter
        ended = outcome.status in ("converged", "exhausted", "stalled")
        point = exact_finish(qp, outcome.state, left=left) if ended and len(rows) <= exact_rows else outcome.state
        ball = certified_in_time(qp, point, total, outcome, left)
        ended = ended and outcome.status != "late"
        small = ball.gap <= max(limits.gap_tol * ball.primal, 1e-12 * scale)  # a gap this small counts as 0
        if ended and not small and rows.real == np.float32:
            rows.cache.widen()
            point = replace(point, stored=None)
        elif small or not outcome.converged or target < TIGHTEST * limits.tol * scale:
            ball.converged = small and ended
            outcome.n_iter = used
            return ball
        else:
            target /= TIGHTENING


def ball_of(rows: KernelRows, weight: Array, nu: float, b: Array, status: str = "") -> SoftBall:
    """Return the ball of a b on the way, on rows of which a solve keeps none: theirs depend on it."""
    total = nu * len(weight)
    qp, _ = ball_program(rows, weight, total, None)
    return certified(qp, b, total, Outcome(None, status, 0, np.inf))


def recounted(rows: KernelRows, weight: Array, nu: float, ball: SoftBall) -> SoftBall:
    """Return the ball with its objectives computed anew from the products of ``rows``."""
    total = nu * len(weight)
    qp, _ = ball_program(rows, weight, total, ball.a)
    return replace(certified(qp, np.minimum(qp.start, qp.hi), total, ball.outcome), converged=ball.converged)


def ball_program(rows: KernelRows, weight: Array, total: float, start: Array | None) -> tuple[QP, float]:
    """Return the program of ``program.py`` for b, which sums to ``total``, and the mean squared distance."""
    weight = weight * (len(weight) / weight.sum())
    away, scale = first_distances(rows, weight)
    b = farthest(away, weight, total) if start is None else start * total
    if weight.sum() <= total * (1 + SAME_WEIGHT):  # at nu = 1 there is no other
        b = weight
    none = np.zeros(len(b))
    return QP(rows, total / 2 * rows.diagonal, none, weight, b, none), scale


def first_distances(rows: KernelRows, weight: Array) -> tuple[Array, float]:
    """Return squared distances to the mean of a few rows, up to a constant, and their weighted mean (1 if it is 0)."""
    # their mean is the first guess of the centre
    some = np.unique(np.linspace(0, len(rows) - 1, min(64, rows.capacity)).astype(np.intp))
    panel = rows.fetch(some)
    away = rows.diagonal - 2 * panel.mean(axis=0)
    scale = float(weight @ (away + panel[:, some].mean())) / len(rows)
    return away, scale if scale > NO_SPREAD * float(np.abs(rows.diagonal).max()) else 1.0


def farthest(away: Array, weight: Array, total: float) -> Array:
    """Return b with the rows farthest away at their bounds until the sum is ``total``."""
    order = np.argsort(-away, kind="stable")
    left = np.maximum(total - np.cumsum(weight[order]) + weight[order], 0)
    b = np.zeros(len(weight))
    b[order] = np.minimum(weight[order], left)
    return b


def in_the_end(seconds: float | None) -> AbstractContextManager[None]:
    """Return a block for a certificate where so many seconds are left."""
    return ending(None if seconds is None else seconds + PATIENCE)


def certified_in_time(
    qp: QP, point: Point, total: float, outcome: Outcome, left: Callable[[], float | None]
) -> SoftBall:
    """Return the ball of a point; where its certificate would be "late", with what the stored rows say of it."""
    try:
        with in_the_end(left()):
            return certified(qp, point.b, total, outcome)
    except TimeoutError:
        if point.stored is None:
            raise
    outcome.status = "late"
    return certified(qp, point.b, total, outcome, Product(point.stored, np.zeros(len(point.b)), proven=False))


def certified(qp: QP, b: Array, total: float, outcome: Outcome, known: Product | None = None) -> SoftBall:
    """Return the ball of b, its radius, and bounds of its objectives, from distances computed in float64 or ``known``.
    """
    a = b / total
    diagonal = qp.rows.diagonal
    found = qp.rows.proven_times(b) if known is None else known
    product = found.f / total
    norm2 = float(a @ product)
    d2 = diagonal - 2 * product + norm2
    radius2 = quantile_radius(d2, qp.hi, total)
    rounding = 64 * np.finfo(float).eps * (np.abs(diagonal).max() + 2 * np.abs(product).max() + abs(norm2))
    slack = max(float(rounding), violation(-d2, b, qp.lo, qp.hi))
    of_diagonal = qp.rows.diagonal_errors if found.proven else 0.0
    of_p = total / 2 * of_diagonal + 2 * U * np.abs(qp.p)  # p = total / 2 diag(K) is rounded too
    proof = certificate(qp, b, replace(found, errors=found.errors + 2 * of_p), total / 2 * (radius2 - norm2), total)
    primal, gap = (outward(2 / total**2 * value) for value in (proof.primal, proof.gap))
    dual = -outward(-2 / total**2 * proof.dual)
    return SoftBall(a, norm2, d2, radius2, slack, primal, dual, gap, found.proven, outcome, converged=False)


def outward(value: float) -> float:
    """Return a little more than the value, by which a few multiplications may have been off."""
    return value + 8 * U * abs(value)


def quantile_radius(d2: Array, weight: Array, total: float) -> float:
    """Return the R2 that minimises R2 + sum_i weight_i [d2_i - R2]_+ / total, the middle one if there are several.

    This is the (1 - nu)-quantile: the largest d2 such that the rows at least that far away weigh ``total`` or more.
    If they weigh exactly ``total``, every R2 down to the next smaller distance is optimal too.
    """
    order = np.argsort(-d2, kind="stable")
    outside = np.cumsum(weight[order])
    k = min(int(np.searchsorted(outside, total * (1 - SAME_WEIGHT))), len(d2) - 1)
    k_next = k + 1 if k + 1 < len(d2) and outside[k] <= total * (1 + SAME_WEIGHT) else k
    return float(d2[order[k]] + d2[order[k_next]]) / 2
