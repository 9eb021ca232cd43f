"""Where an attacker may move a row to, behind the scalers: a box, and for l_2 its common part with a ball.

A move u in the units of X is d = s u behind scalers, s one number a column. For l_inf, |u_l| <= eps and low <= x + u <=
high leave a box. Its middle, the anchor, need not be x. For l_2 there is |u| <= eps besides, an ellipsoid in d.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._compiling import compile_kernel
from buttress._proof import sum_error

TINY = float(np.finfo(np.float64).tiny)  # values below it have lost digits, or are 0
MULTIPLIERS = 8  # multipliers tried for the ball: each gives a bound, fewer only a looser one
ROWS = "Array(f8, 2, 'C', readonly=True)"  # rows given to a certificate may be mapped from a file

SomeRows = NDArray[np.intp] | NDArray[np.bool_] | slice


@compile_kernel(f"UniTuple(f8[:, ::1], 2)({ROWS}, {ROWS}, {ROWS})", {"reassoc", "contract", "nsz"}, makes_arrays=True)
def box_reach(anchors: Array, half: Array, centers: Array) -> tuple[Array, Array]:
    """Return two arrays (n, m) for the boxes |x - a_i| <= half_i and the centres z_j.

    The first is sum_l half_il |z_jl - a_il|, the largest (z_j - a_i)'d over the box. The second is the squared distance
    from the box to the centre, sum_l max(|z_jl - a_il| - half_il, 0)^2.
    """
    n, m, d = len(anchors), len(centers), anchors.shape[1]
    reach, nearest = np.empty((n, m)), np.empty((n, m))
    for i in range(n):
        for j in range(m):
            total, near = 0.0, 0.0
            for k in range(d):
                apart = abs(centers[j, k] - anchors[i, k])
                total += half[i, k] * apart
                left = max(apart - half[i, k], 0.0)
                near += left * left
            reach[i, j], nearest[i, j] = total, near
    return reach, nearest


@dataclass
class Region:
    """Moves d from the anchors with |d_l| <= half_l and, where there is a ball, |(d - offset) / scale| <= radius.

    Parameters
    ----------
    anchor, half : array of shape (n, d)
    offset : array of shape (n, d) or None
        From the anchor to the middle of the ball; None for a box alone.
    scale : array of shape (d,)
        Positive.
    radius : array of shape (n,)
    """

    anchor: Array
    half: Array
    offset: Array | None
    scale: Array
    radius: Array

    def __getitem__(self, rows: SomeRows) -> "Region":
        offset = None if self.offset is None else self.offset[rows]
        return Region(self.anchor[rows], self.half[rows], offset, self.scale, self.radius[rows])

    def longest(self) -> Array:
        """Return the largest |d| of each row, or a little more, shape (n,)."""
        corner = np.linalg.norm(self.half, axis=1)
        if self.offset is not None:
            corner = np.minimum(corner, np.linalg.norm(self.offset, axis=1) + self.scale.max() * self.radius)
        longest: Array = corner * (1 + self._error())
        return longest

    def _error(self) -> float:
        """Return by which share of its terms' sizes a sum over the columns may be off."""
        return sum_error(self.anchor.shape[1])

    def rounded(self) -> "Region":
        """Return the region a little wider: its middle, ends and radius are themselves rounded."""
        off = sum_error(0) * (np.abs(self.anchor) + self.half)
        radius = (self.radius + np.linalg.norm(off / self.scale, axis=1)) * (1 + self._error())
        return Region(self.anchor, self.half + off, self.offset, self.scale, radius)

    def spans(self, centers: Array) -> tuple[Array, Array, Array]:
        """Return the least and largest (z_j - a_i)'d, a little outside, and the least |a_i + d - z_j|^2, all (n, m).

        The last may be off by 4 (d + 16) units of |a_i|^2 + |z_j|^2, d columns.
        """
        reach, nearest = box_reach(*map(np.ascontiguousarray, (self.anchor, self.half, centers)))
        reach *= 1 + self._error()
        if self.offset is None:
            return -reach, reach, nearest
        middle = self.offset @ centers.T - np.einsum("ij,ij->i", self.offset, self.anchor)[:, None]
        away = np.linalg.norm(self.anchor, axis=1)[:, None] + np.linalg.norm(centers, axis=1)
        wide = self._round_reach(centers) + self._error() * np.linalg.norm(self.offset, axis=1)[:, None] * away
        return np.maximum(-reach, middle - wide), np.minimum(reach, middle + wide), nearest

    def _round_reach(self, centers: Array) -> Array:
        """Return the largest (z_j - a_i)'d over the ball around its own middle, or a little more, shape (n, m)."""
        A, Z = self.anchor * self.scale, centers * self.scale
        sizes = (A**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1)
        square = sizes - 2 * A @ Z.T + 2 * self._error() * sizes
        return self.radius[:, None] * np.sqrt(np.maximum(square, 0))

    def least(self, slope: Array, bend: Array) -> tuple[Array, Array]:
        """Return a lower bound (n,) of slope'd + bend |d|^2 over the region, and moves (n, d) where it is nearly so.

        A sum over columns has its exact minimum over a box. For the ball, lambda (|(d - offset) / scale|^2 - radius^2)
        is added with a multiplier lambda >= 0: it is at most 0 in the ball, so each lambda gives a bound. The best has
        its minimum on the border of the ball. It is looked for by Newton's method on 1 / |(d - offset) / scale|, which
        is nearly linear in lambda, within the bracket of those that were too small and too large.
        """
        if self.offset is None:
            return _least_in_box(slope, np.broadcast_to(bend[:, None], slope.shape), self.half)
        steep = ((slope + 2 * bend[:, None] * self.offset) * self.scale) ** 2  # at the middle of the ball
        total, radius = np.maximum(steep.sum(axis=1), TINY), np.maximum(self.radius, TINY)
        pull = np.sqrt(total) / (2 * radius)
        multiplier = np.maximum(pull - bend * (steep @ self.scale**2) / total, 0)
        low, high = np.zeros(len(slope)), np.full(len(slope), np.inf)
        best, moves = np.full(len(slope), -np.inf), np.zeros_like(slope)
        for _ in range(MULTIPLIERS):
            value, d = self._with_multiplier(slope, bend, multiplier)
            better = value > best
            best, moves[better] = np.where(better, value, best), d[better]
            square = ((d - self.offset) / self.scale) ** 2
            over = np.sqrt(square.sum(axis=1)) / radius - 1
            low, high = np.where(over > 0, multiplier, low), np.where(over > 0, high, multiplier)
            if ((np.abs(over) < 1e-9) | (high == 0)).all():
                break
            bent = np.maximum(np.abs(bend[:, None] * self.scale**2 + multiplier[:, None]), TINY)
            soft = np.where(np.abs(d) < self.half, square / bent, 0).sum(axis=1)
            step = np.divide(over * square.sum(axis=1), soft, out=np.zeros_like(soft), where=soft > 0)
            turn, between = multiplier + step, np.where(high < np.inf, (low + high) / 2, 2 * multiplier + pull)
            multiplier = np.where((low < turn) & (turn < high), turn, between)
        return best, self.inside(moves)

    def _with_multiplier(self, slope: Array, bend: Array, multiplier: Array) -> tuple[Array, Array]:
        """Return the bound that one multiplier a row gives, and the moves that attain it in the box."""
        assert self.offset is not None
        weight = multiplier[:, None] / self.scale**2
        value, d = _least_in_box(slope - 2 * weight * self.offset, bend[:, None] + weight, self.half)
        apart, beyond = (weight * self.offset**2).sum(axis=1), multiplier * self.radius**2
        turned = (4 * weight * np.abs(self.offset) * self.half).sum(axis=1)
        return value + apart - beyond - self._error() * (apart + beyond + turned), d

    def inside(self, moves: Array) -> Array:
        """Return the moves brought into the region; one that is in the box stays there where the ball's middle is."""
        moves = np.clip(moves, -self.half, self.half)
        if self.offset is None:
            return moves
        away = moves - self.offset
        share = self.radius / np.maximum(np.linalg.norm(away / self.scale, axis=1), TINY)
        return self.offset + away * np.minimum(share, 1)[:, None]


def _least_in_box(slope: Array, bend: Array, half: Array) -> tuple[Array, Array]:
    """Return a lower bound (n,) of sum_l slope_l d_l + bend_l d_l^2 over |d_l| <= half_l, and where it nearly is.

    It is below the minimum by what rounding may change in it, for slopes and bends that were rounded once.
    """
    ends = np.where(slope > 0, -half, half)
    d = np.clip(np.divide(-slope, 2 * bend, out=ends, where=bend > 0), -half, half)
    linear, square = slope * d, bend * d**2
    sizes = (np.abs(linear) + np.abs(square)).sum(axis=1)
    return (linear + square).sum(axis=1) - sum_error(d.shape[1]) * sizes, d


@dataclass
class Attacker:
    """How rows may be moved: by at most a radius in a norm, within a box, both behind the scalers.

    Parameters
    ----------
    norm : {"l2", "linf"}
    scale : array of shape (d,) or, in "linf", one a row (n, d)
        Positive.
    low, high : array of shape (n, d) or None
        The box, behind the scalers.
    """

    norm: str
    scale: Array
    low: Array | None = None
    high: Array | None = None

    def __getitem__(self, rows: SomeRows) -> "Attacker":
        low, high = (None if side is None else side[rows] for side in (self.low, self.high))
        return Attacker(self.norm, self.scale if self.scale.ndim == 1 else self.scale[rows], low, high)

    def region(self, Z: Array, radius: Array) -> Region:
        """Return where rows Z (n, d) behind the scalers can come with radii (n,), a little more for rounding."""
        reach = self.scale * radius[:, None]
        low, high = Z - reach, Z + reach
        if self.low is not None and self.high is not None:
            low, high = np.maximum(low, self.low), np.minimum(high, self.high)
            anchor = (low + high) / 2
        else:
            anchor = Z
        half = np.maximum(high - anchor, anchor - low)
        return Region(anchor, half, None if self.norm == "linf" else Z - anchor, self.scale, radius).rounded()
