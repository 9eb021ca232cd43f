"""Block decomposition of the program of ``program.py``: each block solves for the variables that violate it most.

Sources: Fan, Chen & Lin (JMLR 2005) for the pairs inside a block; Joachims (1999) for the blocks.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from buttress._checks import Array
from buttress._types import Rows
from buttress.checkpoints.journal import Memory
from buttress.gram.rows import KernelRows
from buttress.solvers.qp.active_set import padded
from buttress.solvers.qp.certificate import objectives
from buttress.solvers.qp.pairs import pair_updates
from buttress.solvers.qp.program import QP, Point, slopes
from buttress.solvers.run import Step, Steps, restartable

# Rows of a block. Larger blocks need fewer passes over the stored rows and more entries of their own.
SMALL_BLOCK = 512  # at first, at most
LARGE_BLOCK = 1024  # at last, and at once where all of K is stored
PAIRS_A_ROW = 100  # most pair updates in a block, for each of its rows


@restartable
def block_smo(
    qp: QP, *, tol: float, start: Point | None = None, gap: float | None = None, memory: Memory | None = None
) -> Steps:
    """Yield a :class:`Point` after each block; the last one once the duality gap is at most ``gap`` of the primal.

    A block holds the variables that violate the KKT conditions most. Pair updates solve it, and g is updated from the
    rows of the variables that moved. The block grows once few of those rows had to be computed. Where all rows are
    stored it is large from the start.
    """
    at = Point(qp.start) if start is None else start
    rows = qp.rows
    state = _first(qp, at) if memory is None else _recalled(qp, at, memory)
    while True:
        g = state.g
        b = state.b
        up, down = slopes(g, b, qp.lo, qp.hi, qp.l1)
        viol = float(down.max() - up.min())
        stored = g + qp.p if at.f is None else None
        objective = 0.5 * float(b @ (g - qp.p)) + float(qp.l1 @ np.abs(b))
        point = Point(b.copy(), stored=stored, gram=state.gram, downwards=state.downwards)
        _look(qp, state, viol, gap)
        yield Step(point, violation=viol, objective=objective, done=state.enough, iterations=state.pairs,
                   memory=partial(_memory, state, rows))
        block = working_set(up, down, state.size, state.block)
        K = state.K
        K = rows.block(block) if K is None or len(K) < len(b) else K  # the block of all rows stays the same
        # of the whole violation: the next block would undo more precision, but not that of a block of all rows
        share = 0.1 if len(block) < len(b) else 0.02
        inner = b[block]
        pairs, curved = pair_updates(K, padded(g[block], rows.real), inner, qp.lo[block], qp.hi[block], qp.l1[block],
                                     max(tol / 2, share * viol), PAIRS_A_ROW * state.size)
        change = inner - b[block]
        state.K = K
        state.block = block[np.argsort(-np.abs(change), kind="stable")]
        state.pairs = pairs
        state.downwards += curved
        if len(block) == len(b) and rows.real == np.float64:
            state.gram = K
        moved = np.flatnonzero(change)
        if moved.size == 0:  # only rounding is left
            return
        before = rows.n_computed
        rows.add(g, block[moved], change[moved])
        b[block] = inner
        if rows.n_computed - before < 0.25 * len(moved):  # few of the rows it moves had to be computed: the block grows
            state.size = min(LARGE_BLOCK, rows.capacity, 2 * state.size)


@dataclass
class BlockState:
    """b and g = K b - p, which change in place; the last block, its entries and pair updates, and the next one's size.

    ``block`` begins with the variables that moved farthest: the next block keeps these, which move again.
    ``gram`` and ``downwards`` are those of :class:`Point`; ``looked`` is the violation at which the duality gap was
    computed last, and ``enough`` says whether it was small enough.
    """

    b: Array
    g: Array
    size: int
    block: Rows
    K: Array | None = None
    gram: Array | None = None
    pairs: int = 0
    downwards: int = 0
    looked: float = np.inf
    enough: bool = False


def _first(qp: QP, at: Point) -> BlockState:
    b = at.b.copy()
    f = at.stored if at.f is None else at.f
    g = (qp.rows.times(b) if f is None else f) - qp.p
    n = len(b)
    # one row in eight at first: a pair of ten classes has 300 support vectors among 2,000 rows
    size = LARGE_BLOCK if qp.rows.cache.whole else min(SMALL_BLOCK, max(128, n // 8))
    none = np.empty(0, dtype=np.intp)
    return BlockState(b, g, min(size, qp.rows.capacity), none, gram=at.gram, downwards=at.downwards)


def _look(qp: QP, state: BlockState, viol: float, gap: float | None) -> None:
    """Note whether the duality gap is at most ``gap`` of the primal, where the violation has fallen since last time."""
    # of the violation at the last look: the gap takes a sort of all rows
    if gap is not None and viol <= 0.8 * state.looked:
        state.looked = viol
        primal, dual, _ = objectives(state.g + qp.p, state.b, qp.p, qp.lo, qp.hi, qp.l1)
        state.enough = primal - dual <= gap * abs(primal)


def _memory(state: BlockState, rows: KernelRows) -> Memory:
    """Return what block SMO goes on from: its state, and which rows are stored. Large matrices are computed again."""
    lasting = state.K is not None and len(state.K) == len(state.b)
    return {"b": state.b.copy(), "g": state.g.copy(), "size": state.size, "block": state.block, "pairs": state.pairs,
            "downwards": state.downwards, "looked": state.looked, "enough": state.enough, "lasting": lasting,
            "gram": lasting and state.gram is state.K,
            "K": state.K if lasting and not rows.cache.whole else None, "rows": rows.cache.memory()}


def _recalled(qp: QP, at: Point, memory: Memory) -> BlockState:
    rows = qp.rows
    K = memory["K"]
    if memory["lasting"] and K is None:
        K = rows.block(np.arange(len(rows)))
    rows.cache.restore(memory["rows"])
    return BlockState(memory["b"].copy(), memory["g"].copy(), memory["size"], memory["block"], K,
                      K if memory["gram"] else at.gram, memory["pairs"], memory["downwards"], memory["looked"],
                      memory["enough"])


def working_set(up: Array, down: Array, size: int, last: Rows) -> Rows:
    """Return at most ``size`` sorted indices: the first free ones of ``last``, at most half, then worst violators."""
    n = len(up)
    if size >= n:
        return np.arange(n)
    kept = last[np.isfinite(up[last]) & np.isfinite(down[last])][: size // 2]
    chosen = np.zeros(n, dtype=bool)
    chosen[kept] = True
    share = (size - len(kept)) // 2
    raised = np.flatnonzero((up < down.max()) & ~chosen)  # raising one violates with the lowering of some other one
    lowered = np.flatnonzero((down > up.min()) & ~chosen)
    for side, found in ((up, raised), (-down, lowered)):
        few = len(found) <= share
        chosen[found if few else found[np.argpartition(side[found], share - 1)[:share]]] = True
    return np.flatnonzero(chosen)
