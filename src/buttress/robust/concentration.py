"""Kernel classification that finds the wrong labels by itself: class-balanced leave-one-out concentration."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._checks import Array, check_classes, check_count, check_number, check_X_y
from buttress._predicting import ExpansionPredictions
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import fitted_kernel, is_precomputed
from buttress.robust.designs import Design, check_contamination, check_gamma, kernel_design
from buttress.robust.mixture import chosen_inliers
from buttress.solvers.balanced import Flips, concentrate_classes, explain_labels, label_margins
from buttress.solvers.run import run

ALPHAS = np.geomspace(0.1, 30, 9)  # in units of k(x, x); more smooths away small classes
SLIGHT = 0.02  # an estimated rate of wrong labels at or below this is no reason to trim


class RobustKernelClassifier(ExpansionPredictions, ClassifierMixin, BaseEstimator):
    """Kernel least-squares classification fitted to the rows whose labels are right, not told which or how many.

    One score a class, fitted to +1 and -1 with ridge alpha. The rate of wrong labels is the one that makes the labels
    likeliest given the scores of each row under the fit without it; then, within each class, the rows whose scores
    support their label best are kept and the fit repeated, until the rows repeat. The last fit adds every row whose
    label the scores support. With no sign of wrong labels nothing is trimmed.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; rows that no other row resembles count towards a number given.
    alpha : "auto" or float, default="auto"
        Ridge, > 0; chosen by leave-one-out likelihood of the labels when ``"auto"``.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number or ``"auto"``, 1/d. Scale X beforehand, with
        ``sklearn.preprocessing.RobustScaler``.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above.
    max_iter : int, default=20
        Most concentration steps.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    inlier_mask_ : bool array of shape (n,)
        Training rows whose label is taken as right and that resemble others.
    outlier_proba_ : array of shape (n,)
        Probability that the label is wrong; 1 for rows that no other row resembles.
    weights_ : array of shape (n,)
        1 for rows of the last fit, else 0.
    loo_score_ : array of shape (n,)
        Margin of the given label under the fit without the row: negative when another class wins.
    loo_proba_ : array of shape (n, n_classes)
        Probability of each class under the fit without the row.
    isolated_ : bool array of shape (n,)
        Rows whose kernel values with all others are next to nothing.
    scale_ : float
        Median size of ``loo_score_``.
    contamination_ : float
        Share of corrupt rows: the mean of ``outlier_proba_``, or the number given.
    agreement_ : array of shape (n,)
        Share of the fits with 0, 20 and 40 per cent trimmed that judge the row as ``inlier_mask_`` does.
    alpha_, clean_, n_iter_
        The ridge, whether nothing was trimmed, and how many concentration steps were taken.

    References
    ----------
    The trimming follows Rousseeuw & Van Driessen (2006); classes, leave-one-out scores and the estimated rate are this
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
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def fit(self, X: Any, y: Any) -> "RobustKernelClassifier":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or a class too small to be trimmed by the number given.
        """
        share = check_contamination(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        check_gamma(self.gamma)
        check_count("max_iter", self.max_iter)
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, type(self).__name__)
        check_class_sizes(self.classes_, codes, share)
        rng = check_random_state(self.random_state)
        kernel = fitted_kernel(self, X)
        design = kernel_design(kernel, X, n_landmarks=self.n_landmarks, rng=rng)
        self.isolated_ = design.isolated & (not is_precomputed(self.kernel))
        rows = np.flatnonzero(~self.isolated_)
        if len(rows) < len(X):
            design = kernel_design(kernel, X[rows], n_landmarks=self.n_landmarks, rng=rng)
            share = None if share is None else max(share * len(X) - self.isolated_.sum(), 0) / len(rows)
        found = fit_labels(design, codes[rows], len(self.classes_), share=share, alpha=self.alpha,
                           max_iter=self.max_iter)
        self._keep(design, found, rows, len(X))
        return self

    def _keep(self, design: Design, found: "LabelFit", rows: NDArray[np.intp], n: int) -> None:
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
        self.outlier_proba_ = _scattered(found.flips.wrong, rows, n, 1.0)
        self.scale_ = float(np.median(np.abs(found.margin)))
        given = check_contamination(self.contamination)
        self.inlier_mask_ = chosen_inliers(self.outlier_proba_, given)
        self.contamination_ = float(self.outlier_proba_.mean()) if given is None else given
        self.agreement_ = np.ones(n)
        self.agreement_[rows] = np.mean(found.votes == self.inlier_mask_[rows], axis=0)


@dataclass(frozen=True)
class LabelFit:
    """A fit: coefficients, row weights, leave-one-out margins, the law of the labels, and each start's votes."""

    coef: Array
    weights: Array
    margin: Array
    flips: Flips
    votes: NDArray[np.bool_]
    alpha: float
    clean: bool
    n_iter: int


def fit_labels(
    design: Design, codes: NDArray[np.intp], C: int, *, share: float | None, alpha: Any, max_iter: int
) -> LabelFit:
    """Fit to the rows whose labels leave-one-out scores support; codes (n,) are class numbers below C."""
    targets = 2.0 * np.eye(C)[codes] - 1
    ones = np.ones(len(codes))
    if alpha == "auto":
        alpha = likeliest_alpha(design, targets, codes, ones, share)
    fit = design.ridge.solve(targets, ones, alpha)
    scores = targets - fit.loo
    flips = explain_labels(scores, codes, share)
    rate = flips.rate if share is None else share
    votes = []
    for trimmed in (0.0, 0.2, 0.4):
        _, judged, _ = _concentrated(design, targets, codes, scores, alpha, 1 - trimmed, 3)
        votes.append(label_margins(judged, codes) > 0)
    clean = rate <= (SLIGHT if share is None else 0)
    weights, n_iter = ones, 1
    if not clean:
        keep, judged, n_iter = _concentrated(design, targets, codes, scores, alpha, max(1 - rate, 0.5), max_iter)
        weights = np.maximum(keep, label_margins(judged, codes) > 0)
        fit = design.ridge.solve(targets, weights, alpha)
        scores = targets - fit.loo
        flips = explain_labels(scores, codes, rate)
    margin = label_margins(scores, codes)
    return LabelFit(fit.coef, weights, margin, flips, np.array(votes), float(alpha), clean, n_iter)


def likeliest_alpha(
    design: Design, targets: Array, codes: NDArray[np.intp], weights: Array, share: float | None
) -> float:
    """Return the ridge under which leave-one-out scores make the labels likeliest, wrong ones allowed for."""
    rows = None if design.exact else design.searched
    some = codes if rows is None else codes[rows]
    given = targets if rows is None else targets[rows]
    fits = design.ridge.path(targets, weights, ALPHAS * design.unit, rows)
    found = [explain_labels(given - fit.loo, some, share).likelihood for fit in fits]
    return float(ALPHAS[np.argmax(found)] * design.unit)


def check_class_sizes(classes: NDArray[Any], codes: NDArray[np.intp], share: float | None) -> None:
    """Refuse to trim a class of one row by a share given."""
    sizes = np.bincount(codes)
    if share and sizes.min() < 2:
        small = classes.tolist()[sizes.argmin()]
        raise ValueError(f"Trimming contamination={share:g} of each class needs at least 2 rows in it. Class {small!r} "
                         "has 1. Drop that class, or use contamination='auto' or 0.")


def _concentrated(
    design: Design, targets: Array, codes: NDArray[np.intp], scores: Array, alpha: float, kept: float, max_iter: int
) -> tuple[Array, Array, int]:
    steps = concentrate_classes(design.ridge, targets, codes, label_margins(scores, codes), alpha=alpha, kept=kept)
    outcome = run(steps, max_iter=max_iter, warn=False)
    keep, judged = outcome.state
    return keep, judged, max(outcome.n_iter, 1)


def _scattered(values: Array, rows: NDArray[np.intp], n: int, other: float) -> Array:
    out = np.full(n, other)
    out[rows] = values
    return out
