"""How an exact kernel machine is solved: pairs first, then further phases until the certificate is good enough.

    0. up to 1,500 rows whose Gram matrix is stored, 1 and 2 in one compiled pass, where nobody follows the steps
    1. block SMO on the stored rows (float32 where they are precise enough) until the KKT violation is at most tol; from
       25,000 rows on by parts and chunks of them
    2. up to 1,500 rows, the active-set method, which finishes to rounding
    3. the certificate in float64. While it is not good enough, pairs go on: first from its exact gradient, then with
       float64 rows, then with a smaller tol
    4. where pairs stall, the interior-point method (up to 3,000 rows)

Each phase takes a :class:`Point` and returns the next one; the program itself never changes.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from buttress._checks import TINY, Array, NotConvergedWarning, warn_user
from buttress._threads import own_threads
from buttress.solvers.linear.intercept import best_intercept
from buttress.solvers.qp.active_set import (
    ACTIVE_SET_ROWS,
    affords_step,
    at_once,
    exact_finish,
    newton_step,
)
from buttress.solvers.qp.certificate import Certificate, certify, objectives, whole_certificate
from buttress.solvers.qp.chunks import chunked_smo, products, suits
from buttress.solvers.qp.interior_point import INTERIOR_ROWS, interior_point, snapped
from buttress.solvers.qp.program import QP, Point, bias
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.run import Outcome, Step, Steps, countdown, run

SOLVERS = ("auto", "smo", "ipm")
SINGLE_TARGET = 0.9  # of tol: the target on float32 rows, lower so that the result meets tol in float64 too
GAP_TARGET = 0.9  # of the gap asked for: the same for a gap measured on float32 rows
DOUBTED = 0.2  # of the gap allowed: where float32 values may add more to it, more rows are computed in float64
TIGHTEST = 1e-4  # of tol: the smallest violation that pairs are asked for
MET = 1.01  # times tol: a certified violation up to this counts as met, because the run measured its own rounded g
FASTER = 0.5  # of the last violation: float32 rows are kept if a phase brings it below this
LEAST_TIGHTENING = 2.0  # the target is divided by at least this from one phase to the next
FLOAT64_TIGHTENING = 10.0  # the same in float64, where only a smaller target can lower the gap
STALL_PAIRS = 100_000  # pair updates that every program gets before pairs count as stalled
STALL_CUBE = 8000.0  # n^3 / this further ones: the interior-point method's time grows with n^3; runs not recorded
GUARD_PAIRS = 1e7  # libsvm's limit: this many pair updates, or GUARD_PAIRS_A_ROW for each row
GUARD_PAIRS_A_ROW = 100
PASS_SECONDS = 1.0  # a pass over 1,500 rows takes less, so that it keeps to every longer limit
INTERIOR_STEPS = 200  # most steps of the interior-point method: a guard, far above what was seen; counts not recorded
INTERIOR_TARGET = 1e-3  # of gap_tol: the target of the interior-point method, which needs few steps near the end
SNAP_GAP = 0.5  # of gap_tol: how much the gap may grow when variables are put on their bounds
SNAP_WIDTHS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)  # of hi - lo: closer to a bound counts as on it
SNAP_STEPS = 10  # Newton steps that then solve for the other variables again


@dataclass(frozen=True)
class Limits:
    """Limits and tolerances of a solve: ``gap_tol`` bounds the gap relative to the primal objective.

    ``by_gap`` ends the solve as soon as the gap is that small, whatever the violation.
    ``inner`` is that of :func:`buttress.solvers.run.run`: Ctrl-C is passed on to the algorithm outside.
    """

    tol: float = 1e-3
    gap_tol: float = 1e-3
    max_iter: int | None = None
    max_time: float | None = None
    callback: Callable[[Step], bool | None] | None = None
    progress: bool = False
    solver: str = "auto"
    convex: bool = True
    inner: bool = False
    by_gap: bool = False


@dataclass
class SVMSolution:
    """b, the intercept, both objectives (their difference is the certificate) and how the run ended.

    ``f`` is K b, of which most rows may be right to float32 only (see ``certificate.py``), and ``stored`` is K b from
    the stored rows, where it is known; ``downwards`` counts the pair updates along which K has negative curvature.
    """

    b: Array
    intercept: float
    primal: float
    dual: float
    outcome: Outcome
    converged: bool
    f: Array
    downwards: int = 0
    stored: Array | None = None

    @property
    def gap(self) -> float:
        return self.primal - self.dual


@dataclass(frozen=True)
class _Plan:
    """The next phase: one of ``SOLVERS``, and what it aims at: a KKT violation, and a relative gap where that will do.
    """

    solver: str
    target: float
    gap: float | None = None


@dataclass(frozen=True)
class _Candidate:
    """A point with its certificate."""

    point: Point
    proof: Certificate


def solve(qp: QP, limits: Limits) -> SVMSolution:
    """Solve the program of ``program.py`` with sum(b) = 0 from ``qp.start``.

    Converged means: KKT violation at most ``tol`` and duality gap at most ``gap_tol`` of the primal, both in float64.
    There are two exceptions. The interior-point method leaves no variable exactly on its bound, so only the gap
    counts. An indefinite K makes the program non-convex, so only a stationary point can be found, and only the
    violation on the stored rows counts.
    """
    if limits.solver == "ipm" and len(qp.p) > INTERIOR_ROWS:
        raise ValueError(f'solver="ipm" takes up to {INTERIOR_ROWS} rows. Got {len(qp.p)}. Use solver="auto".')
    if qp.rows.cache.whole:  # what is left to compute is too little for threads
        return _solve(qp, limits)
    with own_threads():
        return _solve(qp, limits)


def _solve(qp: QP, limits: Limits) -> SVMSolution:
    left = countdown(limits.max_time)
    total = Outcome(None, "", 0, np.inf, np.inf)
    plan = _Plan(limits.solver, limits.tol * (SINGLE_TARGET if qp.rows.real == np.float32 else 1.0),
                 GAP_TARGET * limits.gap_tol if limits.by_gap and limits.convex else None)
    point = Point(qp.start, stored=qp.start_f)
    best: _Candidate | None = None
    worst = np.inf
    if _unfollowed(qp, limits):
        best = _at_once(qp, plan, total)
        if _good_enough(best.proof, plan, limits):
            return _solution(qp, best, total, limits, converged=True)
        point = replace(best.point, f=best.proof.f)
        if total.status == "stalled":
            plan = _Plan("ipm", INTERIOR_TARGET * limits.gap_tol)
    while True:
        outcome, point = _phase(qp, point, limits, plan, left(), total)
        over = outcome.status not in ("converged", "exhausted", "stalled")
        found = _Candidate(point, certify(qp, point, partial(_surely_enough, plan=plan, limits=limits, over=over)))
        proof = found.proof
        small = _good_enough(proof, plan, limits)
        done = outcome.status in ("converged", "exhausted")
        if (small if limits.convex else outcome.status == "converged") and done:
            return _solution(qp, found, total, limits, converged=True)
        if best is None or proof.gap < best.proof.gap:
            best = found
        improved = proof.violation < FASTER * worst
        worst = proof.violation
        real = qp.rows.real
        following = _next(qp, limits, outcome, plan, proof, improved)
        if following is None:
            best = replace(best, point=replace(best.point, downwards=point.downwards))
            return _solution(qp, best, total, limits, converged=small and limits.convex and done)
        plan = following
        # Float32 rows then add only the changes to f. Float64 rows begin anew, for parts of f are from float32 ones.
        point = replace(point, f=proof.f if qp.rows.real == real else None, stored=None)


def _unfollowed(qp: QP, limits: Limits) -> bool:
    """Say whether the program is small and nobody counts, watches or limits its steps, so that one pass will do."""
    free = limits.callback is None and not limits.progress and limits.max_iter is None
    soon = limits.max_time is None or limits.max_time >= PASS_SECONDS
    small = qp.rows.cache.whole and len(qp.p) <= ACTIVE_SET_ROWS
    return small and free and soon and limits.convex and limits.solver == "auto"


def _at_once(qp: QP, plan: _Plan, total: Outcome) -> _Candidate:
    """Solve the program without steps that others could follow, and record it as a run of one."""
    started = time.monotonic()
    most = stall_limit(len(qp.p))
    point, f, pairs = at_once(qp, plan.target, most)
    total.n_iter = pairs
    total.status = "stalled" if pairs == most else "converged"
    proof = whole_certificate(qp, point.b, f)
    total.gap = proof.violation
    total.objective = -proof.dual
    total.history.append({"n_iter": pairs, "seconds": time.monotonic() - started, "gap": proof.violation,
                          "objective": -proof.dual})
    return _Candidate(point, proof)


def _good_enough(proof: Certificate, plan: _Plan, limits: Limits) -> bool:
    """Say whether the gap is small enough, and the violation too unless the interior-point method was used."""
    gap = proof.gap <= limits.gap_tol * abs(proof.primal) + proof.rounding
    return gap and (plan.solver == "ipm" or limits.by_gap or proof.violation <= MET * limits.tol)


def _surely_enough(proof: Certificate, plan: _Plan, limits: Limits, over: bool) -> bool:
    """Say whether the certificate is good enough, or that of a run that is ``over``, and float32 values add little."""
    if over:
        return proof.doubt <= DOUBTED * proof.gap
    return _good_enough(proof, plan, limits) and proof.doubt <= DOUBTED * limits.gap_tol * abs(proof.primal)


def _tighter(proof: Certificate, limits: Limits, target: float) -> float:
    """Return the KKT violation to aim at next; it is lowered in proportion to how much the gap is too large."""
    share = limits.gap_tol * abs(proof.primal) / max(proof.gap, TINY)
    return min(target / LEAST_TIGHTENING, 0.5 * proof.violation * min(share, 1.0))


def _next(
    qp: QP, limits: Limits, outcome: Outcome, plan: _Plan, proof: Certificate, improved: bool
) -> _Plan | None:
    """Return the phase to go on with when the certificate is not good enough, or None to stop."""
    solver = plan.solver
    target = plan.target
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
    """Run block SMO; if the program is small and its rows are float64, finish with the active-set method."""
    n = len(qp.p)
    left = countdown(max_time)
    patience = stall_limit(n) if plan.solver == "auto" and limits.convex else guard(n, limits)
    by_chunks = limits.convex and suits(qp)
    steps = (chunked_smo if by_chunks else block_smo)(qp, tol=plan.target, start=point, gap=plan.gap)
    outcome = _run(steps, limits, plan.target, max_time, allowed, patience, keep="last" if by_chunks else "best")
    if by_chunks and outcome.state.stored is None:  # it was cut short; no row of K is stored
        return outcome, replace(outcome.state, stored=products(qp, outcome.state.b))
    small = n <= ACTIVE_SET_ROWS and qp.rows.real == np.float64
    finish = small and outcome.status in ("converged", "exhausted")
    return outcome, exact_finish(qp, outcome.state, left=left) if finish else outcome.state


def _interior_phase(
    qp: QP, point: Point, limits: Limits, max_time: float | None, allowed: float
) -> tuple[Outcome, Point]:
    """Run the interior-point method on the whole Gram matrix, and put its variables on their bounds."""
    left = countdown(max_time)
    K = qp.rows.gram()
    steps = interior_point(K, qp.p, qp.lo, qp.hi, qp.l1)
    outcome = _run(steps, limits, INTERIOR_TARGET * limits.gap_tol, max_time, allowed, INTERIOR_STEPS)
    b = on_bounds(qp, K, outcome.state, limits.gap_tol, left)
    return outcome, Point(b, gram=point.gram, downwards=point.downwards)


def _run(
    steps: Steps, limits: Limits, target: float, max_time: float | None, allowed: float, patience: float,
    keep: str = "best",
) -> Outcome:
    """Run one phase; its status is "stalled" if it used up ``patience`` before the limit of the user."""
    most = min(allowed, patience)
    outcome = run(steps, tol=target, max_iter=None if np.isinf(most) else int(most), max_time=max_time,
                  callback=limits.callback, progress=limits.progress, name="SVM", warn=False, inner=limits.inner,
                  keep=keep)
    if outcome.status == "max_iter" and most < allowed:
        outcome.status = "stalled"
    return outcome


def stall_limit(n: int) -> int:
    """Return the number of pair updates after which pairs count as stalled: the interior-point method then costs less.

    With more rows than that method takes, it is libsvm's limit, a guard against running for ever.
    """
    return int(STALL_PAIRS + n**3 / STALL_CUBE if n <= INTERIOR_ROWS else max(GUARD_PAIRS, GUARD_PAIRS_A_ROW * n))


def guard(n: int, limits: Limits) -> float:
    """Return libsvm's limit on pair updates, or inf if the user set a limit."""
    return max(GUARD_PAIRS, GUARD_PAIRS_A_ROW * n) if limits.max_iter is None else np.inf


def on_bounds(
    qp: QP, K: Array, inner: Array, gap_tol: float, left: Callable[[], float | None] = lambda: None
) -> Array:
    """Put variables of an interior point on their bounds, as many as half of the allowed gap permits.

    Variables near a bound are set to it. Newton steps then solve for the others again, which restores the optimum.
    Without the time for such a step, by the seconds that are ``left``, the interior point stays as it is.
    """
    primal, dual, _ = objectives(K @ inner, inner, qp.p, qp.lo, qp.hi, qp.l1)
    for near in SNAP_WIDTHS:
        b = snapped(inner, qp.lo, qp.hi, near)
        blocked = True
        for _ in range(SNAP_STEPS):
            if blocked and not affords_step(left(), len(b)):
                return inner
            if blocked:
                b, blocked = newton_step(K, qp, b, K @ b - qp.p)
        top, bottom, _ = objectives(K @ b, b, qp.p, qp.lo, qp.hi, qp.l1)
        if top - bottom <= max(SNAP_GAP * gap_tol * abs(top), primal - dual):
            return b
    return inner


def _solution(qp: QP, found: _Candidate, total: Outcome, limits: Limits, *, converged: bool) -> SVMSolution:
    """Return the candidate as a solution; warn if it did not converge and the user did not stop it."""
    b = found.point.b
    proof = found.proof
    ended = ("stopped", "interrupted") if limits.convex else ("stopped", "interrupted", "exhausted", "converged")
    if not converged and total.status not in ended:
        _warn_of_limit(proof, total, limits)
    intercept = bias(proof.f - qp.p, b, qp.lo, qp.hi, qp.l1)
    apart = limits.by_gap and proof.violation > MET * limits.tol
    if apart or not converged:  # free variables do not agree on it yet, and the primal objective is that of the best
        intercept = best_intercept(qp.p - proof.f, qp.lo, qp.hi, qp.l1)
    return SVMSolution(b, intercept, proof.primal, proof.dual, total, converged, proof.f, found.point.downwards,
                       found.point.stored)


def _warn_of_limit(proof: Certificate, total: Outcome, limits: Limits) -> None:
    reason = {"max_iter": "at max_iter", "max_time": "at max_time"}.get(total.status, "without further progress")
    warn_user(f"SVM stopped {reason} after {total.n_iter} iterations with KKT violation {proof.violation:.3g} "
              f"> tol {limits.tol:.3g} or relative gap {proof.gap / max(abs(proof.primal), TINY):.3g} > "
              f"{limits.gap_tol:.3g}. Raise the limit or tol, scale the columns of X, or lower C.",
              NotConvergedWarning)
