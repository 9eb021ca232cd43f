"""What exact classifiers share: their parameters, the problems of pairs of classes, and how these decide."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from buttress._callbacks import CallbackSupportMixin, step_callback
from buttress._checks import Array, check_classes, check_option, warn_user
from buttress._predicting import Seeded
from buttress._rows import equal_rows
from buttress._state import Attribute, Lengths, State
from buttress._types import ClassWeight, Labels, MatrixLike, Rows
from buttress._weights import check_weights, class_weights
from buttress.certainty.calibration import HeldOut, pairs_of
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.gram.rows import KernelRows
from buttress.solvers.linear.primal import hinge_intercept
from buttress.solvers.qp.program import Start
from buttress.solvers.qp.solve import Limits, SVMSolution
from buttress.solvers.run import countdown
from buttress.svm.left_out import Solved
from buttress.svm.machine import OF_LEFT_OUT, OF_MACHINES, KernelMachine
from buttress.svm.task import Classes, Training, votes


def _check_codes(model: "ExactClassifier", lengths: Lengths) -> None:
    """Raise ValueError where a row left out has the number of no class."""
    if hasattr(model, "_left_out") and model._left_out.codes.max(initial=0) >= len(model.classes_):
        raise ValueError("_left_out has the code of a class that there is not.")


@dataclass(kw_only=True, eq=False, repr=False)
class ExactClassifier(Seeded, Probabilities, CallbackSupportMixin, ClassifierMixin, KernelMachine, ABC):
    """The base class of both exact classifiers, documented at :class:`SVC`: each solves the problem of two classes."""

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
        OF_LEFT_OUT,
        Attribute("contrasts_", "finite", "n_classes, *, n_scores",
                  "``contrasts_[c] @ scores`` are the leads of class c over its rivals."),
        Attribute("class_weight_", "positive", "n_classes", "The weight of each class."),
        together=_check_codes)

    multi_class: str = "ovo"
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    probability: bool | str = "deprecated"

    def _fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None, class_weight: ClassWeight
    ) -> list[SVMSolution]:
        """Solve all problems, from the coefficients before in a warm start, and return the solutions."""
        task = self._prepare(X, y, sample_weight, class_weight)
        return self._solve(task, self._starts(task) if self.warm_start else None)

    def _starts(self, task: Training) -> list[Start] | None:
        """Return where a warm start begins in each problem."""
        problems = self._problems(task)
        coef = self._recalled(task, len(problems))
        return None if coef is None else [Start(coef[index, k]) for k, (_, index, _) in enumerate(problems)]

    @abstractmethod
    def _solve_pair(
        self, rows: KernelRows, y: Array, weight: Array, start: Start | None, limits: Limits
    ) -> tuple[SVMSolution, Array]:
        """Solve the problem of two classes y in {-1, 1} of these weights; returns its solution and their C_i."""

    def _prepare(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None, class_weight: ClassWeight
    ) -> Training:
        """Check everything and set up the rows that all problems share."""
        self._check()
        if self.probability != "deprecated":
            warn_user("The `probability` parameter was deprecated in scikit-learn 1.9 and goes in 1.11. Remove it: "
                      "predict_proba is always there, and agrees with predict.", FutureWarning)
        check_option("decision_function_shape", self.decision_function_shape, ("ovr", "ovo"))
        check_option("multi_class", self.multi_class, ("ovo", "ovr"))
        rows, labels = self._checked(X, y)
        self.classes_, codes = check_classes(labels, type(self).__name__)
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo" and len(self.classes_) > 2:
            raise ValueError('decision_function_shape="ovo" needs multi_class="ovo". Got multi_class="ovr".')
        given = check_weights(sample_weight, rows, leave_out=True)
        self.class_weight_ = class_weights(class_weight, self.classes_, codes, given)
        weight = given * self.class_weight_[codes]
        order = np.argsort(codes, kind="stable")
        order = order[given[order] > 0]
        kernel, settled, shared = self._rows_of(rows, order, self._sections(codes[order]), given,
                                                (codes[order], weight[order]))
        groups = equal_rows(rows, np.where(given > 0, codes, 0))
        return Training(rows, kernel, order, codes[order], weight[order], groups, settled, shared,
                    step_callback(self, rows, labels, None), self._classes())

    def _with_kernel(self, task: Training) -> Training:
        """Return the task with the kernel of these parameters, gamma being a number."""
        kernel, settled, shared = self._rows_of(task.X, task.order, self._sections(task.codes), None,
                                                (task.codes, task.weight))
        return replace(task, kernel=kernel, settled=settled, rows=shared)

    def _numbers(self, targets: Labels) -> Array:
        """Return which class each row is of, (m, k) of 0 and 1; (m, 1) of two classes."""
        return np.eye(len(self.classes_))[targets][:, int(len(self.classes_) == 2):]

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
        solved: list[Solved] = []
        solutions: list[SVMSolution] = []
        for column, (rows, index, y) in enumerate(problems):
            weight = task.weight[index]
            report, last = task.report, column == len(problems) - 1
            if last:  # only then a step is a model
                report = task.reporting(coef, solutions, index, partial(_best_intercept, y, weight))
            limits = self._limits(convex=task.settled.convex, max_time=left(), inner=inner or not last, callback=report)
            start = None if starts is None else starts[column]
            solution, bound = self._solve_pair(rows, y, weight, start, limits)
            coef[index, column] = solution.b
            solutions.append(solution)
            solved.append((index, solution, bound))
        self._take(task, coef, solutions)
        self._keep_left_out(task, solved)
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
        if self.one_a_class or self.decision_function_shape == "ovo":
            return scores.astype(rows.dtype, copy=False)
        return votes(scores, len(self.classes_))[1].astype(rows.dtype, copy=False)

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError('break_ties must be False with decision_function_shape="ovo": scores of pairs break no '
                             'ties. Use decision_function_shape="ovr".')
        _, winners = self._scores_of(X)
        return self.classes_[winners]

    @property
    def one_a_class(self) -> bool:
        """Whether each of several classes has a score of its own, as it was fitted."""
        return bool(self.dual_coef_.shape[0] == len(self.classes_))

    def _scores_of(self, X: MatrixLike) -> tuple[Array, Rows]:
        """Return the scores of every problem (n, k) and the number of the class predicted."""
        _, scores = self._scores(X)
        if len(self.classes_) == 2:
            return scores, (scores[:, 0] > 0).astype(np.intp)
        if self.one_a_class:
            return scores, scores.argmax(axis=1)
        counts, decision = votes(scores, len(self.classes_))
        return scores, (decision if self.break_ties else counts).argmax(axis=1)

    def _held_out(self) -> HeldOut:
        kept = self._left_out
        n = len(kept.codes)
        return HeldOut(self._left_out_scores(), kept.codes, kept.weight, len(self.classes_), not self.one_a_class,
                       row=np.arange(n), given=n)


def _best_intercept(y: Array, weight: Array, values: Array) -> float:
    """Return the intercept of least hinge loss for values (n,) without one."""
    return hinge_intercept(y - values, y, weight)
