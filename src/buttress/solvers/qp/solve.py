"""How an exact kernel machine is solved: pairs first, then what the certificate asks for.

    1. block SMO on the stored rows (float32 where they are good enough) until the KKT violation is at most tol
    2. up to 1,500 rows, the active-set finish to rounding
    3. the certificate in float64; while it fails: on from its exact gradient, then with float64 rows, then with a
       tighter tol
    4. where pairs stall, the interior-point method (up to 3,000 rows)

Each phase takes a :class:`Point` and returns the next one; the program itself never changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from buttress._checks import Array, NotConvergedWarning, warn_user
from buttress._threads import own_threads
from buttress.solvers.qp.active_set import ACTIVE_SET_ROWS, exact_finish, newton_step
from buttress.solvers.qp.certificate import Certificate, certify, objectives
from buttress.solvers.qp.interior_point import INTERIOR_ROWS, interior_point, snapped
from buttress.solvers.qp.program import QP, Point, bias
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.run import Outcome, Step, Steps, countdown, run

SOLVERS = ("auto", "smo", "ipm")
SINGLE_TARGET = 0.9  # of tol: float32 rows aim lower, so that a run that meets tol narrowly meets it in float64 too
TIGHTEST = 1e-4  # of tol: pairs are not asked for more
MET = 1.01  # times tol: a certified violation up to this counts as tol, which the run measured on its own g
FASTER = 0.5  # of the last violation: float32 rows that bring it below this are kept
LEAST_TIGHTENING = 2.0  # by which the target falls at least, from one phase to the next
FLOAT64_TIGHTENING = 10.0  # the same in float64, where nothing but the target can bring the gap down
STALL_PAIRS = 100_000  # pair updates that every program gets before pairs are taken to stall
STALL_CUBE = 8000.0  # n^3 over this are the further ones: about the time of the interior-point method
GUARD_PAIRS = 1e7  # libsvm's limit: this many pair updates, or GUARD_PAIRS_A_ROW for each row
GUARD_PAIRS_A_ROW = 100
INTERIOR_STEPS = 200  # most steps of the interior-point method, which needs 10 to 60
INTERIOR_TARGET = 1e-3  # of gap_tol: what the interior-point method aims at, for its steps are few near the end
SNAP_GAP = 0.5  # of gap_tol: what putting variables on their bounds may add to the gap
SNAP_WIDTHS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)  # of hi - lo: how near a bound counts as on it
SNAP_STEPS = 10  # Newton steps that make up for what was cut off


@dataclass(frozen=True)
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
    """b, the intercept, both objectives (their difference is the certificate) and how the run ended.

    ``f`` is K b, right to float32 for rows without a coefficient that are far from any loss; ``downwards`` counts the
    pair updates along which K curves downwards.
    """

    b: Array
    intercept: float
    primal: float
    dual: float
    outcome: Outcome
    converged: bool
    f: Array
    downwards: int = 0

    @property
    def gap(self) -> float:
        return self.primal - self.dual


@dataclass(frozen=True)
class _Plan:
    """The next phase: one of ``SOLVERS``, and the KKT violation it aims at."""

    solver: str
    target: float


@dataclass(frozen=True)
class _Candidate:
    """A point with its certificate."""

    point: Point
    proof: Certificate


def solve(qp: QP, limits: Limits) -> SVMSolution:
    """Solve the program of ``program.py`` with sum(b) = 0 from ``qp.start``.

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
    left = countdown(limits.max_time)
    total = Outcome(None, "", 0, np.inf, np.inf)
    plan = _Plan(limits.solver, limits.tol * (SINGLE_TARGET if qp.rows.real == np.float32 else 1.0))
    point = Point(qp.start)
    best: _Candidate | None = None
    worst = np.inf
    while True:
        outcome, point = _phase(qp, point, limits, plan, left(), total)
        found = _Candidate(point, certify(qp, point))
        proof = found.proof
        small = _good_enough(proof, plan, limits)
        done = outcome.status in ("converged", "exhausted")
        if (small if limits.convex else outcome.status == "converged") and done:
            return _solution(qp, found, total, limits, converged=True)
        if best is None or proof.gap < best.proof.gap:
            best = found
        improved = proof.violation < FASTER * worst
        worst = proof.violation
        following = _next(qp, limits, outcome, plan, proof, improved)
        if following is None:
            best = replace(best, point=replace(best.point, downwards=point.downwards))
            return _solution(qp, best, total, limits, converged=small and limits.convex and done)
        plan = following
        point = replace(point, f=proof.f)  # float32 rows then add only what changes from here on


def _good_enough(proof: Certificate, plan: _Plan, limits: Limits) -> bool:
    """Say whether the gap is small enough and, of all but interior points, the violation."""
    gap = proof.gap <= limits.gap_tol * abs(proof.primal) + proof.rounding
    return gap and (plan.solver == "ipm" or proof.violation <= MET * limits.tol)


def _tighter(proof: Certificate, limits: Limits, target: float) -> float:
    """Return the KKT violation to aim at next: where the gap alone is too large, it falls in proportion to that."""
    share = limits.gap_tol * abs(proof.primal) / max(proof.gap, 1e-300)
    return min(target / LEAST_TIGHTENING, 0.5 * proof.violation * min(share, 1.0))


def _next(
    qp: QP, limits: Limits, outcome: Outcome, plan: _Plan, proof: Certificate, improved: bool
) -> _Plan | None:
    """Return the phase to go on with when the certificate is not good enough, or None to stop."""
    solver, target = plan.solver, plan.target
    if solver == "ipm" or outcome.status not in ("converged", "exhausted", "stalled") or not limits.convex:
        return None
    goal = _tighter(proof, limits, target)
    if outcome.status != "stalled" and qp.rows.real == np.float32:
        if improved:
            return _Plan(solver, goal)
        qp.rows.cache.widen()
        return plan
    if outcome.status == "converged" and target > TIGHTEST * limits.tol:
        return _Plan(solver, min(goal, target / FLOAT64_TIGHTENING))
    rescue = limits.solver == "auto" and len(qp.p) <= INTERIOR_ROWS
    return _Plan("ipm", INTERIOR_TARGET * limits.gap_tol) if rescue else None


def _phase(
    qp: QP, point: Point, limits: Limits, plan: _Plan, max_time: float | None, total: Outcome
) -> tuple[Outcome, Point]:
    """Run one algorithm from ``point`` within what is left of the limits, and add it to the ``total``.

    Returns how it ended and the point it reached.
    """
    allowed = np.inf if limits.max_iter is None else limits.max_iter - total.n_iter
    if plan.solver == "ipm":
        outcome, reached = _interior_phase(qp, point, limits, max_time, allowed)
    else:
        outcome, reached = _pairs_phase(qp, point, limits, plan, max_time, allowed)
    total.history += outcome.history
    total.n_iter += outcome.n_iter
    total.status = outcome.status
    total.gap = outcome.gap
    total.objective = outcome.objective
    return outcome, reached


def _pairs_phase(
    qp: QP, point: Point, limits: Limits, plan: _Plan, max_time: float | None, allowed: float
) -> tuple[Outcome, Point]:
    """Run block SMO; finish exactly where the program is small and its rows are float64."""
    n = len(qp.p)
    patience = stall_limit(n) if plan.solver == "auto" and limits.convex else guard(n, limits)
    steps = block_smo(qp, tol=plan.target, start=point)
    outcome = _run(steps, limits, plan.target, max_time, allowed, patience)
    small = n <= ACTIVE_SET_ROWS and qp.rows.real == np.float64
    finish = small and outcome.status in ("converged", "exhausted")
    return outcome, exact_finish(qp, outcome.state) if finish else outcome.state


def _interior_phase(
    qp: QP, point: Point, limits: Limits, max_time: float | None, allowed: float
) -> tuple[Outcome, Point]:
    """Run the interior-point method on the whole Gram matrix, and put its variables on their bounds."""
    K = qp.rows.gram()
    steps = interior_point(K, qp.p, qp.lo, qp.hi, qp.l1)
    outcome = _run(steps, limits, INTERIOR_TARGET * limits.gap_tol, max_time, allowed, INTERIOR_STEPS)
    b = on_bounds(qp, K, outcome.state, limits.gap_tol)
    return outcome, Point(b, gram=point.gram, downwards=point.downwards)


def _run(
    steps: Steps, limits: Limits, target: float, max_time: float | None, allowed: float, patience: float
) -> Outcome:
    """Return :func:`run` of one phase, "stalled" where patience ended before what the user allowed."""
    most = min(allowed, patience)
    outcome = run(steps, tol=target, max_iter=None if np.isinf(most) else int(most), max_time=max_time,
                  callback=limits.callback, progress=limits.progress, name="SVM", warn=False)
    if outcome.status == "max_iter" and most < allowed:
        outcome.status = "stalled"
    return outcome


def stall_limit(n: int) -> float:
    """Return the pair updates after which pairs are taken to stall: where the interior-point method costs less.

    Beyond its reach it is libsvm's limit, a guard against running for ever.
    """
    return STALL_PAIRS + n**3 / STALL_CUBE if n <= INTERIOR_ROWS else max(GUARD_PAIRS, GUARD_PAIRS_A_ROW * n)


def guard(n: int, limits: Limits) -> float:
    """Return libsvm's limit on pair updates where the user set none."""
    return max(GUARD_PAIRS, GUARD_PAIRS_A_ROW * n) if limits.max_iter is None else np.inf


def on_bounds(qp: QP, K: Array, inner: Array, gap_tol: float) -> Array:
    """Return an interior point with as many variables on their bounds as half the allowed gap permits.

    Variables near a bound are put on it and the others solved for anew, which makes up for what was cut off.
    """
    primal, dual, _ = objectives(K @ inner, inner, qp.p, qp.lo, qp.hi, qp.l1)
    for near in SNAP_WIDTHS:
        b = snapped(inner, qp.lo, qp.hi, near)
        blocked = True
        for _ in range(SNAP_STEPS):
            if blocked:
                b, blocked = newton_step(K, qp, b)
        top, bottom, _ = objectives(K @ b, b, qp.p, qp.lo, qp.hi, qp.l1)
        if top - bottom <= max(SNAP_GAP * gap_tol * abs(top), primal - dual):
            return b
    return inner


def _solution(qp: QP, found: _Candidate, total: Outcome, limits: Limits, *, converged: bool) -> SVMSolution:
    """Return the solution that the candidate is; warn where it did not converge and the user did not stop it."""
    b, proof = found.point.b, found.proof
    ended = ("stopped", "interrupted") if limits.convex else ("stopped", "interrupted", "exhausted", "converged")
    if not converged and total.status not in ended:
        _warn_of_limit(proof, total, limits)
    intercept = bias(proof.f - qp.p, b, qp.lo, qp.hi, qp.l1)
    return SVMSolution(b, intercept, proof.primal, proof.dual, total, converged, proof.f, found.point.downwards)


def _warn_of_limit(proof: Certificate, total: Outcome, limits: Limits) -> None:
    reason = {"max_iter": "at max_iter", "max_time": "at max_time"}.get(total.status, "without further progress")
    warn_user(f"SVM stopped {reason} after {total.n_iter} iterations with KKT violation {proof.violation:.3g} "
              f"> tol {limits.tol:.3g} or relative gap {proof.gap / max(abs(proof.primal), 1e-300):.3g} > "
              f"{limits.gap_tol:.3g}. Raise the limit or tol, scale the columns of X, or lower C.",
              NotConvergedWarning)
