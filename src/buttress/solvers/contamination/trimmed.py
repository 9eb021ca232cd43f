"""Least trimmed squares by concentration (Rousseeuw 1984), and the scale of its residuals.

A concentration step fits the h rows with the smallest residuals and selects the rows again.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from buttress._checks import Array
from buttress.solvers.contamination.tuning import TRIMMING
from buttress.solvers.ridge.leave_one_out import Fit, Ridge
from buttress.solvers.run import Step, Steps

Model = TypeVar("Model")
Kept = TypeVar("Kept", bound=NDArray[Any])  # the rows fitted: a mask, or weights


def smallest(size: Array, h: int) -> Array:
    """Return the indicator, shape (n,), of the h smallest entries of ``size``, ties broken by index."""
    keep = np.zeros(len(size))
    keep[np.argsort(size, kind="stable")[:h]] = 1
    return keep


def lts_scale(r: Array, h: int) -> float:
    """Return the standard deviation of the residuals r (n,) from the h smallest |r|, consistent for normal errors.

    s^2 = mean(a^2) / (1 - 2 z phi(z) / q), a those h residuals, q = h/n and z = Phi^-1((1 + q)/2). Breaks down when
    more than n - h rows are bad.
    """
    h = min(h, len(r))
    part = np.partition(np.abs(r), h - 1)[:h]
    q = h / len(r)
    z = norm.ppf((1 + q) / 2)
    lost = 2 * z * norm.pdf(z) / q if q < 1 else 0.0
    return float(np.sqrt(np.mean(part**2) / (1 - lost)))


def within(residual: Array, deviations: float, floor: float) -> NDArray[np.bool_]:
    """Return the rows with a residual of at most ``deviations`` times a scale.

    The scale is that of the smaller half of the residuals, and at least ``floor``.
    """
    size = np.abs(residual)
    return size <= deviations * max(lts_scale(size, len(size) // 2 + 1), floor)


def least_scale(y: Array) -> float:
    """Return the least residual scale that separates good rows from bad ones for targets y (n,); 0 if any scale does.

    Repeated targets can have residuals of 0, where the density would be unbounded. So the scale is at least

    - half a step, if most targets repeat, such as counts, grades or classes: the step is the median distance of a
      repeated value from the next one;
    - a quarter of the spread of the other targets, if more than a tenth of the rows share one value (no sales, no
      rain, a code for missing values).
    """
    values, number, counts = np.unique(y, return_inverse=True, return_counts=True)
    repeated = counts >= max(2, 0.01 * len(y))
    if len(values) == 1 or not repeated.any():
        return 0.0
    shared = values[counts.argmax()]
    others = y[number != counts.argmax()]
    # a small distance from the most frequent target; half and double of both factors below are alike on the sets sine,
    # long tail and friedman1 of `benchmarks/trial_sets.py`, rounded to halves or two fifths of them 0, seeds 80 and 81
    near, away = np.quantile(np.abs(others - shared), [0.25, 0.5])
    floor = 0.0
    if repeated.sum() > 1 and counts[repeated].sum() > 0.5 * len(y):
        step = _median_step(values[repeated], counts[repeated])
        floor = min(step, away) * 0.5  # one repeated value may be a code, far from the others
    if counts.max() > TRIMMING.shared_share * len(y):
        floor = max(floor, min(_spread(others) or away, near) * 0.25)
    return float(floor)


def away_from_edge(y: Array) -> NDArray[np.bool_]:
    """Return the targets (n,) other than the least or largest one, where more than a tenth are that and not apart.

    Such are sales that are mostly 0, and what is measured up to a limit. They are apart where the nearest tenth of the
    others is further off than their middle half is wide, as a code for missing values is.
    """
    for edge in (y.min(), y.max()):
        away = y != edge
        if away.any() and np.mean(~away) > TRIMMING.shared_share:
            near, middle, far = np.quantile(np.abs(y[away] - edge), [0.1, 0.25, 0.75])
            if near < far - middle:
                return away
    return np.ones(len(y), dtype=np.bool_)


def _median_step(values: Array, counts: NDArray[np.intp]) -> float:
    """Return the median over all rows of the distance from their value to the nearest other one."""
    gaps = np.concatenate([[np.inf], np.diff(values), [np.inf]])
    return float(np.median(np.repeat(np.minimum(gaps[1:], gaps[:-1]), counts)))


def _spread(y: Array) -> float:
    """Return the median distance from the median.

    ``least_scale`` limits it to the lower quartile of the distances from the shared value, because most of the other
    rows can be bad.
    """
    return float(np.median(np.abs(y - np.median(y))))


def trimming(fit: Callable[[Kept], Model], judge: Callable[[Model, Kept], tuple[Kept, float]], rows: Kept) -> Steps:
    """Fit some rows, judge all, keep the best and fit again: yield (model, the rows it was fitted to).

    ``judge`` returns the rows to fit next, a mask or weights (n,), and the objective. Done when a set of rows comes
    back, at once where it is the one just fitted.
    """
    seen: set[bytes] = set()
    while True:
        model = fit(rows)
        after, objective = judge(model, rows)
        done = rows.tobytes() in seen or np.array_equal(after, rows)
        yield Step((model, rows), objective=objective, done=done)
        seen.add(rows.tobytes())
        rows = after


def concentrate(ridge: Ridge, y: Array, u: Array, *, alpha: float, h: int) -> Steps:
    """Yield (fit of ``ridge`` to h rows, their indicator), from row weights u (n,), until the rows repeat.

    Rows are judged by their leave-one-out residual divided by its spread, so that a bad row in the fit cannot have a
    small residual just because it was fitted. The sum of their squares, the objective, may therefore rise.
    """

    def judge(fit: Fit, _: Array) -> tuple[Array, float]:
        size = np.abs(fit.loo) / fit.spread
        least = np.sort(size)[:h]
        return smallest(size, h), float(least @ least)

    return trimming(lambda rows: ridge.solve(y, rows, alpha), judge, u)
