"""The exact kernel support vector classifier, and its path over C."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from buttress._callbacks import CallbackSupportMixin, step_callback, with_callbacks
from buttress._checks import Array, check_classes, check_number, check_option, check_X_y
from buttress._documented import CLASSIFIER, advises
from buttress._rows import equal_rows
from buttress._state import Attribute, Lengths, State
from buttress._types import MatrixLike, Rows
from buttress._weights import check_weights, class_weights
from buttress.certainty.calibration import HeldOut, pairs_of
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.checkpoints.resumable import resumable
from buttress.gram.rows import KernelRows
from buttress.solvers.linear.primal import hinge_intercept
from buttress.solvers.qp.program import Start, classifier_qp
from buttress.solvers.qp.solve import SVMSolution, hard_margin, solve
from buttress.solvers.run import Budget, all_or_nothing, countdown
from buttress.svm.left_out import left_out_scores
from buttress.svm.machine import OF_MACHINES, KernelMachine
from buttress.svm.selection import LOO, Line, choose, left_out_error
from buttress.svm.task import Classes, Training, votes


def _check_codes(model: "SVC", lengths: Lengths) -> None:
    """Raise ValueError where a row left out has the number of no class."""
    if hasattr(model, "_left_out") and model._left_out.codes.max(initial=0) >= len(model.classes_):
        raise ValueError("SVC._left_out has the code of a class that there is not.")


@advises(**CLASSIFIER)
@dataclass(kw_only=True, eq=False, repr=False)
class SVC(Probabilities, CallbackSupportMixin, ClassifierMixin, KernelMachine):
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
    max_iter : int or None, default=None
        Most pair updates per problem; None for libsvm's guard of max(10 million, 100 n).
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

    class_weight: Mapping[Any, float] | str | None = None
    multi_class: str = "ovo"
    decision_function_shape: str = "ovr"
    break_ties: bool = False

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
        task = self._prepare(X, y, sample_weight)
        problems = self._problems(task)
        coef = self._recalled(task, len(problems))
        starts = None if coef is None else [Start(coef[index, k]) for k, (_, index, _) in enumerate(problems)]
        self._solve(task, starts)
        return self

    def _adopt(self, best: "SVC") -> None:
        """Take over what another fit, of the C and gamma chosen, has found."""
        for name in vars(best).keys() - best.get_params(deep=False).keys():
            setattr(self, name, getattr(best, name))
        self.C_ = best.C
        self.gamma_ = best.gamma

    def _prepare(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """Check everything and set up the rows that all problems share."""
        self._check("Or use C='loo', which chooses it by rows left out.")
        if isinstance(self.gamma, str) and self.gamma not in ("scale", "auto"):
            raise ValueError(f"gamma must be a positive number, 'scale', 'auto' or 'loo'. Got {self.gamma!r}.")
        check_option("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_option("multi_class", self.multi_class, ("ovo", "ovr"))
        rows, labels = check_X_y(self, X, y, sparse=True, single=True)
        self.classes_, codes = check_classes(labels, "SVC")
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo" and len(self.classes_) > 2:
            raise ValueError('decision_function_shape="ovo" needs multi_class="ovo". Got multi_class="ovr".')
        given = check_weights(sample_weight, rows)
        weight = given * class_weights(self.class_weight, self.classes_, codes, given)[codes]
        order = np.argsort(codes, kind="stable")
        order = order[weight[order] > 0]
        kernel, settled, shared = self._rows_of(rows, order, self._sections(codes[order]), given)
        groups = equal_rows(rows, np.where(weight > 0, codes, 0))
        return Training(rows, kernel, order, codes[order], weight[order], groups, settled, shared,
                    step_callback(self, rows, labels, None), self._classes())

    def _with_kernel(self, task: Training) -> Training:
        """Return the task with the kernel of these parameters, gamma being a number."""
        kernel, settled, shared = self._rows_of(task.X, task.order, self._sections(task.codes))
        return replace(task, kernel=kernel, settled=settled, rows=shared)

    def _classes(self) -> Classes:
        return Classes(len(self.classes_), self.multi_class == "ovr")

    def _sections(self, codes: Rows) -> Rows | None:
        """Return where each class begins among the rows solved on, for problems of parts of them."""
        return np.searchsorted(codes, np.arange(len(self.classes_) + 1)) if self._classes().in_pairs else None

    def _solve(self, task: Training, starts: Sequence[Start] | None, *, inner: bool = False) -> list[SVMSolution]:
        """Solve every problem from its start, from 0 where there are none, set the model, and return the solutions.

        Ctrl-C is passed on until the last problem, and where the fit is ``inner``.
        """
        left = countdown(self.max_time)
        problems = self._problems(task)
        coef = np.zeros((len(task.order), len(problems)))
        solutions: list[SVMSolution] = []
        for column, (rows, index, y) in enumerate(problems):
            report, last = task.report, column == len(problems) - 1
            if last:  # only then a step is a model
                report = task.reporting(coef, solutions, index, partial(_best_intercept, y, task.weight[index]))
            limits = self._limits(convex=task.settled.convex, max_time=left(), inner=inner or not last, callback=report)
            if np.isinf(self.C):
                solution = hard_margin(rows, y, limits)
            else:
                start = None if starts is None else starts[column]
                solution = solve(classifier_qp(rows, y, float(self.C) * task.weight[index], start), limits)
            coef[index, column] = solution.b
            solutions.append(solution)
        self._take(task, coef, solutions, [(index, solution, float(self.C) * task.weight[index])
                                           for (_, index, _), solution in zip(problems, solutions, strict=True)])
        self._certainty = Certainty()
        return solutions

    def _problems(self, task: Training) -> list[tuple[KernelRows, Rows, Array]]:
        """Return the rows, their numbers among the rows solved on, and the signs of each problem."""
        everything = np.arange(len(task.order))
        if self._classes().in_pairs:
            parts = [(task.rows.part(pair), pair[0]) for pair in pairs_of(len(self.classes_))]
            return [(part, part.index, np.where(task.codes[part.index] == first, 1.0, -1.0)) for part, first in parts]
        positives = [1] if len(self.classes_) == 2 else range(len(self.classes_))
        return [(task.rows, everything, np.where(task.codes == c, 1.0, -1.0)) for c in positives]

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the decision values of X (n, d), in float32 for a float32 X.

        (n,) for two classes, positive for ``classes_[1]``; else one column a class, or a pair with
        ``decision_function_shape="ovo"``.
        """
        rows, scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores[:, 0].astype(rows.dtype, copy=False)
        if self.multi_class == "ovr" or self.decision_function_shape == "ovo":
            return scores.astype(rows.dtype, copy=False)
        return votes(scores, len(self.classes_))[1].astype(rows.dtype, copy=False)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        _, winners = self._scores_of(X)
        return self.classes_[winners]

    def _scores_of(self, X: MatrixLike) -> tuple[Array, Rows]:
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
        return HeldOut(left_out_scores(self), kept.codes, kept.weight, len(self.classes_), self._classes().in_pairs)


def _best_intercept(y: Array, weight: Array, values: Array) -> float:
    """Return the intercept of least hinge loss for values (n,) without one."""
    return hinge_intercept(y - values, y, weight)


def svc_path(
    X: MatrixLike, y: ArrayLike, Cs: Sequence[float], sample_weight: ArrayLike | None = None, *,
    score: str | None = None, **parameters: Any
) -> list[SVC]:
    """Fit :class:`SVC` for every C in ``Cs``; returns the fitted models in that order.

    Ctrl-C ends the path: the models that are ready are returned, with a warning.

    The kernel rows are computed once for all of them (as far as ``cache_size`` goes), and each fit starts from the
    solution before it, scaled to the C of its own, so that a path in increasing order is the fastest.

    Parameters
    ----------
    X, y, sample_weight
        As in ``SVC.fit``.
    Cs : sequence of float
        Finite and > 0.
    score : {None, "loo"}, default=None
        "loo" gives each model ``loo_error_``, the share of the training rows that are misclassified when they are left
        out, from its own fit (see :attr:`SVC.loo_decision_`).
    **parameters
        Of :class:`SVC`.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from buttress.svm import svc_path
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> models = svc_path(X, y, [0.1, 1.0, 10.0])
    >>> [model.C for model in models], all(model.converged_ for model in models)
    ([0.1, 1.0, 10.0], True)
    >>> models = svc_path(X, y, [0.1, 1.0, 10.0], score="loo")
    >>> best = min(models, key=lambda model: model.loo_error_)
    >>> bool(best.loo_error_ < 0.1)
    True
    """
    for position, C in enumerate(Cs):
        check_number(f"Cs[{position}]", float(C), 0)
    if not len(Cs):
        raise ValueError("Cs must hold at least one value. Got an empty sequence. Give, for example, [0.1, 1, 10].")
    if score not in (None, "loo"):
        raise ValueError(f"score must be None or 'loo'. Got {score!r}.")
    models: list[SVC] = []

    def follow() -> None:
        first = SVC(**{**parameters, "C": float(Cs[0])})
        line = Line(first, first._prepare(X, y, sample_weight))
        for C in Cs:
            models.append(line.fit(C, first.max_time))

    Budget().attempt(
        follow, otherwise=lambda: None, known=lambda: bool(models),
        message=f"svc_path was interrupted. It returns the models that are ready, of {len(Cs)} values of C.")
    if score == "loo":
        for model in models:
            model.loo_error_ = left_out_error(model._held_out())
    return models
