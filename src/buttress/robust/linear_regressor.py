"""Linear regression that resists corruption of two rows in five, in X and in y: the MM estimate, reweighted."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.stats import t as student
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, Report, all_or_nothing, showing, step_callback, with_callbacks
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
from buttress._predicting import PlaneValues
from buttress._rows import equal_rows
from buttress._state import Attribute, Later, State
from buttress._threads import threads_for
from buttress._types import Attributes, Labels, MatrixLike, RandomStateLike, VectorLike
from buttress._weights import repeated_rows
from buttress.certainty.conformal import GroupPair
from buttress.certainty.intervals import HeldOutFits, hold_out, interval
from buttress.certainty.probabilities import KEPT
from buttress.robust.design import warn_of_near_copies
from buttress.robust.judged import RobustFit, keep_rows, least_residual_scale, scaled_targets, warn_of_misleading
from buttress.robust.linear_fit import ColumnUnits, LinearTask, linear_fit, robust_columns
from buttress.robust.report import OF_ROWS, of_rows_given, row_keys
from buttress.solvers.contamination.mm import MMEstimate, mm_estimate
from buttress.solvers.contamination.residual_law import LawLimits, residuals_of
from buttress.solvers.contamination.share_interval import residual_shares
from buttress.solvers.contamination.tuning import TRIMMING
from buttress.solvers.ridge.leave_one_out import FeatureRidge
from buttress.solvers.run import SharedBudget

NUMBERS = ("estimate", "std_error", "low", "high", "t", "p_value")


@dataclass(frozen=True)
class LinearSummary:
    """The estimate of a linear model, one entry a coefficient, the constant first where there is one.

    ``low`` and ``high`` are the ends of intervals of this ``coverage``, from Student's t with ``freedom`` degrees of
    freedom; ``t`` is the estimate over its standard error, and ``p_value`` belongs to a coefficient of 0. ``scale`` is
    that of the errors, ``weights`` (n,) are the rows', 0 for rows rejected; those that ``sample_weight`` counts come as
    often. Printed it is a table.
    """

    name: Labels
    estimate: Array
    std_error: Array
    low: Array
    high: Array
    t: Array
    p_value: Array
    coverage: float
    scale: float
    freedom: int
    weights: Array

    def columns(self) -> dict[str, Labels]:
        """Return the table as a dict of columns, which any frame library takes."""
        return {name: getattr(self, name) for name in ("name", *NUMBERS)}

    def __str__(self) -> str:
        names = [str(name) for name in self.name]
        wide = max(map(len, [*names, "coefficient"]))
        head = f"{'coefficient':{wide}}" + "".join(f"{name:>12}" for name in NUMBERS)
        rows = [f"{name:{wide}}" + "".join(f"{getattr(self, key)[i]:12.4g}" for key in NUMBERS)
                for i, name in enumerate(names)]
        end = (f"scale of the errors {self.scale:.4g}, {self.freedom} degrees of freedom; low and high at "
               f"{self.coverage:g}; {np.count_nonzero(self.weights == 0)} of {len(self.weights)} rows have no weight")
        return "\n".join([head, *rows, end])


@dataclass(kw_only=True, eq=False, repr=False)
class RobustLinearRegressor(PlaneValues, Documented, CallbackSupportMixin, RegressorMixin, BaseEstimator):
    """Linear regression with high breakdown and high efficiency: the MM estimate, then weights from its residuals.

    1. The S estimate, the fit whose residuals have the least robust scale, is searched from many starts. Another local
       least is taken where rows near the middle of X, far ones weighted less, are decisively likelier under it: rows
       far out that lie together fit some plane, whatever the others say. Such a cluster may be two fifths of the rows.
    2. From it Tukey's bisquare loss is minimised with that scale: the MM estimate, which :meth:`summary` shows.
    3. If many rows are bad that scale is too large, and bad rows close to the fit keep some weight. So the rows that
       the bisquare did not reject are fitted again by ridge regression, weighted by the probability that they are good.
       This is repeated while left-out rows become much more likely.

    With more than 1,000 rows a random 1,000 choose the start. Plain ridge regression is kept if it explains left-out
    rows as well, by a distribution without corrupt rows that may be skewed. If rows would be named, it must be
    decisively better; with fewer than three rows for each coefficient it may be a little worse. Rows with equal x are
    left out together, and a warning is given for rows that are almost equal to another.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows. ``"auto"`` tolerates up to 45 per cent. With a number there is no guard for clean data.
    alpha : float, default=1.0
        Ridge, > 0, on coefficients in units of the columns' robust scales, and on the intercept, measured from the
        median of y. It is multiplied by s^2 / (s^2 + |b|^2), s the scale of the errors and b the coefficients of the S
        estimate in these units: with alpha=1 such a ridge moves a coefficient by less than half its standard error,
        also where columns nearly depend on others. With contamination=0, or fewer than three rows a coefficient, s is
        not known and the factor is 1.
    fit_intercept : bool, default=True
    n_starts : int, default=500
        Random starts, used below 50 columns, next to two fixed ones.
    max_iter : int, default=100
        Most iterations of steps 2 and 3.
    max_time : float or None, default=None
        Seconds after which no more starts or iterations begin; the best fit so far is kept, with a warning.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    References
    ----------
    Yohai, High breakdown-point and high efficiency robust estimates for regression, 1987; Salibian-Barrera & Yohai, A
    fast algorithm for S-regression estimates, 2006; Gervini & Yohai, A class of robust and fully efficient regression
    estimators, 2002 (reweighting; there by hard cutoffs).

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
        Attribute("loo_residual_", "real", "n_rows", "y_i minus the prediction of the fit without row i."),
        Attribute("loo_sigma_", "real", "n_rows", "``loo_residual_`` divided by its expected standard deviation."),
        Attribute("held_out_", "part", "one or none", of="HeldOutFits",
                  meaning="Fits, each without a tenth of the rows, for :meth:`predict_interval`."),
        Attribute("mm_", "part", "one or none", of="MMEstimate", meaning="The estimate that :meth:`summary` shows."))

    held_out_ = Later[HeldOutFits]()
    mm_ = Later[MMEstimate]()
    contamination_interval_: ClassVar[Any] = Later()

    contamination: float | str = "auto"
    alpha: float = 1.0
    fit_intercept: bool = True
    n_starts: int = 500
    max_iter: int = 100
    max_time: float | None = None
    progress: bool = False
    random_state: RandomStateLike = None

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: VectorLike | None = None) -> "RobustLinearRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        ``sample_weight`` (n,) counts rows. A row of weight w, a whole number, is w equal rows: judged by a fit without
        all of them, in one fold, and as costly. So twice the weights are twice the rows: intervals are narrower, and
        standard errors smaller. A row of weight 0 is not there.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column, and weights
        that are not whole and positive or 0.
        Warns where the rows named may be genuine: nearly all on one side, or where many targets are equal.
        """
        budget = SharedBudget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_contamination_or_auto(self.contamination)
        check_number("alpha", self.alpha, 0)
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        check_limits(None, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True)
        report = step_callback(self, X, y, None)
        warn_of_near_copies("linear", X)
        rows = repeated_rows(sample_weight, X)
        self.row_keys_ = row_keys(X, y)[rows]
        self._fit_rows(X[rows], y[rows], share, budget, report)
        return of_rows_given(self, rows, len(y))

    def _fit_rows(self, X: Array, y: Labels, share: float | None, budget: SharedBudget, report: Report) -> None:
        """Fit to checked rows X (n, d) and targets y (n,), each as often as it counts."""
        rng = check_random_state(self.random_state)
        intercept = bool(self.fit_intercept)
        Z, centre, width = robust_columns(X, intercept)
        scaled, middle, unit = scaled_targets(y, intercept)
        ridge = FeatureRidge(Z, groups=equal_rows(X))
        limits = LawLimits(least_residual_scale(scaled), share)
        task = LinearTask(ridge, scaled, self.alpha, limits)
        columns = ColumnUnits(centre, width, unit, intercept)
        budget.report = showing(report, lambda step: _described(columns, step.state[0].coef, middle))
        with threads_for(Z.size * Z.shape[1]):
            found = linear_fit(task, self.n_starts, self.max_iter, rng, budget)
        for name, made in (("held_out_", held_out_of), ("mm_", estimate_of)):
            asked = partial(made, task, found, columns, middle)
            setattr(self, name, asked if Z.size <= KEPT else asked())
        budget.tell(found.n_iter)
        self.__dict__.update(_described(columns, found.fit.coef, middle))
        seen = residuals_of(found.fit, ridge, scaled)
        law = found.known.law
        keep_rows(self, found, law.sigma(seen), share, unit, partial(residual_shares, law, seen, limits),
                  whole=budget.whole)
        if share is None:
            warn_of_misleading(y, self.loo_residual_, ~self.inlier_mask_, together=False)

    def summary(self, coverage: float = 0.95) -> LinearSummary:
        """Return the coefficients without a ridge, with standard errors, intervals and row weights; print it.

        They are the MM estimate from which this fit started, as R's ``lmrob`` has it; least squares, of all rows, where
        the fit is the plain one (``clean_``). ``coef_`` has a ridge, and weights by the law of the residuals: with
        three rows a coefficient or more it is mostly within one standard error. Errors may be skewed or of unequal
        variance.

        Raises ValueError for a coverage outside (0, 1), and where there is no such estimate: with rows no more than
        columns, columns that depend on others, or half of the rows on one plane.
        """
        check_is_fitted(self)
        if self.mm_ is None:
            raise ValueError("There are no standard errors: the rows are no more than the columns, columns depend on "
                             "others, or half of the rows lie on one plane. Drop columns, or add rows.")
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])
        constant = ["intercept"] if len(self.mm_.coef) > len(names) else []  # as it was fitted
        return summarise(self.mm_, [*constant, *map(str, names)], coverage)

    def predict_interval(
        self, X: MatrixLike, coverage: float = 0.9, *, groups: GroupPair | None = None
    ) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are CV+, scaled locally: see :mod:`buttress.certainty.intervals` for what is promised. With
        ``groups``, a pair of labels of the training rows as given to ``fit`` and of the rows of X, of each group: of a
        robust fit, of its rows that are not named corrupt, with a warning where these are less than half.

        Raises ValueError for a coverage outside (0, 1), or with fewer rows than coverage / (1 - coverage); of a group
        of so few a warning, and its intervals are infinite.
        """
        check_is_fitted(self)
        held = self.held_out_
        assert held is not None, "a fit sets what makes them"
        return interval(held, check_X(self, X) @ held.coef + held.intercept, coverage, groups)


def _described(columns: ColumnUnits, coef: Array, middle: float) -> Attributes:
    """Return the attributes of the line with these coefficients, in units of the columns, of targets less ``middle``.
    """
    slope, constant = columns.original(coef)
    return {"coef_": slope, "intercept_": middle + float(constant)}


def held_out_of(task: LinearTask, fit: RobustFit, units: ColumnUnits, middle: float) -> HeldOutFits:
    """Return the fits without a fold of rows each, in the units given."""
    Z = task.ridge.Z
    with threads_for(Z.size * Z.shape[1]):
        held = hold_out(task.ridge, task.y, fit.fit, task.alpha, groups=task.ridge.groups, by_folds=True,
                        weight=fit.weight)
    return held.times(units.unit, middle, *units.original(held.coef))


def estimate_of(task: LinearTask, fit: RobustFit, units: ColumnUnits, middle: float) -> MMEstimate | None:
    """Return the MM estimate in the units given, the constant first; least squares where the fit is the plain one."""
    Z = task.ridge.Z
    with threads_for(Z.size * Z.shape[1]):
        found = mm_estimate(Z, task.y, fit.near, np.inf if fit.clean else TRIMMING.tukey)
    if found is None:
        return None
    slope, constant = units.original(np.eye(len(found.coef)))
    back = np.vstack([constant, slope]) if units.intercept else slope
    shift = np.append(middle, np.zeros(len(slope))) if units.intercept else 0.0
    return MMEstimate(back @ found.coef + shift, back @ found.covariance @ back.T, found.scale * units.unit,
                      found.weights, found.freedom)


def summarise(estimate: MMEstimate, names: list[str], coverage: object) -> LinearSummary:
    """Return the table of an estimate; ValueError for a coverage outside (0, 1)."""
    level = check_number("coverage", coverage, 0, 1)
    error = np.sqrt(np.maximum(np.diagonal(estimate.covariance), 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        t = estimate.coef / error
    half = student.ppf((1 + level) / 2, estimate.freedom) * error
    return LinearSummary(np.array(names), estimate.coef, error, estimate.coef - half, estimate.coef + half, t,
                         2 * student.sf(np.abs(t), estimate.freedom), level, estimate.scale, estimate.freedom,
                         estimate.weights)
