"""Random numbers that are the same on every machine: counter-based bits and a transform of exact operations.

Philox is a function of (key, counter), so block t of a model's features depends on its seed and t only, and blocks can
be made in any order. The transforms use only additions, multiplications, divisions and square roots, whose rounding
IEEE 754 defines. It does not define that of log, sin and cos, and numpy's own samplers may change between versions.
Sources: Salmon et al. (2011) for Philox; Box & Muller (1958).
"""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array


def words(seed: int, block: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` random 64-bit words of one block of one seed; blocks never overlap."""
    raw: NDArray[np.uint64] = np.random.Philox(key=seed, counter=[0, 0, 0, block]).random_raw(count)
    return raw


def shares(bits: NDArray[np.uint64]) -> Array:
    """Return a uniform number in (0, 1) from the low half of each word."""
    return ((bits & np.uint64(0xFFFFFFFF)).astype(np.float64) + 0.5) * 2.0**-32


def exponentials(bits: NDArray[np.uint64]) -> Array:
    """Return -log(u) for each word, u in (0, 1) being its high half."""
    from buttress.features.compiled import exponential_numbers

    out = np.empty(len(bits))
    exponential_numbers(bits, out)
    return out


def normals(bits: NDArray[np.uint64]) -> Array:
    """Return 2 len(bits) standard normal numbers, by Box and Muller's transform."""
    from buttress.features.compiled import normal_numbers

    out = np.empty((len(bits), 2))
    normal_numbers(bits, exponentials(bits), out)
    return out.ravel()
