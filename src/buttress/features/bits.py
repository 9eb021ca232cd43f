"""Random numbers that are the same on every machine: counter-based bits and a transform of exact operations.

Philox is a function of (key, counter): block t of a model's features is made from its seed and t alone, in any order.
The transforms use additions, multiplications, divisions and square roots only, which IEEE 754 rounds alike everywhere;
log, sin and cos of a library are not, and numpy's own samplers may change between versions.
Sources: Salmon et al. (2011) for Philox; Box & Muller (1958).
"""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array

CHUNK = 16_384  # pairs at a time, so that the passes below stay in cache
SHARE = 2.0**-32
LOG2 = 0.6931471805599453


def words(seed: int, block: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` random 64-bit words of one block of one seed; blocks never overlap."""
    raw: NDArray[np.uint64] = np.random.Philox(key=seed, counter=[0, 0, 0, block]).random_raw(count)
    return raw


def split(bits: NDArray[np.uint64]) -> tuple[Array, NDArray[np.uint32]]:
    """Return a uniform number in (0, 1) from the high half of each word, and the low half."""
    uniform = ((bits >> np.uint64(32)).astype(np.float64) + 0.5) * SHARE
    return uniform, (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32)


def exponentials(uniform: Array) -> Array:
    """Return -log(u) for u in (0, 1), to 1e-12: u = m 2^e, and log m by the series of 2 artanh."""
    mantissa, exponent = np.frexp(uniform)
    half = 0.7071067811865476
    s = (mantissa - half) / (mantissa + half)
    square = s * s
    series = np.full_like(s, 1 / 15)
    for order in (13, 11, 9, 7, 5, 3, 1):
        series = series * square + 1 / order
    return (0.5 - exponent) * LOG2 - 2 * s * series


def normal_pairs(bits: NDArray[np.uint64]) -> tuple[Array, Array]:
    """Return two independent standard normal numbers for each word, by Box and Muller's transform."""
    uniform, low = split(bits)
    radius = np.sqrt(2 * exponentials(uniform))
    swap, sign = (low & 1).astype(bool), 1.0 - (low & 2)
    angle = (((low >> 2) + 0.5) * 2.0**-30 - 0.5) * 1.5707963267948966  # a quarter turn: swap and sign give the others
    square = angle * angle
    cosine, sine = np.full_like(angle, 1.0), np.full_like(angle, 1.0)
    for order in (12, 10, 8, 6, 4, 2):
        cosine = 1 - square * cosine / (order * (order - 1))
        sine = 1 - square * sine / (order * (order + 1))
    radius *= sign
    sine *= angle
    return radius * np.where(swap, sine, cosine), radius * np.where(swap, cosine, sine)


def normals(bits: NDArray[np.uint64]) -> Array:
    """Return 2 len(bits) standard normal numbers."""
    out = np.empty((len(bits), 2))
    for start in range(0, len(bits), CHUNK):
        out[start : start + CHUNK, 0], out[start : start + CHUNK, 1] = normal_pairs(bits[start : start + CHUNK])
    return out.ravel()
