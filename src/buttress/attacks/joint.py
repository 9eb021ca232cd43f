"""The driver of attacks within a ball, or of a threat: numbers moved beside swaps of categories.

Where only some numbers may be moved, those are chosen one after the other, each the one whose move to an end is worst
beside those before; around a row as it came, and its worst version, every choice is tried where there are few.

All ways to swap are scored first, where there are at most ``TRIED``; of more, those of fewest swaps, and then one swap
after the other, each the worst beside those before. The attack then moves the numbers around the row as it came, and
around its versions of least margin.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from buttress._arrays import to_numpy
from buttress._checks import Array
from buttress._types import BoundsLike, Mask, MatrixLike, Rows, VectorLike
from buttress.attacks.ball import Ball, ball_of
from buttress.attacks.problem import Worst, pose, warn_of_units
from buttress.scores import Scorable
from buttress.threats import Moves, ThreatModel, Way, check_threat, read_threat

TRIED = 1000  # ways to swap a row that are scored

BallSearch = Callable[[Worst, Ball], None]  # of the ball around the rows of a problem, in its box


def attacked(
    search: BallSearch, model: Scorable, X: MatrixLike, y: VectorLike, *, eps: ArrayLike | None, norm: str,
    bounds: BoundsLike | None, threat: ThreatModel | None, device: str | None, return_info: bool,
) -> Any:
    """Return the worst rows that a search meets in what eps, norm and bounds, or a threat, allow, and its info."""
    worst, ball, moves = posed(model, X, y, eps, norm, bounds, threat, device)
    if threat is None:
        search(worst, ball)
    else:
        _Versions(worst, moves, search, ball).search_all()
    return worst.report(ball, return_info)


def posed(
    model: Scorable, X: MatrixLike, y: VectorLike, eps: ArrayLike | None, norm: str, bounds: BoundsLike | None,
    threat: ThreatModel | None, device: str | None = None,
) -> tuple[Worst, Ball, Moves]:
    """Return a record of what is met, the ball of the numbers, and all moves, of a threat or of its short form."""
    check_threat(eps, norm, bounds, threat)
    problem = pose(model, X, y, bounds, device)
    start, width = to_numpy(problem.X), problem.X.shape[1]
    if threat is not None:
        moves = read_threat(threat, start, X)
        ball = ball_of(moves.reach, moves.norm, width, problem.place)
    else:
        ball = ball_of(eps, norm, width, problem.place)
        reach = np.broadcast_to(to_numpy(cast(Array, ball.reach)), (1, width))
        low, high = map(to_numpy, (problem.low, problem.high))
        moves = Moves(reach, norm, low, high, np.zeros(width), (), 0, width)
    warn_of_units(problem, ball)
    return Worst(problem), ball, moves


class _Versions:
    """The search of all that a threat allows."""

    def __init__(self, worst: Worst, moves: Moves, search: BallSearch, ball: Ball):
        self.worst = worst
        self.moves = moves
        self.search = search
        self.ball = ball
        self.start = to_numpy(worst.problem.X)

    def search_all(self) -> None:
        """Swap, then move numbers."""
        ways = list(islice(self.moves.ways(), TRIED))
        margins = self.swap(ways, self.start)
        for _ in range(self.moves.most if self.moves.count() > len(ways) else 0):
            self.swap([((group, choice),) for group, each in enumerate(self.moves.groups)
                       for choice in range(len(each.choices))], to_numpy(self.worst.X).copy())
        if self.ball.radius > 0:
            self.move(ways, margins)
        else:
            self.worst.sloped[:] = True  # it follows no slopes

    @property
    def standing(self) -> Rows:
        """The rows that are not known to fall."""
        return np.flatnonzero(~to_numpy(self.worst.wrong))

    def see(self, rows: Rows, X: Array) -> Array:
        """Show versions of some rows, each row once, as the model itself decides; return their margins."""
        problem = self.worst.problem
        margin, wrong = problem.judged(rows, X)
        self.worst.keep(*map(problem.place, (rows, X, wrong, margin)))
        return margin

    def swap(self, ways: Sequence[Way], base: Array) -> Array:
        """See versions of the rows swapped in each way; return their margins (n, ways), inf where none was seen."""
        margins = np.full((len(base), len(ways)), np.inf)
        for number, way in enumerate(ways):
            rows = self.standing
            X = self.moves.swapped(base[rows], way)
            allowed = self.moves.swaps(X, self.start[rows]) <= self.moves.most
            margins[rows[allowed], number] = self.see(rows[allowed], X[allowed])
        return margins

    def move(self, ways: Sequence[Way], margins: Array) -> None:
        """Move the numbers of standing rows, around the rows as they came and around their worst versions."""
        for centre in (self.start, *([to_numpy(self.worst.X).copy()] if len(ways) > 1 else [])):
            self._around(centre)
            # few enough to try each around the row as it came
            if self.moves.limited and self.moves.choices_of_numbers() <= 30:
                for some in self.moves.of_numbers():
                    self._around(centre, np.isin(np.arange(centre.shape[1]), some.moving))
        # an attack takes a hundred times as long where gradients are differences
        balls = 30 if self.worst.problem.target.gradient_cost == 1 else 3
        worst_first = 1 + np.argsort(margins[:, 1:], axis=1, kind="stable")[:, :balls]  # the first way swaps nothing
        for rank in range(worst_first.shape[1]):
            centre = self.start.copy()
            for row in self.standing:
                centre[row] = self.moves.swapped(centre[[row]], ways[worst_first[row, rank]])[0]
            self._around(centre)

    def _chosen(self, rows: Rows, X: Array) -> Mask:
        """Return which numbers of versions X of some rows are moved: as many as may be, the worst one by one."""
        chosen = np.zeros(X.shape, dtype=bool)
        low, high = self.moves.box(X, rows)
        low, high = np.maximum(X - self.moves.reach, low), np.minimum(X + self.moves.reach, high)
        here, at = X.copy(), np.arange(len(rows))
        for turn in range(self.moves.most_moved):
            allowed = turn == 0 or self.moves.norm == "linf"  # in an ellipsoid a second move to an end is none
            look = self.see if allowed else lambda rows, X: self.worst.problem.judged(rows, X)[0]
            ends = [(column, side) for column in self.moves.moving for side in (low, high)]
            versions = [np.where(np.arange(X.shape[1]) == column, side, here) for column, side in ends]
            margins = np.array([np.where(chosen[:, column], np.inf, look(rows, version))
                                for (column, _), version in zip(ends, versions, strict=True)])
            worst = margins.argmin(axis=0)
            columns = np.array([column for column, _ in ends])[worst]
            here[at, columns] = np.array(versions)[worst, at, columns]
            chosen[at, columns] = True
        return chosen

    def _around(self, centre: Array, chosen: Mask | None = None) -> None:
        """Move the numbers of standing rows, or those ``chosen``, in the ball around ``centre`` (n, d)."""
        rows, problem = self.standing, self.worst.problem
        if not len(rows):
            return
        X = centre[rows]
        low, high = self.moves.box(X, rows)
        if self.moves.limited:
            moved = self._chosen(rows, X) if chosen is None else chosen
            low, high = np.where(moved, low, X), np.where(moved, high, X)
        near = Worst(problem.around(problem.place(rows), *map(problem.place, (X, low, high))))
        self.search(near, self.ball)
        self.worst.queries += near.queries
        self.worst.sloped[problem.place(rows)] |= near.sloped | (near.X != near.problem.X).any(axis=1)
        self.see(rows, self.moves.stepped(to_numpy(near.X), X))
