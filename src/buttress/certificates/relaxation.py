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

A linear part w'x' + b is its own line; beside one an RBF kernel counts as a radial one.

The sum of these is const + slope'd + bend |d|^2, whose least value over a box is a sum over columns, and over a ball
comes with a multiplier (:meth:`Region.least`). Every tau gives a bound; the next are taken where the last was least.

Rounding: all allowances are shares of the sizes of what is summed, by the law of :func:`sum_error`, whose 16 units hold
what a product, a root or a kernel value is off. ``slack`` bounds what a squared distance is off, in the model and here.
Each bound is lowered by what all of that can change in it and in the model's own scores: one above 0 is a proof.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress._proof import UNIT, sum_error
from buttress.certificates.region import TINY, Region, SomeRows
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
from buttress.kernels.kernel import middle

CONVEX = (RBF, MultiscaleRBF, Laplacian, Cauchy, InverseMultiquadric, Log)  # F convex and falling in r^2


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
        Lowered by what rounding may change in it, in the model too.
    square : array of shape (n,)
        For the bound of second order: the squared norm of f without its intercept (RBF), or of its cubic form.
    origin : float
        Largest length that the scalers subtract, for the rounding.
    tilt : array of shape (n, d) or None
        Of the linear part, where there is one.
    unit : float
        Of the floating point numbers in which the model computes; at least that of the numbers here.
    sizes : array of shape (n, m) or None
        Sizes of the numbers that the model sums where they are larger than the weights: those of every class.
    """

    kernels: list[tuple[Kernel, float]]
    centers: Array
    weights: Array
    bias: Array
    square: Array
    origin: float = 0.0
    tilt: Array | None = None
    unit: float = UNIT
    sizes: Array | None = None

    def __getitem__(self, rows: SomeRows) -> "Lead":
        tilt, sizes = (None if part is None else part[rows] for part in (self.tilt, self.sizes))
        return Lead(self.kernels, self.centers, self.weights[rows], self.bias[rows], self.square[rows], self.origin,
                    tilt, self.unit, sizes)

    def __call__(self, X: Array) -> Array:
        """Return the lead of each row at its own x, shape (n,)."""
        values = sum(share * kernel(X, self.centers) for kernel, share in self.kernels)
        lead: Array = np.einsum("ij,ij->i", self.weights, values) + self.bias
        return lead if self.tilt is None else lead + np.einsum("ij,ij->i", self.tilt, X)

    def is_factored(self) -> bool:
        """Say whether it is of one kernel alone, of which e^(gamma |d|^2) can be taken out."""
        return [type(kernel) for kernel, _ in self.kernels] == [RBF] and self.tilt is None

    def of_size(self) -> Array:
        """Return the sizes of the numbers summed, shape (n, m)."""
        return np.abs(self.weights) if self.sizes is None else self.sizes

    def share(self) -> float:
        """Return by which share of its terms' sizes a sum over the centres may be off, in the model and here."""
        values = sum(len(kernel.gammas) if isinstance(kernel, MultiscaleRBF) else 1 for kernel, _ in self.kernels)
        return sum_error(len(self.centers) + values, self.unit)

    def slack(self, region: Region) -> Array:
        """Return what rounding may change in squared distances or products of inputs of the region, shape (n, m)."""
        lengths = self.lengths(region.anchor, region.longest())
        return 4 * sum_error(region.anchor.shape[1], self.unit) * lengths

    def lengths(self, X: Array, longest: Array) -> Array:
        """Return squared lengths (n, m) of rows X moved by ``longest`` (n,), and of centres: distances come from these.

        They are measured from 0, as scikit-learn does, or from the centres' median, as this package does.
        """
        found = np.zeros((len(X), len(self.centers)))
        for start in (np.zeros(X.shape[1]), middle(self.centers)):
            own = 2 * (((X - start) ** 2).sum(axis=1) + longest**2)
            found = np.maximum(found, own[:, None] + ((self.centers - start) ** 2).sum(axis=1))
        return found + self.origin**2


@dataclass
class Below:
    """const + slope'd + bend |d|^2, of shapes (n,), (n, d) and (n,), below a lead; ``doubt`` (n,) is for rounding."""

    const: Array
    slope: Array
    bend: Array
    doubt: Array


def can_relax(kernel: Kernel) -> bool:
    """Say whether a kernel's values have lines below and above them here."""
    if type(kernel) is Polynomial:
        return kernel.degree == 3 or (float(kernel.degree).is_integer() and kernel.degree % 2 == 0)
    return type(kernel) in (*CONVEX, Linear) and not (type(kernel) is Log and kernel.degree > 2)


def relaxed(lead: Lead, region: Region) -> tuple[Array, Array]:
    """Return lower bounds (n,) of the leads over the region, and the moves (n, d) at which the bounds are least.

    A bound has the sign of what it bounds; for one RBF kernel it is in units of e^(gamma |d|^2). -inf is no bound.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return _refined(_factored(lead, region) if lead.is_factored() else _summed(lead, region), region)


Lines = Callable[[Array], Below]  # moves (n, d) near which a line below the lead is to touch it


def _refined(lines: Lines, region: Region) -> tuple[Array, Array]:
    """Choose tangents, find the least value, and choose the tangents again nearer to where it is."""
    guess = np.zeros_like(region.anchor)
    best, moves = np.full(len(guess), -np.inf), guess
    for _ in range(3):  # choices of tangents
        line = lines(guess)
        fall, moves = region.least(line.slope, line.bend)
        doubt = line.doubt + sum_error(0) * (np.abs(line.const) + line.doubt)
        best = np.fmax(best, line.const + fall - doubt)  # ``fall`` is low by more units of it than rounding takes here
        guess = (guess + np.nan_to_num(moves)) / 2
    return best, moves


def _summed(lead: Lead, region: Region) -> Lines:
    """Return what adds up the lines of every kernel."""
    parts = [_radial(kernel, share, lead, region) if isinstance(kernel, Radial) else
             _product(kernel, share, lead, region) for kernel, share in lead.kernels]
    still = np.zeros_like(lead.bias)
    others = [Below(lead.bias, np.zeros_like(region.anchor), still, still)]
    if lead.tilt is not None:
        others.append(_linear(lead, region))
    return lambda guess: _added(others + [part(guess) for part in parts], region)


def _added(parts: list[Below], region: Region) -> Below:
    """Return the sum of functions below, and what rounding may change in it."""
    const, slope, bend, doubt = (np.sum([getattr(part, name) for part in parts], axis=0) for name in
                                 ("const", "slope", "bend", "doubt"))
    longest = region.longest()
    sizes = sum(np.abs(part.const) + (np.linalg.norm(part.slope, axis=1) + np.abs(part.bend) * longest) * longest
                for part in parts)
    return Below(const, slope, bend, doubt + sum_error(len(parts)) * (doubt + sizes))


def _linear(lead: Lead, region: Region) -> Below:
    """Return the linear part itself."""
    assert lead.tilt is not None
    const = np.einsum("ij,ij->i", lead.tilt, region.anchor)
    far = np.abs(region.anchor) + region.half + lead.origin
    doubt = sum_error(far.shape[1], lead.unit) * np.einsum("ij,ij->i", np.abs(lead.tilt), far)
    return Below(const, lead.tilt, np.zeros(len(const)), doubt)


def _line(region: Region, centers: Array, value: Array, steep: Array, lost: Array, rate: float, about: int) -> Below:
    """Return sum_j value_j + steep_j rate (z_j - about a)'d, all (n, m), with ``lost`` (n, m) and its own rounding.

    ``about`` is 1 where products are those of moves from the anchors, else 0.
    """
    share, total = sum_error(len(centers)), steep.sum(axis=1)
    slope = rate * (steep @ centers - about * total[:, None] * region.anchor)
    sizes = np.abs(steep)
    far = sizes @ np.linalg.norm(centers, axis=1)
    far += about * sizes.sum(axis=1) * np.linalg.norm(region.anchor, axis=1)
    doubt = lost.sum(axis=1) + share * (np.abs(value).sum(axis=1) + abs(rate) * far * region.longest())
    return Below(value.sum(axis=1), slope, np.zeros(len(value)), doubt * (1 + share))


@dataclass
class RadialLines:
    """Lines below and above F(|a + d - z_j|^2) over a region: value + slope (2 (a - z_j)'d + |d|^2), all (n, m).

    The squared distances are ``square`` at the anchors and from ``low`` to ``high`` over the region.
    """

    kernel: Radial
    square: Array
    low: Array
    high: Array
    F_low: Array
    F_high: Array

    @classmethod
    def over(cls, kernel: Radial, centers: Array, region: Region, slack: Array | float = 0.0) -> "RadialLines":
        """Return those over a region; ``slack`` (n, m) is what rounding may change in squared distances."""
        least, most, nearest = region.spans(centers)
        square = squared_distances(region.anchor, centers)
        low = np.maximum(np.maximum(nearest, square - 2 * most) - slack, 0)
        high = square - 2 * least + region.longest()[:, None] ** 2
        return cls(kernel, square, low, high, kernel.profile(low), kernel.profile(high))

    def tangents(self, square: Array) -> tuple[Array, Array]:
        """Return values and slopes of the lines below, which touch F at these squared distances (n, m)."""
        at = np.maximum(np.clip(square, self.low, self.high), 1e-6 * self.high)  # a cusp at 0 has no tangent
        slope = self.kernel.slope(at)
        return self.kernel.profile(at) + slope * (self.square - at), slope

    def chords(self) -> tuple[Array, Array]:
        """Return values and slopes of the lines above."""
        wide = self.high > self.low
        slope = np.divide(self.F_high - self.F_low, self.high - self.low, out=self.kernel.slope(self.high), where=wide)
        return self.F_low + slope * (self.square - self.low), slope


def _radial(kernel: Radial, share: float, lead: Lead, region: Region) -> Lines:
    """Lines below F where the weight is positive, above it where not."""
    W, size, Z = share * lead.weights, share * lead.of_size(), lead.centers
    slack = lead.slack(region)
    over = RadialLines.over(kernel, Z, region, slack)
    above, fall = over.chords()
    # F changes most, for a squared distance that is off, where it is steepest: at the least one. That of the model is
    # off, and the one here at which a chord is taken; of tangents, which also hold below 0, the slope says by how much
    nearest = np.maximum(over.low - slack, 0)
    shaken = kernel.profile(nearest) - kernel.profile(nearest + slack)
    extent = np.maximum(np.abs(over.F_low), np.abs(over.F_high))
    kept = size * (2 * shaken + lead.share() * extent + 8 * TINY)

    def lines(guess: Array) -> Below:
        below, steep = over.tangents(squared_distances(region.anchor + guess, Z))
        C = W * np.where(W > 0, steep, fall)
        line = _line(region, Z, W * np.where(W > 0, below, above), C, kept + np.abs(C) * slack, -2.0, 1)
        line.bend = C.sum(axis=1)
        line.doubt = line.doubt + lead.share() * np.abs(C).sum(axis=1) * region.longest() ** 2
        return line

    return lines


@dataclass
class Exponentials:
    """One RBF kernel over a region: e^(gamma |d|^2) f(a + d) = sum_j weights_j e^(u_j), and the bias and linear part.

    u_j (n, m) from ``low`` to ``high``, with what rounding may change in each term, in the model too, ``lost``, and
    besides ``hidden`` (n,); ``grown`` (n,) is the largest gamma |d|^2.
    """

    kernel: RBF
    weights: Array
    low: Array
    high: Array
    lost: Array
    hidden: Array
    grown: Array

    @classmethod
    def over(cls, lead: Lead, region: Region) -> "Exponentials":
        """Return those of a lead of one RBF kernel."""
        ((kernel, share),), anchor, Z = lead.kernels, region.anchor, lead.centers
        assert isinstance(kernel, RBF)
        values, size = kernel(anchor, Z), share * lead.of_size()
        low, high = (2 * kernel.gamma * end for end in region.spans(Z)[:2])
        shaken = lead.share() + 4 * np.expm1(kernel.gamma * lead.slack(region))
        lost = (size * values * shaken + 8 * TINY * size) * np.exp(high)
        grown = kernel.gamma * region.longest() ** 2
        hidden = 8 * TINY * size.sum(axis=1) * np.exp(grown)
        return cls(kernel, share * lead.weights * values, low, high, lost, hidden, grown)


def _factored(lead: Lead, region: Region) -> Lines:
    """Tangents and chords of e^u for one RBF kernel, e^(gamma |d|^2) taken out of the sum."""
    terms, anchor, Z = Exponentials.over(lead, region), region.anchor, lead.centers
    rate, W, low = 2 * terms.kernel.gamma, terms.weights, terms.low
    high, tangent = terms.high, W > 0
    E_low, wide = np.exp(low), high - low
    fall = np.exp(high) * np.divide(-np.expm1(-wide), wide, out=np.ones_like(wide), where=wide > 0)

    def lines(guess: Array) -> Below:
        at = np.clip(rate * (guess @ Z.T - np.einsum("ij,ij->i", guess, anchor)[:, None]), low, high)
        touch, height = np.where(tangent, at, low), np.where(tangent, np.exp(at), E_low)
        C = W * np.where(tangent, height, fall)
        line = _line(region, Z, W * height - C * touch, C, terms.lost, rate, 1)
        line.doubt = line.doubt + terms.hidden
        return _added([line, grown_bias(lead, terms.kernel.gamma, terms.grown, guess)], region)

    return lines


def grown_bias(lead: Lead, gamma: float, grown: Array, guess: Array) -> Below:
    """Return b + c |d|^2 below the bias times e^(gamma |d|^2): a tangent, for a negative bias the chord."""
    at, positive = gamma * (guess**2).sum(axis=1), lead.bias > 0
    touch = np.exp(at)
    chord = gamma * np.expm1(grown) / np.maximum(grown, TINY)
    const = np.where(positive, lead.bias * touch * (1 - at), lead.bias)
    most = np.maximum(grown, at)
    doubt = sum_error(0) * np.abs(lead.bias) * np.exp(most) * (1 + most)
    return Below(const, np.zeros_like(guess), lead.bias * np.where(positive, gamma * touch, chord), doubt)


def _product(kernel: Kernel, share: float, lead: Lead, region: Region) -> Lines:
    """Lines below c t^p over the t = gamma z'x + coef0 that the region allows; a linear kernel is its own line."""
    assert isinstance(kernel, Polynomial | Linear)
    Z, W, size = lead.centers, share * lead.weights, share * lead.of_size()
    degree, gamma = (1, 1.0) if isinstance(kernel, Linear) else (int(kernel.degree), kernel.gamma)
    middle = gamma * (region.anchor @ Z.T) + kernel.coef0
    slack = gamma * lead.slack(region)
    least, most, _ = replace(region, anchor=np.zeros_like(region.anchor)).spans(Z)
    low, high = middle + gamma * least, middle + gamma * most
    extent = np.maximum(np.abs(low), np.abs(high)) + 2 * slack  # of t in the model, which is off as the one here is
    lost = 2 * size * degree * extent ** (degree - 1) * (slack + lead.share() * extent)
    touching = _cubic_lines if degree == 3 else _convex_lines

    def lines(guess: Array) -> Below:
        at = np.clip(middle + gamma * (guess @ Z.T), low, high)
        steep, touch = touching(degree, W > 0, low, high, at)
        C = W * steep
        return _line(region, Z, W * touch**degree + C * (middle - touch), C, lost, gamma, 0)

    return lines


def _convex_lines(degree: int, tangent: NDArray[np.bool_], low: Array, high: Array, at: Array) -> tuple[Array, Array]:
    """Return slopes, and points at which the line meets t^degree, an even power or t: tangents, else chords."""
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
