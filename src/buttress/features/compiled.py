"""The compiled loops of random features: normal numbers from bits, and cosines in single precision."""

from typing import Any

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._compiling import compile_kernel

WORDS = 4096  # words at a time, so that the passes below stay in cache
SHARE = 2.0**-32
LOG2 = 0.6931471805599453
HALF_ROOT = 0.7071067811865476  # the root of a half
QUARTER_TURN = 1.5707963267948966  # pi / 2
HIGH = np.uint64(32)  # bits to shift the high half of a word down by
LOW = np.uint64(0xFFFFFFFF)  # mask of its low half
# parts of a float64: the mask of its fraction, the exponent bits of numbers in [0.5, 1), where its exponent starts
FRACTION = np.uint64(2**52 - 1)
HALF = np.uint64(1022 << 52)
EXPONENT = np.uint64(52)


@register_jitable
def minus_log(mantissa: float, exponent: float) -> float:
    """Return -log(mantissa 2^exponent) to 1e-12, by the series of 2 artanh."""
    s = (mantissa - HALF_ROOT) / (mantissa + HALF_ROOT)
    square = s * s
    series = 1 / 15
    series = series * square + 1 / 13
    series = series * square + 1 / 11
    series = series * square + 1 / 9
    series = series * square + 1 / 7
    series = series * square + 1 / 5
    series = series * square + 1 / 3
    series = series * square + 1.0
    return (0.5 - exponent) * LOG2 - 2 * s * series


@compile_kernel("void(uint64[::1], float64[::1])")
def exponential_numbers(words: NDArray[np.uint64], out: Array) -> None:
    """Write -log(u), u in (0, 1) from the high half of each word."""
    uniform = np.empty(WORDS)
    mantissa = np.empty(WORDS)
    raw = uniform.view(np.uint64)
    split = mantissa.view(np.uint64)
    for start in range(0, len(words), WORDS):
        count = min(WORDS, len(words) - start)
        for i in range(count):
            uniform[i] = (float(np.int64(words[start + i] >> HIGH)) + 0.5) * SHARE
        for i in range(count):
            split[i] = (raw[i] & FRACTION) | HALF
        for i in range(count):
            out[start + i] = minus_log(mantissa[i], float(np.int64(raw[i] >> EXPONENT) - 1022))


@compile_kernel("void(uint64[::1], float64[::1], float64[:,::1])")
def normal_numbers(words: NDArray[np.uint64], exponentials: Array, out: Array) -> None:
    """Write two normal numbers per word, (n, 2), by Box and Muller: radius from the high half, angle from the low."""
    first = np.empty(WORDS)
    second = np.empty(WORDS)
    for start in range(0, len(words), WORDS):
        count = min(WORDS, len(words) - start)
        for i in range(count):
            low = np.int64(words[start + i] & LOW)
            radius = np.sqrt(2 * exponentials[start + i]) * (1.0 - float(low & 2))
            angle = ((float(low >> 2) + 0.5) * 2.0**-30 - 0.5) * QUARTER_TURN  # swap and sign give the other quarters
            square = angle * angle
            cosine = 1 - square * (1 / 132)
            cosine = 1 - square * cosine * (1 / 90)
            cosine = 1 - square * cosine * (1 / 56)
            cosine = 1 - square * cosine * (1 / 30)
            cosine = 1 - square * cosine * (1 / 12)
            cosine = 1 - square * cosine * 0.5
            sine = 1 - square * (1 / 156)
            sine = 1 - square * sine * (1 / 110)
            sine = 1 - square * sine * (1 / 72)
            sine = 1 - square * sine * (1 / 42)
            sine = 1 - square * sine * (1 / 20)
            sine = angle * (1 - square * sine * (1 / 6))
            swap = (low & 1) == 1
            first[i] = radius * (sine if swap else cosine)
            second[i] = radius * (cosine if swap else sine)
        for i in range(count):
            out[start + i, 0] = first[i]
            out[start + i, 1] = second[i]


F: Any = np.float32
# numbers in single precision, so that the loop uses no other: pi in three parts, and the series of the cosine
INVERSE_PI = F(0.31830987)
PI_HIGH = F(3.140625)
PI_MIDDLE = F(9.67025757e-4)
PI_LOW = F(6.27711453e-7)
ONE = F(1)
TWO = F(2)
HALF_ONE = F(0.5)
C2 = F(-0.5)
C4 = F(1 / 24)
C6 = F(-1 / 720)
C8 = F(1 / 40320)
C10 = F(-1 / 3628800)
C12 = F(1 / 479001600)


@compile_kernel("void(float32[:,::1], float32[::1], float32)", fastmath={"contract", "nsz"})
def cosines(P: NDArray[np.float32], phases: NDArray[np.float32], size: np.float32) -> None:
    """Replace P (n, m) by size cos(P + phases), to 3e-7 size for arguments below 1e4, in one pass (numpy needs three).

    The argument is reduced to a half turn around 0 with pi in three parts.
    """
    for i in range(P.shape[0]):
        for j in range(P.shape[1]):
            x = P[i, j] + phases[j]
            half_turns = np.rint(x * INVERSE_PI)
            x = x - half_turns * PI_HIGH
            x = x - half_turns * PI_MIDDLE
            x = x - half_turns * PI_LOW
            square = x * x
            series = C10 + square * C12
            series = C8 + square * series
            series = C6 + square * series
            series = C4 + square * series
            series = C2 + square * series
            series = ONE + square * series
            odd = half_turns * HALF_ONE - np.floor(half_turns * HALF_ONE)  # 0 or a half
            P[i, j] = size * (series - TWO * TWO * odd * series)
