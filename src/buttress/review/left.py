"""How many wrong rows are left among those that nobody decided on: an interval from the rows drawn at random alone.

Rows that were chosen by suspicion say nothing of the others. A row drawn at random from those not decided on is wrong
with probability p = (W - found) / others, where W is how many rows of the table a person would call wrong, ``found`` of
them before the draw, and ``others`` rows were there to be drawn. For each W that is supposed, a bet on the draws, whose
odds are fair if W is true, multiplies the stake by (q / p) for a wrong row and (1 - q) / (1 - p) for a right one. The
stake never grows beyond 1 / a with a probability of more than a, at whatever time one looks, and however the rows
between the draws were chosen (Ville 1939; Waudby-Smith & Ramdas, Confidence sequences for sampling without replacement,
2020). So the W at which it has grown so far are refused. A Clopper-Pearson interval would promise less: that of
a number of draws fixed beforehand, from rows that do not change.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Draw:
    """A row drawn at random: from how many, after how many wrong ones were found, and whether it is wrong itself.

    A row on which the person is unsure may be either: ``perhaps``, and ``found_at_most`` counts such rows too.
    """

    others: int
    found: int
    found_at_most: int
    wrong: bool
    perhaps: bool


@dataclass(frozen=True)
class Left:
    """The estimated number of wrong rows among ``rows`` that nobody decided on, and its 90% interval."""

    rows: int
    estimate: float
    low: int
    high: int
    drawn: int


def wrong_left(draws: Sequence[Draw], rows: int, found: int, found_at_most: int) -> Left:
    """Return how many of ``rows`` not decided on are wrong, where ``found`` (at most ``found_at_most``) were.

    Examples
    --------
    >>> draws = [Draw(100 - 10 * k, 5, 5, False, False) for k in range(8)]
    >>> wrong_left(draws, 20, 5, 5)
    Left(rows=20, estimate=0.0, low=0, high=18, drawn=8)
    """
    others = np.array([draw.others for draw in draws], dtype=float)
    low = _ends(others, np.array([draw.found for draw in draws]), np.array([draw.wrong for draw in draws], dtype=bool),
                rows, found)
    high = _ends(others, np.array([draw.found_at_most for draw in draws]),
                 np.array([draw.perhaps for draw in draws], dtype=bool), rows, found_at_most)
    estimate = rows / 2
    if draws:
        hits = sum((draw.wrong + draw.perhaps) / 2 + draw.found / draw.others for draw in draws)
        estimate = float(np.clip(hits / (1 / others).sum() - found, low[0], high[1]))
    return Left(rows, estimate, low[0], high[1], len(draws))


def _ends(
    others: NDArray[np.float64], found: NDArray[np.intp], wrong: NDArray[np.bool_], rows: int, now: int
) -> tuple[int, int]:
    """Return the fewest and the most wrong rows left that the draws do not refuse, by bisection: stakes are monotone.
    """
    limit = 2 / (1 - 0.9)  # of an interval of 90%, for each of its ends

    def refused(left: int, bets: NDArray[np.float64], on: NDArray[np.float64]) -> bool:
        p = np.clip((now + left - found) / others, 0, 1)
        return _stake(p, wrong, bets, on) >= limit

    # q as multiples of p, and what is staked on each. Half is on no wrong row at all: that is what a review nears.
    more = np.array([1.5, 2.0, 3.0, 5.0, 10.0, 30.0]), np.full(6, 1 / 6)
    fewer = np.array([0.0, 0.1, 0.25, 0.4, 0.55, 0.7]), np.array([0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
    fewest = bisect_left(range(rows), True, key=lambda left: not refused(left, *more))
    most = bisect_left(range(1, rows + 1), True, key=lambda left: refused(left, *fewer))
    return min(fewest, most), max(fewest, most)


def _stake(
    p: NDArray[np.float64], wrong: NDArray[np.bool_], bets: NDArray[np.float64], on: NDArray[np.float64]
) -> float:
    """Return what a stake of 1 has become."""
    if np.any(np.where(wrong, p == 0, p == 1)):
        return np.inf  # such a draw cannot be
    q = np.minimum(bets[:, None] * p, 1)
    chance, fair = np.where(wrong, q, 1 - q), np.where(wrong, p, 1 - p)
    with np.errstate(divide="ignore"):
        grown = np.log(chance / fair).sum(axis=1)
    return float(on @ np.exp(np.minimum(grown, 700)))
