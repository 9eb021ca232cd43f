"""The quadratic program behind SVC, SVR and SVDD, by block decomposition and an exact finish.

    minimise over b   1/2 b'Kb - p'b     subject to   lo <= b <= hi,  sum(b) = c

Optimal when viol = max_{b > lo} g - min_{b < hi} g <= 0 with g = Kb - p; ``tol`` is on viol, libsvm's measure.
Sources: Fan, Chen & Lin (JMLR 2005) for the pairs; Joachims (1999) for the blocks.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress.solvers.compiled import pair_updates
from buttress.solvers.rows import Index, KernelRows
from buttress.solvers.run import Step, Steps

BLOCK = 512
EXACT_ROWS = 1500  # up to this many rows the active-set finish is cheap


@dataclass
class QP:
    """The data of the program: K by its rows, p, lo, hi, each of shape (n,), and a feasible start b."""

    rows: KernelRows
    p: Array
    lo: Array
    hi: Array
    b: Array


def violation(g: Array, b: Array, lo: Array, hi: Array) -> float:
    """Return max_{b > lo} g - min_{b < hi} g; -inf when one of the sets is empty."""
    up, low = b < hi, b > lo
    return float(g[low].max() - g[up].min()) if up.any() and low.any() else -np.inf


def block_smo(qp: QP, *, tol: float) -> Steps:
    """Yield b after each block: the worst violators' rows by one GEMM, pair updates among them, g updated once."""
    b, lo, hi = qp.b.copy(), qp.lo, qp.hi
    g = qp.rows.times(b) - qp.p
    size = min(BLOCK, qp.rows.capacity)
    block, pairs = np.empty(0, dtype=np.intp), 0
    while True:
        viol = violation(g, b, lo, hi)
        yield Step(b.copy(), gap=viol, objective=0.5 * float(b @ (g - qp.p)), iterations=pairs)
        block = working_set(g, b, lo, hi, size, block)
        rows = qp.rows.fetch(block)
        inner, gradient = b[block], g[block]
        pairs = pair_updates(np.ascontiguousarray(rows[:, block]), gradient, inner, lo[block], hi[block],
                             max(tol / 2, 0.1 * viol), 100 * size)
        if pairs == 0:  # rounding alone separates the block's g from its true value: it cannot be improved
            return
        g += (inner - b[block]) @ rows
        b[block] = inner


def working_set(g: Array, b: Array, lo: Array, hi: Array, size: int, last: Index) -> Index:
    """Return ``size`` sorted indices: the worst violators on both sides, then the last block's newest half."""
    n = len(g)
    if size >= n:
        return np.arange(n)
    up, low = np.where(b < hi, g, np.inf), np.where(b > lo, -g, np.inf)
    share = max(1, size // 4 if last.size else size // 2)
    worst = np.union1d(np.argpartition(up, share - 1)[:share], np.argpartition(low, share - 1)[:share])
    kept = np.setdiff1d(last, worst, assume_unique=True)
    kept = kept[np.argsort(-np.abs(g[kept] - np.median(g[worst])), kind="stable")][: size - len(worst)]
    return np.sort(np.concatenate([worst, kept]))


def exact_finish(qp: QP, b: Array, rounds: int = 100) -> Array:
    """Return the optimum to rounding, from a b near it, by an active-set method on the whole Gram matrix.

    Solves for the free variables as if their bounds did not exist, stops at the first bound met, and lets the worst
    violators move when none is met. A step that does not lower the objective (an indefinite kernel) ends it.
    """
    K = qp.rows.kernel(qp.rows.X, qp.rows.Z)
    np.fill_diagonal(K, qp.rows.diagonal)
    tiny = 1e-12 * (np.abs(K @ b).max() + np.abs(qp.p).max())
    for _ in range(rounds):
        b, blocked = _newton_step(K, qp, b)
        if blocked:
            continue
        g = K @ b - qp.p
        if violation(g, b, qp.lo, qp.hi) <= tiny:
            return b
        before, b = b, b.copy()
        pair_updates(K, g, b, qp.lo, qp.hi, tiny, 2 * len(b))
        if not 0.5 * (b - before) @ (K @ (b + before)) - qp.p @ (b - before) < 0:
            return before
    return b


def _newton_step(K: Array, qp: QP, b: Array) -> tuple[Array, bool]:
    """Move the free variables to their unbounded optimum, or to the first bound on the way; say whether one was met."""
    free = np.flatnonzero((b > qp.lo) & (b < qp.hi))
    if len(free) < 2:
        return b, False
    K_free = K[np.ix_(free, free)]
    gradient = K[free] @ b - qp.p[free]
    system = np.block([[K_free, np.ones((len(free), 1))], [np.ones((1, len(free))), np.zeros((1, 1))]])
    move = np.linalg.lstsq(system, np.append(-gradient, 0.0), rcond=1e-13)[0][:-1]
    move -= move.mean()  # the sum stays as it is, whatever the rounding
    slope, curvature = gradient @ move, move @ K_free @ move
    if not slope + 0.5 * curvature < 0:
        return b, False
    room = np.where(move > 0, qp.hi[free] - b[free], qp.lo[free] - b[free])
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(move != 0, room / move, np.inf)
    length = min(1.0, reach.min())
    b = b.copy()
    b[free] = np.clip(b[free] + length * move, qp.lo[free], qp.hi[free])
    if length < 1:
        met = free[reach <= length]
        b[met] = np.where(move[reach <= length] > 0, qp.hi[met], qp.lo[met])
    return b, length < 1


def bias(g: Array, b: Array, lo: Array, hi: Array) -> float:
    """Return the intercept, minus the mean of g over the free variables, else minus the middle of its interval."""
    free = (b > lo) & (b < hi)
    if free.any():
        return -float(g[free].mean())
    up, low = b < hi, b > lo
    ends = [g[low].max()] * bool(low.any()) + [g[up].min()] * bool(up.any())
    return -float(np.mean(ends))
