"""An attack on the numbers of a row beside swaps of its categories: around each of the worst ways to swap.

Where only some numbers may be moved, those are chosen one after the other, each the one whose move to an end is worst
beside those before; around a row as it came, and its worst version, every choice is tried where there are few.

All ways to swap are scored first, where there are at most ``TRIED``; of more, those of fewest swaps, and then one swap
after the other, each the worst beside those before. The attack then moves the numbers around the row as it came, and
around its versions of least margin.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np

from buttress._arrays import NUMPY, to_numpy
from buttress._checks import Array, silent
from buttress._types import Mask, MatrixLike, Rows, VectorLike
from buttress.attacks.ball import ball_of
from buttress.attacks.problem import AttackInfo, AttackProblem, BlindAttackWarning, distances, pose, warn_if_flat
from buttress.scores import Scorable
from buttress.threats import Moves, ThreatModel, Way, read_threat

TRIED = 1000  # ways to swap a row that are scored

BallAttack = Callable[..., tuple[Any, AttackInfo]]


def under_threat(
    attack: BallAttack, model: Scorable, X: MatrixLike, y: VectorLike, threat: ThreatModel, return_info: bool
) -> Any:
    """Return the worst rows that a threat allows and ``attack`` finds, shaped like X, and what was achieved.

    ``attack(X, y, eps=, norm=, bounds=)`` returns the worst of a ball and a box, and an :class:`AttackInfo`.
    """
    problem = pose(model, X, y, None)
    start = to_numpy(problem.X).astype(np.float64)
    moves = read_threat(threat, start, X)
    worst = _Versions(problem, moves, start)
    ways = list(islice(moves.ways(), TRIED))
    margins = worst.swap(ways)
    if moves.count() > len(ways):
        worst.swap_more()
    if moves.reach.any():
        worst.move(attack, np.asarray(y), ways, margins)
    return worst.report(return_info)


class _Versions:
    """The worst version of each row met so far."""

    def __init__(self, problem: AttackProblem, moves: Moves, start: Array):
        self.problem = problem
        self.moves = moves
        self.start = start
        self.X = start.copy()
        self.margin, self.wrong = problem.judged(np.arange(len(start)), start)
        self.queries = len(start)
        self.blind = np.full(len(start), bool(moves.reach.any()))

    @property
    def standing(self) -> Rows:
        """The rows that are not known to fall."""
        return np.flatnonzero(~self.wrong)

    def see(self, rows: Rows, X: Array) -> Array:
        """Keep versions of some rows, each row once, that are worse than those met; return their margins."""
        margin, wrong = self.problem.judged(rows, X)
        worse = ~self.wrong[rows] & (wrong | (margin < self.margin[rows]))
        self.X[rows[worse]] = X[worse]
        self.margin[rows[worse]] = margin[worse]
        self.wrong[rows[worse]] = wrong[worse]
        self.queries += len(rows)
        return margin

    def swap(self, ways: Sequence[Way]) -> Array:
        """See the rows swapped in each way; return their margins (n, ways), inf of rows that fell before."""
        margins = np.full((len(self.X), len(ways)), np.inf)
        for number, way in enumerate(ways):
            rows = self.standing
            margins[rows, number] = self.see(rows, self.moves.swapped(self.start[rows], way))
        return margins

    def swap_more(self) -> None:
        """Swap one group after the other, each the worst beside those before."""
        for _ in range(self.moves.most):
            base = self.X.copy()
            for group, each in enumerate(self.moves.groups):
                for choice in range(len(each.choices)):
                    rows = self.standing
                    X = self.moves.swapped(base[rows], ((group, choice),))
                    allowed = self.moves.swaps(X, self.start[rows]) <= self.moves.most
                    self.see(rows[allowed], X[allowed])

    def move(self, attack: BallAttack, y: Array, ways: Sequence[Way], margins: Array) -> None:
        """Move the numbers of standing rows, around the rows as they came and around their worst versions."""
        for centre in (self.start, *([self.X.copy()] if len(ways) > 1 else [])):
            self._around(attack, y, self.standing, centre)
            # few enough to try each around the row as it came
            if self.moves.limited and self.moves.choices_of_numbers() <= 30:
                for some in self.moves.of_numbers():
                    self._around(attack, y, self.standing, centre, np.isin(np.arange(centre.shape[1]), some.moving))
        # an attack takes a hundred times as long where gradients are differences
        balls = 30 if self.problem.target.gradient_cost == 1 else 3
        worst_first = 1 + np.argsort(margins[:, 1:], axis=1, kind="stable")[:, :balls]  # the first way swaps nothing
        for rank in range(worst_first.shape[1]):
            centre = self.start.copy()
            for row in self.standing:
                centre[row] = self.moves.swapped(centre[[row]], ways[worst_first[row, rank]])[0]
            self._around(attack, y, self.standing, centre)

    def _chosen(self, rows: Rows, X: Array) -> Mask:
        """Return which numbers of versions X of some rows are moved: as many as may be, the worst one by one."""
        chosen = np.zeros(X.shape, dtype=bool)
        low, high = self.moves.box(X, rows)
        low, high = np.maximum(X - self.moves.reach, low), np.minimum(X + self.moves.reach, high)
        here, at = X.copy(), np.arange(len(rows))
        for turn in range(self.moves.most_moved):
            allowed = turn == 0 or self.moves.norm == "linf"  # in an ellipsoid a second move to an end is none
            look = self.see if allowed else lambda rows, X: self.problem.judged(rows, X)[0]
            ends = [(column, side) for column in self.moves.moving for side in (low, high)]
            versions = [np.where(np.arange(X.shape[1]) == column, side, here) for column, side in ends]
            margins = np.array([np.where(chosen[:, column], np.inf, look(rows, version))
                                for (column, _), version in zip(ends, versions, strict=True)])
            worst = margins.argmin(axis=0)
            columns = np.array([column for column, _ in ends])[worst]
            here[at, columns] = np.array(versions)[worst, at, columns]
            chosen[at, columns] = True
        return chosen

    def _around(
        self, attack: BallAttack, y: Array, rows: Rows, centre: Array, chosen: Mask | None = None
    ) -> None:
        """Move the numbers of some rows, or those ``chosen``, in the ball around ``centre`` (n, d)."""
        if not len(rows):
            return
        X = centre[rows]
        box = self.moves.box(X, rows)
        if self.moves.limited:
            moved = self._chosen(rows, X) if chosen is None else chosen
            box = np.where(moved, box[0], X), np.where(moved, box[1], X)
        with silent(BlindAttackWarning):  # blindness is said of all balls together, if of anything
            found, info = attack(self.problem.as_fitted(X), y[rows], eps=self.moves.reach, norm=self.moves.norm,
                                 bounds=box, return_info=True)
        self.queries += info.queries
        self.blind[rows] &= info.blind
        self.see(rows, self.moves.stepped(np.asarray(found, dtype=np.float64), X))

    def report(self, return_info: bool) -> Any:
        """Return the rows met, as they were given, and what was achieved."""
        blind = self.blind & ~self.wrong
        warn_if_flat(self.problem.model, int(blind.sum()), len(self.standing))
        found = self.problem.as_given(self.X)
        if not return_info:
            return found
        ball = ball_of(self.moves.reach, self.moves.norm, self.X.shape[1], NUMPY)
        far = distances(ball.measured(self.X - self.start), self.moves.norm)
        return found, AttackInfo(self.wrong, self.margin, far, self.queries, blind)
