"""Kernel classification that finds the wrong labels by itself."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin

from buttress._callbacks import Report, showing
from buttress._checks import Array, check_classes, check_contamination_or_auto, warn_user
from buttress._predicting import ExpansionPredictions
from buttress._state import Attribute, Later, State
from buttress._types import Attributes, Labels
from buttress._weights import class_totals
from buttress.certainty.calibration import HeldOut
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import Kernel, is_precomputed, warn_of_scale
from buttress.robust.design import Design, given
from buttress.robust.judged import chosen_inliers, keep_share
from buttress.robust.kernel_machine import RobustKernelMachine
from buttress.robust.label_fit import LabelFit, LabelTask, fit_labels, with_directions
from buttress.solvers.contamination.confusion_law import one_rate
from buttress.solvers.contamination.label_law import label_margins
from buttress.solvers.contamination.noisy_logistic import LabelScores
from buttress.solvers.contamination.share_interval import label_shares
from buttress.solvers.run import SharedBudget


@dataclass(kw_only=True, eq=False, repr=False)
class RobustKernelClassifier(Probabilities, ExpansionPredictions, ClassifierMixin, RobustKernelMachine):
    """Kernel classification that finds wrong labels by itself, and fits the rows whose labels are right.

    Each class has one score, fitted by least squares to +1 and -1 with ridge alpha. The rate of wrong labels maximises
    the likelihood of the labels, given the leave-one-out scores of each row. Rows whose label is more likely wrong than
    right are named. All rows are fitted again, the named ones with the most likely other class. Scores of 3 to 12
    classes are mixed, A'f(x) + b, if this explains the labels decisively better by Schwarz's criterion.

    On landmark features, for many rows, the scores minimise
    -sum_i log(sum_k q_ik R_ky) + alpha / 2 ||f||^2, q_i = softmax(f(x_i)), R_kc the rate of label c in true class k.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows. A number includes rows that no other row resembles.
    alpha : "auto" or float, default="auto"
        Ridge, > 0. ``"auto"`` chooses it by the leave-one-out likelihood of the labels; on landmark features by that of
        a held-out fifth of the rows.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number, ``"auto"`` or ``"multiscale"``, the default: for the RBF kernel
        the mean of four, with gamma 1/d, .3/d, .1/d and .03/d, for others 1/d. Scale X beforehand, with
        ``sklearn.preprocessing.RobustScaler``. If rows are much shorter than that (pixels in [0, 1], counts of words),
        the median of their squared lengths replaces d.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks. ``"auto"`` is exact up to 3,000 rows, and 1,000 landmarks above; with ``max_time`` there are
        fewer if time is short, about sqrt(max_time / (2e-9 n)) for n rows.
    max_time : float or None, default=None
        Seconds after which no more fits start; the best so far is kept. A few fits are always made.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    References
    ----------
    The likelihood is that of Patrini et al., Making deep neural networks robust to label noise, 2017 (forward
    correction); leave-one-out scores and the estimated rate are this library's own.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from buttress import RobustKernelClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> wrong = np.arange(0, 150, 10)
    >>> dirty = y.copy()
    >>> dirty[wrong] = (y[wrong] + 1) % 3
    >>> model = RobustKernelClassifier(random_state=0).fit(X, dirty)
    >>> bool(model.score(X, y) > 0.95), bool((~model.inlier_mask_[wrong]).mean() > 0.8)
    (True, True)
    """

    _state = State(
        Attribute("loo_score_", "real", "n_rows",
                  "Leave-one-out margin of the given label: negative if another class has the largest score."),
        Attribute("loo_proba_", "real", "n_rows, n_classes",
                  "Probability of each class under the fit without the row."),
        Attribute("isolated_", "bool", "n_rows",
                  "Rows whose kernel values with all others are close to 0: left out, their labels not judged."),
        Attribute("confusion_", "real", "n_classes, n_classes",
                  "Share of each true class (row) that has each label (column). All wrong labels of a class have equal "
                  "shares, unless errors in some directions only explain the data decisively better."),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features, n_scores",
                  meaning="The scores as a function of rows, for attacks."),
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."))

    contamination_interval_: ClassVar[Any] = Later()

    def _kernel_of(self, X: Any) -> Kernel:
        if isinstance(self.kernel, str) and self.kernel == "columns":
            raise ValueError("kernel='columns' learns its weights from targets that are numbers: it is of "
                             "RobustKernelRegressor. Use kernel='rbf' here.")
        return super()._kernel_of(X)

    def _targets(self, y: Labels) -> Labels:
        self.classes_, codes = check_classes(y, type(self).__name__)
        return codes

    def _fit_rows(self, X: Any, y: Labels, budget: SharedBudget, report: Report = None) -> Self:
        share = check_contamination_or_auto(self.contamination)
        check_class_sizes(self.classes_, y, share)
        budget.report = showing(report, lambda step: _described(*step.state))
        setting = self._setting(X, alike=True)
        with setting.threads():
            design = setting.design()
            isolated = design.isolated & (not is_precomputed(self.kernel))
            if isolated.all():  # then none is an exception
                warn_of_scale(setting.kernel, X, design.points)
                isolated[:] = False
            warn_of_isolated(self.classes_, y, isolated)
            rows = np.flatnonzero(~isolated)
            if len(rows) < len(y):
                design = setting.design(rows)
            left = share_left(share, isolated)
            task = LabelTask(design, y[rows], len(self.classes_), left, given(self.alpha), budget)
            found = fit_labels(task)
            found = budget.attempt(
                lambda: with_directions(task, found), otherwise=lambda: found,
                message="The fit was interrupted. It was not compared with one whose labels are wrong in some "
                        "directions.")
            self._keep(task, found, isolated, y, share)
        budget.tell(self.n_iter_)
        return self

    def _keep(
        self, task: LabelTask, fitted: LabelFit, isolated: NDArray[np.bool_], codes: NDArray[np.intp],
        share: float | None,
    ) -> None:
        """Set the attributes from a fit to the rows, of those of classes ``codes`` (n,), that are not isolated."""
        n = len(codes)
        C = len(self.classes_)
        rows = np.flatnonzero(~isolated)

        def of_all(values: Array, other: float) -> Array:
            """Return values of the rows fitted as values of all, ``other`` for those that are isolated."""
            out = np.full((n, *values.shape[1:]), other)
            out[rows] = values
            return out

        self.__dict__.update(_described(task.design, fitted.last))
        wrong = fitted.flips.wrong
        margin = label_margins(fitted.last.scores, codes[rows])
        self.isolated_ = isolated
        self.alpha_ = fitted.last.alpha
        self.n_iter_ = fitted.n_iter
        self.converged_ = task.budget.whole
        self.weights_ = of_all(fitted.last.weight, 0.0)
        self.loo_score_ = of_all(margin, 0.0)
        self.loo_proba_ = of_all(fitted.flips.classes, 1 / C)
        # No other row supports or contradicts the label of an isolated row: it is as likely wrong as any.
        self.outlier_proba_ = of_all(wrong, float(wrong.mean()))
        self.scale_ = float(np.median(np.abs(margin)))
        rate = float(wrong.mean()) if share is None else share
        self.confusion_ = one_rate(C, rate) if fitted.confusion is None else fitted.confusion.rates
        shares = partial(label_shares, fitted.first, codes[rows], fitted.directed, mixed=bool(fitted.mixed))
        keep_share(self, self.outlier_proba_, share, shares, none_too=False)
        kept = chosen_inliers(wrong, task.share)
        self.clean_ = bool(kept.all())
        self.inlier_mask_ = np.isin(np.arange(n), rows[kept])
        self.agreement_ = of_all(np.mean(fitted.votes == kept, axis=0), 1.0)
        scores = of_all(fitted.last.scores[:, 1:] if C == 2 else fitted.last.scores, 0.0)
        self._certainty = Certainty(HeldOut(scores, codes, (~isolated).astype(np.float64), C,
                                            true=of_all(fitted.true, 1 / C), row=np.arange(n), given=n))


def share_left(share: float | None, isolated: NDArray[np.bool_]) -> float | None:
    """Return the share of wrong labels, where one is given, of the rows that are not isolated: the others count."""
    if share is None or not isolated.any():
        return share
    return max(share * len(isolated) - isolated.sum(), 0) / np.count_nonzero(~isolated)


def _described(design: Design, fit: LabelScores) -> Attributes:
    """Return the attributes of the model of a fit with coefficients of a column a class."""
    binary = fit.coef.shape[1] == 2
    expansion = design.expand(fit.coef[:, 1:] if binary else fit.coef)
    return {
        "expansion_": replace(expansion, intercept=expansion.intercept + fit.bias),
        "contrasts_": binary_contrasts() if binary else rival_contrasts(fit.coef.shape[1]),
    }


def warn_of_isolated(classes: NDArray[Any], codes: NDArray[np.intp], isolated: NDArray[np.bool_]) -> None:
    """Warn where many rows resemble no other, or all rows of a class, which is then never predicted."""
    fix = "Scale the columns of X (RobustScaler), or lower gamma."
    if isolated.mean() > 0.1:
        warn_user(f"{isolated.sum()} of {len(isolated)} rows resemble no other row, so their labels cannot be "
                  f"judged and they are left out. {fix}")
    lost = np.setdiff1d(np.arange(len(classes)), codes[~isolated])
    if len(lost):
        warn_user(f"No row of class {classes[lost].tolist()[0]!r} resembles another row, so all are left out and "
                  f"the class is never predicted. {fix}")


def check_class_sizes(classes: NDArray[Any], codes: NDArray[np.intp], share: float | None) -> None:
    """Refuse a class without rows, and to trim one of one row by a share given."""
    sizes = class_totals(classes, codes, np.ones(len(codes)))
    if share and sizes.min() < 2:
        small = classes.tolist()[sizes.argmin()]
        raise ValueError(f"Trimming contamination={share:g} of each class needs at least 2 rows in it. Class {small!r} "
                         "has 1. Drop that class, or use contamination='auto' or 0.")
