"""The compiled loop over the variables of the program of ``program.py`` that measures a point.

On a few hundred rows the temporary arrays of numpy expressions would cost more than the numbers.
"""

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_inner, compile_kernel, zero
from buttress._proof import U
from buttress._types import Rows

PART = 256  # terms that are summed on their own, so that rounding grows with their number and not with n
SINGULAR = 1e-13  # relative pivots and singular values below this count as 0: K is singular on the free variables


@compile_inner()
def _term(r: float, at: float, low: float, high: float, kink: float) -> float:
    """Return the term h(r) of ``certificate.py`` of one variable."""
    loss = high * (r - kink) if r > kink else (low * (r + kink) if r < -kink else 0.0)
    return loss + kink * abs(at) - at * r


@compile_kernel("UniTuple(float64, 8)(" + 7 * "float64[::1], " + "float64)")
def measures(
    f: Array, errors: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array, intercept: float
) -> tuple[float, float, float, float, float, float, float, float]:
    """Return primal - dual at this intercept, the dual, the KKT violation, and the best slope: minus the bias.

    The first is a sum of terms that are each at least 0, the fourth the mean slope of the free variables, or NaN. Then
    come three sums of ``certificate.py``, for f with ``errors``: of bounds of these terms and what their evaluation
    adds, of that alone, and of what the dual is off by; and how many b are out of their bounds.
    """
    gap = dual = total = free = proven = evaluation = width = outside = 0.0
    least = np.inf
    most = -np.inf
    for start in range(0, b.size, PART):
        some = half = bounds = 0.0
        for i in range(start, start + PART if start + PART < b.size else b.size):
            at = b[i]
            low = lo[i]
            high = hi[i]
            kink = l1[i]
            g = f[i] - p[i]
            up = g + kink if at >= 0 else g - kink
            down = g + kink if at > 0 else g - kink
            if at < high and up < least:
                least = up
            if at > low and down > most:
                most = down
            if low < at < high and up == down:
                total += up
                free += 1.0
            r = -g - intercept
            some += abs(_term(r, at, low, high, kink))
            half += at * (p[i] - 0.5 * f[i]) - kink * abs(at)
            size = abs(p[i]) + abs(f[i])
            room = errors[i] + 4 * U * (size + abs(intercept))
            rounding = 16 * U * (high - low) * (abs(r) + room + kink)
            above = _term(r + room, at, low, high, kink)
            below = _term(r - room, at, low, high, kink)
            bounds += (below if above < below else above) + rounding
            evaluation += rounding
            width += abs(at) * ((b.size + 4) * U * (size + kink) + 0.5 * errors[i])
            outside += 0.0 if low <= at <= high else 1.0
        gap += some
        dual += half
        proven += bounds
    return gap, dual, most - least, total / free, proven, evaluation, width, outside


@compile_kernel("int64(float64[:,::1], " + 5 * "float64[::1], " + "int64[::1], float64[:,::1])")
def newton(K: Array, g: Array, b: Array, lo: Array, hi: Array, l1: Array, free: Rows, system: Array) -> int:
    """Move the free variables of b to their unbounded optimum, or to the first bound or kink on the way.

    Returns 1 if a bound or kink stopped it, 0 if none did, -1 where K is singular on the ``free``; ``system`` is memory
    of shape (s, s + 2), s their number. The step x minimises 1/2 x'K_F x + g_F'x with sum(x) = 0, which is the same
    program for K_F + c 11' for every c: x is found by elimination in the columns K_F + c 11', 1 and -g_F.
    """
    size = free.size
    shift = K[free[0], free[0]]
    for k in range(size):
        i = free[k]
        system[k, size] = 1.0
        system[k, size + 1] = (-l1[i] if b[i] > 0 else l1[i]) - g[i]
        for j in range(size):
            system[k, j] = K[i, free[j]] + shift
    for k in range(size):
        if not system[k, k] > SINGULAR * shift:
            return -1
        for i in range(size):
            weight = system[i, k] / system[k, k]
            if i != k:
                for j in range(k, size + 2):
                    system[i, j] -= weight * system[k, j]
    level = total = 0.0
    for k in range(size):
        level += system[k, size] / system[k, k]
        total += system[k, size + 1] / system[k, k]
    length = 1.0
    first = zero - 1
    for k in range(size):
        i = free[k]
        step = (system[k, size + 1] - total / level * system[k, size]) / system[k, k]
        end = 0.0 if l1[i] > 0 and step * b[i] < 0 else (hi[i] if step > 0 else lo[i])
        if abs(step) * length > abs(end - b[i]):
            length = (end - b[i]) / step
            first = k
        system[k, k] = step
        system[k, size] = end
    for k in range(size):
        i = free[k]
        moved = b[i] + length * system[k, k]
        moved = lo[i] if lo[i] > moved else moved
        b[i] = system[k, size] if k == first else (hi[i] if hi[i] < moved else moved)
    return 1 if first >= 0 else 0
