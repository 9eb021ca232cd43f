"""Two-sample tests of one column, and rows that are unlike the known ones."""

import warnings
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp
from sklearn.neighbors import NearestNeighbors

from buttress._types import Labels, Rows
from buttress.certainty.conformal import p_values, rejected

LEAST_EXPECTED = 5.0  # rows expected of a category in each table; rarer ones count together, for the chi-squared test


def same_numbers(old: NDArray[np.float64], new: NDArray[np.float64]) -> float:
    """Return the p-value that two columns of numbers, NaN where missing, come from one distribution.

    Twice the smaller one of two tests: Kolmogorov and Smirnov's of the entries, Fisher's of how many are missing.
    """
    known_old, known_new = old[~np.isnan(old)], new[~np.isnan(new)]
    entries = 1.0
    if min(len(known_old), len(known_new)) >= 5:
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # it falls back on the asymptotic one
            entries = float(ks_2samp(known_old, known_new).pvalue)
    return min(1.0, 2 * min(entries, same_share(np.isnan(old), np.isnan(new))))


def same_share(old: NDArray[np.bool_], new: NDArray[np.bool_]) -> float:
    """Return Fisher's exact p-value that rows of both tables are as often marked."""
    marked_old, marked_new = int(old.sum()), int(new.sum())
    if marked_old + marked_new == 0:
        return 1.0
    return float(fisher_exact([[marked_old, len(old) - marked_old], [marked_new, len(new) - marked_new]]).pvalue)


def same_categories(old: Labels, new: Labels) -> float:
    """Return the p-value of a chi-squared test that two columns of texts come from one distribution."""
    values, codes = np.unique(np.concatenate([old.astype(str), new.astype(str)]), return_inverse=True)
    counts = np.stack([np.bincount(codes[: len(old)], minlength=len(values)),
                       np.bincount(codes[len(old) :], minlength=len(values))])
    expected = counts.sum(axis=0) * min(len(old), len(new)) / (len(old) + len(new))
    rare = expected < LEAST_EXPECTED
    counts = np.column_stack([counts[:, ~rare], counts[:, rare].sum(axis=1)]) if rare.any() else counts
    counts = counts[:, counts.sum(axis=0) > 0]
    if counts.shape[1] == 2 and counts.sum(axis=0).min() < 4 * LEAST_EXPECTED:
        return float(fisher_exact(counts).pvalue)
    return float(chi2_contingency(counts, correction=False).pvalue) if counts.shape[1] > 1 else 1.0


def unlike(known: NDArray[np.float64], rows: NDArray[np.float64], rate: float) -> Rows:
    """Return the numbers of the rows (m, d) that are farther from the known ones (n, d) than those are from each other.

    The farthest comes first. They are named at a false discovery rate, by p = (1 + number of different known rows as
    far from their fifth nearest) / (n + 1). So fewer than m / (n + 1) / rate rows are never found. P(p <= t) is at most
    t for a row like the known ones: with it among them all n + 1 would be drawn alike, and it only brings the others
    nearer. A near copy is one neighbour of five.
    """
    known = np.unique(known, axis=0)  # copies are near each other, and new rows have none among the known
    if len(known) <= 1:
        return np.zeros(0, dtype=np.intp)
    # a row is as far out as its fifth nearest row is far
    index = NearestNeighbors(n_neighbors=min(5, len(known) - 1)).fit(known)
    distance = index.kneighbors(rows)[0][:, -1]
    p = p_values(distance, index.kneighbors()[0][:, -1], np.ones(len(known)))
    found = np.flatnonzero(rejected(p, rate, adaptive=False))
    return np.asarray(found[np.argsort(-distance[found], kind="stable")])


def changed(columns: Mapping[str, Labels], half: int, rate: float) -> list[str]:
    """Return the columns whose rows from ``half`` on come from another distribution than those before.

    They are named at a false discovery rate, the surest first.
    """
    p = {name: (same_numbers if column.dtype.kind == "f" else same_categories)(column[:half], column[half:])
         for name, column in columns.items()}
    found = rejected(np.array(list(p.values())), rate, adaptive=False)
    return sorted((name for name, is_found in zip(p, found, strict=True) if is_found), key=lambda name: p[name])
