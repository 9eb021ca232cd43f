"""Quadratic functions below a kernel expansion near a row, proven in floating point.

The lead at x + d is sum_j c_j phi(u_j) + b with u_j linear in the move d, or linear but for s = |d|^2:

    radial kernels   F(t_j),  t_j = r_j^2 - 2 v_j'd + s,  v_j = z_j - x,  r_j = |v_j|,  F convex and falling
    dot products     t_j^p,   t_j = gamma z_j'(x + d) + coef0
    RBF alone        e^(gamma s) times the lead, sum_j c_j e^(-gamma r_j^2) e^(u_j) + b e^(gamma s),
                     u_j = 2 gamma v_j'd

Over the numbers that u_j takes for moves d of a ball or a cube each phi lies above (c_j > 0) or below (c_j < 0) a
parabola that touches it where a guess of the worst move has u_j = tau, of radial kernels also a tangent or a chord,

    phi(tau) + phi'(tau) (u - tau) + k (u - tau)^2,

k the least or largest [phi(u) - phi(tau) - phi'(tau) (u - tau)] / (u - tau)^2. It is at an end of the range of u.

A third one for RBF is the Taylor series up to the squares: with A_p = sum_j c_j e^(-gamma r_j^2) v_j^(tensor p) the sum
is sum_p (2 gamma)^p / p! <A_p, d^(tensor p)>, and |f|^2 = sum_p (2 gamma)^p / p! |A_p|^2. So by Cauchy and Schwarz all
terms from p = 3 on come to at most

    sqrt(|f|^2 - A_0^2 - 2 gamma |A_1|^2 - 2 gamma^2 |A_2|^2) sqrt(e^q - 1 - q - q^2/2),   q = 2 gamma |d|^2.

So do those of t^3, of which only the cubic form is left.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core import TINY, Array, Model, Real, U, inverse, plus
from ..kernels import profile
from .quadratic import Quadratic, RowMoves, root, squared

CUSP = 1e-6  # share of the largest squared distance below which no tangent is taken
INSIDE = 0.1  # share of the range of a squared distance within which a parabola does not touch
SLOPES = {  # F'(t) from t > 0 and F(t)
    "RBF": lambda part, t, F: F * -part["gamma"],
    "Laplacian": lambda part, t, F: F * inverse(Real(np.sqrt(t), U * np.sqrt(t))) * (-part["gamma"] / 2),
    "InverseMultiquadric": lambda part, t, F: F * F * F * -0.5,
    "Cauchy": lambda part, t, F: F * F * -part["gamma"],
    "Log": lambda part, t, F: (exponential(F) + -1) * inverse(Real(t)) * (part["degree"] / 2)}


def gathered(
    c: Array, value: Real, steep: Real, curved: Real | None, off: Real, directions: Real, bent: bool
) -> Quadratic:
    """Return sum_j c_j (value_j + steep_j y_j + curved_j y_j^2), y_j = off_j + directions_j'd, and + |d|^2 if bent."""
    each, slope = value + steep * off, steep
    if curved is not None:
        each, slope = each + curved * off * off, steep + curved * off * 2
    D = directions.each(np.transpose)
    curve = None if curved is None else D @ (directions * (curved * c).each(column))
    bend = Real(c) @ steep if bent else Real(0.0)
    return Quadratic(Real(c) @ each, D @ (slope * c), curve, bend)


def column(values: Array) -> Array:
    return values[:, None]


def exponential(a: Real) -> Real:
    """Return e^a, whose error is a share of it."""
    v = np.exp(a.v)
    return Real(v, v * (np.expm1(a.e) + 8 * U) + TINY)


def remainder(t: Array, order: int) -> Real:
    """Return (e^t - sum_(i < order) t^i / i!) / t^order, which is positive and rises with t, for orders 1 to 3.

    For |t| > 1 nothing cancels but what is less than 15 times as large, of some 12 roundings; the terms of the series
    add up to less than three times it, of some 27.
    """
    series = sum((t**k / math.factorial(k + order) for k in range(18)), np.zeros_like(t))  # t in [-1, 1]
    taken = sum((t**i / math.factorial(i) for i in range(1, order)), np.zeros_like(t))
    found = np.where(np.abs(t) > 1, (np.expm1(t) - taken) / t**order, series)
    return Real(found, 256 * U * found)  # a remainder of e^t may be off by 256 U


class Round:
    """RBF alone: functions below e^(gamma |d|^2) times the lead, for each way to choose them."""

    def __init__(self, gamma: float, x: Array, Z: Array, c: Array, b: float, norm2: float):
        self.gamma, self.norm2 = gamma, norm2
        self.c, self.b = c, b
        self.away = Real(Z) + -x
        self.r2 = squared(self.away)
        self.up = c > 0

    def units(self, moves: RowMoves) -> Array:
        """Return an upper bound of |u_j|."""
        return moves.reach(self.directions())

    def parabolas(self, move: Array, moves: RowMoves) -> Quadratic:
        R = self.units(moves)
        tau = np.clip(2 * self.gamma * (self.away.v @ move), -R, R)
        curved = np.where(self.up, remainder(-(R + tau), 2).low, remainder(R - tau, 2).high)
        E = exponential(self.r2 * -self.gamma + tau)
        found = gathered(self.c, E, E, E * curved, Real(-tau), self.directions(), bent=False)
        return self.with_bias(found, move, moves)

    def lines(self, move: Array, moves: RowMoves) -> Quadratic:
        R = self.units(moves)
        tau = np.where(self.up, np.clip(2 * self.gamma * (self.away.v @ move), -R, R), -R)
        E = exponential(self.r2 * -self.gamma + tau)
        chord = np.where(self.up, 1.0, remainder(2 * R, 1).high)
        found = gathered(self.c, E, E * chord, None, Real(-tau), self.directions(), bent=False)
        return self.with_bias(found, move, moves)

    def taylor(self, move: Array, moves: RowMoves) -> Quadratic:
        E, gamma = exponential(self.r2 * -self.gamma), self.gamma
        found = gathered(self.c, E, E, E * 0.5, Real(np.zeros(len(E.v))), self.directions(), bent=False)
        assert found.curve is not None
        half = inverse(Real(gamma) * 2)
        squares = found.const * found.const + squared(found.slope) * half \
            + squared(found.curve.each(np.ravel)) * half * inverse(Real(gamma))
        q = np.array(2 * gamma * moves.square)
        rest = Real(root(Real(self.norm2) + squares * -1)) * root(remainder(q, 3) * q * q * q)
        return self.with_bias(found._replace(const=found.const + rest * -1), move, moves)

    def directions(self) -> Real:
        return self.away * (2 * self.gamma)

    def with_bias(self, found: Quadratic, move: Array, moves: RowMoves) -> Quadratic:
        """Add a line in |d|^2 below b e^(gamma |d|^2): a tangent if b > 0, else the chord up to the largest."""
        s = float(move @ move) if self.b > 0 else 0.0
        touch = exponential(Real(self.gamma) * s)
        chord = remainder((Real(self.gamma) * moves.square).high, 1)
        steep = (touch if self.b > 0 else chord) * self.gamma
        return Quadratic(found.const + (touch + steep * -s) * self.b, found.slope, found.curve,
                         found.bend + steep * self.b)


class Span(NamedTuple):
    """Differences to the centres, their squared lengths, and bounds of these after the moves."""

    away: Real
    r2: Real
    low: Array
    high: Array


def span(x: Array, Z: Array, moves: RowMoves) -> Span:
    away = Real(Z) + -x
    r2 = squared(away)
    if moves.columns:  # column by column
        near = far = Real(np.abs(away.v), away.e)
    else:
        near, far = (Real(column(ends), U * column(ends)) for ends in (np.sqrt(plus(r2.low)), np.sqrt(r2.high)))
    near, far = (part + shift for part, shift in ((near, -moves.eps), (far, moves.eps)))
    return Span(away, r2, plus(squared(Real(plus(near.low))).low), squared(Real(far.high)).high)


def tangent(part: Model, tau: Array) -> tuple[Real, Real]:
    """Return F and F' at tau > 0."""
    F = profile(part, Real(tau))
    return F, SLOPES[part["class"]](part, tau, F)


def radial(part: Model, x: Array, Z: Array, c: Array, move: Array, moves: RowMoves) -> Quadratic:
    """Tangents of F where c > 0, and its chords where c < 0."""
    away, r2, low, high = span(x, Z, moves)
    near = ((Z - x - move) ** 2).sum(axis=1)
    tau = np.where(c > 0, np.maximum(np.clip(near, low, high), CUSP * high), low)
    F, steep = tangent(part, np.where(c > 0, tau, high))
    start = profile(part, Real(low))
    chord = (profile(part, Real(high)) + start * -1) * inverse(Real(high) + -low)
    F, steep = (Real(np.where(c > 0, one.v, other.v), np.where(c > 0, one.e, other.e))
                for one, other in ((F, start), (steep, chord)))
    return gathered(c, F, steep, None, r2 + -tau, away * -2, bent=True)


def radial_parabolas(part: Model, x: Array, Z: Array, c: Array, move: Array, moves: RowMoves) -> Quadratic:
    """Parabolas in t = r^2 - 2 v'd + s, of whose squares s v'd and s^2 are replaced by what lies below them."""
    away, r2, low, high = span(x, Z, moves)
    near, room = ((Z - x - move) ** 2).sum(axis=1), (high - low) * INSIDE
    tau = np.clip(near, low + room, high - room)
    F, steep = tangent(part, tau)
    end = np.where(c > 0, high, low)
    run = Real(end) + -tau
    bent = (profile(part, Real(end)) + F * -1 + steep * run * -1) * inverse(run * run)
    curved = Real(np.where(c > 0, plus(bent.low), bent.high))
    found = gathered(c, F, steep, curved, r2 + -tau, away * -2, bent=True)
    most = moves.square
    each, s = curved * c, min(float(move @ move), most)
    cubic, square = away.each(np.transpose) @ each * -4, each @ np.ones(len(c))
    touch = 2 * s if square.v > 0 else most  # s^2 lies above its tangent, and below its chord from 0 on
    lost = float(moves.reach(cubic.each(np.atleast_2d))[0]) * max(s, most - s)
    bend = found.bend + ((r2 + -tau) @ each) * 2 + square * touch
    return found._replace(const=found.const + square * (-(s**2) if square.v > 0 else 0.0) + -lost,
                          slope=found.slope + cubic * s, bend=bend)


def powers(part: Model, x: Array, Z: Array, c: Array, move: Array, moves: RowMoves) -> Quadratic:
    """Parabolas that touch t^p, t = gamma z_j'(x + d) + coef0."""
    gamma, p = part.get("gamma", 1.0), int(part.get("degree", 1))
    t = Real(Z) @ x * gamma + part["coef0"]
    reach = moves.reach(Real(Z) * gamma)
    low, high = (t + -reach).low, (t + reach).high
    tau = np.clip(t.v + gamma * (Z @ move), low, high)
    power = [Real(np.ones(len(c)))]
    for _ in range(p):
        power.append(power[-1] * tau)
    curved = None if p == 1 else Real(bends(p, power, low, high, c > 0))
    return gathered(c, power[p], power[p - 1] * p, curved, t + -tau, Real(Z) * gamma, bent=False)


def cubes(part: Model, x: Array, Z: Array, c: Array, move: Array, moves: RowMoves) -> Quadratic:
    """The Taylor series of t^3 up to the squares: what is left is at most |T| |d|^3, T the cubic form of the sum."""
    gamma = part["gamma"]
    t = Real(Z) @ x * gamma + part["coef0"]
    found = gathered(c, t * t * t, t * t * 3, t * 3, Real(np.zeros(len(c))), Real(Z) * gamma, bent=False)
    inner = Real(Z) @ Z.T * gamma
    form = Real(c) @ (inner * inner * inner * gamma * gamma * gamma) @ c
    return found._replace(const=found.const + Real(root(form)) * moves.square * moves.longest * -1)


def bends(p: int, power: list[Real], low: Array, high: Array, up: Array) -> Array:
    """Return the least (up) or largest [t^p - tau^p - p tau^(p-1) (t - tau)] / (t - tau)^2 for t from low to high.

    It is sum_i (i + 1) tau^i t^(p-2-i), which rises with t for odd p, and for even p is convex and not below 0.
    """
    ends = []
    for t in (low, high):
        found = Real(np.ones(len(t)))
        for i in range(1, p - 1):
            found = found * t + power[i] * (i + 1)
        ends.append(found)
    least, most = np.minimum(ends[0].low, ends[1].low), np.maximum(ends[0].high, ends[1].high)
    turns = (low < 0) & (high > 0) & (p % 2 == 0) & (p > 2)
    return np.where(up, np.where(turns, 0.0, least), most)
