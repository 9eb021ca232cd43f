"""Kernel regression and classification under a risk: functional gradient descent that can trim corrupt rows."""

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import all_or_nothing, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_X_y
from buttress._predicting import ExpansionPredictions, ExpansionValues
from buttress._rows import equal_rows
from buttress._state import Attribute, State
from buttress._types import MatrixLike, Rows, VectorLike
from buttress._weights import check_weights, class_totals, weighted_median
from buttress.certainty.calibration import HeldOut
from buttress.certainty.conformal import GroupPair, as_rows, check_coverage
from buttress.certainty.intervals import ExpansionIntervals, HeldOutFits, hold_out
from buttress.certainty.left_out import Slopes, kernel_features, left_over, leverages, one_step
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.expansion import binary_contrasts, rival_contrasts
from buttress.kernels import Linear, Precomputed
from buttress.losses import Logistic, Multinomial, Squared
from buttress.risks import PerClass
from buttress.robust.published.descent import KernelRisk
from buttress.solvers.ridge.leave_one_out import GramRidge


@dataclass(kw_only=True, eq=False, repr=False)
class KernelRegressor(ExpansionValues, ExpansionIntervals, RegressorMixin, KernelRisk):
    """Kernel regression under a risk of the squared losses.

    Minimises risk((f(x_i) - y_i)^2) + alpha / (p n) ||f||^2 over f = m + sum_i w_i k(x_i, .), m the median of y (0 with
    ``fit_intercept=False``), p the share of rows the risk keeps; ||f|| is the norm without m. With ``risk=Mean()`` and
    ``fit_intercept=False`` this is scikit-learn's KernelRidge.

    Parameters
    ----------
    risk : Mean, Subquantile or Tilted, default=Subquantile(0.8)
        How the losses are summed up. Subquantile(p) fits the share p of the rows that fits best.
    alpha : float, default=1.0
        Ridge, >= 0, in KernelRidge's units.
    fit_intercept : bool, default=True
        Start from the median of y.
    kernel, degree, gamma, coef0
        As in :class:`buttress.SVC`, but positive definite; gamma defaults to ``"auto"``, 1/d, because outliers move the
        variance of X.
    acceleration : None, "nesterov" or float in [0, 1), default="nesterov"
        Plain descent, which never raises the objective; Nesterov's momentum, dropped whenever the objective rises; or
        the mu of the paper's momentum (60)-(61), which its (63)-(64) is equal to.
    step : {"spectral", "paper", "preconditioned"}, float or function, default="spectral"
        1 / beta from the largest eigenvalue over the kept rows; from the trace over all rows, as in (48); the inverse
        of the curvature itself, one factorisation for few iterations; a number; or a function from the iteration to
        one.
    radius : float or None, default=None
        Largest norm of f, > 0; None for no limit.
    init : {"zero", "glorot", "normal"}, default="zero"
        Start from f = 0 (the first rows kept are then those nearest the centre), or from coefficients drawn uniformly
        within sqrt(6/n) as in algorithm 3, or with a normal distribution as in algorithm 1, of variance 2/n as well.
    n_landmarks : int, None or "auto", default="auto"
        Nystroem landmarks, None for the exact Gram matrix; "auto" is None up to 5,000 rows and 1,000 above. A linear
        kernel is fitted in the primal and needs none.
    tol : float, default=1e-4
        Stop when the norm of the gradient has fallen to this share of its first value.
    max_iter, max_time : int, float or None
        Most iterations (None for no limit) and seconds.
    random_state : int, RandomState or None
        For ``init="glorot"``, ``"normal"`` and the landmarks.
    progress : bool, default=False
        Show a progress line.

    References
    ----------
    Rathnashyam & Gittens, Subquantile minimization for kernel learning in the Huber epsilon-contamination model, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import KernelRegressor, Subquantile
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.sin(X[:, 0])
    >>> y[::5] = 9.0
    >>> model = KernelRegressor(risk=Subquantile(0.8), alpha=0.1).fit(X, y)
    >>> int((~model.inlier_mask_[::5]).sum())
    10
    """

    _state = State(
        Attribute("intercept_", "finite"),
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features",
                  meaning="The prediction as a function of rows, for attacks."),
        Attribute("held_out_", "part", of="HeldOutFits", meaning="What the intervals are made of.",
                  when="once predict_interval was called"),
        Attribute("_targets", "finite", "n_rows"),
        Attribute("_row_weights", "nonnegative", "n_rows"))

    fit_intercept: bool = True

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> "KernelRegressor":
        """Fit to X of shape (n, d) and real targets y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100, naming the column.
        """
        risk = self._checked_risk()
        X, y = check_X_y(self, X, y, numeric_target=True)
        y = y.astype(np.float64)
        weight = check_weights(sample_weight, X)
        self.intercept_ = weighted_median(y, weight) if self.fit_intercept else 0.0
        report = step_callback(self, X, y, self.max_iter)
        self._descend(X, y - self.intercept_, Squared(), risk, weight, np.zeros(len(y), dtype=np.intp), 1, report)
        self._targets = y
        self._row_weights = weight
        self.__dict__.pop("held_out_", None)
        return self

    def predict_interval(
        self, X: MatrixLike, coverage: float = 0.9, *, groups: GroupPair | None = None
    ) -> Array:
        """Return the lower and upper ends, shape (n, 2), of intervals that hold new targets with this probability.

        The intervals are CV+, scaled locally: see :mod:`buttress.certainty.intervals` for what is promised. All
        training rows count, by their sample weight, those that the risk has trimmed too: the promise is about rows like
        all of them. The first call solves the weighted ridge problem that the descent ended in, without a tenth of the
        rows each, in O(n^3), and keeps the result as ``held_out_``. With ``groups``, a pair of labels of the training
        rows as given to ``fit`` and of the rows of X, of each group.

        Raises ValueError for a coverage outside (0, 1), with fewer rows than coverage / (1 - coverage), and for models
        whose training rows are not at hand: on landmarks, of a linear or precomputed kernel, or with alpha=0.
        """
        check_is_fitted(self)
        if not hasattr(self, "held_out_") and hasattr(self, "_targets"):
            check_coverage(coverage, float(np.count_nonzero(self._row_weights)))
            self.held_out_ = self._held_out_fits()
        return super().predict_interval(X, coverage, groups=groups)

    def _gram(self) -> Array:
        """Return the Gram matrix of the training rows."""
        centres = self.expansion_.centers
        kernel = self.expansion_.kernel
        n_rows = len(getattr(self, "_targets", ()))  # a loaded model has none
        if isinstance(kernel, Linear | Precomputed) or len(centres) != n_rows:
            raise ValueError("predict_interval needs the Gram matrix of the training rows, which a loaded model, one "
                             "on landmarks or one of a linear or precomputed kernel does not keep. Got "
                             f"{kernel!r} with {len(centres)} centres of {n_rows} rows. Fit with n_landmarks=None, a "
                             "kernel of rows, or use RobustKernelRegressor or RobustLinearRegressor.")
        return kernel(centres, centres)

    def _held_out_fits(self) -> HeldOutFits:
        """Return the weighted ridge fits without a fold of rows each, weights as the risk has them at the solution."""
        if not self.alpha > 0:
            raise ValueError(f"Intervals of a KernelRegressor need alpha > 0. Got alpha={self.alpha:g}. Raise "
                             "it, or use RobustKernelRegressor or RobustLinearRegressor.")
        used = np.flatnonzero(self._row_weights)
        ridge = GramRidge(self._gram()[np.ix_(used, used)], equal_rows(self.expansion_.centers[used]))
        y = self._targets[used] - self.intercept_
        fit = ridge.solve(y, (self.weights_ * self._checked_risk().kept * self._row_weights.sum())[used], self.alpha)
        weight = as_rows(self._row_weights[used])
        held = hold_out(ridge, y, fit, self.alpha, groups=ridge.groups, weight=weight, by_folds=True)
        coef = np.zeros((len(self._targets), held.coef.shape[1]))
        coef[used] = held.coef
        numbered = replace(held, row=used[held.row], given=len(coef))
        return numbered.times(1.0, self.intercept_, coef, held.intercept)


@dataclass(kw_only=True, eq=False, repr=False)
class KernelClassifier(Probabilities, ExpansionPredictions, ClassifierMixin, KernelRisk):
    """Kernel logistic classification under a risk of the losses.

    Minimises risk(l_i) + alpha / (p n) ||f||^2 with the logistic loss for two classes, the multinomial loss of one
    score a class for more; p is the share of rows the risk keeps. With ``balanced=True`` the risk is taken within each
    observed class: if rows are trimmed by loss alone, a whole class is soon dropped.

    Parameters
    ----------
    risk : Mean, Subquantile or Tilted, default=Subquantile(0.8)
        How the losses are summed up. Subquantile(p) fits the share p of the rows that fits best.
    alpha : float, default=0.1
        Ridge, >= 0.
    balanced : bool, default=True
        Take the risk within each class, classes weighted by their size.
    kernel, degree, gamma, coef0, acceleration, step, radius, init, n_landmarks, tol, max_iter, max_time, random_state,
    progress
        As in :class:`KernelRegressor`.

    References
    ----------
    Rathnashyam & Gittens, Subquantile minimization for kernel learning in the Huber epsilon-contamination model, 2023.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from buttress import KernelClassifier, Subquantile
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelClassifier(risk=Subquantile(0.9)).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _state = State(
        Attribute("expansion_", "part", of="KernelExpansion", shares="n_features, n_scores",
                  meaning="The scores as a function of rows, for attacks."),
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."))

    alpha: float = 0.1
    balanced: bool = True

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: VectorLike, sample_weight: VectorLike | None = None) -> "KernelClassifier":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer
        than two classes, or a class without weight.
        """
        risk = self._checked_risk()
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "KernelClassifier")
        weight = check_weights(sample_weight, X)
        class_totals(self.classes_, codes, weight)
        n_classes = len(self.classes_)
        risk = PerClass(risk, codes) if self.balanced else risk
        self.contrasts_ = binary_contrasts() if n_classes == 2 else rival_contrasts(n_classes)
        report = step_callback(self, X, y, self.max_iter)
        groups = codes if self.balanced else np.zeros_like(codes)
        if n_classes == 2:
            self._descend(X, np.where(codes == 1, 1.0, -1.0), Logistic(), risk, weight, groups, 1, report)
        else:
            self._descend(X, codes, Multinomial(), risk, weight, groups, n_classes, report)
        kept = risk.kept
        self.__dict__.pop("_certainty", None)  # or each fit keeps the rows of all before
        found = copy(self)  # parameters may have changed by the time that it is asked
        self._certainty = Certainty.later(lambda rows: found._left_out(rows, codes, weight, kept), X)
        return self

    def _left_out(self, X: Array, codes: Rows, weight: Array, kept: float) -> HeldOut:
        """Return the scores of each row under the fit without it: those of rows that count for nothing as they are."""
        scores = self.expansion_(X)
        C = len(self.classes_)
        q = expit(scores) if C == 2 else softmax(scores, axis=1)
        targets = (codes == 1)[:, None] if C == 2 else codes[:, None] == np.arange(C)
        Z, missed = kernel_features(self.expansion_.kernel, X, self.expansion_.centers)
        ridge = max(2 * self.alpha / (kept * weight.sum()), 1e-9 * float(self.weights_.max()))  # some, where alpha is 0
        groups = equal_rows(X, codes)
        columns = [Slopes(q[:, c] - targets[:, c], q[:, c] * (1 - q[:, c])) for c in range(q.shape[1])]
        bends = [self.weights_ * slopes.second for slopes in columns]
        left_out = [one_step(scores[:, c], columns[c], self.weights_,
                             leverages(Z, bend, ridge) + left_over(missed, bend, ridge), groups)
                    for c, bend in enumerate(bends)]
        return HeldOut(np.stack(left_out, axis=1), codes, weight, C, row=np.arange(len(codes)), given=len(codes))
