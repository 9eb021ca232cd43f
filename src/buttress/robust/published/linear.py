"""Linear baselines of robust learning: CRR and STIR.

CRR, consistent robust regression, alternates least squares with hard thresholding of the residuals:

    minimise over w and b with at most k entries   1/2 |y - b - X w|^2

With P the projection on the columns of X this is 1/2 |(I - P)(y - b)|^2 as a function of b only. The iteration is
b <- HT_k(P b + (I - P) y), where HT_k keeps the k largest entries and sets the others to 0. It is projected gradient
descent with step 1, so it never raises the objective. At a fixed point the residuals on the support of b are 0, so w is
least squares on the other rows.
Source: Bhatia, Jain, Kamalaruban & Kar (2017), algorithm 1.

STIR, stagewise-truncated iterative reweighting, is least squares with weights 1/|r|, truncated at a level that grows.
Each stage minimises sum_i w_i h_M(r_i), where h_M(r) = |r| above 1/M and M r^2 / 2 + 1 / (2M) below. It uses reweighted
least squares with weights w_i min(1/|r_i|, M), where w_i counts the row. Then M grows. Each reweighted problem is an
upper bound of the objective, and h_M decreases with M, so the objective never rises. The limit is least absolute
deviations.
Source: Mukhoty, Gopakumar, Jain & Kar (2019), algorithm 1.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, RegressorMixin

from buttress._callbacks import CallbackSupportMixin, Report, all_or_nothing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_contamination,
    check_limits,
    check_number,
    check_X_y,
)
from buttress._documented import Documented
from buttress._predicting import PlaneValues
from buttress._rows import counted_once
from buttress._state import Attribute, State
from buttress._types import MatrixLike, VectorLike
from buttress._weights import check_weights, repeated_rows, weighted_median
from buttress.robust.report import OF_RUN, keep_run, of_rows_given
from buttress.solvers.run import Outcome, Step, Steps, run

NORMAL_MEDIAN = 0.6744898  # of |z|, z standard normal


@dataclass(kw_only=True, eq=False, repr=False)
class LinearModel(PlaneValues, Documented, CallbackSupportMixin, BaseEstimator):
    """The common part of the linear baselines: a column of ones, the run and the linear prediction."""

    _state = State(
        *OF_RUN,
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite"))

    fit_intercept: bool = True
    max_iter: int | None = 100
    max_time: float | None = None
    progress: bool = False

    def _columns(self, X: Array) -> Array:
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def _centred(self, y: Array) -> tuple[Array, float]:
        """Return y minus its median, and the median; without an intercept y stays as it is, and the median is 0."""
        middle = float(np.median(y)) if self.fit_intercept else 0.0
        return y - middle, middle

    def _run(self, steps: Steps, report: Report, tol: float) -> Outcome:
        outcome = run(steps, tol=tol, max_iter=self.max_iter,
                      max_time=self.max_time, callback=report, progress=self.progress, name=type(self).__name__)
        keep_run(self, outcome)
        return outcome

    def _set_coef(self, w: Array) -> None:
        self.coef_ = w[:-1] if self.fit_intercept else w
        self.intercept_ = float(w[-1]) if self.fit_intercept else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class CRR(RegressorMixin, LinearModel):
    """Consistent robust regression: least squares that ignores the k largest residuals.

    Minimises 1/2 |y - b - X w|^2 over w and over b with at most k = contamination n entries, by hard thresholding.
    It resists corrupted targets, but not corrupted features.

    Parameters
    ----------
    contamination : float in [0, 0.5), default=0.2
        Share of the targets that are corrupt, as you estimate it.
    fit_intercept : bool, default=True
    tol : float, default=1e-6
        Stop when b changes by at most this share of the norm of y - b.
    max_iter, max_time : int, float or None
        Most iterations (None for no limit) and seconds.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Bhatia, Jain, Kamalaruban & Kar, Consistent robust regression, NIPS 2017, algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import CRR
    >>> X = np.arange(20.0)[:, None]
    >>> y = 3 * X[:, 0] + 1
    >>> y[:4] += 50
    >>> CRR(contamination=0.2).fit(X, y).coef_.round(3)
    array([3.])
    """

    _state = State(
        Attribute("inlier_mask_", "bool", "n_rows", "Rows whose target was not corrected."),
        Attribute("correction_", "finite", "n_rows", "b, what was subtracted from the targets."))

    contamination: float = 0.2
    tol: float = 1e-6
    max_iter: int | None = 10_000

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> "CRR":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        A row of weight w, a whole number, is w equal rows, each with a correction: ``correction_`` is that of one.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column, and weights
        that are not whole and positive or 0.
        """
        contamination = check_contamination(self.contamination)
        tol = check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True)
        report = step_callback(self, X, y, self.max_iter)
        rows = repeated_rows(sample_weight, X)
        Z = self._columns(X[rows])
        y, middle = self._centred(y[rows].astype(np.float64))  # tol is relative to y, of which a constant is no part
        outcome = self._run(crr(column_basis(Z), y, int(contamination * len(y))), report, tol)
        self.correction_ = outcome.state
        self.inlier_mask_ = self.correction_ == 0
        self._set_coef(np.linalg.lstsq(Z, y - self.correction_, rcond=None)[0])
        self.intercept_ += middle
        return of_rows_given(self, rows, len(X))


@dataclass(kw_only=True, eq=False, repr=False)
class STIR(RegressorMixin, LinearModel):
    """Stagewise-truncated reweighted least squares: weights 1/|r|, truncated at a level that grows by stages.

    It converges to least absolute deviations. The share of corrupt rows need not be known. It resists corrupted
    targets, but not corrupted features.

    Parameters
    ----------
    truncation : float, default=10.0
        First level of the weights, > 0, in units of 1 / median |y|; with an intercept, y minus its median.
    growth : float, default=1.5
        Factor of the level from stage to stage, > 1; the published grid is 1.01 to 3.01.
    fit_intercept : bool, default=True
    tol : float, default=1e-6
        Stop when the fitted values change by at most this share of the norm of y.
    max_iter, max_time : int, float or None
        Most iterations (None for no limit) and seconds.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Mukhoty, Gopakumar, Jain & Kar, Globally-convergent iteratively reweighted least squares for robust regression
    problems, AISTATS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import STIR
    >>> X = np.arange(20.0)[:, None]
    >>> y = 3 * X[:, 0] + 1
    >>> y[:4] += 50
    >>> STIR().fit(X, y).coef_.round(3)
    array([3.])
    """

    _state = State(
        Attribute("scale_", "nonnegative",
                  meaning="Median absolute residual / 0.6745, the standard deviation if the residuals are normal."),
        Attribute("inlier_mask_", "bool", "n_rows", "Rows with a residual of at most 3 ``scale_``."))

    truncation: float = 10.0
    growth: float = 1.5
    tol: float = 1e-6
    max_iter: int | None = 1000

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None = None) -> "STIR":
        """Fit to X of shape (n, d) and real targets y of shape (n,), rows counted by ``sample_weight``; returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), or negative
        weights.
        """
        truncation = check_number("truncation", self.truncation, 0)
        growth = check_number("growth", self.growth, 1)
        tol = check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True)
        report = step_callback(self, X, y, self.max_iter)
        rows, targets, weight, _ = counted_once(X, y.astype(np.float64), check_weights(sample_weight, X))
        middle = weighted_median(targets, weight) if self.fit_intercept else 0.0
        size = np.abs(targets - middle)
        unit = weighted_median(size, weight) or float(size.max()) or 1.0
        steps = stir(self._columns(rows), (targets - middle) / unit, weight=weight, truncation=truncation,
                     growth=growth)
        w = self._run(steps, report, tol).state * unit
        self._set_coef(w)
        self.intercept_ += middle
        residual = np.abs(y - middle - self._columns(X) @ w)
        self.scale_ = weighted_median(np.abs(targets - middle - self._columns(rows) @ w), weight) / NORMAL_MEDIAN
        # one normal residual in 370 is beyond three deviations; one below 1e-12 of the targets is rounding
        self.inlier_mask_ = residual <= 3 * self.scale_ + 1e-12 * unit
        return self


def crr(basis: Array, y: Array, k: int) -> Steps:
    """Yield b, shape (n,), for an orthonormal ``basis`` (n, r) of the columns; the change is that of |b| / |y - b|."""
    b = np.zeros_like(y)
    last = np.full_like(y, np.inf)
    while True:
        rest = y - b
        residual = rest - basis @ (basis.T @ rest)
        # of y - b and not of y: a corrupt target of 1e9 in y would hide any change
        size = max(float(np.linalg.norm(rest)), np.finfo(float).tiny)
        yield Step(b, change=float(np.linalg.norm(b - last)) / size, objective=0.5 * float(residual @ residual))
        last = b
        b = b + residual
        b[np.argsort(-np.abs(b), kind="stable")[k:]] = 0.0  # HT_k


def column_basis(X: Array) -> Array:
    """Return an orthonormal basis (n, r) of the columns of X, singular values below 1e-10 of the largest left out."""
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return U[:, s > 1e-10 * s[0]] if len(s) and s[0] > 0 else U[:, :0]  # smaller ones are rounding


def stir(X: Array, y: Array, *, weight: Array, truncation: float, growth: float) -> Steps:
    """Yield w, shape (d,), starting at w = 0 and M = ``truncation``; the change is that of the fitted values, relative.

    ``weight`` (n,) counts the rows: a row of weight two is two equal rows. A stage ends when the fitted values move by
    at most 2 / (growth M), root mean square. The change is reported as infinite until 1/M is a hundredth of the median
    residual, because the truncation still affects the fit.
    """
    w = np.zeros(X.shape[1])
    M = truncation
    size = max(norm(y, weight), np.finfo(float).tiny)
    change = np.inf
    while True:
        r = np.abs(y - X @ w)
        yield Step(w, change=change, objective=float(weight @ np.where(r > 1 / M, r, M * r**2 / 2 + 1 / (2 * M))))
        new = weighted_least_squares(X, y, weight * np.minimum(1 / np.maximum(r, 1 / M), M))
        moved = norm(X @ (new - w), weight)
        middle = weighted_median(r, weight)
        # a median residual far above 1/M, or half of the rows fitted exactly: the truncation no longer matters
        change = moved / size if M * middle >= 100 or middle <= 1e-9 * size else np.inf
        if moved <= 2 / (growth * M) * np.sqrt(weight.sum()):
            M *= growth
        w = new


def norm(v: Array, weight: Array) -> float:
    """Return the root of the weighted sum of squares of v (n,)."""
    return float(np.sqrt(weight @ v**2))


def weighted_least_squares(X: Array, y: Array, weight: Array) -> Array:
    """Return argmin_w sum_i weight_i (y_i - x_i'w)^2, with a ridge of 1e-12 so that columns may be dependent."""
    scale = np.sqrt(np.maximum(weight @ X**2, np.finfo(float).tiny))
    Z = X / scale
    A = (Z * weight[:, None]).T @ Z
    A[np.diag_indices_from(A)] += 1e-12  # of columns of norm 1, which may depend on each other
    return cho_solve(cho_factor(A, overwrite_a=True), Z.T @ (weight * y)) / scale
