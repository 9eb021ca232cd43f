"""Two-sample tests of one column, and rows that are unlike the known ones."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp

from buttress.audit.protocols import Labels
from buttress.outlier import SVDD

LEAST_EXPECTED = 5.0  # rows expected of a category in each table; rarer ones count together, for the chi-squared test
FEWEST = 5  # entries of each table that a test needs
CLOSE = 5  # a row is as far out as its fifth nearest row is far


def same_numbers(old: NDArray[np.float64], new: NDArray[np.float64]) -> float:
    """Return the p-value that two columns of numbers, NaN where missing, come from one distribution.

    Twice the smaller one of two tests: Kolmogorov and Smirnov's of the entries, Fisher's of how many are missing.
    """
    known_old, known_new = old[~np.isnan(old)], new[~np.isnan(new)]
    entries = 1.0
    if min(len(known_old), len(known_new)) >= FEWEST:
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


def unlike(known: NDArray[np.float64], rows: NDArray[np.float64], rate: float) -> NDArray[np.bool_]:
    """Say which rows (m, d) are farther from the known ones (n, d) than those are from each other.

    At a false discovery rate, by the p-values of ``SVDD``. The smallest is 1 / (n + 1): fewer than m / (n + 1) / rate
    rows are never found.
    """
    known = np.unique(known, axis=0)  # copies are near each other, and held-out rows have none among the known
    return SVDD().fit(known).novel(rows, rate)
