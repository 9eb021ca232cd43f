"""Which rows a fitted classifier gets right under a threat: proven where proofs are known, the others attacked."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from buttress._types import Array, Labels, Mask
from buttress.attacks import exact, pgd, worst_case
from buttress.audit.baselines import stands_in_box
from buttress.audit.measuring.cells import QUERY_STARTS, QUERY_STEPS, has_gradients
from buttress.certificates import certified_within
from buttress.certificates.radius import where_known
from buttress.threats import Moves, ThreatModel, read_threat

SOLVER_SECONDS = 1e6  # a program: it ends by its own size, never by the clock


@dataclass
class AttackOutcome:
    """Which rows stand an attack, which are proven to (None where no proof is known), and whether it was blind."""

    stands: Mask
    proven: Mask | None
    blind: bool
    how: str


def under_threat(
    model: Any, X: Array, y: Labels, threat: ThreatModel, right: Mask, seed: int, *, codes: bool, work: float
) -> AttackOutcome:
    """Prove what can be proven of the rows that stand so far, and attack the others.

    Models that split ``codes`` of categories, and rows with gaps, are attacked by trying. ``work`` is that of the
    programs of trees.
    """
    if np.isnan(X).any() or codes:
        moves = read_threat(threat, np.nan_to_num(X), X)
        return AttackOutcome(right & _by_trying(model, X, y, moves, right, seed), None, False,
                              "corners, then column by column, around ways to swap")
    stands, proven, how = right.copy(), np.zeros(len(X), dtype=bool), "the exact attack"
    known: Mask | None = proven
    try:
        info = exact(model, X, y, threat=threat, max_time=SOLVER_SECONDS, max_work=work, return_info=True)[1]
        proven[:] = info.proven & ~info.success
        stands &= ~info.success
    except ValueError:  # no trees and not linear
        known, how = where_known(lambda: certified_within(model, X, threat=threat)), ""
        proven = right & known if known is not None else proven
    left = np.flatnonzero(stands & ~proven)
    blind = False
    if len(left):
        gradients = has_gradients(model)
        if gradients:
            info = pgd(model, X[left], y[left], threat=threat, random_state=seed, return_info=True)[1]
        else:
            info = worst_case(model, X[left], y[left], threat=threat, steps=QUERY_STEPS, restarts=QUERY_STARTS,
                              random_state=seed, return_info=True)[1]
        stands[left] = ~info.success
        blind = 2 * int(info.blind.sum()) > int(stands.sum())
        tried = "projected gradient descent" if gradients else "the worst of several attacks by queries"
        how = f"{how}, then {tried}" if how else tried
    return AttackOutcome(stands, None if known is None else proven, blind, how or "proof alone")


def _by_trying(model: Any, X: Array, y: Labels, moves: Moves, right: Mask, seed: int) -> Mask:
    """Say which rows stand random corners of the box, then the worst of each column in turn, around ways to swap."""
    stands = right.copy()
    for way in islice(moves.ways(), 200):  # around each, numbers are moved by trying
        rows = np.flatnonzero(stands)
        if not len(rows):
            break
        start, moving = moves.swapped(X[rows], way), moves.reach > 0
        low, high = (np.nan_to_num(side[rows]) for side in (moves.low, moves.high))
        box = (np.where(moving, np.maximum(start - moves.reach, low), start),
               np.where(moving, np.minimum(start + moves.reach, high), start))
        stands[rows] = stands_in_box(model, start, y[rows], box, seed)
    return stands
