"""The compiled pair updates of sequential minimal optimisation (SMO), on a Gram matrix or on rows copied from one.

A problem of few rows of a large Gram matrix touches some of its own rows only: those of the variables that move. They
are copied when a pair first needs them, which costs less than copying all of them.
"""

import numba
import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._intrinsics import maximum, minimum
from buttress._types import Mask
from buttress.gram.compiled import FAST
from buttress.gram.rows import Index

FAR = 1e30  # used for infinity, which fast arithmetic does not allow; its square root is larger than any gradient
TAU = 1e-12  # least curvature of a pair, as in libsvm
DOWNWARDS = -1e-6  # of K_ii: a curvature below this is not rounding, not even of float32 rows

# A larger Gram matrix, the numbers of the rows of K in it, and which rows of K are still to be copied: row i is
# whole[index[i], index]
Source = tuple[Array, Index, Mask]


@numba.njit(error_model="numpy", fastmath=FAST)
def _move_and_scan(g: Array, step: float, row: Array, other: Array, up: Array, low: Array) -> tuple[float, float, int]:
    """Add step * (row - other) to g; return the least slope up, the largest slope down, and a block start.

    The last one is the start of the 64 entries that hold the least slope up. The arrays are sliced by blocks so that
    LLVM knows that no index is negative and can vectorise.
    """
    real = g.dtype.type
    block = 0
    least = real(FAR)
    most = real(-FAR)
    for start in range(0, g.size, 64):
        g_ = g[start : start + 64]
        up_ = up[start : start + 64]
        low_ = low[start : start + 64]
        row_ = row[start : start + 64]
        other_ = other[start : start + 64]
        first = real(FAR)
        last = real(-FAR)
        for t in range(64):
            slope = g_[t] + step * (row_[t] - other_[t])
            g_[t] = slope
            first = minimum(first, slope + up_[t])
            last = maximum(last, slope + low_[t])
        if first < least:
            least = first
            block = start
        most = max(most, last)
    return least, most, block


@numba.njit(error_model="numpy", fastmath=FAST)
def _best_partner(g: Array, low: Array, least: float, own: float, diagonal: Array, row: Array) -> int:
    """Return the j with the largest gain rise^2 / curvature of the pair (i, j); i has slope ``least``, K_i is ``row``.
    """
    real = g.dtype.type
    block = 0
    gain = real(0.0)
    tau = real(TAU)
    for start in range(0, g.size, 64):
        g_ = g[start : start + 64]
        row_ = row[start : start + 64]
        low_ = low[start : start + 64]
        diagonal_ = diagonal[start : start + 64]
        best = real(0.0)
        for t in range(64):
            rise = maximum(g_[t] + low_[t] - least, real(0.0))
            best = maximum(best, rise * rise / maximum(own + diagonal_[t] - real(2.0) * row_[t], tau))
        if best > gain:
            gain = best
            block = start
    j = block
    gain = real(-1.0)
    for t in range(block, block + 64):
        rise = max(g[t] + low[t] - least, real(0.0))
        best = rise * rise / max(own + diagonal[t] - real(2.0) * row[t], tau)
        if best > gain:
            j = t
            gain = best
    return j


@numba.njit(error_model="numpy", fastmath=FAST)
def _offsets(t: int, b: Array, lo: Array, hi: Array, l1: Array, up: Array, low: Array) -> None:
    """Set what is added to g_t for its slopes up and down: the slope of l1 |b|, or +-FAR at a bound."""
    real = up.dtype.type
    up[t] = real(FAR) if b[t] >= hi[t] else real(l1[t] if b[t] >= 0 else -l1[t])
    low[t] = real(-FAR) if b[t] <= lo[t] else real(l1[t] if b[t] > 0 else -l1[t])


@numba.njit(error_model="numpy")
def _begin(b: Array, lo: Array, hi: Array, l1: Array, up: Array, low: Array) -> None:
    """Set the offsets of every variable; columns beyond the variables are at both bounds."""
    for t in range(up.size):
        up[t] = FAR
        low[t] = -FAR
    for t in range(b.size):
        _offsets(t, b, lo, hi, l1, up, low)


@numba.njit(error_model="numpy")
def copy_row(K: Array, i: int, source: Source) -> None:
    """Copy row i of K from the matrix that K is part of, with zeros beyond it, where it is missing."""
    whole, index, missing = source
    if not missing[i]:
        return
    missing[i] = False
    entire = whole[index[i]]
    row = K[i]
    for t in range(index.size):
        row[t] = entire[index[t]]
    for t in range(index.size, row.size):
        row[t] = 0


@numba.njit(error_model="numpy", fastmath=FAST)
def improve(
    K: Array, g: Array, b: Array, lo: Array, hi: Array, l1: Array, tol: float, max_pairs: int, diagonal: Array,
    source: Source,
) -> tuple[int, int]:
    """Do what :func:`pair_updates` does, with the diagonal (m,) given and rows of K copied as they are needed."""
    m = g.size
    real = K.dtype.type
    up = np.empty(m, K.dtype)
    low = np.empty(m, K.dtype)
    _begin(b, lo, hi, l1, up, low)
    i = 0
    j = 0
    copy_row(K, 0, source)
    step = real(0.0)
    downwards = 0
    for pairs in range(max_pairs):
        least, most, block = _move_and_scan(g, step, K[i], K[j], up, low)
        if not most - least > tol:
            return pairs, downwards
        i = block
        for t in range(block + 1, block + 64):
            if g[t] + up[t] < g[i] + up[i]:
                i = t
        copy_row(K, i, source)
        row = K[i]
        own = diagonal[i]
        j = _best_partner(g, low, least, own, diagonal, row)
        copy_row(K, j, source)
        curvature = own + diagonal[j] - real(2.0) * row[j]
        downwards += curvature < DOWNWARDS * abs(own)
        room_i = -b[i] if b[i] < 0 and l1[i] > 0 else hi[i] - b[i]
        room_j = b[j] if b[j] > 0 and l1[j] > 0 else b[j] - lo[j]
        length = min((g[j] + low[j] - least) / max(curvature, real(TAU)), room_i, room_j)
        # set the variable to the bound or kink it reaches, so that rounding cannot miss it
        b[i] = (0.0 if b[i] < 0 and l1[i] > 0 else hi[i]) if length == room_i else b[i] + length
        b[j] = (0.0 if b[j] > 0 and l1[j] > 0 else lo[j]) if length == room_j else b[j] - length
        step = real(length)
        _offsets(i, b, lo, hi, l1, up, low)
        _offsets(j, b, lo, hi, l1, up, low)
    return max_pairs, downwards


@compile_kernel(
    [
        f"UniTuple(int64, 2)({real}[:,::1], {real}[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
        " float64, int64)"
        for real in ("float32", "float64")
    ],
    fastmath=FAST,
)
def pair_updates(
    K: Array, g: Array, b: Array, lo: Array, hi: Array, l1: Array, tol: float, max_pairs: int
) -> tuple[int, int]:
    """Sequential minimal optimisation with second-order pairs (Fan, Chen & Lin 2005) on a whole Gram matrix.

    Minimises 1/2 b'Kb - p'b + l1'|b| over lo <= b <= hi with the sum of b fixed; K is (q, m) and g (m,), m the next
    multiple of 64 from q. ``g = K b - p`` and ``b`` are updated in place until the largest slope down is within
    ``tol`` of the least slope up. Returns the number of pairs updated, and the number of those along which K has
    negative curvature. Ties go to the lowest index.
    """
    diagonal = np.zeros(g.size, K.dtype)
    for t in range(b.size):
        diagonal[t] = K[t, t]
    missing = np.zeros(b.size, np.bool_)
    return improve(K, g, b, lo, hi, l1, tol, max_pairs, diagonal, (K, np.empty(0, np.int64), missing))
