"""The task of a robust kernel regression, and the search for good rows from which its fit starts.

Each start is concentrated on coarse features: it is fitted, the rows with the smallest residuals are kept, and those
are fitted again. y (n,) is centred and has spread 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buttress._checks import Array
from buttress.robust.design import Design
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import Fitted, Limits, Schedule, levels, mixture
from buttress.solvers.contamination.trimmed import concentrate, smallest, within
from buttress.solvers.contamination.tuning import RESIDUALS, TRIMMING
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit
from buttress.solvers.run import Budget, Outcome


@dataclass(frozen=True)
class Task:
    """Targets y (n,) on a design, the limits of the law, the ridge (None: choose it), and the budget."""

    design: Design
    y: Array
    limits: Limits
    alpha: float | None
    max_iter: int
    n_starts: int
    rng: np.random.RandomState
    budget: Budget

    @property
    def missed(self) -> Array | None:
        """The part of each row that the features miss, as in :class:`Ridge`."""
        return self.design.ridge.missed

    @property
    def shaped(self) -> bool:
        """Whether a law with a shape is tried: what landmarks miss has a law of its own."""
        return self.design.regime.exact

    @property
    def rounds(self) -> int:
        """The number of EM rounds of the law between two fits; it depends on the cost of a fit."""
        return MIXTURE.rounds if self.design.regime.exact else MIXTURE.rounds_of_many

    def levels(self, fit: Fit) -> Array | None:
        """Return the levels (n,) of a law with a shape; None where none is tried."""
        return levels(self.y, fit) if self.shaped else None

    def sigma(self, found: Fitted) -> Array:
        """Return the leave-one-out residuals (n,) in standard deviations."""
        return found.known.law.sigma(found.fit, self.missed, self.levels(found.fit))


def search(task: Task) -> tuple[Fitted, NDArray[np.bool_] | None]:
    """Concentrate from several starts on coarse features; of the three best, return the most likely mixture.

    The second result, (starts, n), says which rows each start classified as good; None on landmarks, where the
    starts see a part of the rows.
    """
    design = task.design
    y = task.y[design.searched]
    ends = _concentrated(task, y)
    votes = None
    if design.regime.exact:
        votes = np.array([within(end.state[0].loo / end.state[0].spread, TRIMMING.good_within, task.limits.floor)
                          for end in ends])
    best = sorted(ends, key=lambda end: end.objective)[: TRIMMING.followed]
    schedule = Schedule(MIXTURE.degrees, task.rounds, 12, RESIDUALS.settled)
    states = [mixture(design.coarse, y, end.state[0], alpha=design.unit, limits=task.limits, schedule=schedule,
                      budget=Budget()) for end in best]
    return max(states, key=lambda state: state.known.likelihood), votes


def _concentrated(task: Task, y: Array) -> list[Outcome]:
    """Return the end of concentration from each start; random starts are skipped once the time is used up."""
    h = max(int(TRIMMING.trusted * len(y)), min(len(y), 2))
    ends: list[Outcome] = []
    fixed = _fixed_starts(task.design.coarse, y, h, task.design.unit)
    for k, u in enumerate(fixed + _random_starts(len(y), task.n_starts, task.rng)):
        if k >= len(fixed) and task.budget.spent():
            break
        steps = concentrate(task.design.coarse, y, u, alpha=task.design.unit, h=h, leave_out=True)
        ends.append(task.budget.run(steps, max_iter=10, progress=False))
    return ends


def _fixed_starts(ridge: FeatureRidge, y: Array, h: int, alpha: float) -> list[Array]:
    """Return the weights of five starts: all rows, the half and the quarter nearest the centre, and two to the sides.

    The latter are the h rows nearest to a lower and to an upper quantile of the targets given x. Where two fifths of
    the rows are shifted to one side the middle of the targets lies between the good rows and the bad ones, but one of
    these quantiles among the good ones.
    """
    central = [smallest(np.abs(y), size) for size in (h, max(len(y) // 4, 1))]
    sides = [quantile_fit(ridge, y, part, alpha) for part in (0.2, 0.8)]
    return [np.ones(len(y)), *central, *(smallest(np.abs(y - side), h) for side in sides)]


def quantile_fit(ridge: FeatureRidge, y: Array, quantile: float, alpha: float) -> Array:
    """Return values (n,) of the quantile regression of y, by majorising least squares (Hunter & Lange 2000).

    Minimises sum_i rho(y_i - f_i) + alpha / (2 s) ||f||^2 with rho(r) = r quantile above 0 and r (quantile - 1) below,
    smoothed within a tenth of s, the median size of the first residuals.
    """
    values = ridge.solve(y, np.ones(len(y)), alpha).values
    size = float(np.median(np.abs(y - values))) or 1.0
    for _ in range(20):
        r = y - values
        slope = np.where(r > 0, quantile, 1 - quantile)
        values = ridge.solve(y, slope * size / np.maximum(np.abs(r), 0.1 * size), alpha).values
    return values


def _random_starts(n: int, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return the weights of starts from random tenths of the rows."""
    size = min(n, max(n // 10, 5))
    return [np.isin(np.arange(n), rng.permutation(n)[:size]).astype(np.float64) for _ in range(n_starts)]
