"""The compiled pair updates of sequential minimal optimisation (SMO) on a Gram matrix.

Arrays over the variables are (m / 64, 64), variable t at [t >> 6, t & 63]: LLVM then sees loops of 64 without a
remainder and indices that are never negative, and vectorises them.
"""
import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_inner, compile_kernel, maximum, minimum, zero
from buttress.gram.compiled import FAST, WIDTH_MULTIPLE

# Used for infinity, which fast arithmetic does not allow: far larger than any gradient, of targets of up to 1e100 too
FAR = {np.dtype(np.float64): 1e300, np.dtype(np.float32): 1e30}
TAU = 1e-12  # least curvature of a pair, as in libsvm


@compile_inner(FAST)
def _move_and_scan(
    g: Array, step: float, K: Array, i: int, j: int, up: Array, low: Array, far: float
) -> tuple[float, float, int]:
    """Add step * (K_i - K_j) to g; return the least slope up, the largest one down, and where the first of them is."""
    least = far
    most = -least
    block = zero
    for s in range(len(g)):
        first = least
        for t in range(64):
            slope = g[s, t] + step * (K[i, s, t] - K[j, s, t])
            g[s, t] = slope
            first = minimum(first, slope + up[s, t])
            most = maximum(most, slope + low[s, t])
        if first < least:
            least = first
            block = s
    place = zero
    first = far
    for t in range(64):
        slope = g[block, t] + up[block, t]
        if slope < first:
            first = slope
            place = t
    return least, most, 64 * block + place


@compile_inner(FAST)
def _best_partner(
    g: Array, low: Array, least: float, own: float, diagonal: Array, K: Array, i: int
) -> tuple[int, float, float]:
    """Return the j with the largest gain rise^2 / curvature of the pair (i, j), its curvature and its rise.

    ``least`` is the slope of i, and ``own`` its diagonal entry.
    """
    tau = g.dtype.type(TAU)
    none = g.dtype.type(0.0)
    gain = -tau
    block = zero
    for s in range(len(g)):
        best = none
        for t in range(64):
            rise = maximum(g[s, t] + low[s, t] - least, none)
            entry = K[i, s, t]
            best = maximum(best, rise * rise / maximum(own + diagonal[s, t] - entry - entry, tau))
        if best > gain:
            gain = best
            block = s
    place = zero
    gain = -tau
    for t in range(64):
        rise = maximum(g[block, t] + low[block, t] - least, none)
        entry = K[i, block, t]
        best = rise * rise / maximum(own + diagonal[block, t] - entry - entry, tau)
        if best > gain:
            gain = best
            place = t
    entry = K[i, block, place]
    return 64 * block + place, own + diagonal[block, place] - entry - entry, g[block, place] + low[block, place] - least


@compile_inner(FAST)
def _offsets(t: int, b: Array, lo: Array, hi: Array, l1: Array, up: Array, low: Array, far: float) -> None:
    """Set what is added to g_t for its slopes up and down: the slope of l1 |b|, or +-far at a bound."""
    at = b[t]
    kink = l1[t]
    up[t >> 6, t & 63] = far if at >= hi[t] else (kink if at >= 0 else -kink)
    low[t >> 6, t & 63] = -far if at <= lo[t] else (kink if at > 0 else -kink)


@compile_kernel(
    [
        f"UniTuple(int64, 2)({real}[:,:,::1], {real}[:,::1], {real}[:,:,::1], {4 * 'float64[::1], '}{real}, float64, "
        "int64)"
        for real in ("float32", "float64")
    ],
    fastmath=FAST,
)
def _updates(
    K: Array, g: Array, memory: Array, b: Array, lo: Array, hi: Array, l1: Array, far: float, tol: float, max_pairs: int
) -> tuple[int, int]:
    """Do what :func:`pair_updates` does; ``memory`` is for the diagonal and what slopes up and down have besides.

    The first step is 0, for any i and j. Where a float32 gradient is so large that FAR does not hide it, what fills the
    last block up may be the best: there is no such variable, and the pairs end.
    """
    diagonal = memory[0]
    up = memory[1]
    low = memory[2]
    for s in range(len(g)):
        for t in range(64):
            diagonal[s, t] = K.dtype.type(0.0)
            up[s, t] = far
            low[s, t] = -far
    for t in range(b.size):
        diagonal[t >> 6, t & 63] = K[t, t >> 6, t & 63]
        _offsets(t, b, lo, hi, l1, up, low, far)
    i = j = zero
    step = K.dtype.type(0.0)
    downwards = zero
    for pairs in range(max_pairs):
        least, most, i = _move_and_scan(g, step, K, i, j, up, low, far)
        if i >= b.size or not most - least > tol:
            return pairs, downwards
        own = diagonal[i >> 6, i & 63]
        j, curvature, rise = _best_partner(g, low, least, own, diagonal, K, i)
        if j >= b.size:
            return pairs, downwards
        if curvature < -1e-6 * abs(own):  # more than the rounding even of float32 rows
            downwards += 1
        end_i = 0.0 if b[i] < 0 and l1[i] > 0 else hi[i]
        end_j = 0.0 if b[j] > 0 and l1[j] > 0 else lo[j]
        length = minimum(rise / (curvature if curvature > TAU else TAU), minimum(end_i - b[i], b[j] - end_j))
        # a variable is set to the bound or kink that it reaches, so that rounding cannot miss it
        b[i] = end_i if length == end_i - b[i] else b[i] + length
        b[j] = end_j if length == b[j] - end_j else b[j] - length
        step = K.dtype.type(length)
        _offsets(i, b, lo, hi, l1, up, low, far)
        _offsets(j, b, lo, hi, l1, up, low, far)
    return max_pairs, downwards


def pair_updates(
    K: Array, g: Array, b: Array, lo: Array, hi: Array, l1: Array, tol: float, max_pairs: int
) -> tuple[int, int]:
    """Sequential minimal optimisation with second-order pairs (Fan, Chen & Lin 2005) on a whole Gram matrix.

    Minimises 1/2 b'Kb - p'b + l1'|b| over lo <= b <= hi with the sum of b fixed; g is (m,), m the next multiple of 64
    from q, and K (q, m) or wider by such multiples. ``g = K b - p`` and ``b`` are updated in place until the largest
    slope down is within ``tol`` of the least slope up. Returns the number of pairs updated, and the number of those
    along which K has negative curvature. Ties go to the lowest index.
    """
    blocks = (-1, WIDTH_MULTIPLE)
    memory = np.empty((3, len(g) // WIDTH_MULTIPLE, WIDTH_MULTIPLE), K.dtype)
    pairs: int
    downwards: int
    pairs, downwards = _updates(K.reshape(len(K), *blocks), g.reshape(blocks), memory, b, lo, hi, l1,
                                K.dtype.type(FAR[K.dtype]), tol, max_pairs)
    return pairs, downwards
