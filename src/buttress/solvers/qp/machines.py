"""The two-class support vector machine as the program of ``program.py``.

    primal   min_{w, b0}  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b0))
    dual     max_a        sum_i a_i - 1/2 (y a)'K(y a),   0 <= a_i <= C_i,  sum_i y_i a_i = 0

With b = y a this is the program with p = y. The regressor's has p = y, bounds -C_i and C_i, and l1 = epsilon.
"""

from dataclasses import replace

import numpy as np

from buttress._checks import Array
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.interior_point import feasible
from buttress.solvers.qp.program import QP
from buttress.solvers.qp.solve import Limits, SVMSolution, solve
from buttress.solvers.run import countdown

__all__ = ["SVMSolution", "classifier_qp", "hard_margin", "regressor_qp", "solve_svm"]

C_FACTOR = 100.0  # C is multiplied by this on the way to the hard margin: few solves, each started near its end
HARDEST = 1e10  # C times the variance in feature space: beyond this a margin is below rounding
VARIANCE_ROWS = 500  # rows for the estimate of the variance, of which only the order of magnitude matters
AT_BOUND = 1e-9  # of C: a_i this close to C counts as equal to C


def solve_svm(
    rows: KernelRows, y: Array, bound: Array, *, tol: float = 1e-3, gap_tol: float = 1e-3, max_time: float | None = None
) -> SVMSolution:
    """Solve the program for targets y in {-1, +1} and bounds C_i > 0, both of shape (n,), see :class:`Limits`.

    For use inside another algorithm: Ctrl-C is passed on to it.
    """
    return solve(classifier_qp(rows, y, bound), Limits(tol=tol, gap_tol=gap_tol, max_time=max_time, inner=True))


def classifier_qp(rows: KernelRows, y: Array, bound: Array, start: Array | None = None) -> QP:
    """Return the classifier's program, started from the feasible point nearest to ``start``."""
    lo = np.where(y > 0, 0.0, -bound)
    hi = np.where(y > 0, bound, 0.0)
    return QP(rows, y, lo, hi, _first(start, lo, hi), np.zeros(len(y)))


def regressor_qp(rows: KernelRows, y: Array, bound: Array, epsilon: float, start: Array | None = None) -> QP:
    """Return the regressor's program, started from the feasible point nearest to ``start``."""
    return QP(rows, y, -bound, bound, _first(start, -bound, bound), np.full(len(y), float(epsilon)))


def _first(start: Array | None, lo: Array, hi: Array) -> Array:
    """Return the feasible point nearest to ``start``, or 0 if no start is given."""
    return np.zeros(len(lo)) if start is None else feasible(start, lo, hi)


def hard_margin(rows: KernelRows, y: Array, limits: Limits) -> SVMSolution:
    """Solve max_a sum_i a_i - 1/2 (y a)'K(y a), a >= 0, sum_i y_i a_i = 0: the hard margin.

    The hard margin equals the soft margin at any C that no a_i reaches. So C grows a hundredfold until none does. Each
    soft dual value is a lower bound on 1/2 ||w||^2 = 1 / (2 margin^2), and so an upper bound on the margin.

    Raises ValueError if some a_i still reaches C at C = 1e10 / (mean squared distance to the centre): rounding hides
    a margin below 1e-5 of the root of that distance.
    """
    left = countdown(limits.max_time)
    scale = _variance(rows)
    C = 1.0 / scale
    start = None
    while C * scale <= HARDEST:
        qp = classifier_qp(rows, y, np.full(len(y), C), start)
        solution = solve(qp, replace(limits, max_time=left()))
        if solution.outcome.status in ("max_iter", "max_time", "stopped", "interrupted"):
            return solution
        if np.abs(solution.b).max() < C * (1 - AT_BOUND):
            return solution
        start = solution.b
        C *= C_FACTOR
    raise ValueError("C=inf asks for a hard margin, but the data cannot be separated by this kernel: every margin is "
                     f"below {HARDEST**-0.5:g} of the data's spread. Give a finite C, or a kernel that separates.")


def _variance(rows: KernelRows) -> float:
    """Return the mean squared distance to the centre in feature space, from at most 500 rows; 1 if all are equal."""
    some = np.unique(np.linspace(0, len(rows) - 1, VARIANCE_ROWS, dtype=np.intp))
    everything = slice(0, VARIANCE_ROWS)
    K = rows.exact(some)(everything, everything)
    variance = float(np.diagonal(K).mean() - K.mean())
    return variance if variance > 0 else 1.0
