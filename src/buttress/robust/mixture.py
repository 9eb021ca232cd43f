"""Kernel regression that finds the corrupt rows by itself: the leave-one-out mixture."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state

from buttress._checks import Array, check_count, check_number, check_X_y, warn_user
from buttress._predicting import ExpansionValues
from buttress.kernels import is_precomputed, warn_of_scale
from buttress.robust.designs import (
    Design,
    check_contamination,
    check_gamma,
    default_kernel,
    kernel_design,
    warn_of_near_copies,
)
from buttress.robust.report import row_keys
from buttress.solvers.copies import drawn_rows
from buttress.solvers.leave_one_out import Fit
from buttress.solvers.mixture import ENOUGH, Explained, Mixed, contaminated, explain, learned, mixture
from buttress.solvers.run import run
from buttress.solvers.trimmed import concentrate, least_scale, lts_scale, smallest

ALPHAS = np.geomspace(1e-2, 1e2, 12)  # in units of k(x, x)
NU = 8.0  # degrees of freedom of good residuals
NU_OF_MANY = 3.0  # and of what landmarks cannot follow
ROUNDS = 1  # of the law of the residuals between two fits: more, and it settles before the fit has had its say
ROUNDS_OF_MANY = 6  # where a fit is dear
SETTLED = 0.1  # change of the log likelihood per row at which it is: less is no reason to suspect anything either
JUDGES = 10_000  # rows that choose the ridge where rows are many
FLOOR = 1e-6  # least scale of a residual, in units of the targets' spread


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
    n_starts : int, default=6
        Random starts of the search, next to three fixed ones.
    n_landmarks : "auto" or int, default="auto"
        Nystroem landmarks; ``"auto"`` is exact up to 3,000 rows and 1,000 landmarks above.
    max_iter : int, default=40
        Most iterations of the mixture fit.
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
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def fit(self, X: Any, y: Any) -> "RobustKernelRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column. Warns of
        rows that all but repeat another, of X out of scale for the kernel, and where half of the rows look corrupt.
        """
        share = check_contamination(self.contamination)
        if self.alpha != "auto":
            check_number("alpha", self.alpha, 0)
        check_gamma(self.gamma)
        check_count("n_starts", self.n_starts, 0)
        check_count("max_iter", self.max_iter)
        X, y = check_X_y(self, X, y, numeric_target=True, single=True)
        self.row_keys_ = row_keys(X, y)
        rng = check_random_state(self.random_state)
        warn_of_near_copies(self.kernel, X)
        kernel = default_kernel(self, X)
        design = kernel_design(kernel, X, n_landmarks=self.n_landmarks, rng=rng)
        warn_of_scale(kernel, X, design.points)
        middle, unit = centre_and_spread(y.astype(np.float64))
        found = robust_fit(design, (y - middle) / unit, share=share, alpha=self.alpha, n_starts=self.n_starts,
                           max_iter=self.max_iter, rng=rng)
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
    design: Design, y: Array, *, share: float | None, alpha: Any, n_starts: int, max_iter: int, rng: Any
) -> Found:
    """Fit plainly and by the mixture, and keep the one that the guard chooses; y (n,) is centred, of spread 1."""
    ridge, floor = design.ridge, max(FLOOR, least_scale(y))
    if share == 0 or not y.any():
        return _unsuspected(design, y, alpha)
    start, votes = search(design, y[design.searched], share=share, floor=floor, n_starts=n_starts, rng=rng)
    crowded = design.steady > 0
    fit_mixture = _mixed_of_many if crowded else _mixed
    mixed, best, n_iter = fit_mixture(design, y, start, share=share, floor=floor, alpha=alpha, max_iter=max_iter)
    votes = votes if design.exact else mixed.inlier[None, :] > 0.5
    fit = mixed.fit if crowded else ridge.solve(y, mixed.inlier, best)
    kept = Found(fit, Explained(mixed.law, mixed.inlier, mixed.likelihood), ridge.missed, alpha=best, clean=False,
                 votes=votes, n_iter=n_iter)
    if share is not None or (crowded and _coarsely_contaminated(design, y[design.searched], start, floor)):
        return kept
    robust = explain(mixed.fit.loo, mixed.fit.spread, ridge.missed, floor=floor)
    plain, plain_alpha = _plain(design, y, best if crowded else alpha, lambda r: float(np.abs(r).sum()))
    known = explain(plain.loo, plain.spread, ridge.missed, floor=floor)
    if contaminated(known, robust):
        return kept
    return Found(plain, known, ridge.missed, alpha=plain_alpha, clean=True, votes=votes, n_iter=n_iter)


def _unsuspected(design: Design, y: Array, alpha: Any) -> Found:
    """Kernel ridge regression with no row suspected."""
    plain, alpha = _plain(design, y, alpha, lambda r: float(r @ r))
    known = explain(plain.loo, plain.spread, design.ridge.missed, floor=FLOOR, share=1e-9)
    ones = np.ones(len(y))
    return Found(plain, Explained(known.law, ones, known.likelihood), design.ridge.missed, alpha=alpha, clean=True,
                 votes=ones[None, :] > 0)


def _plain(design: Design, y: Array, alpha: Any, size: Callable[[Array], float]) -> tuple[Fit, float]:
    """Kernel ridge on all rows, its ridge chosen by the size of the leave-one-out errors.

    Where rows may be corrupt their absolute values are summed: squares would let the few largest choose.
    """
    ones = np.ones(len(y))
    if alpha == "auto":
        fits = design.ridge.path(y, ones, ALPHAS * design.unit, design.searched)
        alpha = float(ALPHAS[np.argmin([size(fit.loo) for fit in fits])] * design.unit)
    return design.ridge.solve(y, ones, alpha), alpha


def _coarsely_contaminated(design: Design, y: Array, start: Mixed, floor: float) -> bool:
    """Say whether the coarse features show already what the guard looks for; a plain fit to all rows is then saved."""
    coarse = design.coarse
    plain = coarse.solve(y, np.ones(len(y)), design.unit)
    return contaminated(explain(plain.loo, plain.spread, coarse.missed, floor=floor),
                        explain(start.fit.loo, start.fit.spread, coarse.missed, floor=floor))


def _mixed(
    design: Design, y: Array, start: Mixed, *, share: float | None, floor: float, alpha: Any, max_iter: int
) -> tuple[Mixed, float, int]:
    """Fit the mixture on all rows from the rows found, then again at the ridge that is best for the rows it kept.

    Returns the mixture, the ridge of the last fit and the number of iterations.
    """
    law: dict[str, Any] = {"nu": NU, "share": share, "floor": floor, "rounds": _rounds(design), "max_iter": max_iter}
    first = design.unit if alpha == "auto" else alpha
    state, n_iter = _mixed_at(design, y, start.inlier, first, first, **law), 0
    if alpha == "auto":
        n_iter, first = state.n_iter, _best_alpha(design, y, state)
        fit = design.ridge.solve(y, state.inlier, first)
        state = mixture(design.ridge, y, fit.loo, fit.spread, alpha=first, **law)
        first = _best_alpha(design, y, state)
    return state, first, n_iter + state.n_iter


def _mixed_of_many(
    design: Design, y: Array, start: Mixed, *, share: float | None, floor: float, alpha: Any, max_iter: int
) -> tuple[Mixed, float, int]:
    """Fit the mixture on many rows a landmark at the steady ridge, then once nearer to the best ridge of the rows kept.

    What is left of good rows is then not noise but what the landmarks cannot follow: it has heavier tails, and it is
    alike over whole corners of X. With a small ridge a few rows dropped in a corner loosen the fit there, so that the
    rows beside them are dropped next; and what is small grows with the rows. The steady ridge, a twentieth of the mean
    eigenvalue of the Gram matrix, holds the corners but hides bad rows near the curve. So rows are judged once more at
    the mean (geometric) of it and the best ridge, and the best is only fitted to those kept.
    """
    ridge, part = design.ridge, drawn_rows(len(y), ENOUGH)
    law: dict[str, Any] = {"share": share, "floor": floor}
    state = _mixed_at(design, y, start.inlier, design.unit, design.steady, nu=NU_OF_MANY, rounds=ROUNDS_OF_MANY,
                      max_iter=max_iter, tol=SETTLED, **law)
    best = _best_alpha_of_many(design, y, state.inlier) if alpha == "auto" else alpha
    fit, missed = ridge.solve(y, state.inlier, float(np.sqrt(best * design.steady))), ridge.missed[part]
    found = learned(state.law, fit.loo[part], fit.spread[part], missed, rounds=ROUNDS_OF_MANY, **law)
    inlier, total = found.inlier_probability(fit.loo, found.spread(fit.spread, ridge.missed))
    fit = ridge.solve(y, inlier, best)
    found = found.refitted(fit.loo[part], fit.spread[part], inlier[part], missed=missed, **law)
    return Mixed(fit, found, inlier, total / len(y), state.n_iter + 1), best, state.n_iter + 1


def _mixed_at(design: Design, y: Array, inlier: Array, first: float, alpha: float, **law: Any) -> Mixed:
    """Fit the mixture at ridge ``alpha`` from the probabilities of the searched rows, fitted at ridge ``first``."""
    weights = np.zeros(len(y))
    weights[design.searched] = inlier
    fit = design.ridge.solve(y, weights, first)
    return mixture(design.ridge, y, fit.loo, fit.spread, alpha=alpha, **law)


def _best_alpha_of_many(design: Design, y: Array, inlier: Array) -> float:
    """Return the ridge of least squared leave-one-out error of the good rows, on at most 10,000 rows.

    No error is bounded: the good rows of a corner where others were dropped are the only ones to speak for a ridge that
    holds the fit there.
    """
    rows = np.arange(len(y))[drawn_rows(len(y), JUDGES)]
    alphas = ALPHAS[::2] * design.unit
    errors = [float(inlier[rows] @ fit.loo**2) for fit in design.ridge.path(y, inlier, alphas, rows)]
    return float(alphas[np.argmin(errors)])


def _best_alpha(design: Design, y: Array, state: Mixed) -> float:
    """Return the ridge of least bounded leave-one-out error of the good rows, their weights held fixed.

    Weights that followed the ridge would let each ridge choose the rows it likes.
    """
    rows, ridge, law = design.searched, design.ridge, state.law
    fits = ridge.path(y, state.inlier, ALPHAS * design.unit, rows)
    missed = None if ridge.missed is None else ridge.missed[rows]
    errors = [float(state.inlier[rows] @ np.minimum(np.abs(fit.loo), 4 * law.scale * law.spread(fit.spread, missed))**2)
              for fit in fits]
    return float(ALPHAS[np.argmin(errors)] * design.unit)


def search(
    design: Design, y: Array, *, share: float | None, floor: float, n_starts: int, rng: Any
) -> tuple[Mixed, NDArray[np.bool_]]:
    """Concentrate from several starts on coarse features; of the three best, return the likeliest mixture.

    Starts: all rows, the rows nearest the centre, the rows a trimmed fit from there keeps, and random tenths. The
    second array, (starts, n), says which rows each start took as good.
    """
    n, ridge = len(y), design.coarse
    h = max(int(0.55 * n), min(n, 2))
    starts = [np.ones(n), smallest(np.abs(y), h), smallest(np.abs(y), max(n // 4, 1))]
    for _ in range(n_starts):
        part = np.zeros(n)
        part[rng.permutation(n)[: min(n, max(n // 10, 5))]] = 1
        starts.append(part)
    ends = []
    for k, u in enumerate(starts):
        alpha = design.unit * (10.0 if k == 0 else 1.0)
        steps = concentrate(ridge, y, u, alpha=alpha, h=h, leave_out=True)
        ends.append(run(steps, max_iter=10, warn=False, inner=True))
    votes = np.array([_kept(end.state[0], floor) for end in ends])
    best = sorted(ends, key=lambda end: end.objective)[:3]
    states = [mixture(ridge, y, end.state[0].loo, end.state[0].spread, alpha=design.unit, max_iter=12, nu=NU,
                      share=share, floor=floor, rounds=_rounds(design)) for end in best]
    return max(states, key=lambda state: state.likelihood), votes


def _rounds(design: Design) -> int:
    return ROUNDS if design.exact else ROUNDS_OF_MANY


def _kept(fit: Fit, floor: float) -> NDArray[np.bool_]:
    sigma = np.abs(fit.loo / fit.spread)
    return sigma <= 2.5 * max(lts_scale(sigma, len(sigma) // 2 + 1), floor)


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
    """Return the rows more likely good than not; with a share given, all but that share, the likeliest outliers."""
    if share is None:
        return outlier_proba <= 0.5
    mask = np.ones(len(outlier_proba), dtype=bool)
    mask[np.argsort(-outlier_proba, kind="stable")[: round(share * len(mask))]] = False
    return mask
