"""Kernel regression that finds the corrupt rows itself, by a mixture of leave-one-out residuals."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import RegressorMixin

from buttress._callbacks import Report, showing
from buttress._checks import Array, check_contamination_or_auto, check_count, warn_user
from buttress._predicting import ExpansionValues
from buttress._rows import drawn_rows
from buttress._state import Attribute, Later, State
from buttress._types import Attributes, Labels
from buttress.certainty.intervals import ExpansionIntervals, HeldOutFits, hold_out
from buttress.kernels import Kernel, KernelLike, Radial, as_kernel, warn_of_scale
from buttress.robust.design import Design, Regime, Setting, given, several_widths
from buttress.robust.judged import (
    RobustFit,
    enough,
    keep_rows,
    least_residual_scale,
    scaled_targets,
    warn_of_misleading,
)
from buttress.robust.kernel_machine import RobustKernelMachine
from buttress.robust.regression_fit import RegressionTask, fit_again, place_explains, robust_fit
from buttress.robust.tuning import MIXTURE
from buttress.solvers.contamination.residual_law import LawLimits
from buttress.solvers.contamination.share_interval import residual_shares
from buttress.solvers.ridge.columns import column_kernel
from buttress.solvers.ridge.leave_one_out import Fit, TooRoundedError
from buttress.solvers.ridge.tuning import COLUMNS
from buttress.solvers.run import SharedBudget


@dataclass(kw_only=True, eq=False, repr=False)
class RobustKernelRegressor(ExpansionValues, ExpansionIntervals, RegressorMixin, RobustKernelMachine):
    """Kernel ridge regression that finds corrupt rows by itself, and fits the good ones.

    Minimises sum_i g_i (f(x_i) - y_i)^2 + alpha ||f||^2, where g_i is the probability that row i is good. g_i comes
    from a mixture of Student's t and a wide outlier density for the leave-one-out residuals. If the mixture explains
    left-out rows hardly better than plain kernel ridge, the data count as clean, and the plain fit is kept.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; with a number given there is no guard for clean data.
    alpha : "auto" or float, default="auto"
        Ridge, > 0, in KernelRidge's units. ``"auto"`` chooses it by the leave-one-out error of the good rows.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number, ``"auto"`` or ``"multiscale"``, the default: for the RBF kernel
        the mean of four, with gamma 1/d, .3/d, .1/d and .03/d, for others 1/d. Scale X beforehand, with
        ``sklearn.preprocessing.RobustScaler``. If rows are much shorter than that (pixels in [0, 1], counts of words),
        the median of their squared lengths replaces d. ``kernel="columns"``, for dense X, is the RBF kernel with a
        weight for each column, plus a linear kernel. Both are learned by gradient steps on the leave-one-out error of
        at most 1,000 rows, weighted by g_i. Then the fit is repeated with them (without corrupt rows if the first fit
        found none), and kept if it makes left-out rows more likely. ``"auto"`` is ``"columns"`` if X is dense and gamma
        ``"multiscale"``, otherwise ``"rbf"``, which takes about half of the time.
    n_starts : int, default=6
        Random starts of the search, next to three fixed ones.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks. ``"auto"`` is exact up to 3,000 rows, and 1,000 landmarks above; with ``max_time`` there are
        fewer if time is short, about sqrt(max_time / (2e-9 n)) for n rows.
    max_iter : int, default=40
        Most iterations of the mixture fit.
    max_time : float or None, default=None
        Seconds after which no more iterations start and no ridge is chosen; the best so far is fitted. A few fits are
        always made.
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
        Attribute("loo_residual_", "real", "n_rows",
                  "y_i minus the prediction of the fit without row i and the rows of equal x. On landmarks the "
                  "correction is estimated, except where it is large."),
        Attribute("loo_sigma_", "real", "n_rows", "``loo_residual_`` divided by its expected standard deviation."),
        Attribute("column_weights_", "positive", "n_features or none",
                  "Weight of each column's squared differences in r^2, relative to kernel=\"rbf\": all 1 if learning "
                  "gained nothing. None if none are learned."),
        Attribute("intercept_", "finite"),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features",
                  meaning="The prediction as a function of rows, for attacks."),
        Attribute("held_out_", "part", "one or none", of="HeldOutFits",
                  meaning="For :meth:`predict_interval`: fits, each without a tenth of the rows, made when first "
                          "needed. On landmarks leave-one-out residuals replace them."))

    contamination_interval_: ClassVar[Any] = Later()
    held_out_ = Later[HeldOutFits]()

    kernel: KernelLike = "auto"
    n_starts: int = 6
    max_iter: int = 40

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse &= self.kernel != "columns"
        return tags

    def _kernel_of(self, X: Any) -> Kernel:
        if not self._named("auto", "columns"):
            return super()._kernel_of(X)
        if self._named("columns") and issparse(X):
            raise ValueError("kernel='columns' learns a weight a column of dense X. Got a sparse X. Use X.toarray(), "
                             "or kernel='rbf'.")
        return several_widths(X) if self.gamma == "multiscale" else as_kernel("rbf", gamma=self.gamma, X=X)

    def _learns_columns(self, X: Any) -> bool:
        return self._named("columns") or (self._named("auto") and self.gamma == "multiscale" and not issparse(X))

    def _named(self, *names: str) -> bool:
        return isinstance(self.kernel, str) and self.kernel in names

    def _targets(self, y: Labels) -> Labels:
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        return y

    def _fit_rows(self, X: Any, y: Labels, budget: SharedBudget, report: Report = None) -> Self:
        share = check_contamination_or_auto(self.contamination)
        setting = self._setting(X)
        scaled, middle, unit = scaled_targets(y)

        def hear(design: Design) -> None:
            budget.report = showing(report, lambda step: _described(design, step.state.fit, middle, unit))

        with setting.threads():
            design = setting.design()
            warn_of_scale(setting.kernel, X, design.points)
            hear(design)
            limits = LawLimits(least_residual_scale(scaled), share)
            task = RegressionTask(design, scaled, limits, given(self.alpha), self.max_iter, self.n_starts, setting.rng,
                                  budget)
            robust = robust_fit(task)
            self.column_weights_ = None
            if self._learns_columns(setting.X):
                task, robust, self.column_weights_ = with_columns(task, robust, setting, hear)
                design = task.design
            law = robust.known.law
            seen = task.residuals(robust.fit)
        budget.tell(robust.n_iter)
        self.__dict__.update(_described(design, robust.fit, middle, unit))
        held = partial(held_out_fits, task, robust, setting, unit, middle)
        self.held_out_ = held if design.regime is Regime.EXACT else held()
        self.alpha_ = robust.alpha
        keep_rows(self, robust, law.sigma(seen), share, unit, partial(residual_shares, law, seen, limits),
                  whole=budget.whole)
        if self.contamination_ >= 0.5:
            warn_user(f"{self.contamination_:.0%} of the rows look corrupt; from one half on the result means nothing. "
                      "The kernel may not suit X: scale its columns (RobustScaler), or give gamma.")
        if share is None:
            bad = ~self.inlier_mask_
            with setting.threads():
                together = enough(bad) and place_explains(design, bad)
            warn_of_misleading(y, self.loo_residual_, bad, together=together)
        return self


def with_columns(
    task: RegressionTask, robust: RobustFit, setting: Setting, hear: Callable[[Design], None]
) -> tuple[RegressionTask, RobustFit, Array]:
    """Return the task, the fit and the weights of columns (d,): learned where time and rounding allow, else 1.

    ``hear`` is told the design of which models are reported from then on.
    """
    equal = np.ones(setting.X.shape[1])
    if task.budget.interrupted or task.budget.stop_if_spent():
        return task, robust, equal
    try:
        return task.budget.attempt(
            lambda: under_learned_columns(task, robust, setting, hear), otherwise=lambda: (task, robust, equal),
            message="The fit was interrupted. The robust fit stays, with equal weights of columns.")
    except TooRoundedError:  # of the linear part, where columns are far from 0
        hear(task.design)
        return task, robust, equal


def under_learned_columns(
    task: RegressionTask, robust: RobustFit, setting: Setting, hear: Callable[[Design], None]
) -> tuple[RegressionTask, RobustFit, Array]:
    """Return the task and the fit under a kernel of learned columns, and their weights (d,).

    They are learned from the rows as ``robust`` believes them, and the fit is made again from these; where it took none
    as corrupt, none is: what noise remains under better columns is too easily taken for that. Where the law explains
    left-out rows no better afterwards, the fit stays and all weights are 1.
    """
    used = np.flatnonzero(robust.weight > COLUMNS.least_weight)
    used = used[drawn_rows(len(used), COLUMNS.rows)]
    kernel = setting.kernel
    assert isinstance(kernel, Radial)
    grid = MIXTURE.ridges * task.design.unit if task.alpha is None else np.array([robust.alpha])
    learned, weights = column_kernel(setting.X[used], task.y[used], robust.weight[used], kernel, alpha=robust.alpha,
                                     alphas=(grid[0], grid[-1]))
    again = replace(task, design=replace(setting, kernel=learned).design())
    hear(again.design)
    other = fit_again(again, robust)
    if not other.known.likelihood > robust.known.likelihood:
        return task, robust, np.ones(setting.X.shape[1])
    return again, replace(other, n_iter=robust.n_iter + other.n_iter), weights


def _described(design: Design, fit: Fit, middle: float, unit: float) -> Attributes:
    """Return the attributes of the model of a fit to targets less ``middle``, over ``unit``."""
    return {"intercept_": middle, "expansion_": design.expand(fit.coef[:, None] * unit)}


def held_out_fits(
    task: RegressionTask, robust: RobustFit, setting: Setting, unit: float, middle: float
) -> HeldOutFits:
    """Return the fits for intervals of targets times ``unit`` plus ``middle``: corrupt rows do not count, as far as
    they are known.
    """
    design = task.design
    with setting.threads():
        held = hold_out(design.ridge, task.y, robust.fit, robust.alpha, groups=design.groups, weight=robust.weight,
                        by_folds=design.regime is Regime.EXACT)
    without = design.expand(held.coef * unit)
    return held.times(unit, middle, without.coef, without.intercept)
