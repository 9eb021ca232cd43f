"""The exact kernel support vector regressor, and what both regressors share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, all_or_nothing, step_callback, with_callbacks
from buttress._checks import Array, check_number
from buttress._documented import Documented
from buttress._rows import drawn_rows, equal_rows
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, MatrixLike, Rows
from buttress._weights import check_weights, loss_weights
from buttress.certainty.conformal import GroupPair, as_rows, check_coverage
from buttress.certainty.intervals import INTERVALS, ExpansionIntervals, HeldOutFits, jackknife
from buttress.checkpoints.journal import resumable
from buttress.kernels import Kernel, Precomputed
from buttress.solvers.linear.primal import best_intercept
from buttress.solvers.qp.program import QP, Start, regressor_qp
from buttress.solvers.qp.solve import Limits, SVMSolution, solve, without_loss
from buttress.svm.machine import OF_LEFT_OUT, OF_MACHINES, KernelMachine
from buttress.svm.task import Training


@dataclass
class Tube:
    """The problem of a regressor, to be solved for a width of its tube; each solution is where the next one starts."""

    task: Training
    targets: Array
    bound: Array
    limits: Limits
    start: Start | None

    def solved(self, epsilon: float, max_time: float | None, *, inner: bool = False) -> SVMSolution:
        """Return the solution for half this width."""
        qp = partial(regressor_qp, self.task.rows, self.targets, epsilon=epsilon)
        empty = np.zeros((len(self.targets), 1))
        weight = self.task.weight
        report = self.task.reporting(empty, [], np.arange(len(empty)), lambda values: best_intercept(
            self.targets - values, -weight, weight, float(epsilon)))
        limits = replace(self.limits, callback=report, max_time=max_time, inner=inner)
        if np.isinf(self.bound).any():
            return self._holding(lambda C, start: qp(bound=np.full(len(self.bound), C), start=start), limits)
        solution = solve(qp(bound=self.bound, start=self.start), limits)
        self.start = Start(solution.b, solution.stored, solution.proof.product)
        return solution

    def _holding(self, program: Callable[[float, Start | None], QP], limits: Limits) -> SVMSolution:
        """Return the solution of the tube that holds every row."""
        spread = float(np.ptp(self.targets)) or 1.0
        solution = without_loss(self.task.rows, program, limits, unit=spread)
        if solution is None:
            raise ValueError("C=inf asks for a tube that holds every row, but no function of this kernel has one as "
                             "narrow as epsilon. Give a finite C, a larger epsilon, or another kernel.")
        return solution


@dataclass(kw_only=True, eq=False, repr=False)
class ExactRegressor(Documented, ExpansionIntervals, CallbackSupportMixin, RegressorMixin, KernelMachine, ABC):
    """The base class of both exact regressors, documented at :class:`SVR`: each finds the width of its tube."""

    _state = State(
        Attribute("support_", "index", "n_support", "Row numbers of the support vectors.", below="n_rows"),
        Attribute("support_vectors_", "finite", "n_support, n_features", "Their rows."),
        Attribute("n_support_", "count", "1", "How many there are."),
        Attribute("dual_coef_", "finite", "n_scores, n_support", "The coefficients of the support vectors."),
        Attribute("intercept_", "finite", "n_scores"),
        *OF_MACHINES,
        OF_LEFT_OUT,
        Attribute("held_out_", "part", of="HeldOutFits", when="once predict_interval was called",
                  meaning="The residuals of rows left out, and their local scale."),
        Attribute("_judged", "index", "n_judged", below="n_rows"),
        Attribute("_judged_targets", "finite", "n_judged"),
        Attribute("_judged_rows", "finite", "n_judged, n_features or none"))

    _closed = "right"

    C: float = 1.0

    def _fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Solve the problem and keep what intervals are made of."""
        self._check()
        C = check_number("C", self.C, 0, closed=self._closed,
                         fix="Only SVC chooses C by rows left out. Use GridSearchCV here.")
        rows, labels = self._checked(X, y, numeric_target=True)
        targets = np.asarray(labels, dtype=np.float64)
        weight = check_weights(sample_weight, rows, leave_out=True)
        used = np.flatnonzero(weight)
        kernel, settled, shared = self._rows_of(rows, used, weight=weight, targets=(targets[used], weight[used]))
        numbers = np.unique(targets, return_inverse=True)[1].reshape(-1)
        task = Training(rows, kernel, used, numbers[used], weight[used], equal_rows(rows, numbers), settled, shared,
                    step_callback(self, rows, targets, None))
        coef = self._recalled(task, 1)
        tube = Tube(task, targets[used], loss_weights(C, task.weight),
                    self._limits(convex=settled.convex, max_time=self.max_time),
                    None if coef is None else Start(coef[:, 0]))
        solution = self._solve_tube(tube)
        self._take(task, solution.b[:, None], [solution])
        self._keep_left_out(task, [(np.arange(len(used)), solution, tube.bound)])
        self._keep_for_intervals(kernel, rows, targets, used)

    @abstractmethod
    def _solve_tube(self, tube: "Tube") -> SVMSolution:
        """Solve the problem with the tube that this estimator asks for."""

    def _keep_for_intervals(self, kernel: Kernel, X: DenseOrSparse, targets: Array, used: Rows) -> None:
        """Keep some rows and their targets; of a Gram matrix, which would be large, no rows."""
        some = used[drawn_rows(len(used), INTERVALS.rows)]
        self._judged = some
        self._judged_targets = targets[some]
        self._judged_rows = None if isinstance(kernel, Precomputed) else X[some]
        self.__dict__.pop("held_out_", None)

    def predict(self, X: MatrixLike) -> Array:
        """Return the predicted numbers of X (n, d), shape (n,), in float32 for a float32 X."""
        rows, scores = self._scores(X)
        return scores[:, 0].astype(rows.dtype, copy=False)

    def predict_interval(
        self, X: MatrixLike, coverage: float = 0.9, *, groups: GroupPair | None = None
    ) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are the jackknife's, from the residuals of rows left out, scaled locally (of a Gram matrix given
        in advance they have one width): see :mod:`buttress.certainty.intervals` for what is promised. The first call
        makes them and keeps them as ``held_out_``. Of more than 4,000 training rows so many speak for all. With
        ``groups``, a pair of labels of the training rows as given to ``fit`` and of the rows of X, of each group.

        Raises ValueError for a coverage outside (0, 1), or with fewer rows than coverage / (1 - coverage); of a group
        of so few a warning, and its intervals are infinite.
        """
        check_is_fitted(self)
        if not hasattr(self, "held_out_") and hasattr(self, "_judged"):
            check_coverage(coverage, float(len(self._judged)))
            self.held_out_ = self._jackknife()
        return super().predict_interval(X, coverage, groups=groups)

    def _jackknife(self) -> HeldOutFits:
        """Return what intervals are made of; the ridge of the scale is that of squared losses as large as these."""
        missed = self._judged_targets - self.loo_decision_[self._judged]
        weight = as_rows(self._left_out.weight[self._judged])
        alpha = max(float(np.average(np.abs(missed), weights=weight)) / float(self.C), np.finfo(float).tiny)
        held = jackknife(self.expansion_, self._judged_rows, missed, weight, alpha)
        assert held.row is not None, "they were just made"
        return replace(held, row=self._judged[held.row], given=len(self._left_out.weight))


@dataclass(kw_only=True, eq=False, repr=False)
class SVR(ExactRegressor):
    """Kernel support vector regressor, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i max(0, |y_i - w'phi(x_i) - b| - epsilon), C_i = C * sample weight, by block
    decomposition of its dual in n variables (not 2n: the two multipliers of a row are never both positive).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm, > 0, in 1 / (units of y). ``numpy.inf`` asks for the flattest function
        whose tube holds every row.
    epsilon : float, default=0.1
        Half the width of the tube without loss, >= 0, in the units of y.
    kernel : str, kernel object or function, default="rbf"
        As in :class:`SVC`; also degree, coef0, and gamma (but not ``"loo"``).
    tol : float, default=1e-3
        Stop when the largest KKT violation, in the units of y, is at most this; > 0. The gap is then checked too.
    gap, cache_size, max_iter, max_time, solver, indefinite, warm_start, device, progress, shrinking, verbose
        As in :class:`SVC`.

    References
    ----------
    Smola & Schoelkopf, A tutorial on support vector regression, Statistics and Computing 14, 2004, equations 3 and 10.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVR
    >>> x = np.linspace(0, 6, 50)[:, None]
    >>> model = SVR(C=10.0, epsilon=0.05).fit(x, np.sin(x[:, 0]))
    >>> bool(np.abs(model.predict(x) - np.sin(x[:, 0])).max() < 0.06)
    True
    """

    _state = State()

    epsilon: float = 0.1

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SVR":
        """Fit to X of shape (n, d), dense or sparse, and numbers y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), a kernel
        with values beyond 1e30, or C=inf where no tube this narrow holds every row.
        """
        check_number("epsilon", self.epsilon, 0, closed="left")
        self._fit(X, y, sample_weight)
        return self

    def _solve_tube(self, tube: Tube) -> SVMSolution:
        return tube.solved(float(self.epsilon), self.max_time)
