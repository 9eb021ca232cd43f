"""The exact kernel support vector classifier."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_option, check_X_y
from buttress._documented import CLASSIFIER, advises
from buttress._predicting import rows_to_score, sparse_or_dense
from buttress._rows import equal_rows
from buttress._state import Attribute, Lengths, State, one_or_each
from buttress._types import DenseOrSparse, MatrixLike
from buttress._weights import check_weights, class_weights
from buttress.certainty.calibration import HeldOut
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.checkpoints.resumable import resumable
from buttress.gram.rows import KernelRows
from buttress.kernels import Kernel, fitted_kernel, is_precomputed
from buttress.solvers.qp.program import Start, classifier_qp
from buttress.solvers.qp.solve import SVMSolution, hard_margin, solve
from buttress.solvers.run import all_or_nothing, countdown
from buttress.svm.device import scorer
from buttress.svm.indefinite import Settled, settled_on
from buttress.svm.left_out import Solved, left_out, left_out_scores
from buttress.svm.machine import OF_MACHINES, as_input, check_machine, kernel_rows, limits_of, recalled, remember
from buttress.svm.multiclass import Codes, class_pairs, votes
from buttress.svm.selection import LOO, choose
from buttress.svm.task import Task


def _check_codes(model: "SVC", lengths: Lengths) -> None:
    """Raise ValueError where a row left out has the number of no class."""
    if hasattr(model, "_left_out") and model._left_out.codes.max(initial=0) >= len(model.classes_):
        raise ValueError("SVC._left_out has the code of a class that there is not.")


class SVC(Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Kernel support vector classifier, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i max(0, 1 - y_i (w'phi(x_i) + b)), C_i = C * class weight * sample weight, by block
    decomposition of its dual; more than two classes are split into pairs that vote, as in libsvm, or into one problem
    a class. All problems share one cache of kernel rows.

    Parameters
    ----------
    C : float or "loo", default=1.0
        "loo" chooses, from .1 to 100, by the probability that a row left out is misclassified. A number is the weight
        of the hinge losses against the norm, > 0. ``numpy.inf`` asks for the hard margin: no loss at all, the widest
        margin 1/||w|| (weights then say only which rows count).
    kernel : str, kernel object or function, default="rbf"
        A name (see :func:`buttress.kernels.as_kernel`), an object such as ``RBF(0.1)``, ``"precomputed"``, or a
        function of two arrays (n, d), (m, d) that returns (n, m).
    degree, gamma, coef0
        Of a kernel given by name, as in scikit-learn; gamma is a number, ``"scale"`` or ``"auto"``, or ``"loo"`` to be
        chosen like C.
    tol : float, default=1e-3
        Stop when the largest KKT violation is at most this; > 0. The duality gap is then checked too.
    gap : float or None, default=None
        Stop as soon as the duality gap is at most this share of the primal objective, in (0, 1), certified in float64:
        for large n, where the last digits are not needed. None asks for ``tol`` and a gap of 1e-3. Of no effect with an
        indefinite kernel, which has no gap.
    cache_size : float, default=200
        Megabytes of kernel rows to keep (the n^2 kernel values are never held unless they fit).
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    max_iter : int, default=-1
        Most pair updates per problem; -1 for libsvm's guard of max(10 million, 100 n).
    max_time : float or None
        Most seconds of the whole fit.
    solver : {"auto", "smo", "ipm"}, default="auto"
        "smo" improves pairs; "ipm" is an interior-point method for up to 3,000 rows, whose iterations do not depend on
        C or the scale of the data; "auto" starts with pairs and changes over where they stall.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Beyond two classes: one problem a pair of classes, which vote, or one a class against the rest.
    indefinite : {"warn", "raise", "clip", "flip", "shift", "krein"}, default="warn"
        For a kernel that is not positive definite on the data (sigmoid, some functions and Gram matrices): solve to a
        stationary point with a warning and no optimality gap, refuse, or change the spectrum of the Gram matrix (up to
        5,000 rows): negative eigenvalues to 0, to their absolute values, all shifted up, or the Krein-space machine.
    warm_start : bool, default=False
        Start from the previous fit's solution if it had as many rows; they should be the same rows in the same order.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Shape of the decision function for more than two classes: one column a class (votes, ties broken by the
        scores) or one a pair.
    break_ties : bool, default=False
        Predict the largest "ovr" decision value instead of the first class with the most votes.
    device : str or None, default=None
        Compute kernel matrices with torch on this device, such as "cuda" (``pip install buttress[torch]``), of dense
        rows and a kernel that depends on a distance or an inner product; None is numpy. The model holds numpy arrays.
    progress : bool, default=False
        Show a progress line.
    checkpoint : str or None, default=None
        Folder in which the fit keeps, every few seconds, what it needs to go on if its process is killed.
    resume : bool or "approximately", default=False
        True: go on from what ``checkpoint`` holds of this fit, to the same bits, or start if it holds nothing.
        "approximately" accepts other versions or threads.

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

    _state = State(
        Attribute("classes_", "label", "n_classes", "The labels, sorted."),
        Attribute("support_", "index", "n_support", "Row numbers of the support vectors, ordered by class.",
                  below="n_rows"),
        Attribute("support_vectors_", "finite", "n_support, n_features", "Their rows."),
        Attribute("n_support_", "count", "n_classes", "How many there are of each class."),
        Attribute("dual_coef_", "finite", "*, n_support",
                  "y_i alpha_i; laid out as in scikit-learn, n_classes - 1 rows. One row a class with "
                  '``multi_class="ovr"``.'),
        Attribute("intercept_", "finite", "n_scores", "One a problem."),
        *OF_MACHINES,
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."),
        Attribute("C_", "positive", meaning="The C that was chosen.", when='with "loo"'),
        Attribute("gamma_", "any", meaning="The gamma that was chosen.", when='with "loo"'),
        Attribute("loo_error_", "share", meaning="Rows that are misclassified when they are left out.",
                  unit="share of rows", when='with "loo"'),
        together=_check_codes)

    @advises(**CLASSIFIER)
    def __init__(
        self,
        *,
        C: float | str = 1.0,
        kernel: str | Kernel | Callable[[Array, Array], Array] = "rbf",
        degree: float = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        gap: float | None = None,
        cache_size: float = 200,
        class_weight: Mapping[Any, float] | str | None = None,
        max_iter: int = -1,
        max_time: float | None = None,
        solver: str = "auto",
        multi_class: str = "ovo",
        indefinite: str = "warn",
        warm_start: bool = False,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        device: str | None = None,
        progress: bool = False,
        checkpoint: str | None = None,
        resume: bool | str = False,
    ):
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.gap = gap
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.max_time = max_time
        self.solver = solver
        self.multi_class = multi_class
        self.indefinite = indefinite
        self.warm_start = warm_start
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.device = device
        self.progress = progress
        self.checkpoint = checkpoint
        self.resume = resume

    def __sklearn_tags__(self) -> Any:
        return sparse_or_dense(super().__sklearn_tags__(), is_precomputed(self.kernel))

    @all_or_nothing
    @resumable
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "SVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, negative weights, a class without weight, a kernel with values beyond 1e30, or a hard margin on
        data that cannot be separated. Ctrl-C during the last problem (with two classes, the only one) ends it early,
        with a warning; before that, or where one compiled pass solves the last problem (up to 1,500 rows), it raises
        KeyboardInterrupt, and the estimator stays as it was. With C or gamma "loo", Ctrl-C and ``max_time`` end the
        choice: the best of the fits that are ready is the model, with a warning.
        """
        if LOO in (self.C, self.gamma):
            step_callback(self, X, y, None)  # the fits that are tried are no steps; its end is reported
            self._adopt(choose(self, X, y, sample_weight))
            return self
        previous = recalled(self) if self.warm_start else None
        task = self._prepare(X, y, sample_weight)
        starts = None if previous is None else self._starts(task, previous)
        self._solve(task, starts)
        return self

    def _adopt(self, best: "SVC") -> None:
        """Take over what another fit, of the C and gamma chosen, has found."""
        for name in vars(best).keys() - best.get_params(deep=False).keys():
            setattr(self, name, getattr(best, name))
        self.C_ = best.C
        self.gamma_ = best.gamma

    def _prepare(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Task:
        """Check everything and set up the rows that all problems share."""
        check_machine(self, "Or use C='loo', which chooses it by rows left out.")
        if isinstance(self.gamma, str) and self.gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be a positive number, 'scale', 'auto' or 'loo'. Got {self.gamma!r}.")
        check_option("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_option("multi_class", self.multi_class, ("ovo", "ovr"))
        rows, labels = check_X_y(self, X, y, sparse=True, single=True)
        self.classes_, codes = check_classes(labels, "SVC")
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo" and len(self.classes_) > 2:
            raise ValueError('decision_function_shape="ovo" needs multi_class="ovo". Got multi_class="ovr".')
        weight = check_weights(sample_weight, rows)
        kernel = fitted_kernel(self, rows, weight)
        weight = weight * class_weights(self.class_weight, self.classes_, codes, weight)[codes]
        order = np.argsort(codes, kind="stable")
        order = order[weight[order] > 0]
        settled, shared = self._rows_of(kernel, rows, order, codes[order])
        groups = equal_rows(rows, np.where(weight > 0, codes, 0))
        report = step_callback(self, rows, labels, None)
        return Task(rows, kernel, order, codes[order], weight[order], groups, settled, shared, report,
                    len(self.classes_), self.multi_class)

    def _with_kernel(self, task: Task) -> Task:
        """Return the task with the kernel of these parameters, gamma being a number."""
        kernel = fitted_kernel(self, task.X)
        settled, shared = self._rows_of(kernel, task.X, task.order, task.codes)
        return replace(task, kernel=kernel, settled=settled, rows=shared)

    def _rows_of(self, kernel: Kernel, X: DenseOrSparse, order: Codes, codes: Codes) -> tuple[Settled, KernelRows]:
        """Return the kernel to solve with on the rows ``order`` of X, of these codes, and its cached rows."""
        settled = settled_on(kernel, X, order, self.indefinite)
        n_classes = len(self.classes_)
        by_class = np.searchsorted(codes, np.arange(n_classes + 1))
        apart = n_classes > 2 and self.multi_class == "ovo"
        return settled, kernel_rows(settled, self.cache_size, by_class if apart else None, self.device)

    def _starts(self, task: Task, coef: Array) -> list[Start] | None:
        """Return where each problem starts, by coefficients (n, k) of the rows as given; None where they do not fit."""
        problems = self._problems(task)
        if coef.shape != (task.X.shape[0], len(problems)):
            return None
        return [Start(coef[task.order[index], column]) for column, (_, index, _) in enumerate(problems)]

    def _solve(self, task: Task, starts: Sequence[Start] | None, *, inner: bool = False) -> list[SVMSolution]:
        """Solve every problem from its start, from 0 where there are none, set the model, and return the solutions.

        Ctrl-C is passed on until the last problem, and where the fit is ``inner``.
        """
        left = countdown(self.max_time)
        problems = self._problems(task)
        coef = np.zeros((len(task.order), len(problems)))
        solutions: list[SVMSolution] = []
        for column, (rows, index, y) in enumerate(problems):
            last = column == len(problems) - 1  # only then a step is a model
            limits = limits_of(self, convex=task.settled.convex, max_time=left(), inner=inner or not last,
                               report=task.reporting(coef, solutions, index, y) if last else task.report)
            if np.isinf(self.C):
                solution = hard_margin(rows, y, limits)
            else:
                start = None if starts is None else starts[column]
                solution = solve(classifier_qp(rows, y, float(self.C) * task.weight[index], start), limits)
            coef[index, column] = solution.b
            solutions.append(solution)
        curved = sum(solution.downwards for solution in solutions)
        self.n_negative_curvature_ = 0 if task.settled.convex else curved
        self._set_model(task, coef, solutions)
        bounds = [(index, solution, float(self.C) * task.weight[index])
                  for (_, index, _), solution in zip(problems, solutions, strict=True)]
        self._keep_left_out(task, bounds)
        return solutions

    def _problems(self, task: Task) -> list[tuple[KernelRows, Codes, Array]]:
        """Return the rows, their numbers among the rows solved on, and the signs of each problem."""
        n_classes, everything = len(self.classes_), np.arange(len(task.order))
        if n_classes == 2:
            return [(task.rows, everything, np.where(task.codes == 1, 1.0, -1.0))]
        if self.multi_class == "ovr":
            return [(task.rows, everything, np.where(task.codes == c, 1.0, -1.0)) for c in range(n_classes)]
        parts = [(task.rows.part(pair), pair[0]) for pair in class_pairs(n_classes)]
        return [(part, part.index, np.where(task.codes[part.index] == first, 1.0, -1.0)) for part, first in parts]

    def _set_model(self, task: Task, coef: Array, solutions: list[SVMSolution]) -> None:
        start = np.zeros((task.X.shape[0], len(solutions)))
        start[task.order] = coef
        remember(self, start)
        intercept = np.array([solution.intercept for solution in solutions])
        self._set_certificate(task, solutions)
        for name, value in task.described(coef, intercept).items():
            setattr(self, name, value)

    def _keep_left_out(self, task: Task, problems: list[Solved]) -> None:
        n = task.X.shape[0]
        codes = np.zeros(n, dtype=np.intp)
        codes[task.order] = task.codes
        weight = np.zeros(n)
        weight[task.order] = task.weight
        self._left_out = left_out(task.X, codes, weight, task.order, task.settled, problems, task.groups)
        self._certainty = Certainty()

    @property
    def loo_decision_(self) -> Array:
        """Scores of the training rows, each under the fit without it: (n,), or (n, n_problems) beyond two classes.

        Rows equal in x and y are left out together. NaN for rows that have no part in a problem.
        """
        check_is_fitted(self)
        scores = left_out_scores(self)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _set_certificate(self, task: Task, solutions: list[SVMSolution]) -> None:
        for name, key in (("primal_objective_", "primal"), ("dual_objective_", "dual"), ("dual_gap_", "gap")):
            values = [getattr(solution, key) if task.settled.convex else np.nan for solution in solutions]
            setattr(self, name, one_or_each(values))
        self.converged_ = all(solution.converged for solution in solutions)
        self.n_iter_ = sum(solution.outcome.n_iter for solution in solutions)
        self.n_kernel_rows_ = task.rows.n_computed
        self.history_ = solutions[-1].outcome.history

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the decision values of X (n, d), in float32 for a float32 X.

        (n,) for two classes, positive for ``classes_[1]``; else one column a class, or a pair with
        ``decision_function_shape="ovo"``.
        """
        rows, scores = self._scores(X)
        if len(self.classes_) == 2:
            return as_input(scores[:, 0], rows)
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return as_input(scores, rows)
        return as_input(votes(scores, len(self.classes_))[1], rows)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        _, winners = self._scores_of(X)
        return self.classes_[winners]

    def _scores_of(self, X: MatrixLike) -> tuple[Array, Codes]:
        """Return the scores of every problem (n, k) and the number of the class predicted."""
        _, scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores, (scores[:, 0] > 0).astype(np.intp)
        if self.multi_class == "ovr":
            return scores, scores.argmax(axis=1)
        counts, decision = votes(scores, len(self.classes_))
        return scores, (decision if self.break_ties else counts).argmax(axis=1)

    def _held_out(self) -> HeldOut:
        kept = self._left_out
        pairs = len(self.classes_) > 2 and self.multi_class == "ovo"
        return HeldOut(left_out_scores(self), kept.codes, kept.weight, len(self.classes_), pairs)

    def _scores(self, X: MatrixLike) -> tuple[DenseOrSparse, Array]:
        if not hasattr(self, "expansion_"):
            check_is_fitted(self)
        rows = rows_to_score(self, X, single=True)
        return rows, scorer(self.expansion_, rows, self.device)(rows)
