"""Trimmed maximum likelihood of generalised linear models."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import Report, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_contamination, check_number, check_option, check_X_y
from buttress._state import Attribute, State
from buttress._types import Labels, MatrixLike, VectorLike
from buttress.expansion import KernelExpansion, binary_contrasts
from buttress.kernels import Linear
from buttress.robust.crr_stir import LinearModel
from buttress.robust.report import OF_RUN
from buttress.solvers.contamination.trimmed_likelihood import FAMILIES, trimmed_likelihood
from buttress.solvers.run import all_or_nothing


class TrimmedLikelihood(LinearModel):
    """The parameters and the alternation of the two trimmed-likelihood estimators."""

    def __init__(self, *, contamination: float = 0.2, radius: float | None = None, fit_intercept: bool = True,
                 max_iter: int = 100, max_time: float | None = None, progress: bool = False):
        self.contamination = contamination
        self.radius = radius
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.max_time = max_time
        self.progress = progress

    def _alternate(self, X: Array, y: Array, family: str, report: Report) -> None:
        """Trim to (1 - 2 contamination) n of the (1 - contamination) n rows of least |y|, and set the coefficients."""
        contamination = check_contamination(self.contamination)
        self._check_limits()
        radius = np.inf if self.radius is None else check_number("radius", self.radius, 0)
        n = len(y)
        middle = 0.0
        if family == "normal" and self.radius is None:
            y, middle = self._centred(y)
        pool = np.sort(np.argsort(np.abs(y), kind="stable")[: max(1, round((1 - contamination) * n))])
        h = max(1, round((1 - 2 * contamination) * n))
        steps = trimmed_likelihood(self._columns(X), y, FAMILIES[family], pool, h, radius)
        beta, kept = self._run(steps, report, 0.0).state  # until the kept rows repeat
        self._set_coef(beta)
        self.intercept_ += middle
        self.inlier_mask_ = np.zeros(n, dtype=bool)
        self.inlier_mask_[kept] = True


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
        Most alternations (-1 for no limit) and seconds; few are needed.
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

    _state = State(
        *OF_RUN,
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite"),
        Attribute("inlier_mask_", "bool", "n_rows", "Rows kept at the end."))

    def __init__(self, *, contamination: float = 0.2, family: str = "normal", radius: float | None = None,
                 fit_intercept: bool = True, max_iter: int = 100, max_time: float | None = None,
                 progress: bool = False):
        super().__init__(contamination=contamination, radius=radius, fit_intercept=fit_intercept, max_iter=max_iter,
                         max_time=max_time, progress=progress)
        self.family = family

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "TrimmedLikelihoodRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), or negative
        targets of the Poisson family.
        """
        check_option("family", self.family, ("normal", "poisson"))
        X, y = check_X_y(self, X, y, numeric_target=True)
        y = y.astype(np.float64)
        if self.family == "poisson" and (y < 0).any():
            raise ValueError(f"Poisson targets must not be negative. Got {y.min():g} in row {y.argmin()}. "
                             "Use family='normal'.")
        self._alternate(X, y, self.family, step_callback(self, X, y, self.max_iter))
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Return the mean of the target for each row of X (n, d)."""
        return FAMILIES[self.family].mean(self._linear(X))


class TrimmedLikelihoodClassifier(ClassifierMixin, TrimmedLikelihood):
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

    _state = State(
        Attribute("classes_", "label", "2"),
        *OF_RUN,
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite"),
        Attribute("inlier_mask_", "bool", "n_rows", "Rows kept at the end."))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike) -> "TrimmedLikelihoodClassifier":
        """Fit to X of shape (n, d) and labels y of shape (n,) of two classes; returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), or another
        number of classes.
        """
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "TrimmedLikelihoodClassifier")
        if len(self.classes_) > 2:
            raise ValueError("Only binary classification is supported. "
                             f"Got {len(self.classes_)} classes. Use KernelClassifier(kernel='linear').")
        report = step_callback(self, X, y, self.max_iter)
        self._alternate(X, codes.astype(np.float64), "binomial", report)
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

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the log-odds of ``classes_[1]`` for each row of X (n, d)."""
        return self._linear(X)

    def predict(self, X: MatrixLike) -> Labels:
        """Return the class of each row of X (n, d)."""
        positive = self._linear(X) > 0
        return self.classes_[positive.astype(int)]
