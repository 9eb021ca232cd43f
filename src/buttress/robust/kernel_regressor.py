"""Kernel regression that finds the corrupt rows itself, by a mixture of leave-one-out residuals."""

from typing import Any

from sklearn.base import BaseEstimator, RegressorMixin

from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback, with_callbacks
from buttress._checks import Array, check_count, check_X_y, warn_user
from buttress._documented import Documented
from buttress._predicting import ExpansionValues, sparse_or_dense
from buttress._state import Attribute, State
from buttress.certainty.intervals import ExpansionIntervals, HeldOutFits, hold_out
from buttress.kernels import is_precomputed
from buttress.robust.batches import batched_table
from buttress.robust.design import Design, check_robust_parameters, fit_setting, given
from buttress.robust.judged import (
    Found,
    enough,
    keep_rows,
    least_residual_scale,
    scaled_targets,
    warn_of_misleading,
)
from buttress.robust.regression_fit import Task, place_explains, robust_fit
from buttress.robust.report import OF_ROWS, row_keys
from buttress.solvers.contamination.residual_law import Limits
from buttress.solvers.contamination.share_interval import residual_shares
from buttress.solvers.ridge.leave_one_out import Fit
from buttress.solvers.run import Budget, all_or_nothing


class RobustKernelRegressor(
    Documented, ExpansionValues, ExpansionIntervals, CallbackSupportMixin, RegressorMixin, BaseEstimator
):
    """Kernel ridge regression fitted to the good rows, without being given which or how many they are.

    Minimises sum_i g_i (f(x_i) - y_i)^2 + alpha ||f||^2 with g_i the probability that row i is good. It comes from a
    mixture of Student's t and a wide outlier density for the residual of each row under the fit without it. If the
    mixture predicts unseen rows hardly better than plain kernel ridge does, the data are treated as clean and the plain
    fit is kept.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; with a number given there is no guard for clean data.
    alpha : "auto" or float, default="auto"
        Ridge, > 0, in KernelRidge's units; chosen by leave-one-out error of the good rows when ``"auto"``.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number or ``"auto"``: for the RBF kernel the mean of four, with gamma
        1/d, .3/d, .1/d and .03/d, for others 1/d. Scale X beforehand, with ``sklearn.preprocessing.RobustScaler``.
        Where rows are much shorter than that (pixels in [0, 1], counts of words), the median of their squared
        lengths stands for d.
    n_starts : int, default=6
        Random starts of the search, next to five fixed ones.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above; with ``max_time``
        it is fewer where so many cost more, about sqrt(max_time / (2e-9 n)) of n rows.
    max_iter : int, default=40
        Most iterations of the mixture fit.
    max_time : float or None, default=None
        Seconds after which no more iterations begin and no ridge is chosen; what is then known is fitted. A few fits
        are always made.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    References
    ----------
    Rousseeuw & Van Driessen, Computing LTS regression for large data sets, 2006 (concentration); Cawley & Talbot,
    Reduced rank kernel ridge regression, 2002 (leave-one-out). The mixture and the guard are this library's own.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import RobustKernelRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> y[::5] = 4.0
    >>> model = RobustKernelRegressor(random_state=0).fit(X, y)
    >>> int((~model.inlier_mask_).sum()), bool((~model.inlier_mask_[::5]).all())
    (12, True)
    """

    _state = State(
        *OF_ROWS,
        Attribute("loo_residual_", "real", "n_rows",
                  "y_i minus what the fit without row i predicts for it, rows of equal x being left out with it. With "
                  "more than 20 rows a landmark the correction is estimated, except where it is large."),
        Attribute("loo_sigma_", "real", "n_rows", "The same in standard deviations to be expected of it."),
        Attribute("alpha_", "nonnegative", meaning="The ridge."),
        Attribute("intercept_", "finite"),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features",
                  meaning="The prediction as a function of rows, for attacks."),
        Attribute("held_out_", "part", "one or none", of="HeldOutFits",
                  meaning="What :meth:`predict_interval` needs: fits without a tenth of the rows each. On landmarks, "
                          "or when ``max_time`` is up, leave-one-out residuals take their place."))

    def __init__(
        self,
        *,
        contamination: float | str = "auto",
        alpha: float | str = "auto",
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: float | str = "auto",
        coef0: float = 0.0,
        n_starts: int = 6,
        n_landmarks: int | str = "auto",
        max_iter: int = 40,
        max_time: float | None = None,
        progress: bool = False,
        random_state: Any = None,
    ):
        self.contamination = contamination
        self.alpha = alpha
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.n_starts = n_starts
        self.n_landmarks = n_landmarks
        self.max_iter = max_iter
        self.max_time = max_time
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any) -> "RobustKernelRegressor":
        """Fit to X of shape (n, d), dense or sparse, and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column. Warns of
        dense rows that all but repeat another, of X out of scale for the kernel, where half of the rows look corrupt,
        and where the rows named may be genuine: they lie together in X or on one side, or many targets are equal.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_robust_parameters(self)
        check_count("n_starts", self.n_starts, 0)
        X, y = check_X_y(self, X, y, numeric_target=True, sparse=True, single=True)
        self.row_keys_ = row_keys(X, y)
        return self._fit_rows(X, y, share, budget, step_callback(self, X, y, None))

    @all_or_nothing
    def fit_batches(self, batches: Any, y: Any = None) -> "RobustKernelRegressor":
        """Fit on landmarks to rows that come in batches, which are never all in memory; returns self.

        The model is the one that :meth:`fit` gives for the same rows in one array, up to the order of sums. Several
        passes are made over the batches, since whether a row is corrupt depends on all rows; a ``partial_fit``, which
        sees each batch once, cannot know it. What is kept of each row are numbers: target, weight, residual, and
        landmark features where all of them take up to 1 GB. Up to 3,000 rows, or as many as landmarks, are collected
        and fitted in memory. Near copies are not searched for.

        Parameters
        ----------
        batches : iterable of (X, y), function without arguments that returns one, or Dask array or data frame
            It must give the same batches each time. X has shape (n_k, d), dense, and y shape (n_k,). An iterator, which
            ends after one pass, is refused. With Dask each worker sums the Gram matrices of its blocks.
        y : Dask array or series, with a Dask collection only
            Its blocks must be those of ``batches``.

        Raises ValueError as :meth:`fit`, naming the batch, and where batches change between passes.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_robust_parameters(self)
        check_count("n_starts", self.n_starts, 0)
        table = batched_table(self, batches, y)
        self.row_keys_ = table.keys + table.y
        return self._fit_rows(table.rows(self.n_landmarks), table.y, share, budget)

    def _fit_rows(
        self, X: Any, y: Array, share: float | None, budget: Budget, report: Report = None
    ) -> "RobustKernelRegressor":
        """Fit to checked rows X, an array, CSR or in batches, and targets y (n,)."""
        setting = fit_setting(self, X)
        scaled, middle, unit = scaled_targets(y)
        with setting.threads():
            design = setting.design()
            setting.warn_of_scale(design)
            budget.report = showing(report, lambda step: _described(design, step.state.fit, middle, unit))
            task = Task(design, scaled, Limits(least_residual_scale(scaled), share), given(self.alpha), self.max_iter,
                        self.n_starts, setting.rng, budget)
            found = robust_fit(task)
            held = held_out_fits(task, found)
            law = found.known.law
            shares = None if share is not None else residual_shares(
                law, found.fit.loo, found.fit.spread, task.missed, task.limits, task.levels(found.fit))
        budget.tell(found.n_iter)
        self.__dict__.update(_described(design, found.fit, middle, unit))
        without = design.expand(held.coef * unit)
        self.held_out_ = held.times(unit, middle, without.coef, without.intercept)
        self.alpha_ = found.alpha
        keep_rows(self, found, task.sigma(found), share, unit, shares)
        if self.contamination_ >= 0.5:
            warn_user(f"{self.contamination_:.0%} of the rows look corrupt, and of more than half nothing can be said. "
                      "The kernel may not suit X: scale its columns (RobustScaler), or give gamma.")
        if share is None:
            bad = ~self.inlier_mask_
            with setting.threads():
                together = enough(bad) and place_explains(design, bad)
            warn_of_misleading(y, self.loo_residual_, bad, together=together)
        return self


def _described(design: Design, fit: Fit, middle: float, unit: float) -> dict[str, Any]:
    """Return the attributes of the model of a fit to targets less ``middle``, over ``unit``."""
    return {"intercept_": middle, "expansion_": design.expand(fit.coef[:, None] * unit)}


def held_out_fits(task: Task, found: Found) -> HeldOutFits:
    """Return the fits for intervals: corrupt rows do not count, as far as they are known."""
    design = task.design

    def held(by_folds: bool) -> HeldOutFits:
        return hold_out(design.ridge, task.y, found.fit, found.alpha, groups=design.groups, weight=found.weight,
                        by_folds=by_folds)

    by_folds = design.regime.exact and not task.budget.over
    return task.budget.attempt(lambda: held(by_folds), otherwise=lambda: held(False),
                               message="The fit was interrupted. The model is whole, but its intervals do not allow "
                                       "for how far a row moves the fit.")
