"""Products with a Gram matrix that is not stored: exact ones by tiles, half of them as it is symmetric, or by panels.

Sums of float32 entries are taken in float64 throughout: over a hundred thousand coefficients, float32 sums would be
off by more than the certificate of an exact machine allows (``solvers/qp/certificate.py``).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._proof import Near, U, products, sharp_sums_of_rows
from buttress._threads import in_time, share
from buttress._types import DenseOrSparse, Rows
from buttress.gram.entries import SUMMED, TILE, KernelEntries, ProductEntries, entries
from buttress.gram.rounding import Product, chain_of
from buttress.kernels import Kernel, Linear, Precomputed

HANDS = 16  # parts into which the rows of tiles are split; fixed, so that the sum does not depend on the threads


@dataclass(frozen=True)
class Exact:
    """Entries in float64 among some rows, which ``source`` may know by other ``numbers``."""

    source: KernelEntries
    numbers: Rows | None = None

    def __call__(self, rows: slice, columns: slice) -> Array:
        if self.numbers is None:
            return self.source(rows, columns)
        return self.source(self.numbers[rows], self.numbers[columns])

    def product(self, b: Array, tiled: Callable[[], Array]) -> Product:
        """Return K b, which ``tiled`` adds up tile by tile, with bounds of its error.

        Of the linear kernel it is X w with w = X'b instead, of which far less may cancel.
        """
        errors = self.source.errors
        n = len(b)
        index = np.arange(n) if self.numbers is None else self.numbers
        if errors is not None and isinstance(self.source, ProductEntries) and type(self.source.kernel) is Linear:
            X, total = self.source.inner.X[index], math.fsum(b)
            f = products(X, sharp_sums_of_rows(X, b)) + Near(total, U * abs(total)) * float(self.source.kernel.coef0)
        else:
            chain = chain_of(n, self.source.tile[0])
            f = Near(tiled(), sum((one.of_sums(b, index, chain) for one in errors or ()), np.zeros(n)))
        return Product(f.v, f.e, errors is not None)

    def diagonal_errors(self, n: int) -> Array:
        """Return bounds (n,) of the errors of the diagonal; 0 where none are known."""
        index = np.arange(n) if self.numbers is None else self.numbers
        return sum((one.of_diagonal(index) for one in self.source.errors or ()), np.zeros(n))


def exact_entries(kernel: Kernel, X: DenseOrSparse, index: Rows) -> Exact:
    """Return the entries among the rows ``index`` of X, by place in it."""
    if isinstance(kernel, Precomputed):
        return Exact(entries(kernel, X, np.float64), index)
    return Exact(entries(kernel, X[index], np.float64))


def tiles(start: int, stop: int, side: int = TILE) -> list[tuple[int, int]]:
    """Return the ends of the tiles that cover start to stop."""
    return [(left, min(left + side, stop)) for left in range(start, stop, side)]


def tiled_product(exact: Exact, b: Array, diagonal: Array, size: int, chosen: int) -> Array:
    """Return K b for a symmetric K (n, n) with this diagonal, at the rows before ``chosen`` and from ``size`` on.

    b is 0 from ``size`` on. The order of sums does not depend on the threads.
    """
    parts: dict[int, Array] = {}
    height = exact.source.tile[0]
    rows_of = [*tiles(0, chosen, height), *tiles(chosen, size, height)]

    def work(hands: Iterator[int]) -> None:
        for hand in hands:
            parts[hand] = _tile_products(exact, b, diagonal, size, chosen, rows_of[hand::HANDS])

    share(work, range(min(len(rows_of), HANDS)), exact.source.cost(size, chosen + len(b) - size))
    return sum((parts[hand] for hand in sorted(parts)), np.zeros(len(b)))


def _tile_products(
    exact: Exact, b: Array, diagonal: Array, size: int, chosen: int, rows_of: Sequence[tuple[int, int]]
) -> Array:
    """Return what some tiles of rows give of :func:`tiled_product`.

    A tile among the first ``chosen`` rows counts for both halves of K. ``rows_of`` are ends of tiles, of which none is
    on both sides of ``chosen``.
    """
    out = np.zeros(len(b))
    side = exact.source.tile[1]
    others = tiles(size, len(b), side)
    for top, end in in_time(rows_of):
        rows = slice(top, end)
        among = [*tiles(top, chosen, side), *tiles(max(top, chosen), size, side)] if top < chosen else []
        for start, stop in [*among, *others]:
            columns = slice(start, stop)
            K = exact(rows, columns)
            own = end - start if start == top else 0
            np.fill_diagonal(K[:, :own], diagonal[rows])
            for left, right in tiles(start + own, min(stop, size), 768):  # in a chain of sums; it allows for 1,000
                out[rows] += K[:, left - start : right - start] @ b[left:right]
            out[columns] += b[rows] @ K
    return out


def unstored_sums(entries: KernelEntries, columns: Rows, weights: Array, wanted: Rows) -> Array:
    """Return sum_j weights[j] k(x_i, x_columns[j]) for the rows i of ``wanted``, shape (len(wanted),).

    Threads share the rows, and each sum is taken by one of them, so the bits do not depend on their number.
    """
    total = np.zeros(len(wanted))
    if len(columns) == 0:
        return total
    at = entries.sums(columns, np.ascontiguousarray(weights, dtype=np.float64))

    def work(tops: Iterator[int]) -> None:
        for top in tops:
            total[top : top + SUMMED] = at(wanted[top : top + SUMMED])

    share(work, range(0, len(wanted), SUMMED), entries.cost(len(wanted), len(columns)))
    return total
