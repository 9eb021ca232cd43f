"""Kernel classification that finds the wrong labels by itself: concentration, or on many rows a likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state

from buttress._checks import Array, check_classes, check_count, check_number, check_X_y, warn_user
from buttress._predicting import ExpansionPredictions
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import Kernel, is_precomputed
from buttress.robust.designs import (
    LANDMARKS,
    Design,
    check_contamination,
    check_gamma,
    default_kernel,
    kernel_design,
    warn_of_near_copies,
)
from buttress.robust.mixture import chosen_inliers
from buttress.robust.report import row_keys
from buttress.solvers.balanced import (
    RATES,
    Flips,
    concentrate_classes,
    explain_labels,
    label_likelihoods,
    label_margins,
)
from buttress.solvers.noisy_logistic import NoisyLogistic
from buttress.solvers.run import run
from buttress.solvers.threads import threads_for

ALPHAS = np.geomspace(0.01, 100, 12)  # in units of the variance of the features; more smooths away small classes
FALLING = np.geomspace(1, 1e-3, 4)  # the ridges of logistic regression, in units of k(x, x)
SMOOTH = 25.0  # the ridge while rows are being chosen, in the same units: wrong labels must not be fitted
RELABELLED = 3  # fits to the likeliest labels; more of them and the fit believes itself rather than the labels
DETAILED = 1000  # rows from which the exact fit is compared with the one for many rows
GAIN = 6.0  # nats by which that must foretell the labels better
MANY = 0.1  # a larger share of isolated rows is a sign of columns that were not scaled
SLIGHT = 0.02  # an estimated rate of wrong labels at or below this is no reason to trim


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
        two classes, or a class too small to be trimmed by the number given. Warns of rows that all but repeat another,
        and of many that resemble none.
        """
        share = check_contamination(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        check_gamma(self.gamma)
        check_count("max_iter", self.max_iter)
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, type(self).__name__)
        check_class_sizes(self.classes_, codes, share)
        self.row_keys_ = row_keys(X, codes.astype(np.float64))
        rng = check_random_state(self.random_state)
        warn_of_near_copies(self.kernel, X)
        kernel = default_kernel(self, X)
        with threads_for(len(X) ** 3):
            self._fit_design(kernel, X, codes, share, rng)
        return self

    def _fit_design(self, kernel: Kernel, X: Array, codes: NDArray[np.intp], share: float | None, rng: Any) -> None:
        """Fit to the rows that resemble others, exactly and where that is worth comparing on landmarks."""
        design = kernel_design(kernel, X, n_landmarks=self.n_landmarks, rng=rng)
        self.isolated_ = design.isolated & (not is_precomputed(self.kernel))
        rows = np.flatnonzero(~self.isolated_)
        warn_of_isolated(self.classes_, codes, self.isolated_)
        if len(rows) < len(X):
            design = kernel_design(kernel, X[rows], n_landmarks=self.n_landmarks, rng=rng)
            share = None if share is None else max(share * len(X) - self.isolated_.sum(), 0) / len(rows)
        found = fit_labels(design, codes[rows], len(self.classes_), share=share, alpha=self.alpha,
                           max_iter=self.max_iter)
        if design.exact and len(rows) >= DETAILED and self.alpha == self.n_landmarks == "auto":
            other = kernel_design(kernel, X[rows], n_landmarks=min(LANDMARKS, len(rows) - 1), rng=rng)
            if not other.exact:  # a Gram matrix has no landmarks
                detailed = fit_many_labels(other, codes[rows], len(self.classes_), share=share, alpha="auto")
                if (detailed.likelihood - found.likelihood) * len(rows) > GAIN:
                    design, found = other, detailed
        self._keep(design, found, rows, len(X))

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
        # Nothing speaks for or against the label of an isolated row: it is as likely wrong as any.
        self.outlier_proba_ = _scattered(found.flips.wrong, rows, n, float(found.flips.wrong.mean()))
        self.scale_ = float(np.median(np.abs(found.margin)))
        given = check_contamination(self.contamination)
        self.inlier_mask_ = chosen_inliers(np.where(self.isolated_, 1.0, self.outlier_proba_), given)
        self.contamination_ = float(self.outlier_proba_.mean()) if given is None else given
        self.agreement_ = np.ones(n)
        self.agreement_[rows] = np.mean(found.votes == self.inlier_mask_[rows], axis=0)


@dataclass(frozen=True)
class LabelFit:
    """A fit: coefficients, row weights, leave-one-out margins, the law of the labels, and each start's votes.

    ``likelihood`` is the log likelihood per row of labels before any was changed, so that fits can be compared.
    """

    coef: Array
    weights: Array
    margin: Array
    flips: Flips
    votes: NDArray[np.bool_]
    alpha: float
    clean: bool
    n_iter: int
    likelihood: float


def fit_labels(
    design: Design, codes: NDArray[np.intp], C: int, *, share: float | None, alpha: Any, max_iter: int
) -> LabelFit:
    """Concentrate on rows whose labels leave-one-out scores support; then fit all, with the likeliest labels.

    codes (n,) are class numbers below C.
    """
    if not design.exact and design.ridge.features.stored is not None:
        return fit_many_labels(design, codes, C, share=share, alpha=alpha)
    targets = 2.0 * np.eye(C) - 1
    found = likeliest_fit(design, targets[codes], codes, share, alpha)
    flips = explain_labels(found.scores, codes, share)
    likelihood = flips.likelihood
    rate = flips.rate if share is None else share
    # Where rows are many, errors of the labels average out in the plain fit, and what trimming blurs is lost for good.
    clean = not design.exact or rate <= (SLIGHT if share is None else 0)
    steady = SMOOTH * feature_variance(design) if alpha == "auto" else alpha
    trims = [(1.0, 3), (0.8, 3), (0.6, 3)]
    if not clean:
        trims.append((max(1 - rate, 0.5), max_iter))
    ends = [_concentrated(design, targets, codes, found.scores, steady, kept, most) for kept, most in trims]
    votes = np.array([label_margins(judged, codes) > 0 for judged, _ in ends[:3]])
    weights, n_iter = np.ones(len(codes)), 1
    if not clean:
        flips, n_iter = explain_labels(ends[3][0], codes, rate), ends[3][1]
        for _ in range(RELABELLED):
            likely = flips.true_class(codes)
            found = likeliest_fit(design, targets[likely], codes, rate, alpha)
            flips = explain_labels(found.scores, codes, rate)
        weights = (likely == codes).astype(np.float64)
    margin = label_margins(found.scores, codes)
    return LabelFit(found.coef, weights, margin, flips, votes, found.alpha, clean, n_iter, likelihood)


def fit_many_labels(design: Design, codes: NDArray[np.intp], C: int, *, share: float | None, alpha: Any) -> LabelFit:
    """Fit logistic regression that allows for wrong labels, on landmark features; votes are of the ridges tried."""
    alphas = FALLING * design.unit if alpha == "auto" else np.array([float(alpha)])
    found = NoisyLogistic(design.ridge.features, codes, C, design.ridge.groups).fit(alphas, share)
    margin = label_margins(found.scores, codes)
    return LabelFit(found.coef, np.ones(len(codes)), margin, found.flips, found.votes, found.alpha, True, found.n_iter,
                    found.flips.likelihood)


@dataclass(frozen=True)
class Scored:
    """Coefficients of a fit, the scores (n, C) of each row left out, and the ridge."""

    coef: Array
    scores: Array
    alpha: float


def likeliest_fit(design: Design, targets: Array, codes: NDArray[np.intp], rate: float | None, alpha: Any) -> Scored:
    """Fit to targets (n, C) with the ridge, if "auto", under which the scores make the given labels likeliest.

    Wrong ones are allowed for, at a ``rate`` that is given or to be found.
    """
    ones = np.ones(len(codes))
    if alpha == "auto":
        rows = None if design.exact else design.searched
        some, aims = (codes, targets) if rows is None else (codes[rows], targets[rows])
        alphas = ALPHAS * feature_variance(design)
        fits = design.ridge.path(targets, ones, alphas, rows)
        rates = RATES if rate is None else np.array([rate])
        likelihood = [label_likelihoods(aims - fit.loo, some, rates).max() for fit in fits]
        alpha = alphas[np.argmax(likelihood)]
    fit = design.ridge.solve(targets, ones, alpha)
    return Scored(fit.coef, targets - fit.loo, float(alpha))


def feature_variance(design: Design) -> float:
    """Return the mean squared distance of a row from the mean of all in feature space: what tells rows apart."""
    return float(design.coarse.Z.var(axis=0).sum()) or design.unit


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


def _concentrated(
    design: Design, targets: Array, codes: NDArray[np.intp], scores: Array, alpha: float, kept: float, max_iter: int
) -> tuple[Array, int]:
    """Return the leave-one-out scores (n, C) after concentration on the share ``kept``, and how many steps it took."""
    steps = concentrate_classes(design.ridge, targets[codes], codes, label_margins(scores, codes), alpha=alpha,
                                kept=kept)
    outcome = run(steps, max_iter=max_iter, warn=False, inner=True)
    return outcome.state[1], max(outcome.n_iter, 1)


def _scattered(values: Array, rows: NDArray[np.intp], n: int, other: float) -> Array:
    out = np.full(n, other)
    out[rows] = values
    return out
