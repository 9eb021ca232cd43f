"""Products of many rows with few columns, such as the values of a fit and the projections behind its leverages.

A BLAS first copies the rows into another layout. With few columns the copy takes longer than the product. The loop here
reads each row in place and takes little longer than reading the rows.
"""

import numpy as np

from buttress._checks import Array
from buttress._compiling import compile_kernel

THIN = 24  # most columns for which the loop is faster
FAST_SUMS = {"reassoc", "contract", "nsz"}


def thin_product(Z: Array, C: Array) -> Array:
    """Return Z C, shape (n,) or (n, k) in float64, for Z (n, m) and C (m,) or (m, k); computed in float32 if Z is."""
    if Z.dtype != np.float32 or C.ndim == 1 or not 1 < C.shape[1] <= THIN:
        return np.asarray(Z @ C.astype(Z.dtype, copy=False), dtype=np.float64)
    columns = np.zeros((-(-C.shape[1] // 3) * 3, len(C)), dtype=np.float32)
    columns[: C.shape[1]] = C.T
    out = np.empty((len(Z), len(columns)))
    _multiply(Z, columns, out)
    return out[:, : C.shape[1]]


@compile_kernel("void(float32[:,::1], float32[:,::1], float64[:,::1])", fastmath=FAST_SUMS)
def _multiply(Z: Array, columns: Array, out: Array) -> None:
    """Write Z columns' into ``out``; the number of columns is a multiple of three. Rows are taken four at a time."""
    n, zero = len(Z), np.float32(0)
    for i in range(0, n, 4):
        z0 = Z[i]
        z1 = Z[min(i + 1, n - 1)]
        z2 = Z[min(i + 2, n - 1)]
        z3 = Z[min(i + 3, n - 1)]
        for k in range(0, len(columns), 3):
            a0 = zero
            b0 = zero
            c0 = zero
            a1 = zero
            b1 = zero
            c1 = zero
            a2 = zero
            b2 = zero
            c2 = zero
            a3 = zero
            b3 = zero
            c3 = zero
            for j in range(Z.shape[1]):
                a, b, c = columns[k, j], columns[k + 1, j], columns[k + 2, j]
                a0, b0, c0 = a0 + z0[j] * a, b0 + z0[j] * b, c0 + z0[j] * c
                a1, b1, c1 = a1 + z1[j] * a, b1 + z1[j] * b, c1 + z1[j] * c
                a2, b2, c2 = a2 + z2[j] * a, b2 + z2[j] * b, c2 + z2[j] * c
                a3, b3, c3 = a3 + z3[j] * a, b3 + z3[j] * b, c3 + z3[j] * c
            out[i, k], out[i, k + 1], out[i, k + 2] = a0, b0, c0
            for row, a, b, c in ((1, a1, b1, c1), (2, a2, b2, c2), (3, a3, b3, c3)):
                if i + row < n:
                    out[i + row, k], out[i + row, k + 1], out[i + row, k + 2] = a, b, c
