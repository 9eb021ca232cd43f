"""Sums of weighted outer products of features, by parts of the rows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import slices, total


def weighted_gram(take: Callable[[NDArray[np.intp]], Array], m: int, rows: NDArray[np.intp], weight: Array) -> Array:
    """Return sum_i weight_i z_i z_i' (m, m) over the numbered rows, of weights >= 0.

    ``take`` returns a fresh array of the features (k, m) of the row numbers it is given, in float64 or float32; sums
    are in float64.
    """
    root = np.sqrt(weight)

    def term(part: slice) -> Array:
        block = take(rows[part])
        block *= root[part, None].astype(block.dtype)
        return block.T @ block

    return total(term, slices(len(rows), m), (m, m))
