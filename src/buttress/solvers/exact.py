"""How an exact kernel machine is solved: pairs first, then what the certificate asks for.

    1. block SMO on the stored rows (float32 where they are good enough) until the KKT violation is at most tol
    2. up to 1,500 rows, the active-set finish to rounding
    3. the certificate in float64; while it fails: float64 rows, then a tighter tol
    4. where pairs stall, the interior-point method (up to 3,000 rows)
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, NotConvergedWarning
from buttress.solvers.certificate import Certificate, certify
from buttress.solvers.interior_point import INTERIOR_ROWS, interior_point, snapped
from buttress.solvers.run import Outcome, Step, run
from buttress.solvers.smo import EXACT_ROWS, QP, bias, block_smo, exact_finish

SOLVERS = ("auto", "smo", "ipm")
TIGHTEST = 1e-4  # of tol: pairs are not asked for more


@dataclass
class Limits:
    """What a solve may use and when it is done: ``gap_tol`` is on the gap relative to the primal objective."""

    tol: float = 1e-3
    gap_tol: float = 1e-3
    max_iter: int | None = None
    max_time: float | None = None
    callback: Callable[[Step], bool | None] | None = None
    progress: bool = False
    solver: str = "auto"
    convex: bool = True


@dataclass
class SVMSolution:
    """b, the intercept, both objectives (their difference is the certificate) and how the run ended."""

    b: Array
    intercept: float
    primal: float
    dual: float
    outcome: Outcome
    converged: bool

    @property
    def gap(self) -> float:
        return self.primal - self.dual


def solve(qp: QP, limits: Limits) -> SVMSolution:
    """Solve the program of ``smo.py`` with sum(b) = 0 from ``qp.b``, which it replaces.

    Converged means: KKT violation at most ``tol`` and duality gap at most ``gap_tol`` of the primal, both in float64.
    The interior-point method, which leaves no variable quite on its bound, answers for the gap alone; a K that is not
    convex, for which a stationary point is all there is, for the violation on the stored rows alone.
    """
    if limits.solver == "ipm" and len(qp.p) > INTERIOR_ROWS:
        raise ValueError(f'solver="ipm" takes up to {INTERIOR_ROWS} rows. Got {len(qp.p)}. Use solver="auto".')
    ending, total = time.monotonic() + (limits.max_time or np.inf), Outcome(None, "", 0, np.inf, np.inf)
    solver, target = limits.solver, limits.tol
    while True:
        outcome = _phase(qp, limits, solver, target, ending, total)
        proof = _interior_proof(qp, limits) if solver == "ipm" else _proof(qp, outcome)
        small = _close(proof, limits) and (solver == "ipm" or proof.violation <= 1.01 * limits.tol)
        done = outcome.status in ("converged", "exhausted")
        if (small if limits.convex else outcome.status == "converged") and done:
            return _solution(qp, proof, total, limits, converged=True)
        step = _next(qp, limits, outcome, solver, target)
        if step is None:
            return _solution(qp, proof, total, limits, converged=small and limits.convex and done)
        solver, target = step


def _next(qp: QP, limits: Limits, outcome: Outcome, solver: str, target: float) -> tuple[str, float] | None:
    """Return the solver and tolerance to go on with when the certificate is not good enough, or None to stop."""
    if solver == "ipm" or outcome.status not in ("converged", "exhausted", "stalled") or not limits.convex:
        return None
    if outcome.status != "stalled" and qp.rows.real == np.float32:
        qp.rows.cache.widen()
        return solver, target
    if outcome.status == "converged" and target > TIGHTEST * limits.tol:
        return solver, target / 10
    rescue = limits.solver == "auto" and len(qp.p) <= INTERIOR_ROWS
    return ("ipm", 0.1 * limits.gap_tol) if rescue else None


def _phase(qp: QP, limits: Limits, solver: str, target: float, ending: float, total: Outcome) -> Outcome:
    """Run one algorithm within what is left of the limits, and add it to the total."""
    allowed = np.inf if limits.max_iter is None else limits.max_iter - total.n_iter
    patience = stall_limit(len(qp.p)) if solver == "auto" and limits.convex else np.inf
    most = min(allowed, patience)
    if solver == "ipm":
        K, l1 = qp.rows.gram(), qp.l1
        steps, target, most = interior_point(K, qp.p, qp.lo, qp.hi, l1), min(target, 0.1 * limits.gap_tol), 200
    else:
        steps = block_smo(qp, tol=target)
    left = None if np.isinf(ending) else max(ending - time.monotonic(), 1e-9)
    outcome = run(steps, tol=target, max_iter=None if np.isinf(most) else int(most), max_time=left,
                  callback=limits.callback, progress=limits.progress, name="SVM", warn=False)
    if outcome.status == "max_iter" and most < allowed:
        outcome.status = "stalled"
    qp.b = outcome.state
    total.history += outcome.history
    total.n_iter += outcome.n_iter
    total.status, total.gap, total.objective = outcome.status, outcome.gap, outcome.objective
    return outcome


def stall_limit(n: int) -> float:
    """Return the pair updates after which pairs are taken to stall: where the interior-point method costs less.

    Beyond its reach it is libsvm's limit, a guard against running for ever.
    """
    return 100_000 + n**3 / 4000 if n <= INTERIOR_ROWS else max(1e7, 100 * n)


def _close(proof: Certificate, limits: Limits) -> bool:
    return proof.gap <= limits.gap_tol * max(abs(proof.primal), 1e-12)


def _proof(qp: QP, outcome: Outcome) -> Certificate:
    """Return the certificate, after the exact finish where the problem is small enough for it."""
    small = len(qp.p) <= EXACT_ROWS and qp.rows.real == np.float64
    if small and outcome.status in ("converged", "exhausted"):
        qp.b = exact_finish(qp, qp.b)
    return certify(qp)


def _interior_proof(qp: QP, limits: Limits) -> Certificate:
    """Put as many variables of an interior point on their bounds as the gap allows; return the certificate."""
    inner, proof = qp.b, certify(qp)
    for near in (1e-5, 1e-7, 1e-9, 1e-11):
        qp.b = snapped(inner, qp.lo, qp.hi, near)
        sparse = certify(qp)
        if sparse.gap <= max(0.5 * limits.gap_tol * abs(sparse.primal), proof.gap):
            return sparse
    qp.b = inner
    return proof


def _solution(qp: QP, proof: Certificate, total: Outcome, limits: Limits, *, converged: bool) -> SVMSolution:
    if not converged and limits.convex and total.status not in ("stopped", "interrupted"):
        reason = {"max_iter": "at max_iter", "max_time": "at max_time"}.get(total.status, "without further progress")
        warnings.warn(f"SVM stopped {reason} after {total.n_iter} iterations with KKT violation {proof.violation:.3g} "
                      f"> tol {limits.tol:.3g} or relative gap {proof.gap / max(abs(proof.primal), 1e-300):.3g} > "
                      f"{limits.gap_tol:.3g}. Raise the limit or tol, scale the columns of X, or lower C.",
                      NotConvergedWarning, stacklevel=2)
    intercept = bias(proof.f - qp.p, qp.b, qp.lo, qp.hi, qp.l1)
    return SVMSolution(qp.b, intercept, proof.primal, proof.dual, total, converged)
