"""Linear regression that resists corruption of two rows in five, in X and in y: least trimmed squares, then MM."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

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
from buttress._threads import threads_for
from buttress._types import MatrixLike
from buttress.certainty.intervals import held_out_of, hold_out, interval
from buttress.robust.columns import ColumnUnits, robust_columns
from buttress.robust.design import warn_of_near_copies
from buttress.robust.kernel_regressor import centre_and_spread, chosen_inliers
from buttress.robust.misleading import warn_of_misleading
from buttress.robust.regression_fit import least_residual_scale
from buttress.robust.report import row_keys
from buttress.robust.summary import LinearSummary, estimate_of, summary_of
from buttress.robust.tuning import LINEAR
from buttress.solvers.contamination.residual_law import Explained, Limits, explain, gains_enough, reweighted_steps
from buttress.solvers.contamination.trimmed import concentrate, lts_scale, m_steps, smallest, within
from buttress.solvers.contamination.tuning import GUARD
from buttress.solvers.ridge.leave_one_out import FeatureRidge, Fit
from buttress.solvers.run import Budget, all_or_nothing


class RobustLinearRegressor(Documented, RegressorMixin, BaseEstimator):
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

    Attributes
    ----------
    coef_ : array of shape (d,)
    intercept_ : float
    inlier_mask_, outlier_proba_, weights_, loo_residual_, loo_sigma_, scale_, contamination_, agreement_, row_keys_
        As in :class:`buttress.RobustKernelRegressor`; ``weights_`` are 0 where the bisquare rejects a row, 1 throughout
        where the plain fit stays.
    held_out_, mm_
        Fits without a tenth of the rows each, for :meth:`predict_interval`; the estimate that :meth:`summary` shows.
    clean_, n_iter_
        Whether the guard found nothing wrong; iterations of the M-step.

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
        with threads_for(Z.size * Z.shape[1]):
            found = linear_fit(rows, self.n_starts, self.max_iter, rng, budget)
            held = hold_out(ridge, scaled, found.fit, self.alpha, groups=ridge.groups, by_folds=True,
                            weight=np.ones(len(y)) if found.clean else found.known.responsibility)
            columns = ColumnUnits(centre, width, unit, intercept)
            self.mm_ = estimate_of(ridge, scaled, np.array([found.fit.coef, *found.ends]), columns, middle)
        budget.tell(found.n_iter)
        self.coef_, constant = columns.original(found.fit.coef)
        self.intercept_ = middle + float(constant)
        self.held_out_ = held.times(unit, middle, *columns.original(held.coef))
        self._keep(found, share, unit)
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
        held = held_out_of(self)
        return interval(held, check_X(self, X) @ held.coef + held.intercept, coverage)


@dataclass(frozen=True)
class Rows:
    """Rows of features and their targets, the ridge that suits their number, how many are trusted, and limits."""

    ridge: FeatureRidge
    y: Array
    alpha: float
    h: int
    limits: Limits

    def drawn(self, part: NDArray[np.intp]) -> "Rows":
        """Return the numbered rows."""
        Z = self.ridge.Z[part]
        return Rows(FeatureRidge(Z, groups=equal_rows(Z)), self.y[part], self.alpha * len(part) / len(self.y),
                    trimmed_size(len(part), self.limits.share), self.limits)

    def trimmed(self, fit: Fit) -> Fit:
        """Return the fit to the rows that ``fit`` leaves the smallest residuals."""
        return self.ridge.solve(self.y, smallest(np.abs(self.y - self.ridge.Z @ fit.coef), self.h), self.alpha)

    def explained(self, fit: Fit) -> Explained:
        """Return the leave-one-out residuals of a fit explained."""
        return explain(fit.loo, fit.spread, None, self.limits)


@dataclass(frozen=True)
class LinearFit:
    """A fit, its residuals explained, the rows each start took as good (starts, n), where it ended, and how it came."""

    fit: Fit
    known: Explained
    votes: NDArray[np.bool_]
    ends: list[Array]
    n_iter: int
    clean: bool


@dataclass(frozen=True)
class MFit:
    """An M-estimate: the fit, its leave-one-out residuals explained, and its iterations."""

    fit: Fit
    known: Explained
    n_iter: int


def linear_fit(rows: Rows, n_starts: int, max_iter: int, rng: np.random.RandomState, budget: Budget) -> LinearFit:
    """Fit plain ridge and the robust fit, and keep one of them; with many rows, a part of them chooses the start.

    ====================  ==========================  ================================================
    contamination known   robust fit gains            kept
    ====================  ==========================  ================================================
    yes, 0                -                           plain
    yes                   -                           robust, reweighted
    no                    :func:`needed_gain`         robust, reweighted
    no                    something, where the plain  robust, reweighted (:func:`plainly_contaminated`)
                          residuals show outliers
    no                    less                        plain
    ====================  ==========================  ================================================
    """
    plain = rows.ridge.solve(rows.y, np.ones(len(rows.y)), rows.alpha)
    share = rows.limits.share
    known = explain(plain.loo, plain.spread, None, Limits(rows.limits.floor, share or None))
    if share == 0 or not rows.y.any():
        ones = np.ones(len(rows.y))
        return LinearFit(plain, replace(known, responsibility=ones), ones[None, :] > 0, [], n_iter=1, clean=True)
    part = rows
    if len(rows.y) > LINEAR.searched:
        part = rows.drawn(rng.choice(len(rows.y), LINEAR.searched, replace=False))
    fits, ends = least_trimmed(part, n_starts=n_starts, rng=rng, budget=budget)
    votes = np.array([within(rows.y - rows.ridge.Z @ coef, LINEAR.good_within, rows.limits.floor) for coef in ends])
    robust = budget.attempt(
        lambda: _efficient(rows, part, fits, max_iter, budget), otherwise=lambda: None,
        message="The fit was interrupted. The model is of least trimmed squares: it bears bad rows, but uses little "
                "more than half of the good ones.")
    if robust is None:
        fit = rows.trimmed(fits[0])
        return LinearFit(fit, rows.explained(fit), votes, ends, n_iter=1, clean=False)
    gains = gains_enough(known, robust.known, needed_gain(plain.spread)) or plainly_contaminated(known, robust.known)
    if share is None and not gains:
        return LinearFit(plain, known, votes, ends, robust.n_iter, clean=True)
    steps = reweighted_steps(rows.ridge, rows.y, robust.fit, robust.known, alpha=rows.alpha, limits=rows.limits)
    fit, known = budget.run(steps, tol=LINEAR.gain, max_iter=max_iter, inner=False).state
    return LinearFit(fit, known, votes, ends, robust.n_iter, clean=False)


def _efficient(rows: Rows, part: Rows, fits: list[Fit], max_iter: int, budget: Budget) -> MFit:
    """Return the M-fit to all rows from fits to some, of which the last is the cautious one."""
    cautious = _m_fit(part, fits[-1], max_iter, budget)
    others = [_m_fit(part, fit, max_iter, budget) for fit in fits[:-1] if not budget.spent()]
    # A fit that uses few rows fits those too well. So it must gain as much over the cautious fit as a robust one must
    # gain over the plain one.
    best = max([*others, cautious], key=lambda result: result.known.likelihood)
    best = best if gains_enough(cautious.known, best.known) else cautious
    return best if rows is part else _m_fit(rows, rows.trimmed(best.fit), max_iter, budget)


def _m_fit(rows: Rows, start: Fit, max_iter: int, budget: Budget) -> MFit:
    """Return the M-fit from a trimmed fit, its scale corrected for the degrees of freedom the h rows paid for."""
    residual = rows.y - start.values
    spent = min(float(np.sum(1 - 1 / start.spread**2)), LINEAR.most_spent * rows.h)
    correction = np.sqrt(rows.h / (rows.h - spent))
    scale = max(lts_scale(residual, len(residual) // 2 + 1) * correction, rows.limits.floor)
    steps = m_steps(rows.ridge, rows.y, residual, alpha=rows.alpha, scale=scale)
    outcome = budget.run(steps, tol=LINEAR.settled, max_iter=max_iter, warn=("max_iter",))
    fit, _ = outcome.state
    return MFit(fit, rows.explained(fit), max(outcome.n_iter, 1))


def plainly_contaminated(plain: Explained, robust: Explained) -> bool:
    """Say whether the plain fit's own residuals show corrupt rows, so that any gain of the robust fit is enough.

    If targets scatter widely and bad rows change the fit little, it gains only .02 nats a row. On clean data, skewed or
    with heavy tails, plain residuals have an outlier density of at most .09; with a fifth corrupt, one of .19 and more.
    """
    gain = (robust.likelihood - plain.likelihood) * len(robust.responsibility)
    return plain.law.share > GUARD.plain_share and gain > GUARD.gain_in_all


def needed_gain(spread: Array) -> float:
    """Return the nats per row by which a robust fit must predict left-out rows better than the plain one.

    With many columns for the rows, a fit that can choose its rows gains even on clean data: up to .1 with a quarter as
    many columns as rows, .15 to .35 with a third and .1 to .5 with half as many. With 20 or 40 per cent bad rows it
    gains at least .2, .3 and .4. With more columns than rows the ridge decides the fit, and nothing is gained.
    ``spread`` (n,) is the plain fit's, from which the mean leverage follows.
    """
    leverage = float(np.mean(1 - 1 / spread**2))
    return GUARD.gain_a_row + max(min(leverage, 1 - leverage) - GUARD.free_leverage, 0)


def least_trimmed(
    rows: Rows, *, n_starts: int, rng: np.random.RandomState, budget: Budget
) -> tuple[list[Fit], list[Array]]:
    """Return the three fits of least trimmed objective and one of least absolute deviations; and each start's end."""
    absolute = _absolute(rows.ridge, rows.y, rows.alpha)
    bounded = rows.ridge.solve(rows.y, _absolute_weights(absolute), rows.alpha)
    tried = 0 if budget.spent() else n_starts
    ends = [budget.run(concentrate(rows.ridge, rows.y, u, alpha=rows.alpha, h=rows.h), max_iter=LINEAR.steps,
                       progress=False) for u in _starts(rows, absolute, tried, rng)]
    different = {end.state[1].tobytes(): end for end in ends}.values()
    best = [end.state[0] for end in sorted(different, key=lambda end: end.objective)[: LINEAR.followed]]
    return [*best, bounded], [end.state[0].coef for end in ends]


def _starts(rows: Rows, absolute: Array, n_starts: int, rng: np.random.RandomState) -> list[Array]:
    """Return the weights to start from, each of h rows.

    They are the h targets nearest their middle, the smallest residuals of least absolute deviations and of a trimmed
    gradient descent from zero, and those of fits to random subsets of d + 2 rows where there are few columns.
    """
    Z = rows.ridge.Z
    n, m = Z.shape
    residuals = [rows.y, absolute, _trimmed_descent(Z, rows.y, rows.h)]
    for _ in range(n_starts if m < LINEAR.random_below else 0):
        part = rng.permutation(n)[: min(n, m + LINEAR.beyond_columns)]
        exact = lstsq(Z[part], rows.y[part], check_finite=False)[0]
        residuals.append(rows.y - Z @ exact)
    return [smallest(np.abs(r), rows.h) for r in residuals]


def trimmed_size(n: int, share: float | None) -> int:
    """Return how many of n rows least trimmed squares keeps."""
    return max(int(min(LINEAR.trusted, 1 - (share or 0)) * n), min(n, 2))


def _absolute(ridge: FeatureRidge, y: Array, alpha: float) -> Array:
    """Return residuals of reweighting towards least absolute deviations."""
    r = y
    for _ in range(LINEAR.absolute_rounds):
        r = y - ridge.solve(y, _absolute_weights(r), alpha).values
    return r


def _absolute_weights(r: Array) -> Array:
    return np.asarray(1 / np.maximum(np.abs(r), LINEAR.least_deviation))


def _trimmed_descent(Z: Array, y: Array, h: int) -> Array:
    """Return residuals after gradient steps on the h smallest, each of length one over their curvature."""
    w = np.zeros(Z.shape[1])
    for _ in range(LINEAR.descent_steps):
        r = Z @ w - y
        kept = np.flatnonzero(smallest(np.abs(r), h))
        g = Z[kept].T @ r[kept]
        Zg = Z[kept] @ g
        curvature = Zg @ Zg
        if not curvature > 0:
            break
        w = w - (g @ g) / curvature * g
    return y - Z @ w
