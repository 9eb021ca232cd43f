"""The intercept with the least total loss for given residuals, for hinge and epsilon-insensitive losses."""

import numpy as np

from buttress._checks import Array


def best_intercept(residual: Array, lo: Array, hi: Array, l1: Array | float) -> float:
    """Return a minimiser over b0 of the losses, by sorting its breakpoints residual -+ l1."""
    if np.any(l1):
        points = np.concatenate([residual - l1, residual + l1])
        rises = np.concatenate([hi, -lo])
    else:
        points = residual
        rises = hi - lo
    order = np.argsort(points, kind="stable")
    slope = -hi.sum() + np.cumsum(rises[order])
    return float(points[order[min(int(np.searchsorted(slope, 0.0)), len(order) - 1)]])
