"""How an exact kernel machine is solved: pairs first, then what the certificate asks for.

    1. block SMO on the stored rows (float32 where they are good enough) until the KKT violation is at most tol
    2. up to 1,500 rows, the active-set finish to rounding
    3. the certificate in float64; while it fails: on from its exact gradient, then with float64 rows, then with a
       tighter tol
    4. where pairs stall, the interior-point method (up to 3,000 rows)
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, NotConvergedWarning, warn_user
from buttress._threads import own_threads
from buttress.solvers.qp.certificate import Certificate, certify, objectives
from buttress.solvers.qp.interior_point import INTERIOR_ROWS, interior_point, snapped
from buttress.solvers.qp.smo import EXACT_ROWS, QP, bias, block_smo, exact_finish, newton_step
from buttress.solvers.run import Outcome, Step, run

SOLVERS = ("auto", "smo", "ipm")
MARGIN = 0.9  # of tol, for what float32 rows hide from a run that meets it narrowly
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
    if qp.rows.cache.whole:  # nothing left to compute that would be worth a thread
        return _solve(qp, limits)
    with own_threads():
        return _solve(qp, limits)


def _solve(qp: QP, limits: Limits) -> SVMSolution:
    ending, total = time.monotonic() + (limits.max_time or np.inf), Outcome(None, "", 0, np.inf, np.inf)
    solver, worst, best = limits.solver, np.inf, None
    target = limits.tol * (MARGIN if qp.rows.real == np.float32 else 1.0)
    while True:
        outcome = _phase(qp, limits, solver, target, ending, total)
        proof = certify(qp)
        small = _close(proof, limits) and (solver == "ipm" or proof.violation <= 1.01 * limits.tol)
        done = outcome.status in ("converged", "exhausted")
        if (small if limits.convex else outcome.status == "converged") and done:
            return _solution(qp, proof, total, limits, converged=True)
        if best is None or proof.gap < best[0].gap:
            best = proof, qp.b
        improved, worst = proof.violation < 0.5 * worst, proof.violation
        qp.f = proof.f  # float32 rows then only have to tell what changes from here on
        goal = _tighter(proof, limits, target)
        step = _next(qp, limits, outcome, solver, target, goal, improved)
        if step is None:
            proof, qp.b = best
            return _solution(qp, proof, total, limits, converged=small and limits.convex and done)
        solver, target = step


def _tighter(proof: Certificate, limits: Limits, target: float) -> float:
    """Return the KKT violation to aim at next: where the gap alone is too large, it falls in proportion to that."""
    share = limits.gap_tol * abs(proof.primal) / max(proof.gap, 1e-300)
    return min(target / 2, 0.5 * proof.violation * min(share, 1.0))


def _next(
    qp: QP, limits: Limits, outcome: Outcome, solver: str, target: float, goal: float, improved: bool
) -> tuple[str, float] | None:
    """Return the solver and tolerance to go on with when the certificate is not good enough, or None to stop."""
    if solver == "ipm" or outcome.status not in ("converged", "exhausted", "stalled") or not limits.convex:
        return None
    if outcome.status != "stalled" and qp.rows.real == np.float32:
        if improved:
            return solver, goal
        qp.rows.cache.widen()
        return solver, target
    if outcome.status == "converged" and target > TIGHTEST * limits.tol:
        return solver, min(goal, target / 10)
    rescue = limits.solver == "auto" and len(qp.p) <= INTERIOR_ROWS
    return ("ipm", 0.1 * limits.gap_tol) if rescue else None


def _phase(qp: QP, limits: Limits, solver: str, target: float, ending: float, total: Outcome) -> Outcome:
    """Run one algorithm within what is left of the limits, leave its solution in ``qp.b``, and add it to the total."""
    allowed = np.inf if limits.max_iter is None else limits.max_iter - total.n_iter
    patience = stall_limit(len(qp.p)) if solver == "auto" and limits.convex else guard(len(qp.p), limits)
    if solver == "ipm":
        K, patience, target = qp.rows.gram(), 200, 1e-3 * limits.gap_tol
        steps = interior_point(K, qp.p, qp.lo, qp.hi, qp.l1)
    else:
        steps = block_smo(qp, tol=target)
    left, most = None if np.isinf(ending) else max(ending - time.monotonic(), 1e-9), min(allowed, patience)
    outcome = run(steps, tol=target, max_iter=None if np.isinf(most) else int(most), max_time=left,
                  callback=limits.callback, progress=limits.progress, name="SVM", warn=False)
    if outcome.status == "max_iter" and most < allowed:
        outcome.status = "stalled"
    small = len(qp.p) <= EXACT_ROWS and qp.rows.real == np.float64
    if solver == "ipm":
        qp.b = on_bounds(qp, K, outcome.state, limits.gap_tol)
    elif small and outcome.status in ("converged", "exhausted"):
        qp.b = exact_finish(qp, outcome.state)
    else:
        qp.b = outcome.state
    total.history += outcome.history
    total.n_iter += outcome.n_iter
    total.status, total.gap, total.objective = outcome.status, outcome.gap, outcome.objective
    return outcome


def stall_limit(n: int) -> float:
    """Return the pair updates after which pairs are taken to stall: where the interior-point method costs less.

    Beyond its reach it is libsvm's limit, a guard against running for ever.
    """
    return 100_000 + n**3 / 8000 if n <= INTERIOR_ROWS else max(1e7, 100 * n)


def guard(n: int, limits: Limits) -> float:
    """Return libsvm's limit on pair updates where the user set none."""
    return max(1e7, 100 * n) if limits.max_iter is None else np.inf


def _close(proof: Certificate, limits: Limits) -> bool:
    return proof.gap <= limits.gap_tol * abs(proof.primal) + proof.rounding


def on_bounds(qp: QP, K: Array, inner: Array, gap_tol: float) -> Array:
    """Return an interior point with as many variables on their bounds as half the allowed gap permits.

    Variables near a bound are put on it and the others solved for anew, which makes up for what was cut off.
    """
    primal, dual, _ = objectives(K @ inner, inner, qp.p, qp.lo, qp.hi, qp.l1)
    for near in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11):
        b, blocked = snapped(inner, qp.lo, qp.hi, near), True
        for _ in range(10):
            if blocked:
                b, blocked = newton_step(K, qp, np.asarray(qp.l1), b)
        top, bottom, _ = objectives(K @ b, b, qp.p, qp.lo, qp.hi, qp.l1)
        if top - bottom <= max(0.5 * gap_tol * abs(top), primal - dual):
            return b
    return inner


def _solution(qp: QP, proof: Certificate, total: Outcome, limits: Limits, *, converged: bool) -> SVMSolution:
    ended = ("stopped", "interrupted") if limits.convex else ("stopped", "interrupted", "exhausted", "converged")
    if not converged and total.status not in ended:
        reason = {"max_iter": "at max_iter", "max_time": "at max_time"}.get(total.status, "without further progress")
        warn_user(f"SVM stopped {reason} after {total.n_iter} iterations with KKT violation {proof.violation:.3g} "
                  f"> tol {limits.tol:.3g} or relative gap {proof.gap / max(abs(proof.primal), 1e-300):.3g} > "
                  f"{limits.gap_tol:.3g}. Raise the limit or tol, scale the columns of X, or lower C.",
                  NotConvergedWarning)
    intercept = bias(proof.f - qp.p, qp.b, qp.lo, qp.hi, qp.l1)
    return SVMSolution(qp.b, intercept, proof.primal, proof.dual, total, converged)
