"""The spectra of stationary kernels, how far features move when an input moves, and what features are drawn from.

A kernel F(|x - z|^2) that is positive definite is F(0) E cos(w'(x - z)) for a random w (Bochner). For the kernels
here w is a normal vector times an independent length (a scale mixture), which :data:`STATIONARY` gives:

    RBF                    exp(-gamma r^2)           sqrt(2 gamma)
    Laplacian (L2)         exp(-gamma r)             gamma / |g|,             g normal
    Cauchy                 1 / (1 + gamma r^2)       sqrt(2 gamma u),         u exponential
    inverse multiquadric   (r^2 + offset^2)^(-1/2)   |g| / offset,            g normal

The random numbers are the same on every machine. Philox is a function of (key, counter), so block t of a model's
features depends on its seed and t only, and blocks can be made in any order. The transforms of its bits use only
additions, multiplications, divisions and square roots, whose rounding IEEE 754 defines. It does not define that of log,
sin and cos, and numpy's own samplers may change between versions.

Sources: Rahimi & Recht (2007) for the features; Xu, Caramanis & Mannor (2009) for the radius; Salmon et al. (2011) for
Philox; Box & Muller (1958).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Kernel, Laplacian

LOG_2 = 0.6931471805599453
AT_A_TIME = 8192  # words made normal numbers at a time, whose steps stay in the cache (2048 to 65536 take as long)


@dataclass(frozen=True)
class Spectrum:
    """Four functions of a kernel of one family, for random features and radii in feature space.

    Parameters
    ----------
    lengths : function of (kernel, normals, exponentials), both (m,)
        The factors, (m,) or one number, that turn normal vectors into frequencies.
    second_moment : function of the kernel
        E w_j^2 of one coordinate of a frequency; inf where there is none.
    drop : function of (kernel, r)
        F(0) - F(r^2), without cancellation for small r.
    reach : function of (kernel, drop)
        The r at which F(0) - F(r^2) is ``drop``.
    """

    lengths: Callable[[Any, Array, Array], Any]
    second_moment: Callable[[Any], float]
    drop: Callable[[Any, float], float]
    reach: Callable[[Any, float], float]


def _imq_drop(kernel: InverseMultiquadric, r: float) -> float:
    far = np.hypot(r, kernel.offset)
    return r**2 / (kernel.offset * far * (far + kernel.offset))


STATIONARY: dict[type[Kernel], Spectrum] = {
    RBF: Spectrum(
        lambda kernel, normal, exponential: np.sqrt(2 * kernel.gamma),
        lambda kernel: 2 * kernel.gamma,
        lambda kernel, r: -np.expm1(-kernel.gamma * r**2),
        lambda kernel, drop: np.sqrt(-np.log1p(-drop) / kernel.gamma),
    ),
    Laplacian: Spectrum(
        lambda kernel, normal, exponential: kernel.gamma / np.abs(normal),
        lambda kernel: np.inf,
        lambda kernel, r: -np.expm1(-kernel.gamma * r),
        lambda kernel, drop: -np.log1p(-drop) / kernel.gamma,
    ),
    Cauchy: Spectrum(
        lambda kernel, normal, exponential: np.sqrt(2 * kernel.gamma * exponential),
        lambda kernel: 2 * kernel.gamma,
        lambda kernel, r: kernel.gamma * r**2 / (1 + kernel.gamma * r**2),
        lambda kernel, drop: np.sqrt(drop / (1 - drop) / kernel.gamma),
    ),
    InverseMultiquadric: Spectrum(
        lambda kernel, normal, exponential: np.abs(normal) / kernel.offset,
        lambda kernel: kernel.offset**-2.0,
        _imq_drop,
        lambda kernel, drop: np.sqrt(drop * kernel.offset * (2 - drop * kernel.offset)) / (1 / kernel.offset - drop),
    ),
}


def spectrum_of(kernel: Kernel, what: str) -> Spectrum:
    """Return the spectrum of a kernel; raise ValueError if it has none. ``what`` begins the message."""
    if type(kernel) not in STATIONARY:
        names = ", ".join(f"{family.__name__}" for family in STATIONARY)
        raise ValueError(f"{what} needs a kernel that depends on the distance alone and falls with it: {names}. "
                         f"Got {kernel!r}. Use one of these, for example kernel='rbf'.")
    return STATIONARY[type(kernel)]


def feature_radius(kernel: Kernel, eps: float) -> float:
    """Return eps' = sqrt(2 F(0) - 2 F(eps^2)), the distance in feature space of inputs ``eps`` apart (L2).

    No input within ``eps`` of x lies further than this from phi(x) (Xu, Caramanis & Mannor 2009; Theorem 1).

    >>> from buttress.kernels import RBF
    >>> round(feature_radius(RBF(0.5), 0.1), 6)
    0.099875
    """
    return float(np.sqrt(2 * spectrum_of(kernel, "A radius in feature space").drop(kernel, eps)))


def input_radius(kernel: Kernel, radius: float) -> float:
    """Return the L2 distance of inputs whose features are ``radius`` apart; inf where none are that far."""
    drop = radius**2 / 2
    if drop >= float(kernel.diagonal(np.zeros((1, 1)))[0]):
        return float("inf")
    return float(spectrum_of(kernel, "A radius in the inputs").reach(kernel, drop))


def words(seed: int, block: int, count: int) -> NDArray[np.uint64]:
    """Return ``count`` random 64-bit words of one block of one seed; blocks never overlap."""
    return np.random.Philox(key=seed, counter=[0, 0, 0, block]).random_raw(count)


def shares(bits: NDArray[np.uint64]) -> Array:
    """Return a uniform number in (0, 1) from the low half of each word."""
    return ((bits & np.uint64(2**32 - 1)).astype(np.float64) + 0.5) * 2.0**-32


def exponentials(bits: NDArray[np.uint64]) -> Array:
    """Return -log(u) for each word, u in (0, 1) being its high half, to 1e-12 by the series of 2 artanh."""
    mantissa, exponent = np.frexp(shares(bits >> np.uint64(32)))
    s = (mantissa - 0.5**0.5) / (mantissa + 0.5**0.5)
    series: Array = np.full(len(s), 1 / 15)
    for odd in (13, 11, 9, 7, 5, 3, 1):
        series = series * (s * s) + 1 / odd
    return (0.5 - exponent) * LOG_2 - 2 * s * series


def normals(bits: NDArray[np.uint64]) -> Array:
    """Return 2 len(bits) standard normal numbers, by Box and Muller: radius from the high half, angle from the low."""
    made = np.empty((len(bits), 2))
    for start in range(0, len(bits), AT_A_TIME):
        made[start : start + AT_A_TIME] = _pairs(bits[start : start + AT_A_TIME])
    return made.ravel()


def _pairs(bits: NDArray[np.uint64]) -> Array:
    """Return two normal numbers a word, (len(bits), 2)."""
    low = (bits & np.uint64(2**32 - 1)).astype(np.int64)
    radius = np.sqrt(2 * exponentials(bits)) * (1.0 - (low & 2))
    angle = (((low >> 2) + 0.5) * 2.0**-30 - 0.5) * (np.pi / 2)  # swap and sign give the other quarters
    square = angle * angle
    cosine, sine = np.ones(len(low)), np.ones(len(low))
    for n in (11, 9, 7, 5, 3, 1):  # their series, from the last term on
        cosine = 1 - square * cosine * (1 / (n * (n + 1)))
        sine = 1 - square * sine * (1 / ((n + 1) * (n + 2)))
    sine = angle * sine
    swap = (low & 1) == 1
    return np.column_stack([radius * np.where(swap, sine, cosine), radius * np.where(swap, cosine, sine)])
