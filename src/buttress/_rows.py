"""Rows drawn from many, and rows that repeat others, exactly or but for rounding."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from buttress._checks import Array

ENOUGH = 10_000  # rows to measure a column by


def drawn_rows(n: int, most: int) -> slice | NDArray[np.intp]:
    """Return all of n rows, or ``most`` of them, drawn at random but always the same.

    Not every k-th: rows often come in turns, and one of each turn would then never be seen.
    """
    if n <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def equal_rows(X: Any) -> NDArray[np.intp] | None:
    """Return the group number of each row of X (n, d), equal rows in one group, or None when no two rows are equal.

    Rows are compared only where a random combination of their columns is equal, so that many rows cost one sort. X may
    be CSR with each entry stored once and in order.
    """
    factors, n = 1 + np.random.default_rng(0).random((X.shape[1],)), X.shape[0]
    if issparse(X):
        combined = X @ factors
    else:
        combined = np.zeros(n)
        for j, factor in enumerate(factors):
            combined += factor * X[:, j]  # column by column: equal rows are rounded alike
    _, number, size = np.unique(combined, return_inverse=True, return_counts=True)
    doubtful = np.flatnonzero(size[number] > 1)
    among = _numbered(X[doubtful])
    if len(doubtful) == 0 or among.max() + 1 == len(doubtful):
        return None
    groups = len(doubtful) + np.arange(n)
    groups[doubtful] = among
    return np.unique(groups, return_inverse=True)[1].astype(np.intp)


def distinct_rows(X: Any) -> Any:
    """Return the different rows of X (n, d), one of each; X as in :func:`equal_rows`."""
    if not issparse(X):
        return np.unique(X, axis=0)
    return X[np.unique(_numbered(X), return_index=True)[1]]


def _numbered(X: Any) -> NDArray[np.intp]:
    """Return a number for each row of X (n, d), from 0, the same for equal rows."""
    if not issparse(X):
        return np.unique(X, axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
    X = X.copy()
    X.eliminate_zeros()
    spans = [slice(*span) for span in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
    seen: dict[tuple[bytes, bytes], int] = {}
    rows = [(X.indices[span].tobytes(), X.data[span].tobytes()) for span in spans]
    return np.array([seen.setdefault(row, len(seen)) for row in rows], dtype=np.intp)


def near_copies(X: Array) -> NDArray[np.intp]:
    """Return the rows of X (n, d) that all but repeat another: nearer in every column than chance brings two of n.

    A column is measured in the middle size of what is not at its median. One pair is enough where it is 1e-9 apart, as
    far as float64 goes; 1e-6, as far as float32 does, must be met by a row in a hundred. (Of n numbers spread evenly
    some two are within 1/n^2: both are lowered for many rows.) Columns with many small numbers, such as probabilities,
    bring rows as near that are no copies: numbers must also agree to a millionth of themselves, unless they are as near
    as rounding alone may set them apart. Equal rows do not count.
    """
    n, part = len(X), np.asarray(X[drawn_rows(len(X), ENOUGH)], dtype=np.float64)
    centre = np.median(part, axis=0)
    off = np.abs(part - centre)
    width = np.array([np.median(column[column > 0]) if column.any() else 1.0 for column in off.T])
    factors = 1 + np.random.default_rng(0).random((X.shape[1],))
    combined = np.zeros(n)
    for j, factor in enumerate(factors):
        combined += factor * (X[:, j] - centre[j]) / width[j]
    order = np.argsort(combined)
    rounding = 4e-16 * (width + np.abs(centre))
    for tol, least in ((min(1e-9, 0.01 / n**2), 2), (min(1e-6, 1e-3 / n), max(5, n // 100))):
        found = [np.empty(0, dtype=np.intp)]
        for lag in (1, 2, 3):
            close = np.flatnonzero(combined[order[lag:]] - combined[order[:-lag]] <= tol * factors.sum())
            first, second = order[close], order[close + lag]
            one, other = (np.asarray(X[rows], dtype=np.float64) for rows in (first, second))
            gap = np.abs(one - other)
            near = (gap <= np.minimum(tol * width, np.maximum(1e-6 * np.abs(one), rounding))).all(axis=1)
            near &= gap.any(axis=1)
            found += [first[near], second[near]]
        rows = np.unique(np.concatenate(found))
        if len(rows) >= least:
            return rows
    return rows[:0]
