"""An interior-point method for the program of ``program.py``: few iterations whatever C and the scale of the data.

Each iteration factorises one n x n matrix, which takes n^3 / 3 operations. It is used up to about 3,000 rows, for
problems on which pair updates stall, and in the tests as an independent solution. K must be positive semidefinite on
vectors of sum 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from buttress._checks import Array
from buttress.solvers.linear.free_range import NO_STEP, TO_THE_BOUND, factored, moved, reach, refined
from buttress.solvers.qp.certificate import objectives
from buttress.solvers.qp.program import feasible
from buttress.solvers.run import Step, Steps

INTERIOR_ROWS = 3000  # rows: beyond this, one factorisation usually takes longer than pairs need for the whole problem


@dataclass
class _Point:
    """x, its distances to both bounds (stored, because x - floor would round to 0), their multipliers, and nu."""

    x: Array
    room_below: Array
    room_above: Array
    below: Array
    above: Array
    nu: float


def interior_point(K: Array, p: Array, lo: Array, hi: Array, l1: Array) -> Steps:
    """Yield feasible b for sum(b) = 0 with their relative duality gap, by Mehrotra's predictor and corrector (1992).

    K is first centred and scaled to mean diagonal 1. That only changes the conditioning. With l1 > 0, b is split into
    b = u - v with 0 <= u <= hi and 0 <= v <= -lo; the systems stay n x n.
    """
    n = len(p)
    K = K - K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    scale = max(float(np.diagonal(K).mean()), np.finfo(float).tiny)
    K /= scale
    split = bool((l1 > 0).any())
    signs = np.array([[1.0], [-1.0]]) if split else np.array([[1.0]])
    floor = np.zeros((2, n)) if split else scale * lo[None]
    ceiling = scale * np.stack([hi, -lo]) if split else scale * hi[None]
    linear = l1 - signs * p
    share = -(signs * floor).sum() / (signs * (ceiling - floor)).sum() if not split else 0.5
    point = _start(K, linear, signs, floor, share * (ceiling - floor), ceiling)
    least = np.inf
    idle = 0
    # iterations without progress after which the rest is rounding; a relative gap above a tenth is early
    while idle < (12 if least < 0.1 else 60):
        b = feasible((signs * point.x).sum(axis=0) / scale, lo, hi)
        primal, dual, _ = objectives(scale * (K @ b), b, p, lo, hi, l1)
        gap = (primal - dual) / max(abs(primal), abs(dual), np.finfo(float).tiny)
        yield Step(b, gap=gap, objective=primal - dual)
        if gap < 0.9 * least:  # only a clearly smaller gap is progress
            least = gap
            idle = 0
        else:
            idle += 1
        ahead = _mehrotra_step(K, linear, signs, point)
        if ahead is None:
            return
        point = ahead


def _start(K: Array, linear: Array, signs: Array, floor: Array, room: Array, ceiling: Array) -> _Point:
    """Return x = floor + room with multipliers that satisfy the dual equations and are bounded away from 0."""
    x = floor + room
    slope = signs * (K @ (signs * x).sum(axis=0)) + linear
    nu = float(np.median(signs * slope))
    rest = slope - signs * nu
    delta = max(float(np.abs(rest).mean()), 1e-3)  # away from 0, when K has a mean diagonal of 1
    return _Point(x, room, ceiling - x, np.maximum(rest, 0) + delta, np.maximum(-rest, 0) + delta, nu)


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # beside a constant column of 1e8; None is returned
def _mehrotra_step(K: Array, linear: Array, signs: Array, at: _Point) -> _Point | None:
    """Take one predictor-corrector step; None if the matrix cannot be factorised or the step is too short."""
    room_below = at.room_below
    room_above = at.room_above
    b = (signs * at.x).sum(axis=0)
    dual_residual = signs * (K @ b - at.nu) + linear - at.below + at.above
    theta = at.below / room_below + at.above / room_above
    spread = 1 / (1 / theta).sum(axis=0)
    solve = _factorised(K, spread)
    if solve is None:
        return None
    ones = solve(np.ones(len(b)))

    def direction(target_below: Array, target_above: Array) -> _Point:
        right = -dual_residual + target_below / room_below - target_above / room_above
        base = solve((signs * right / theta).sum(axis=0) * spread)
        d_nu = (-b.sum() - base.sum()) / ones.sum()
        d_b = base + d_nu * ones
        force = spread * ((signs * right / theta).sum(axis=0) - d_b)  # K d_b - d_nu, in a form without cancellation
        d_x = (right - signs * force) / theta
        return _Point(d_x, d_x, -d_x, (target_below - at.below * d_x) / room_below,
                      (target_above + at.above * d_x) / room_above, d_nu)

    mu = float((at.below * room_below + at.above * room_above).mean()) / 2
    affine = direction(-at.below * room_below, -at.above * room_above)
    after = moved(at, _reach(at, affine), affine)
    left = float((after.below * after.room_below + after.above * after.room_above).mean()) / 2
    centre = (left / mu) ** 3 * mu
    move = direction(centre - at.below * room_below - affine.below * affine.x,
                     centre - at.above * room_above + affine.above * affine.x)
    length = TO_THE_BOUND * _reach(at, move)
    if not (np.isfinite(length) and length > NO_STEP and np.isfinite(move.nu)):
        return None
    return moved(at, length, move)


def _factorised(K: Array, spread: Array) -> Callable[[Array], Array] | None:
    """Return x -> (K + diag(spread))^-1 x by Cholesky; if rounding makes it fail, a little is added to the diagonal."""
    root = np.sqrt(spread + np.diagonal(K))
    system = K / root[:, None] / root
    np.fill_diagonal(system, 1.0)
    try:
        factor = factored(system)
    except scipy.linalg.LinAlgError:
        return None

    def rough(right: Array) -> Array:
        return scipy.linalg.cho_solve(factor, right / root, check_finite=False) / root

    return lambda right: refined(rough, lambda x: K @ x + spread * x, right)


def _reach(at: _Point, move: _Point) -> float:
    """Return the longest step at most 1 that keeps everything positive."""
    return reach([(at.room_below, move.room_below), (at.room_above, move.room_above), (at.below, move.below),
                  (at.above, move.above)], 1.0)
