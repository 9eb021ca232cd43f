"""Prediction sets that hold the true class of a given share of new rows, from scores of rows left out.

A class is in the set of a row where its lead over the strongest rival class is at least the threshold: the lead that
the right classes of left-out rows fall short of with the probability that the set may miss. Source: Vovk,
Cross-conformal predictors, 2015; Barber, Candes, Ramdas & Tibshirani, Predictive inference with the jackknife+, 2021.
"""

import numpy as np

from buttress._checks import Array, check_number

ROUNDING = 1e-9  # of a number of rows


def check_coverage(coverage: float, rows: float) -> float:
    """Return the coverage; ValueError outside (0, 1), or where the rows (their summed weight) are too few."""
    share = check_number("coverage", coverage, 0, 1)
    needed = int(np.ceil(1 / (1 - share) - 1 - ROUNDING))
    if rows < needed * (1 - ROUNDING):
        raise ValueError(f"coverage={share:g} needs at least {needed} training rows. Got {rows:g}. Lower the coverage, "
                         "or fit to more rows.")
    return share


def lower_threshold(values: Array, weight: Array, coverage: float) -> float:
    """Return the value that a new one of the same law falls below with probability at most 1 - coverage.

    Of n values it is the k-th smallest, k = floor((1 - coverage) (n + 1)); a row of weight two counts as two.
    """
    share = check_coverage(coverage, float(weight.sum()))
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    allowed = (1 - share) * (weight.sum() + 1)
    return float(values[order][np.searchsorted(below, np.floor(allowed + ROUNDING) - ROUNDING)])
