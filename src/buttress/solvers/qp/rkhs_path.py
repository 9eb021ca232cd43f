"""The exact machine against perturbations in a ball of feature space, by a root search over the natural path.

    minimise over f, b0   1/2 ||f||^2 + C sum_i max(0, 1 - y_i (f(x_i) + b0) + r ||f||)                          (P)
    maximise over a       sum_i a_i - 1/2 max(0, |sum_i a_i y_i k(x_i, .)| - r sum_i a_i)^2,
                          0 <= a_i <= C, and sum_i a_i y_i = 0 where there is an intercept                       (D)

(P) is Wu, Hu & Gu (2021), equation (6), with C/n here called C. If (g, b_g) solves the natural problem (r = 0) at C',
with norm rho and dual variables of sum S, then f = g / (1 - r rho), b0 = b_g / (1 - r rho) solves (P) at

    C = C' / [(1 - r rho) (1 - r S / rho)],     as long as S / rho < 1 / r,

This follows from the stationarity conditions of both problems: their losses differ by the factor s = 1 + r ||f||, so
both have the same a. C grows with C'. Once r reaches the limit of rho / S for small C', f = 0 is optimal for every C.
Below that limit, (P) is a natural machine with a smaller C.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from buttress._checks import TINY, Array
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel
from buttress.solvers.qp.solve import solve_svm
from buttress.solvers.run import SPENT, Step, Steps


class Mirrored(Kernel):
    """k((x, s), (z, t)) = s t k(x, z), for solving without an intercept.

    Each row is used twice: as (x, 1) with its label and as (x, -1) with the other label. This problem is convex and
    even in the intercept, so the intercept 0 is optimal, and f is the solution of the problem without intercept.
    """

    def __init__(self, kernel: Kernel):
        self.kernel = kernel

    @property
    def definiteness(self) -> str:
        return self.kernel.definiteness

    def __call__(self, X: Array, Z: Array) -> Array:
        return self.kernel(X[:, :-1], Z[:, :-1]) * np.outer(X[:, -1], Z[:, -1])

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X[:, :-1])


@dataclass
class Natural:
    """A point of the natural path: C', b = y a, f = K b on the rows, the intercept, rho (``norm``), S (``total``)."""

    C: float
    b: Array
    f: Array
    intercept: float
    norm: float
    total: float

    def mapped(self, radius: float) -> float:
        """Return the C for which (P) has this point as its solution; inf where the map is not defined."""
        if radius == 0:
            return self.C
        if radius * self.total >= self.norm:
            return float("inf")
        return self.C / ((1 - radius * self.norm) * (1 - radius * self.total / self.norm))


Solve = Callable[[float], Natural]


def natural_path(
    kernel: Kernel, X: Array, y: Array, *, fit_intercept: bool, tol: float,
    left: Callable[[], float | None] = lambda: None,
) -> Solve:
    """Return the function of C' that solves the natural machine with C' for every row, within the seconds ``left``.

    A machine that was cut short is not on the path, but the certificate that follows from it holds all the same.
    """
    n = len(X)
    rows = KernelRows(kernel, X)
    if fit_intercept:
        twins = rows
        labels = y
    else:
        signed = [np.column_stack([X, np.full(n, sign)]) for sign in (1.0, -1.0)]
        twins = KernelRows(Mirrored(kernel), np.vstack(signed))
        labels = np.append(y, -y)

    def solve(C: float) -> Natural:
        bound = C if fit_intercept else C / 2
        solution = solve_svm(twins, labels, np.full(len(labels), bound), tol=tol, gap_tol=tol, max_time=left())
        b = solution.b if fit_intercept else solution.b[:n] - solution.b[n:]
        return natural(rows, b, C, solution.proof.intercept if fit_intercept else 0.0)

    return solve


def natural(rows: KernelRows, b: Array, C: float, intercept: float) -> Natural:
    """Return the point of the path at C' with its norms."""
    f = rows.times(b)
    return Natural(C, b, f, intercept, float(np.sqrt(max(float(b @ f), 0.0))), float(np.abs(b).sum()))


def first_point(
    kernel: Kernel, X: Array, y: Array, *, fit_intercept: bool, left: Callable[[], float | None] = lambda: None
) -> Natural:
    """Return a point of the path with a C' so small that all scores differ by less than 1.

    There every row of the smaller class (without intercept: every row) is at its bound. The whole solution is
    proportional to C', and rho / S is the radius from which on f = 0 is optimal in (P). A point that was cut short,
    where no seconds were ``left``, has a larger rho / S.
    """
    # all scores then differ by at most twice this, which is below 1
    C = 0.25 / (len(y) * float(kernel.diagonal(X).max()))
    if fit_intercept and y.sum() != 0:
        point = natural_path(kernel, X, y, fit_intercept=True, tol=1e-6, left=left)(C)
        if point.total > 0:
            return point
    sums = np.where(y > 0, (y > 0).sum(), (y < 0).sum()) if fit_intercept else np.ones(len(y))
    return natural(KernelRows(kernel, X), C * y * (sums.min() / sums), C, 0.0)


def path_search(
    solve: Solve, first: Natural, y: Array, *, C: float, radius: float,
    left: Callable[[], float | None] = lambda: None,
) -> Steps:
    """Yield (b, intercept, C') of attacked machines whose C approaches the wanted one.

    The gap is the relative duality gap between (P) and (D), and the objective is (P). C' is found by false position
    (Illinois) in log C'. Where no seconds are ``left`` before a point maps to any C, the first point is the result.
    """
    low = -np.inf
    high = float(np.log(C))
    low_value = 0.0
    high_value = np.inf
    side = 0
    reach = C * (1 - radius * first.total / first.norm) if radius > 0 else C
    # the C' that maps to C if the solution is proportional to C': exact up to the first point's
    trial = float(np.log(reach / (1 + reach * radius * first.norm / first.C)))
    while True:
        point = solve(float(np.exp(trial)))
        mapped = point.mapped(radius)
        if np.isfinite(mapped) and point.total > 0:
            yield attacked(point, y, C, radius)
        elif left() == SPENT:
            yield attacked(first, y, C, radius)
            return
        value = float(np.log(mapped / C))
        if value > 0:
            low_value = low_value / 2 if side > 0 else low_value
            high = trial
            high_value = value
            side = 1
        else:
            high_value = high_value / 2 if side < 0 else high_value
            low = trial
            low_value = value
            side = -1
        if value == 0 or high - low < 1e-13:  # of log C': a bracket this narrow is rounding
            return
        if np.isinf(low):
            trial -= 1  # in log C': every point so far maps beyond the wanted C
        elif np.isinf(high_value):
            trial = (low + high) / 2
        else:
            trial = (low * high_value - high * low_value) / (high_value - low_value)


def attacked(point: Natural, y: Array, C: float, radius: float) -> Step:
    """Return the attacked machine that one point of the path gives, with its certificate at C."""
    scale = 1 / (1 - radius * point.norm)
    loss = scale * np.maximum(0, 1 - y * (point.f + point.intercept)).sum()
    primal = 0.5 * (scale * point.norm) ** 2 + C * loss
    slack = point.norm - radius * point.total
    limit = C / float(np.abs(point.b).max())
    stretch = min(point.total / slack**2, limit) if slack > 0 else limit  # the best multiple of a in (D)
    dual = stretch * point.total - 0.5 * (stretch * slack) ** 2
    state = (scale * point.b, scale * point.intercept, point.C)
    return Step(state, gap=(primal - dual) / max(primal, TINY), objective=primal)
