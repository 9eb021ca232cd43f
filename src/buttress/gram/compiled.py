"""Compiled inner loops for a Gram matrix: weighted sums of rows, and RBF entries from inner products."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._compiling import compile_inner, compile_kernel, maximum, minimum, viewer

WIDTH_MULTIPLE = 64  # entries: compiled loops over padded widths vectorise without a remainder
Slots = NDArray[np.intp]  # numbers of rows of a store, or of columns
FAST = {"nnan", "ninf", "nsz", "contract", "arcp"}


@compile_kernel(
    [f"void({real}[:,::1], int64[::1], float64[::1], float64[::1], int64)" for real in ("float32", "float64")],
    fastmath=FAST,
)
def _add_fours(store: Array, slots: Slots, weights: Array, total: Array, start: int) -> None:
    first = np.uint64(start)  # of a signed place the compiler would ask each time whether it counts from the end
    for r in range(0, slots.size, 4):
        a0 = weights[r]
        a1 = weights[r + 1]
        a2 = weights[r + 2]
        a3 = weights[r + 3]
        s0 = slots[r]
        s1 = slots[r + 1]
        s2 = slots[r + 2]
        s3 = slots[r + 3]
        for t in range(np.uint64(total.size)):
            at = first + t
            total[t] += (a0 * store[s0, at] + a1 * store[s1, at]) + (a2 * store[s2, at] + a3 * store[s3, at])


def add_rows(store: Array, slots: Slots, weights: Array, total: Array, start: int) -> None:
    """Add sum_r weights[r] * store[slots[r], start:start + len(total)] to ``total``, accumulating in float64.

    ``total`` is to be short enough for the processor's first cache, and long enough for streaming rows.
    """
    spare = -len(slots) % 4
    if spare:
        slots = np.append(slots, slots[:1].repeat(spare))
        weights = np.append(weights, np.zeros(spare))
    _add_fours(store, slots, weights, total, start)


@compile_kernel(
    [f"void({real}[:,::1], int64[::1], int64[::1], {real}[:,::1], int64[::1])" for real in ("float32", "float64")]
)
def gather(store: Array, slots: Slots, columns: Slots, out: Array, rows: Slots) -> None:
    """Put store[slots[r], columns] into the first entries of row rows[r] of ``out``."""
    for r in range(slots.size):
        row = store[slots[r]]
        into = out[rows[r]]
        for t in range(columns.size):
            into[t] = row[np.uint64(columns[t])]  # unsigned, as above


@compile_inner({"nnan", "ninf", "nsz", "contract"})
def _exponentials(inner: Array, shift: float, zz: Array, scale: float, out: Array) -> None:
    """Write 2^(scale min(0, 2 inner_j - shift - zz_j)) to ``out``.

    With t the exponent, 2^t = 2^n 2^r, where n is the whole number nearest to t. Adding 1.5 * 2^23 to t leaves n in
    the low bits, unless sums may be reassociated. 2^r is a polynomial of degree 6 on [-1/2, 1/2] (relative error 2e-9).
    This is one pass over the entries; numpy needs five.
    """
    shifter = np.float32(12582912.0)
    for j in range(out.size):
        t = minimum(scale * (np.float32(2.0) * inner[j] - (shift + zz[j])), np.float32(0.0))
        t = maximum(t, np.float32(-125.0))
        shifted = t + shifter
        r = t - (shifted - shifter)
        p = np.float32(1.53533572e-4)
        p = p * r + np.float32(1.33988762e-3)
        p = p * r + np.float32(9.61843739e-3)
        p = p * r + np.float32(5.55033247e-2)
        p = p * r + np.float32(2.40226479e-1)
        p = p * r + np.float32(6.93147203e-1)
        p = p * r + np.float32(1.0)
        out[j] = viewer(np.int32(viewer(p, np.int32) + (viewer(shifted, np.int32) << 23)), np.float32)


@compile_inner(FAST | {"reassoc"})
def _weighted(values: Array, weights: Array) -> float:
    """Return sum_j weights_j values_j, summed in float64."""
    total = 0.0
    for j in range(values.size):
        total += weights[j] * np.float64(values[j])
    return total


@compile_kernel(
    "void(float32[:,::1], float32[::1], float32[::1], float32, float32[:,::1], int64[::1], int64)",
    fastmath={"nnan", "ninf", "nsz", "contract"},
)
def rbf_entries(inner: Array, xx: Array, zz: Array, gamma: float, store: Array, slots: Slots, start: int) -> None:
    """Write exp(-gamma max(0, xx_i + zz_j - 2 inner_ij)) to row slots[i] of ``store`` from column ``start``.

    ``inner`` and ``store`` must not share memory, or the loop is not vectorised.
    """
    scale: Any = np.float32(1.4426950408889634) * gamma
    for i in range(len(inner)):
        _exponentials(inner[i], xx[i], zz, scale, store[slots[i], start : start + zz.size])


@compile_kernel("void(float32[:,::1], float32[::1], float32[::1], float32, float64[::1], float32[::1], float64[::1])")
def rbf_sums(
    inner: Array, xx: Array, zz: Array, gamma: float, weights: Array, scratch: Array, total: Array
) -> None:
    """Add sum_j weights_j exp(-gamma max(0, xx_i + zz_j - 2 inner_ij)) to total_i, summed in float64.

    The values of a row pass through ``scratch``, which has room for as many and stays in the nearest cache.
    """
    scale: Any = np.float32(1.4426950408889634) * gamma
    values = scratch[: zz.size]
    for i in range(len(inner)):
        _exponentials(inner[i], xx[i], zz, scale, values)
        total[i] += _weighted(values, weights)


@compile_kernel(
    "void(float64[:,::1], float64[::1], float64[::1], float64)", fastmath={"nnan", "ninf", "nsz", "contract"}
)
def rbf_in_place(inner: Array, xx: Array, zz: Array, gamma: float) -> None:
    """Replace inner_ij by exp(-gamma (xx_i + zz_j - 2 inner_ij)), to 4e-16; distances below rounding count as 0.

    It works as ``rbf_entries`` does, with the Taylor polynomial of degree 13.
    """
    shifter = 6755399441055744.0
    none = 32 * 2.220446049250313e-16
    for i in range(len(inner)):
        row = inner[i]
        shift = xx[i]
        for j in range(zz.size):
            both = shift + zz[j]
            r2 = both - 2.0 * row[j]
            r2 = r2 if r2 > none * both else 0.0
            t = maximum(-1.4426950408889634 * gamma * r2, -1020.0)
            shifted = t + shifter
            r = (t - (shifted - shifter)) * 0.6931471805599453
            p = 1.0 / 6227020800.0
            p = p * r + 1.0 / 479001600.0
            p = p * r + 1.0 / 39916800.0
            p = p * r + 1.0 / 3628800.0
            p = p * r + 1.0 / 362880.0
            p = p * r + 1.0 / 40320.0
            p = p * r + 1.0 / 5040.0
            p = p * r + 1.0 / 720.0
            p = p * r + 1.0 / 120.0
            p = p * r + 1.0 / 24.0
            p = p * r + 1.0 / 6.0
            p = p * r + 0.5
            p = p * r + 1.0
            p = p * r + 1.0
            row[j] = viewer(viewer(p, np.int64) + (viewer(shifted, np.int64) << 52), np.float64)
