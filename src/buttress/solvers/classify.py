"""The two-class support vector machine: its program, its intercept and its certificate.

    primal   min_{w, b0}  1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b0))
    dual     max_a        sum_i a_i - 1/2 (y a)'K(y a),   0 <= a_i <= C_i,  sum_i y_i a_i = 0

With b = y a this is the program of ``smo.py`` with p = y. For any b and b0 the gap between the two is
sum_i (C_i - a_i) [h_i]_+ + a_i [-h_i]_+ with h_i = 1 - y_i f(x_i), every term of which is at least 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.solvers.rows import KernelRows
from buttress.solvers.run import Outcome, Step, run
from buttress.solvers.smo import EXACT_ROWS, QP, bias, block_smo, exact_finish


@dataclass
class SVMSolution:
    """b = y a, the intercept, both objectives (their difference is the certificate) and how the run ended."""

    b: Array
    intercept: float
    primal: float
    dual: float
    outcome: Outcome
    converged: bool

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def solve_svm(
    rows: KernelRows,
    y: Array,
    bound: Array,
    *,
    tol: float = 1e-3,
    gap_tol: float = 1e-3,
    max_iter: int | None = None,
    max_time: float | None = None,
    callback: Callable[[Step], bool | None] | None = None,
    progress: bool = False,
) -> SVMSolution:
    """Solve the program for targets y in {-1, +1} and upper bounds C_i > 0, both of shape (n,).

    Runs until the KKT violation is at most ``tol`` and the duality gap at most ``gap_tol`` times the primal
    objective, tightening ``tol`` where the first does not give the second; up to 1,500 rows it then finishes exactly.
    """
    qp = QP(rows, y, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), np.zeros(len(y)))
    used, target = 0, tol
    while True:
        left = None if max_iter is None else max_iter - used
        outcome = run(block_smo(qp, tol=target), tol=target, max_iter=left, max_time=max_time, callback=callback,
                      progress=progress, name="SVM")
        used += outcome.n_iter
        qp.b = outcome.state
        if outcome.status in ("converged", "exhausted") and len(rows) <= EXACT_ROWS:
            qp.b = exact_finish(qp, qp.b)
        solution = certified(qp, outcome)
        small = solution.gap <= gap_tol * max(solution.primal, 1e-12)
        if small or not outcome.converged or target < 1e-3 * tol:
            solution.converged = small and outcome.status in ("converged", "exhausted")
            outcome.n_iter = used
            return solution
        target /= 10


def certified(qp: QP, outcome: Outcome) -> SVMSolution:
    """Return the solution with its intercept and its two objectives, computed from the kernel in float64."""
    f = qp.rows.times(qp.b)
    y, bound, weight = qp.p, qp.hi - qp.lo, np.abs(qp.b)
    quadratic = 0.5 * float(qp.b @ f)
    dual = float(weight.sum()) - quadratic
    intercept = bias(f - y, qp.b, qp.lo, qp.hi)
    best = best_intercept(f, y, bound)
    primal = quadratic + float(bound @ np.maximum(0, 1 - y * (f + best)))
    return SVMSolution(qp.b, intercept, primal, dual, outcome, converged=False)


def best_intercept(f: Array, y: Array, bound: Array) -> float:
    """Return a minimiser over b0 of sum_i C_i max(0, 1 - y_i (f_i + b0)), by sorting its breakpoints y_i - f_i."""
    order = np.argsort(y - f, kind="stable")
    slope = -bound[y > 0].sum() + np.cumsum(bound[order])
    return float((y - f)[order[np.searchsorted(slope, 0.0)]])
