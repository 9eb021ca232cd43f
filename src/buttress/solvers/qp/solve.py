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
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from buttress._checks import TINY, Array, NotConvergedWarning, warn_user
from buttress._threads import own_threads
from buttress.checkpoints.journal import current_journal
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.active_set import (
    ACTIVE_SET_ROWS,
    affords_step,
    at_once,
    exact_finish,
    padded_gram,
)
from buttress.solvers.qp.certificate import Certificate, certify, objectives
from buttress.solvers.qp.chunks import chunked_smo, suits
from buttress.solvers.qp.interior_point import INTERIOR_ROWS, interior_point
from buttress.solvers.qp.program import QP, Point, Start, classifier_qp, snapped
from buttress.solvers.qp.smo import block_smo
from buttress.solvers.run import Outcome, Step, Steps, countdown, run

SOLVERS = ("auto", "smo", "ipm")
SINGLE_TARGET = 0.9  # of tol, or of the gap asked for: the target on float32 rows, so that float64 meets it too
TIGHTEST = 1e-4  # of tol: the smallest violation that pairs are asked for
MET = 1.01  # times tol: a certified violation up to this counts as met, because the run measured its own rounded g
FASTER = 0.5  # of the last violation: float32 rows are kept, and the target halved, if a phase brings it below this
GUARD_PAIRS = 1e7  # libsvm's limit: this many pair updates, or 100 for each row
INTERIOR_TARGET = 1e-3  # of gap_tol: the target of the interior-point method, which needs few steps near the end
HARDEST = 1e10  # C times the variance in feature space: beyond this a margin is below rounding
VARIANCE_ROWS = 500  # rows for the estimate of the variance, of which only the order of magnitude matters


@dataclass(frozen=True)
class Limits:
    """Limits and tolerances of a solve: ``gap_tol`` bounds the gap relative to the primal objective.

    ``by_gap`` ends the solve as soon as the gap is that small, whatever the violation. A gap of ``floor`` will do.
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
    floor: float = 0.0


@dataclass
class SVMSolution:
    """b, the certificate with its intercept, and how the run ended.

    ``stored`` is K b from the stored rows, where it is known; ``downwards`` counts the pair updates along which K has
    negative curvature; ``found`` is the parameter of the program where it was looked for.
    """

    b: Array
    proof: Certificate
    outcome: Outcome
    converged: bool
    downwards: int = 0
    stored: Array | None = None
    found: float | None = None


@dataclass(frozen=True)
class _Plan:
    """The next phase: one of ``SOLVERS``, and its aim: a KKT violation, and a relative gap where that will do."""

    solver: str
    target: float
    gap: float | None = None


def solve(qp: QP, limits: Limits) -> SVMSolution:
    """Solve the program of ``program.py`` from ``qp.start``; the interior-point method takes sum(b) = 0 only.

    Converged means: KKT violation at most ``tol`` and duality gap at most ``gap_tol`` of the primal, both in float64.
    There are two exceptions. The interior-point method leaves no variable exactly on its bound, so only the gap
    counts. An indefinite K makes the program non-convex, so only a stationary point can be found, and only the
    violation on the stored rows counts.
    """
    if limits.solver == "ipm" and len(qp.p) > INTERIOR_ROWS:
        raise ValueError(f'solver="ipm" takes up to {INTERIOR_ROWS} rows. Got {len(qp.p)}. Use solver="auto".')
    with nullcontext() if qp.rows.cache.whole else own_threads():  # else what is left is too little for threads
        return _solve(qp, limits)


def _solve(qp: QP, limits: Limits) -> SVMSolution:
    left = countdown(limits.max_time)
    total = Outcome(None, "", 0, np.inf, np.inf)
    plan = _Plan(limits.solver, limits.tol * (SINGLE_TARGET if qp.rows.real == np.float32 else 1.0),
                 SINGLE_TARGET * limits.gap_tol if limits.by_gap and limits.convex else None)
    point = Point(qp.start, stored=qp.start_f)
    best: tuple[Point, Certificate] | None = None
    worst = np.inf
    if _unfollowed(qp, limits):
        best = _at_once(qp, plan, limits, total)
        if _good_enough(best[1], plan, limits):
            return _solution(*best, total, limits, converged=True)
        point = replace(best[0], f=best[1].product.f)
        if total.status == "stalled" and qp.total == 0:
            plan = _Plan("ipm", INTERIOR_TARGET * limits.gap_tol)
    while True:
        outcome, point = _phase(qp, point, limits, plan, left(), total)
        proof = certify(qp, point.b, point.summed, partial(_agreed, limits))
        small = _good_enough(proof, plan, limits)
        done = outcome.status in ("converged", "exhausted")
        if (small if limits.convex else outcome.status == "converged") and done:
            return _solution(point, proof, total, limits, converged=True)
        if best is None or proof.seen < best[1].seen:
            best = (point, proof)
        improved = proof.violation < FASTER * worst
        worst = proof.violation
        real = qp.rows.real
        following = _next(qp, limits, outcome, plan, proof, improved)
        if following is None:
            last = replace(best[0], downwards=point.downwards)
            return _solution(last, best[1], total, limits, converged=small and limits.convex and done)
        plan = following
        # Float32 rows then add only the changes to f. Float64 rows begin anew, for parts of f are from float32 ones.
        point = replace(point, f=proof.product.f if qp.rows.real == real else None, stored=None, summed=None)


def _unfollowed(qp: QP, limits: Limits) -> bool:
    """Say whether the program is small and nobody counts, watches or limits its steps, so that one pass will do."""
    free = limits.callback is None and not limits.progress and limits.max_iter is None and limits.max_time is None
    small = qp.rows.cache.whole and len(qp.p) <= ACTIVE_SET_ROWS
    unkept = current_journal() is None  # whose runs have the same numbers with other limits
    return small and free and unkept and limits.convex and limits.solver == "auto"


def _at_once(qp: QP, plan: _Plan, limits: Limits, total: Outcome) -> tuple[Point, Certificate]:
    """Solve the program without steps that others could follow, and record it as a run of one."""
    started = time.monotonic()
    most = stall_limit(len(qp.p))
    point, pairs = at_once(qp, plan.target, most)
    total.n_iter = pairs
    total.status = "stalled" if pairs == most else "converged"
    proof = certify(qp, point.b, enough=partial(_agreed, limits), f=point.f)
    total.objective = -proof.dual
    total.history.append({"n_iter": pairs, "seconds": time.monotonic() - started, "violation": proof.violation,
                          "objective": -proof.dual})
    return point, proof


def _good_enough(proof: Certificate, plan: _Plan, limits: Limits) -> bool:
    """Say whether the gap is small enough, and the violation too unless the interior-point method was used."""
    return _small_gap(proof, limits) and (plan.solver == "ipm" or limits.by_gap or proof.violation <= MET * limits.tol)


def _agreed(limits: Limits, proof: Certificate) -> bool:
    """Say whether free variables agree on the intercept, which is then stored, as the gap there is small enough."""
    return _small_gap(proof, limits) and proof.violation <= MET * limits.tol


def _small_gap(proof: Certificate, limits: Limits) -> bool:
    """Say whether the gap is small enough as computed: what rounding may add to it, no further step takes away."""
    return proof.seen <= limits.gap_tol * abs(proof.primal) + proof.rounding + limits.floor


def _next(
    qp: QP, limits: Limits, outcome: Outcome, plan: _Plan, proof: Certificate, improved: bool
) -> _Plan | None:
    """Return the phase to go on with when the certificate is not good enough, or None to stop.

    The KKT violation aimed at is lowered in proportion to how much the gap is too large.
    """
    if plan.solver == "ipm" or outcome.status not in ("converged", "exhausted", "stalled") or not limits.convex:
        return None
    share = limits.gap_tol * abs(proof.primal) / max(proof.gap, TINY)
    goal = _Plan(plan.solver, min(FASTER * plan.target, FASTER * proof.violation * min(share, 1.0)))
    if outcome.status != "stalled" and qp.rows.real == np.float32:
        if improved:
            return goal
        qp.rows.cache.widen()
        return plan
    if outcome.status == "converged" and plan.target > TIGHTEST * limits.tol:
        return goal
    rescue = limits.solver == "auto" and len(qp.p) <= INTERIOR_ROWS and qp.total == 0
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
    total.objective = outcome.objective
    return outcome, reached


def _pairs_phase(
    qp: QP, point: Point, limits: Limits, plan: _Plan, max_time: float | None, allowed: float
) -> tuple[Outcome, Point]:
    """Run block SMO; if the program is small and its rows are float64, finish with the active-set method."""
    n = len(qp.p)
    left = countdown(max_time)
    rescued = plan.solver == "auto" and limits.convex and qp.total == 0
    patience = stall_limit(n) if rescued else guard(n, limits)
    by_chunks = limits.convex and suits(qp)
    steps = (chunked_smo if by_chunks else block_smo)(qp, tol=plan.target, start=point, gap=plan.gap)
    outcome = follow(steps, limits, plan.target, max_time, allowed, patience, keep="last" if by_chunks else "best")
    small = n <= ACTIVE_SET_ROWS and qp.rows.real == np.float64
    finish = small and outcome.status in ("converged", "exhausted")
    return outcome, exact_finish(qp, outcome.state, left=left) if finish else outcome.state


def _interior_phase(
    qp: QP, point: Point, limits: Limits, max_time: float | None, allowed: float
) -> tuple[Outcome, Point]:
    """Run the interior-point method on the whole Gram matrix, and put its variables on their bounds."""
    left = countdown(max_time)
    K = padded_gram(qp.rows)
    steps = interior_point(K[:, : len(K)], qp.p, qp.lo, qp.hi, qp.l1)
    outcome = follow(steps, limits, INTERIOR_TARGET * limits.gap_tol, max_time, allowed, np.inf)
    b = on_bounds(qp, K, outcome.state, limits.gap_tol, left)
    return outcome, Point(b, gram=point.gram, downwards=point.downwards)


def follow(
    steps: Steps, limits: Limits, target: float, max_time: float | None, allowed: float, patience: float, *,
    name: str = "SVM", keep: str = "best", warn: bool = False,
) -> Outcome:
    """Run one phase; its status is "stalled" if it used up ``patience`` before the limit of the user."""
    most = min(allowed, patience)
    limited: tuple[str, ...] = ("max_iter", "max_time") if most == allowed else ("max_time",)
    outcome = run(steps, tol=target, max_iter=None if np.isinf(most) else int(most), max_time=max_time,
                  callback=limits.callback, progress=limits.progress, name=name, warn=limited if warn else False,
                  inner=limits.inner, keep=keep)
    if outcome.status == "max_iter" and most < allowed:
        outcome.status = "stalled"
    return outcome


def stall_limit(n: int) -> int:
    """Return the number of pair updates after which pairs count as stalled: the interior-point method then costs less.

    Its time grows with n^3. With half of it 1,000 moons of noise .35 (C=1000, gamma=1) take five times as long, with
    twice as long as now. With more rows than that method takes, it is libsvm's limit, a guard.
    """
    return int(100_000 + n**3 / 8000.0 if n <= INTERIOR_ROWS else max(GUARD_PAIRS, 100 * n))


def guard(n: int, limits: Limits) -> float:
    """Return libsvm's limit on pair updates, or inf if the user set a limit."""
    return max(GUARD_PAIRS, 100 * n) if limits.max_iter is None else np.inf


def on_bounds(
    qp: QP, gram: Array, inner: Array, gap_tol: float, left: Callable[[], float | None] = lambda: None
) -> Array:
    """Put variables of an interior point on their bounds, as many as half of the allowed gap permits.

    Variables near a bound are set to it. Newton steps then solve for the others again, which restores the optimum.
    Where there is no time for such a step the interior point stays as it is. ``gram`` is K with its padding.
    """
    if not affords_step(left(), len(inner)):
        return inner
    K = gram[:, : len(gram)]
    primal, dual, _ = objectives(K @ inner, inner, qp.p, qp.lo, qp.hi, qp.l1)
    for near in (1e-4, 1e-7, 1e-10):  # of hi - lo: what is closer to a bound is put on it
        b = exact_finish(qp, Point(snapped(inner, qp.lo, qp.hi, near), gram=gram), rounds=10, left=left).b
        top, bottom, _ = objectives(K @ b, b, qp.p, qp.lo, qp.hi, qp.l1)
        if top - bottom <= max(0.5 * gap_tol * abs(top), primal - dual):
            return b
    return inner


def _solution(
    point: Point, proof: Certificate, total: Outcome, limits: Limits, *, converged: bool
) -> SVMSolution:
    """Return the point with its certificate as a solution; warn if it did not converge and the user did not stop it."""
    ended = ("stopped", "interrupted") if limits.convex else ("stopped", "interrupted", "exhausted", "converged")
    if not converged and total.status not in ended:
        reason = {"max_iter": "at max_iter", "max_time": "at max_time"}.get(total.status, "without further progress")
        warn_user(f"SVM stopped {reason} after {total.n_iter} iterations with KKT violation {proof.violation:.3g} "
                  f"> tol {limits.tol:.3g} or relative gap {proof.gap / max(abs(proof.primal), TINY):.3g} > "
                  f"{limits.gap_tol:.3g}. Raise the limit or tol, scale the columns of X, or lower C.",
                  NotConvergedWarning)
    return SVMSolution(point.b, proof, total, converged, point.downwards, point.stored)


def solve_svm(
    rows: KernelRows, y: Array, bound: Array, *, tol: float = 1e-3, gap_tol: float = 1e-3, max_time: float | None = None
) -> SVMSolution:
    """Solve the program for targets y in {-1, +1} and bounds C_i > 0, both of shape (n,), see :class:`Limits`.

    For use inside another algorithm: Ctrl-C is passed on to it.
    """
    return solve(classifier_qp(rows, y, bound), Limits(tol=tol, gap_tol=gap_tol, max_time=max_time, inner=True))


def without_loss(
    rows: KernelRows, program: Callable[[float, Start | None], QP], limits: Limits, *, unit: float = 1.0
) -> SVMSolution | None:
    """Solve the program of a C with which no coefficient is at its bound: its solution loses nothing.

    It is the hard margin of a classifier, max_a sum_i a_i - 1/2 (y a)'K(y a), a >= 0, sum_i y_i a_i = 0, and the tube
    that holds every row. C grows a hundredfold, from ``unit``, that of the targets, by the mean squared distance to the
    centre. Each soft dual value is a lower bound on 1/2 ||w||^2 (of a hard margin 1 / (2 margin^2)).

    None if a coefficient still reaches C at 1e10 times the first: rounding hides a margin below 1e-5 of the root of
    that distance.
    """
    left = countdown(limits.max_time)
    first = unit / _variance(rows)
    C = first
    start = None
    while C / first <= HARDEST:
        solution = solve(program(C, start), replace(limits, max_time=left()))
        cut = solution.outcome.status in ("max_iter", "max_time", "stopped", "interrupted")
        if cut or np.abs(solution.b).max() < C * (1 - 1e-9):
            return replace(solution, proof=_of_no_loss(solution))
        start = Start(solution.b, solution.stored, solution.proof.product)
        C *= 100.0  # few solves, each started near its end
    return None


def _of_no_loss(solution: SVMSolution) -> Certificate:
    """Return the certificate for an infinite C: that the last one is as good is measured, of a solution found.

    Of one that was not, the loss counts without end.
    """
    proof = replace(solution.proof, product=replace(solution.proof.product, proven=False))
    return proof if solution.converged else replace(proof, primal=np.inf, gap=np.inf)


def _variance(rows: KernelRows) -> float:
    """Return the mean squared distance to the centre in feature space, from at most 500 rows; 1 if all are equal."""
    some = np.unique(np.linspace(0, len(rows) - 1, VARIANCE_ROWS, dtype=np.intp))
    everything = slice(0, VARIANCE_ROWS)
    K = rows.exact(some)(everything, everything)
    variance = float(np.diagonal(K).mean() - K.mean())
    return variance if variance > 0 else 1.0
