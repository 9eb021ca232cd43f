"""Certificates of sums of trees: each tree gives a row the worst of the leaves that its box reaches.

The sum of these is at most the least lead, and is it for one tree. Effort searches parts of the box; ``attacks.exact``
settles what is left open.
"""

from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._types import Mask, Rows
from buttress.certificates.radius import OUTWARD, largest_that_holds
from buttress.certificates.swapped import Prover
from buttress.expansion import winners
from buttress.trees import Forest

RADII = 40  # that are tried, about: doublings up to one beyond which no box reaches more leaves, then halvings
SHORTFALL = 1e-9  # share by which a radius may fall short


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


@dataclass(frozen=True)
class OfTrees:
    """The proofs of a sum of trees, from ``effort`` parts of each box, a rival; a ball's are by the box around it."""

    forest: Forest
    effort: int

    def classes(self, X: Array) -> Rows:
        """Return the class of each row."""
        return winners(self.forest.scores(X), self.forest.contrasts)

    def ball(self, reach: Array, norm: str) -> Prover:
        """Return the proofs in balls of radii (1, d) and boxes."""
        return lambda X, box: self.within(X, reach, norm, box)

    def within(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Mask:
        """Say which rows keep their class in balls of radii (n or 1, d) and a box."""
        return stands(self.forest, X, np.maximum(X - reach, box[0]), np.minimum(X + reach, box[1]), self.effort)

    def radius(self, X: Array, scale: Array, norm: str, box: tuple[Array, Array]) -> Array:
        """Return radii (n,) in multiples of ``scale`` (1, d) within which rows are proven; inf where always.

        Each radius that is tried gets a fortieth of the effort: some 40 are.
        """
        part = OfTrees(self.forest, -(-self.effort // RADII))

        def holds(rows: Rows, radius: Array) -> Mask:
            return part.within(X[rows], radius[:, None] * scale * OUTWARD, norm, (box[0][rows], box[1][rows]))

        longest = _beyond(self.forest, X, scale)
        found = largest_that_holds(holds, np.zeros(len(X)), longest * 2.0**-RADII, longest, SHORTFALL)
        return np.where(found < longest, found, np.inf)


def _beyond(forest: Forest, X: Array, scale: Array) -> Array:
    """Return radii (n,) whose boxes hold all thresholds of the columns that move."""
    farthest = max(float(np.abs(tree.threshold[np.isfinite(tree.threshold)]).max(initial=0.0)) for tree in forest.trees)
    least = float(scale[scale > 0].min(initial=1.0))
    return np.asarray(2 * (np.abs(X).max(axis=1) + farthest + 1) / least)
