"""Kernel classification that finds the wrong labels by itself: concentration, or on many rows a likelihood."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_contamination_or_auto, check_X_y, warn_user
from buttress._predicting import ExpansionPredictions, sparse_or_dense
from buttress._state import Attribute, State
from buttress.certainty.calibration import HeldOut
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.features.batched import some_rows
from buttress.kernels import is_precomputed
from buttress.robust.batches import batched_table
from buttress.robust.confused_fit import with_directions
from buttress.robust.design import (
    Design,
    Setting,
    check_robust_parameters,
    fit_setting,
    given,
)
from buttress.robust.kernel_regressor import chosen_inliers
from buttress.robust.label_fit import LabelFit, LabelTask, fit_detailed, fit_labels
from buttress.robust.report import OF_ROWS, row_keys
from buttress.robust.tuning import DESIGN, RELABEL
from buttress.solvers.contamination.confusion_law import one_rate
from buttress.solvers.contamination.share_interval import around, label_shares
from buttress.solvers.run import Budget, all_or_nothing


class RobustKernelClassifier(
    Probabilities, CallbackSupportMixin, ExpansionPredictions, ClassifierMixin, BaseEstimator
):
    """Kernel classification fitted to the rows whose labels are right, without being given which or how many.

    One score a class, fitted by least squares to +1 and -1 with ridge alpha. The rate of wrong labels is the one that
    makes the labels likeliest given the scores of each row under the fit without it; then, within each class, the rows
    whose scores support their label best are kept and the fit repeated, until the rows repeat. From there all rows are
    fitted again, three times, each to its likeliest class given its label and the scores of the others. With no sign of
    wrong labels, or of a fiftieth at most, nothing is trimmed.

    On landmark features, for many rows, or from 1,000 on where it predicts labels better, the scores minimise
    -sum_i log((1 - rho) q_iy + rho (1 - q_iy) / (C - 1)) + alpha / 2 ||f||^2, q_i = softmax(f(x_i)), rho the rate.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; rows that no other row resembles count towards a number given.
    alpha : "auto" or float, default="auto"
        Ridge, > 0; chosen by leave-one-out likelihood of the labels when ``"auto"``, on landmark features by that of
        a fifth of the rows, held out.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number or ``"auto"``: for the RBF kernel the mean of four, with gamma
        1/d, .3/d, .1/d and .03/d, for others 1/d. Scale X beforehand, with ``sklearn.preprocessing.RobustScaler``.
        Where rows are much shorter than that (pixels in [0, 1], counts of words), the median of their squared
        lengths stands for d.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above; with ``max_time``
        it is fewer where so many cost more, about sqrt(max_time / (2e-9 n)) of n rows.
    max_iter : int, default=20
        Most concentration steps.
    max_time : float or None, default=None
        Seconds after which no more fits begin; what is then known stays. A few fits are always made.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    References
    ----------
    The trimming follows Rousseeuw & Van Driessen (2006), the likelihood Patrini et al., Making deep neural networks
    robust to label noise, 2017 (forward correction); classes, leave-one-out scores and the estimated rate are this
    library's own.

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
        *OF_ROWS,
        Attribute("loo_score_", "real", "n_rows",
                  "Margin of the given label under the fit without the row: negative when another class wins."),
        Attribute("loo_proba_", "real", "n_rows, n_classes",
                  "Probability of each class under the fit without the row."),
        Attribute("isolated_", "bool", "n_rows",
                  "Rows whose kernel values with all others are close to 0: left out, their labels not judged."),
        Attribute("confusion_", "real", "n_classes, n_classes",
                  "Share of the rows of each true class (row) that is given each label (column). Unless labels wrong "
                  "in some directions only explain the data decisively better, all directions are alike."),
        Attribute("alpha_", "nonnegative", meaning="The ridge."),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features, n_scores",
                  meaning="The scores as a function of rows, for attacks."),
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."))

    def __init__(
        self,
        *,
        contamination: float | str = "auto",
        alpha: float | str = "auto",
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: float | str = "auto",
        coef0: float = 0.0,
        n_landmarks: int | str = "auto",
        max_iter: int = 20,
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
        self.n_landmarks = n_landmarks
        self.max_iter = max_iter
        self.max_time = max_time
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any) -> "RobustKernelClassifier":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or a class too small to be trimmed by the number given. Warns of dense rows that all but repeat
        another, and of many that resemble none.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_robust_parameters(self)
        X, y = check_X_y(self, X, y, sparse=True)
        self.classes_, codes = check_classes(y, type(self).__name__)
        check_class_sizes(self.classes_, codes, share)
        self.row_keys_ = row_keys(X, codes.astype(np.float64))
        return self._fit_rows(X, codes, share, budget, step_callback(self, X, y, None))

    @all_or_nothing
    def fit_batches(self, batches: Any, y: Any = None) -> "RobustKernelClassifier":
        """Fit on landmarks to rows that come in batches, which are never all in memory; returns self.

        The model is the one that :meth:`fit` gives for the same rows in one array, up to the order of sums. Several
        passes are made over the batches, since whether a label is wrong depends on all rows. What is kept of each row
        are numbers: class, scores, probabilities, and landmark features where all of them take up to 1 GB. With more,
        or with Dask, each step of the logistic fit is a pass. Up to 3,000 rows, or as many as landmarks, are collected
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
        table = batched_table(self, batches, y)
        self.classes_, codes = check_classes(table.y, type(self).__name__)
        check_class_sizes(self.classes_, codes, share)
        self.row_keys_ = table.keys + codes
        return self._fit_rows(table.rows(self.n_landmarks), codes, share, budget)

    def _fit_rows(
        self, X: Any, codes: NDArray[np.intp], share: float | None, budget: Budget, report: Report = None
    ) -> "RobustKernelClassifier":
        """Fit to checked rows X, an array, CSR or in batches, and class numbers codes (n,)."""
        budget.report = showing(report, lambda step: _described(*step.state))
        setting = fit_setting(self, X, budget, alike=True)
        with setting.threads(X):
            design, rows = self._design_of_rows_that_resemble_others(setting, X, codes)
            task = self._task(design, codes, rows, share, budget)
            found = fit_labels(task)
            if self._worth_comparing(design, rows) and not (budget.interrupted or budget.spent()):
                design, found = budget.attempt(
                    lambda: _better_on_landmarks(task, found, setting, X[rows]), otherwise=lambda: (design, found),
                    message="The fit was interrupted. The exact fit was not compared with one on landmarks.")
            found = self._directed(replace(task, design=design), found)
            self._keep(design, found, rows, codes)
        budget.tell(self.n_iter_)
        return self

    @staticmethod
    def _directed(task: LabelTask, found: LabelFit) -> LabelFit:
        """Return the fit ``found``, or the one that allows for a rate in each direction; at Ctrl-C the former."""
        return task.budget.attempt(
            lambda: with_directions(task, found), otherwise=lambda: found,
            message="The fit was interrupted. It was not compared with one whose labels are wrong in some directions.")

    def _design_of_rows_that_resemble_others(
        self, setting: Setting, X: Any, codes: NDArray[np.intp]
    ) -> tuple[Design, NDArray[np.intp]]:
        """Return the design of the rows that resemble others, and their numbers; set ``isolated_``."""
        design = setting.design(X)
        self.isolated_ = design.isolated & (not is_precomputed(self.kernel))
        if self.isolated_.all():  # then none is an exception
            setting.warn_of_scale(X, design)
            self.isolated_[:] = False
        rows = np.flatnonzero(~self.isolated_)
        warn_of_isolated(self.classes_, codes, self.isolated_)
        return (setting.design(some_rows(X, rows)) if len(rows) < len(codes) else design), rows

    def _task(
        self, design: Design, codes: NDArray[np.intp], rows: NDArray[np.intp], share: float | None, budget: Budget
    ) -> LabelTask:
        """Return the task for ``rows``; the others, isolated, count towards a share given."""
        n = len(codes)
        if share is not None and len(rows) < n:
            share = max(share * n - self.isolated_.sum(), 0) / len(rows)
        return LabelTask(design, codes[rows], len(self.classes_), share, given(self.alpha),
                         self.max_iter, budget)

    def _worth_comparing(self, design: Design, rows: NDArray[np.intp]) -> bool:
        """Say whether there are rows enough for a fit on landmarks to keep more detail, and none was excluded."""
        return (design.regime.exact and len(rows) >= RELABEL.compared_from
                and self.alpha == self.n_landmarks == "auto" and not is_precomputed(self.kernel))

    def _keep(self, design: Design, found: LabelFit, rows: NDArray[np.intp], codes: NDArray[np.intp]) -> None:
        """Set the attributes from a fit to ``rows`` of those of classes ``codes`` (n,); the others are isolated."""
        n = len(codes)
        C = len(self.classes_)
        binary = C == 2
        for name, value in _described(design, found.coef).items():
            setattr(self, name, value)
        self.alpha_ = found.alpha
        self.clean_ = found.clean
        self.n_iter_ = found.n_iter
        self.weights_ = _scattered(found.weights, rows, n, 0.0)
        self.loo_score_ = _scattered(found.margin, rows, n, 0.0)
        self.loo_proba_ = np.full((n, C), 1 / C)
        self.loo_proba_[rows] = found.flips.classes
        # No other row supports or contradicts the label of an isolated row: it is as likely wrong as any.
        self.outlier_proba_ = _scattered(found.flips.wrong, rows, n, float(found.flips.wrong.mean()))
        self.scale_ = float(np.median(np.abs(found.margin)))
        share = check_contamination_or_auto(self.contamination)
        self.inlier_mask_ = chosen_inliers(np.where(self.isolated_, 1.0, self.outlier_proba_), share)
        self.contamination_ = float(self.outlier_proba_.mean()) if share is None else share
        rate = float(found.flips.wrong.mean()) if share is None else share
        self.confusion_ = one_rate(C, rate) if found.confusion is None else found.confusion.rates
        self.contamination_interval_ = label_interval(found, codes[rows], self.contamination_, share)
        self.agreement_ = np.ones(n)
        self.agreement_[rows] = np.mean(found.votes == self.inlier_mask_[rows], axis=0)
        scores = np.zeros((n, 1 if binary else C))
        scores[rows] = found.scores[:, 1:] if binary else found.scores
        believed = (~self.isolated_).astype(np.float64)
        true = np.full((n, C), 1 / C)
        true[rows] = found.true
        self._certainty = Certainty(HeldOut(scores, codes, believed, C, true=true))


def _described(design: Design, coef: Array) -> dict[str, Any]:
    """Return the attributes of the model of coefficients with a column a class."""
    binary = coef.shape[1] == 2
    return {
        "expansion_": design.expand(coef[:, 1:] if binary else coef),
        "contrasts_": binary_contrasts() if binary else rival_contrasts(coef.shape[1]),
    }


def _better_on_landmarks(task: LabelTask, found: LabelFit, setting: Setting, X: Any) -> tuple[Design, LabelFit]:
    """Return the exact fit ``found`` and its design, or one on landmarks where that predicts labels better."""
    design = setting.design(X, min(DESIGN.landmarks, X.shape[0] - 1))
    assert design.features is not None
    detailed = fit_detailed(replace(task, design=design), design.features, found.first)
    if detailed is not None and (detailed.likelihood - found.likelihood) * X.shape[0] > RELABEL.compared_gain:
        return design, detailed
    return task.design, found


def warn_of_isolated(classes: NDArray[Any], codes: NDArray[np.intp], isolated: NDArray[np.bool_]) -> None:
    """Warn where many rows resemble no other, or all rows of a class, which is then never predicted."""
    fix = "Scale the columns of X (RobustScaler), or lower gamma."
    if isolated.mean() > RELABEL.many_isolated:
        warn_user(f"{isolated.sum()} of {len(isolated)} rows resemble no other row, so their labels cannot be "
                  f"judged and they are left out. {fix}")
    lost = np.setdiff1d(np.arange(len(classes)), codes[~isolated])
    if len(lost):
        warn_user(f"No row of class {classes[lost].tolist()[0]!r} resembles another row, so all are left out and "
                  f"the class is never predicted. {fix}")


def check_class_sizes(classes: NDArray[Any], codes: NDArray[np.intp], share: float | None) -> None:
    """Refuse to trim a class of one row by a share given."""
    sizes = np.bincount(codes)
    if share and sizes.min() < 2:
        small = classes.tolist()[sizes.argmin()]
        raise ValueError(f"Trimming contamination={share:g} of each class needs at least 2 rows in it. Class {small!r} "
                         "has 1. Drop that class, or use contamination='auto' or 0.")


def label_interval(found: LabelFit, codes: NDArray[np.intp], estimate: float, share: float | None) -> Array:
    """Return the interval for the share of wrong labels, shape (2,); both ends are the ``share`` where one is given."""
    if share is not None:
        return np.full(2, share)
    return around(estimate, label_shares(found.first, codes, found.directed), none_too=False)


def _scattered(values: Array, rows: NDArray[np.intp], n: int, other: float) -> Array:
    out = np.full(n, other)
    out[rows] = values
    return out
