"""From two classes to many: one problem a pair or one a class, and how their scores are read."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array

Codes = NDArray[np.intp]


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in libsvm's order."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def libsvm_layout(coef: Array, codes: Codes, pairs: list[tuple[int, int]]) -> Array:
    """Return pairwise coefficients (n_SV, n_pairs), by class, laid out as scikit-learn's ``dual_coef_``."""
    if len(pairs) == 1:
        return coef.T.copy()
    n_classes = max(j for _, j in pairs) + 1
    dual = np.zeros((n_classes - 1, len(coef)))
    ends = codes.searchsorted(np.arange(n_classes + 1)).tolist()
    rows_of = [slice(*ends[k : k + 2]) for k in range(n_classes)]
    for column, (i, j) in enumerate(pairs):
        dual[j - 1, rows_of[i]] = coef[rows_of[i], column]
        dual[i, rows_of[j]] = coef[rows_of[j], column]
    return dual


@lru_cache(maxsize=8)
def _signs(n_classes: int) -> Array:
    """Return (n_pairs, n_classes), read-only: 1 for the first class of each pair and -1 for the second."""
    first, second = np.triu_indices(n_classes, 1)
    signs = np.zeros((len(first), n_classes))
    signs[np.arange(len(first)), first] = 1
    signs[np.arange(len(first)), second] = -1
    signs.flags.writeable = False
    return signs


def votes(scores: Array, n_classes: int) -> tuple[Array, Array]:
    """Return the votes (n, n_classes) of pairwise scores and the decision values, the votes with ties broken.

    A class's scores are summed and squeezed into (-1/3, 1/3), so that they decide between equal votes only.
    """
    sign = _signs(n_classes)
    won = np.where(scores > 0, 1.0, -1.0)
    counts = (won @ sign + n_classes - 1) / 2
    confidence = scores @ sign
    return counts, counts + confidence / (3 * (np.abs(confidence) + 1))
