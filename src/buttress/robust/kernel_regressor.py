"""Kernel regression that finds the corrupt rows by itself: the leave-one-out mixture."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from buttress._checks import (
    Array,
    InterruptedWarning,
    check_count,
    check_limits,
    check_number,
    check_X_y,
    warn_user,
)
from buttress._predicting import ExpansionValues, sparse_or_dense
from buttress._threads import own_threads
from buttress.kernels import is_precomputed, warn_of_scale
from buttress.robust.design import (
    Design,
    check_contamination,
    check_gamma,
    default_kernel,
    design_threads,
    kernel_design,
    warn_of_near_copies,
)
from buttress.robust.regression_fit import ALPHAS, NU, mixed_at, mixed_of_few, mixed_of_many, rounds_of, search
from buttress.robust.report import row_keys
from buttress.solvers.contamination.residual_law import Explained, Mixed, contaminated, explain
from buttress.solvers.contamination.trimmed import least_scale, lts_scale
from buttress.solvers.ridge.leave_one_out import Fit
from buttress.solvers.run import Budget

FLOOR = 1e-6  # least scale of a residual, in units of the targets' spread
GROSS = 100.0  # deviations, of residuals and of targets, beyond which a row is bad whatever the guard says
MANY_BAD = 0.25  # share of rows from which it is asked whether they are bad at random


class RobustKernelRegressor(ExpansionValues, RegressorMixin, BaseEstimator):
    """Kernel ridge regression fitted to the good rows, told neither which nor how many they are.

    Minimises sum_i g_i (f(x_i) - y_i)^2 + alpha ||f||^2 with g_i the probability that row i is good, from a mixture of
    Student's t and a wide outlier density for the residual of each row under the fit without it. Where the mixture
    foretells unseen rows hardly better than plain kernel ridge does, the data are taken as clean and the plain fit
    stays.

    Parameters
    ----------
    contamination : "auto" or float in [0, 0.5), default="auto"
        Share of corrupt rows; a number is taken at its word, without the guard for clean data.
    alpha : "auto" or float, default="auto"
        Ridge, > 0, in KernelRidge's units; chosen by leave-one-out error of the good rows when ``"auto"``.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`; gamma is a number or ``"auto"``: for the RBF kernel the mean of four, with gamma
        1/d, .3/d, .1/d and .03/d, for others 1/d. Scale X beforehand, with ``sklearn.preprocessing.RobustScaler``.
        Where fewer than 15 in 100 entries of X are not 0, d is in the four the median of the squared lengths of rows.
    n_starts : int, default=6
        Random starts of the search, next to three fixed ones.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above.
    max_iter : int, default=40
        Most iterations of the mixture fit.
    max_time : float or None, default=None
        Seconds after which no more of them are begun, nor a ridge chosen; what is then known is fitted. A few fits are
        always made.
    progress : bool, default=False
        Show a progress line.
    random_state : int, RandomState or None

    Attributes
    ----------
    inlier_mask_ : bool array of shape (n,)
        Training rows taken as good.
    outlier_proba_ : array of shape (n,)
        Probability that a row is corrupt.
    weights_ : array of shape (n,)
        Weight of each row in the last fit, 0 to 1.
    loo_residual_ : array of shape (n,)
        y_i minus what the fit without row i predicts for it, rows of equal x being left out with it. With more than
        20 rows a landmark the correction is estimated, except where it is large.
    loo_sigma_ : array of shape (n,)
        The same in standard deviations to be expected of it.
    scale_ : float
        Scale of the noise of the good rows.
    contamination_ : float
        Share of corrupt rows: the mean of ``outlier_proba_``, or the number given.
    agreement_ : array of shape (n,)
        Share of the starts that judge the row as ``inlier_mask_`` does; 1 where the fit is not exact.
    alpha_ : float
    clean_ : bool
        Whether the guard found nothing wrong.
    row_keys_ : array of shape (n,)
        By which :func:`outlier_report` knows the training rows again.
    n_iter_ : int
        Iterations of the mixture fit.

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

    def fit(self, X: Any, y: Any) -> "RobustKernelRegressor":
        """Fit to X of shape (n, d), dense or sparse, and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column. Warns of
        dense rows that all but repeat another, of X out of scale for the kernel, and where half of the rows look
        corrupt.
        """
        budget = Budget(self.max_time, progress=self.progress, name=type(self).__name__)
        share = check_contamination(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        check_gamma(self.gamma)
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        check_limits(None, self.max_time)
        X, y = check_X_y(self, X, y, numeric_target=True, sparse=True, single=True)
        self.row_keys_ = row_keys(X, y)
        rng = check_random_state(self.random_state)
        warn_of_near_copies(self.kernel, X)
        kernel = default_kernel(self, X)
        middle, unit = centre_and_spread(y.astype(np.float64))
        with design_threads(kernel, X, self.n_landmarks):
            design = kernel_design(kernel, X, n_landmarks=self.n_landmarks, rng=rng)
            warn_of_scale(kernel, X, design.points)
            found = robust_fit(design, (y - middle) / unit, share=share, alpha=self.alpha, n_starts=self.n_starts,
                               max_iter=self.max_iter, rng=rng, budget=budget)
        budget.tell(found.n_iter)
        self.expansion_ = design.expand(found.coef[:, None] * unit)
        self.intercept_, self.alpha_, self.clean_ = middle, found.alpha, found.clean
        self.n_iter_ = found.n_iter
        self.weights_, self.outlier_proba_ = found.weights, 1 - found.explained.inlier
        self.loo_residual_, self.loo_sigma_ = found.loo * unit, found.sigma
        self.scale_ = found.explained.law.scale * unit
        self.inlier_mask_ = chosen_inliers(self.outlier_proba_, share)
        self.contamination_ = float(self.outlier_proba_.mean()) if share is None else share
        if self.contamination_ >= 0.5:
            warn_user(f"{self.contamination_:.0%} of the rows look corrupt, and of more than half nothing can be said. "
                      "The kernel may not suit X: scale its columns (RobustScaler), or give gamma.")
        self.agreement_ = (np.mean(found.votes == self.inlier_mask_[None, :], axis=0) if design.exact else
                           np.ones(len(y)))
        return self


class Found:
    """What :func:`robust_fit` hands back; loo and sigma are leave-one-out residuals, plain and standardised."""

    def __init__(self, fit: Fit, explained: Explained, missed: Array | None, *, alpha: float, clean: bool,
                 votes: NDArray[np.bool_], n_iter: int = 1):
        self.coef, self.loo, self.weights, self.explained = fit.coef, fit.loo, fit.weight, explained
        self.sigma = fit.loo / (explained.law.scale * explained.law.spread(fit.spread, missed))
        self.alpha, self.clean, self.votes, self.n_iter = alpha, clean, votes, n_iter


def robust_fit(
    design: Design, y: Array, *, share: float | None, alpha: Any, n_starts: int, max_iter: int, rng: Any,
    budget: Budget,
) -> Found:
    """Fit plainly and by the mixture, and keep the one that the guard chooses; y (n,) is centred, of spread 1.

    Once rows are found Ctrl-C leaves a model of them.
    """
    floor = max(FLOOR, least_scale(y))
    if share == 0 or not y.any():
        return _unsuspected(design, y, alpha, np.ones(len(y)))
    with own_threads():  # the products of the search are small
        start, votes = search(design, y[design.searched], share=share, floor=floor, n_starts=n_starts, rng=rng,
                              budget=budget)
    law = {"share": share, "floor": floor, "max_iter": max_iter, "budget": budget}
    try:
        return _guarded(design, y, start, votes, alpha, law)
    except KeyboardInterrupt:
        warn_user("The fit was interrupted. The model is of the rows that the search took as good, and was not "
                  "compared with plain kernel ridge.", InterruptedWarning)
        rounds = {"nu": NU, "rounds": rounds_of(design), **law, "max_iter": 1}
        ridge = design.unit if alpha == "auto" else alpha
        state = mixed_at(design, y, start.inlier, ridge, ridge, **rounds)
        return _kept_fit(design, state, state.fit, ridge, 1, votes)


def _kept_fit(design: Design, mixed: Mixed, fit: Fit, alpha: float, n_iter: int, votes: NDArray[np.bool_]) -> Found:
    known = Explained(mixed.law, mixed.inlier, mixed.likelihood)
    return Found(fit, known, design.ridge.missed, alpha=alpha, clean=False, votes=votes, n_iter=n_iter)


def _guarded(
    design: Design, y: Array, start: Mixed, votes: NDArray[np.bool_], alpha: Any, law: dict[str, Any]
) -> Found:
    """Fit by the mixture from the rows found, and plainly if need be, and keep one of the two."""
    ridge, crowded = design.ridge, design.steady > 0
    mixed, best, n_iter = (mixed_of_many if crowded else mixed_of_few)(design, y, start, alpha=alpha, **law)
    fit = mixed.fit if crowded else ridge.solve(y, mixed.inlier, best)
    kept = _kept_fit(design, mixed, fit, best, n_iter, votes)
    if law["share"] is not None:
        return kept
    try:
        return _chosen(design, y, start, mixed, kept, alpha, law)
    except KeyboardInterrupt:
        warn_user("The fit was interrupted. The robust fit stays; it was not compared with plain kernel ridge.",
                  InterruptedWarning)
        return kept


def _chosen(
    design: Design, y: Array, start: Mixed, mixed: Mixed, kept: Found, alpha: Any, law: dict[str, Any]
) -> Found:
    """Return the robust fit ``kept``, or plain kernel ridge: as the guard says, or where bad rows lie together."""
    # One row at 1e9 makes any fit better than the plain one.
    used = np.where((np.abs(kept.sigma) > GROSS) & (np.abs(kept.loo) > GROSS), 0.0, 1.0)
    crowded, found = design.steady > 0, kept
    if not (crowded and _coarsely_contaminated(design, y[design.searched], used[design.searched], start, law["floor"])):
        given = kept.alpha if crowded or law["budget"].spent() else alpha
        found = _better(design, y, used, mixed, kept, given, law["floor"])
    bad = found.explained.inlier < 0.5
    if found.clean or not lie_together(design, bad):
        return found
    plain = _unsuspected(design, y, alpha, used)
    if np.median(np.abs(plain.loo[bad])) > 0.5 * np.median(np.abs(found.loo[bad])):
        return found  # noise in one region, which no fit foretells
    warn_user(f"{bad.mean():.0%} of the rows contradict the others, but they lie together in X, as where a function "
              "has a step: none is taken as corrupt, and plain kernel ridge is fitted. If they are corrupt, say so by "
              "contamination=.")
    return plain


def _better(design: Design, y: Array, used: Array, mixed: Mixed, kept: Found, alpha: Any, floor: float) -> Found:
    """Return the robust fit ``kept`` or kernel ridge on the rows of weight 1, as the guard says."""
    missed = design.ridge.missed
    robust = explain(mixed.fit.loo, mixed.fit.spread, missed, floor=floor)
    plain, alpha = _plain(design, y, used, alpha, lambda r: float(np.abs(r).sum()))
    known = explain(plain.loo, plain.spread, missed, floor=floor)
    if contaminated(known, robust):
        return kept
    return Found(plain, known, missed, alpha=alpha, clean=bool(used.all()), votes=kept.votes, n_iter=kept.n_iter)


def lie_together(design: Design, bad: NDArray[np.bool_]) -> bool:
    """Say whether bad rows, a quarter of all or more, can be told from the place of the rows beside them.

    Kernel ridge explains, of which rows are bad, at most a fifth of the variance left out where they are bad at random,
    three quarters where a step of the function lets one side contradict the other. Isolated rows have none beside them.
    """
    if np.mean(bad & ~design.isolated) < MANY_BAD:
        return False
    target = bad - bad.mean()
    fit = design.ridge.solve(target, np.ones(len(bad)), max(design.unit, design.steady))
    return bool(fit.loo @ fit.loo < 0.5 * target @ target)


def _unsuspected(design: Design, y: Array, alpha: Any, used: Array) -> Found:
    """Kernel ridge regression with no row suspected but those of weight 0 in ``used`` (n,)."""
    plain, alpha = _plain(design, y, used, alpha, lambda r: float(r @ r))
    known = explain(plain.loo, plain.spread, design.ridge.missed, floor=FLOOR, share=1e-9)
    return Found(plain, Explained(known.law, used, known.likelihood), design.ridge.missed, alpha=alpha,
                 clean=bool(used.all()), votes=used[None, :] > 0)


def _plain(
    design: Design, y: Array, used: Array, alpha: Any, size: Callable[[Array], float]
) -> tuple[Fit, float]:
    """Kernel ridge on the rows of weight 1, its ridge chosen by the size of the leave-one-out errors.

    Where rows may be corrupt their absolute values are summed: squares would let the few largest choose.
    """
    if alpha == "auto":
        fits = design.ridge.path(y, used, ALPHAS * design.unit, design.searched)
        alpha = float(ALPHAS[np.argmin([size(fit.loo * used[design.searched]) for fit in fits])] * design.unit)
    return design.ridge.solve(y, used, alpha), alpha


def _coarsely_contaminated(design: Design, y: Array, used: Array, start: Mixed, floor: float) -> bool:
    """Say whether the coarse features show already what the guard looks for; a plain fit to all rows is then saved."""
    coarse = design.coarse
    plain = coarse.solve(y, used, design.unit)
    return contaminated(explain(plain.loo, plain.spread, coarse.missed, floor=floor),
                        explain(start.fit.loo, start.fit.spread, coarse.missed, floor=floor))


def centre_and_spread(y: Array) -> tuple[float, float]:
    """Return the median of y and the scale of its middle half; all but one target may be equal."""
    middle = float(np.median(y))
    off = y - middle
    for part in (len(y) // 2 + 1, 3 * len(y) // 4 + 1, len(y)):
        scale = lts_scale(off, part)
        if scale > 0:
            return middle, scale
    return middle, 1.0


def chosen_inliers(outlier_proba: Array, share: float | None) -> NDArray[np.bool_]:
    """Return the rows more likely good than not; with a share given, all but that share, the likeliest outliers.

    Of rows that nothing speaks against none is an outlier, whatever the share.
    """
    if share is None:
        return outlier_proba <= 0.5
    mask = np.ones(len(outlier_proba), dtype=bool)
    mask[np.argsort(-outlier_proba, kind="stable")[: round(share * len(mask))]] = False
    return mask | (outlier_proba == 0)
