"""Compiled loops over the variables of the program of ``program.py``: its violation, intercept and objectives.

A numpy expression for each takes a dozen temporary arrays, which on a few hundred rows cost more than the numbers.
"""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._types import Mask

Places = NDArray[np.int64]
PART = 256  # terms that are summed on their own, so that rounding grows with their number and not with n


@compile_kernel("float64(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1])")
def largest_violation(g: Array, b: Array, lo: Array, hi: Array, l1: Array) -> float:
    """Return max_{b > lo} (slope down) - min_{b < hi} (slope up); -inf when one of the sets is empty."""
    least = np.inf
    most = -np.inf
    for i in range(b.size):
        if b[i] < hi[i]:
            least = min(least, g[i] + (l1[i] if b[i] >= 0 else -l1[i]))
        if b[i] > lo[i]:
            most = max(most, g[i] + (l1[i] if b[i] > 0 else -l1[i]))
    return most - least


@compile_kernel("float64(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1])")
def middle_slope(g: Array, b: Array, lo: Array, hi: Array, l1: Array) -> float:
    """Return the mean slope of the free variables, or the middle of what the others leave: minus the intercept."""
    total = 0.0
    free = 0
    least = np.inf
    most = -np.inf
    for i in range(b.size):
        up = g[i] + (l1[i] if b[i] >= 0 else -l1[i])
        down = g[i] + (l1[i] if b[i] > 0 else -l1[i])
        if lo[i] < b[i] < hi[i] and (b[i] != 0 or not l1[i] > 0):
            total += g[i] + l1[i] * np.sign(b[i])
            free += 1
        if b[i] < hi[i]:
            least = min(least, up)
        if b[i] > lo[i]:
            most = max(most, down)
    if free > 0:
        return total / free
    if not np.isfinite(least):
        return most
    return 0.5 * (most + least) if np.isfinite(most) else least


@compile_kernel(
    "UniTuple(float64, 2)(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64)"
)
def gap_and_dual(
    f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array, intercept: float
) -> tuple[float, float]:
    """Return primal - dual at this intercept, as a sum of terms that are each at least 0, and the dual."""
    gap = 0.0
    dual = 0.0
    for start in range(0, b.size, PART):
        some = 0.0
        half = 0.0
        for i in range(start, min(start + PART, b.size)):
            r = p[i] - f[i] - intercept
            cost = l1[i] * abs(b[i])
            loss = hi[i] * max(0.0, r - l1[i]) - lo[i] * max(0.0, -r - l1[i])
            some += max(0.0, loss + cost - b[i] * r)
            half += b[i] * (p[i] - 0.5 * f[i]) - cost
        gap += some
        dual += half
    return gap, dual


@compile_kernel(
    "void(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1])"
)
def both_slopes(g: Array, b: Array, lo: Array, hi: Array, l1: Array, up: Array, down: Array) -> None:
    """Put the slope of raising each variable into ``up``, inf at hi, that of lowering it into ``down``, -inf at lo."""
    for i in range(b.size):
        up[i] = g[i] + (l1[i] if b[i] >= 0 else -l1[i]) if b[i] < hi[i] else np.inf
        down[i] = g[i] + (l1[i] if b[i] > 0 else -l1[i]) if b[i] > lo[i] else -np.inf


@compile_kernel("Tuple((int64[::1], int64[::1]))(float64[::1], float64[::1], boolean[::1])")
def violators(up: Array, down: Array, left_out: Mask) -> tuple[Places, Places]:
    """Return the variables whose raising violates with the lowering of some other one, and the other way round.

    Those ``left_out`` are no members, but count as others.
    """
    least = up[0]
    most = down[0]
    for i in range(up.size):
        least = min(least, up[i])
        most = max(most, down[i])
    raised = np.empty(up.size, np.int64)
    lowered = np.empty(up.size, np.int64)
    a = 0
    z = 0
    for i in range(up.size):
        if not left_out[i] and up[i] < most:
            raised[a] = i
            a += 1
        if not left_out[i] and down[i] > least:
            lowered[z] = i
            z += 1
    return raised[:a], lowered[:z]
