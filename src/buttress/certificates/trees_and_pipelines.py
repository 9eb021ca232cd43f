"""Proofs of trees, and of pipelines and networks from the bounds of their steps; both beside swaps of categories.

Of trees: each gives a row the worst of the leaves that its box reaches. The sum of these is at most the least lead, and
is it for one tree. Branch and bound searches parts of the box; ``attacks.exact`` settles what is left open.

Swaps: each way to swap a row is proven in the ball of its numbers. First all swaps at once are taken as moves of a box
that holds them, which proves some rows. For the others every way is proven by itself, where there are at most
``MOST_WAYS``: the class is to be the row's, and the ball to keep it. Where only some numbers may be moved, what is not
proven in the ball of all is proven in that of each choice of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array, warn_user
from buttress._types import Mask, Rows
from buttress.certificates.enclosures import Enclosure, affine, around
from buttress.certificates.pipelines import BoundedSteps, UnknownStep
from buttress.certificates.radius import OUTWARD, largest_that_holds
from buttress.expansion import winners
from buttress.threats import Moves
from buttress.trees import Forest

MOST_WAYS = 10_000  # ways to swap a row that are proven one by one

# (rows (n, d), radii (1 or n, d), norm, box) -> which are proven to keep their class in balls of these radii; the box
# holds columns of radius 0 in place
Prover = Callable[[Array, Array, str, tuple[Array, Array]], Mask]


def proven_under(classes: Callable[[Array], Rows], within: Prover, X: Array, moves: Moves) -> Mask:
    """Say of which rows X (n, d) no moves that a threat allows change the class."""
    codes = classes(X)
    proven = _by_hull(within, X, moves)
    if moves.count() > MOST_WAYS:
        warn_user(f"There are {moves.count()} ways to swap, more than the {MOST_WAYS} that are proven one by one. Not "
                  "all were tried: rows are proven by a box that holds all of them, which leaves many unproven.")
        return proven
    left = np.flatnonzero(~proven)
    proven[_by_ways(classes, within, X, moves, codes, left)] = True
    left = np.flatnonzero(~proven)
    if not (moves.limited and len(left)):
        return proven
    choices = moves.choices_of_numbers() * moves.count()
    if choices > MOST_WAYS:
        warn_user(f"There are {choices} ways to choose the numbers that are moved and to swap, more than the "
                  f"{MOST_WAYS} that are proven one by one. Not all were tried: rows are proven as if all numbers "
                  "might be moved.")
        return proven
    for some in moves.of_numbers():
        left = _by_ways(classes, within, X, some, codes, left)
    proven[left] = True
    return proven


def _by_ways(
    classes: Callable[[Array], Rows], within: Prover, X: Array, moves: Moves, codes: Rows, left: Rows
) -> Rows:
    """Return those of some rows that are proven in each way to swap them, their numbers moved together."""
    for way in moves.ways() if len(left) else ():
        swapped = moves.swapped(X[left], way)
        left = left[classes(swapped) == codes[left]] if way else left
        swapped = moves.swapped(X[left], way)
        left = left[within(swapped, moves.reach, moves.norm, moves.box(swapped, left))]
        if not len(left):
            break
    return left


def _by_hull(within: Prover, X: Array, moves: Moves) -> Mask:
    """Say which rows are proven in a box that holds all swaps and moves; none for a ball of another norm."""
    if moves.norm != "linf" or not moves.most:
        return np.zeros(len(X), dtype=bool)
    low, high = moves.hull(X)
    reach = np.maximum(X - low, high - X) * OUTWARD
    try:
        return within(X, reach, "linf", (low, high))
    except UnknownStep:  # an encoder of what is swapped: it knows the levels, not what is between
        return np.zeros(len(X), dtype=bool)


RADII = 40  # that are tried, about
CLOSE = 1e-9  # share by which a radius may fall short


@dataclass(frozen=True)
class OfTrees:
    """The proofs of a sum of trees, from ``max_parts`` of each box, a rival; a ball's are by the box around it."""

    forest: Forest
    max_parts: int

    def classes(self, X: Array) -> Rows:
        """Return the class of each row."""
        return winners(self.forest.scores(X), self.forest.contrasts)

    def within(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Mask:
        """Say which rows keep their class in balls of radii (n or 1, d) and a box."""
        low, high = np.maximum(X - reach, box[0]), np.minimum(X + reach, box[1])
        codes, proven = self.classes(X), np.ones(len(X), dtype=bool)
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            for contrast in self.forest.contrasts[code]:
                found = self.forest.searched(low[rows], high[rows], contrast, 1 + self.max_parts)
                proven[rows] &= found.bound > self.forest.rounding(contrast)
        return proven

    def radius(self, X: Array, scale: Array, norm: str, box: tuple[Array, Array]) -> Array:
        """Return radii (n,) in multiples of ``scale`` (1, d) within which rows are proven; inf where always.

        Each radius that is tried gets a fortieth of the parts: some 40 are.
        """
        part = OfTrees(self.forest, -(-self.max_parts // RADII))

        def holds(rows: Rows, radius: Array) -> Mask:
            return part.within(X[rows], radius[:, None] * scale * OUTWARD, norm, (box[0][rows], box[1][rows]))

        longest = _beyond(self.forest, X, scale)
        found = largest_that_holds(holds, np.zeros(len(X)), longest, CLOSE)
        return np.where(found < longest, found, np.inf)


def _beyond(forest: Forest, X: Array, scale: Array) -> Array:
    """Return radii (n,) whose boxes hold all thresholds of the columns that move."""
    farthest = max(float(np.abs(tree.threshold[np.isfinite(tree.threshold)]).max(initial=0.0)) for tree in forest.trees)
    least = float(scale[scale > 0].min(initial=1.0))
    return np.asarray(2 * (np.abs(X).max(axis=1) + farthest + 1) / least)


BLOCK = 64  # rows that are bounded at a time
SHORTFALL = 1e-7  # share by which a radius may fall short

# which rows keep their class under the kernel machine in boxes around them: (rows, low, high) -> (n,)
Machine = Callable[[Array, Array, Array], Mask]


class Chained:
    """The proofs of one model, whose kernel machine at the end ``machine`` proves."""

    def __init__(self, steps: BoundedSteps, real: str, machine: Machine | None):
        self.steps = steps
        self.unit = float(np.finfo(real).eps)
        self.machine = machine

    def classes(self, X: Array) -> Rows:
        """Return the class of each row, right where it is proven."""
        found = [self._codes(self.steps.seen(self._enclosed(X[rows], np.zeros((1, 1)), "linf", (X[rows], X[rows]))))
                 for rows in _blocks(len(X))]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.intp)

    def within(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Mask:
        """Say which rows keep their class in balls of radii (n or 1, d) and a box."""
        proven = np.zeros(len(X), dtype=bool)
        reach = np.broadcast_to(reach, X.shape)
        for rows in _blocks(len(X)):
            seen = self.steps.seen(self._enclosed(X[rows], reach[rows], norm, (box[0][rows], box[1][rows])))
            proven[rows] = self._stands(seen)
        return proven

    def radius(self, X: Array, scale: Array, norm: str, box: tuple[Array, Array]) -> Array:
        """Return radii (n,) in multiples of ``scale`` (1, d) within which rows are proven, never inf."""

        def holds(rows: Rows, radius: Array) -> Mask:
            reach = radius[:, None] * scale * OUTWARD
            return self.within(X[rows], reach, norm, (box[0][rows], box[1][rows]))

        return largest_that_holds(holds, np.zeros(len(X)), np.full(len(X), np.inf), SHORTFALL)

    def _enclosed(self, X: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Enclosure:
        return around(X, *box, reach, "linf" if norm == "linf" else "l2", self.unit)

    def _codes(self, seen: Enclosure) -> Rows:
        if self.steps.kernel is not None:
            return winners(self.steps.kernel(seen.centre), self.steps.contrasts)
        assert self.steps.scores is not None
        return winners(self.steps.scores(seen).centre, self.steps.contrasts)

    def _stands(self, seen: Enclosure) -> Mask:
        if self.machine is not None:
            return self.machine(seen.centre, *seen.ends())
        assert self.steps.scores is not None
        scores = self.steps.scores(seen)
        codes = winners(scores.centre, self.steps.contrasts)
        proven = np.zeros(len(codes), dtype=bool)
        for code in np.unique(codes):
            rows = np.flatnonzero(codes == code)
            own = Enclosure(scores.centre[rows], scores.moves[rows], scores.slack[rows], scores.own, scores.norm,
                            scores.unit)
            leads = affine(own, self.steps.contrasts[code].T)
            # 32 units of rounding are between two probabilities that are told apart
            least = 32 * scores.unit * (1 + own.size.max(axis=1, keepdims=True))
            proven[rows] = (leads.ends()[0] > least).all(axis=1)
        return proven


def _blocks(n: int) -> list[Rows]:
    return [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
