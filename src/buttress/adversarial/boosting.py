"""Boosted trees trained on what can be proven of them: a classifier and a regressor."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, all_or_nothing, showing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_classes,
    check_count,
    check_limits,
    check_number,
    check_X,
    check_X_y,
)
from buttress._documented import Documented
from buttress._predicting import Decisions
from buttress._state import Attribute, State
from buttress._types import BoundsLike, MatrixLike, VectorLike
from buttress._weights import check_weights
from buttress.attacks.collapse import warn_if_given_up
from buttress.expansion import binary_contrasts, class_contrasts, one_against_rest, winners
from buttress.solvers.gradient.attacked_trees import Growth, Newton, boosted, logistic, squared
from buttress.solvers.run import run
from buttress.threats import BallInBox, ThreatModel, region_of
from buttress.trees import Forest


@dataclass(kw_only=True, eq=False, repr=False)
class BoostedTrees(Documented, CallbackSupportMixin, BaseEstimator):
    """A sum of trees, each a step of Newton's method on a bound of the worst losses."""

    _state = State(
        Attribute("forest_", "part", of="Forest", shares="n_features, n_classes",
                  meaning="The trees, for attacks and proofs."),
        Attribute("n_iter_", "count", meaning="Rounds."),
        Attribute("converged_", "bool", meaning="Whether all rounds were made."),
        Attribute("history_", "history", meaning="The objective is the bound of the sum of the worst losses."))

    eps: ArrayLike = 0.1
    bounds: BoundsLike | None = None
    threat: ThreatModel | None = None
    n_estimators: int = 100
    learning_rate: float = 0.1
    max_depth: int = 2
    l2_regularization: float = 1.0
    max_bins: int = 255
    max_time: float | None = None
    progress: bool = False

    def _checked(
        self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None, *, numbers: bool = False
    ) -> tuple[Array, Any, Array, tuple[Array, Array], float | None]:
        """Return the rows that count, their targets and weights, the ends of where they may come, and the radius."""
        for name in ("n_estimators", "max_depth", "max_bins"):
            check_count(name, getattr(self, name))
        check_number("learning_rate", self.learning_rate, 0, 1, closed="right")
        check_number("l2_regularization", self.l2_regularization, 0, closed="left")
        check_limits(None, self.max_time)
        rows, targets = check_X_y(self, X, y, numeric_target=numbers)
        weight = check_weights(sample_weight, rows)
        region = self._region(rows, X)
        low, high = region.ends(rows)
        here = weight > 0
        return rows[here], targets[here], weight[here], (low[here], high[here]), region.eps

    def _region(self, X: Array, given: MatrixLike) -> BallInBox:
        """Return where the rows may come."""
        return region_of(self.eps, "linf", self.bounds, self.threat, X, given)

    def _boost(
        self, box: tuple[Array, Array], newtons: list[Newton], start: Array, contrasts: Array, report: Any
    ) -> None:
        growth = Growth(self.max_depth, self.l2_regularization)
        steps = boosted(box, newtons, start, contrasts, growth, rate=self.learning_rate, rounds=self.n_estimators,
                        bins=self.max_bins)
        outcome = run(steps, max_time=self.max_time, progress=self.progress, name=type(self).__name__,
                      callback=showing(report, lambda step: {"forest_": step.state}), warn=("max_time",))
        self.forest_: Forest = outcome.state
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history

    def _raw_scores(self, X: MatrixLike) -> Array:
        check_is_fitted(self)
        return self.forest_.scores(check_X(self, X))


@dataclass(kw_only=True, eq=False, repr=False)
class RobustBoostingClassifier(ClassifierMixin, Decisions, BoostedTrees):
    """Boosted decision trees trained on a provable bound of the loss when rows are moved.

    Minimises a bound of the sum of w_i log(1 + exp(-y_i F(x_i + d_i))) at the worst moves d_i, F a sum of trees: each
    tree gives a row the worst of the leaves that its box reaches. Splits and leaves are Newton steps on that bound, so
    a split that moves can cross gains little. With more than two classes, each has trees against the rest. Nothing is
    drawn at random.

    :func:`buttress.certificates.certified_within` uses the same bound; :func:`buttress.attacks.exact` decides the other
    rows.

    Parameters
    ----------
    eps : float or array of shape (d,) or (1, d), default=0.1
        Radius of the moves (l_inf), one or one a column, >= 0, in the units of X.
    bounds : (low, high) or None
        A box that holds the rows and that attackers stay in, numbers or arrays that broadcast to X.
    threat : ThreatModel or None
        What may be done to each column, in place of ``eps`` and ``bounds``. It is trained against the box that holds
        all moves and swaps together.
    n_estimators : int, default=100
        Trees of each score.
    learning_rate : float, default=0.1
        Share of each step that is taken, in (0, 1].
    max_depth : int, default=2
        Levels of splits. With noisy labels more levels fit the noise (``python -m benchmarks.robust_trees --choose``).
    l2_regularization : float, default=1.0
        Added to each leaf's sum of second derivatives, >= 0.
    max_bins : int, default=255
        Most thresholds tried for each column.
    max_time : float or None
        Most seconds a fit.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Andriushchenko & Hein, Provably robust boosted decision stumps and trees against adversarial attacks, NeurIPS 2019.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import RobustBoostingClassifier, certificates
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = scale(X)
    >>> model = RobustBoostingClassifier(eps=0.2, n_estimators=30).fit(X[:400], y[:400])
    >>> bool(certificates.certified_within(model, X[400:], eps=0.2).mean() > 0.8)
    True
    """

    _state = State(Attribute("classes_", "label", "n_classes", "The labels, sorted."))

    @property
    def contrasts_(self) -> Array:
        """The contrasts of scores that decide."""
        return self.forest_.contrasts

    @all_or_nothing
    @with_callbacks
    def fit(
        self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None = None
    ) -> "RobustBoostingClassifier":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        ``sample_weight`` (n,): a row of weight two is two equal rows, one of weight 0 is not there. Raises ValueError
        for parameters out of range, bounds that exclude rows of X, NaN, inf or entries beyond 1e100 (naming the
        column), fewer than two classes, or negative weights.
        """
        rows, labels, weight, box, eps = self._checked(X, y, sample_weight)
        self.classes_, codes = check_classes(labels, type(self).__name__)
        n_classes = len(self.classes_)
        report = step_callback(self, X, y, None, {"classes_": self.classes_})
        signs = one_against_rest(codes, n_classes).T
        shares = np.array([weight[sign > 0].sum() / weight.sum() for sign in signs])
        self._boost(box, [logistic(sign, weight) for sign in signs], logit(shares), class_contrasts(n_classes), report)
        predicted = winners(self.forest_.scores(rows), self.contrasts_)
        warn_if_given_up(type(self).__name__, predicted, rows, codes, eps)
        return self

    def predict_proba(self, X: MatrixLike) -> Array:
        """Return 1 / (1 + exp(-F)) of the scores, made to sum to 1, shape (n, n_classes), columns as ``classes_``.

        They are trained for rows at their worst, and are less sure than clean rows deserve.
        """
        shares = expit(self._raw_scores(X))
        if len(self.classes_) == 2:
            return np.hstack([1 - shares, shares])
        return shares / shares.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: MatrixLike) -> Array:
        """Return the logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


@dataclass(kw_only=True, eq=False, repr=False)
class RobustBoostingRegressor(RegressorMixin, BoostedTrees):
    """Boosted regression trees trained on a bound of their squared errors when rows are moved.

    Minimises a bound of the sum of w_i (y_i - F(x_i + d_i))^2 / 2 at the worst moves d_i, as
    :class:`RobustBoostingClassifier` does that of the logistic loss. The bound of a row is that of the worse end of
    the interval in which its prediction is proven to stay: :meth:`predict_range`.

    Parameters
    ----------
    eps, bounds, threat, n_estimators, learning_rate, max_depth, l2_regularization, max_bins, max_time, progress
        As of :class:`RobustBoostingClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from buttress import RobustBoostingRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = RobustBoostingRegressor(eps=0.005).fit(X[:300], y[:300])
    >>> low, high = model.predict_range(X[300:])
    >>> bool(((low <= model.predict(X[300:])) & (model.predict(X[300:]) <= high)).all())
    True
    """

    _state = State()  # what the base declares

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X of shape (n, d) and targets y of shape (n,); returns self.

        Raises ValueError as :class:`RobustBoostingClassifier` does, and for targets that are no numbers.
        """
        _, targets, weight, box, _ = self._checked(X, y, sample_weight, numbers=True)
        targets = targets.astype(np.float64)
        report = step_callback(self, X, y, None)
        start = np.array([np.average(targets, weights=weight)])
        self._boost(box, [squared(targets, weight)], start, binary_contrasts(), report)
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Return the predictions for the rows of X (n, d), shape (n,)."""
        return self._raw_scores(X)[:, 0]

    def predict_range(self, X: MatrixLike) -> tuple[Array, Array]:
        """Return the ends (n,) of an interval in which the prediction stays, whatever the moves of the fit's threat.

        Up to the rounding of the sums, which is allowed for.
        """
        check_is_fitted(self)
        rows = check_X(self, X)
        low, high = self._region(rows, X).ends(rows)
        one = np.ones(1)
        slack = self.forest_.rounding(one)
        return self.forest_.least(low, high, one) - slack, slack - self.forest_.least(low, high, -one)
