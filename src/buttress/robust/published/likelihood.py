"""Trimmed maximum likelihood of a generalised linear model: keep the rows that fit best, fit, repeat.

    S <- the h rows of S0 with the least -log f(y_i | x_i'beta),   beta <- argmin_{|beta| <= R} over S of their sum

Neither of the two steps raises the trimmed negative log-likelihood. To keep beta in the ball, a penalty mu |beta|^2 / 2
is added, with the mu whose minimiser has norm R.
Source: Awasthi, Das, Kong & Sen (2022); eqs. 175 and 176 of Rathnashyam & Gittens (2023).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.optimize import brentq
from scipy.special import expit, gammaln
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import Report, all_or_nothing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_classes,
    check_contamination,
    check_limits,
    check_number,
    check_option,
    check_X_y,
)
from buttress._predicting import Decisions
from buttress._state import Attribute, State
from buttress._types import MatrixLike, Rows, VectorLike
from buttress._weights import check_weights, class_totals, repeated_rows
from buttress.expansion import KernelExpansion, binary_contrasts
from buttress.kernels import Linear
from buttress.robust.published.linear import LinearModel
from buttress.robust.report import of_rows_given
from buttress.solvers.contamination.trimmed import smallest, trimming
from buttress.solvers.run import Steps

SHORTEST_STEP = 1e-8  # share of a Newton step: shorter ones are not taken, because the objective falls no further


@dataclass(frozen=True)
class Family:
    """An exponential family in its natural parameter t: -log f = cumulant(t) - y t + base(y)."""

    cumulant: Callable[[Array], Array]
    mean: Callable[[Array], Array]
    variance: Callable[[Array], Array]
    base: Callable[[Array], Array]

    def loss(self, y: Array, t: Array) -> Array:
        """-log f of each row, up to a constant."""
        return self.cumulant(t) - y * t + self.base(y)


def _exp(t: Array) -> Array:
    return np.exp(np.minimum(t, 50))  # too long a step would overflow


FAMILIES = {
    "normal": Family(lambda t: t**2 / 2, lambda t: t, np.ones_like, lambda y: y**2 / 2),
    "poisson": Family(_exp, _exp, _exp, lambda y: gammaln(y + 1)),
    "binomial": Family(lambda t: np.logaddexp(0, t), expit, lambda t: expit(t) * expit(-t), np.zeros_like),
}


@dataclass(kw_only=True, eq=False, repr=False)
class TrimmedLikelihood(LinearModel):
    """The parameters and the alternation of the two trimmed-likelihood estimators."""

    _state = State(Attribute("inlier_mask_", "bool", "n_rows", "Rows kept at the end."))

    contamination: float = 0.2
    radius: float | None = None

    def _alternate(
        self, X: Array, y: Array, sample_weight: VectorLike | None, family: str, report: Report
    ) -> None:
        """Trim to (1 - 2 contamination) n of the (1 - contamination) n rows of least |y|, and set the coefficients."""
        contamination = check_contamination(self.contamination)
        check_limits(self.max_iter, self.max_time)
        radius = np.inf if self.radius is None else check_number("radius", self.radius, 0)
        rows = in_own_order(repeated_rows(sample_weight, X), X, y)
        y = y[rows]
        n = len(y)
        middle = 0.0
        if family == "normal" and self.radius is None:
            y, middle = self._centred(y)
        pool = smallest(np.abs(y), max(1, round((1 - contamination) * n))) > 0
        h = max(1, round((1 - 2 * contamination) * n))
        steps = trimmed_likelihood(self._columns(X[rows]), y, FAMILIES[family], pool, h, radius)
        beta, self.inlier_mask_ = self._run(steps, report, 0.0).state  # until the kept rows repeat
        self._set_coef(beta)
        self.intercept_ += middle
        of_rows_given(self, rows, len(X))


@dataclass(kw_only=True, eq=False, repr=False)
class TrimmedLikelihoodRegressor(RegressorMixin, TrimmedLikelihood):
    """Trimmed maximum likelihood of a linear model of normal or Poisson targets.

    First discards the contamination n rows with the largest \\|y\\|; for normal targets with an intercept and no
    radius, those farthest from the median. Then alternates between the (1 - 2 contamination) n most likely rows and
    their maximum-likelihood coefficients.

    Parameters
    ----------
    contamination : float in [0, 0.5), default=0.2
        Share of the rows that are corrupt, as you estimate it; twice as many are trimmed.
    family : {"normal", "poisson"}, default="normal"
        Poisson targets are counts, with log-linear mean.
    radius : float or None, default=None
        Largest norm of the coefficients (the intercept among them), > 0; None for no limit.
    fit_intercept : bool, default=True
    max_iter, max_time : int, float or None
        Most alternations (None for no limit) and seconds; few are needed.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Awasthi, Das, Kong & Sen, Trimmed maximum likelihood estimation for robust generalized linear model, NeurIPS 2022;
    appendix F.2 of Rathnashyam & Gittens (2023). Neither page of the appendix says how the first set is chosen; least
    \\|y\\| is used here, which keeps multiplied targets out.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import TrimmedLikelihoodRegressor
    >>> X = np.arange(20.0)[:, None]
    >>> y = 3 * X[:, 0] + 1
    >>> y[:4] += 500
    >>> TrimmedLikelihoodRegressor(contamination=0.2).fit(X, y).coef_.round(3)
    array([3.])
    """

    _state = State()  # that of TrimmedLikelihood, listed above

    family: str = "normal"

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        A row of weight w, a whole number, is w equal rows. Not all of them may be kept: ``inlier_mask_`` is that of one
        of them. Ties are broken by the values of rows, not by their places.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), weights
        that are not whole and positive or 0, or negative targets of the Poisson family.
        """
        check_option("family", self.family, ("normal", "poisson"))
        X, y = check_X_y(self, X, y, numeric_target=True)
        y = y.astype(np.float64)
        if self.family == "poisson" and (y < 0).any():
            raise ValueError(f"Poisson targets must not be negative. Got {y.min():g} in row {y.argmin()}. "
                             "Use family='normal'.")
        self._alternate(X, y, sample_weight, self.family, step_callback(self, X, y, self.max_iter))
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Return the mean of the target for each row of X (n, d)."""
        return FAMILIES[self.family].mean(super().predict(X))


class TrimmedLikelihoodClassifier(Decisions, ClassifierMixin, TrimmedLikelihood):
    """Trimmed maximum likelihood of linear logistic regression, two classes.

    Alternates between the (1 - 2 contamination) n most likely rows and their maximum-likelihood coefficients. Trimming
    by likelihood alone can drop a whole class; :class:`buttress.KernelClassifier` with ``balanced=True`` cannot.

    Parameters
    ----------
    contamination, radius, fit_intercept, max_iter, max_time, progress
        As in :class:`TrimmedLikelihoodRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import TrimmedLikelihoodClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> bool(TrimmedLikelihoodClassifier(contamination=0.05).fit(scale(X), y).score(scale(X), y) > 0.9)
    True
    """

    _state = State(Attribute("classes_", "label", "2"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> Self:
        """Fit to X of shape (n, d) and labels y of shape (n,) of two classes; returns self.

        Weights as in :class:`TrimmedLikelihoodRegressor`. Raises ValueError for parameters out of range, NaN, inf or
        entries beyond 1e100 (naming the column), another number of classes, weights that are not whole and positive or
        0, or a class without weight.
        """
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "TrimmedLikelihoodClassifier")
        if len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. "
                             f"Got {len(self.classes_)} classes. Use KernelClassifier(kernel='linear').")
        report = step_callback(self, X, y, self.max_iter)
        class_totals(self.classes_, codes, check_weights(sample_weight, X))
        self._alternate(X, codes.astype(np.float64), sample_weight, "binomial", report)
        return self

    @property
    def expansion_(self) -> KernelExpansion:
        """The log-odds as an expansion in the linear kernel, for attacks."""
        check_is_fitted(self)
        return KernelExpansion(Linear(), self.coef_[None, :], np.ones((1, 1)), np.array([self.intercept_]))

    @property
    def contrasts_(self) -> Array:
        """The contrasts of scores that decide the class, for attacks."""
        return binary_contrasts()

    def _raw_scores(self, X: MatrixLike) -> Array:
        return TrimmedLikelihood.predict(self, X)[:, None]


def in_own_order(rows: slice | Rows, X: Array, y: Array) -> Rows:
    """Return the numbered rows in an order that depends on their values alone: a fixed permutation of the sorted ones.

    The first set of rows has ties (all labels of a class are), which are broken by place.
    """
    pairs = np.column_stack([X, y])[rows]
    return np.arange(len(X))[rows][np.lexsort(pairs.T)][np.random.default_rng(0).permutation(len(pairs))]


def trimmed_likelihood(
    X: Array, y: Array, family: Family, pool: NDArray[np.bool_], h: int, radius: float
) -> Steps:
    """Yield (beta, the h rows of ``pool`` that it was fitted to); the objective is the trimmed negative log-likelihood.
    """
    last = np.zeros(X.shape[1])  # Newton's method goes on from it: rows that fit exactly then stay the same

    def judge(beta: Array, _: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], float]:
        loss = np.where(pool, family.loss(y, X @ beta), np.inf)
        kept = smallest(loss, h) > 0
        return kept, float(loss[kept].sum())

    def fit(rows: NDArray[np.bool_]) -> Array:
        nonlocal last
        last = likelihood_in_ball(X[rows], y[rows], family, radius, last)
        return last

    return trimming(fit, judge, judge(last, pool)[0])


def likelihood_in_ball(X: Array, y: Array, family: Family, radius: float, start: Array) -> Array:
    """Return the maximum-likelihood coefficients of norm at most ``radius``."""
    # a very small ridge keeps the minimiser finite if classes are separable or columns depend on each other
    least = 1e-8 * max(float(np.mean(np.sum(X**2, axis=1))), np.finfo(float).tiny)
    beta = newton(X, y, family, least, start)
    if np.linalg.norm(beta) <= radius:
        return beta
    # no loss is below 0, so |beta|^2 mu / 2 is at most their sum at 0
    most = 2 * float(family.loss(y, np.zeros(len(y))).sum()) / radius**2

    def excess(log_mu: float) -> float:
        return float(np.linalg.norm(newton(X, y, family, np.exp(log_mu), beta))) - radius

    mu = np.exp(brentq(excess, np.log(least), np.log(most), xtol=1e-10))
    beta = newton(X, y, family, mu, beta)
    return beta * min(1.0, radius / float(np.linalg.norm(beta)))


def newton(X: Array, y: Array, family: Family, mu: float, beta: Array) -> Array:
    """Minimise sum_i -log f(y_i | x_i'beta) + mu |beta|^2 / 2 by Newton steps, halved until the objective falls."""

    def objective(b: Array) -> float:
        return float(family.loss(y, X @ b).sum()) + mu / 2 * float(b @ b)

    value = objective(beta)
    for _ in range(100):  # a guard: cancer, wine and iris, scaled or not, take up to 29
        t = X @ beta
        g = X.T @ (family.mean(t) - y) + mu * beta
        H = (X * family.variance(t)[:, None]).T @ X
        H[np.diag_indices_from(H)] += mu
        step = solve(H, g, assume_a="pos")
        size = 1.0
        while size > SHORTEST_STEP and not objective(beta - size * step) <= value:
            size /= 2
        beta = beta - size * step if size > SHORTEST_STEP else beta
        reached = objective(beta)
        fall = value - reached
        value = reached
        if fall <= 1e-12 * (1 + abs(value)):
            break
    return beta
