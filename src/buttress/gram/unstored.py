"""Products of many rows of a Gram matrix with coefficients, panel by panel: no row is stored.

Sums of float32 entries are taken in float64 throughout: over a hundred thousand coefficients, float32 sums would be
off by more than the certificate of an exact machine allows (``solvers/qp/certificate.py``).
"""

from collections.abc import Iterator

import numpy as np

from buttress._checks import Array
from buttress._threads import share
from buttress.gram.entries import SUMMED, Entries, Index


def unstored_sums(entries: Entries, columns: Index, weights: Array, wanted: Index) -> Array:
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
