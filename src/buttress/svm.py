"""The exact kernel support vector classifier."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, step_callback, with_callbacks
from buttress._checks import (
    Array,
    check_classes,
    check_limits,
    check_number,
    check_option,
    check_weights,
    check_X,
    check_X_y,
)
from buttress.expansion import KernelExpansion, binary_contrasts, pair_contrasts
from buttress.kernels import Kernel, Precomputed, centers, fitted_kernel, is_precomputed
from buttress.solvers.classify import SVMSolution, solve_svm
from buttress.solvers.rows import KernelRows


class SVC(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Kernel support vector classifier, exact, with a certificate of optimality.

    Minimises 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b)), C_i = C * class weight * sample weight, by block
    decomposition of its dual; more than two classes are split into pairs that vote, as in libsvm.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge losses against the norm, > 0.
    kernel : str, kernel object or function, default="rbf"
        A name (see :func:`buttress.kernels.as_kernel`), an object such as ``RBF(0.1)``, ``"precomputed"``, or a
        function of two arrays (n, d), (m, d) that returns (n, m).
    degree, gamma, coef0
        Of a kernel given by name, as in scikit-learn; gamma is a number, ``"scale"`` or ``"auto"``.
    tol : float, default=1e-3
        Stop when the largest KKT violation is at most this; > 0. The duality gap is then checked too.
    cache_size : float, default=200
        Megabytes of kernel rows to keep.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    max_iter : int, default=-1
        Most pair updates per pair of classes, -1 for no limit.
    max_time : float or None
        Most seconds per pair of classes.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the decision function for more than two classes: one column a class (votes, ties broken by the
        scores) or one a pair.
    break_ties : bool, default=False
        Predict the largest "ovr" decision value instead of the first class with the most votes.
    progress : bool, default=False
        Show a progress line.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    support_, support_vectors_, n_support_
        Row numbers, rows, and numbers per class of the support vectors, ordered by class.
    dual_coef_ : array of shape (n_classes - 1, n_SV)
        y_i alpha_i; laid out as in scikit-learn.
    intercept_ : array of shape (n_pairs,)
    primal_objective_, dual_objective_, dual_gap_ : float, or array of shape (n_pairs,) beyond two classes
        Both objectives as stated above and their difference, in float64. The optimum lies between them.
    converged_ : bool
        Whether ``tol`` was met and the gap is at most 1e-3 of the primal objective.
    n_iter_ : int
        Pair updates, over all pairs of classes.
    history_ : list of dict
        n_iter, seconds, gap and objective after each block (the last pair of classes).

    References
    ----------
    Fan, Chen & Lin, Working set selection using second order information, JMLR 6, 2005.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import SVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-3 * model.primal_objective_)
    True
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        max_iter: int = -1,
        max_time: float | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        progress: bool = False,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.progress = progress

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "SVC":
        """Fit to X of shape (n, d) and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or negative weights.
        """
        self._check_parameters()
        X, y = check_X_y(self, X, y)
        self.classes_, codes = check_classes(y, "SVC")
        weight = check_weights(sample_weight, X)
        bound = self._bounds(y, codes, weight)
        kernel = fitted_kernel(self, X, weight)
        pairs = class_pairs(len(self.classes_))
        report = step_callback(self, X, y, None)
        solutions = [self._fit_pair(kernel, X, codes, bound, pair, report) for pair in pairs]
        self._set_solution(kernel, X, codes, pairs, solutions)
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_number("tol", self.tol, 0)
        check_number("cache_size", self.cache_size, 0)
        check_option("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_limits(self.max_iter, self.max_time)

    def _bounds(self, y: Any, codes: NDArray[np.intp], weight: Array) -> Array:
        """Return C_i of each row; balanced class weights count rows by their sample weight."""
        present = np.bincount(codes, weight) > 0
        if not present.all():
            raise ValueError(f"sample_weight is zero for every row of class {self.classes_[~present].tolist()[0]!r}. "
                             "Drop the class or give it weight.")
        if self.class_weight == "balanced":
            totals = np.bincount(codes, weight)
            per_class = weight.sum() / (len(totals) * totals)
        else:
            per_class = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        return self.C * weight * per_class[codes]

    def _fit_pair(
        self, kernel: Kernel, X: Array, codes: NDArray[np.intp], bound: Array, pair: tuple[int, int], report: Any
    ) -> tuple[NDArray[np.intp], SVMSolution]:
        """Solve one pair of classes; returns its rows (those of weight 0 left out) and their solution."""
        index = np.flatnonzero(np.isin(codes, pair) & (bound > 0))
        positive = pair[0] if len(self.classes_) > 2 else pair[1]
        part = X[np.ix_(index, index)] if isinstance(kernel, Precomputed) else X[index]
        solution = solve_svm(
            KernelRows(kernel, part, self.cache_size), np.where(codes[index] == positive, 1.0, -1.0), bound[index],
            tol=self.tol, max_iter=None if self.max_iter == -1 else self.max_iter, max_time=self.max_time,
            callback=report, progress=self.progress,
        )
        return index, solution

    def _set_solution(self, kernel: Kernel, X: Array, codes: NDArray[np.intp], pairs: Any, solutions: Any) -> None:
        coef = np.zeros((len(X), len(pairs)))
        for column, (index, solution) in enumerate(solutions):
            coef[index, column] = solution.b
        used = np.flatnonzero(coef.any(axis=1))
        self.support_ = used[np.argsort(codes[used], kind="stable")].astype(np.int32)
        self.n_support_ = np.bincount(codes[self.support_], minlength=len(self.classes_)).astype(np.int32)
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = libsvm_layout(coef[self.support_], codes[self.support_], pairs)
        self.intercept_ = np.array([solution.intercept for _, solution in solutions])
        Z = centers(kernel, X)[self.support_]
        self.expansion_ = KernelExpansion(kernel, Z, coef[self.support_], self.intercept_)
        binary = len(pairs) == 1
        self.contrasts_ = binary_contrasts() if binary else pair_contrasts(pairs, len(self.classes_))
        for name, key in (("primal_objective_", "primal"), ("dual_objective_", "dual"), ("dual_gap_", "gap")):
            values = np.array([getattr(solution, key) for _, solution in solutions])
            setattr(self, name, float(values[0]) if binary else values)
        self.converged_ = all(solution.converged for _, solution in solutions)
        self.n_iter_ = sum(solution.outcome.n_iter for _, solution in solutions)
        self.history_ = solutions[-1][1].outcome.history

    def decision_function(self, X: Any) -> Array:
        """Return the decision values of X (n, d): (n,) for two classes, positive for ``classes_[1]``; else by
        ``decision_function_shape``."""
        check_is_fitted(self)
        scores = self.expansion_(check_X(self, X))
        if len(self.classes_) == 2:
            return scores[:, 0]
        return scores if self.decision_function_shape == "ovo" else votes(scores, len(self.classes_))[1]

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        check_is_fitted(self)
        scores = self.expansion_(check_X(self, X))
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(int)]
        counts, decision = votes(scores, len(self.classes_))
        return self.classes_[(decision if self.break_ties else counts).argmax(axis=1)]


def class_pairs(n_classes: int) -> list[tuple[int, int]]:
    """Return the pairs (i, j), i < j, in libsvm's order."""
    return [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]


def libsvm_layout(coef: Array, codes: NDArray[np.intp], pairs: list[tuple[int, int]]) -> Array:
    """Return pairwise coefficients (n_SV, n_pairs) as scikit-learn's ``dual_coef_`` (n_classes - 1, n_SV)."""
    if len(pairs) == 1:
        return coef.T.copy()
    dual = np.zeros((max(j for _, j in pairs), len(coef)))
    for column, (i, j) in enumerate(pairs):
        dual[j - 1, codes == i] = coef[codes == i, column]
        dual[i, codes == j] = coef[codes == j, column]
    return dual


def votes(scores: Array, n_classes: int) -> tuple[Array, Array]:
    """Return the votes (n, n_classes) of pairwise scores and the decision values, the votes with ties broken.

    A class's scores are summed and squeezed into (-1/3, 1/3), so that they decide between equal votes only.
    """
    counts = np.zeros((len(scores), n_classes))
    confidence = np.zeros_like(counts)
    for column, (i, j) in enumerate(class_pairs(n_classes)):
        wins = scores[:, column] > 0
        counts[:, i] += wins
        counts[:, j] += ~wins
        confidence[:, i] += scores[:, column]
        confidence[:, j] -= scores[:, column]
    return counts, counts + confidence / (3 * (np.abs(confidence) + 1))
