"""From two classes to many: one problem a pair or one a class, and how their scores are read."""

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array

Codes = NDArray[np.intp]


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in libsvm's order."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def libsvm_layout(coef: Array, codes: Codes, pairs: list[tuple[int, int]]) -> Array:
    """Return pairwise coefficients (n_SV, n_pairs) as scikit-learn's ``dual_coef_`` (n_classes - 1, n_SV)."""
    if len(pairs) == 1:
        return coef.T.copy()
    dual = np.zeros((max(j for _, j in pairs), len(coef)))
    for column, (i, j) in enumerate(pairs):
        dual[j - 1, codes == i] = coef[codes == i, column]
        dual[i, codes == j] = coef[codes == j, column]
    return dual


def votes(scores: Array, n_classes: int) -> tuple[Array, Array]:
    """Return the votes (n, n_classes) of pairwise scores and the decision values, the votes with ties broken.

    A class's scores are summed and squeezed into (-1/3, 1/3), so that they decide between equal votes only.
    """
    first, second = np.triu_indices(n_classes, 1)
    sign = np.zeros((len(first), n_classes))
    sign[np.arange(len(first)), first] = 1
    sign[np.arange(len(first)), second] = -1
    won = np.where(scores > 0, 1.0, -1.0)
    counts = (won @ sign + n_classes - 1) / 2
    confidence = scores @ sign
    return counts, counts + confidence / (3 * (np.abs(confidence) + 1))
