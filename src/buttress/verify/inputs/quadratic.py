"""Quadratic functions of a move of a row, and their least value over a ball or a cube, proven in floating point."""

import math
import operator
from typing import Any, NamedTuple

import numpy as np

from ..core import Array, Near, U

TINY = 1e-300


class Moves(NamedTuple):
    """The moves d of a row: |d| <= eps in l2, or each |d_i| <= eps, or its own eps_i, of so many columns."""

    eps: Any
    columns: int = 0

    @property
    def longest(self) -> float:
        """Return an upper bound of |d| in l2."""
        return length(np.broadcast_to(self.eps, self.columns)) if self.columns else float(self.eps)

    def reach(self, V: Near) -> Array:
        """Return upper bounds (m,) of |v_j'd| for rows V (m, d)."""
        sizes = np.abs(V.v) + V.e
        dual = (sizes * self.eps).sum(axis=1) if self.columns else self.eps * np.sqrt((sizes**2).sum(axis=1))
        return dual * (1 + (sizes.shape[1] + 8) * U)


class Below(NamedTuple):
    """const + slope'd + d'curve d + bend |d|^2; the curve is None where it is 0."""

    const: Near
    slope: Near
    curve: Near | None
    bend: Near

    def least(self, moves: Moves) -> tuple[float, Array]:
        """Return a lower bound over the moves, and one of them where it is nearly attained."""
        M = None if self.curve is None else self.curve + Near(np.eye(len(self.slope.v))) * self.bend
        if M is not None and not np.isfinite(M.v).all():
            return -math.inf, np.full(len(M.v), np.nan)
        axes = Axes.of(self.bend, len(self.slope.v)) if M is None else Axes.of_matrix(M)
        found = [self.in_ball(moves.longest, axes)]
        if moves.columns:
            under = [np.full(len(axes.e), axes.least)] + ([] if M is None else [dominated(M)])
            found = [(low, np.clip(move, -moves.eps, moves.eps))
                     for low, move in found + [self.in_cube(moves.eps, e) for e in under]]
        return max(found, key=operator.itemgetter(0))

    def in_cube(self, eps: Any, e: Array) -> tuple[float, Array]:
        """Return a lower bound over |d_i| <= eps, column by column: d'curve d + bend |d|^2 >= sum_i e_i d_i^2."""
        p = np.abs(self.slope.v) + self.slope.e
        with np.errstate(divide="ignore", invalid="ignore"):
            w = np.where(e > 0, np.minimum(p / (2 * e), eps), eps)
        fall = np.where(w < eps, p * w / 2, (p - e * eps) * eps)
        fallen = float(fall.sum()) + (len(p) + 16) * 2 * U * float((p * eps + np.abs(e) * eps**2).sum())
        return float(self.const.low) - fallen - 4 * U * (fallen + abs(float(self.const.v))), -np.sign(self.slope.v) * w

    def in_ball(self, eps: float, axes: "Axes") -> tuple[float, Array]:
        """Return a lower bound over |d| <= eps in l2.

        With slope near V q and w = V'd: for each m >= -min e, m >= 0, the sum q'w + w'diag(e) w is at least
        -1/4 sum_l q_l^2 / (e_l + m) - m |w|^2. What is missing in "near" is bounded.
        """
        p, e, V = self.slope, axes.e, axes.V
        q = V.T @ p.v
        apart = 0.0 if axes.exact else size(Near(p.v) + Near(V) @ q * -1)
        at = multiplier(e, q, eps)
        w = np.where(q == 0, 0.0, -q / (e + at) / 2)
        if e.min() < 0:  # then the least value is at the border, where q may not point
            w[e.argmin()] += math.copysign(math.sqrt(max(eps**2 - float(w @ w), 0.0)), w[e.argmin()])
        fall = float(np.where(q == 0, 0.0, q**2 / (e + at) / 4).sum()) + at * eps**2 * (1 + axes.longer)
        fall = fall * (1 + (len(V) + 16) * 2 * U) + eps**2 * axes.lost + eps * (apart + length(p.e))
        return float(self.const.low) - fall - 4 * U * (fall + abs(float(self.const.v))), V @ w


class Axes(NamedTuple):
    """A matrix near V diag(e) V': it differs by a norm of at most ``lost``, and V'V from I by at most ``longer``."""

    e: Array
    V: Array
    lost: float
    longer: float
    exact: bool

    @classmethod
    def of(cls, bend: Near, columns: int) -> "Axes":
        """Return those of bend I."""
        return cls(np.full(columns, float(bend.v)), np.eye(columns), float(bend.e), 0.0, True)

    @classmethod
    def of_matrix(cls, M: Near) -> "Axes":
        e, V = np.linalg.eigh((M.v + M.v.T) / 2)
        lost = size(M + Near(V * e, U * np.abs(V * e)) @ V.T * -1)
        return cls(e, V, lost, size(Near(V.T) @ V + -np.eye(len(V))), False)

    @property
    def least(self) -> float:
        """Return a lower bound of d'M d / |d|^2."""
        low = float(self.e.min())
        return low - abs(low) * (self.longer + 4 * U) - self.lost * (1 + 4 * U)


def dominated(M: Near) -> Array:
    """Return what each diagonal entry has more than the entries beside it: M less these is at least 0 (Gershgorin)."""
    sizes = np.abs(M.v) + M.e
    own = sizes.diagonal()
    return M.v.diagonal() - M.e.diagonal() - (sizes.sum(axis=1) - own) - (len(own) + 8) * 2 * U * sizes.sum(axis=1)


def summed(parts: list[tuple[Below, float]]) -> Below:
    """Return the sum of functions, each times its weight."""
    curves = [one.curve * weight for one, weight in parts if one.curve is not None]
    const, slope, bend = (sum((getattr(one, name) * weight for one, weight in parts), Near(0.0))
                          for name in ("const", "slope", "bend"))
    return Below(const, slope, sum(curves[1:], curves[0]) if curves else None, bend)


def size(values: Near) -> float:
    """Return an upper bound of the Frobenius norm."""
    return length(np.abs(values.v) + values.e)


def length(values: Array) -> float:
    return float(np.linalg.norm(values)) * (1 + (values.size + 8) * U)


def multiplier(e: Array, q: Array, eps: float) -> float:
    """Return nearly the multiplier with which the bound is best: where |q / (e + m)| / 2 is eps, or 0."""
    low = max(0.0, -float(e.min()))
    high = low + float(np.linalg.norm(q)) / (2 * eps) + 4 * U * low + TINY
    for _ in range(50):
        middle = (low + high) / 2
        long = float(((q / (e + middle)) ** 2).sum()) > 4 * eps**2
        low, high = (middle, high) if long else (low, middle)
    return high
