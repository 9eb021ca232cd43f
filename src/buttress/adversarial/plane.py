"""What the two linear machines against attackers whose worst move is known share: data, classes, units and proof.

    minimise over w, b   1/2 ||w||^2 + C sum_i max(0, 1 - y_i (w'x_i + b) + t_i(w)),

with t_i the loss of margin by the worst move of row i, convex in w.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from buttress._callbacks import CallbackSupportMixin, Report, all_or_nothing, showing, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_limits, check_number, check_X_y
from buttress._predicting import PlanePredictions, beside
from buttress._rows import counted_once
from buttress._state import Attribute, State, one_or_each
from buttress._suggest import LARGEST
from buttress._types import MatrixLike, Rows, VectorLike
from buttress._weights import check_weights, class_totals
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import left_out_scores
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.expansion import one_against_rest
from buttress.solvers.linear.attacked_bounds import BallMoves, BoxMoves, attacked_bounds
from buttress.solvers.linear.primal import LinearProblem
from buttress.solvers.run import Outcome, Steps, countdown, run

M = TypeVar("M", bound=BallMoves | BoxMoves)


class PlaneFit(NamedTuple):
    """w, b and multipliers in the units of X, and the run that ended there."""

    w: Array
    b: float
    multipliers: Array
    outcome: Outcome


class PlaneUnits(NamedTuple):
    """The columns of X, of d, that a machine was fitted to, their centre, and the number they were divided by."""

    d: int
    varying: Rows
    centre: Array
    unit: float

    def scaled(self, X: Array) -> Array:
        """Return rows (n, d), or one (d,), in the units of the solver."""
        return (X[..., self.varying] - self.centre) / self.unit

    def of_X(self, state: Any) -> tuple[Array, float]:
        """Return w (d,) and b for rows as they came."""
        w = np.zeros(self.d)
        w[self.varying] = state[0] / self.unit
        return w, float(state[1] - w[self.varying] @ self.centre)


@dataclass(kw_only=True, eq=False, repr=False)
class AttackedPlane(
    PlanePredictions, Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator, ABC, Generic[M],
):
    """A hyperplane a class against the rest. A subclass names the attacker's moves and the steps to the optimum."""

    _state = State(
        Attribute("classes_", "label", "n_classes", "The labels, sorted."),
        Attribute("primal_objective_", "real", "one or n_scores", "An upper bound of the objective as stated above."),
        Attribute("dual_gap_", "real", "one or n_scores",
                  "Upper bound of how far it is above the optimum. Proven in floating point."),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Interior-point steps of all classes together, at least 1."),
        Attribute("history_", "history", meaning="Of the last class, in the solver's own scaling."))

    C: float = 1.0
    tol: float = 1e-6
    max_iter: int | None = 200
    max_time: float | None = None
    progress: bool = False

    @abstractmethod
    def _check_attack(self) -> None:
        """Raise ValueError for parameters of the attacker that are out of range."""

    @abstractmethod
    def _moves(self, X: Array) -> M:
        """Return what the attacker may do to rows X."""

    @abstractmethod
    def _steps(self, X: Array, y: Array, c: Array, moves: M, units: PlaneUnits) -> Steps:
        """Yield the solver's steps for rows X, labels and weights in ``units``, ``moves`` being in those of X."""

    @abstractmethod
    def _bend(self, w: Array, multipliers: Array) -> float | None:
        """Return by how much of a ridge the losses t_i bend around w, 0 for planes; None if they have kinks at w_j = 0.
        """

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        ``sample_weight`` (n,) multiplies C row by row: a row of weight two is two equal rows, one of weight 0 is not
        there. Raises ValueError for parameters out of range, bounds that exclude rows of X, NaN, inf or entries beyond
        1e100 (naming the column), fewer than two classes, or negative weights.
        """
        self._check_attack()
        check_number("C", self.C, 0)
        check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, type(self).__name__)
        report = step_callback(self, X, y, None)
        given = check_weights(sample_weight, X)
        counted = counted_once(X, codes.astype(np.float64), given)
        X, weight = counted.X, counted.weight
        codes = counted.y.astype(np.intp)
        n_classes = len(self.classes_)
        class_totals(self.classes_, codes, weight)
        moves = self._moves(X)
        clock = countdown(self.max_time)
        signs = one_against_rest(codes, n_classes)
        fits: list[PlaneFit] = []
        for column in range(signs.shape[1]):
            fits.append(self._fit_column(X, signs[:, column], weight, moves, report, clock, fits,
                                         inner=column < signs.shape[1] - 1))
        self.coef_ = np.stack([fit.w for fit in fits])
        self.intercept_ = np.array([fit.b for fit in fits])
        self._prove(X, codes, weight, moves, fits)
        used = np.flatnonzero(given)
        asked = partial(clone(self)._left_out, codes=codes, counts=weight, moves=deepcopy(moves), fits=fits)
        self._certainty = Certainty.later(
            lambda rows: HeldOut(asked(rows)[counted.group], codes[counted.group], given[used], n_classes, row=used,
                                 given=len(given)), X)
        self.converged_ = all(fit.outcome.converged for fit in fits)
        self.n_iter_ = max(1, sum(fit.outcome.n_iter for fit in fits))
        self.history_ = fits[-1].outcome.history
        self._warn(X, codes, weight)
        return self

    def _warn(self, X: Array, codes: Rows, weight: Array) -> None:
        """Warn of what the fit to X shows of the attacker."""

    def _prove(self, X: Array, codes: Rows, counts: Array, moves: M, fits: list[PlaneFit]) -> None:
        """Set the objective and the gap of each column, from its hyperplane and multipliers in the units of X."""
        found = []
        for column, fit in enumerate(fits):
            y = np.where(codes == (column if len(fits) > 1 else 1), 1.0, -1.0)
            c = self.C * counts
            found.append(attacked_bounds(X, y, c, fit.w, fit.b, np.minimum(fit.multipliers, c), moves))
        self.primal_objective_ = one_or_each(primal for primal, _ in found)
        self.dual_gap_ = one_or_each(primal - dual for primal, dual in found)

    def _left_out(self, X: Array, codes: Rows, counts: Array, moves: M, fits: list[PlaneFit]) -> Array:
        """Return the scores (n, k) of rows left out with those equal to them, of which probabilities are made.

        A move counts as a margin that is asked for besides, t_i, as it is at the fitted plane. Columns without weight
        stay so where t_i has a kink there.
        """
        scores = []
        for column, fit in enumerate(fits):
            y = np.where(codes == (column if len(fits) > 1 else 1), 1.0, -1.0)
            bend = self._bend(fit.w, fit.multipliers)
            # smaller weights are rounding
            used = np.abs(fit.w) > 1e-6 * np.abs(fit.w).max() if bend is None else np.ones(len(fit.w), dtype=bool)
            root = np.sqrt(1 + (bend or 0.0))
            lost = (1 - moves.shrunk(y)) * y * (X @ fit.w) - moves.rest(fit.w, y).v
            problem = LinearProblem(X[:, used] / root, y, self.C * counts, margin=1 + lost)
            scores.append(left_out_scores(problem, root * fit.w[used], fit.b, fit.multipliers, None))
        return np.stack(scores, axis=1)

    def _fit_column(
        self, X: Array, y: Array, counts: Array, moves: M, report: Report,
        clock: Callable[[], float | None], before: list[PlaneFit], *, inner: bool,
    ) -> PlaneFit:
        """Return the fit of one column.

        Columns that do not vary get w_j = 0, which is optimal. The others are centred and divided by one number, so
        that rows have a length of about 1 in any units. C is multiplied by the square of that number, and w is scaled
        back.
        """
        varying = np.flatnonzero(X.max(axis=0) > X.min(axis=0))
        varying = varying if varying.size else np.arange(1)
        centre = np.average(X[:, varying], axis=0, weights=counts)
        unit = float(np.sqrt(np.average(np.sum((X[:, varying] - centre) ** 2, axis=1), weights=counts))) or 1.0
        C = self.C * float(counts.max())
        if not 1 / LARGEST < C * unit**2 < LARGEST:
            raise ValueError(f"The rows of X are {unit:.3g} from their middle, which with C={C:g}, weights counted, is "
                             "beyond the solver's reach. Scale the columns (StandardScaler), or the weights.")
        units = PlaneUnits(X.shape[1], varying, centre, unit)
        steps = self._steps(units.scaled(X), y, self.C * unit**2 * counts, moves, units)
        if not inner:
            known = [(fit.w, fit.b) for fit in before]
            report = showing(report, lambda step: beside(known, *units.of_X(step.state)))
        try:
            outcome = run(steps, tol=self.tol, max_iter=self.max_iter, max_time=clock(), callback=report,
                          progress=self.progress, name=type(self).__name__, inner=inner)
        except np.linalg.LinAlgError:
            raise ValueError(f"Rounding hides the rows of X from the solver: their largest entry is "
                             f"{np.abs(X).max():.3g}, and most are much smaller. Scale the columns (RobustScaler), or "
                             "mend the largest entries.") from None
        return PlaneFit(*units.of_X(outcome.state), outcome.state[2] / unit**2, outcome)
