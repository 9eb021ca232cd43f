"""The compiled inner loops of the exact machines."""

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from buttress._checks import Array
from buttress._compiling import compile_kernel

LANES = 64  # widths of compiled loops are padded to a multiple of this, so that they vectorise without a remainder
FAR = 1e30  # stands for infinity, which fast arithmetic may not meet; its square root is beyond any gradient
TAU = 1e-12  # least curvature of a pair
FAST = {"nnan", "ninf", "nsz", "contract", "arcp"}


def _reduction(name: str) -> Any:
    """Return a two-argument intrinsic that LLVM recognises as a reduction, which numba's min and max are not."""

    @intrinsic
    def apply(context, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, args):  # type: ignore[no-untyped-def]
            kind = args[0].type
            function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
            return builder.call(function, args, fastmath=("fast",))

        return a(a, a), generate

    return apply


_least = _reduction("llvm.minnum")
_most = _reduction("llvm.maxnum")


@numba.njit(error_model="numpy", fastmath=FAST)
def _move_and_scan(g: Array, step: float, row: Array, other: Array, up: Array, low: Array) -> tuple[float, float, int]:
    """Add step * (row - other) to g; return the least slope up, the largest down, and the start of the first's 64.

    Slices let LLVM know that no index is negative, without which it would not vectorise.
    """
    real, block = g.dtype.type, 0
    least, most = real(FAR), real(-FAR)
    for start in range(0, g.size, 64):
        g_, up_, low_ = g[start : start + 64], up[start : start + 64], low[start : start + 64]
        row_, other_ = row[start : start + 64], other[start : start + 64]
        first, last = real(FAR), real(-FAR)
        for t in range(64):
            slope = g_[t] + step * (row_[t] - other_[t])
            g_[t] = slope
            first = _least(first, slope + up_[t])
            last = _most(last, slope + low_[t])
        if first < least:
            least, block = first, start
        most = max(most, last)
    return least, most, block


@numba.njit(error_model="numpy", fastmath=FAST)
def _best_partner(g: Array, low: Array, least: float, own: float, diagonal: Array, row: Array) -> int:
    """Return the j of the largest gain rise^2 / curvature of the pair (i, j), i of slope ``least`` and K_i ``row``."""
    real, block = g.dtype.type, 0
    gain, tau = real(0.0), real(TAU)
    for start in range(0, g.size, 64):
        g_, row_ = g[start : start + 64], row[start : start + 64]
        low_, diagonal_ = low[start : start + 64], diagonal[start : start + 64]
        best = real(0.0)
        for t in range(64):
            rise = _most(g_[t] + low_[t] - least, real(0.0))
            best = _most(best, rise * rise / _most(own + diagonal_[t] - real(2.0) * row_[t], tau))
        if best > gain:
            gain, block = best, start
    j, gain = block, real(-1.0)
    for t in range(block, block + 64):
        rise = max(g[t] + low[t] - least, real(0.0))
        best = rise * rise / max(own + diagonal[t] - real(2.0) * row[t], tau)
        if best > gain:
            j, gain = t, best
    return j


@numba.njit(error_model="numpy", fastmath=FAST)
def _offsets(t: int, b: Array, lo: Array, hi: Array, l1: Array, up: Array, low: Array) -> None:
    """Set what is added to g_t for its slopes up and down: the slope of l1 |b|, or far away at a bound."""
    real = up.dtype.type
    up[t] = real(FAR) if b[t] >= hi[t] else real(l1[t] if b[t] >= 0 else -l1[t])
    low[t] = real(-FAR) if b[t] <= lo[t] else real(l1[t] if b[t] > 0 else -l1[t])


@compile_kernel(
    [
        f"UniTuple(int64, 2)({real}[:,::1], {real}[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
        " float64, int64)"
        for real in ("float32", "float64")
    ],
    fastmath=FAST,
)
def pair_updates(
    K: Array, g: Array, b: Array, lo: Array, hi: Array, l1: Array, tol: float, max_pairs: int
) -> tuple[int, int]:
    """Sequential minimal optimisation with second-order pairs (Fan, Chen & Lin 2005) on a whole Gram matrix.

    Minimises 1/2 b'Kb - p'b + l1'|b| over lo <= b <= hi with the sum of b fixed; K is (q, m) and g (m,), m the next
    multiple of 64 from q. ``g = K b - p`` and ``b`` are updated in place until the largest slope down is within
    ``tol`` of the least slope up. Returns the numbers of pairs updated and of those along which K curves downwards.
    Ties take the lowest index.
    """
    m, real = g.size, K.dtype.type
    up, low, diagonal = np.full(m, FAR, K.dtype), np.full(m, -FAR, K.dtype), np.zeros(m, K.dtype)
    for t in range(b.size):
        diagonal[t] = K[t, t]
        _offsets(t, b, lo, hi, l1, up, low)
    i, j, step, downwards = 0, 0, real(0.0), 0
    for pairs in range(max_pairs):
        least, most, block = _move_and_scan(g, step, K[i], K[j], up, low)
        if not most - least > tol:
            return pairs, downwards
        i = block
        for t in range(block + 1, block + 64):
            if g[t] + up[t] < g[i] + up[i]:
                i = t
        row, own = K[i], diagonal[i]
        j = _best_partner(g, low, least, own, diagonal, row)
        curvature = own + diagonal[j] - real(2.0) * row[j]
        downwards += curvature < -1e-6 * abs(own)
        room_i = -b[i] if b[i] < 0 and l1[i] > 0 else hi[i] - b[i]
        room_j = b[j] if b[j] > 0 and l1[j] > 0 else b[j] - lo[j]
        length = min((g[j] + low[j] - least) / max(curvature, real(TAU)), room_i, room_j)
        # a bound or kink that is reached is met exactly, never missed by rounding
        b[i] = (0.0 if b[i] < 0 and l1[i] > 0 else hi[i]) if length == room_i else b[i] + length
        b[j] = (0.0 if b[j] > 0 and l1[j] > 0 else lo[j]) if length == room_j else b[j] - length
        step = real(length)
        _offsets(i, b, lo, hi, l1, up, low)
        _offsets(j, b, lo, hi, l1, up, low)
    return max_pairs, downwards


@compile_kernel(
    [f"void({real}[:,::1], int64[::1], float64[::1], float64[::1], int64, int64)" for real in ("float32", "float64")],
    fastmath=FAST,
)
def add_rows(store: Array, slots: Any, weights: Array, total: Array, start: int, stop: int) -> None:
    """Add sum_r weights[r] * store[slots[r], start:stop] to ``total`` (stop - start,), accumulating in float64."""
    for left in range(start, stop, 2048):  # long enough for the memory to stream, short enough for total to stay near
        right = min(left + 2048, stop)
        part = total[left - start : right - start]
        r = 0
        while r + 8 <= slots.size:
            a0, a1, a2, a3 = weights[r], weights[r + 1], weights[r + 2], weights[r + 3]
            a4, a5, a6, a7 = weights[r + 4], weights[r + 5], weights[r + 6], weights[r + 7]
            k0, k1 = store[slots[r], left:right], store[slots[r + 1], left:right]
            k2, k3 = store[slots[r + 2], left:right], store[slots[r + 3], left:right]
            k4, k5 = store[slots[r + 4], left:right], store[slots[r + 5], left:right]
            k6, k7 = store[slots[r + 6], left:right], store[slots[r + 7], left:right]
            for t in range(right - left):
                first = a0 * np.float64(k0[t]) + a1 * np.float64(k1[t])
                second = a2 * np.float64(k2[t]) + a3 * np.float64(k3[t])
                third = a4 * np.float64(k4[t]) + a5 * np.float64(k5[t])
                fourth = a6 * np.float64(k6[t]) + a7 * np.float64(k7[t])
                part[t] += (first + second) + (third + fourth)
            r += 8
        while r < slots.size:
            a0, k0 = weights[r], store[slots[r], left:right]
            for t in range(right - left):
                part[t] += a0 * np.float64(k0[t])
            r += 1


@compile_kernel(
    [f"void({real}[:,::1], int64[::1], int64[::1], {real}[:,::1], int64[::1])" for real in ("float32", "float64")]
)
def gather(store: Array, slots: Any, columns: Any, out: Array, rows: Any) -> None:
    """Put store[slots[r], columns] into the first entries of row rows[r] of ``out``."""
    for r in range(slots.size):
        row, into = store[slots[r]], out[rows[r]]
        for t in range(columns.size):
            into[t] = row[columns[t]]


@compile_kernel(
    "void(float32[:,::1], float32[::1], float32[::1], float32, float32[:,::1], int64[::1], int64)",
    fastmath={"nnan", "ninf", "nsz", "contract"},
)
def rbf_entries(inner: Array, xx: Array, zz: Array, gamma: float, store: Array, slots: Any, start: int) -> None:
    """Write exp(-gamma max(0, xx_i + zz_j - 2 inner_ij)) to row slots[i] of ``store`` from column ``start``.

    exp(x) = 2^t with t = x / log 2; 2^t = 2^n 2^r with n the nearest whole number, which adding 1.5 * 2^23 leaves in
    the low bits, and 2^r by its polynomial of degree 6 on [-1/2, 1/2] (relative error 2e-9). One pass in place of
    numpy's five. ``inner`` and ``store`` must not share memory: the loop would not be vectorised.
    """
    width, shifter = inner.shape[1], np.float32(12582912.0)
    scale = np.float32(1.4426950408889634) * gamma
    for i in range(inner.shape[0]):
        row, out, shift = inner[i], store[slots[i], start : start + width], xx[i]
        for j in range(width):
            t = _least(scale * (np.float32(2.0) * row[j] - (shift + zz[j])), np.float32(0.0))
            t = _most(t, np.float32(-125.0))
            shifted = t + shifter
            r = t - (shifted - shifter)
            p = np.float32(1.53533572e-4)
            p = p * r + np.float32(1.33988762e-3)
            p = p * r + np.float32(9.61843739e-3)
            p = p * r + np.float32(5.55033247e-2)
            p = p * r + np.float32(2.40226479e-1)
            p = p * r + np.float32(6.93147203e-1)
            p = p * r + np.float32(1.0)
            bits = np.float32(p).view(np.int32) + (np.float32(shifted).view(np.int32) << 23)
            out[j] = np.int32(bits).view(np.float32)


@compile_kernel(
    "void(float64[:,::1], float64[::1], float64[::1], float64)", fastmath={"nnan", "ninf", "nsz", "contract"}
)
def rbf_in_place(inner: Array, xx: Array, zz: Array, gamma: float) -> None:
    """Turn inner_ij into exp(-gamma (xx_i + zz_j - 2 inner_ij)), to 4e-16, distances below rounding taken for 0.

    As ``rbf_entries``, with the Taylor polynomial of degree 13.
    """
    shifter, none = 6755399441055744.0, 32 * 2.220446049250313e-16
    for i in range(inner.shape[0]):
        row, shift = inner[i], xx[i]
        for j in range(zz.size):
            both = shift + zz[j]
            r2 = both - 2.0 * row[j]
            r2 = r2 if r2 > none * both else 0.0
            t = _most(-1.4426950408889634 * gamma * r2, -1020.0)
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
            bits = np.float64(p).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
            row[j] = np.int64(bits).view(np.float64)
