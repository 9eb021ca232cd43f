"""Exact products with a Gram matrix, tile by tile: as it is symmetric, half of the tiles are computed."""

from collections.abc import Sequence

import numpy as np

from buttress._checks import Array
from buttress.gram.entries import Exact

TILE = 512  # rows and columns of one tile of an exact product


def tiles(start: int, stop: int) -> list[tuple[int, int]]:
    """Return the ends of the tiles that cover start to stop."""
    return [(left, min(left + TILE, stop)) for left in range(start, stop, TILE)]


def tile_products(
    exact: Exact, b: Array, diagonal: Array, size: int, chosen: int, rows_of: Sequence[tuple[int, int]]
) -> Array:
    """Return what some tiles of rows give of K b at the rows before ``chosen`` and from ``size`` on.

    K (n, n) is symmetric with this diagonal, and b is 0 from ``size`` on. A tile among the first ``chosen`` rows counts
    for both halves of K. ``rows_of`` are ends of tiles, of which none is on both sides of ``chosen``.
    """
    out = np.zeros(len(b))
    others = tiles(size, len(b))
    for top, end in rows_of:
        rows = slice(top, end)
        among = [*tiles(top, chosen), *tiles(max(top, chosen), size)] if top < chosen else []
        for start, stop in [*among, *others]:
            columns = slice(start, stop)
            K = exact(rows, columns)
            if start == top:
                np.fill_diagonal(K, diagonal[rows])
            elif stop <= size:
                out[rows] += K @ b[columns]
            out[columns] += b[rows] @ K
    return out
