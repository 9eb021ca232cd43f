"""Block decomposition of the program of ``program.py``: each block solves for the variables that violate it most.

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
FULL_MOVE = 0.75  # where entries are expensive, a block grows only if more than this share of its rows move
NEW_ROWS = 0.25  # a block grows once a smaller share than this of the rows it moves had to be computed
SHARE_OF_GAP = 0.1  # a block is solved to this share of the whole violation: the next block would undo more precision
SHARE_OF_WHOLE = 0.02  # the same for a block of all rows, which no other undoes: fewer steps, and yet some for limits
PAIRS_A_ROW = 100  # most pair updates in a block, for each of its rows


class _Solved(NamedTuple):
    """The solved block: its variables, the number of pair updates, and of those with negative curvature of K."""

    inner: Array
    pairs: int
    downwards: int


def block_smo(qp: QP, *, tol: float, start: Point | None = None) -> Steps:
    """Yield a :class:`Point` after each block.

    A block holds the variables that violate the KKT conditions most. Pair updates solve it, and g is updated from the
    rows of the variables that moved. The block grows once few of those rows had to be computed. Where entries are
    expensive, most of its rows must move as well. Where all rows are stored it is large from the start.
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
        share = SHARE_OF_GAP if len(block) < len(b) else SHARE_OF_WHOLE
        inner, pairs, curved = _solve_block(qp, K, g, b, block, max(tol / 2, share * viol), PAIRS_A_ROW * size)
        downwards += curved
        if len(block) == len(b) and rows.real == np.float64:
            gram = K
        moved = np.flatnonzero(inner != b[block])
        if moved.size == 0:  # only rounding is left
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
    """Update pairs of the ``block`` until its own violation is at most ``tol``, with at most ``most`` updates."""
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
    up = up.copy()
    down = -down
    up[kept] = np.inf
    down[kept] = np.inf
    share = (size - len(kept)) // 2
    sides = [np.argpartition(side, share - 1)[:share] for side in (up, down)]
    return np.union1d(kept, np.concatenate(sides))
