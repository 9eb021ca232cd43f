"""The cheapest set of training rows whose gains together reach a need: a knapsack turned round."""

import numpy as np

from buttress._checks import Array
from buttress._types import Rows
from buttress.certificates.region import UNIT


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
