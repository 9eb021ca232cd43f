"""How near and how far the points of a box come to a centre, compiled."""

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel

ROWS = "Array(f8, 2, 'C', readonly=True)"  # rows given to a certificate may be mapped from a file


@compile_kernel(f"UniTuple(f8[:, ::1], 2)({ROWS}, {ROWS}, {ROWS})", {"reassoc", "contract", "nsz"}, makes_arrays=True)
def box_reach(anchors: Array, half: Array, centers: Array) -> tuple[Array, Array]:
    """Return two arrays (n, m) for the boxes |x - a_i| <= half_i and the centres z_j.

    The first is sum_l half_il |z_jl - a_il|, the largest (z_j - a_i)'d over the box. The second is the squared distance
    from the box to the centre, sum_l max(|z_jl - a_il| - half_il, 0)^2.
    """
    n, m, d = len(anchors), len(centers), anchors.shape[1]
    reach, nearest = np.empty((n, m)), np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total, near = 0.0, 0.0
            for k in range(d):
                apart = abs(centers[j, k] - anchors[i, k])
                total += half[i, k] * apart
                left = max(apart - half[i, k], 0.0)
                near += left * left
            reach[i, j], nearest[i, j] = total, near
    return reach, nearest
