"""The ball that an attack stays in: one radius, or one a column."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from buttress._arrays import Place, namespace
from buttress._checks import Array, check_option
from buttress._types import Rng
from buttress.threats.moves import check_radii


@dataclass(frozen=True)
class Ball:
    """The moves d with |d / columns| <= radius in a norm; columns where ``columns`` is 0 stay.

    Parameters
    ----------
    radius : float
        That of the widest column.
    norm : {"linf", "l2"}
    columns : array of shape (1, d), or a number
        Radii as shares of the widest, in [0, 1], in the place of the problem; 1 where all columns have one radius.
    """

    radius: float
    norm: str
    columns: Array | float = 1.0

    def shrunk(self, share: float) -> "Ball":
        """Return the ball of a share of the radius."""
        return replace(self, radius=share * self.radius)

    @property
    def reach(self) -> Array | float:
        """How far each column can move, to be broadcast to rows."""
        return self.radius * self.columns

    def project(self, delta: Array) -> Array:
        """Bring each row of ``delta`` into the ball."""
        xp = namespace(delta)
        if self.norm == "linf":
            return xp.clip(delta, -self.reach, self.reach)
        delta = self.measured(delta)
        size = xp.linalg.norm(delta, axis=1, keepdims=True)
        return delta * xp.clip(self.radius / xp.clip(size, xp.finfo(delta.dtype).tiny, None), None, 1) * self.columns

    def measured(self, delta: Array) -> Array:
        """Return moves in units of their columns, 0 in columns that stay."""
        columns = self.columns
        return delta / (columns + (columns == 0)) * (columns > 0)

    def step(self, g: Array, length: float) -> Array:
        """Return the steps along which g rises most, of this length in the ball's norm; length is the widest column's.

        With d = columns u the slope in u is columns g.
        """
        step = direction(self.columns * g, self.norm)
        step *= length * self.columns
        return step

    def steepest(self, g: Array) -> Array:
        """Return how fast each g'd rises along its steepest direction in the ball, a unit of radius."""
        g = self.columns * g
        return abs(g).sum(axis=1) if self.norm == "linf" else namespace(g).linalg.norm(g, axis=1)

    def draw(self, rng: Rng, shape: tuple[int, ...], place: Place) -> Array:
        """Draw one move a row, uniformly in the ball."""
        if self.norm == "linf":
            return place(rng.uniform(-self.radius, self.radius, shape)) * self.columns
        way = rng.normal(size=shape)
        far = self.radius * rng.uniform(size=(shape[0], 1)) ** (1 / shape[1])
        return place(far * way / np.linalg.norm(way, axis=1, keepdims=True)) * self.columns


def ball_of(eps: ArrayLike | None, norm: str, width: int, place: Place) -> Ball:
    """Return the ball of what a user gave: a number, or one for each of ``width`` columns; ValueError for others."""
    norm = check_option("norm", norm, ("linf", "l2"))
    columns = check_radii(eps, width)
    if isinstance(columns, float):
        return Ball(columns, norm)
    widest = float(columns.max())
    return Ball(widest, norm, place(columns / (widest or 1.0)))


def direction(g: Array, norm: str) -> Array:
    """Return the steepest unit step of each row of g: its signs, or its direction."""
    xp = namespace(g)
    if norm == "linf":
        return xp.sign(g)
    return g / xp.clip(xp.linalg.norm(g, axis=1, keepdims=True), xp.finfo(g.dtype).tiny, None)
