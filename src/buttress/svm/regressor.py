"""The exact kernel support vector regressor."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, showing, step_callback, with_callbacks
from buttress._checks import Array, check_number, check_X_y
from buttress._documented import REGRESSOR, Documented, advises
from buttress._predicting import rows_to_score, sparse_or_dense
from buttress._rows import drawn_rows, equal_rows
from buttress._state import Attribute, State
from buttress._types import DenseOrSparse, MatrixLike
from buttress._weights import check_weights
from buttress.certainty.conformal import check_coverage
from buttress.certainty.intervals import INTERVALS, ExpansionIntervals, HeldOutFits, jackknife
from buttress.checkpoints.resumable import resumable
from buttress.gram.entries import Index
from buttress.kernels import Kernel, Precomputed, fitted_kernel, is_precomputed
from buttress.solvers.linear.intercept import best_intercept
from buttress.solvers.qp.program import Point, Start, regressor_qp
from buttress.solvers.qp.solve import SVMSolution, solve
from buttress.solvers.run import Step, all_or_nothing
from buttress.svm.device import scorer
from buttress.svm.indefinite import Settled, settled_on
from buttress.svm.left_out import left_out, left_out_scores
from buttress.svm.machine import (
    OF_MACHINES,
    as_input,
    check_machine,
    expansion,
    kernel_rows,
    limits_of,
    recalled,
    remember,
)


class SVR(Documented, ExpansionIntervals, CallbackSupportMixin, RegressorMixin, BaseEstimator):
    """Kernel support vector regressor, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i max(0, |y_i - w'phi(x_i) - b| - epsilon), C_i = C * sample weight, by block
    decomposition of its dual in n variables (not 2n: the two multipliers of a row are never both positive).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm, > 0 and finite, in 1 / (units of y).
    epsilon : float, default=0.1
        Half the width of the tube without loss, >= 0, in the units of y.
    kernel : str, kernel object or function, default="rbf"
        As in :class:`SVC`; also degree, gamma and coef0.
    tol : float, default=1e-3
        Stop when the largest KKT violation, in the units of y, is at most this; > 0. The gap is then checked too.
    gap, cache_size, max_iter, max_time, solver, indefinite, warm_start, device, progress
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

    _state = State(
        Attribute("support_", "index", "n_support", "Row numbers of the support vectors.", below="n_rows"),
        Attribute("support_vectors_", "finite", "n_support, n_features", "Their rows."),
        Attribute("dual_coef_", "finite", "n_scores, n_support", "The coefficients of the support vectors."),
        Attribute("intercept_", "finite", "n_scores"),
        *OF_MACHINES,
        Attribute("held_out_", "part", of="HeldOutFits", when="once predict_interval was called",
                  meaning="The residuals of rows left out, and their local scale."),
        Attribute("_judged", "index", "n_judged", below="n_rows"),
        Attribute("_judged_targets", "finite", "n_judged"),
        Attribute("_judged_rows", "finite", "n_judged, n_features or none"))

    @advises(**REGRESSOR)
    def __init__(
        self,
        *,
        C: float = 1.0,
        epsilon: float = 0.1,
        kernel: str | Kernel | Callable[[Array, Array], Array] = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        gap: float | None = None,
        cache_size: float = 200,
        max_iter: int = -1,
        max_time: float | None = None,
        solver: str = "auto",
        indefinite: str = "warn",
        warm_start: bool = False,
        device: str | None = None,
        progress: bool = False,
        checkpoint: str | None = None,
        resume: bool | str = False,
    ):
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.gap = gap
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.indefinite = indefinite
        self.warm_start = warm_start
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint
        self.resume = resume

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SVR":
        """Fit to X of shape (n, d), dense or sparse, and numbers y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), negative
        weights, or a kernel with values beyond 1e30.
        """
        check_machine(self, "Only SVC chooses C by rows left out. Use GridSearchCV here.")
        check_number("C", self.C, 0, fix="A tube that must hold every row is not offered: use a large C.")
        check_number("epsilon", self.epsilon, 0, closed="left")
        start = recalled(self) if self.warm_start else None
        rows, targets = check_X_y(self, X, y, numeric_target=True, sparse=True, single=True)
        targets = np.asarray(targets, dtype=np.float64)
        weight = check_weights(sample_weight, rows)
        kernel = fitted_kernel(self, rows, weight)
        used = np.flatnonzero(weight)
        settled = settled_on(kernel, rows, used, self.indefinite)
        near = Start(start[used, 0]) if start is not None and len(start) == rows.shape[0] else None
        shared = kernel_rows(settled, self.cache_size, device=self.device)
        qp = regressor_qp(shared, targets[used], self.C * weight[used], self.epsilon, near)
        model_of = partial(self._at, kernel, rows, used, settled, targets, weight)
        report = showing(step_callback(self, rows, targets, None), model_of)
        solution = solve(qp, limits_of(self, convex=settled.convex, max_time=self.max_time, report=report))
        self.n_kernel_rows_ = shared.n_computed
        self.n_negative_curvature_ = 0 if settled.convex else solution.downwards
        numbers = np.unique(targets, return_inverse=True)[1].reshape(-1)
        everything = np.arange(len(used))
        self._left_out = left_out(rows, numbers, weight, used, settled,
                                  [(everything, solution, self.C * weight[used])], equal_rows(rows, numbers))
        self._set_model(kernel, rows, used, settled, solution)
        self._keep_for_intervals(kernel, rows, targets, used)
        return self

    def _keep_for_intervals(self, kernel: Kernel, X: DenseOrSparse, targets: Array, used: Index) -> None:
        """Keep some rows and their targets; of a Gram matrix, which would be large, no rows."""
        some = used[drawn_rows(len(used), INTERVALS.rows)]
        self._judged = some
        self._judged_targets = targets[some]
        self._judged_rows = None if isinstance(kernel, Precomputed) else X[some]
        self.__dict__.pop("held_out_", None)

    @property
    def loo_decision_(self) -> Array:
        """Values of the training rows (n,), each under the fit without it and its equals; NaN for rows of weight 0."""
        check_is_fitted(self)
        return left_out_scores(self)[:, 0]

    def _at(
        self, kernel: Kernel, X: DenseOrSparse, used: Index, settled: Settled, targets: Array, weight: Array, step: Step
    ) -> dict[str, Any]:
        """Return the attributes that a step makes, with the intercept of least loss."""
        b = step.state.b if isinstance(step.state, Point) else step.state
        found = _described(kernel, X, used, settled, b, 0.0)
        residual = targets[used] - found["expansion_"](X[used])[:, 0]
        best = best_intercept(residual, -weight[used], weight[used], float(self.epsilon))
        return _described(kernel, X, used, settled, b, best)

    def _set_model(
        self, kernel: Kernel, X: DenseOrSparse, used: Index, settled: Settled, solution: SVMSolution
    ) -> None:
        whole = np.zeros((X.shape[0], 1))
        whole[used, 0] = solution.b
        remember(self, whole)
        for name, value in _described(kernel, X, used, settled, solution.b, solution.intercept).items():
            setattr(self, name, value)
        for name, value in (("primal", solution.primal), ("dual", solution.dual)):
            setattr(self, f"{name}_objective_", value if settled.convex else np.nan)
        self.dual_gap_ = self.primal_objective_ - self.dual_objective_
        self.converged_ = solution.converged
        self.n_iter_ = solution.outcome.n_iter
        self.history_ = solution.outcome.history

    def predict(self, X: MatrixLike) -> Array:
        """Return the predicted numbers of X (n, d), shape (n,), in float32 for a float32 X."""
        check_is_fitted(self)
        rows = rows_to_score(self, X, single=True)
        return as_input(scorer(self.expansion_, rows, self.device)(rows)[:, 0], rows)

    def predict_interval(self, X: MatrixLike, coverage: float = 0.9) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are the jackknife's, from the residuals of rows left out, scaled locally (of a Gram matrix given
        in advance they have one width): see :mod:`buttress.certainty.intervals` for what is promised. The first call
        makes them and keeps them as ``held_out_``. Of more than 4,000 training rows so many speak for all.

        Raises ValueError for a coverage outside (0, 1), or with fewer rows than coverage / (1 - coverage).
        """
        check_is_fitted(self)
        if not hasattr(self, "held_out_") and hasattr(self, "_judged"):
            check_coverage(coverage, float(len(self._judged)))
            self.held_out_ = self._jackknife()
        return super().predict_interval(X, coverage)

    def _jackknife(self) -> HeldOutFits:
        """Return what intervals are made of; the ridge of the scale is that of squared losses as large as these."""
        missed = self._judged_targets - self.loo_decision_[self._judged]
        weight = self._left_out.weight[self._judged]
        weight = weight / weight.mean()
        alpha = max(float(np.abs(missed).mean()) / self.C, np.finfo(float).tiny)
        return jackknife(self.expansion_, self._judged_rows, missed, weight, alpha)


def _described(
    kernel: Kernel, X: DenseOrSparse, used: Index, settled: Settled, b: Array, intercept: float
) -> dict[str, Any]:
    """Return the attributes of the model with coefficients b of the rows ``used`` of X."""
    coef, original = settled.original(b[:, None], np.array([intercept]))
    whole = np.zeros((X.shape[0], 1))
    whole[used] = coef
    support = np.flatnonzero(whole).astype(np.int32)
    found = expansion(kernel, X, support, whole, original)
    return {
        "support_": support,
        "support_vectors_": X[support],
        "expansion_": found,
        "intercept_": original,
        "dual_coef_": found.coef.T.copy(),
    }
