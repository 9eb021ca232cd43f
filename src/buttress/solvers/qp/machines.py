"""The two-class support vector machine as the program of ``program.py``.

    primal   min_{w, b0}  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b0))
    dual     max_a        sum_i a_i - 1/2 (y a)'K(y a),   0 <= a_i <= C_i,  sum_i y_i a_i = 0

With b = y a this is the program with p = y. The regressor's has p = y, bounds -C_i and C_i, and l1 = epsilon.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from buttress._checks import Array
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.interior_point import feasible
from buttress.solvers.qp.program import QP
from buttress.solvers.qp.solve import Limits, SVMSolution, solve
from buttress.solvers.run import countdown

__all__ = ["SVMSolution", "Start", "classifier_qp", "hard_margin", "regressor_qp", "solve_svm"]

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


class Start(NamedTuple):
    """Where a problem starts: coefficients of its rows (n,), and K times these from the stored rows, where known."""

    coef: Array
    f: Array | None = None


def classifier_qp(rows: KernelRows, y: Array, bound: Array, start: Start | None = None) -> QP:
    """Return the classifier's program, started from the feasible point nearest to ``start``."""
    lo = np.where(y > 0, 0.0, -bound)
    hi = np.where(y > 0, bound, 0.0)
    b, f = _first(rows, start, lo, hi)
    return QP(rows, y, lo, hi, b, np.zeros(len(y)), f)


def _first(rows: KernelRows, start: Start | None, lo: Array, hi: Array) -> tuple[Array, Array | None]:
    """Return the feasible point b nearest to ``start``, 0 if no start is given, and K b where that is known."""
    if start is None:
        return np.zeros(len(lo)), np.zeros(len(lo))
    b = feasible(start.coef, lo, hi)
    if start.f is None:
        return b, None
    f = start.f.copy()
    changed = np.flatnonzero(b != start.coef)
    rows.add(f, changed, (b - start.coef)[changed])
    return b, f


def regressor_qp(rows: KernelRows, y: Array, bound: Array, epsilon: float, start: Start | None = None) -> QP:
    """Return the regressor's program, started from the feasible point nearest to ``start``."""
    b, f = _first(rows, start, -bound, bound)
    return QP(rows, y, -bound, bound, b, np.full(len(y), float(epsilon)), f)


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
        start = Start(solution.b, solution.stored)
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
