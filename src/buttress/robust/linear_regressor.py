"""Linear regression that resists corruption of two rows in five, in X and in y: least trimmed squares, then MM."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, showing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_contamination_or_auto,
    check_count,
    check_limits,
    check_number,
    check_X,
    check_X_y,
)
from buttress._documented import Documented
from buttress._rows import equal_rows
from buttress._state import Attribute, State
from buttress._threads import threads_for
from buttress._types import MatrixLike
from buttress.certainty.intervals import hold_out, interval
from buttress.robust.columns import ColumnUnits, robust_columns
from buttress.robust.design import warn_of_near_copies
from buttress.robust.kernel_regressor import centre_and_spread, chosen_inliers, share_interval
from buttress.robust.linear_fit import LinearFit, Rows, linear_fit, trimmed_size
from buttress.robust.misleading import warn_of_misleading
from buttress.robust.regression_fit import least_residual_scale
from buttress.robust.report import OF_ROWS, row_keys
from buttress.robust.summary import LinearSummary, estimate_of, summary_of
from buttress.solvers.contamination.residual_law import Limits
from buttress.solvers.contamination.share_interval import residual_shares
from buttress.solvers.ridge.leave_one_out import FeatureRidge
from buttress.solvers.run import Budget, all_or_nothing


class RobustLinearRegressor(Documented, CallbackSupportMixin, RegressorMixin, BaseEstimator):
    """Linear regression with high breakdown and high efficiency: multi-start LTS, an M-step, then reweighting.

    1. Least trimmed squares minimises the sum of the h smallest squared residuals plus alpha ||w||^2, from several
       starts.
    2. From the best three, and from least absolute deviations, Tukey's bisquare loss is minimised with a fixed scale.
       The fit from least absolute deviations is kept unless another one predicts left-out rows much better.
    3. If many rows are bad that scale is too large, and bad rows close to the fit keep some weight. So the rows that
       the bisquare did not reject are fitted again by least squares, weighted by the probability that they are good.
       This is repeated while left-out rows become much more likely.

    With more than 10,000 rows, a random 10,000 choose the start. ||w|| is in units of the columns' robust scales. Plain
    ridge regression is kept if leave-one-out likelihood finds no corruption. Rows with equal x are left out together,
    and a warning is given for rows that are almost equal to another.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; ``"auto"`` resists up to 45 per cent. With a number there is no guard for clean data.
    alpha : float, default=1.0
        Ridge, > 0. It also applies to the intercept, measured from the median of y.
    fit_intercept : bool, default=True
    n_starts : int, default=10
        Random starts, used below 50 columns, next to three fixed ones.
    max_iter : int, default=100
        Most iterations of the M-step.
    max_time : float or None, default=None
        Seconds after which no more starts or iterations begin; the best fit so far is kept.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    References
    ----------
    Rousseeuw, Least median of squares regression, 1984; Yohai, High breakdown-point and high efficiency robust
    estimates for regression, 1987; Gervini & Yohai, A class of robust and fully efficient regression estimators, 2002
    (reweighting; there by hard cutoffs).

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import RobustLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = 3 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=100)
    >>> X[:40], y[:40] = 100.0, 1e4
    >>> model = RobustLinearRegressor(alpha=1e-3, random_state=0).fit(X, y)
    >>> model.coef_.round(1)
    array([ 3., -1.])
    """

    _state = State(
        *OF_ROWS,
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite"),
        Attribute("loo_residual_", "real", "n_rows", "y_i minus what the fit without row i predicts for it."),
        Attribute("loo_sigma_", "real", "n_rows", "The same in standard deviations to be expected of it."),
        Attribute("held_out_", "part", "one or none", of="HeldOutFits",
                  meaning="Fits without a tenth of the rows each, for :meth:`predict_interval`."),
        Attribute("mm_", "part", "one or none", of="MMEstimate", meaning="The estimate that :meth:`summary` shows."))

    def __init__(
        self,
        *,
        contamination: float | str = "auto",
        alpha: float = 1.0,
        fit_intercept: bool = True,
        n_starts: int = 10,
        max_iter: int = 100,
        max_time: float | None = None,
        progress: bool = False,
        random_state: Any = None,
    ):
        self.contamination = contamination
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.n_starts = n_starts
        self.max_iter = max_iter
        self.max_time = max_time
        self.progress = progress
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any) -> "RobustLinearRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column.
        Warns where the rows named may be genuine: nearly all on one side, or where many targets are equal.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_contamination_or_auto(self.contamination)
        check_number("alpha", self.alpha, 0)
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        check_limits(None, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True)
        self.row_keys_ = row_keys(X, y)
        warn_of_near_copies("linear", X)
        rng = check_random_state(self.random_state)
        intercept = bool(self.fit_intercept)
        Z, centre, width = robust_columns(X, intercept)
        middle, unit = centre_and_spread(y.astype(np.float64))
        middle = middle if intercept else 0.0
        scaled = (y - middle) / unit
        ridge = FeatureRidge(Z, groups=equal_rows(X))
        limits = Limits(least_residual_scale(scaled), share)
        rows = Rows(ridge, scaled, self.alpha, trimmed_size(len(scaled), share), limits)
        columns = ColumnUnits(centre, width, unit, intercept)
        budget.report = showing(step_callback(self, X, y, None),
                                lambda step: _described(columns, step.state[0].coef, middle))
        with threads_for(Z.size * Z.shape[1]):
            found = linear_fit(rows, self.n_starts, self.max_iter, rng, budget)
            weight = np.ones(len(y)) if found.clean else found.known.responsibility
            held = hold_out(ridge, scaled, found.fit, self.alpha, groups=ridge.groups, by_folds=True, weight=weight)
            self.mm_ = estimate_of(ridge, scaled, np.array([found.fit.coef, *found.ends]), columns, middle)
        budget.tell(found.n_iter)
        for name, value in _described(columns, found.fit.coef, middle).items():
            setattr(self, name, value)
        self.held_out_ = held.times(unit, middle, *columns.original(held.coef))
        self._keep(found, share, unit)
        bounds = None if share is not None else residual_shares(
            found.known.law, found.fit.loo, found.fit.spread, None, limits, None)
        self.contamination_interval_ = share_interval(bounds, self)
        if share is None:
            warn_of_misleading(y, self.loo_residual_, ~self.inlier_mask_, together=False)
        return self

    def _keep(self, found: "LinearFit", share: float | None, unit: float) -> None:
        """Set the attributes that speak of rows, from a fit to targets in this unit."""
        fit = found.fit
        self.clean_ = found.clean
        self.n_iter_ = found.n_iter
        self.weights_ = fit.weight
        self.outlier_proba_ = 1 - found.known.responsibility
        self.loo_residual_ = fit.loo * unit
        self.scale_ = found.known.law.scale * unit
        self.loo_sigma_ = fit.loo / (found.known.law.scale * fit.spread)
        self.inlier_mask_ = chosen_inliers(self.outlier_proba_, share)
        self.contamination_ = float(self.outlier_proba_.mean()) if share is None else share
        self.agreement_ = np.mean(found.votes == self.inlier_mask_[None, :], axis=0)

    def predict(self, X: Any) -> Array:
        """Return f(x) for each row of X (n, d)."""
        check_is_fitted(self)
        return check_X(self, X) @ self.coef_ + self.intercept_

    def summary(self, coverage: float = 0.95) -> LinearSummary:
        """Return the MM estimate of the coefficients with standard errors, intervals and row weights; print it.

        It has no ridge: Tukey's bisquare from the S estimate that this fit leads to, as R's ``lmrob`` has. With many
        good rows ``coef_`` is close to it. Standard errors allow for errors that are skewed or of unequal variance.

        Raises ValueError for a coverage outside (0, 1), and where there is no such estimate: with rows no more than
        columns, columns that depend on others, or half of the rows on one plane.
        """
        check_is_fitted(self)
        return summary_of(self, coverage)

    def predict_interval(self, X: MatrixLike, coverage: float = 0.9) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are CV+, scaled locally: see :mod:`buttress.certainty.intervals` for what is promised.

        Raises ValueError for a coverage outside (0, 1), or with fewer rows than coverage / (1 - coverage).
        """
        check_is_fitted(self)
        held = self.held_out_
        return interval(held, check_X(self, X) @ held.coef + held.intercept, coverage)


def _described(columns: ColumnUnits, coef: Array, middle: float) -> dict[str, Any]:
    """Return the attributes of the line with these coefficients, in units of the columns, of targets less ``middle``.
    """
    slope, constant = columns.original(coef)
    return {"coef_": slope, "intercept_": middle + float(constant)}
