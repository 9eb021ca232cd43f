"""A threat read against rows: a ball of their numbers within a box, and swaps of groups of columns beside it.

What a machine is trained against are moves of one radius that stay in a box, which holds all that a threat allows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from buttress._checks import Array, check_box, check_columns, check_number, check_option, warn_user
from buttress._suggest import counted
from buttress._types import BoundsLike, MatrixLike, Rows
from buttress.threats.declared import NORMS, ColumnKey, ThreatModel, found_at, known_reach

Way = tuple[tuple[int, int], ...]  # (group, choice) of each swap


@dataclass(frozen=True)
class Group:
    """Columns that are swapped together: their places (g,), and what they may become (choices, g)."""

    places: Rows
    choices: Array


def count_ways(groups: Sequence[Group], most: int) -> int:
    """Return how many ways there are to swap one group or more, at most ``most``."""
    ways = [1] + [0] * most
    for group in groups:
        for swapped in range(most, 0, -1):
            ways[swapped] += len(group.choices) * ways[swapped - 1]
    return sum(ways[1:])


def all_ways(groups: Sequence[Group], most: int) -> Iterator[Way]:
    """Yield them, those of fewer swaps first."""
    for swapped in range(1, min(most, len(groups)) + 1):
        for some in combinations(range(len(groups)), swapped):
            for chosen in product(*(range(len(groups[group].choices)) for group in some)):
                yield tuple(zip(some, chosen, strict=True))


@dataclass(frozen=True)
class Moves:
    """A threat read against n rows of d numbers.

    Parameters
    ----------
    reach : array of shape (1, d)
        How far each column can move, 0 for one that stays or is swapped.
    norm : {"linf", "l2"}
    low, high : array of shape (n, d)
        The box of the numbers, beside the ball; for columns that stay, the rows themselves.
    step : array of shape (d,)
        What moves are multiples of, 0 for any.
    groups : tuple of Group
    most : int
        Most groups of a row that are swapped.
    most_moved : int
        Most numbers of a row that are moved.
    """

    reach: Array
    norm: str
    low: Array
    high: Array
    step: Array
    groups: tuple[Group, ...]
    most: int
    most_moved: int

    @property
    def moving(self) -> Rows:
        """The places of the numbers that can move."""
        return np.flatnonzero(self.reach[0] > 0)

    @property
    def limited(self) -> bool:
        """Whether not all numbers may be moved together."""
        return self.most_moved < len(self.moving)

    @property
    def free(self) -> bool:
        """Whether every point of the box may be moved to."""
        return not (self.limited or self.step.any() or (self.groups and self.most))

    def choices_of_numbers(self) -> int:
        """Return in how many ways the most numbers that may be moved can be chosen."""
        return comb(len(self.moving), min(self.most_moved, len(self.moving)))

    def of_numbers(self) -> Iterator["Moves"]:
        """Yield the same for each choice of the most numbers that may be moved; the others stay."""
        for places in combinations(self.moving.tolist(), min(self.most_moved, len(self.moving))):
            chosen = np.isin(np.arange(self.reach.shape[1]), places)
            yield replace(self, reach=np.where(chosen, self.reach, 0.0))

    def count(self) -> int:
        """Return how many ways there are, one that swaps nothing among them."""
        return 1 + count_ways(self.groups, self.most)

    def ways(self) -> Iterator[Way]:
        """Yield every way, the one that swaps nothing first."""
        yield ()
        yield from all_ways(self.groups, self.most)

    def swapped(self, X: Array, way: Way) -> Array:
        """Return rows swapped in one way."""
        X = X.copy()
        for group, choice in way:
            X[:, self.groups[group].places] = self.groups[group].choices[choice]
        return X

    def swaps(self, X: Array, start: Array) -> Array:
        """Return how many groups of versions X (n, d) of the rows ``start`` are swapped."""
        differ = start != X
        return sum((differ[:, group.places].any(axis=1) for group in self.groups), np.zeros(len(X), dtype=np.intp))

    def box(self, X: Array, rows: Rows) -> tuple[Array, Array]:
        """Return the box of versions X of some rows, in which only numbers move."""
        moving = self.reach[0] > 0
        return np.where(moving, self.low[rows], X), np.where(moving, self.high[rows], X)

    def stepped(self, X: Array, start: Array) -> Array:
        """Return moved versions X of rows, brought to whole steps from the rows ``start``, never further away."""
        size = np.where(self.step > 0, self.step, 1.0)
        steps = (X - start) / size
        nearest = np.rint(steps)
        off = np.abs(steps - nearest) > 1e-6
        return np.where(self.step > 0, start + np.where(off, np.trunc(steps), nearest) * size, X)

    def hull(self, X: Array) -> tuple[Array, Array]:
        """Return the box (n, d) of all swaps of any number of groups, and of the numbers where the norm is "linf"."""
        low, high = np.maximum(X - self.reach, self.low), np.minimum(X + self.reach, self.high)
        for group in self.groups if self.most else ():
            low[:, group.places] = np.minimum(X[:, group.places], group.choices.min(axis=0))
            high[:, group.places] = np.maximum(X[:, group.places], group.choices.max(axis=0))
        return low, high


def read_threat(threat: ThreatModel, X: Array, given: MatrixLike) -> Moves:
    """Read a threat against rows of numbers (n, d), whose columns have the names of a frame ``given``, or numbers.

    Raises ValueError for columns that are not there, budgets in standard deviations, levels that are not known or no
    numbers, and rows outside their bounds.
    """
    names = given.columns if hasattr(given, "columns") else range(X.shape[1])
    known = {name: place for place, name in enumerate(names)}
    reach, step = np.zeros((1, X.shape[1])), np.zeros(X.shape[1])
    low, high = X.copy(), X.copy()
    for name, budget in threat.budgets.items():
        place = found_at(name, known)
        reach[0, place], step[place] = known_reach(name, budget), budget.step
        low[:, place] = X[:, place] if budget.direction == "up" else budget.low
        high[:, place] = X[:, place] if budget.direction == "down" else budget.high
    check_box((low, high), X)
    for place in map(int, np.flatnonzero(step)):
        down, up = (_whole_steps(np.minimum(reach[0, place], way), step[place])
                    for way in (X[:, place] - low[:, place], high[:, place] - X[:, place]))
        in_steps = _whole_steps(reach[0, place], step[place])
        reach[0, place] = in_steps if threat.norm == "linf" or in_steps == 0 else reach[0, place]
        low[:, place], high[:, place] = X[:, place] - down, X[:, place] + up
    groups = tuple(Group(np.array([found_at(name, known) for name in names]), _choices(names, levels))
                   for names, levels in threat.together().items())
    return Moves(reach, threat.norm, low, high, step, groups, min(threat.most_swaps, len(groups)),
                 X.shape[1] if threat.most_moved is None else threat.most_moved)


def at_places(threat: ThreatModel, given: MatrixLike) -> ThreatModel:
    """Return a threat to the columns of a frame ``given`` as one to columns by their numbers."""
    if not hasattr(given, "columns"):
        return threat
    frame: Any = given
    place = {name: number for number, name in enumerate(frame.columns)}
    numbers = {found_at(name, place): budget for name, budget in threat.budgets.items()}
    categories: dict[ColumnKey, Sequence[Any]] = {
        tuple(found_at(each, place) for each in names): levels for names, levels in threat.together().items()}
    return replace(threat, numbers=numbers, categories=categories, one_hot=())


def _whole_steps(way: Array, step: float) -> Array:
    """Return the most whole steps in a way."""
    return np.asarray(np.floor(way / step * (1 + 4 * np.finfo(float).eps)) * step)


def _choices(names: tuple[ColumnKey, ...], levels: Sequence[Any]) -> Array:
    """Return what columns of numbers may become together, (choices, columns)."""
    if not len(levels):
        raise ValueError(f"The threat does not say what column {names[0]!r} may become. Use threat.on(X), X the "
                         "training rows.")
    try:
        return np.asarray(levels, dtype=np.float64).reshape(len(levels), len(names))
    except (TypeError, ValueError):
        raise ValueError(f"Column {names[0]!r} may become {levels[0]!r}, which is no number for each of "
                         f"{counted(len(names), 'column')}. Encode the column, or use attacks.swaps.") from None


@dataclass(frozen=True)
class BallInBox:
    """Moves of at most ``radius`` in a norm of rows (n, d) that stay in a box (two arrays (n, d), or None).

    ``eps`` is the radius where all columns have that one.
    """

    radius: float
    norm: str
    box: tuple[Array, Array] | None
    eps: float | None = None

    def ends(self, X: Array) -> tuple[Array, Array]:
        """Return the lower and upper ends (n, d) of what may become of each row."""
        low, high = X - self.radius, X + self.radius
        return (low, high) if self.box is None else (np.maximum(low, self.box[0]), np.minimum(high, self.box[1]))


def check_radii(eps: ArrayLike | None, width: int) -> Array | float:
    """Return a radius >= 0, or one for each of ``width`` columns, (1, width); ValueError for others."""
    given: Any = eps.item() if isinstance(eps, np.ndarray) and eps.ndim == 0 else eps
    if hasattr(given, "__len__") and not isinstance(given, str):
        return check_columns("eps", given, width)
    return check_number("eps", given, 0, closed="left", fix="It is a radius in the units of X; 0 moves nothing.")


def warn_of_rounding(X: Array, reach: Array | float) -> None:
    """Warn of a column of rows X (n, d) in which all moves by ``reach``, one or (1, d), are lost in rounding."""
    lost = np.flatnonzero(((X + reach == X) & (X - reach == X) & (np.asarray(reach) > 0)).all(axis=0))
    if len(lost):
        by = float(np.broadcast_to(reach, X.shape)[0, lost[0]])
        warn_user(f"Column {lost[0]} of X holds numbers as large as {np.abs(X[:, lost[0]]).max():.3g}, to which a move "
                  f"of {by:g} makes no difference in floating point. Subtract their means, or scale the columns.")


def region_of(
    eps: ArrayLike, norm: str, bounds: BoundsLike | None, threat: ThreatModel | None, X: Array, given: MatrixLike
) -> BallInBox:
    """Return the region of rows X (n, d) whose columns have the names of ``given``.

    Of one eps a column it is the widest radius, in the box of all. Of a threat, which takes the place of the others, it
    holds every swap and move together: a machine that stands it all stands the threat.
    """
    if not isinstance(threat, ThreatModel | None):
        raise TypeError(f"threat must be a ThreatModel or None. Got {threat!r}.")
    if threat is not None:
        moves = read_threat(threat, X, given)
        warn_of_rounding(X, moves.reach)
        low, high = moves.hull(X)
        return BallInBox(float(np.maximum(X - low, high - X).max(initial=0.0)), "linf", (low, high))
    check_option("norm", norm, NORMS)
    box = None
    if bounds is not None:
        low, high = (np.broadcast_to(side, X.shape) for side in check_box(bounds, X))
        box = low, high
    reach = check_radii(eps, X.shape[1])
    warn_of_rounding(X, reach)
    if isinstance(reach, float):
        return BallInBox(reach, norm, box, reach)
    ends = X - reach, X + reach
    return BallInBox(float(reach.max()), norm,
                     ends if box is None else (np.maximum(ends[0], box[0]), np.minimum(ends[1], box[1])))
