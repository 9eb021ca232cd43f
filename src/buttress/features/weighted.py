"""Sums of weighted outer products of features, by parts of the rows."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._threads import slices, total


def weighted_gram(
    take: Callable[[NDArray[np.intp]], Array], m: int, rows: NDArray[np.intp], weight: Array,
    targets: Array | None = None,
) -> Array:
    """Return sum_i weight_i z_i z_i' (m, m) over the numbered rows, of weights >= 0.

    With ``targets`` y (n, k) it is sum_i weight_i z_i (z_i, y_i)', of shape (m, m + k): moments take no second look at
    the rows. ``take`` returns a fresh array of the features (k, m) of the row numbers it is given, in float64 or
    float32; sums are in float64.
    """
    root = np.sqrt(weight)

    def term(part: slice) -> Array:
        block = take(rows[part])
        # In float64: rows whose weight falls are taken off these sums again, which would keep what rounding lost.
        moments = None if targets is None else block.T @ (targets[rows[part]] * weight[part, None])
        block *= root[part, None].astype(block.dtype)
        gram: Array = block.T @ block
        return gram if moments is None else np.hstack([gram, moments])

    return total(term, slices(len(rows), m), (m, m if targets is None else m + targets.shape[1]))
