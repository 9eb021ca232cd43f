"""The linear support vector regressor, exact."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, vstack
from sklearn.base import RegressorMixin

from buttress._callbacks import all_or_nothing, step_callback, with_callbacks
from buttress._checks import Array, check_number
from buttress._documented import Documented
from buttress._predicting import Liblinear, PlaneValues
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, MatrixLike
from buttress._weights import check_weights, loss_weights
from buttress.linear import Course, LinearFits, TrainingTask
from buttress.solvers.linear.newton import multiplier_newton
from buttress.solvers.linear.primal import LinearProblem
from buttress.solvers.run import countdown


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVR(PlaneValues, Documented, RegressorMixin, Liblinear, LinearFits):
    """Linear support vector regressor with an intercept that is not penalised, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i l(|y_i - w'x_i - b| - epsilon), C_i = C * sample weight, with l(u) = max(0, u)
    ("epsilon_insensitive") or max(0, u)^2 ("squared_epsilon_insensitive"), as the linear classifier's problem with two
    rows for each.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm, > 0.
    epsilon : float, default=0.0
        Half the width of the tube without loss, >= 0, in the units of y.
    loss : {"epsilon_insensitive", "squared_epsilon_insensitive"}, default="epsilon_insensitive"
    fit_intercept, tol, max_iter, max_time, progress, verbose, penalty, dual, intercept_scaling, random_state
        As in :class:`LinearSVC`.

    References
    ----------
    Ho & Lin, Large-scale linear support vector regression, JMLR 13, 2012, equations 1 to 3, with a free intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import LinearSVR
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> LinearSVR(C=100.0).fit(X, X @ [2.0, -1.0] + 3).coef_.round(2)
    array([ 2., -1.])
    """

    _state = State(
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite", "1"),
        Attribute("primal_objective_", "real", meaning="An upper bound of the objective as stated above."),
        Attribute("dual_objective_", "real", meaning="A lower bound of the optimum."),
        Attribute("dual_gap_", "real", meaning="Their difference. Proven in floating point."),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Newton steps begun."),
        Attribute("history_", "history",
                  meaning="After each step; the gap is the relative duality gap. Objectives are those of targets "
                          "divided by a power of two near their spread."))

    _losses = ("epsilon_insensitive", "squared_epsilon_insensitive")

    loss: str = "epsilon_insensitive"
    epsilon: float = 0.0

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LinearSVR":
        """Fit to X of shape (n, d), dense or sparse, and numbers y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column).
        """
        self._check()
        self._check_spelling()
        squared = self.loss == self._losses[1]
        check_number("epsilon", self.epsilon, 0, closed="left")
        left = countdown(self.max_time)
        rows, labels = self._checked(X, y, numeric_target=True)
        targets = np.asarray(labels, dtype=np.float64)
        weight = check_weights(sample_weight, rows, leave_out=True)
        used = weight > 0
        unit = 2.0 ** round(np.log2(np.std(targets[used]) or 1.0))  # exact, so that bounds stay proven
        bound = loss_weights(self.C, weight[used]) / (1.0 if squared else unit)
        problem = _of_tube(rows[used], targets[used] / unit, self.epsilon / unit, bound,
                           LinearProblem(rows, targets, bound, squared, bool(self.fit_intercept)))
        task = TrainingTask(rows, np.zeros(len(bound), dtype=np.intp), bound, used, [problem], left,
                            step_callback(self, rows, targets, None))
        middle = float(np.median(targets[used])) / unit if self.fit_intercept else 0.0
        fit = self._run(task, lambda problem: Course(problem, multiplier_newton(problem, middle)))[0]
        found = fit.outcome.state
        primal, dual = (math.nextafter(unit * (unit * value), end) for value, end in zip(  # products may underflow
            fit.bounds(problem.feasible(found.multipliers)), (math.inf, -math.inf), strict=True))
        self.coef_ = unit * found.w
        self.intercept_ = np.array([unit * found.b])
        self.primal_objective_ = primal
        self.dual_objective_ = dual
        self.dual_gap_ = primal - dual
        return self


def _of_tube(X: DenseOrSparse, targets: Array, epsilon: float, bound: Array, like: LinearProblem) -> LinearProblem:
    """Return the problem in which each row stands twice: for being above the tube, and for being below."""
    twice = vstack([X, X], format="csr") if issparse(X) else np.vstack([X, X])
    sign = np.repeat([1.0, -1.0], len(targets))
    margin = np.concatenate([targets - epsilon, -targets - epsilon])
    return replace(like, X=twice, y=sign, bound=np.tile(bound, 2), margin=margin)
