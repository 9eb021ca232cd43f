"""What it takes to call a number proven: values with bounds of their errors, and how a model says that it has them.

A bound is proven if it holds in real numbers for the stored data and parameters, whatever they are: everything that
floating point may have added is in it. It is measured if something is missing that only measurements speak for.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from buttress._state import Attribute
from buttress._types import Array, DenseOrSparse, is_csr

U = 2.0**-53  # one rounding of float64
UNIT = 2 * U  # from 1 to the next number
SLACK = 1.01  # bounds of errors are multiplied by this, for their own rounding and for products of errors
UNDERFLOW = 1e-300  # what a product may lose below the range of float64
HALVES = 134217729.0  # 2^27 + 1, which splits a float64 into two whose products have no rounding
CHUNK = 4096  # rows of a matrix whose absolute values are held at a time

PROOF = Attribute(
    "proof_", "text",
    meaning='Whether the stated bounds are "proven" in floating point, or "measured": they then assume, without proof, '
            "that the kernel is definite, or that its values are right.")


def proof_word(proven: Iterable[bool]) -> str:
    """Return what a model says of its bounds."""
    return "proven" if all(proven) else "measured"


def sum_error(terms: float, unit: float = UNIT) -> float:
    """Return by which share of its terms' sizes a sum of so many of them may be off, in any order; 0 terms: a number.

    n roundings in a chain, each of a share of u = unit / 2, are off by gamma_n = n u / (1 - n u) (Higham 2002, Accuracy
    and Stability, lemma 3.1), at most 2 n u = n unit as long as n u <= 1/2. A term of a sum passes through ``terms``
    roundings of it at most. The 16 others are for what it is made by, and for what is done with the sum.
    """
    return unit * (terms + 16)


class Near:
    """Values ``v`` and bounds ``e`` of their errors: a real number lies between ``low`` and ``high``.

    >>> third = Near(1 / 3, 2.0**-54)
    >>> sixth = third * 0.5
    >>> bool(sixth.low < sixth.v < sixth.high)
    True
    """

    def __init__(self, v: Any, e: Any = 0.0):
        self.v: Array = np.asarray(v, dtype=np.float64)
        each = np.asarray(e, dtype=np.float64) * SLACK
        self.e: Array = each if each.shape == self.v.shape else np.broadcast_to(each, self.v.shape)

    @property
    def low(self) -> Array:
        return self.v - self.e - 2 * U * (np.abs(self.v) + self.e)

    @property
    def high(self) -> Array:
        return self.v + self.e + 2 * U * (np.abs(self.v) + self.e)

    def __add__(self, other: "Near | Array | float") -> "Near":
        other = _near(other)
        v = self.v + other.v
        return Near(v, self.e + other.e + U * np.abs(v))

    def __mul__(self, other: "Near | Array | float") -> "Near":
        other = _near(other)
        v = self.v * other.v
        return Near(v, self.e * (np.abs(other.v) + other.e) + np.abs(self.v) * other.e + U * np.abs(v) + UNDERFLOW)

    def sum(self) -> "Near":
        """Return the sum of all values."""
        return Near(self.v.sum(), self.e.sum() + self.v.size * U * np.abs(self.v).sum())

    def each(self, part: Callable[[Array], Array]) -> "Near":
        """Return a function of each value whose slope is at most 1."""
        return Near(part(self.v), self.e)


def _near(value: "Near | Array | float") -> Near:
    return value if isinstance(value, Near) else Near(value)


def plus(values: Array) -> Array:
    """Return max(0, values)."""
    return np.maximum(values, 0)


def products(X: DenseOrSparse, w: Near) -> Near:
    """Return X w for X (n, d), dense or CSR, and w (d,)."""
    both = np.column_stack([np.abs(w.v), w.e])
    size, lost = np.concatenate([abs(X[top : top + CHUNK]) @ both for top in range(0, X.shape[0], CHUNK)]).T
    return Near(X @ w.v, lost + (X.shape[1] + 2) * U * size + X.shape[1] * UNDERFLOW)


def sums_of_rows(X: DenseOrSparse, a: Array) -> Near:
    """Return X'a for X (n, d), dense or CSR, of which entries, and those of a (n,), may be off by a rounding or two."""
    size = sum((abs(X[top : top + CHUNK]).T @ np.abs(a[top : top + CHUNK]) for top in range(0, X.shape[0], CHUNK)),
               np.zeros(X.shape[1]))
    return Near(X.T @ a, (X.shape[0] + 8) * U * size + X.shape[0] * UNDERFLOW)


def sharp_sums_of_rows(X: DenseOrSparse, a: Array) -> Near:
    """Return X'a, of a dense X with one rounding of the result, however much of the sums cancels."""
    used = np.flatnonzero(a)
    X, a = X[used], a[used]
    if is_csr(X):
        return sums_of_rows(X, a)
    v = np.array([_dot(column, a) for column in np.ascontiguousarray(X.T)])
    return Near(v, U * np.abs(v) + len(a) * UNDERFLOW)


def _dot(x: Array, a: Array) -> float:
    """Return x'a as if its terms were exact and their sum rounded once (products by Dekker, Numer. Math. 18, 1971)."""
    product = x * a
    (x_high, x_low), (a_high, a_low) = _halves(x), _halves(a)
    lost = (x_high * a_high - product + x_high * a_low + x_low * a_high) + x_low * a_low
    return math.fsum([*product.tolist(), *lost.tolist()])


def _halves(x: Array) -> tuple[Array, Array]:
    high = x * HALVES - (x * HALVES - x)
    return high, x - high
