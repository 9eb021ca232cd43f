"""Certificates of sums of trees: each tree gives a row the worst of the leaves that its box reaches.

The sum of these is at most the least lead, and is it for one tree. Effort searches parts of the box; ``attacks.exact``
settles what is left open.
"""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array
from buttress._types import Mask
from buttress.expansion import winners
from buttress.trees import Forest

OUTWARD = 1 + 4 * float(np.finfo(float).eps)  # covers the rounding of radius times scale
HALVINGS = 40  # of the radius, from one beyond which no box reaches more leaves


def stands(forest: Forest, X: Array, low: Array, high: Array, effort: int = 0) -> Mask:
    """Say of which rows X (n, d) no point of the box from low to high (n, d) is in another class.

    ``effort`` parts of each box are looked at, a rival.
    """
    codes = winners(forest.scores(X), forest.contrasts)
    proven = np.ones(len(X), dtype=bool)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        for contrast in forest.contrasts[code]:
            found = forest.searched(low[rows], high[rows], contrast, 1 + effort)
            proven[rows] &= found.bound > forest.rounding(contrast)
    return proven


def of_trees(
    forest: Forest, effort: int
) -> Callable[[Array, str], Callable[[Array, tuple[Array, Array]], Mask]]:
    """Return the proofs in balls of radii (1, d) and boxes, by the box around either ball."""

    def ball(reach: Array, norm: str) -> Callable[[Array, tuple[Array, Array]], Mask]:
        return lambda X, box: stands(forest, X, np.maximum(X - reach, box[0]), np.minimum(X + reach, box[1]),
                                     effort)

    return ball


def forest_radius(
    forest: Forest, X: Array, box: tuple[Array, Array] | None, scale: Array | float, effort: int
) -> Array:
    """Return l_inf radii (n,), in multiples of ``scale``, within which the class is proven to stay; inf where always.

    At least ``effort`` parts of boxes are looked at, a row and rival: a fortieth each time the radius is halved.
    """

    def within(radius: Array) -> Mask:
        reach = radius[:, None] * scale * OUTWARD
        low, high = X - reach, X + reach
        if box is not None:
            low, high = np.maximum(low, box[0]), np.minimum(high, box[1])
        return stands(forest, X, low, high, -(-effort // HALVINGS))

    longest = _beyond(forest, X, scale)
    everywhere = within(longest)
    proven, open_ = np.zeros(len(X)), longest
    for _ in range(HALVINGS):
        middle = (proven + open_) / 2
        holds = within(middle)
        proven = np.where(holds, middle, proven)
        open_ = np.where(holds, open_, middle)
    return np.where(everywhere, np.inf, proven)


def _beyond(forest: Forest, X: Array, scale: Array | float) -> Array:
    """Return radii (n,) whose boxes hold all thresholds of the columns that move."""
    thresholds = [np.abs(tree.threshold[np.isfinite(tree.threshold)]) for tree in forest.trees]
    places = np.concatenate([np.zeros(1), *thresholds])
    moving = np.asarray(scale, dtype=np.float64)
    least = float(moving[moving > 0].min(initial=1.0)) if moving.ndim else float(moving)
    return np.full(len(X), 2 * (float(np.abs(X).max()) + float(places.max()) + 1) / least)
