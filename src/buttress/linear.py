"""The linear support vector classifier in the primal: exact, by gradient descent, or by stochastic gradient descent."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from buttress._callbacks import CallbackSupportMixin, Report, showing, step_callback, with_callbacks
from buttress._checks import (
    Array,
    NotConvergedWarning,
    check_classes,
    check_known,
    check_limits,
    check_number,
    check_option,
    check_X,
    check_X_y,
    warn_user,
)
from buttress._documented import LINEAR, advises
from buttress._rows import equal_rows
from buttress._state import Attribute, State, one_or_each
from buttress._types import DenseOrSparse, Mask, MatrixLike
from buttress._weights import check_weights, class_weights
from buttress.certainty.calibration import HeldOut
from buttress.certainty.left_out import left_out_scores
from buttress.certainty.probabilities import Certainty, Probabilities
from buttress.expansion import KernelExpansion, binary_contrasts, rival_contrasts
from buttress.kernels import Linear
from buttress.solvers.linear.one_machine import SOLVERS, Hyperplane, chosen_solver, course, hyperplane, machine_of
from buttress.solvers.linear.primal import LinearProblem, Rate, chosen_rate, default_rate
from buttress.solvers.linear.stochastic import SuffixMean, Walk, draws
from buttress.solvers.run import all_or_nothing, countdown, run


class _HasSolver(Protocol):
    solver: str


def _is_stochastic(estimator: _HasSolver) -> bool:
    if estimator.solver != "sgd":
        raise AttributeError(f"partial_fit needs solver='sgd'. Got solver={estimator.solver!r}.")
    return True


@advises(**LINEAR)
@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(Probabilities, CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """Linear support vector classifier with an intercept that is not penalised.

    Minimises 1/2 ||w||^2 + sum_i C_i l(1 - y_i (w'x_i + b)), C_i = C * class weight * sample weight, with l(u) =
    max(0, u) ("hinge") or max(0, u)^2 ("squared_hinge"). Of more than two classes each is set against the rest.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm, > 0. The strong convexity of the mean of the losses is 1/(nC).
    loss : {"hinge", "squared_hinge"}, default="hinge"
    solver : {"auto", "newton", "dual", "gd", "sgd"}, default="auto"
        "newton" reaches the optimum to rounding. "dual" takes one multiplier at a time, for sparse rows of many columns
        (text) of about one length: columns that differ much in scale make it slow. "gd" takes full (sub)gradient steps,
        "sgd" steps on one row at a time. "auto" is "dual" for a sparse X of more than 1,000 rows and columns, else
        "newton".
    schedule : {"inverse", "constant", "pegasos"}, default="inverse"
        Step lengths of "gd" and "sgd": eta0 / (1 + decay t), eta0, or eta0 / (1 + eta0 t / (nC)).
    eta0, decay : float or None
        First step length, < nC, and its decay, >= 0, in the scale of the mean of the losses. None chooses them from the
        data by the lecture's formula for the best rate (see :func:`buttress.solvers.linear.primal.default_rate`).
    average : bool, default=True
        Return the mean of the later iterates of "sgd" instead of the last one.
    fit_intercept : bool, default=True
        Whether b is free, or 0.
    class_weight : dict, "balanced" or None
        As in scikit-learn.
    tol : float, default=1e-4
        "newton", "dual" and "gd" stop at this relative duality gap; "sgd" when the objective has changed by less than
        this share of itself since half as many steps.
    max_iter : int or None, default=1000
        Most Newton steps, gradient steps, or passes over the rows (of "sgd", the distinct ones), or None; per class.
    max_time : float or None
        Most seconds a fit.
    random_state : int, RandomState or None
        Of the order of the rows in "sgd".
    progress : bool, default=False
        Show a progress line.

    Notes
    -----
    ``sample_weight`` multiplies C row by row, exactly, in every solver: a row of weight two is two equal rows. "sgd"
    draws rows in proportion to their weight. In a ``fit`` of up to 10,000 rows it takes equal ones as one, and their
    order does not matter; beyond, and in ``partial_fit``, weights and repetitions agree in law, not draw by draw.

    References
    ----------
    Chapelle, Training a support vector machine in the primal, Neural Computation 19, 2007. Shalev-Shwartz, Singer,
    Srebro & Cotter, Pegasos, Mathematical Programming 127, 2011. Hsieh et al., A dual coordinate descent method for
    large-scale linear SVM, ICML 2008.

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
        Attribute("coef_", "finite", "n_scores, n_features", "One row for two classes, else one a class."),
        Attribute("intercept_", "finite", "n_scores"),
        Attribute("primal_objective_", "real", "one or n_scores",
                  "The objective as stated above; a number for two classes.",
                  when="after fit"),
        Attribute("dual_objective_", "real", "one or n_scores",
                  'A lower bound of the optimum; minus infinity for "sgd".',
                  when="after fit"),
        Attribute("dual_gap_", "real", "one or n_scores", 'Their difference; infinity for "sgd", which has no dual '
                                                          "point.",
                  when="after fit"),
        Attribute("dual_coef_", "finite", "n_scores, n_rows",
                  "The dual point of ``dual_objective_``: y_i a_i of each row.", when='for solvers other than "sgd"'),
        Attribute("converged_", "bool", meaning='Whether ``tol`` was met, which for "sgd" proves '
                                                "nothing.", when="after fit"),
        Attribute("n_iter_", "count",
                  meaning="Newton steps, gradient steps or passes begun, of the class that took most."),
        Attribute("history_", "history", when="after fit",
                  meaning="After each step, of the last class. The gap is a certificate: the relative duality gap, "
                          'which the distance to the optimum cannot exceed. "sgd" has instead the change of the '
                          "objective since half as many steps, and its objective is that of at most 5,000 rows."),
        Attribute("_walks", "part", of="Walk, SuffixMean", shares="n_features"),
        Attribute("_rng", "any", when="after partial_fit"),
        Attribute("_lam", "nonnegative", when="after partial_fit"),
        Attribute("_steps", "part", of="Rate", when="after partial_fit"))

    C: float = 1.0
    loss: str = "hinge"
    solver: str = "auto"
    schedule: str = "inverse"
    eta0: float | None = None
    decay: float | None = None
    average: bool = True
    fit_intercept: bool = True
    class_weight: Mapping[Any, float] | str | None = None
    tol: float = 1e-4
    max_iter: int | None = 1000
    max_time: float | None = None
    random_state: int | np.random.RandomState | None = None
    progress: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "LinearSVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError for parameters out of range, NaN, inf or entries beyond 1e100 (naming the column), fewer than
        two classes, or negative weights.
        """
        self._check_parameters()
        rows, labels = self._checked(X, y)
        self.classes_, codes = check_classes(labels, "LinearSVC")
        weight = check_weights(sample_weight, rows)
        bound = self.C * weight * class_weights(self.class_weight, self.classes_, codes, weight)[codes]
        report = step_callback(self, rows, labels, None)
        counted = bound > 0
        if not counted.all():
            rows, codes, bound = rows[counted], codes[counted], bound[counted]
        rng = check_random_state(self.random_state)
        self._walks: list[tuple[Walk, SuffixMean]] = []
        left = countdown(self.max_time)
        problems = [self._problem(rows, codes, bound, positive) for positive in self._positives()]
        fits: list[Hyperplane] = []
        for problem in problems:
            fits.append(self._fit_class(problem, report, rng, left, fits, inner=problem is not problems[-1]))
        self._set_solution(fits)
        self._keep_dual(fits, problems, counted)
        groups = equal_rows(rows, codes)
        scores = [left_out_scores(problem, fit.w, fit.b, fit.multipliers, groups)
                  for problem, fit in zip(problems, fits, strict=True)]
        self._certainty = Certainty(HeldOut(np.stack(scores, axis=1), codes, bound / self.C, len(self.classes_)))
        return self

    def _check_parameters(self) -> None:
        check_number("C", self.C, 0)
        check_option("loss", self.loss, ("hinge", "squared_hinge"))
        check_option("solver", self.solver, SOLVERS)
        check_option("schedule", self.schedule, ("inverse", "constant", "pegasos"))
        if self.eta0 is not None:
            check_number("eta0", self.eta0, 0)
        if self.decay is not None:
            check_number("decay", self.decay, 0, closed="left")
            if self.schedule != "inverse":
                raise ValueError(f"decay belongs to schedule='inverse'. Got decay={self.decay!r} with "
                                 f"schedule={self.schedule!r}. Leave decay=None.")
        check_number("tol", self.tol, 0)
        check_limits(self.max_iter, self.max_time)

    def _checked(
        self, X: MatrixLike, y: ArrayLike, *, min_rows: int = 2, reset: bool = True
    ) -> tuple[DenseOrSparse, NDArray[Any]]:
        """Check X and y; dense rows come back contiguous and writable, as the compiled steps want them."""
        rows, labels = check_X_y(self, X, y, sparse=True, min_rows=min_rows, reset=reset)
        return rows if issparse(rows) else np.require(rows, requirements=("C", "W")), labels

    def _positives(self) -> list[int]:
        """Numbers of the classes that have a score of their own."""
        return [1] if len(self.classes_) == 2 else list(range(len(self.classes_)))

    def _problem(self, X: DenseOrSparse, codes: NDArray[np.intp], bound: Array, positive: int) -> LinearProblem:
        return LinearProblem(X, np.where(codes == positive, 1.0, -1.0), bound, self.loss == "squared_hinge",
                             bool(self.fit_intercept))

    def _rate(self, problem: LinearProblem, rows: NDArray[np.intp] | None = None) -> Rate:
        """Return the step lengths that the parameters name."""
        return chosen_rate(default_rate(problem, rows), problem, self.schedule, self.eta0, self.decay)

    def _fit_class(
        self, problem: LinearProblem, report: Report, rng: np.random.RandomState,
        left: Callable[[], float | None], before: list[Hyperplane], *, inner: bool,
    ) -> Hyperplane:
        """Solve one class against the rest; ``inner`` as in :func:`run`. The last is a model with those ``before``."""
        solver = chosen_solver(self.solver, problem.X)
        problem, steps, each = course(solver, problem, self._rate, average=self.average, rng=rng,
                                     most=self.max_iter)
        if not inner:
            report = showing(report, lambda step: _beside(before, *hyperplane(solver, problem, step.state)))
        outcome = run(steps, tol=self.tol, max_iter=None if self.max_iter is None else self.max_iter * each,
                      max_time=left(), callback=report, progress=self.progress, name=f"LinearSVC(solver={solver!r})",
                      inner=inner)
        if outcome.status == "exhausted":
            warn_user(f"Newton's method stopped at a relative gap of {outcome.gap:.3g} > tol {self.tol:.3g}: "
                      "rounding leaves nothing to gain. Scale the columns or raise tol.", NotConvergedWarning)
        return machine_of(solver, problem, outcome)

    def _set_solution(self, fits: list[Hyperplane]) -> None:
        self.coef_ = np.stack([fit.w for fit in fits])
        self.intercept_ = np.array([fit.b for fit in fits])
        primal = np.array([fit.primal for fit in fits])
        dual = np.array([fit.dual for fit in fits])
        for name, values in (("primal_objective_", primal), ("dual_objective_", dual), ("dual_gap_", primal - dual)):
            setattr(self, name, one_or_each(values))
        self.converged_ = all(fit.outcome.converged for fit in fits)
        self.n_iter_ = max(fit.outcome.n_iter for fit in fits)
        self.history_ = fits[-1].outcome.history

    def _keep_dual(self, fits: list[Hyperplane], problems: list[LinearProblem], counted: Mask) -> None:
        """Keep y_i a_i of every row, with which anyone can prove the dual objectives again."""
        self.__dict__.pop("dual_coef_", None)
        signed = [problem.y * fit.multipliers for problem, fit in zip(problems, fits, strict=True)
                  if fit.multipliers is not None]
        if signed:
            self.dual_coef_ = np.zeros((len(signed), len(counted)))
            self.dual_coef_[:, counted] = signed

    @available_if(_is_stochastic)
    @all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "LinearSVC":
        """Take one more pass of stochastic steps, over the rows X (m, d) with labels y (m,); returns self.

        The first call needs all ``classes`` (labels that may come), and sets the step lengths and the weight 1/(mC) of
        the norm against the mean loss for all calls to come. After ``fit`` it goes on from the fitted model.
        """
        self._check_parameters()
        first = not getattr(self, "_walks", None)
        checked, labels = self._checked(X, y, min_rows=1, reset=not hasattr(self, "coef_"))
        codes = self._known_classes(labels, classes, first)
        weight = check_weights(sample_weight, checked)
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all rows at once. Give partial_fit a dict of weights.")
        n_classes = len(self.classes_)
        per_class = class_weights(self.class_weight, self.classes_, np.arange(n_classes), np.ones(n_classes))
        bound = self.C * weight * per_class[codes]
        if first:
            self._start(self._problem(checked, codes, bound, 0))
        bound *= 1 / (self._lam * bound.sum())
        for name in ("coef_", "intercept_", "_walks", "_rng"):  # changed in place below
            setattr(self, name, copy.deepcopy(getattr(self, name)))
        self.__dict__.pop("_certainty", None)  # the rows it was made from are not these
        rows = next(draws(bound / bound.sum(), self._rng, whole=True))
        for column, positive in enumerate(self._positives()):
            walk, mean = self._walks[column]
            problem = self._problem(checked, codes, bound, positive)
            mean.add(walk.steps(problem, self._steps, rows), len(rows))
            z = mean.value if self.average else walk.iterate
            self.coef_[column] = z[:-1]
            self.intercept_[column] = z[-1]
        self.n_iter_ += 1
        return self

    def _known_classes(self, y: NDArray[Any], classes: ArrayLike | None, first: bool) -> NDArray[np.intp]:
        """Return the class numbers of y; the first call learns the classes."""
        if first and not (classes is None and hasattr(self, "coef_")):
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes, all labels that may come. Got None.")
            self.classes_, _ = check_classes(np.asarray(classes), "LinearSVC")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_}. Got {classes!r}.")
        return check_known(y, self.classes_)

    def _start(self, problem: LinearProblem) -> None:
        """Set what all calls of ``partial_fit`` share."""
        d, columns = problem.X.shape[1], len(self._positives())
        self._rng, self._lam = check_random_state(self.random_state), problem.lam
        self._steps = self._rate(problem, np.arange(len(problem.y)))
        if not hasattr(self, "coef_"):
            self.coef_ = np.zeros((columns, d))
            self.intercept_ = np.zeros(columns)
            self.n_iter_ = 0
        starts = zip(self.coef_, self.intercept_, strict=True)
        self._walks = [(Walk.start(w, b), SuffixMean(d + 1)) for w, b in starts]

    @property
    def expansion_(self) -> KernelExpansion:
        """The scores as an expansion in the linear kernel, for attacks."""
        check_is_fitted(self)
        return KernelExpansion(Linear(), self.coef_, np.eye(len(self.coef_)), self.intercept_)

    @property
    def contrasts_(self) -> Array:
        """The contrasts of scores that decide, for attacks."""
        check_is_fitted(self)
        return binary_contrasts() if len(self.coef_) == 1 else rival_contrasts(len(self.classes_))

    def decision_function(self, X: MatrixLike) -> Array:
        """Return the scores of X (n, d): (n,) for two classes, positive for ``classes_[1]``, else (n, n_classes)."""
        check_is_fitted(self)
        rows = check_X(self, X, sparse=True)
        scores = np.asarray(rows @ self.coef_.T) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: MatrixLike) -> NDArray[Any]:
        """Return the class of each row of X (n, d)."""
        _, best = self._scores_of(X)
        return self.classes_[best]

    def _scores_of(self, X: MatrixLike) -> tuple[Array, NDArray[np.intp]]:
        """Return the scores (n, k) and the number of the class predicted (n,)."""
        scores = self.decision_function(X)
        two = scores.ndim == 1
        return (scores[:, None], (scores > 0).astype(np.intp)) if two else (scores, scores.argmax(axis=1))


def _beside(before: list[Hyperplane], w: Array, b: float) -> dict[str, Array]:
    """Return the attributes of a hyperplane beside those of the classes before it."""
    return {
        "coef_": np.stack([*(fit.w for fit in before), w]),
        "intercept_": np.array([*(fit.b for fit in before), b]),
    }
