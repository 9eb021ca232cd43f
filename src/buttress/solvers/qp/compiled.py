"""The compiled loop over the variables of the program of ``program.py`` that measures a point.

On a few hundred rows the temporary arrays of numpy expressions would cost more than the numbers.
"""

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._intrinsics import maximum, minimum


@compile_kernel("UniTuple(float64, 4)(" + 6 * "float64[::1], " + "float64)")
def measures(
    f: Array, b: Array, p: Array, lo: Array, hi: Array, l1: Array, intercept: float
) -> tuple[float, float, float, float]:
    """Return primal - dual at this intercept, the dual, the KKT violation, and the best slope: minus the bias.

    The first is a sum of terms that are each at least 0, the last the mean slope of the free variables, or NaN.
    """
    gap = 0.0
    dual = 0.0
    least = np.inf
    most = -np.inf
    total = 0.0
    free = 0
    for i in range(b.size):
        at = b[i]
        kink = l1[i]
        g = f[i] - p[i]
        up = g + kink if at >= 0 else g - kink
        down = g + kink if at > 0 else g - kink
        if at < hi[i]:
            least = minimum(least, up)
        if at > lo[i]:
            most = maximum(most, down)
        if lo[i] < at < hi[i] and up == down:
            total += up
            free += 1
        r = -g - intercept
        over = maximum(r - kink, 0.0) + minimum(r + kink, 0.0)
        cost = kink * abs(at)
        gap += maximum(maximum(hi[i] * over, lo[i] * over) + cost - at * r, 0.0)
        dual += at * (p[i] - 0.5 * f[i]) - cost
    return gap, dual, most - least, total / free
