"""Block decomposition of the program of ``program.py``: the worst violators are solved for, block after block.

Sources: Fan, Chen & Lin (JMLR 2005) for the pairs inside a block; Joachims (1999) for the blocks.
"""

from typing import NamedTuple

import numpy as np

from buttress._checks import Array
from buttress.gram.compiled import WIDTH_MULTIPLE
from buttress.gram.rows import Index, KernelRows
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.qp.program import QP, Point, slopes
from buttress.solvers.run import Step, Steps

# Rows of a block. Larger blocks need fewer passes over the stored rows and more entries of their own.
WIDE_BLOCK = 256  # at first, where X has many columns and an entry is expensive
SMALL_BLOCK = 512  # at first, elsewhere
LARGE_BLOCK = 1024  # at last, and at once where all of K is stored
FULL_MOVE = 0.75  # share of a block's rows that must move before a block of expensive entries grows
NEW_ROWS = 0.25  # a block grows once a smaller share than this of the rows it moves had to be computed
SHARE_OF_GAP = 0.1  # a block is solved to this share of the whole violation: more would be lost to the next block
PAIRS_A_ROW = 100  # most pair updates in a block for each of its rows


class _Solved(NamedTuple):
    """What the pairs made of a block: its variables, the pair updates, and those along which K curves downwards."""

    inner: Array
    pairs: int
    downwards: int


def block_smo(qp: QP, *, tol: float, start: Point | None = None) -> Steps:
    """Yield a :class:`Point` after each block: pairs among the worst violators, g updated by the rows that moved.

    The block grows once few of the rows that it moves are new, and where entries are expensive only if most of its rows
    move; where all rows are stored it is large at once.
    """
    at = Point(qp.start) if start is None else start
    rows = qp.rows
    b = at.b.copy()
    g = (rows.times(b) if at.f is None else at.f) - qp.p
    gram = at.gram
    downwards = at.downwards
    block = np.empty(0, dtype=np.intp)
    pairs = 0
    K: Array | None = None
    size = first_size(rows)
    while True:
        up, down = slopes(g, b, qp.lo, qp.hi, qp.l1)
        viol = float(down.max() - up.min())
        stored = g + qp.p if at.f is None else None
        objective = 0.5 * float(b @ (g - qp.p)) + float(qp.l1 @ np.abs(b))
        yield Step(Point(b.copy(), None, stored, gram, downwards), gap=viol, objective=objective, iterations=pairs)
        block = working_set(up, down, size, block)
        K = rows.block(block, K) if K is None or len(K) < len(b) else K  # the block of all rows stays the same
        inner, pairs, curved = _solve_block(qp, K, g, b, block, max(tol / 2, SHARE_OF_GAP * viol), PAIRS_A_ROW * size)
        downwards += curved
        if len(block) == len(b) and rows.real == np.float64:
            gram = K
        moved = np.flatnonzero(inner != b[block])
        if moved.size == 0:  # rounding alone separates the block's g from its true value: it cannot be improved
            return
        before = rows.n_computed
        rows.add(g, block[moved], (inner - b[block])[moved])
        b[block] = inner
        full = not rows.wide or len(moved) > FULL_MOVE * size
        if full and rows.n_computed - before < NEW_ROWS * len(moved):
            size = min(LARGE_BLOCK, rows.capacity, 2 * size)


def first_size(rows: KernelRows) -> int:
    """Return how many rows the first block has."""
    if rows.cache.whole:
        return min(LARGE_BLOCK, rows.capacity)
    return min(WIDE_BLOCK if rows.wide else SMALL_BLOCK, rows.capacity)


def _solve_block(qp: QP, K: Array, g: Array, b: Array, block: Index, tol: float, most: int) -> _Solved:
    """Update pairs of the ``block`` until its own violation is at most ``tol``, with ``most`` updates."""
    inner = b[block]
    gradient = np.zeros(-(-len(block) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE, dtype=qp.rows.real)
    gradient[: len(block)] = g[block]
    return _Solved(inner, *pair_updates(K, gradient, inner, qp.lo[block], qp.hi[block], qp.l1[block], tol, most))


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
    up[kept] = np.inf
    down[kept] = np.inf
    share = (size - len(kept)) // 2
    sides = [np.argpartition(side, share - 1)[:share] for side in (up, down)]
    return np.union1d(kept, np.concatenate(sides))
