"""Exact products with a Gram matrix, tile by tile: as it is symmetric, half of the tiles are computed."""

import numpy as np

from buttress._checks import Array
from buttress.gram.entries import Exact

TILE = 512  # rows and columns of one tile of an exact product


def tiles(start: int, stop: int) -> list[tuple[int, int]]:
    """Return the ends of the tiles that cover start to stop."""
    return [(left, min(left + TILE, stop)) for left in range(start, stop, TILE)]


def tile_products(exact: Exact, b: Array, diagonal: Array, size: int, tops: range) -> Array:
    """Return the part of K b that the tiles right of and below (t, t), t in ``tops``, give; K (n, n) has this diagonal.

    b is 0 beyond the first ``size`` rows. K is symmetric, so a tile among these rows counts for both halves of K.
    """
    out = np.zeros(len(b))
    for top in tops:
        rows = slice(top, min(top + TILE, size))
        for start, stop in [*tiles(top, size), *tiles(size, len(b))]:
            columns = slice(start, stop)
            K = exact(rows, columns)
            if start == top:
                np.fill_diagonal(K, diagonal[rows])
            elif stop <= size:
                out[rows] += K @ b[columns]
            out[columns] += b[rows] @ K
    return out
