"""Two-sample tests of one column, and false-discovery control."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, fisher_exact, ks_2samp

from buttress.audit.protocols import Labels

LEAST_EXPECTED = 5.0  # rows expected of a category in each table; rarer ones count together, for the chi-squared test
FEWEST = 5  # entries of each table that a test needs


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


def discoveries(p: NDArray[np.float64], rate: float) -> NDArray[np.bool_]:
    """Return which of n p-values are discoveries at a false discovery rate (Benjamini & Hochberg, JRSS B 1995).

    Where nothing is to be found, the chance of any discovery is at most ``rate``.
    """
    order = np.argsort(p, kind="stable")
    passing = np.flatnonzero(p[order] <= rate * np.arange(1, len(p) + 1) / max(len(p), 1))
    found = np.zeros(len(p), dtype=bool)
    if len(passing):
        found[order[: passing[-1] + 1]] = True
    return found
