"""The exact linear support vector classifier."""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, Report, all_or_nothing, showing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    NotConvergedWarning,
    check_classes,
    check_limits,
    check_number,
    check_option,
    check_X_y,
    warn_user,
)
from buttress._documented import ADVICE, advises
from buttress._predicting import JOINT, Liblinear, PlanePredictions, beside, dense
from buttress._rows import equal_rows
from buttress._state import Attribute, State, one_or_each
from buttress._types import ClassWeight, DenseOrSparse, Mask, MatrixLike, Rows, is_csr
from buttress._weights import check_weights, class_weights, loss_weights
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import joint_left_out, left_out_scores, sparse_left_out
from buttress.certainty.probabilities import KEPT, Certainty, Probabilities
from buttress.solvers.linear.coordinates import coordinate_descent
from buttress.solvers.linear.newton import multiplier_newton
from buttress.solvers.linear.penalised import JointProblem, SparseProblem, joint_descent, sparser
from buttress.solvers.linear.primal import LinearProblem, Plane
from buttress.solvers.run import Outcome, Step, Steps, countdown, run

SOLVERS = ("auto", "newton", "dual")
MANY = 1000  # sparse rows and columns: with more of both, systems of equations cost more than passes over the entries
Problem = LinearProblem | SparseProblem | JointProblem


class Course(NamedTuple):
    """The steps of a solver on a problem, whose states are planes, and how many of them count as one iteration."""

    problem: Problem
    steps: Steps
    each: int = 1


class LinearFit(NamedTuple):
    """The plane that a run ended with."""

    problem: Problem
    plane: Plane
    outcome: Outcome

    def bounds(self, multipliers: Array | None = None) -> tuple[float, float]:
        """Return proven bounds: of its objective, and of the optimum from feasible multipliers."""
        return self.problem.proven(self.plane.w, self.plane.b, multipliers)


@dataclass(frozen=True)
class TrainingTask:
    """Checked training data: the rows with a C_i, one problem a score, the seconds left, and who is told of steps.

    ``counted`` says which of all rows these are.
    """

    X: DenseOrSparse
    codes: Rows
    bound: Array
    counted: Mask
    problems: Sequence[Any]  # each a Problem
    left: Callable[[], float | None]
    report: Report


@dataclass(kw_only=True, eq=False, repr=False)
class LinearFits(CallbackSupportMixin, BaseEstimator, ABC):
    """The parameters of all linear machines, documented at :class:`LinearSVC`, and how their problems are solved."""

    _losses: ClassVar[tuple[str, str]] = ("hinge", "squared_hinge")

    C: float = 1.0
    loss: str = "hinge"
    fit_intercept: bool = True
    tol: float = 1e-4
    max_iter: int | None = 1000
    max_time: float | None = None
    progress: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check(self) -> None:
        """Check the parameters above."""
        check_number("C", self.C, 0)
        check_option("loss", self.loss, self._losses)
        check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)

    def _checked(
        self, X: MatrixLike, y: ArrayLike, *, min_rows: int = 2, reset: bool = True, numeric_target: bool = False
    ) -> tuple[DenseOrSparse, NDArray[Any]]:
        """Check X and y; dense rows come back contiguous and writable, as the compiled steps want them."""
        rows, labels = check_X_y(self, X, y, sparse=True, min_rows=min_rows, reset=reset,
                                 numeric_target=numeric_target)
        return rows if issparse(rows) else np.require(rows, requirements=("C", "W")), labels

    def _run(self, task: TrainingTask, course: Callable[[Any], Course]) -> list[LinearFit]:
        """Solve each problem on its course; the steps of the last one are models."""
        fits: list[LinearFit] = []
        for problem in task.problems:
            made = course(problem)
            last = problem is task.problems[-1]
            report = showing(task.report, partial(_model, [*fits])) if last else task.report
            most = None if self.max_iter is None else self.max_iter * made.each
            outcome = run(made.steps, tol=self.tol, max_iter=most, max_time=task.left(), callback=report,
                          progress=bool(self.progress or getattr(self, "verbose", False)), name=type(self).__name__,
                          inner=not last)
            if outcome.status == "exhausted":
                warn_user(f"The solver stopped at a relative gap of {outcome.gap:.3g} > tol {self.tol:.3g}: rounding, "
                          "or max_iter, leaves nothing to gain. Scale the columns or raise tol.", NotConvergedWarning)
            fits.append(LinearFit(made.problem, outcome.state, outcome))
        self.converged_ = all(fit.outcome.converged for fit in fits)
        self.n_iter_ = max(fit.outcome.n_iter for fit in fits)
        self.history_ = fits[-1].outcome.history
        return fits


@dataclass(kw_only=True, eq=False, repr=False)
class LinearMachine(PlanePredictions, Probabilities, ClassifierMixin, LinearFits, ABC):
    """The classes of both linear classifiers and how they predict."""

    _state = State(
        Attribute("primal_objective_", "real", "one or n_scores",
                  "An upper bound of the objective as stated above; a number for two classes.", when="after fit"))

    class_weight: ClassWeight = None

    def _task(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None) -> TrainingTask:
        """Return what is to be solved, and set ``classes_``."""
        left = countdown(self.max_time)
        rows, labels = self._checked(X, y)
        self.classes_, codes = check_classes(labels, type(self).__name__)
        weight = check_weights(sample_weight, rows, leave_out=True)
        of_classes = class_weights(self.class_weight, self.classes_, codes, weight)
        report = step_callback(self, rows, labels, None)
        counted = weight > 0
        bound = loss_weights(self.C, (weight * of_classes[codes])[counted])
        if not counted.all():
            rows, codes = rows[counted], codes[counted]
        elif rows.size <= KEPT:
            rows = rows.copy()  # the caller may change theirs before the scores of rows left out are asked for
        problems = [self._problem(rows, codes, bound, positive) for positive in self._positives()]
        return TrainingTask(rows, codes, bound, counted, problems, left, report)

    def _positives(self) -> list[int]:
        """Numbers of the classes that have a score of their own."""
        return [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))

    def _problem(self, X: DenseOrSparse, codes: NDArray[np.intp], bound: Array, positive: int) -> LinearProblem:
        return LinearProblem(X, np.where(codes == positive, 1.0, -1.0), bound, self.loss == "squared_hinge",
                             bool(self.fit_intercept))

    def _solve(self, task: TrainingTask, course: Callable[[Any], Course]) -> list[LinearFit]:
        """Solve each problem on its course, and set the planes; the steps of the last one are models."""
        fits = self._run(task, course)
        self.coef_ = np.vstack([fit.plane.w for fit in fits])
        self.intercept_ = np.hstack([fit.plane.b for fit in fits])
        return fits

    def _keep_left_out(
        self, task: TrainingTask, fits: list[LinearFit], multipliers: Sequence[Array | None],
        left_out: Callable[..., Array] = left_out_scores,
    ) -> None:
        """Keep what the scores of rows left out are made of, of which probabilities are made."""
        weight = task.bound / self.C
        n_classes = len(self.classes_)

        def held() -> HeldOut:
            groups = equal_rows(task.X, task.codes)
            scores = [left_out(problem, fit.plane.w, fit.plane.b, a, groups)
                      for problem, fit, a in zip(task.problems, fits, multipliers, strict=True)]
            return HeldOut(np.column_stack(scores), task.codes, weight, n_classes, row=np.flatnonzero(task.counted),
                           given=len(task.counted))

        self._certainty = Certainty(held if task.X.size <= KEPT else held())


@advises(**ADVICE["LinearSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(Liblinear, LinearMachine):
    """Linear support vector classifier with an intercept that is not penalised, exact, with an optimality gap.

    Minimises 1/2 ||w||^2 + sum_i C_i l(1 - y_i (w'x_i + b)), C_i = C * class weight * sample weight, with l(u) = max(0,
    u) ("hinge") or max(0, u)^2 ("squared_hinge"). With more than two classes each is trained against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm, > 0.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    solver : {"auto", "newton", "dual"}, default="auto"
        "newton" can reach ``tol=1e-10``. "dual" updates one multiplier at a time, for sparse rows of many columns
        (text) with about the same length; it is slow if columns have very different scales. "auto" is "dual" for a
        sparse X of more than 1,000 rows and columns, otherwise "newton".
    fit_intercept : bool, default=True
        Whether b is free, or 0.
    class_weight : dict, "balanced" or None
        Factors of the rows of each class, in the problems of all classes (in scikit-learn only in that of their own
        class).
    tol : float, default=1e-4
        Stop at this relative duality gap.
    max_iter : int or None, default=1000
        Most Newton steps, or passes over the rows, for each class; a started block is finished.
    max_time : float or None
        Most seconds a fit.
    progress, verbose : bool, default=False
        Show a progress line.
    penalty : {"l2", "l1"}, default="l2"
        "l1", with ``loss="squared_hinge"``, is liblinear's machine that selects columns, with our proof of its gap:
        ||w||_1 + |b| / intercept_scaling in place of 1/2 ||w||^2. liblinear runs with smaller and smaller tolerances;
        ``max_iter`` is for each run, and ``n_iter_`` counts the runs.
    multi_class : {"ovr", "crammer_singer"}, default="ovr"
        "crammer_singer", with the hinge, is one problem of all classes: 1/2 sum_c ||w_c||^2 + 1/2 sum_c (b_c /
        intercept_scaling)^2 + sum_i C_i max(0, 1 + max_{c != y_i} f_c(x_i) - f_{y_i}(x_i)). For two classes ``coef_``
        is the difference of the planes.
    intercept_scaling : float, default=1.0
        Only for these two, which penalise the intercept as liblinear does; otherwise without effect.
    dual, random_state
        Accepted without effect, because nothing is drawn at random. ``dual`` is refused where scikit-learn refuses it.

    Notes
    -----
    ``sample_weight`` multiplies C row by row, exactly: a row of weight two is two equal rows.

    References
    ----------
    Chapelle, Training a support vector machine in the primal, Neural Computation 19, 2007. Hsieh et al., A dual
    coordinate descent method for large-scale linear SVM, ICML 2008.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from buttress import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> bool(model.dual_gap_ <= 1e-4 * model.primal_objective_)
    True
    """

    _state = State(
        Attribute("dual_objective_", "real", "one or n_scores", "A lower bound of the optimum."),
        Attribute("dual_gap_", "real", "one or n_scores", "Their difference. Proven in floating point."),
        Attribute("dual_coef_", "finite", "n_scores, n_rows",
                  "The dual point of ``dual_objective_``: y_i a_i of each row, from which anyone can check it. With "
                  "\"crammer_singer\" what each row adds to each class's plane, for two classes to the second's."),
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met."),
        Attribute("n_iter_", "count", meaning="Newton steps or passes, of the class that took most."),
        Attribute("history_", "history",
                  meaning="After each step, of the last class. The gap is the relative duality gap, an upper bound of "
                          "the distance to the optimum."))

    solver: str = "auto"
    multi_class: str = "ovr"

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LinearSVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or parameters that do not go together.
        """
        self._check()
        self._check_spelling()
        if self.solver in ("gd", "sgd"):
            raise ValueError(f"LinearSVC has no solver {self.solver!r}. Use StochasticLinearSVC, or another solver.")
        check_option("solver", self.solver, SOLVERS if self._penalises == "" else ("auto",))
        task = self._task(X, y, sample_weight)
        steps: Callable[[Any, int | None], Steps] = self._steps
        left_out: Callable[..., Array] = left_out_scores
        scale = float(self.intercept_scaling)
        if self._penalises == JOINT:
            scale *= bool(self.fit_intercept)
            task = replace(task, problems=[JointProblem(task.X, task.codes, task.bound, len(self.classes_), scale)])
            steps, left_out = joint_descent, joint_left_out
        elif self._penalises:
            task = replace(task, problems=[SparseProblem(rows, scale) for rows in task.problems])
            steps, left_out = sparser, sparse_left_out
        fits = self._solve(task, lambda problem: Course(problem, steps(problem, self.max_iter)))
        multipliers = [fit.problem.feasible(fit.outcome.state.multipliers) for fit in fits]
        self._keep_left_out(task, fits, multipliers, left_out)
        bounds = [fit.bounds(a) for fit, a in zip(fits, multipliers, strict=True)]
        self.primal_objective_ = one_or_each(primal for primal, _ in bounds)
        self.dual_objective_ = one_or_each(dual for _, dual in bounds)
        self.dual_gap_ = one_or_each(primal - dual for primal, dual in bounds)
        self.dual_coef_ = np.zeros((len(self.coef_), len(task.counted)))
        self.dual_coef_[:, task.counted] = np.vstack([fit.problem.y * a
                                                      for fit, a in zip(fits, multipliers, strict=True)])
        return self

    def sparsify(self) -> "LinearSVC":
        """Keep ``coef_`` as a CSR matrix, for weights that are mostly 0 (``penalty="l1"``); returns self."""
        check_is_fitted(self)
        self.coef_ = csr_matrix(self.coef_)
        return self

    def densify(self) -> "LinearSVC":
        """Keep ``coef_`` as an array again, as ``fit`` leaves it; returns self."""
        check_is_fitted(self)
        self.coef_ = dense(self.coef_)
        return self

    def _steps(self, problem: LinearProblem, most: int | None) -> Steps:
        automatic = "dual" if is_csr(problem.X) and min(problem.X.shape) > MANY else "newton"
        solver = automatic if self.solver == "auto" else self.solver
        return multiplier_newton(problem) if solver == "newton" else coordinate_descent(problem, most)


def _model(before: list[LinearFit], step: Step) -> dict[str, Array]:
    """Return the attributes of the model of a step of the last class."""
    return beside([(fit.plane.w, fit.plane.b) for fit in before], step.state.w, step.state.b)
