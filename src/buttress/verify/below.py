"""Quadratic functions below a kernel expansion near a row, proven in floating point, and their least value in a ball.

The lead at x + d is sum_j c_j phi(u_j) + b with u_j linear in the move d, or linear but for s = |d|^2:

    radial kernels   F(t_j),  t_j = r_j^2 - 2 v_j'd + s,  v_j = z_j - x,  r_j = |v_j|,  F convex and falling
    dot products     t_j^p,   t_j = gamma z_j'(x + d) + coef0
    RBF alone        e^(gamma s) times the lead, sum_j c_j e^(-gamma r_j^2) e^(u_j) + b e^(gamma s),
                     u_j = 2 gamma v_j'd

Over the numbers that u_j takes for |d| <= eps each phi lies above (c_j > 0) or below (c_j < 0) a line or a parabola:
tangents and chords of what is convex, or parabolas that touch phi where a guess of the worst move has u_j = tau,

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

from .core import Array, Model, Near, U, plus
from .kernels import profile

SERIES = 18  # terms of the series of e^t on [-1, 1]
EXACT = 1e-12  # share by which a remainder of e^t may be off
CUSP = 1e-6  # share of the largest squared distance below which no tangent is taken
INSIDE = 0.1  # share of the range of a squared distance within which a parabola does not touch
TINY = 1e-300
SLOPES = {  # F'(t) from t and F(t)
    "RBF": lambda part, t, F: -part["gamma"] * F,
    "Laplacian": lambda part, t, F: -part["gamma"] * F / (2 * np.sqrt(t)),
    "InverseMultiquadric": lambda part, t, F: -(F**3) / 2,
    "Cauchy": lambda part, t, F: -part["gamma"] * F**2,
    "Log": lambda part, t, F: part["degree"] / 2 * np.expm1(F) / t}


class Below(NamedTuple):
    """const + slope'd + d'curve d + bend |d|^2; the curve is None where it is 0."""

    const: Near
    slope: Near
    curve: Near | None
    bend: Near

    def least(self, eps: float) -> tuple[float, Array]:
        """Return a lower bound over |d| <= eps, and a move where it is nearly attained.

        With curve + bend I near V diag(e) V', V'V near I and slope near V q: for each m >= -min e, m >= 0, the sum
        q'w + w'diag(e) w is at least -1/4 sum_l q_l^2 / (e_l + m) - m |w|^2. What is missing in "near" is bounded.
        """
        p, V = self.slope, np.eye(len(self.slope.v))
        e, lost = np.full(len(V), float(self.bend.v)), float(self.bend.e)
        apart = longer = 0.0
        if self.curve is not None:
            M = self.curve + Near(V) * self.bend
            if not np.isfinite(M.v).all():
                return -math.inf, np.full(len(V), np.nan)
            e, V = np.linalg.eigh((M.v + M.v.T) / 2)
            lost = size(M + Near(V * e, U * np.abs(V * e)) @ V.T * -1)
            apart, longer = size(Near(p.v) + Near(V) @ (V.T @ p.v) * -1), size(Near(V.T) @ V + -np.eye(len(V)))
        q = V.T @ p.v
        at = multiplier(e, q, eps)
        w = np.where(q == 0, 0.0, -q / (e + at) / 2)
        if e.min() < 0:  # then the least value is at the border, where q may not point
            w[e.argmin()] += math.copysign(math.sqrt(max(eps**2 - float(w @ w), 0.0)), w[e.argmin()])
        fall = float(np.where(q == 0, 0.0, q**2 / (e + at) / 4).sum()) + at * eps**2 * (1 + longer)
        fall = fall * (1 + (len(V) + 16) * 2 * U) + eps**2 * lost + eps * (apart + length(p.e))
        return float(self.const.low) - fall - 4 * U * (fall + abs(float(self.const.v))), V @ w


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


def gathered(c: Array, value: Near, steep: Near, curved: Near | None, off: Near, directions: Near, bent: bool) -> Below:
    """Return sum_j c_j (value_j + steep_j y_j + curved_j y_j^2), y_j = off_j + directions_j'd, and + |d|^2 if bent."""
    each, slope = value + steep * off, steep
    if curved is not None:
        each, slope = each + curved * off * off, steep + curved * off * 2
    D = directions.each(np.transpose)
    curve = None if curved is None else D @ (directions * (curved * c).each(column))
    bend = Near(c) @ steep if bent else Near(0.0)
    return Below(Near(c) @ each, D @ (slope * c), curve, bend)


def column(values: Array) -> Array:
    return values[:, None]


def exponential(a: Near) -> Near:
    """Return e^a, whose error is a share of it."""
    v = np.exp(a.v)
    return Near(v, v * (np.expm1(a.e) * 1.01 + 8 * U) + TINY)


def remainder(t: Array, order: int) -> Array:
    """Return (e^t - sum_(i < order) t^i / i!) / t^order, to EXACT of itself; it is positive and rises with t."""
    series = sum((t**k / math.factorial(k + order) for k in range(SERIES)), np.zeros_like(t))
    safe = np.where(np.abs(t) > 1, t, 2.0)
    taken = sum((safe**i / math.factorial(i) for i in range(1, order)), np.zeros_like(t))
    return np.where(np.abs(t) > 1, (np.expm1(safe) - taken) / safe**order, series)


class Round:
    """RBF alone: functions below e^(gamma |d|^2) times the lead, for each way to choose them."""

    def __init__(self, gamma: float, x: Array, Z: Array, c: Array, b: float, norm2: float):
        self.gamma, self.norm2 = gamma, norm2
        self.c, self.b = c, b
        self.away = Near(Z) + -x
        self.r2 = (self.away * self.away) @ np.ones(len(x))
        self.up = c > 0

    def units(self, eps: float) -> Array:
        """Return an upper bound of |u_j| within eps."""
        return 2 * self.gamma * np.sqrt(self.r2.high) * eps * (1 + 8 * U)

    def parabolas(self, move: Array, eps: float) -> Below:
        R = self.units(eps)
        tau = np.clip(2 * self.gamma * (self.away.v @ move), -R, R)
        curved = np.where(self.up, remainder(-(R + tau), 2) * (1 - EXACT), remainder(R - tau, 2) * (1 + EXACT))
        E = exponential(self.r2 * -self.gamma + tau)
        found = gathered(self.c, E, E, E * curved, Near(-tau), self.directions(), bent=False)
        return self.with_bias(found, move, eps)

    def lines(self, move: Array, eps: float) -> Below:
        R = self.units(eps)
        tau = np.where(self.up, np.clip(2 * self.gamma * (self.away.v @ move), -R, R), -R)
        E = exponential(self.r2 * -self.gamma + tau)
        chord = np.where(self.up, 1.0, remainder(2 * R, 1) * (1 + EXACT))
        found = gathered(self.c, E, E * chord, None, Near(-tau), self.directions(), bent=False)
        return self.with_bias(found, move, eps)

    def taylor(self, move: Array, eps: float) -> Below:
        E, gamma = exponential(self.r2 * -self.gamma), self.gamma
        found = gathered(self.c, E, E, E * 0.5, Near(np.zeros(len(E.v))), self.directions(), bent=False)
        assert found.curve is not None
        squares = (found.const * found.const, (found.slope @ found.slope) * Near(0.5 / gamma, U / gamma),
                   (found.curve * found.curve).each(np.ravel) @ np.ones(found.curve.v.size)
                   * Near(0.5 / gamma**2, 2 * U / gamma**2))
        left = math.sqrt(max(float((Near(self.norm2) + sum(squares[1:], squares[0]) * -1).high), 0.0))
        q = np.array([2 * gamma * eps**2 * (1 + 4 * U)])
        rest = left * math.sqrt(float((remainder(q, 3) * q**3)[0]) * (1 + EXACT)) * (1 + 8 * U)
        return self.with_bias(found._replace(const=found.const + -rest), move, eps)

    def directions(self) -> Near:
        return self.away * (2 * self.gamma)

    def with_bias(self, found: Below, move: Array, eps: float) -> Below:
        """Add a line in |d|^2 below b e^(gamma |d|^2): a tangent if b > 0, else the chord from 0 to eps^2."""
        s = float(move @ move) if self.b > 0 else 0.0
        touch = exponential(Near(self.gamma) * s)
        most = Near(self.gamma) * eps * eps
        steep = touch * self.gamma if self.b > 0 else most_steep(most, self.gamma)
        return Below(found.const + (touch + steep * -s) * self.b, found.slope, found.curve, found.bend + steep * self.b)


def most_steep(most: Near, gamma: float) -> Near:
    """Return the slope of the chord of e^(gamma s) from s = 0 to where gamma s is ``most``."""
    top = remainder(np.array([most.high]), 1)[0]
    return Near(top, 2 * EXACT * top + 8 * U * top) * gamma


class Span(NamedTuple):
    """Differences to the centres, their squared lengths, and bounds of these within eps."""

    away: Near
    r2: Near
    low: Array
    high: Array


def span(x: Array, Z: Array, eps: float) -> Span:
    away = Near(Z) + -x
    r2 = (away * away) @ np.ones(len(x))
    low = plus(np.sqrt(plus(r2.low)) * (1 - 2 * U) - eps * (1 + 2 * U)) ** 2 * (1 - 4 * U)
    high = (np.sqrt(r2.high) * (1 + 2 * U) + eps * (1 + 2 * U)) ** 2 * (1 + 4 * U) + TINY
    return Span(away, r2, low, high)


def tangent(part: Model, tau: Array) -> tuple[Near, Near]:
    """Return F and F' at tau > 0."""
    F = profile(part, Near(tau))
    ends = (F.low, np.minimum(F.high, 0.0)) if part["class"] == "Log" else (plus(F.low), F.high)
    low, high = (SLOPES[part["class"]](part, tau, end) for end in ends)
    return F, Near((low + high) / 2, np.abs(high - low) / 2 + 32 * U * np.maximum(np.abs(low), np.abs(high)))


def radial(part: Model, x: Array, Z: Array, c: Array, move: Array, eps: float) -> Below:
    """Tangents of F where c > 0, and its chords where c < 0."""
    away, r2, low, high = span(x, Z, eps)
    near = ((Z - x - move) ** 2).sum(axis=1)
    tau = np.where(c > 0, np.maximum(np.clip(near, low, high), CUSP * high), low)
    F, steep = tangent(part, np.where(c > 0, tau, high))
    start = profile(part, Near(low))
    chord = (profile(part, Near(high)) + start * -1) * Near(1 / (high - low), 4 * U / (high - low))
    F, steep = (Near(np.where(c > 0, one.v, other.v), np.where(c > 0, one.e, other.e))
                for one, other in ((F, start), (steep, chord)))
    return gathered(c, F, steep, None, r2 + -tau, away * -2, bent=True)


def radial_parabolas(part: Model, x: Array, Z: Array, c: Array, move: Array, eps: float) -> Below:
    """Parabolas in t = r^2 - 2 v'd + s, of whose squares s v'd and s^2 are replaced by what lies below them."""
    away, r2, low, high = span(x, Z, eps)
    near, room = ((Z - x - move) ** 2).sum(axis=1), (high - low) * INSIDE
    tau = np.clip(near, low + room, high - room)
    F, steep = tangent(part, tau)
    end = np.where(c > 0, high, low)
    run = end - tau
    bent = (profile(part, Near(end)) + F * -1 + steep * Near(-run, U * np.abs(run))) * Near(run**-2, 8 * U * run**-2)
    curved = Near(np.where(c > 0, plus(bent.low), bent.high))
    found = gathered(c, F, steep, curved, r2 + -tau, away * -2, bent=True)
    each, s = curved * c, min(float(move @ move), eps**2)
    cubic, square = away.each(np.transpose) @ each * -4, each @ np.ones(len(c))
    touch = 2 * s if square.v > 0 else eps**2  # s^2 lies above its tangent, and below its chord from 0 to eps^2
    lost = size(cubic) * eps * max(s, eps**2 - s)
    bend = found.bend + ((r2 + -tau) @ each) * 2 + square * touch
    return found._replace(const=found.const + square * (-(s**2) if square.v > 0 else 0.0) + -lost,
                          slope=found.slope + cubic * s, bend=bend)


def powers(part: Model, x: Array, Z: Array, c: Array, move: Array, eps: float) -> Below:
    """Parabolas that touch t^p."""
    gamma, p = part.get("gamma", 1.0), int(part.get("degree", 1))
    t = Near(Z) @ x * gamma + part["coef0"]
    reach = gamma * np.sqrt((Z**2).sum(axis=1)) * eps * (1 + (Z.shape[1] + 16) * U)
    low, high = (t + -reach).low, (t + reach).high
    tau = np.clip(t.v + gamma * (Z @ move), low, high)
    power = [Near(np.ones(len(c)))]
    for _ in range(p):
        power.append(power[-1] * tau)
    curved = None if p == 1 else Near(bends(p, power, low, high, c > 0))
    return gathered(c, power[p], power[p - 1] * p, curved, t + -tau, Near(Z) * gamma, bent=False)


def cubes(part: Model, x: Array, Z: Array, c: Array, move: Array, eps: float) -> Below:
    """The Taylor series of t^3 up to the squares: what is left is at most |T| eps^3, T the cubic form of the sum."""
    gamma = part["gamma"]
    t = Near(Z) @ x * gamma + part["coef0"]
    found = gathered(c, t * t * t, t * t * 3, t * 3, Near(np.zeros(len(c))), Near(Z) * gamma, bent=False)
    inner = Near(Z) @ Z.T * gamma
    form = Near(c) @ (inner * inner * inner * gamma * gamma * gamma) @ c
    return found._replace(const=found.const + -math.sqrt(max(float(form.high), 0.0)) * eps**3 * (1 + 16 * U))


def bends(p: int, power: list[Near], low: Array, high: Array, up: Array) -> Array:
    """Return the least (up) or largest [t^p - tau^p - p tau^(p-1) (t - tau)] / (t - tau)^2 for t from low to high.

    It is sum_i (i + 1) tau^i t^(p-2-i), which rises with t for odd p, and for even p is convex and not below 0.
    """
    ends = []
    for t in (low, high):
        found = Near(np.ones(len(t)))
        for i in range(1, p - 1):
            found = found * t + power[i] * (i + 1)
        ends.append(found)
    least, most = np.minimum(ends[0].low, ends[1].low), np.maximum(ends[0].high, ends[1].high)
    turns = (low < 0) & (high > 0) & (p % 2 == 0) & (p > 2)
    return np.where(up, np.where(turns, 0.0, least), most)
