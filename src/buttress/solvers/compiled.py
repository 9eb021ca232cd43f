"""The compiled inner loops, and how they are compiled.

numba compiles them once and keeps the result in its cache directory (``NUMBA_CACHE_DIR``, else beside the package,
else the user's cache); where no directory can be written they are compiled anew in each process.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from buttress._checks import Array


def compile_kernel(
    signature: str | list[str], fastmath: bool | set[str] = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function for its signatures, cached on disk where that is possible."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        options: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": fastmath}
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except RuntimeError:  # no cache directory can be written
            return numba.njit(signature, **options)(function)

    return decorate


@compile_kernel("int64(float64[:,::1], float64[::1], float64[::1], float64[::1], float64[::1], float64, int64)")
def pair_updates(K: Array, g: Array, b: Array, lo: Array, hi: Array, tol: float, max_pairs: int) -> int:
    """Sequential minimal optimisation with second-order pairs (Fan, Chen & Lin 2005) on a whole Gram matrix.

    Minimises 1/2 b'Kb - p'b over lo <= b <= hi with the sum of b fixed. ``g = K b - p`` and ``b`` are updated in
    place until max_{b > lo} g - min_{b < hi} g <= tol. Returns the number of pairs updated. Ties take the lowest index.
    """
    n = g.size
    for pairs in range(max_pairs):
        i, least, most = -1, np.inf, -np.inf
        for t in range(n):
            if b[t] < hi[t] and g[t] < least:
                i, least = t, g[t]
            if b[t] > lo[t] and g[t] > most:
                most = g[t]
        if not most - least > tol:
            return pairs
        j, gain = -1, 0.0
        for t in range(n):
            rise = g[t] - least
            if b[t] > lo[t] and rise > 0:
                curvature = max(K[i, i] + K[t, t] - 2 * K[i, t], 1e-12)
                if rise * rise > gain * curvature:
                    j, gain = t, rise * rise / curvature
        curvature = max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12)
        step, room_i, room_j = (g[j] - least) / curvature, hi[i] - b[i], b[j] - lo[j]
        step = min(step, room_i, room_j)
        b[i] = hi[i] if step == room_i else b[i] + step  # exactly the bound: no bound missed by rounding
        b[j] = lo[j] if step == room_j else b[j] - step
        for t in range(n):
            g[t] += step * (K[i, t] - K[j, t])
    return max_pairs
