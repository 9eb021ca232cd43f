"""Bounds, in real numbers, of the objective of a linear machine against moved rows, at a hyperplane and at its optimum.

    minimise over w, b   1/2 ||w||^2 + sum_i c_i max(0, 1 - y_i (w'x_i + b) + t_i(w))

where t_i(w) is the largest u'w over u in U_i, which holds the moves of row i, times -y_i. For 0 <= a <= c with y'a = 0
and any g that is a sum of a_i u_i, u_i in U_i, the optimum is at least sum(a) - 1/2 |sum_i a_i y_i x_i - g|^2. Taking
the same centre from all rows and moves does not change it.
"""

import math
from dataclasses import dataclass

import numpy as np

from buttress._checks import Array
from buttress._proof import SLACK, Near, U, plus, products, sums_of_rows


@dataclass(frozen=True)
class BallMoves:
    """Every row moves by at most ``eps`` in the ``norm``, "linf", "l2" or "l1"; ``centre`` is taken from every row.

    For "linf" ``eps`` may be one number a column, (d,).
    """

    eps: Array | float
    norm: str

    def shrunk(self, y: Array) -> Array:
        """Return the share (n,) of w'x_i that is left: the worst move may be towards a point."""
        return np.ones(len(y))

    def rest(self, w: Array, y: Array) -> Near:
        """Return what the moves add to the margins besides, one value or (n,)."""
        lost = dual_norm(self.eps * w, self.norm)
        return Near(-lost, (len(w) + 4) * U * lost)

    def square(self, v: Near, a: Array, y: Array, centre: Array) -> Near:
        """Return |v - g|^2 for v = sum_i a_i shrunk_i y_i x_i and some g."""
        inward = 1 - 4 * (len(a) + len(v.v) + 4) * U  # so that g is in the ball whatever the rounding
        away = v + -inward * nearest_in_ball(v.v, self.eps * float(a.sum()), self.norm)
        return (away * away).sum()

    def length(self, size: float, centre: Array) -> float:
        """Return by how much the length of v - g changes at most with an a_i whose row has length ``size``."""
        return size + float(np.linalg.norm(self.eps * np.ones(len(centre) if self.norm == "linf" else 1)))


@dataclass(frozen=True)
class BoxMoves:
    """Features move a ``share`` of the way to the ends of a box at most, of class +1 or of ``both``.

    It has the methods of :class:`BallMoves`.
    """

    low: Array
    high: Array
    share: float
    both: bool

    def shrunk(self, y: Array) -> Array:
        return np.where((y > 0) | self.both, 1 - self.share, 1.0)

    def _ends(self, centre: Array) -> tuple[Near, Near]:
        low, high = (Near(end) + -centre for end in (self.low, self.high))
        return low * self.share, high * self.share

    def rest(self, w: Array, y: Array) -> Near:
        low, high = self._ends(np.zeros(len(w)))
        up, down = plus(w), plus(-w)
        of_positive = (low * up).sum() + (high * down).sum() * -1.0
        of_negative = (low * down).sum() + (high * up).sum() * -1.0
        v = np.where(y > 0, of_positive.v, of_negative.v * self.both)
        return Near(v, max(float(of_positive.e), float(of_negative.e)))

    def square(self, v: Near, a: Array, y: Array, centre: Array) -> Near:
        low, high = self._ends(centre)
        positive, negative = (Near(a[own]).sum() for own in (y > 0, (y < 0) & self.both))
        up = v + low * positive + high * negative * -1.0
        down = v * -1.0 + high * positive * -1.0 + low * negative
        return sum(((part.each(plus) * part.each(plus)).sum() for part in (up, down)), Near(0.0))

    def length(self, size: float, centre: Array) -> float:
        ends = np.abs(self.low - centre) + np.abs(self.high - centre)
        return 2 * (size + self.share * float(np.linalg.norm(ends)))




def dual_norm(w: Array, norm: str) -> float:
    """Return the largest u'w over the unit ball of ``norm``.

    >>> [dual_norm(np.array([3.0, -4.0]), norm) for norm in ("linf", "l2", "l1")]
    [7.0, 5.0, 4.0]
    """
    return float(np.linalg.norm(w, {"linf": 1, "l2": 2, "l1": np.inf}[norm]))


def nearest_in_ball(v: Array, radius: Array | float, norm: str) -> Array:
    """Return the point nearest to v in the ball of ``norm`` with this radius around 0, for "linf" one or one a column.

    >>> [nearest_in_ball(np.array([3.0, -4.0]), 1.0, norm).round(2).tolist() for norm in ("l2", "linf", "l1")]
    [[0.6, -0.8], [1.0, -1.0], [0.0, -1.0]]
    """
    if norm == "linf":
        return np.clip(v, -radius, radius)
    size = np.abs(v)
    if norm == "l2":
        length = float(np.linalg.norm(v))
        return v if length <= radius else v * (radius / length)
    if size.sum() <= radius:
        return v
    falling = np.sort(size)[::-1]  # it takes the same off each large entry
    levels = (np.cumsum(falling) - radius) / np.arange(1, len(v) + 1)
    level = levels[max(int(np.count_nonzero(falling > levels)) - 1, 0)]
    return np.sign(v) * plus(size - level)


def attacked_bounds(
    X: Array, y: Array, c: Array, w: Array, b: float, a: Array, moves: BallMoves | BoxMoves
) -> tuple[float, float]:
    """Return an upper bound of the objective at (w, b), and a lower one of the optimum from a (n,), 0 <= a <= c.

    y'a is 0 up to rounding; moved to one a_j with room for it, the bound falls by its slope there.
    """
    kept = moves.shrunk(y)
    margin = products(X, Near(w)) * (y * kept) + moves.rest(w, y) + y * b
    losses = (margin * -1.0 + 1.0).each(plus) * c
    primal = (Near(w) * w).sum() * 0.5 + losses.sum()
    centre = X.mean(axis=0, dtype=np.float64)
    Z = X - centre
    square = moves.square(sums_of_rows(Z, a * y * kept), a, y, centre)
    dual = Near(a).sum() + square * -0.5
    excess = math.fsum((a * y).tolist())
    room = np.where(y * excess > 0, a, c - a)
    j = int(room.argmax())
    if room[j] < 2 * abs(excess):
        return float(primal.high), -np.inf
    length = moves.length(float(np.linalg.norm(Z[j])), centre)
    fall = abs(excess) * (1 + math.sqrt(max(0.0, float(square.high))) * length) + 0.5 * (excess * length) ** 2
    return float(primal.high), float(dual.low) - SLACK * fall
