"""The intercept with the least total loss for given residuals, for hinge and epsilon-insensitive losses."""

import numpy as np

from buttress._checks import Array


def best_intercept(residual: Array, lo: Array, hi: Array, l1: Array | float) -> float:
    """Return a minimiser over b0 of the losses, by sorting its breakpoints residual -+ l1."""
    if l1.any() if isinstance(l1, np.ndarray) else l1:  # numpy's own function takes longer than all of a small set
        points = np.concatenate([residual - l1, residual + l1])
        rises = np.concatenate([hi, -lo])
    else:
        points = residual
        rises = hi - lo
    order = points.argsort(kind="stable")
    slope = rises[order].cumsum() - hi.sum()
    return float(points[order[min(int(slope.searchsorted(0.0)), len(order) - 1)]])


def hinge_intercept(residual: Array, y: Array, bound: Array) -> float:
    """Return a minimiser over b0 of sum_i bound_i max(0, y_i (residual_i - b0)), y in {-1, +1}."""
    return best_intercept(residual, np.where(y > 0, 0.0, -bound), np.where(y > 0, bound, 0.0), 0.0)
