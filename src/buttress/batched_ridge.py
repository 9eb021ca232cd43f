"""Ridge regression and its classifier, learned from batches: sums over the rows are kept, never the rows.

After any batch the model is the exact one of all rows so far. Behind Nystroem features it is a kernel machine on
landmarks for more rows than memory holds.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing
from buttress._checks import Array, check_classes, check_known, check_number, check_X_y
from buttress._documented import Documented
from buttress._predicting import PlanePredictions, PlaneValues
from buttress._state import Attribute, State
from buttress._types import Labels, MatrixLike
from buttress._weights import check_weights, class_totals
from buttress.expansion import one_against_rest
from buttress.solvers.ridge.leave_one_out import factorised


@dataclass(kw_only=True, eq=False, repr=False)
class RidgeSums(Documented, BaseEstimator, ABC):
    """The sums of both machines: with rows a = (x - shift, targets - shift, 1), ``_sums`` is the sum of w a a'.

    ``_shift`` is the mean of the first batch, so that columns far from 0 lose no digits.
    """

    _state = State(
        Attribute("n_rows_seen_", "count", meaning="Rows learned from, those of weight 0 too."),
        Attribute("_shift", "finite", "n_columns"),
        Attribute("_sums", "finite", "n_sums, n_sums"))

    alpha: float = 1.0

    @abstractmethod
    def _targets(self, y: Labels, classes: ArrayLike | None, weight: Array, first: bool) -> Array:
        """Return checked targets y (n,) as numbers (n, n_scores); the ``first`` batch sets the classes."""

    @all_or_nothing
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to X of shape (n, d) and y of shape (n,) as one batch; returns self.

        Raises ValueError for alpha <= 0, NaN, inf and entries beyond 1e100 (naming the column), negative weights, fewer
        than two rows, of labels also for fewer than two classes, or a class without weight.
        """
        return self._learn(X, y, None, sample_weight, True, 2)

    @all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from one more batch, X (m, d) and y (m,); returns self, the model of all batches so far.

        The first call of a classifier needs all ``classes``, the labels that may come. Batches give the fit to all of
        their rows, in any order, up to rounding; in one order they give the same bits.
        """
        return self._learn(X, y, classes, sample_weight, not hasattr(self, "_sums"), 1)

    @all_or_nothing
    def merge(self, other: "RidgeSums") -> Self:
        """Learn from all rows that ``other`` has learned from, as of another process; returns self.

        Raises ValueError where columns, their names or their order, or classes differ.
        """
        for model in (self, other):
            check_is_fitted(model)
        kinds = [(type(model).__name__, list(getattr(model, "feature_names_in_", [f"{model.n_features_in_} unnamed"])),
                  np.asarray(getattr(model, "classes_", ())).tolist()) for model in (self, other)]
        if kinds[0] != kinds[1]:
            told = " and ".join(f"{name} of columns {columns}, classes {classes}" for name, columns, classes in kinds)
            raise ValueError(f"Only fits of one kind are merged. Got {told}. Fit both to the same columns and classes.")
        moved = np.eye(len(other._sums))
        moved[-1, :-1] = other._shift - self._shift
        return self._keep(self._sums + moved.T @ other._sums @ moved, self.n_rows_seen_ + other.n_rows_seen_)

    def _learn(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None, first: bool,
        min_rows: int,
    ) -> Self:
        check_number("alpha", self.alpha, 0)
        numeric = isinstance(self, RegressorMixin)
        rows, labels = check_X_y(self, X, y, numeric_target=numeric, min_rows=min_rows, reset=first)
        weight = check_weights(sample_weight, rows)[:, None]
        given = np.hstack([rows, self._targets(labels, classes, weight[:, 0], first)])
        if first:
            self._shift = np.sum(weight * given, axis=0) / weight.sum()
        root = np.sqrt(weight)
        given = np.hstack([root * (given - self._shift), root])
        before = (0.0, 0) if first else (self._sums, self.n_rows_seen_)
        return self._keep(before[0] + given.T @ given, before[1] + len(rows))

    def _keep(self, sums: Array, n_rows: int) -> Self:
        """Keep the sums, and the plane that solves them."""
        self._sums = sums
        self.n_rows_seen_ = n_rows
        d = self.n_features_in_
        mean = sums[-1, :-1] / sums[-1, -1]
        centred = sums[:-1, :-1] - np.outer(mean, sums[-1, :-1])
        gram = centred[:d, :d] + self.alpha * np.eye(d)
        coef = cho_solve(factorised(gram), centred[:d, d:], check_finite=False).T
        intercept = (mean + self._shift)[d:] - coef @ (mean + self._shift)[:d]
        numeric = isinstance(self, RegressorMixin)
        self.coef_ = coef[0] if numeric else coef
        self.intercept_: Any = float(intercept[0]) if numeric else intercept
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class BatchedRidge(PlaneValues, RegressorMixin, RidgeSums):
    """Ridge regression with an intercept, learned from batches (``partial_fit``), exact for all rows so far.

    Minimises sum_i w_i (y_i - w'x_i - b)^2 + alpha ||w||^2. It keeps one matrix of (d + 2)^2 sums, and takes d^2
    operations a row. Behind :class:`buttress.Nystroem` it is kernel ridge regression on landmarks, of more rows than
    memory holds.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty, > 0.

    References
    ----------
    Hoerl & Kennard, Ridge regression, Technometrics 12, 1970; on landmarks Rudi, Camoriano & Rosasco, Less is more:
    Nystroem computational regularization, NIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import BatchedRidge
    >>> X = np.arange(10.0)[:, None]
    >>> model = BatchedRidge(alpha=1e-9)
    >>> for rows in (X[:4], X[4:]):
    ...     _ = model.partial_fit(rows, 3 * rows[:, 0] + 1)
    >>> round(float(model.predict([[20.0]])[0]), 6), model.n_rows_seen_
    (61.0, 10)
    """

    _state = State(
        Attribute("coef_", "finite", "n_features"),
        Attribute("intercept_", "finite"))

    def _targets(self, y: Labels, classes: ArrayLike | None, weight: Array, first: bool) -> Array:
        if classes is not None:
            raise ValueError(f"BatchedRidge predicts numbers and has no classes. Got classes={classes!r}. Use "
                             "BatchedRidgeClassifier.")
        return np.asarray(y, dtype=np.float64)[:, None]


@dataclass(kw_only=True, eq=False, repr=False)
class BatchedRidgeClassifier(PlanePredictions, ClassifierMixin, RidgeSums):
    """Least squares on labels -1 and +1, one class against the rest, learned from batches (``partial_fit``).

    Minimises sum_i w_i (t_i - w'x_i - b)^2 + alpha ||w||^2 for each score, exactly for all rows so far: the machine of
    :class:`LeastSquaresClassifier` with a linear kernel. Behind :class:`buttress.Nystroem` it is the kernel machine on
    landmarks, of more rows than memory holds.

    Parameters
    ----------
    alpha : float, default=1.0
        Penalty, > 0.

    References
    ----------
    Rifkin, Yeo & Poggio, Regularized least-squares classification, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import BatchedRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BatchedRidgeClassifier()
    >>> for part in range(3):
    ...     _ = model.partial_fit(X[part::3], y[part::3], classes=[0, 1, 2])
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    _state = State(Attribute("classes_", "label", "n_classes"))

    def _targets(self, y: Labels, classes: ArrayLike | None, weight: Array, first: bool) -> Array:
        if first:
            self.classes_, codes = check_classes(y if classes is None else np.asarray(classes), type(self).__name__)
            if classes is None:
                class_totals(self.classes_, codes, weight)
        return one_against_rest(check_known(y, self.classes_, classes), len(self.classes_))
