"""Linear relaxation: each kernel value is replaced by a line below it, so that the least sum is known in closed form.

Let x' = a + d be an input of a region around a, and f(x') = sum_j c_j k(x', z_j) + b. Each kernel value is a convex
function of one number that is linear in d, or linear but for |d|^2, which all centres share:

- radial kernels F(s): s_j = |x' - z_j|^2 = |a - z_j|^2 + 2 (a - z_j)'d + |d|^2, and F is convex and falls. That holds
  for kernels that are positive definite in every dimension (Schoenberg), Laplacian and Cauchy among them;
- polynomial kernels (t + coef0)^p with t_j = gamma z_j'(a + d);
- one RBF kernel, more tightly than as a radial one: e^(gamma |d|^2) f(x') = sum_j w_j e^(u_j) + b e^(gamma |d|^2) with
  w_j = c_j k(a, z_j) and u_j = 2 gamma (z_j - a)'d, which has no |d|^2 under the sum. It has the sign of f(x').

On the interval [l, u] that the region allows the number t_j, a convex phi lies above each of its tangents and below its
chord from l to u. So c_j phi(t_j) >= c_j (tangent at any tau_j) where c_j > 0, and >= c_j (chord) where c_j < 0. The
cubic t^3 is convex above 0 only: a tangent at tau crosses it again at -2 tau, so it lies below t^3 on [l, u] if
tau >= max(0, -l/2); where u < max(0, -l/2) the chord does, since t^3 - chord = (t - l)(t - u)(t + l + u) >= 0 there.
For c_j < 0 the same is done with -t.

A linear part w'x' + b is its own line. Next to one RBF kernel e^(gamma |d|^2) (w'x' + b) is at least w'x' + b, plus
e^(gamma |d|^2) - 1 at its largest times the least w'x' + b where that is negative.

The sum of these is const + slope'd + bend |d|^2, whose least value over a box is a sum over columns, and over a ball
comes with a multiplier (:meth:`Region.least`). Every tau gives a bound; the next are taken where the last was least.

Rounding: kernel values are computed from squared distances with an error of at most ``slack``, some units in the last
place of |a|^2 + |z_j|^2 (and of what the scalers subtract). Each bound is lowered by what that can change in it and in
the scores that the model itself computes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.certificates.region import UNIT, Region, Rows
from buttress.kernels import (
    RBF,
    Cauchy,
    InverseMultiquadric,
    Kernel,
    Laplacian,
    Linear,
    Log,
    MultiscaleRBF,
    Polynomial,
    Radial,
    squared_distances,
)

CONVEX = (RBF, MultiscaleRBF, Laplacian, Cauchy, InverseMultiquadric, Log)  # F convex and falling in r^2
ROUNDS = 3  # choices of tangents


@dataclass
class Lead:
    """Leads of n rows, f_i(x) = sum_j weights_ij sum_p share_p k_p(x, z_j) + tilt_i'x + bias_i.

    Parameters
    ----------
    kernels : list of (Kernel, float)
        Kernels with their shares, positive.
    centers : array of shape (m, d)
    weights : array of shape (n, m)
    bias : array of shape (n,)
    square : array of shape (n,)
        For the bound of second order: the squared norm of f without its intercept (RBF), or of its cubic form.
    origin : float
        Largest length that the scalers subtract, for the rounding.
    tilt : array of shape (n, d) or None
        Of the linear part, where there is one.
    unit : float
        Of the floating point numbers in which the model computes.
    """

    kernels: list[tuple[Kernel, float]]
    centers: Array
    weights: Array
    bias: Array
    square: Array
    origin: float = 0.0
    tilt: Array | None = None
    unit: float = UNIT

    def __getitem__(self, rows: Rows) -> "Lead":
        tilt = None if self.tilt is None else self.tilt[rows]
        return Lead(self.kernels, self.centers, self.weights[rows], self.bias[rows], self.square[rows], self.origin,
                    tilt, self.unit)

    def __call__(self, X: Array) -> Array:
        """Return the lead of each row at its own x, shape (n,)."""
        values = sum(share * kernel(X, self.centers) for kernel, share in self.kernels)
        lead: Array = np.einsum("ij,ij->i", self.weights, values) + self.bias
        return lead if self.tilt is None else lead + np.einsum("ij,ij->i", self.tilt, X)

    def gradient(self, X: Array) -> Array:
        """Return the gradients of the leads, shape (n, d)."""
        parts = (share * kernel.gradient(X, self.centers, self.weights) for kernel, share in self.kernels)
        total: Array = sum(parts, np.zeros_like(X))
        return total if self.tilt is None else total + self.tilt

    def slack(self, anchor: Array) -> Array:
        """Return what rounding may change in a squared distance, shape (n, m)."""
        squares = (anchor**2).sum(axis=1)[:, None] + (self.centers**2).sum(axis=1)
        return 4 * self.unit * (anchor.shape[1] + 16) * (squares + self.origin**2)


@dataclass
class Below:
    """const + slope'd + bend |d|^2, of shapes (n,), (n, d) and (n,), below a lead; ``doubt`` (n,) is for rounding."""

    const: Array
    slope: Array
    bend: Array
    doubt: Array

    def __add__(self, other: "Below") -> "Below":
        return Below(self.const + other.const, self.slope + other.slope, self.bend + other.bend,
                     self.doubt + other.doubt)


def can_relax(kernel: Kernel) -> bool:
    """Say whether a kernel's values have lines below and above them here."""
    if type(kernel) is Log and kernel.degree > 2:
        return False
    if type(kernel) is Polynomial:
        return kernel.degree == 3 or (float(kernel.degree).is_integer() and kernel.degree % 2 == 0)
    return type(kernel) in (*CONVEX, Linear)


def relaxed(lead: Lead, region: Region) -> tuple[Array, Array]:
    """Return lower bounds (n,) of the leads over the region, and the moves (n, d) at which the bounds are least.

    A bound has the sign of what it bounds; for one RBF kernel it is in units of e^(gamma |d|^2). -inf is no bound.
    """
    factored = len(lead.kernels) == 1 and type(lead.kernels[0][0]) is RBF
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        bound, moves = _refined(_factored_below if factored else _all_below, lead, region)
        if factored and lead.tilt is not None:  # then neither is always the better
            other, its_moves = _refined(_all_below, lead, region)
            moves = np.where((other > bound)[:, None], its_moves, moves)
            bound = np.fmax(bound, other)
    return bound, moves


Spans = tuple[Array, Array, Array]
Lines = Callable[[Lead, Region, Spans, Array], Below]


def _refined(below: Lines, lead: Lead, region: Region) -> tuple[Array, Array]:
    """Choose tangents, find the least value, and choose the tangents again nearer to where it is."""
    guess, spans = np.zeros_like(region.anchor), region.spans(lead.centers)
    best, moves = np.full(len(guess), -np.inf), guess
    for _ in range(ROUNDS):
        line = below(lead, region, spans, guess)
        low, moves = region.least(line.slope, line.bend)
        low = line.const + low - line.doubt
        best = np.fmax(best, low)
        guess = (guess + np.nan_to_num(moves)) / 2
    return best, moves


def _all_below(lead: Lead, region: Region, spans: Spans, guess: Array) -> Below:
    """Add up the lines of every kernel."""
    n = len(guess)
    total = Below(lead.bias, np.zeros_like(guess), np.zeros(n), 8 * lead.unit * np.abs(lead.bias))
    for kernel, share in lead.kernels:
        one = Lead([(kernel, 1.0)], lead.centers, share * lead.weights, lead.bias, lead.square, lead.origin,
                   unit=lead.unit)
        total += _kernel_below(kernel, one, region, spans, guess)
    return total if lead.tilt is None else total + _linear_below(lead, region)


def _linear_below(lead: Lead, region: Region) -> Below:
    """The linear part itself."""
    assert lead.tilt is not None
    const = np.einsum("ij,ij->i", lead.tilt, region.anchor)
    far = np.abs(region.anchor) + region.half + lead.origin
    doubt = 4 * lead.unit * (far.shape[1] + 16) * np.einsum("ij,ij->i", np.abs(lead.tilt), far)
    return Below(const, lead.tilt, np.zeros(len(const)), doubt)


def _kernel_below(kernel: Kernel, lead: Lead, region: Region, spans: Spans, guess: Array) -> Below:
    if isinstance(kernel, Radial):
        return _radial_below(kernel, lead, region, spans, guess)
    if isinstance(kernel, Polynomial):
        return _polynomial_below(kernel, lead, region, guess)
    assert isinstance(kernel, Linear)
    products = region.anchor @ lead.centers.T
    const = np.einsum("ij,ij->i", lead.weights, products + kernel.coef0)
    size = np.abs(lead.weights) * (np.abs(products) + lead.slack(region.anchor) / lead.unit + abs(kernel.coef0))
    return Below(const, lead.weights @ lead.centers, np.zeros(len(guess)), 4 * lead.unit * size.sum(axis=1))


@dataclass
class RadialLines:
    """Lines below and above F(|a + d - z_j|^2) over a region: value + slope (2 (a - z_j)'d + |d|^2), all (n, m).

    ``extent`` is the largest |F| there.
    """

    below_value: Array
    below_slope: Array
    above_value: Array
    above_slope: Array
    extent: Array


def radial_lines(
    kernel: Radial, centers: Array, region: Region, spans: Spans, guess: Array, slack: Array
) -> RadialLines:
    """Return the tangents of F at the moves ``guess`` (n, d), and its chords over the squared distances of the region.

    ``slack`` (n, m) is what rounding may change in these.
    """
    square = squared_distances(region.anchor, centers)
    low = np.maximum(np.maximum(spans[2], square - 2 * spans[1]) - slack, 0)
    high = square - 2 * spans[0] + region.longest()[:, None] ** 2 + slack
    at = np.clip(squared_distances(region.anchor + guess, centers), low, high)
    at = np.maximum(at, 1e-6 * high)  # a cusp at 0 has no tangent
    F_low, F_high, tangent = kernel.profile(low), kernel.profile(high), kernel.slope(at)
    chord = np.divide(F_high - F_low, high - low, out=tangent.copy(), where=high > low)
    return RadialLines(kernel.profile(at) + tangent * (square - at), tangent, F_low + chord * (square - low), chord,
                       np.maximum(np.abs(F_low), np.abs(F_high)))


def _radial_below(kernel: Radial, lead: Lead, region: Region, spans: Spans, guess: Array) -> Below:
    """Lines below F where the weight is positive, above it where not."""
    Z, W, anchor = lead.centers, lead.weights, region.anchor
    slack = lead.slack(anchor)
    lines = radial_lines(kernel, Z, region, spans, guess, slack)
    C = W * np.where(W > 0, lines.below_slope, lines.above_slope)
    const = (W * np.where(W > 0, lines.below_value, lines.above_value)).sum(axis=1)
    slope = 2 * (C.sum(axis=1)[:, None] * anchor - C @ Z)
    doubt = (np.abs(C) * slack + lead.unit * (len(Z) + 16) * np.abs(W) * lines.extent).sum(axis=1)
    return Below(const, slope, C.sum(axis=1), 2 * doubt)


def _factored_below(lead: Lead, region: Region, spans: Spans, guess: Array) -> Below:
    """Tangents and chords of e^u for one RBF kernel, e^(gamma |d|^2) taken out of the sum."""
    (kernel, share), anchor, Z = lead.kernels[0], region.anchor, lead.centers
    assert isinstance(kernel, RBF)
    rate = 2 * kernel.gamma
    W = share * lead.weights * kernel(anchor, Z)
    low, high = rate * spans[0], rate * spans[1]
    at = np.clip(rate * (guess @ Z.T - np.einsum("ij,ij->i", guess, anchor)[:, None]), low, high)
    E_low, E_high, E_at = np.exp(low), np.exp(high), np.exp(at)
    chord = np.where(high - low > 1e-6, (E_high - E_low) / np.maximum(high - low, 1e-6), E_high)
    tangent = W > 0
    steep, touch = np.where(tangent, E_at, chord), np.where(tangent, at, low)
    C = W * steep
    const = (W * np.where(tangent, E_at, E_low) - C * touch).sum(axis=1)
    slope = rate * (C @ Z - C.sum(axis=1)[:, None] * anchor)
    share_lost = lead.unit * (len(Z) + 16) + kernel.gamma * lead.slack(anchor)
    doubt = (np.abs(W) * E_high * share_lost).sum(axis=1)
    largest = region.longest() ** 2
    if lead.tilt is not None:
        rest = _grown_linear(lead, region, kernel.gamma * largest)
        return Below(const, slope, np.zeros(len(const)), 2 * doubt) + rest
    more, bend = _grown_bias(lead.bias, kernel.gamma, largest, (guess**2).sum(axis=1))
    return Below(const + more, slope, bend, 2 * doubt + 8 * lead.unit * np.abs(more))


def _grown_linear(lead: Lead, region: Region, largest: Array) -> Below:
    """Return lines below e^(gamma |d|^2) (w'(a + d) + b), with ``largest`` the largest gamma |d|^2."""
    line = _linear_below(lead, region)
    assert lead.tilt is not None
    least = line.const + lead.bias + region.least(lead.tilt, np.zeros(len(largest)))[0]
    grown = np.exp(largest)
    doubt = grown * (line.doubt + 8 * lead.unit * (np.abs(lead.bias) + np.abs(least)))
    return Below(line.const + lead.bias + np.minimum(least, 0) * np.expm1(largest), lead.tilt, line.bend, doubt)


def _grown_bias(bias: Array, gamma: float, largest: Array, at: Array) -> tuple[Array, Array]:
    """Return a line below bias e^(gamma s) for 0 <= s <= largest: its value at 0 and its slope in s."""
    touch = np.exp(gamma * at)
    chord = np.expm1(gamma * largest) / np.maximum(largest, np.finfo(float).tiny)
    const = np.where(bias > 0, bias * touch * (1 - gamma * at), bias)
    return const, bias * np.where(bias > 0, gamma * touch, chord)


def _polynomial_below(kernel: Polynomial, lead: Lead, region: Region, guess: Array) -> Below:
    """Lines below c t^p over the t = gamma z'x + coef0 that the region allows."""
    Z, W, anchor = lead.centers, lead.weights, region.anchor
    degree, gamma = int(kernel.degree), kernel.gamma
    middle = gamma * (anchor @ Z.T) + kernel.coef0
    slack = gamma * lead.slack(anchor) + 8 * lead.unit * abs(kernel.coef0)
    low, high = _product_span(Z, region)
    low, high = middle + gamma * low - slack, middle + gamma * high + slack
    at = np.clip(middle + gamma * (guess @ Z.T), low, high)
    lines = _convex_lines if degree % 2 == 0 else _cubic_lines
    steep, touch = lines(degree, W > 0, low, high, at)
    C = W * steep
    const = (W * touch**degree + C * (middle - touch)).sum(axis=1)
    extent = np.maximum(np.abs(low), np.abs(high))
    lost = np.abs(C) * slack + np.abs(W) * (degree * extent ** (degree - 1) * slack
                                            + lead.unit * (len(Z) + 16) * extent**degree)
    return Below(const, gamma * (C @ Z), np.zeros(len(guess)), 2 * lost.sum(axis=1))


def _product_span(centers: Array, region: Region) -> tuple[Array, Array]:
    """Return the least and largest z_j'd over the region, both (n, m)."""
    reach = region.half @ np.abs(centers).T
    if region.offset is None:
        return -reach, reach
    middle = region.offset @ centers.T
    wide = region.radius[:, None] * np.linalg.norm(centers * region.scale, axis=1)
    return np.maximum(-reach, middle - wide), np.minimum(reach, middle + wide)


def _convex_lines(degree: int, tangent: NDArray[np.bool_], low: Array, high: Array, at: Array) -> tuple[Array, Array]:
    """Return slopes, and points at which the line meets t^degree, an even power: tangents, else chords."""
    chord = sum(low**power * high ** (degree - 1 - power) for power in range(degree))
    return np.where(tangent, degree * at ** (degree - 1), chord), np.where(tangent, at, low)


def _cubic_lines(degree: int, tangent: NDArray[np.bool_], low: Array, high: Array, at: Array) -> tuple[Array, Array]:
    """The same of t^3: lines below it where ``tangent``, above it elsewhere, which are lines below (-t)^3."""
    low, high, at = (np.where(tangent, one, -other) for one, other in ((low, high), (high, low), (at, at)))
    first = np.maximum(-low / 2, 0)
    convex = high >= first
    touch = np.where(convex, np.maximum(at, first), low)
    steep = np.where(convex, 3 * touch**2, low**2 + low * high + high**2)
    return steep, np.where(tangent, touch, -touch)
