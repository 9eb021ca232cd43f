"""Kernel classification that finds the wrong labels by itself: concentration, or on many rows a likelihood."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._checks import (
    Array,
    InterruptedWarning,
    check_classes,
    check_count,
    check_limits,
    check_number,
    check_X_y,
    warn_user,
)
from buttress._predicting import ExpansionPredictions, sparse_or_dense
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import Kernel, is_precomputed, warn_of_scale
from buttress.robust.design import (
    LANDMARKS,
    Design,
    check_contamination,
    check_gamma,
    default_kernel,
    design_threads,
    kernel_design,
    warn_of_near_copies,
)
from buttress.robust.kernel_regressor import chosen_inliers
from buttress.robust.label_fit import LabelFit, fit_labels, fit_many_labels
from buttress.robust.report import row_keys
from buttress.solvers.run import Budget

DETAILED = 1000  # rows from which the exact fit is compared with the one for many rows
GAIN = 6.0  # nats by which that must foretell the labels better
MANY = 0.1  # a larger share of isolated rows is a sign of columns that were not scaled


class RobustKernelClassifier(ExpansionPredictions, ClassifierMixin, BaseEstimator):
    """Kernel classification fitted to the rows whose labels are right, not told which or how many.

    One score a class, fitted by least squares to +1 and -1 with ridge alpha. The rate of wrong labels is the one that
    makes the labels likeliest given the scores of each row under the fit without it; then, within each class, the rows
    whose scores support their label best are kept and the fit repeated, until the rows repeat. From there all rows are
    fitted again, three times, each to its likeliest class given its label and the scores of the others. With no sign of
    wrong labels, or of a fiftieth at most, nothing is trimmed.

    On landmark features, for many rows, or from 1,000 on where it foretells labels better, the scores minimise
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
        Where fewer than 15 in 100 entries of X are not 0, d is in the four the median of the squared lengths of rows.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above.
    max_iter : int, default=20
        Most concentration steps.
    max_time : float or None, default=None
        Seconds after which no more fits are begun; what is then known stays. A few fits are always made.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    inlier_mask_ : bool array of shape (n,)
        Training rows whose label is taken as right and that resemble others.
    outlier_proba_ : array of shape (n,)
        Probability that the label is wrong, averaged over the rates and temperatures that explain the labels; for rows
        that no other row resembles, the mean of the others.
    weights_ : array of shape (n,)
        1 for rows fitted to the label given, 0 for those fitted to another and for isolated ones. (On landmark features
        wrong labels are not relabelled but discounted in the loss.)
    loo_score_ : array of shape (n,)
        Margin of the given label under the fit without the row: negative when another class wins.
    loo_proba_ : array of shape (n, n_classes)
        Probability of each class under the fit without the row.
    isolated_ : bool array of shape (n,)
        Rows whose kernel values with all others are next to nothing: left out, their labels not judged.
    scale_ : float
        Median size of ``loo_score_``.
    contamination_ : float
        Share of wrong labels: the mean of ``outlier_proba_``; or the number given.
    agreement_ : array of shape (n,)
        Share of the fits with 0, 20 and 40 per cent trimmed (on landmark features: of the ridges tried) that judge the
        row as ``inlier_mask_`` does.
    row_keys_ : array of shape (n,)
        By which :func:`outlier_report` knows the training rows again.
    alpha_, clean_, n_iter_
        The ridge, whether nothing was trimmed or relabelled, and the number of concentration steps (on landmark
        features, of descent).

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

    def fit(self, X: Any, y: Any) -> "RobustKernelClassifier":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or a class too small to be trimmed by the number given. Warns of dense rows that all but repeat
        another, and of many that resemble none.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_contamination(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        check_gamma(self.gamma)
        check_count("max_iter", self.max_iter)
        check_limits(None, self.max_time)
        X, y = check_X_y(self, X, y, sparse=True)
        self.classes_, codes = check_classes(y, type(self).__name__)
        check_class_sizes(self.classes_, codes, share)
        self.row_keys_ = row_keys(X, codes.astype(np.float64))
        rng = check_random_state(self.random_state)
        warn_of_near_copies(self.kernel, X)
        kernel = default_kernel(self, X)
        with design_threads(kernel, X, self.n_landmarks):
            self._fit_design(kernel, X, codes, share, rng, budget)
        budget.tell(self.n_iter_)
        return self

    def _fit_design(
        self, kernel: Kernel, X: Any, codes: NDArray[np.intp], share: float | None, rng: Any, budget: Budget
    ) -> None:
        """Fit to the rows that resemble others, exactly and where that is worth comparing on landmarks."""
        design = kernel_design(kernel, X, n_landmarks=self.n_landmarks, rng=rng)
        self.isolated_ = design.isolated & (not is_precomputed(self.kernel))
        if self.isolated_.all():  # then none is an exception
            warn_of_scale(kernel, X, design.points)
            self.isolated_[:] = False
        rows = np.flatnonzero(~self.isolated_)
        warn_of_isolated(self.classes_, codes, self.isolated_)
        n = len(codes)
        if len(rows) < n:
            design = kernel_design(kernel, X[rows], n_landmarks=self.n_landmarks, rng=rng)
            share = None if share is None else max(share * n - self.isolated_.sum(), 0) / len(rows)
        found = fit_labels(design, codes[rows], len(self.classes_), share=share, alpha=self.alpha,
                           max_iter=self.max_iter, budget=budget)
        worth = design.exact and len(rows) >= DETAILED and self.alpha == self.n_landmarks == "auto"
        if worth and not (is_precomputed(kernel) or found.interrupted or budget.spent()):
            try:
                other = kernel_design(kernel, X[rows], n_landmarks=min(LANDMARKS, len(rows) - 1), rng=rng)
                detailed = fit_many_labels(other, codes[rows], len(self.classes_), share=share, alpha="auto",
                                           budget=budget)
                if (detailed.likelihood - found.likelihood) * len(rows) > GAIN:
                    design, found = other, detailed
            except KeyboardInterrupt:
                warn_user("The fit was interrupted. The exact fit was not compared with one on landmarks.",
                          InterruptedWarning)
        self._keep(design, found, rows, n)

    def _keep(self, design: Design, found: LabelFit, rows: NDArray[np.intp], n: int) -> None:
        """Set the attributes from a fit to ``rows`` of the n training rows; the others are isolated."""
        C = len(self.classes_)
        binary = C == 2
        self.expansion_ = design.expand(found.coef[:, 1:] if binary else found.coef)
        self.contrasts_ = binary_contrasts() if binary else rival_contrasts(C)
        self.alpha_, self.clean_ = found.alpha, found.clean
        self.n_iter_ = found.n_iter
        self.weights_ = _scattered(found.weights, rows, n, 0.0)
        self.loo_score_ = _scattered(found.margin, rows, n, 0.0)
        self.loo_proba_ = np.full((n, C), 1 / C)
        self.loo_proba_[rows] = found.flips.classes
        # Nothing speaks for or against the label of an isolated row: it is as likely wrong as any.
        self.outlier_proba_ = _scattered(found.flips.wrong, rows, n, float(found.flips.wrong.mean()))
        self.scale_ = float(np.median(np.abs(found.margin)))
        given = check_contamination(self.contamination)
        self.inlier_mask_ = chosen_inliers(np.where(self.isolated_, 1.0, self.outlier_proba_), given)
        self.contamination_ = float(self.outlier_proba_.mean()) if given is None else given
        self.agreement_ = np.ones(n)
        self.agreement_[rows] = np.mean(found.votes == self.inlier_mask_[rows], axis=0)


def warn_of_isolated(classes: NDArray[Any], codes: NDArray[np.intp], isolated: NDArray[np.bool_]) -> None:
    """Warn where many rows resemble no other, or all rows of a class, which is then never predicted."""
    fix = "Scale the columns of X (RobustScaler), or lower gamma."
    if isolated.mean() > MANY:
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


def _scattered(values: Array, rows: NDArray[np.intp], n: int, other: float) -> Array:
    out = np.full(n, other)
    out[rows] = values
    return out
