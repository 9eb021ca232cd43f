"""The quadratic program behind SVC, SVR and SVDD, by block decomposition and an exact finish.

    minimise over b   1/2 b'Kb - p'b + l1'|b|     subject to   lo <= b <= hi,  sum(b) = c

With g = Kb - p the slope of raising b_i is g_i + l1_i (g_i - l1_i below 0), that of lowering it g_i + l1_i above 0 and
g_i - l1_i elsewhere. Optimal when viol = max_{b > lo} (slope down) - min_{b < hi} (slope up) <= 0; ``tol`` is on viol,
libsvm's measure. Sources: Fan, Chen & Lin (JMLR 2005) for the pairs; Joachims (1999) for the blocks.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from buttress._checks import Array
from buttress.gram.compiled import LANES
from buttress.gram.rows import Index, KernelRows
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.run import Step, Steps

WIDE_BLOCK, SMALL_BLOCK, LARGE_BLOCK = 256, 512, 1024
EXACT_ROWS = 1500  # up to this many rows the active-set finish is cheap


@dataclass
class QP:
    """The data of the program: K by its rows, p, lo, hi, each of shape (n,), a feasible start b, and l1 >= 0.

    ``downwards`` counts the pair updates along which K curves downwards: none, but for rounding, unless K is
    indefinite. ``f`` is K b of the start where it is known better than the stored rows give it; ``reached`` is the b
    that the blocks last came to and its K b from the stored rows. ``gram`` is K in float64, zero columns added up to a
    multiple of 64, once it has been needed whole.
    """

    rows: KernelRows
    p: Array
    lo: Array
    hi: Array
    b: Array
    l1: Array | float = 0.0
    downwards: int = 0
    f: Array | None = None
    reached: tuple[Array, Array] | None = None
    gram: Array | None = None

    def __post_init__(self) -> None:
        self.l1 = np.full(len(self.p), self.l1, dtype=np.float64)


def slopes(g: Array, b: Array, lo: Array, hi: Array, l1: Array | float = 0.0) -> tuple[Array, Array]:
    """Return the slopes of raising (inf where b = hi) and of lowering each variable (-inf where b = lo)."""
    up = np.where(b < hi, g + np.where(b >= 0, l1, -np.asarray(l1)), np.inf)
    down = np.where(b > lo, g + np.where(b > 0, l1, -np.asarray(l1)), -np.inf)
    return up, down


def violation(g: Array, b: Array, lo: Array, hi: Array, l1: Array | float = 0.0) -> float:
    """Return max_{b > lo} (slope down) - min_{b < hi} (slope up); -inf when one of the sets is empty."""
    up, down = slopes(g, b, lo, hi, l1)
    return float(down.max() - up.min())


def block_smo(qp: QP, *, tol: float) -> Steps:
    """Yield b after each block: the worst violators, pair updates among them, g updated by the rows that moved.

    The block grows once few of the rows that it moves are new, and where entries are expensive only if most of its rows
    move; where all rows are stored it is large at once.
    """
    b, lo, hi, l1, rows = qp.b.copy(), qp.lo, qp.hi, np.asarray(qp.l1), qp.rows
    g = (rows.times(b) if qp.f is None else qp.f) - qp.p
    block, pairs, K = np.empty(0, dtype=np.intp), 0, None
    size = min(LARGE_BLOCK if rows.cache.whole else WIDE_BLOCK if rows.wide else SMALL_BLOCK, rows.capacity)
    while True:
        up, down = slopes(g, b, lo, hi, l1)
        viol = float(down.max() - up.min())
        state = b.copy()
        qp.reached = (state, g + qp.p) if qp.f is None else None
        yield Step(state, gap=viol, objective=0.5 * float(b @ (g - qp.p)) + float(l1 @ np.abs(b)), iterations=pairs)
        block = working_set(up, down, size, block)
        inner, gradient = b[block], np.zeros(-(-len(block) // LANES) * LANES, dtype=rows.real)
        gradient[: len(block)] = g[block]
        K = rows.block(block, K) if K is None or len(K) < len(b) else K  # the block of all rows stays the same
        pairs, downwards = pair_updates(K, gradient, inner, lo[block], hi[block], l1[block],
                                        max(tol / 2, 0.1 * viol), 100 * size)
        qp.downwards += downwards
        if len(block) == len(b) and rows.real == np.float64:
            qp.gram = K
        moved, before = np.flatnonzero(inner != b[block]), rows.n_computed
        if moved.size == 0:  # rounding alone separates the block's g from its true value: it cannot be improved
            return
        rows.add(g, block[moved], (inner - b[block])[moved])
        b[block] = inner
        full = not rows.wide or len(moved) > 0.75 * size
        if full and rows.n_computed - before < 0.25 * len(moved):
            size = min(LARGE_BLOCK, rows.capacity, 2 * size)


def working_set(up: Array, down: Array, size: int, last: Index) -> Index:
    """Return ``size`` sorted indices: the last block's free variables, at most half, then the worst violators."""
    n = len(up)
    if size >= n:
        return np.arange(n)
    kept = last[np.isfinite(up[last]) & np.isfinite(down[last])]
    if len(kept) > size // 2:
        middle = 0.5 * (up.min() + down.max())
        kept = kept[np.argsort(-np.abs(up[kept] - middle), kind="stable")][: size // 2]
    up, down = up.copy(), -down
    up[kept] = down[kept] = np.inf
    share = (size - len(kept)) // 2
    sides = [np.argpartition(side, share - 1)[:share] for side in (up, down)]
    return np.union1d(kept, np.concatenate(sides))


def exact_finish(qp: QP, b: Array, rounds: int | None = None) -> Array:
    """Return the optimum to rounding, from a b near it, by an active-set method on the whole Gram matrix.

    Solves for the free variables as if their bounds did not exist, stops at the first bound met, and lets the worst
    violators move when none is met. A step that does not lower the objective (an indefinite kernel) ends it.
    """
    n, l1 = len(b), np.asarray(qp.l1)
    if qp.gram is None:
        qp.gram = np.zeros((n, -(-n // LANES) * LANES))
        qp.rows.gram(qp.gram[:, :n])
    padded, K = qp.gram, qp.gram[:, :n]
    tiny = 1e-12 * (np.abs(K @ b).max() + np.abs(qp.p).max())
    for _ in range(100 + 30_000 // n if rounds is None else rounds):
        b, blocked = newton_step(K, qp, l1, b)
        if blocked:
            continue
        g = np.zeros(padded.shape[1])
        g[:n] = K @ b - qp.p
        if violation(g[:n], b, qp.lo, qp.hi, l1) <= tiny:
            return b
        before, b = b, b.copy()
        pair_updates(padded, g, b, qp.lo, qp.hi, l1, tiny, 2 * n)
        change = 0.5 * (b - before) @ (K @ (b + before)) - qp.p @ (b - before) + l1 @ (np.abs(b) - np.abs(before))
        if not change < 0:
            return before
    return b


def newton_step(K: Array, qp: QP, l1: Array, b: Array) -> tuple[Array, bool]:
    """Move the free variables to their unbounded optimum, or to the first bound or kink on the way.

    Returns the new b and whether it was stopped on the way. A variable on its kink at 0 is not free.
    """
    free = np.flatnonzero((b > qp.lo) & (b < qp.hi) & ((b != 0) | (l1 == 0)))
    if len(free) < 2:
        return b, False
    at, kinked = b[free], l1[free] > 0
    lo = np.where(kinked & (at > 0), np.maximum(qp.lo[free], 0), qp.lo[free])
    hi = np.where(kinked & (at < 0), np.minimum(qp.hi[free], 0), qp.hi[free])
    K_free = K[np.ix_(free, free)]
    gradient = K[free] @ b - qp.p[free] + l1[free] * np.sign(at)
    move = _bordered_solve(K_free, -gradient)
    move -= move.mean()  # the sum stays as it is, whatever the rounding
    slope, curvature = gradient @ move, move @ K_free @ move
    if not slope + 0.5 * curvature < 0:
        return b, False
    room = np.where(move > 0, hi - at, lo - at)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(move != 0, room / move, np.inf)
    length = min(1.0, reach.min())
    b = b.copy()
    b[free] = np.clip(at + length * move, lo, hi)
    if length < 1:
        met = reach <= length
        b[free[met]] = np.where(move > 0, hi, lo)[met]
    return b, length < 1


def _bordered_solve(K: Array, right: Array) -> Array:
    """Return x with K x + nu = right and sum(x) = 0; the least such x where K is singular."""
    size = len(K)
    system = np.ones((size + 1, size + 1))
    system[:size, :size], system[size, size] = K, 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
        try:
            x = scipy.linalg.solve(system, np.append(right, 0.0), assume_a="sym")
        except (scipy.linalg.LinAlgError, scipy.linalg.LinAlgWarning, ValueError):
            x = scipy.linalg.lstsq(system, np.append(right, 0.0), cond=1e-13, lapack_driver="gelsy")[0]
    return x[:-1]


def bias(g: Array, b: Array, lo: Array, hi: Array, l1: Array | float = 0.0) -> float:
    """Return the intercept, minus the mean slope of the free variables, else minus the middle of its interval."""
    kink = (b == 0) & (np.asarray(l1) > 0)
    free = (b > lo) & (b < hi) & ~kink
    if free.any():
        return -float((g + np.asarray(l1) * np.sign(b))[free].mean())
    up, down = slopes(g, b, lo, hi, l1)
    ends = [end for end in (down.max(), up.min()) if np.isfinite(end)]
    return -float(np.mean(ends))
