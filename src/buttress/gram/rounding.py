"""What rounding can add to float64 sums f_i = sum_j b_j k(x_i, x_j): a bound E_i of |fl(f_i) - f_i| for any data.

u = 2^-53, s_i is the squared length of row i as the entries see it (less a centre, which costs another u of each
coordinate), d the number of its entries, gamma_m = m u the error of m roundings. The bounds of one entry are

    |fl(k_ij) - k_ij| <= root_i root_j (share + own_i + own_j),     |k_ij| <= root_i root_j,

so that with S = sum_j |b_j| root_j and m terms in a chain of sums

    E_i = root_i ((share + gamma_m + own_i) S + sum_j |b_j| root_j own_j).

**Distances.** r^2 = s_i + s_j - 2 z_i'z_j is off by at most c u (s_i + s_j), c = 2 d + 80: the two lengths and the
product d each, the centre 4, their sum and difference 3, the scale of an exponent 6, and 64 where it is set to 0
because it is below them. Where r^2 is at most ``CLOSE`` (s_i + s_j), the difference of the rows is taken instead,
which is right to (d + 4) u. So r^2 is always right to the share eta = c u / CLOSE, and F(r^2) to ``swing`` eta, swing
= sup r^2 |F'(r^2)|.

**RBF.** As k <= 1, an error of the exponent is at least that of the value: gamma c u (s_i + s_j), and differences are
taken only where gamma (s_i + s_j) > ``LONG`` = 1 / (e CLOSE). There eta / e = c u LONG bounds it, as t exp(-t) <= 1/e.
So root = 1, own_i = c u min(gamma s_i, LONG), and share = 8 u is for the exponential.

**Inner products.** x_i'x_j is off by gamma_d |x_i| |x_j|, and (gamma x_i'x_j + c)^p, p a whole number, by p (d + 6) +
16 roundings of (gamma |x_i| |x_j| + |c|)^p, which is at most root_i root_j for root_i^2 = (gamma s_i + |c|)^p.

Of the linear kernel alone f = X w + c sum(b) with w = X'b, whose sums are taken as if exactly: |fl(f_i) - f_i| is then
at most (d + 3) u sum_k |x_ik w_k|, in which columns far from 0 do not cancel. No entry is needed for it.

**RBF in float32**, whose entries come from rounded rows, with u = 2^-24: the same without differences and with c = 2 d
+ 20, because rounding the rows takes the place of the centre's, nothing is set to 0, and the scale is off by 4. Where
gamma c u (s_i + s_j) <= 0.1, exp(error) - 1 is at most 1.06 times the error. Longer rows have no bound. The exponential
is right to 4 u, and what is below 2^-125 becomes that. Products below float32's range count as 2^-110 more in s_i.
Here k <= 1 would be too crude: with W_i = sum_j |b_j| fl(k_ij), which is summed beside f, E_i = 1.12 (share + own_i +
most own_j) W_i, and the few j of largest own_j add |b_j| own_j. Or V_i = sum_j |b_j| own_j fl(k_ij) is summed too, and
E_i = 1.12 ((share + own_i) W_i + V_i).

exp, log and powers of numpy are taken to be right to 4 u. Bounds are known for the kernels written here, not for those
that derive from them, and not where squares of rows or parameters come near the ends of float64's range.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from buttress._checks import Array
from buttress._proof import SLACK, U
from buttress._types import Rows
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Kernel, Laplacian, Linear, Log, MultiscaleRBF, Polynomial

UNDERFLOW = 1e-100  # what numbers below the range of float64 can then add to an entry
# |x|^2 + |z|^2 - 2 x'z is off by a few roundings of |x|^2 + |z|^2. Closer pairs than this share of it are computed from
# differences of their coordinates, which keeps 12 digits of the distance.
CLOSE = 1e-4
LONG = 1 / (np.e * CLOSE)  # gamma (|x|^2 + |z|^2): of the RBF kernel closer pairs are so only beyond this
SINGLE = 2.0**-24  # one rounding of float32
SINGLE_MOST = 0.05  # the largest own_i of a row for which the entries in float32 are bounded
PROFILED = 64  # roundings of a function of a distance, at most
CHAIN = 1024  # roundings of a sum of entries, besides one for each tile of them

# sup over t of t |F'(t)|, F the kernel as a function of the squared distance t
SWINGS: dict[type[Kernel], Callable[[Any], float]] = {
    RBF: lambda kernel: 1 / np.e,
    MultiscaleRBF: lambda kernel: 1 / np.e if len(kernel.gammas) <= 50 else np.inf,  # so it takes no more
    Laplacian: lambda kernel: 0.5 / np.e,
    InverseMultiquadric: lambda kernel: 3**-1.5 / kernel.offset,
    Cauchy: lambda kernel: 0.25,
    Log: lambda kernel: kernel.degree / 2,
}


@dataclass(frozen=True)
class Product:
    """f = K b in float64, with bounds of its error, both (n,). Where none are known they are 0, and nothing ``proven``.
    """

    f: Array
    errors: Array
    proven: bool


class Summed(NamedTuple):
    """f_i = sum_j b_j k(x_i, x_j) (n,) of entries in float32, added up of products with parts or changes of b.

    ``mass`` (n,) is the sum of |part_j| k(x_i, x_j) over all parts, inf where f has come about otherwise, and ``moved``
    (n,) that of |part_j|.
    """

    f: Array
    mass: Array
    moved: Array


@dataclass(frozen=True)
class EntryErrors:
    """Bounds of the errors of entries: see the module. ``root`` and ``own`` have shape (n,)."""

    root: Array
    own: Array
    share: float

    def times(self, weight: float, roundings: float) -> "EntryErrors":
        """Return the bounds of ``weight`` times the entries, where that and a sum take so many roundings more."""
        return EntryErrors(self.root * weight**0.5, self.own, self.share + roundings * U)

    def of_sums(self, b: Array, index: Rows, chain: float) -> Array:
        """Return E (m,) of the rows ``index`` (m,) with coefficients b, if a value passes through ``chain`` sums."""
        root, own = self.root[index], self.own[index]
        size = np.abs(b) * root
        total = float(size.sum())
        errors: Array = SLACK * root * ((self.share + chain * U + own) * total + float(size @ own))
        return errors + UNDERFLOW * float(np.abs(b).sum())

    def of_single_sums(
        self, b: Array, columns: Rows, chain: float, mass: Array, rows: Rows,
        sums: Callable[[Array], Array] | None = None,
    ) -> Array:
        """Return E (m,) at the ``rows`` of sums over the ``columns`` of RBF entries in float32, for W (m,).

        ``sums`` gives such sums (m,) of coefficients that are at least 0, where V is to be used.
        """
        own, size = self.own[columns], np.abs(b)
        # columns above are counted one by one; any number gives a bound
        most = 4.0 * float(np.median(own[size > 0])) if size.any() else 0.0
        above: Array | float = float(size @ np.where(own > most, np.minimum(own, 1), 0))
        if sums is not None:
            most = 0.0
            above = 1.12 * sums(size * np.where(np.isinf(own), 0, own)) + float(size @ np.isinf(own))
        errors: Array = SLACK * (1.12 * (self.share + chain * U + self.own[rows] + most) * mass + above)
        return errors + 2.0**-120 * float(size.sum())  # what the smallest numbers of float32 can add

    def of_diagonal(self, index: Rows) -> Array:
        """Return bounds (m,) of the errors of k(x_i, x_i), which no distance enters, of the rows ``index``."""
        return SLACK * self.share * self.root[index] ** 2 + UNDERFLOW


def chain_of(n: int, height: int) -> float:
    """Return how many sums a value can pass through where n entries are added up by tiles of this height or wider."""
    return min(n + 8, CHAIN + n / height)


def distance_errors(kernel: Kernel, squares: Array, d: Array | int) -> list[EntryErrors] | None:
    """Return the bounds of a function of the distance, None where none is known; ``squares`` are the s_i."""
    kind = type(kernel)
    if kind not in SWINGS or not _within_range(kernel, squares):
        return None
    c = SLACK * (2 * d + 80) * U
    if kind is RBF:
        own = c * np.minimum(float(kernel.gamma) * SLACK * squares, LONG)
        return [EntryErrors(np.ones(len(squares)), own, 8 * U)]
    swing = SWINGS[kind](kernel)
    ends = np.abs(kernel.profile(np.array([0.0, 4 * SLACK * squares.max(initial=0.0)])))
    largest = float(ends.max())
    off = swing * (np.max(c, initial=0) / CLOSE + PROFILED * U)
    share = SLACK * (off / largest + PROFILED * U) if largest > 0 else 0.0
    return [EntryErrors(np.full(len(squares), largest**0.5), np.zeros(len(squares)), share)]


def single_errors(kernel: Kernel, squares: Array, d: Array | int) -> EntryErrors | None:
    """Return the bounds of RBF entries in float32, of which only sums are taken in float64; None for other kernels."""
    if type(kernel) is not RBF or not _within_range(kernel, squares):
        return None
    c = (2 * d + 20) * SINGLE
    own = 1.06 * SLACK * c * float(kernel.gamma) * ((1 + 2 * d * SINGLE) * squares.astype(np.float64) + 2.0**-110)
    own[~(own <= SINGLE_MOST)] = np.inf
    return EntryErrors(np.ones(len(squares)), own, 4 * SINGLE)


def product_errors(kernel: Kernel, squares: Array, d: Array | int) -> list[EntryErrors] | None:
    """Return the bounds of a function of the inner product, None where none is known; ``squares`` are |x_i|^2."""
    if type(kernel) not in (Linear, Polynomial) or not _within_range(kernel, squares):
        return None
    degree = float(getattr(kernel, "degree", 1))
    if degree != int(degree):
        return None
    size = (float(getattr(kernel, "gamma", 1)) * SLACK * squares + abs(float(kernel.coef0))) ** degree
    return [EntryErrors(np.sqrt(size), np.zeros(len(squares)), (degree * (np.max(d, initial=0) + 6) + 16) * U)]


def _within_range(kernel: Kernel, squares: Array) -> bool:
    """Say whether nothing that matters is lost below or above the range of float64."""
    values = np.abs(np.concatenate([np.ravel(value) for value in vars(kernel).values()]).astype(float))
    low, high = 1e-50, 1e50  # the range of parameters for which bounds hold
    return bool(((values == 0) | ((values >= low) & (values <= high))).all() and squares.max(initial=0.0) >= 1e-250)
