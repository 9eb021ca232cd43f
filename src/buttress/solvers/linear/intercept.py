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
    order = points.argsort(kind="stable")
    slope = rises[order].cumsum() - hi.sum()
    return float(points[order[min(int(slope.searchsorted(0.0)), len(order) - 1)]])
