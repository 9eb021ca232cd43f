"""Limited-memory BFGS whose caller sends the value and the gradient at each point it yields.

It is for a smooth convex function that is expensive to evaluate. Steps start at 1 and are shortened until the value
falls enough (Armijo). Source: Nocedal, Math. Comp. 35, 1980 (two-loop recursion).
"""

from collections import deque
from collections.abc import Generator

import numpy as np

from buttress._checks import TINY, Array

TRIALS = 12  # steps tried along a line before the search ends
ARMIJO = 1e-4  # share of the decrease predicted by the slope that a step must reach (Nocedal & Wright, section 3.1)
Points = Generator[Array, tuple[float, Array], None]


def lbfgs_points(x: Array, *, tol: float = 1e-9) -> Points:
    """Yield points to evaluate, starting at ``x``; ends when no step lowers the value or the gradient is below tol.

    >>> import numpy as np
    >>> points = lbfgs_points(np.array([3.0]))
    >>> x = next(points)
    >>> try:
    ...     while True:
    ...         x = points.send((float(x @ x), 2 * x))
    ... except StopIteration:
    ...     bool(abs(x[0]) < 1e-6)
    True
    """
    pairs: deque[tuple[Array, Array]] = deque(maxlen=15)
    f, g = yield x
    while np.linalg.norm(g) > tol:
        p = -_two_loops(g, pairs)
        slope = float(g @ p)
        if slope >= 0:
            p = -g
            slope = -float(g @ g)
            pairs.clear()
        step = 1.0 if pairs else min(1.0, 1.0 / float(np.linalg.norm(g)))
        for _ in range(TRIALS):
            x_new = x + step * p
            f_new, g_new = yield x_new
            if f_new <= f + ARMIJO * step * slope:
                break
            curved = max(f_new - f - slope * step, TINY)
            # to the minimum of a parabola through the values, but to no less than a tenth and no more than a half
            step *= max(0.1, min(0.5, -slope * step / (2 * curved)))
        else:
            return
        s = x_new - x
        r = g_new - g
        if s @ r > 1e-12 * float(r @ r) > 0:  # what bends less is rounding, or no float
            pairs.append((s, r))
        x = x_new
        f = f_new
        g = g_new


def _two_loops(g: Array, pairs: deque[tuple[Array, Array]]) -> Array:
    """Return the approximate inverse Hessian times g."""
    q = g.copy()
    stack = []
    for s, r in reversed(pairs):
        a = float(s @ q) / float(s @ r)
        stack.append(a)
        q = q - a * r
    if pairs:
        s, r = pairs[-1]
        q = q * (float(s @ r) / float(r @ r))
    for (s, r), a in zip(pairs, reversed(stack)):
        q = q + (a - float(r @ q) / float(s @ r)) * s
    return q
