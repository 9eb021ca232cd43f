"""What a function of moved rows can become: sums of the moves, with bounds of all that is lost.

An :class:`Enclosure` holds, for each row, values c + sum_k u_k g_k + r with |r| <= slack. The first ``own`` of the u
lie in the ball of the moves, each of the others in [-1, 1]. What a model computes in floating point lies in it too:
every step adds what rounding may change, in the model and here, to the slack.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from buttress._checks import Array
from buttress._proof import UNIT, sum_error
from buttress._types import Rows

UNDERFLOW = float(np.finfo(float).tiny) / UNIT  # more than what is lost of numbers below the range


@dataclass(frozen=True)
class Enclosure:
    """Values of n rows, (n, w): ``centre`` and ``slack`` (n, w), ``moves`` (n, s, w), ``own`` moves in a ``norm``.

    ``unit`` is the unit of rounding of the model.
    """

    centre: Array
    moves: Array
    slack: Array
    own: int
    norm: str
    unit: float

    @property
    def radius(self) -> Array:
        """How far the values can be from the centre, (n, w)."""
        own, others = self.moves[:, : self.own], self.moves[:, self.own :]
        reach = np.linalg.norm(own, axis=1) if self.norm == "l2" else np.abs(own).sum(axis=1)
        far: Array = (reach + np.abs(others).sum(axis=1) + self.slack) * (1 + sum_error(self.moves.shape[1], self.unit))
        return far + UNDERFLOW

    @property
    def size(self) -> Array:
        """The largest that the values can be, (n, w)."""
        return np.abs(self.centre) + self.radius

    @property
    def still(self) -> bool:
        """Whether nothing moves."""
        return not (self.moves.any() or self.slack.any())

    def ends(self) -> tuple[Array, Array]:
        """Return lower and upper bounds (n, w) of the values."""
        far = self.radius + self.unit * self.size
        return self.centre - far, self.centre + far

    def with_parts(self, centre: Array, moves: Array, slack: Array) -> "Enclosure":
        return Enclosure(centre, moves, slack, self.own, self.norm, self.unit)

    def of_columns(self, columns: Rows) -> "Enclosure":
        """Return some of the values."""
        return self.with_parts(self.centre[:, columns], self.moves[:, :, columns], self.slack[:, columns])


def around(X: Array, low: Array, high: Array, reach: Array, norm: str, unit: float) -> Enclosure:
    """Return rows (n, d) moved in a ball of radii (n or 1, d) and a box, which in "l2" only holds columns in place."""
    reach = np.broadcast_to(reach, X.shape)
    if norm == "linf":
        low, high = np.maximum(X - reach, low), np.minimum(X + reach, high)
        centre, half = low + (high - low) / 2, (high - low) / 2
    else:
        centre, half = X, np.where(low == high, 0.0, reach)
    d = X.shape[1]
    moves = np.zeros((len(X), d, d))
    moves[:, np.arange(d), np.arange(d)] = half
    slack = np.where(half > 0, sum_error(0) * (np.abs(centre) + half), 0.0)
    return Enclosure(centre, moves, slack, d, norm, unit)


def affine(z: Enclosure, A: Array, b: Array | float = 0.0, shift: Array | float = 0.0) -> Enclosure:
    """Return (z - shift) A + b, A (w, v) given exactly, in whatever order the model sums it."""
    size = np.abs(A)
    lost = 2 * sum_error(len(A), z.unit) * ((z.size + np.abs(shift)) @ size + np.abs(b))
    return z.with_parts((z.centre - shift) @ A + b, z.moves @ A, z.slack @ size + lost + UNDERFLOW)


def scaled(z: Enclosure, a: Array | float, b: Array | float = 0.0, shift: Array | float = 0.0) -> Enclosure:
    """Return (z - shift) a + b column by column, a known up to a rounding."""
    lost = sum_error(0, z.unit) * ((z.size + np.abs(shift)) * np.abs(a) + np.abs(b))
    slack = z.slack * np.abs(a) * (1 + sum_error(0, z.unit)) + lost + UNDERFLOW
    return z.with_parts((z.centre - shift) * a + b, z.moves * a, slack)


def product(one: Enclosure, other: Enclosure) -> Enclosure:
    """Return the product of values, each linear in the moves up to what is quadratic in them."""
    moves = one.centre[:, None] * other.moves + other.centre[:, None] * one.moves
    linear = np.abs(one.centre) * other.slack + np.abs(other.centre) * one.slack
    lost = sum_error(0, one.unit) * one.size * other.size
    slack = (linear + one.radius * other.radius) * (1 + sum_error(0, one.unit)) + lost + UNDERFLOW
    return one.with_parts(one.centre * other.centre, moves, slack)


def _relu(low: Array, high: Array) -> tuple[Array, Array, Array]:
    slope = np.clip(high / (high - low), 0.0, 1.0)
    return slope, np.zeros_like(low), np.maximum(-slope * low, 0.0)  # the same at both ends


def _rising(value: Callable[[Array], Array], slope_of: Callable[[Array], Array]) -> Callable[..., tuple[Array, ...]]:
    """Return the lines of an S-shaped function: less the smaller of its slopes at the ends it rises between them."""

    def lines(low: Array, high: Array) -> tuple[Array, Array, Array]:
        slope = np.maximum(np.minimum(slope_of(value(low)), slope_of(value(high))) - sum_error(0), 0.0)
        return slope, value(low) - slope * low, value(high) - slope * high

    return lines


# slope, least and largest value of f(z) - slope z between two ends
LINES = {
    "relu": _relu,
    "tanh": _rising(np.tanh, lambda t: 1 - t**2),
    "logistic": _rising(expit, lambda t: t * (1 - t)),
}


def activated(z: Enclosure, name: str) -> Enclosure:
    """Return an activation of the values: a slope times them, and a move of its own for what is left."""
    if name == "identity":
        return z
    low, high = z.ends()
    slope, least, most = LINES[name](low, high)
    lost = sum_error(0, z.unit) * (1 + slope * z.size + np.abs(least) + np.abs(most))
    lost = np.where((name == "relu") & (high <= 0), 0.0, lost)
    width = z.centre.shape[1]
    own = np.zeros((len(low), width, width))
    own[:, np.arange(width), np.arange(width)] = (most - least) / 2
    moves = np.concatenate([z.moves * slope[:, None], own], axis=1)
    return z.with_parts(slope * z.centre + (least + most) / 2, moves, slope * z.slack + lost)
