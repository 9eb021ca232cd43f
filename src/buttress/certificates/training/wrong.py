"""Who may be wrong: which training labels, in which direction, at what cost, and the cheapest that reach a need.

What a wrong one does to a lead is its gain. The cheapest set whose gains together reach a need is a knapsack turned
round.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._proof import UNIT
from buttress._types import Labels, Mask, Rows, VectorLike

Direction = tuple[object, object]  # the label given, and what it may be in truth


@dataclass(frozen=True)
class Suspects:
    """The labels that may be wrong.

    Parameters
    ----------
    codes : int array of shape (n,)
        The class of each training row as given.
    allowed : bool array of shape (n_classes, n_classes)
        Whether a label given as the row's class may be the column's in truth.
    costs : array of shape (n,)
        Of one wrong label, > 0; inf where it is trusted.
    """

    codes: Rows
    allowed: Mask
    costs: Array

    def gains(self, H: Array, values: Array) -> Array:
        """Return by how much one wrong label lowers a lead sum_i h_i values[c_i] at most, >= 0, shape as H (..., n)."""
        drop = values[:, None] - values
        most = np.where(self.allowed, drop, -np.inf).max(axis=1, initial=0.0)
        least = np.where(self.allowed, drop, np.inf).min(axis=1, initial=0.0)
        gains = np.maximum(H * most[self.codes], H * least[self.codes])
        gains[..., np.isinf(self.costs)] = 0.0
        return gains

    def truth(self, rows: Rows, h: Array, values: Array) -> Rows:
        """Return the classes that labels of ``rows``, with weights h, change to when they lower a lead most."""
        gain = h[:, None] * (values[self.codes[rows], None] - values)
        return np.where(self.allowed[self.codes[rows]], gain, -np.inf).argmax(axis=1)


def check_suspects(
    codes: Rows, classes: Labels, directions: Iterable[Direction] | None, eligible: VectorLike | None,
    costs: VectorLike | None,
) -> Suspects:
    """Return who may be wrong; ValueError for labels that are no class, masks and costs of another length or sign."""
    allowed = ~np.eye(len(classes), dtype=bool)
    if directions is not None:
        allowed[:] = False
        for given, true in directions:
            allowed[_number(given, classes), _number(true, classes)] = True
        np.fill_diagonal(allowed, False)
    price = np.ones(len(codes)) if costs is None else np.asarray(costs, dtype=np.float64)
    if price.shape != codes.shape or not (price > 0).all():
        raise ValueError(f"costs must be numbers > 0, one for each of the {len(codes)} training rows (inf where a "
                         "label "
                         f"is trusted). Got {costs!r}.")
    return Suspects(codes, allowed, np.where(check_eligible(eligible, len(codes)), price, np.inf))


def check_eligible(eligible: VectorLike | None, n: int) -> NDArray[np.bool_]:
    """Return which of n training rows may be wrong, all by default."""
    if eligible is None:
        return np.ones(n, dtype=bool)
    mask = np.asarray(eligible)
    if mask.shape != (n,) or mask.dtype.kind != "b":
        raise ValueError(f"eligible must be True or False for each of the {n} training rows. Got {eligible!r}.")
    return mask


def _number(label: object, classes: Labels) -> int:
    found = np.flatnonzero(classes == label)
    if len(found) != 1:
        raise ValueError(f"directions must be pairs (label given, label in truth) of the classes {classes.tolist()}. "
                         f"Got {label!r}.")
    return int(found.item())


def cheapest(gains: Array, costs: Array, need: float) -> tuple[float, Rows]:
    """Return a lower bound of the cost of any set of rows with ``gains[S].sum() >= need``, and such a set.

    Parameters
    ----------
    gains : array of shape (n,)
        >= 0.
    costs : array of shape (n,)
        > 0; inf for rows that are never taken.
    need : float

    Returns
    -------
    least : float
        inf where no set reaches the need. It is the cost of the set where costs are equal, or whole numbers and few;
        elsewhere the rounding of its sum is taken off. (That of the gains is for the caller, who lowers the need.)
    rows : int array
        A set that reaches it, of the cost ``least`` where that is exact; empty where there is none.
    """
    able = np.flatnonzero((gains > 0) & np.isfinite(costs))
    order = able[np.argsort(-gains[able] / costs[able], kind="stable")]
    reached = np.cumsum(gains[order])
    if need <= 0:
        return 0.0, order[:0]
    if not len(order) or reached[-1] < need:
        return np.inf, order[:0]
    count = int(np.searchsorted(reached, need)) + 1
    greedy = order[:count]
    price = costs[order]
    least, most = price.min(), price.max()
    if least == most:
        return float(count * least), greedy
    total = float(price[:count].sum())
    # steps of the exact search, memory and time only: beyond, the bound of the relaxation serves
    whole = (price == np.round(price)).all() and len(np.unique(price)) * total**2 <= 200_000
    if whole:
        return _by_whole_costs(gains, costs.astype(np.float64), order, need, int(total))
    last = order[count - 1]
    spare = (reached[count - 1] - need) / gains[last]  # the relaxation leaves this part of the last row out
    return float(total * (1 - (count + 4) * UNIT) - spare * costs[last]), greedy


def _by_whole_costs(gains: Array, costs: Array, order: Rows, need: float, most: int) -> tuple[float, Rows]:
    """Return the least cost and a set of it, for whole costs, by the best gain of every cost up to ``most``."""
    best = np.zeros(most + 1)
    groups = []
    for price in np.unique(costs[order]).astype(int):
        rows = order[costs[order] == price][: most // price]
        taken = np.concatenate([[0.0], np.cumsum(gains[rows])])
        choices = np.full((len(taken), most + 1), -np.inf)
        for number, gain in enumerate(taken):
            choices[number, number * price :] = best[: most + 1 - number * price] + gain
        groups.append((price, rows, choices.argmax(axis=0)))
        best = choices.max(axis=0)
    enough = np.flatnonzero(best >= need)
    cost = int(enough[0]) if len(enough) else most
    found, left = [], cost
    for price, rows, number in reversed(groups):
        found.append(rows[: number[left]])
        left -= int(number[left]) * price
    return float(cost), np.concatenate(found)
