"""Draw some of many rows, find rows that are equal, exactly or up to rounding, and medians."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from buttress._checks import Array
from buttress._tuned import THEORY, tuned
from buttress._types import Rows


@dataclass(frozen=True)
class Samples:
    """How many rows stand for all where a law, a ridge or a width is learned from many."""

    rows: int = tuned(10_000, "rows", "drawn of more: a share of one half is then known to .005", THEORY)


@dataclass(frozen=True)
class Copies:
    """Constants that decide when rows count as near copies of one another."""

    single: float = tuned(1e-9, "column widths", "distance at which one pair is enough", "the precision of float64")
    single_chance: float = tuned(0.01, "column widths, times n^2", "the same of many rows", "chance: 1 column in 400")
    several: float = tuned(1e-6, "column widths", "distance at which several pairs are", "the precision of float32")
    several_chance: float = tuned(1e-3, "column widths, times n", "the same of many rows", "chance: 1 row in 2,000")
    relative: float = tuned(1e-6, "of the number", "distance allowed between two numbers", "the precision of float32")
    least: int = tuned(5, "rows", "several are at least so many", "chance: .06 pairs of 500 even rows")
    one_in: int = tuned(100, "rows", "and at least one in so many", "chance: 1 row in 2,000")
    neighbours: int = tuned(3, "rows", "compared with each in order, for copies of up to three equal rows", THEORY)
    rounding: float = tuned(4e-16, "column sizes", "distance that rounding alone explains", "the precision of float64")


SAMPLES = Samples()
COPIES = Copies()
CACHED_ROWS = 2000  # summed at once, column by column, while they are in the processor's cache


def drawn_rows(n: int, most: int | None = None) -> slice | Rows:
    """Return all of n rows, or ``most`` of them (``SAMPLES.rows``), drawn at random but always the same ones.

    Every k-th row would be a bad choice: rows often come in a repeating order, and some kinds would never be drawn.
    """
    most = SAMPLES.rows if most is None else most
    if n <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def cached(n: int) -> list[slice]:
    """Return parts of n rows whose products stay in the processor's cache."""
    return [slice(start, start + CACHED_ROWS) for start in range(0, n, CACHED_ROWS)]


def median(values: Array) -> Array:
    """Return the median along the last axis of numbers (..., n), none of them NaN.

    numpy's own, which looks for three places at once, takes ten times as long.
    """
    middle = values.shape[-1] // 2
    parted = np.partition(values, middle)
    upper = parted[..., middle]
    lower = upper if values.shape[-1] % 2 else parted[..., :middle].max(axis=-1)
    return np.asarray((lower + upper) / 2)


def equal_rows(
    X: Any, codes: Rows | None = None, sums: Array | None = None
) -> Rows | None:
    """Return the group number of each row of X (n, d), equal rows in one group, or None when no two rows are equal.

    With ``codes`` (n,), rows are equal that are so in X and in their code.

    Only rows with the same random combination of their columns are compared, so the cost is that of one sort. X may be
    CSR with each entry stored once and in order. ``sums`` (n,) are the :func:`row_sums` where they are known.
    """
    n = X.shape[0]
    combined = row_sums(X, codes) if sums is None else sums
    in_order = np.sort(combined)
    rises = in_order[1:] > in_order[:-1]
    if rises.all():
        return None
    order = combined.argsort(kind="stable")
    number = np.zeros(n, dtype=np.intp)
    number[order[1:]] = rises.cumsum()
    level = np.flatnonzero(~rises)
    doubtful, twins = order[level + 1], order[level]
    same = codes is None or (codes[doubtful] == codes[twins]).all()
    if same and not (X[doubtful] != X[twins]).sum():  # nearly always: rows of one combination are equal
        return number
    doubtful = np.union1d(doubtful, twins)
    among = _numbered(X[doubtful])
    if codes is not None:
        among = np.unique(among * (codes.max() + 1) + codes[doubtful], return_inverse=True)[1].reshape(-1)
    if among.max() + 1 == len(doubtful):
        return None
    groups = len(doubtful) + np.arange(n)
    groups[doubtful] = among
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)


def row_sums(X: Any, codes: Rows | None = None) -> Array:
    """Return a random combination (n,) of the columns of X (n, d) and of the codes, the same for equal rows."""
    factors = _factors(X.shape[1] + 1)
    if issparse(X):
        combined: Array = X @ factors[:-1]
    else:
        combined = np.empty(X.shape[0])
        for part in cached(X.shape[0]):  # each row is summed by itself, so that equal ones are rounded alike
            np.multiply(X[part], factors[:-1], order="C").sum(axis=1, out=combined[part])
    return combined if codes is None else combined + factors[-1] * codes


class Counted(NamedTuple):
    """Different rows X (m, d) and y (m,), their weights, and the number in these of each row given that has weight."""

    X: Array
    y: Array
    weight: Array
    group: Rows


def counted_once(X: Array, y: Array, weight: Array) -> Counted:
    """Return X (n, d), y and weights (n,) with rows equal in both as one row of their summed weight.

    They come sorted, so that weights and copies give the same arrays, and rows of weight 0 are left out. Where every
    row is there once, all are returned as they are.
    """
    pairs = np.column_stack([X, y])
    if (weight == 1).all() and equal_rows(pairs) is None:
        return Counted(X, y, weight, np.arange(len(y)))
    here = weight > 0
    different, group = np.unique(pairs[here], axis=0, return_inverse=True)
    group = group.reshape(-1)
    counts = np.bincount(group, weights=weight[here]).astype(np.float64)
    return Counted(different[:, :-1], different[:, -1], counts, group)


def distinct_rows(X: Any) -> Any:
    """Return the different rows of X (n, d), one of each; X as in :func:`equal_rows`."""
    if not issparse(X):
        return np.unique(X, axis=0)
    return X[np.unique(_numbered(X), return_index=True)[1]]


def _numbered(X: Any) -> Rows:
    """Return a number for each row of X (n, d), from 0, the same for equal rows."""
    if not issparse(X):
        return np.unique(X, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
    X = X.copy()
    X.eliminate_zeros()
    spans = [slice(*span) for span in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    seen: dict[tuple[bytes, bytes], int] = {}
    rows = [(X.indices[span].tobytes(), X.data[span].tobytes()) for span in spans]
    return np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.intp)


def near_copies(X: Array) -> Rows:
    """Return the rows of X (n, d) that equal another row up to rounding; exactly equal rows do not count.

    Two rows are near if they are near in every column. The distance in a column is measured in units of its width. The
    width is the median distance from the column's median, over the entries that differ from the median.

    - One pair within 1e-9 widths, the precision of float64, is enough.
    - Within 1e-6 widths, the precision of float32, one row in a hundred must have such a pair.

    For many rows both distances are smaller, because among n evenly spread numbers some two are within 1/n^2 by chance.
    Columns with many small numbers, such as probabilities, have near rows that are not copies. So two numbers must also
    agree to a millionth of their size, unless rounding alone explains their distance.
    """
    n = len(X)
    centre, width = _centre_and_width(X)
    combined = _combined(X, centre, width)
    rounding = COPIES.rounding * (width + np.abs(centre))
    one_pair = min(COPIES.single, COPIES.single_chance / n**2)
    many_pairs = min(COPIES.several, COPIES.several_chance / n)
    for tol, least in ((one_pair, 2), (many_pairs, max(COPIES.least, n // COPIES.one_in))):
        rows = _near_in_order(X, combined, tol, width, rounding)
        if len(rows) >= least:
            return rows
    return rows[:0]


def _centre_and_width(X: Array) -> tuple[Array, Array]:
    """Return the median of each column of X (n, d), and the median distance to it of the other entries, (d,)."""
    part = np.asarray(X[drawn_rows(len(X))], dtype=np.float64)
    centre = median(part.T)
    off = np.abs(part - centre)
    width = np.array([median(column[column > 0]) if column.any() else 1.0 for column in off.T])
    return centre, width


def _combined(X: Array, centre: Array, width: Array) -> Array:
    """Return a random combination (n,) of the columns in units of their widths: near rows have near values."""
    combined = np.zeros(len(X))
    for j, factor in enumerate(_factors(X.shape[1])):
        combined += factor * (X[:, j] - centre[j]) / width[j]
    return combined


@lru_cache(maxsize=8)
def _factors(d: int) -> Array:
    factors: Array = 1 + np.random.default_rng(0).random((d,))
    factors.setflags(write=False)
    return factors


def _near_in_order(X: Array, combined: Array, tol: float, width: Array, rounding: Array) -> Rows:
    """Return the rows within ``tol`` widths of another one that is close to them in the order of ``combined``."""
    order = np.argsort(combined)
    reach = tol * _factors(X.shape[1]).sum()
    found = [np.empty(0, dtype=np.intp)]
    for lag in range(1, COPIES.neighbours + 1):
        close = np.flatnonzero(combined[order[lag:]] - combined[order[:-lag]] <= reach)
        first = order[close]
        second = order[close + lag]
        one = np.asarray(X[first], dtype=np.float64)
        distance = np.abs(one - np.asarray(X[second], dtype=np.float64))
        alike = np.maximum(COPIES.relative * np.abs(one), rounding)
        near = (distance <= np.minimum(tol * width, alike)).all(axis=1)
        near &= distance.any(axis=1)
        found += [first[near], second[near]]
    return np.unique(np.concatenate(found))
