"""The linear support vector classifier by stochastic gradient descent."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from buttress._callbacks import all_or_nothing, with_callbacks
from buttress._checks import (
    NotConvergedWarning,
    check_classes,
    check_known,
    check_number,
    check_option,
    warn_user,
)
from buttress._documented import ADVICE, advises
from buttress._state import Attribute, Later, State, one_or_each
from buttress._types import DenseOrSparse, Labels, MatrixLike, RandomStateLike, Rows, is_csr
from buttress._weights import check_weights, class_weights
from buttress.certainty.probabilities import KEPT
from buttress.linear import Course, LinearFit, LinearMachine
from buttress.solvers.linear.primal import LinearProblem, Rate, chosen_rate, default_rate
from buttress.solvers.linear.stochastic import SuffixMean, Walk, blocks, draws, merged, stochastic_descent

IDLE = 0.99  # of the objective of the best constant


@advises(**ADVICE["StochasticLinearSVC"])
@dataclass(kw_only=True, eq=False, repr=False)
class StochasticLinearSVC(LinearMachine):
    """The machine of :class:`LinearSVC` by stochastic gradient descent: cheap steps on one row at a time, no proof.

    For hundreds of thousands of rows, and for streams (:meth:`partial_fit`).

    Parameters
    ----------
    C, loss, fit_intercept, class_weight, max_time, progress
        As in :class:`LinearSVC`.
    schedule : {"inverse", "constant", "pegasos"}, default="inverse"
        Step lengths: eta0 / (1 + decay t), eta0, or eta0 / (1 + eta0 t / (nC)).
    eta0, decay : float or None
        First step length, < nC, and its decay, >= 0, in the scale of the mean of the losses. None chooses them from the
        data by the formula for the best rate (see :func:`buttress.solvers.linear.primal.default_rate`).
    average : bool, default=True
        Return the mean of the later iterates instead of the last one.
    tol : float, default=1e-4
        Stop when the objective has changed by less than this share of itself since half as many steps.
    max_iter : int or None, default=1000
        Most passes over the distinct rows; per class.
    random_state : int, RandomState or None
        Of the order of the rows.

    Notes
    -----
    Rows are drawn in proportion to their ``sample_weight``. With up to 10,000 rows ``fit`` merges equal rows, and the
    order of rows does not matter. With more rows, and in ``partial_fit``, weights and repetitions agree in
    distribution, not draw by draw.

    References
    ----------
    Shalev-Shwartz, Singer, Srebro & Cotter, Pegasos, Mathematical Programming 127, 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from buttress import StochasticLinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = StochasticLinearSVC(C=0.01, random_state=0).fit(scale(X), y)
    >>> bool(model.score(scale(X), y) > 0.95)
    True
    """

    _state = State(
        Attribute("converged_", "bool", meaning="Whether ``tol`` was met, which proves nothing.", when="after fit"),
        Attribute("n_iter_", "count",
                  meaning="Blocks of rows taken, a sixteenth of a pass or a whole one, of the class that took most; of "
                          "``partial_fit``, calls."),
        Attribute("history_", "history", when="after fit",
                  meaning="After each block, of the last class: the change of the objective since half as many, and "
                          "the objective of at most 5,000 rows."),
        Attribute("_walks", "part", of="Walk, SuffixMean", shares="n_features"),
        Attribute("_rng", "any", when="after partial_fit"),
        Attribute("_lam", "nonnegative", when="after partial_fit"),
        Attribute("_steps", "part", of="Rate", when="after partial_fit"))

    primal_objective_ = Later[Any]()

    schedule: str = "inverse"
    eta0: float | None = None
    decay: float | None = None
    average: bool = True
    random_state: RandomStateLike = None

    @all_or_nothing
    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "StochasticLinearSVC":
        """Fit to X of shape (n, d), dense or sparse, and class labels y of shape (n,); returns self.

        Raises ValueError as :class:`LinearSVC` does.
        """
        self._check_steps()
        task = self._task(X, y, sample_weight)
        self._walks: list[tuple[Walk, SuffixMean]] = []
        rng = check_random_state(self.random_state)

        def course(problem: LinearProblem) -> Course:
            problem, rows = merged(problem)
            steps = stochastic_descent(problem, self._rate(problem, rows), average=self.average, rng=rng, rows=rows)
            return Course(problem, steps, blocks(len(rows)))

        fits = self._solve(task, course)
        _warn_idle(task.X, fits)
        proven = partial(_objectives, fits)  # takes as long as the steps
        self.primal_objective_ = proven if task.X.size <= KEPT else proven()
        self._keep_left_out(task, fits, [None] * len(task.problems))
        return self

    def _check_steps(self) -> None:
        """Check all parameters."""
        self._check()
        check_option("schedule", self.schedule, ("inverse", "constant", "pegasos"))
        if self.eta0 is not None:
            check_number("eta0", self.eta0, 0)
        if self.decay is not None:
            check_number("decay", self.decay, 0, closed="left")
            if self.schedule != "inverse":
                raise ValueError(f"decay belongs to schedule='inverse'. Got decay={self.decay!r} with "
                                 f"schedule={self.schedule!r}. Leave decay=None.")

    def _rate(self, problem: LinearProblem, rows: Rows) -> Rate:
        """Return the step lengths that the parameters name."""
        return chosen_rate(default_rate(problem, rows), problem, self.schedule, self.eta0, self.decay)

    @all_or_nothing
    def partial_fit(
        self, X: MatrixLike, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> "StochasticLinearSVC":
        """Take one more pass of stochastic steps, over the rows X (m, d) with labels y (m,); returns self.

        The first call needs all ``classes`` (labels that may come), and sets the step lengths and the weight 1/(mC) of
        the norm against the mean loss for all calls to come. After ``fit`` it goes on from the fitted model.
        """
        self._check_steps()
        first = not getattr(self, "_walks", None)
        checked, labels = self._checked(X, y, min_rows=1, reset=not hasattr(self, "coef_"))
        codes = self._known_classes(labels, classes, first)
        weight = check_weights(sample_weight, checked, leave_out=True)
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

    def _known_classes(self, y: Labels, classes: ArrayLike | None, first: bool) -> Rows:
        """Return the class numbers of y; the first call learns the classes."""
        if first and not (classes is None and hasattr(self, "coef_")):
            if classes is None:
                raise ValueError("The first call of partial_fit needs classes, all labels that may come. Got None.")
            self.classes_, _ = check_classes(np.asarray(classes), type(self).__name__)
        return check_known(y, self.classes_, classes)

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


def _warn_idle(X: DenseOrSparse, fits: Sequence[LinearFit]) -> None:
    """Warn where a plane is hardly better than a constant and columns are of different size or far from 0."""
    squares = X.multiply(X).sum(axis=0) if is_csr(X) else np.einsum("ij,ij->j", X, X, dtype=np.float64)
    size = np.asarray(squares).ravel() / X.shape[0]
    spread = size - np.square(np.asarray(X.mean(axis=0, dtype=np.float64)).ravel())
    ratio = size.max() / spread.min(where=spread > 0, initial=np.inf)
    if ratio > 1e4 and any(_says_nothing(fit) for fit in fits):
        warn_user("The fit is hardly better than a constant on its own rows: with columns so different in size, or so "
                  "far from 0, steps learn next to nothing. Scale them (StandardScaler), or use LinearSVC.",
                  NotConvergedWarning)


def _says_nothing(fit: LinearFit) -> bool:
    """Return whether the objective is hardly lower than that of the best constant."""
    problem, w, b = cast(LinearProblem, fit.problem), fit.plane.w, fit.plane.b
    plus, minus = (float(problem.bound[own].sum()) for own in (problem.y > 0, problem.y < 0))
    best = (plus - minus) / (plus + minus) if problem.squared else float(np.sign(plus - minus))
    constant = problem.slack(np.zeros_like(w), best)
    return problem.primal(w, problem.slack(w, b)) >= IDLE * problem.primal(np.zeros_like(w), constant)


def _objectives(fits: list[LinearFit]) -> Any:
    """Return an upper bound of the objective of each."""
    return one_or_each(fit.bounds()[0] for fit in fits)
