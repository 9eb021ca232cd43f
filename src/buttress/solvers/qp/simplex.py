"""A quadratic program over the simplex, by a primal-dual interior point method.

    minimise over v   1/2 ||U'v||^2 - a.v,   v >= 0, sum v = 1

Source: Mehrotra, SIAM J. Optim. 2, 1992 (without the second-order term). Newton's matrix is a diagonal plus U U', so a
step costs k min(k, d)^2.
"""

import numpy as np

from buttress._checks import Array

SHIFT = 0.1  # of the spread of the slopes: distance of the first multipliers from 0
CENTRE = 0.1  # share of the complementarity that a step aims at: smaller means longer steps, closer to the bounds
RATIO = 1e13  # largest ratio of multiplier and variable, which keeps Newton's matrix within float64
LEAST = 1e-300  # keeps variables and multipliers from underflow


def simplex_qp(U: Array, a: Array, *, tol: float = 1e-9, max_iter: int = 60) -> Array:
    """Return v of shape (k,) for U of shape (k, d), within tol of the optimum relative to the spread of a.

    >>> simplex_qp(np.eye(2), np.array([0.0, 0.5])).round(6)
    array([0.25, 0.75])
    """
    k = len(a)
    v = np.full(k, 1 / k)
    slope = U @ (U.T @ v) - a
    scale = max(float(np.ptp(slope)), float(np.abs(slope).max()), LEAST)
    y = -float(slope.min()) + SHIFT * scale
    z = slope + y
    for _ in range(max_iter):
        complementarity = float(v @ z)
        rest = U @ (U.T @ v) - a + y - z
        lack = float(v.sum()) - 1
        if complementarity <= tol * scale and np.abs(rest).max() <= tol * scale:
            break
        h = -rest - z + CENTRE * complementarity / k / v
        try:
            solved = _newton(U, np.clip(z / v, 1 / RATIO, RATIO), np.column_stack([h, np.ones(k)]))
        except np.linalg.LinAlgError:  # as accurate as float64 allows
            break
        dy = (solved[:, 0].sum() + lack) / solved[:, 1].sum()
        dv = solved[:, 0] - dy * solved[:, 1]
        dz = U @ (U.T @ dv) + dy + rest
        step_v = _room(v, dv)
        step_z = _room(z, dz)
        if not np.isfinite(solved).all():
            break
        v = np.maximum(v + step_v * dv, LEAST)
        y = y + step_z * dy
        z = np.maximum(z + step_z * dz, LEAST)
    return v / v.sum()


def _newton(U: Array, diagonal: Array, right: Array) -> Array:
    """Solve (diag + U U') x = right by the smaller of the two sizes."""
    k, d = U.shape
    if k <= d:
        return np.linalg.solve(U @ U.T + np.diag(diagonal), right).astype(np.float64)
    scaled = U / diagonal[:, None]
    inner = np.linalg.solve(np.eye(d) + U.T @ scaled, scaled.T @ right)
    return right / diagonal[:, None] - scaled @ inner


def _room(x: Array, dx: Array) -> float:
    """Return 99 per cent of the longest step that keeps x positive, and at most 1."""
    down = dx < 0
    return min(1.0, 0.99 * float((-x[down] / dx[down]).min())) if down.any() else 1.0
