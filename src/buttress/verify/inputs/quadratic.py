"""Quadratic functions of a move of a row, and their least value over a ball or a cube, proven in floating point."""

import operator
from typing import Any, NamedTuple

import numpy as np

from ..core import TINY, Array, Real, U


def above(values: Any, terms: int) -> Any:
    """Return an upper bound of sums of so many terms >= 0, each of at most six roundings: of n - 1 + 6 in all.

    A rounding takes off a share of at most U, so the sum is at most its float (1 - U)^-(n + 5). That is below
    1 + (n + 6) U; two more are for the roundings of the factor here.
    """
    return values * (1 + (terms + 8) * U)


def length(values: Array) -> Any:
    """Return upper bounds of the Euclidean lengths of rows."""
    return above(np.sqrt((values**2).sum(axis=-1) + TINY), values.shape[-1])


def size(values: Real) -> float:
    """Return an upper bound of the Frobenius norm."""
    return float(length(np.ravel(np.abs(values.v) + values.e)))


def squared(values: Real) -> Real:
    """Return the squared lengths of rows."""
    return (values * values) @ np.ones(values.v.shape[-1])


def root(value: Real) -> float:
    """Return an upper bound of the square root."""
    return float(above(np.sqrt(max(float(value.high), 0.0)), 0))


class RowMoves(NamedTuple):
    """The moves d of a row: |d| <= eps in l2, or each |d_i| <= eps, or its own eps_i, of so many columns."""

    eps: Any
    columns: int = 0

    @property
    def longest(self) -> float:
        """Return an upper bound of |d| in l2."""
        return float(length(np.broadcast_to(self.eps, self.columns)) if self.columns else self.eps)

    @property
    def square(self) -> float:
        """Return an upper bound of |d|^2."""
        return float(above(self.longest**2, 0))

    def reach(self, V: Real) -> Array:
        """Return upper bounds (m,) of |v_j'd| for rows V (m, d)."""
        sizes = np.abs(V.v) + V.e
        dual: Array = (sizes * self.eps).sum(axis=1) if self.columns else self.eps * length(sizes)
        return above(dual, sizes.shape[1])


class Quadratic(NamedTuple):
    """const + slope'd + d'curve d + bend |d|^2; the curve is None where it is 0."""

    const: Real
    slope: Real
    curve: Real | None
    bend: Real

    def least(self, moves: RowMoves) -> tuple[float, Array]:
        """Return a lower bound over the moves, and one of them where it is nearly attained."""
        M = None if self.curve is None else self.curve + Real(np.eye(len(self.slope.v))) * self.bend
        if M is not None and not np.isfinite(M.v).all():
            return -np.inf, np.full(len(M.v), np.nan)
        axes = Axes.of(self.bend, len(self.slope.v)) if M is None else Axes.of_matrix(M)
        found = [self.in_ball(moves.longest, axes)]
        if moves.columns:
            under = [np.full(len(axes.e), axes.least)] + ([] if M is None else [dominated(M)])
            found = [(low, np.clip(move, -moves.eps, moves.eps))
                     for low, move in found + [self.in_cube(moves.eps, e) for e in under]]
        return max(found, key=operator.itemgetter(0))

    def in_cube(self, eps: Any, e: Array) -> tuple[float, Array]:
        """Return a lower bound over |d_i| <= eps, column by column: d'curve d + bend |d|^2 >= sum_i e_i d_i^2.

        A column loses at most the largest p w - e w^2 with 0 <= w <= eps, where p is above the size of its slope.
        """
        p = Real(np.abs(self.slope.v), self.slope.e).high
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            w = np.where(e > 0, np.minimum(p / (2 * e), eps), eps)
        lost = (Real(p) * w + Real(w) * w * -e) @ np.ones(len(p))
        return float((self.const + lost * -1).low), -np.sign(self.slope.v) * w

    def in_ball(self, eps: float, axes: "Axes") -> tuple[float, Array]:
        """Return a lower bound over |d| <= eps in l2.

        With slope near V q and w = V'd: for each m >= -min e, m >= 0, the sum q'w + w'diag(e) w is at least
        -1/4 sum_l q_l^2 / (e_l + m) - m |w|^2. What is missing in "near" is bounded. No square of a small number is
        taken alone: it could be 0 in float64.
        """
        p, e, V = self.slope, axes.e, axes.V
        q = V.T @ p.v
        apart = size(Real(p.v) + Real(V) @ q * -1) + length(p.e)
        at = multiplier(e, q, eps)
        w = np.where(q == 0, 0.0, -q / (e + at) / 2)
        fall = np.where(q == 0, 0.0, q / (e + at) * q / 4).sum() + at * eps * eps * (1 + axes.longer)
        if e.min() < 0:  # then the least value is at the border, where q may not point
            w[e.argmin()] += np.copysign(np.sqrt(max(eps**2 - float(w @ w), 0.0)), w[e.argmin()])
        return float((self.const + -above(fall + eps * (eps * axes.lost + apart), len(q))).low), V @ w


class Axes(NamedTuple):
    """A matrix near V diag(e) V': it differs by a norm of at most ``lost``, and V'V from I by at most ``longer``."""

    e: Array
    V: Array
    lost: float
    longer: float

    @classmethod
    def of(cls, bend: Real, columns: int) -> "Axes":
        """Return those of bend I."""
        return cls(np.full(columns, float(bend.v)), np.eye(columns), float(bend.e), 0.0)

    @classmethod
    def of_matrix(cls, M: Real) -> "Axes":
        e, V = np.linalg.eigh((M.v + M.v.T) / 2)
        return cls(e, V, size(M + Real(V) * e @ V.T * -1), size(Real(V.T) @ V + -np.eye(len(V))))

    @property
    def least(self) -> float:
        """Return a lower bound of d'M d / |d|^2."""
        return float(Real(self.e.min(), np.abs(self.e.min()) * self.longer + self.lost).low)


def dominated(M: Real) -> Array:
    """Return what each diagonal entry has more than the entries beside it: M less these is at least 0 (Gershgorin)."""
    others = np.abs(M.v) + M.e
    np.fill_diagonal(others, 0.0)
    return (M.each(np.diagonal) + -above(others.sum(axis=1), len(others))).low


def summed(parts: list[tuple[Quadratic, float]]) -> Quadratic:
    """Return the sum of functions, each times its weight."""
    curves = [one.curve * weight for one, weight in parts if one.curve is not None]
    const, slope, bend = (sum((getattr(one, name) * weight for one, weight in parts), Real(0.0))
                          for name in ("const", "slope", "bend"))
    return Quadratic(const, slope, sum(curves[1:], curves[0]) if curves else None, bend)


def multiplier(e: Array, q: Array, eps: float) -> float:
    """Return nearly the multiplier with which the bound is best: where |q / (e + m)| is 2 eps, or 0."""
    low = max(0.0, -float(e.min()))
    high = float(np.nextafter(low + length(q) / eps, np.inf))
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if length(q / (e + middle)) > 2 * eps else (low, middle)
    return high
