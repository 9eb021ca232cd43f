"""Proofs beside swaps of categories: each way to swap a row is proven in the ball of its numbers.

First all swaps at once are taken as moves of a box that holds them, which proves some rows. For the others every way is
proven by itself, where there are at most ``MOST_WAYS``: the class is to be the row's, and the ball to keep it. Where
only some numbers may be moved, what is not proven in the ball of all is proven in that of each choice of them.
"""

from collections.abc import Callable

import numpy as np

from buttress._checks import Array, warn_user
from buttress._types import Mask, Rows
from buttress.certificates.pipelines import Unknown
from buttress.certificates.radius import OUTWARD
from buttress.threats import Moves

MOST_WAYS = 10_000  # ways to swap a row that are proven one by one

# which rows (n, d) are proven to keep their class in a box, of a ball that is known
Prover = Callable[[Array, tuple[Array, Array]], Mask]


def proven_under(
    classes: Callable[[Array], Rows], ball: Callable[[Array, str], Prover], X: Array, moves: Moves
) -> Mask:
    """Say of which rows X (n, d) no moves that a threat allows change the class.

    ``ball(reach, norm)`` proves rows in a ball of radii (1 or n, d), where a box holds columns of radius 0 in place.
    """
    codes = classes(X)
    proven = _by_hull(ball, X, moves)
    if moves.count() > MOST_WAYS:
        warn_user(f"There are {moves.count()} ways to swap, more than the {MOST_WAYS} that are proven one by one. Not "
                  "all were tried: rows are proven by a box that holds all of them, which leaves many unproven.")
        return proven
    left = np.flatnonzero(~proven)
    proven[_by_ways(classes, ball, X, moves, codes, left)] = True
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
        left = _by_ways(classes, ball, X, some, codes, left)
    proven[left] = True
    return proven


def _by_ways(
    classes: Callable[[Array], Rows], ball: Callable[[Array, str], Prover], X: Array, moves: Moves, codes: Rows,
    left: Rows,
) -> Rows:
    """Return those of some rows that are proven in each way to swap them, their numbers moved together."""
    prove = ball(moves.reach, moves.norm)
    for way in moves.ways() if len(left) else ():
        swapped = moves.swapped(X[left], way)
        left = left[classes(swapped) == codes[left]] if way else left
        swapped = moves.swapped(X[left], way)
        left = left[prove(swapped, moves.box(swapped, left))]
        if not len(left):
            break
    return left


def _by_hull(ball: Callable[[Array, str], Prover], X: Array, moves: Moves) -> Mask:
    """Say which rows are proven in a box that holds all swaps and moves; none for a ball of another norm."""
    if moves.norm != "linf" or not moves.most:
        return np.zeros(len(X), dtype=bool)
    low, high = moves.hull(X)
    reach = np.maximum(X - low, high - X) * OUTWARD
    try:
        return ball(reach, "linf")(X, (low, high))
    except Unknown:  # an encoder of what is swapped: it knows the levels, not what is between
        return np.zeros(len(X), dtype=bool)
