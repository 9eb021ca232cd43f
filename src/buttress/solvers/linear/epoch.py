"""Stochastic (sub)gradient steps for the linear support vector machine, compiled; dense rows and CSR.

The iterate is stored as w = scale * v, so that shrinking it costs one product. The sum of all iterates of a call is
stored as spread * v + lag, so that averaging costs nothing on rows whose loss is 0.

``carry`` holds (scale, spread, b, sum of b, number of steps ever taken). Arrays are changed in place.
"""


import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._intrinsics import prefetch

SMALLEST = 1e-4  # a smaller scale is multiplied into v: rounding errors would grow by its inverse

ANY_ORDER = {"reassoc", "contract"}  # sums may be reordered, without which inner products are not vectorised
AHEAD = 4  # rows are prefetched this many steps ahead: they are drawn at random, so the processor cannot guess them
LINE = 8  # numbers in a cache line

_REST = "float64[::1], int64[::1]" + 3 * ", float64[::1]" + 3 * ", float64" + ", boolean, float64"


@register_jitable
def advance(
    carry: Array, y: float, product: float, first: float, decay: float, lam: float, squared: bool, intercept: float
) -> tuple[float, float]:
    """Take a step on a row with v'x = ``product``, except for v and lag; return the multiples of x to add to those."""
    slack = 1 - y * (carry[0] * product + carry[2])
    eta = first / (1 + decay * carry[4])
    carry[0] *= 1 - eta * lam
    pull = eta * y * (2 * slack if squared else 1.0) if slack > 0 else 0.0
    now = pull / carry[0]
    late = -carry[1] * now
    carry[2] += intercept * pull
    carry[1] += carry[0]
    carry[3] += carry[2]
    carry[4] += 1
    return now, late


@register_jitable
def take_in_scale(carry: Array, v: Array, lag: Array) -> None:
    """Multiply the scale into v once it has become too small, and set it to 1."""
    if carry[0] < SMALLEST:
        for j in range(v.size):
            lag[j] += carry[1] * v[j]
            v[j] *= carry[0]
        carry[0] = 1.0
        carry[1] = 0.0


@compile_kernel(f"void(float64[:,::1], {_REST})", fastmath=ANY_ORDER)
def dense_steps(
    X: Array, y: Array, rows: NDArray[np.int64], v: Array, lag: Array, carry: Array,
    first: float, decay: float, lam: float, squared: bool, intercept: float,
) -> None:
    """Take one step on each of ``rows`` in turn, of length first / (1 + decay t), times ``intercept`` in b."""
    d = X.shape[1]
    for k in range(rows.size):
        i = rows[k]
        if k + AHEAD < rows.size:
            for j in range(0, d, LINE):
                prefetch(X, (rows[k + AHEAD], j))
        product = 0.0
        for j in range(d):
            product += v[j] * X[i, j]
        now, late = advance(carry, y[i], product, first, decay, lam, squared, intercept)
        if now != 0:
            for j in range(d):
                v[j] += now * X[i, j]
                lag[j] += late * X[i, j]
        take_in_scale(carry, v, lag)


@compile_kernel(f"void(float64[::1], int32[::1], int32[::1], {_REST})", fastmath=ANY_ORDER)
def sparse_steps(
    data: Array, columns: NDArray[np.int32], starts: NDArray[np.int32], y: Array,
    rows: NDArray[np.int64], v: Array, lag: Array, carry: Array,
    first: float, decay: float, lam: float, squared: bool, intercept: float,
) -> None:
    """Take the steps of :func:`dense_steps` on rows of a CSR matrix."""
    for i in rows:
        product = 0.0
        for k in range(starts[i], starts[i + 1]):
            product += v[columns[k]] * data[k]
        now, late = advance(carry, y[i], product, first, decay, lam, squared, intercept)
        if now != 0:
            for k in range(starts[i], starts[i + 1]):
                v[columns[k]] += now * data[k]
                lag[columns[k]] += late * data[k]
        take_in_scale(carry, v, lag)
