"""Least trimmed squares by concentration, the scale it leaves, and the M-step that makes it efficient.

    LTS   min over f   sum of the h smallest (y_i - f(x_i))^2 + alpha ||f||^2        (Rousseeuw 1984)
    MM    min over f   sum_i rho((y_i - f(x_i)) / s) with Tukey's bisquare, s the scale of LTS, fixed    (Yohai 1987)

A concentration step fits the h rows of smallest residual and selects again; the objective cannot rise.
"""

from typing import Any

import numpy as np
from scipy.stats import norm

from buttress._checks import Array
from buttress.solvers.run import Step, Steps

OFTEN, TIED = 0.01, 0.1  # shares of the rows that repeat a value, and that make it the usual one
TUKEY = 4.685  # 95 per cent efficient for normal errors


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
    part = np.sort(np.abs(r))[:h]
    q = h / len(r)
    z = norm.ppf((1 + q) / 2)
    lost = 2 * z * norm.pdf(z) / q if q < 1 else 0.0
    return float(np.sqrt(np.mean(part**2) / (1 - lost)))


def least_scale(y: Array) -> float:
    """Return the size below which residuals of the targets y (n,) tell good rows from bad ones no longer.

    Ties bring residuals of 0, and densities of them without bounds. Targets most of which repeat, such as counts,
    grades or classes, are known to half a step only, the middle distance of a repeated value from the next. Where more
    than a tenth of the rows share one value (no sales, no rain, a sentinel), a quarter of the spread of the others:
    their middle distance from their median, or if that is 0 from the shared one; but no more than a quarter of the
    lower quartile of their distances from the shared one, for bad rows can be most of the others.
    """
    values, number, counts = np.unique(y, return_inverse=True, return_counts=True)
    repeated = counts >= max(2, OFTEN * len(y))
    if len(values) == 1 or not repeated.any():
        return 0.0
    shared, others = values[counts.argmax()], y[number != counts.argmax()]
    near, away = np.quantile(np.abs(others - shared), [0.25, 0.5])
    floor = 0.0
    if repeated.sum() > 1 and counts[repeated].sum() > len(y) / 2:
        gaps = np.concatenate([[np.inf], np.diff(values[repeated]), [np.inf]])
        step = np.median(np.repeat(np.minimum(gaps[1:], gaps[:-1]), counts[repeated]))
        floor = min(float(step), away) / 2  # of a few repeated values one may be a sentinel, far off
    if counts.max() > TIED * len(y):
        spread = float(np.median(np.abs(others - np.median(others)))) or away
        floor = max(floor, min(spread, near) / 4)
    return float(floor)


def concentrate(ridge: Any, y: Array, u: Array, *, alpha: float, h: int, leave_out: bool = False) -> Steps:
    """Yield fits of ``ridge`` to h rows, from row weights u (n,), until the rows repeat.

    The objective is the trimmed one, ridge term included, and never rises. With ``leave_out`` rows are judged by
    their leave-one-out residual over its spread, which no longer descends but does not let a fitted row hide.
    """
    seen = set()
    while True:
        fit = ridge.solve(y, u, alpha)
        size = np.abs(fit.loo) / fit.spread if leave_out else np.abs(y - fit.values)
        keep = smallest(size, h)
        penalty = 0.0 if leave_out else alpha * float(fit.coef @ fit.coef)
        objective = float(np.sort(size)[:h] @ np.sort(size)[:h]) + penalty
        done = keep.tobytes() in seen
        seen.add(keep.tobytes())
        yield Step((fit, keep), objective=objective, done=done)
        u = keep


def bisquare(r: Array, scale: float) -> Array:
    """Return Tukey's weights (1 - (r / (4.685 scale))^2)^2, 0 beyond."""
    return np.clip(1 - (r / (TUKEY * scale)) ** 2, 0, None) ** 2


def m_steps(ridge: Any, y: Array, r: Array, *, alpha: float, scale: float) -> Steps:
    """Yield (fit, weights) of reweighted least squares with Tukey's weights at a fixed scale, from residuals r.

    The change is the largest one of a value in units of the scale.
    """
    values = y - r
    while True:
        u = bisquare(y - values, scale)
        fit = ridge.solve(y, u, alpha)
        change = float(np.abs(fit.values - values)[u > 0].max(initial=0.0)) / scale
        rho = np.minimum(1 - (1 - np.minimum(((y - fit.values) / (TUKEY * scale)) ** 2, 1)) ** 3, 1)
        yield Step((fit, u), change=change, objective=float(rho.sum()) * (TUKEY * scale) ** 2 / 6
                   + alpha / 2 * float(fit.coef @ fit.coef))
        values = fit.values
